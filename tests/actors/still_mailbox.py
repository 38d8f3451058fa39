"""A mailbox without sockets and threads, for an actor and its parts on a clock that the test moves."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterator
from typing import Any

from pykka._envelope import Envelope

from actors.process.mailbox import Mailbox, TimerDue
from wire.frames.frame import Frame


class StillMailbox(Mailbox):
    """Its clock stands until the test moves it. sent: frames; watched: events by descriptor; timers: when, by name."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.clock_s = 1_000.0
        self.sent: list[Frame] = []
        self.watched: dict[int, int] = {}
        self.timers: dict[str, float] = {}
        self._told: deque[Envelope[Any]] = deque()

    def now_s(self) -> float:
        return self.clock_s

    def wall_ms(self) -> int:
        return int(self.clock_s * 1000)

    def random(self) -> float:
        return 0.5

    def in_thread(self, name: str, job: Callable[[], None]) -> None:
        job()

    def send(self, peer: str, frame: Frame) -> None:
        self.sent.append(frame)

    def watch(self, fd: int, events: int, token: Hashable) -> None:
        self.watched[fd] = events

    def forget(self, fd: int) -> None:
        del self.watched[fd]

    def set_timer(self, name: str, at_s: float) -> None:
        self.timers[name] = at_s

    def cancel_timer(self, name: str) -> None:
        self.timers.pop(name, None)

    def put(self, envelope: Envelope[Any]) -> None:
        self._told.append(envelope)

    def due(self) -> Iterator[object]:
        """The message that the actor is sent now."""
        while self._told:
            yield self._told.popleft().message
        while due := [(at_s, name) for name, at_s in self.timers.items() if at_s <= self.clock_s]:
            _, name = min(due)
            del self.timers[name]
            yield TimerDue(name, self.clock_s)
