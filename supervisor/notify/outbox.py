"""Notices on their way: for each receiver those that it has not taken yet, in order, and the time of the next attempt. Pure.

A receiver gets one notice at a time. One that is away is tried again, ever less often. At most ``WAITING_MAX`` notices wait for
it, and the oldest goes for the newest then. What is older than ``GIVEN_UP_S`` is given up while it takes nothing. Both are counted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from supervisor.notify.notices import Notice
from wire.backoff import Backoff
from wire.clock_steps import elapsed_ms
from wire.config_settings import BackoffSettings

WAITING_MAX = 100  # for one receiver
GIVEN_UP_S = 86_400.0
RETRY = BackoffSettings(initial_s=5.0, max_s=600.0, factor=2.0, jitter=0.2, stable_s=0.0)


@dataclass(slots=True)
class OutboxCounts:
    """Since the process began."""

    sent: int = 0
    failed: int = 0
    given_up: int = 0


class _Receiver:
    def __init__(self, random: Callable[[], float]) -> None:
        self.waiting: deque[Notice] = deque()
        self.due_s = 0.0
        self.is_sending = False
        self.error = ""
        self.backoff = Backoff(RETRY, random)


class Outbox:
    """All receivers, by name."""

    def __init__(self, random: Callable[[], float]) -> None:
        """random: as of ``Backoff``."""
        self._random = random
        self._receivers: dict[str, _Receiver] = {}
        self.counts = OutboxCounts()

    def put(self, receiver: str, notice: Notice) -> None:
        """Have ``notice`` sent to ``receiver``."""
        one = self._receivers.setdefault(receiver, _Receiver(self._random))
        if len(one.waiting) >= WAITING_MAX:
            del one.waiting[1 if one.is_sending else 0]
            self.counts.given_up += 1
        one.waiting.append(notice)

    def next(self, now_s: float, now_ms: int) -> Iterator[tuple[str, Notice]]:
        """A notice for each receiver that has one and is to be tried now; ``on_sent`` or ``on_failed`` says what became of it."""
        for name, one in self._receivers.items():
            while one.error and one.waiting and not one.is_sending and elapsed_ms(one.waiting[0].at_ms, now_ms) > GIVEN_UP_S * 1000:
                one.waiting.popleft()
                self.counts.given_up += 1
            if one.waiting and not one.is_sending and now_s >= one.due_s:
                one.is_sending = True
                yield name, one.waiting[0]

    def on_sent(self, receiver: str) -> None:
        """It has taken the notice."""
        one = self._receivers[receiver]
        one.waiting.popleft()
        one.is_sending, one.due_s, one.error = False, 0.0, ""
        one.backoff.reset()
        self.counts.sent += 1

    def on_failed(self, receiver: str, error: str, now_s: float) -> None:
        """It has not, for that reason; it is tried again later."""
        one = self._receivers[receiver]
        one.is_sending, one.error = False, error
        one.due_s = now_s + one.backoff.next_delay_s()
        self.counts.failed += 1

    def keep_to(self, receivers: Iterable[str]) -> None:
        """Give up what waits for others."""
        wanted = set(receivers)
        self.counts.given_up += sum(len(one.waiting) for name, one in self._receivers.items() if name not in wanted)
        self._receivers = {name: one for name, one in self._receivers.items() if name in wanted}

    @property
    def waiting(self) -> list[tuple[str, Notice]]:
        """All that was not taken yet, in order."""
        return [(name, notice) for name, one in self._receivers.items() for notice in one.waiting]

    @property
    def errors(self) -> dict[str, str]:
        """Receivers that did not take the last notice, and why."""
        return {name: one.error for name, one in self._receivers.items() if one.error}
