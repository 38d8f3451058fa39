"""Whether a lane's link is to stand now: always, when something is to be sent, within certain hours. Pure.

A link that is not to stand is closed by choice, which is no trouble. Connecting is ``actors/bridge/remote_link.py``'s. Whether
enough waits is seen by the store (``wire/routing/awaited_lanes.py``), since nothing is handed out meanwhile.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from actors.bridge.dial_hours import DialHours
from wire.config_settings import WHEN_NEEDED, RemoteSettings

IDLE, HOURS_OVER = "nothing is to be sent", "its hours are over"  # why it leaves
_LOOK_S = 60.0  # at the clock, which may be set, and at the store, which may be another one


class Closure(NamedTuple):
    """Why a link is not to stand, in words. awaits: it is to, once enough waits."""

    reason: str
    awaits: bool = False


class DialPolicy:
    """That of one lane. bounded: the link is not always to stand."""

    def __init__(self, remote: RemoteSettings) -> None:
        self._when_needed = remote.when_needed if remote.dial == WHEN_NEEDED else None
        self._hours = DialHours(remote.hours, remote.time_zone) if remote.hours else None
        self._needed = self._when_needed is None
        self._activity: Hashable = None  # as it was seen last
        self._active_s = 0.0
        self.bounded = self._hours is not None or self._when_needed is not None

    def closure(self, wall_ms: int) -> Closure | None:
        """Why the link is not to stand at ``wall_ms``, UTC; None if it is."""
        if self._hours is not None and not (now := self._hours.at(wall_ms)).is_open:
            return Closure(f"outside its hours until {self._hours.shown(now.until_ms or 0)}")
        return None if self._needed else Closure(IDLE, awaits=True)

    def look_in_s(self, wall_ms: int) -> float:
        """Seconds after which ``closure`` or ``is_idle`` is to be asked again."""
        look_s = _LOOK_S
        if self._hours is not None and (until_ms := self._hours.at(wall_ms).until_ms) is not None:
            look_s = min(look_s, max(0.0, (until_ms - wall_ms) / 1000))
        return look_s if self._when_needed is None or not self._needed else min(look_s, self._when_needed.idle_s / 4)

    def on_needed(self) -> None:
        """The link is to stand: so much waits, subscriptions are to be given up, or an operator says so."""
        self._needed = True

    def on_connected(self, now_s: float) -> None:
        """The link stands."""
        self._active_s = now_s

    def is_idle(self, activity: Hashable, now_s: float) -> bool:
        """Whether the link is to end because ``activity`` is what it was, for long; None: something is under way."""
        if self._when_needed is None:
            return False
        if activity is None or activity != self._activity:
            self._activity, self._active_s = activity, now_s
        self._needed = now_s - self._active_s < self._when_needed.idle_s
        return not self._needed
