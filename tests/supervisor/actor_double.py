"""An actor of the supervisor's process whose clock, timers and threads are a test's."""

from __future__ import annotations

from collections.abc import Callable

from supervisor.workers import Then
from wire.frames.frame import Frame


class Host:
    """The actor and its mailbox: a clock, timers, what was sent; threads end before they are left."""

    def __init__(self) -> None:
        self.mailbox = self
        self.at_s = 1000.0
        self.timers: dict[str, float] = {}
        self.sent: list[Frame] = []

    def now_s(self) -> float:
        return self.at_s

    def wall_ms(self) -> int:
        return int(self.at_s * 1000) + 1_700_000_000_000

    def in_thread(self, _name: str, job: Callable[[], None]) -> None:
        job()

    def send_from_thread(self, message: Then) -> bool:
        message.do()
        return True

    def set_timer(self, name: str, at_s: float) -> None:
        self.timers[name] = at_s

    def cancel_timer(self, name: str) -> None:
        self.timers.pop(name, None)

    def send(self, _peer: str, frame: Frame) -> None:
        self.sent.append(frame)
