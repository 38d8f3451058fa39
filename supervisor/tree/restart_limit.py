"""Restart decisions: who is started again, when, and when a crashing child ends the node.

Pure: times arrive as arguments, randomness inside the ``Backoff``. Starting and killing is done by ``child_processes.py`` on the
supervisor's word.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import Enum

from wire.backoff import Backoff
from wire.errors import ConfigError, StorageDamaged, Unavailable
from wire.status.states import ChildState

TIMES, WITHIN_S = 2, 60.0  # failures of a lane in a process that others share, and it has one of its own
QUIET_S = 86_400.0


class Verdict(Enum):
    """The consequence of a crash for the node."""

    RESTART = "restart"
    ESCALATE = "escalate"


@dataclass(slots=True)
class RestartWindow:
    """Allows ``restarts_max`` restarts in any ``period_s`` seconds; one more escalates."""

    restarts_max: int
    period_s: float
    _restarts_s: deque[float] = field(default_factory=deque, init=False)

    def judge(self, now_s: float) -> Verdict:
        """Count one crash at ``now_s``, a monotonic reading that the caller brings."""
        self._restarts_s.append(now_s)
        while now_s - self._restarts_s[0] > self.period_s:
            self._restarts_s.popleft()
        return Verdict.RESTART if len(self._restarts_s) <= self.restarts_max else Verdict.ESCALATE


@dataclass(frozen=True, slots=True)
class Restart:
    """Start the child again after ``delay_s`` seconds."""

    delay_s: float


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Leave the child down: starting it again cannot help. ``state`` is what ``bascule status`` shows."""

    state: ChildState


@dataclass(frozen=True, slots=True)
class Escalate:
    """End the node: the child crashed more often than its intensity allows."""


Decision = Restart | GiveUp | Escalate


class ChildRestarts:
    """The restarts of one child.

    tree.too-many-restarts-escalate [alive]: more crashes than the window allows escalate; ``Unavailable`` is the world's fault and
        does not count. The first crash after a stable life is answered at once, the next ones after growing delays;
        ``StorageDamaged`` and ``ConfigError`` never.
    """

    def __init__(self, window: RestartWindow, backoff: Backoff) -> None:
        self._window = window
        self._backoff = backoff
        self._crashes = 0

    def on_started(self, now_s: float) -> None:
        """A life of the child begins."""
        self._backoff.on_connected(now_s)

    def on_ended(self, exit_status: int, now_s: float) -> Decision:
        """Judge an end that nobody ordered; ``exit_status`` is negative for a signal."""
        if self._backoff.on_lost(now_s):
            self._crashes = 0
        if exit_status == StorageDamaged.exit_status:
            return GiveUp(ChildState.DAMAGED)
        if exit_status == ConfigError.exit_status:
            return GiveUp(ChildState.MISCONFIGURED)
        if exit_status == Unavailable.exit_status:
            return Restart(self._backoff.next_delay_s())
        if self._window.judge(now_s) is Verdict.ESCALATE:
            return Escalate()
        self._crashes += 1
        return Restart(0.0 if self._crashes == 1 else self._backoff.next_delay_s())


class FailedLanes:
    """The failures of each lane in a process that others share, by the name of its child."""

    def __init__(self) -> None:
        self._failed_s: dict[str, list[float]] = {}

    def failed(self, lane: str, now_s: float) -> bool:
        """``lane`` has failed; whether that was once too often."""
        self._failed_s[lane] = [*self._lately(lane, now_s), now_s]
        return len(self._failed_s[lane]) >= TIMES

    def has_failed(self, lane: str, now_s: float) -> bool:
        """Whether ``lane`` has failed lately."""
        return bool(self._lately(lane, now_s))

    def _lately(self, lane: str, now_s: float) -> list[float]:
        return [at_s for at_s in self._failed_s.get(lane, ()) if now_s - at_s <= WITHIN_S]
