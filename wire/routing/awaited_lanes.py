"""The lanes whose Connection waits until something is to be sent, and what is enough of that. Pure.

They are looked at once a second, so that a lane that nobody waits for costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from wire.frames.frame import Effects
from wire.frames.lanes import LaneAwaited, LaneWaits


@dataclass(slots=True)
class _Awaited:
    """since_s: since when anything waits; None if nothing does. peer: who wants to know."""

    frame: LaneAwaited
    peer: str
    since_s: float | None = None


class AwaitedLanes:
    """Each is told of once."""

    def __init__(self) -> None:
        self._of: dict[str, _Awaited] = {}

    def add(self, frame: LaneAwaited, peer: str) -> None:
        """``peer`` wants to know when so much waits."""
        known = self._of.get(frame.queue)
        self._of[frame.queue] = _Awaited(frame, peer, None if known is None else known.since_s)

    def look(self, waiting: Callable[[str], tuple[int, int, int]], now_s: float) -> Effects:
        """What is to be sent. waiting: of a queue the epoch of its lane, and how many messages and bytes wait."""
        effects: Effects = []
        for queue, awaited in list(self._of.items()):
            frame, (epoch, messages, size_bytes) = awaited.frame, waiting(queue)
            if epoch != frame.epoch:
                del self._of[queue]  # the lane was opened anew, and its Connection says again what it wants
                continue
            if not messages:
                awaited.since_s = None
                continue
            if awaited.since_s is None:
                awaited.since_s = now_s
            waits_ms = (now_s - awaited.since_s) * 1000
            if messages >= frame.messages or size_bytes >= frame.size_bytes > 0 or waits_ms >= frame.age_ms >= 0:
                del self._of[queue]
                effects.append((awaited.peer, LaneWaits(queue=queue, epoch=epoch)))
        return effects
