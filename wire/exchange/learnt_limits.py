"""Lessons about each address of a remote, in memory, and how long they hold. Pure."""

from __future__ import annotations

from wire.exchange.remote_limits import NO_LIMITS, RemoteLimits

HOLDS_S = 86_400


class LearntLimits:
    """That of one lane. A lesson holds until the first connection ``HOLDS_S`` later, at the longest: then all is tried again."""

    def __init__(self) -> None:
        self._of: dict[str, tuple[float, RemoteLimits]] = {}  # by address; when it was learnt, monotonic

    def of(self, place: str, now_s: float) -> RemoteLimits:
        """The learnt limits of the remote at ``place``, as far as they hold."""
        at_s, limits = self._of.get(place, (now_s, NO_LIMITS))
        return limits if now_s - at_s < HOLDS_S else NO_LIMITS

    def on_learnt(self, place: str, limits: RemoteLimits, now_s: float) -> None:
        """The remote at ``place`` has shown that it takes no more than ``limits``."""
        self._of[place] = now_s, limits

    def forget(self) -> None:
        """Try everything again."""
        self._of.clear()
