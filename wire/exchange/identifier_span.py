"""How far packet identifiers reach: a sequence's follows from its number, and comes round again. Pure.

exchange.identifier-never-twice [P2, P3]: what is unsettled spans at most 65,000 sequences, and so does what is not known to be
    settled on record. So no packet identifier is given twice, not even after a crash that forgets that the first message was
    settled.
"""

from __future__ import annotations

from wire.exchange.due_messages import DueMessages
from wire.exchange.packet_identifiers import PACKET_IDS
from wire.ranges import RangeSet, lowest


class IdentifierSpan:
    """One lane's. ``unsettled``: the sets that together have all that was sent and is not settled.

    recorded: everything below is settled on record, or was never sent.
    """

    def __init__(self, due: DueMessages, unsettled: tuple[RangeSet, ...]) -> None:
        self._due = due
        self._unsettled = unsettled
        self.recorded = 0
        self._record_wanted = False  # a message waits for that
        self._told: list[tuple[int, int]] = []  # Settle with that number -> where ``recorded`` is once it is committed

    def open(self, head: int) -> None:
        """The lane is opened: all below ``head`` is settled on record."""
        self.recorded = head
        self._record_wanted = False
        self._told.clear()

    def carry_on(self, head: int) -> None:
        """The same, and the connection goes on: what was to be on record is asked for again."""
        self._told.clear()
        self.recorded = max(self.recorded, min(head, self._due.sent_stop))

    def room(self, seq: int, qos: int) -> int:
        """How many sequences from ``seq`` on may leave; QoS 0 as well, so that what is kept has a limit."""
        low = lowest(self._unsettled)
        if low is None:
            low = seq
        if not qos:
            return low + PACKET_IDS - seq
        if self.recorded >= self._due.sent_stop:  # all that was sent is settled on record
            self.recorded = max(self.recorded, min(seq, low))
        self._record_wanted = seq >= self.recorded + PACKET_IDS
        return (low if low < self.recorded else self.recorded) + PACKET_IDS - seq

    def settled_below(self) -> int:
        """Everything below was sent and is settled."""
        low, sent_stop = lowest(self._unsettled), self._due.sent_stop
        return sent_stop if low is None else min(low, sent_stop)

    def wants_record(self) -> bool:
        """Whether what is settled is to be on record, before packet identifiers run out."""
        behind = self._due.sent_stop - self.recorded > PACKET_IDS // 2
        if not (behind or self._record_wanted):
            return False
        gained = self.settled_below() - (self._told[-1][1] if self._told else self.recorded)
        return gained > (0 if self._record_wanted else PACKET_IDS // 4)

    def on_reported(self, number: int) -> None:
        """All that was settled is on record once ``Settle`` ``number`` is committed."""
        self._told.append((number, self.settled_below()))

    def on_committed(self, number: int) -> None:
        """Every ``Settle`` up to ``number`` is committed."""
        while self._told and self._told[0][0] <= number:
            self.recorded = self._told.pop(0)[1]
