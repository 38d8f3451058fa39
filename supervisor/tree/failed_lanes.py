"""Lanes that have failed too often in a process that others share, and so have one of their own. Pure."""

from __future__ import annotations

TIMES, WITHIN_S = 2, 60.0
QUIET_S = 86_400.0


class FailedLanes:
    """The failures of each lane, by the name of its child."""

    def __init__(self) -> None:
        self._failed_s: dict[str, list[float]] = {}

    def failed(self, lane: str, now_s: float) -> bool:
        """``lane`` has failed; whether that was once too often."""
        lately = [at_s for at_s in self._failed_s.get(lane, ()) if now_s - at_s <= WITHIN_S]
        self._failed_s[lane] = [*lately, now_s]
        return len(lately) + 1 >= TIMES

    def quiet_since_s(self) -> float:
        """The time of the last failure of any."""
        return max((each[-1] for each in self._failed_s.values()), default=0.0)
