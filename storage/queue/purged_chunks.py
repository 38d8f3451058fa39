"""Where an operator has purged a queue: the chunks that are rightly missing above its head."""

from __future__ import annotations

from wire.frames.base import Ranges
from wire.ranges import RangeSet


class Purged:
    """The purged sequences of one queue, and the bytes that they had, as far as this life of the store knows."""

    def __init__(self, ranges: Ranges) -> None:
        self._ranges = RangeSet(ranges)
        self._holes: list[tuple[int, int]] = []  # where each ended, and its durable bytes

    def add(self, start: int, stop: int, size_bytes: int, head: int) -> None:
        """``[start, stop)`` was purged, with ``size_bytes``; nothing is asked for below ``head`` any more."""
        self._holes = [hole for hole in self._holes if hole[0] > head]
        self._holes.append((stop, size_bytes))
        self._ranges.add(start, stop)

    def bytes_above(self, cursor: int) -> int:
        """The bytes that were purged above ``cursor``."""
        return sum(size_bytes for stop, size_bytes in self._holes if cursor < stop) if self._holes else 0

    def has_any(self, start: int, stop: int) -> bool:
        """Whether anything of ``[start, stop)`` was purged."""
        following = self._ranges.next_range(start) if self._ranges else None
        return following is not None and following[0] < stop

    def clear(self) -> None:
        """There is nothing in the queue."""
        self._ranges.clear()
        self._holes.clear()

    def row(self, head: int) -> Ranges:
        """What the queue's row says: what is above ``head``. The rest is forgotten."""
        if not self._ranges:
            return ()
        self._ranges.discard(0, head)
        return self._ranges.ranges()
