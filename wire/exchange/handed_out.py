"""Messages that the store has handed out of one lane and that are not all settled, in the order of their sequences. Pure.

It knows what was looked at on this connection and what was not, and what of it makes room for more. Which messages leave is decided
in ``wire/exchange/publish_gate.py``.
"""

from __future__ import annotations

from collections import deque

from wire.exchange.publish_encoder import PublishSegment, Style
from wire.ranges import RangeSet, lowest

_KEPT_MIN = 256


class HandedOut:
    """The segments of one lane.

    unsettled: the sets that together have all that was sent and is not settled. waiting: not all looked at on this connection; the
    first may be looked at in part. passed_messages, passed_bytes: what has left the hand-outs, of those in hand. They are the base
    of further credit, and do not fall before the lane is opened anew.
    """

    def __init__(self, unsettled: tuple[RangeSet, ...]) -> None:
        self.waiting: deque[PublishSegment] = deque()
        self.stop = 0  # everything handed out is below
        self.passed_messages = 0
        self.passed_bytes = 0
        self._unsettled = unsettled
        self._kept: deque[PublishSegment] = deque()  # looked at on this connection, not all settled
        self._kept_max = _KEPT_MIN

    def open(self, head: int) -> None:
        """Forget everything; hand-outs begin at ``head``."""
        self.carry_on(head)
        self.passed_messages = self.passed_bytes = 0
        self._kept_max = _KEPT_MIN

    def carry_on(self, head: int) -> None:
        """Forget what is here; hand-outs begin at ``head`` again, and the connection goes on."""
        self.waiting.clear()
        self._kept.clear()
        self.stop = head

    def add(self, segment: PublishSegment) -> None:
        """Take messages that follow those of earlier hand-outs."""
        assert segment.first_seq >= self.stop, "handed out twice, or out of order"
        self.stop = segment.stop_seq
        self.waiting.append(segment)

    def move_over(self, segment: PublishSegment, rows: int) -> None:
        """Move over ``rows`` rows; those passed for the first time make room for others."""
        messages, size_bytes = segment.advance(rows)
        self.passed_messages += messages
        self.passed_bytes += size_bytes

    def keep_first(self) -> None:
        """All of the first segment that waits was looked at."""
        self._kept.append(self.waiting.popleft())

    def rewind(self) -> None:
        """Look at all that is kept again, from the first row on."""
        self._thin_out()
        if self.waiting:
            self.waiting[0].rewind()
        while self._kept:
            segment = self._kept.pop()
            segment.rewind()
            self.waiting.appendleft(segment)

    def drop_settled(self) -> None:
        """Release segments of which everything is settled."""
        if self._kept:
            low = lowest(self._unsettled)
            while self._kept and (low is None or self._kept[0].stop_seq <= low):
                self._kept.popleft()
            if self._kept and len(self._kept) > self._kept_max:
                self._thin_out()

    def _thin_out(self) -> None:
        """Release settled segments behind one that is not, which may be tried again for long."""
        self._kept = deque(
            segment
            for segment in self._kept
            if any((found := of.next_range(segment.first_seq)) and found[0] < segment.stop_seq for of in self._unsettled)
        )
        self._kept_max = max(_KEPT_MIN, 2 * len(self._kept))

    def describe(self, seq: int, style: Style) -> tuple[str, int]:
        """The topic name of the message ``seq``, which is here, and the size of its PUBLISH packet."""
        segment = next(each for each in (*self._kept, *self.waiting) if each.first_seq <= seq < each.stop_seq)
        return segment.describe(seq, style)
