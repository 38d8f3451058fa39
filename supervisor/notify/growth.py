"""Counts that only grow, and how much of that was lately. Pure."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from wire.trouble_kinds import TroubleKind

CALM_S = 60.0  # a count that has stood still for so long does not grow


@dataclass(frozen=True, slots=True)
class _Seen:
    """A count at a time."""

    at_s: float
    count: int


class Growth:
    """Counts that only grow: how much each has grown within the last minute. A count that is smaller has begun anew."""

    def __init__(self) -> None:
        self._seen: dict[tuple[TroubleKind, str], deque[_Seen]] = {}

    def within(self, kind: TroubleKind, about: str, count: int, now_s: float) -> int:
        """How much the count of ``kind`` and ``about``, which is ``count`` now, has grown within ``CALM_S``."""
        seen = self._seen.setdefault((kind, about), deque())
        if seen and seen[-1].count > count:
            seen.clear()
        if not seen or seen[-1].count < count:
            seen.append(_Seen(now_s, count))
        while len(seen) > 1 and seen[1].at_s <= now_s - CALM_S:
            seen.popleft()
        grown_from = seen[0].count if seen[-1].at_s > now_s - CALM_S else count
        return count - grown_from
