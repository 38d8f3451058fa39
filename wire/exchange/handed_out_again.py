"""Which messages of a session that lasts its client has had, or may have had, when the store hands them out once more. Pure.

By it nothing is sent twice on a connection that outlives the store (exchange.new-store-nothing-twice).

exchange.lost-released-at-client [P2, P6]: what the store has lost of a session that is connected is released at the client by
    PUBREL, and the connection goes on.
"""

from __future__ import annotations

from collections.abc import Iterable

from wire.frames.base import Ranges
from wire.frames.lanes import LaneOpened
from wire.ranges import RangeSet, ranges_of


class HandedOutAgain:
    """One session's. dup_below: what may have been sent on an earlier connection. skip_below: what was sent on this one."""

    __slots__ = ("_first_seq", "_sent_before", "dup_below", "skip_below")

    def __init__(self) -> None:
        self.dup_below = 0
        self.skip_below = 0
        self._first_seq = 0
        self._sent_before: RangeSet | None = None  # on an earlier connection, perhaps, and not handed out on this one yet

    def opened(self, lane: LaneOpened) -> None:
        """The lane is opened for a new connection."""
        self.dup_below = lane.dup_below
        if lane.session:
            self._first_seq = lane.head
            before = RangeSet((*lane.settled, *lane.released)).missing(lane.head, lane.dup_below)
            self._sent_before = RangeSet(before) if before else None

    def carried_on(self, lane: LaneOpened, skip_below: int) -> Ranges:
        """It is opened anew, and the connection goes on: what was to be handed out again and is settled by now
        (exchange.lost-released-at-client).

        Only damage does that.
        """
        self.skip_below = skip_below
        if not self._sent_before:
            return ()
        settled = RangeSet(lane.settled)
        if self._first_seq < lane.head:
            settled.add(self._first_seq, lane.head)
        lost = tuple(each for start, stop in self._sent_before for each in _common(settled, start, stop))
        for start, stop in lost:
            self._sent_before.discard(start, stop)
        return lost

    def handed_out(self, first_seq: int, offsets: Iterable[int]) -> None:
        """The messages ``first_seq + offset`` are here."""
        if self._sent_before:
            for start, stop in ranges_of(first_seq + offset for offset in offsets):
                self._sent_before.discard(start, stop)


def _common(ranges: RangeSet, start: int, stop: int) -> list[tuple[int, int]]:
    """What of ``[start, stop)`` is in ``ranges``."""
    return [(max(start, low), min(stop, high)) for low, high in ranges if low < stop and start < high]
