"""Liveness: heartbeats by name, judged alive, late or dead.

Pure: the times are monotonic readings that the caller brings. The supervisor acts on a dead child.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from wire.config_settings import SettingsNow

LATE_S = 3.0  # who is heard as seldom as that is not late, however short the period is
STARTUP_TIMEOUT_S = 30.0  # a starting process loads its code and opens its files between two heartbeats


class Health(Enum):
    """The meaning of a child's silence."""

    ALIVE = "alive"
    LATE = "late"
    DEAD = "dead"


@dataclass(slots=True)
class _Heard:
    at_s: float
    timeout_s: float


class HeartbeatMonitor:
    """Judges silence. Heartbeats are due each ``period_s``; who is silent for ``timeout_s`` is dead.

    tree.nobody-dead-early [alive]: nobody is dead before ``timeout_s`` of silence, counted only while the judge itself was running.
        A child that is silent that long is dead at the first tick after it.
    """

    def __init__(self, settings: SettingsNow, now_s: float) -> None:
        self._settings = settings
        self._ticked_s = now_s
        self._heard: dict[str, _Heard] = {}

    @property
    def _period_s(self) -> float:
        return self._settings.now.supervision.heartbeat_period_s

    @property
    def _timeout_s(self) -> float:
        return self._settings.now.supervision.heartbeat_timeout_s

    def on_started(self, name: str, now_s: float) -> None:
        """A new life of ``name`` begins: until it is ``on_heard`` as ready it has ``STARTUP_TIMEOUT_S`` between heartbeats."""
        self._heard[name] = _Heard(now_s, max(self._timeout_s, STARTUP_TIMEOUT_S))

    def on_heard(self, name: str, now_s: float, *, starting: bool) -> None:
        """A heartbeat of ``name`` came at ``now_s``; names that were not ``on_started`` are ignored."""
        heard = self._heard.get(name)
        if heard is not None:
            heard.at_s = now_s
            heard.timeout_s = max(self._timeout_s, STARTUP_TIMEOUT_S) if starting else self._timeout_s

    def on_ended(self, name: str) -> None:
        """``name`` has ended; its silence means nothing any more."""
        self._heard.pop(name, None)

    def age_s(self, name: str, now_s: float) -> float | None:
        """Seconds since ``name`` was last heard, or started; None if it does not run."""
        heard = self._heard.get(name)
        return None if heard is None else max(0.0, now_s - heard.at_s)

    def judge(self, name: str, now_s: float) -> Health:
        """The meaning of the silence of ``name`` at ``now_s``; a name that does not run is dead."""
        heard = self._heard.get(name)
        if heard is None or now_s - heard.at_s >= heard.timeout_s:
            return Health.DEAD
        return Health.ALIVE if now_s - heard.at_s <= max(2 * self._period_s, LATE_S) else Health.LATE

    def tick(self, now_s: float) -> list[str]:
        """The names that are dead now. Call it at least once per ``period_s``.

        A tick that comes more than a period late says that the judge itself did not run (stopped, suspended, starved): the time
        it missed is nobody's silence, because what was sent meanwhile may be waiting unread.
        """
        missed_s = now_s - self._ticked_s - self._period_s
        self._ticked_s = now_s
        if missed_s > self._period_s:
            for heard in self._heard.values():
                heard.at_s = min(now_s, heard.at_s + missed_s)
        return [name for name in self._heard if self.judge(name, now_s) is Health.DEAD]
