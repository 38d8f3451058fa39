"""The messages of one lane: each is due, in flight, held from PUBREC to PUBCOMP, or settled. Pure.

All steps from one to the next are made here, so that a message is in one of them and in no other. Which messages leave is decided
in ``wire/exchange/publish_gate.py``, what an answer means in ``wire/exchange/acknowledgements.py``.
"""

from __future__ import annotations

from enum import Enum

from wire.exchange.due_messages import DueMessages
from wire.exchange.handed_out import HandedOut
from wire.exchange.held_identifiers import HeldIdentifiers
from wire.exchange.identifier_span import IdentifierSpan
from wire.exchange.in_flight import InFlight
from wire.exchange.lane_record import LaneRecord
from wire.exchange.packet_identifiers import PACKET_IDS, PUBCOMP, PUBREC, seq_of
from wire.frames.frame import Ranges
from wire.frames.lanes import LaneOpened
from wire.ranges import ArrivalSet, RangeSet, lowest
from wire.status.outcomes import DELIVERED, REDELIVERED


class Standing(Enum):
    """How a message stands."""

    PUBACK_OWED = "QoS 1, sent on this connection"
    PUBREC_OWED = "QoS 2, sent on this connection"
    RECEIVED = "has its PUBREC, and no PUBREL has left on this connection"
    PUBCOMP_OWED = "its PUBREL has left"
    NOT_SENT_HERE = "unsettled, and may have been sent before"
    NONE = "settled, or never sent"


class LaneMessages:
    """Those of one lane: ``handed_out`` by the store, ``due``, ``in_flight``, ``held`` at the remote, on ``record``."""

    __slots__ = ("_span", "_unsettled", "due", "handed_out", "held", "in_flight", "record")

    def __init__(self, *, receive_maximum: int, qos2_maximum: int | None) -> None:
        """As ``InFlight`` has them."""
        self.due = due = DueMessages()
        self.in_flight = InFlight(receive_maximum=receive_maximum, qos2_maximum=qos2_maximum)
        self.held = held = HeldIdentifiers()
        self._unsettled = unsettled = (*self.in_flight.unsettled, *held.unsettled, *due.unsettled)
        self.handed_out = HandedOut(unsettled)
        self._span = IdentifierSpan(due, unsettled)
        self.record = LaneRecord(held, self._span)

    def open(self, lane: LaneOpened) -> None:
        """Forget everything and begin where the store says the lane stands."""
        self.handed_out.open(lane.head)
        self.due.open(lane)
        self.held.open(lane.released)
        self.in_flight.open(self.held.between_connections)
        self._span.open(lane.head)
        self.record.open(lane)

    def carry_on(self, lane: LaneOpened) -> int:
        """As ``SenderHalf`` has it."""
        sent_stop = self.due.sent_stop
        self.handed_out.carry_on(max(sent_stop, lane.head))
        self.record.carry_on(lane, sent_stop, self._unsettled)
        self._span.carry_on(lane.head)
        self.held.report_again()
        return self.handed_out.stop

    # --- how they stand ---

    def standing(self, seq: int) -> Standing:
        """How ``seq`` stands."""
        held, due = self.held, self.due
        if seq in self.in_flight.puback:
            return Standing.PUBACK_OWED
        if seq in self.in_flight.pubrec:
            return Standing.PUBREC_OWED
        if seq in held.awaited:
            return Standing.PUBCOMP_OWED
        if seq in held.releasing or seq in held.due:
            return Standing.RECEIVED
        if any(seq in each for each in due.unsettled) or due.may_have_been_sent(seq):
            return Standing.NOT_SENT_HERE
        return Standing.NONE

    def seq_of(self, packet_id: int) -> int | None:
        """The only unsettled sequence that may have been sent under it: they span no more than there are identifiers."""
        low, sent_stop = lowest(self._unsettled), self.due.sent_stop
        return seq_of(packet_id, sent_stop if low is None else min(low, sent_stop))

    @property
    def unsettled(self) -> int:
        """QoS 1 and 2 messages that were sent, on this connection or one before it, and wait for an answer."""
        return sum(unsettled.count() for unsettled in self._unsettled) - self.due.refused_messages

    @property
    def identifiers_used_up(self) -> bool:
        """Whether what waits has no packet identifier before the peer has acknowledged the oldest that it owes
        (exchange.identifier-never-twice).
        """
        owed, waiting = lowest((*self.in_flight.unsettled, self.held.awaited)), self.handed_out.waiting
        return owed is not None and bool(waiting) and waiting[0].next_seq >= owed + PACKET_IDS

    def settled_below(self) -> int:
        """Everything below was sent and is settled."""
        return self._span.settled_below()

    def may_be_held(self) -> tuple[Ranges, Ranges]:
        """As ``SenderHalf`` has it."""
        held = self.held
        return held.released_in_order(), RangeSet((*held.unanswered, *held.abandoned, *self.due.held_before)).ranges()

    def stays_due(self, ranges: Ranges, *, republish: bool) -> Ranges:
        """Those of ``ranges`` that another session is sent; republish: also what was released in this one."""
        due = self.due.not_released()
        if republish:
            for start, stop in self.held.taken():
                due.add(start, stop)
        return ArrivalSet(ranges).within(due)

    # --- out ---

    def room(self, seq: int, qos: int) -> int:
        """How many sequences from ``seq`` on may leave at ``qos``."""
        room = self._span.room(seq, qos)  # exchange.identifier-never-twice
        if not qos:
            return room
        free = self.in_flight.room(qos)  # exchange.receive-maximum-kept, exchange.qos2-maximum-kept
        return free if free < room else room

    def on_sent(self, start: int, stop: int, qos: int, *, again: bool) -> bool:
        """``[start, stop)`` has left at ``qos``; again: as ``DueMessages.next`` said. Whether they may have left before."""
        due = self.due
        due.on_sent(start, stop, again=again)
        if again:
            self.held.sent_again(start, stop, qos)
        if not qos:
            return False
        self.in_flight.on_sent(qos, start, stop)
        if not again and start >= due.dup_below:
            return False
        self.record.settle(REDELIVERED, start, stop)
        return True

    def look_again(self) -> None:
        """Messages that were set aside are due, and looked at with all that waits."""
        self.due.take_back()
        self.handed_out.rewind()

    def take_up_refused(self) -> None:
        """Messages that were refused for now are due again."""
        if self.due.take_up_refused():
            self.handed_out.rewind()

    # --- answers ---

    def on_accepted(self, first_byte: int, start: int, stop: int, *, qos2: bool) -> None:
        """PUBACKs, PUBRECs or PUBCOMPs came for ``[start, stop)``, and were taken from what waits for them. qos2: of QoS 2."""
        if first_byte == PUBREC:
            self.held.pubrec(start, stop)
            return
        self.in_flight.on_ended(stop - start, qos2=qos2)
        if first_byte == PUBCOMP:
            self.held.pubcomp(start, stop)
        self.record.settle(DELIVERED, start, stop)

    def on_refused(self, seq: int, outcome: str | None, *, qos2: bool) -> None:
        """The exchange of ``seq`` has ended with a refusal, and the message with ``outcome``; None: it is tried again."""
        self.in_flight.on_ended(1, qos2=qos2)
        if outcome is None:
            self.due.on_refused(seq)
        else:
            self.record.settle(outcome, seq, seq + 1)

    def take_out(self, seq: int) -> None:
        """``seq`` waits for no PUBACK and no PUBREC any more."""
        for waiting in self.in_flight.unsettled:
            waiting.discard(seq, seq + 1)

    def give_up(self, seq: int, outcome: str | None) -> None:
        """``seq`` is not to be sent any more, and has come to its ``outcome``; None: it had QoS 0, which is settled long since."""
        self.due.given_up(seq)
        self.held.abandon(seq, seq + 1)
        if outcome is not None:
            self.record.settle(outcome, seq, seq + 1)

    def end_release(self, seq: int) -> None:
        """No PUBCOMP comes for ``seq``, and its exchange has ended."""
        self.held.due.discard(seq, seq + 1)
        self.held.pubcomp(seq, seq + 1)
        self.record.settle(DELIVERED, seq, seq + 1)

    # --- connections and sessions ---

    def on_connected(self, level: int, receive_maximum: int) -> None:
        """A connection is up at that protocol level, whose remote allows ``receive_maximum``."""
        self.in_flight.on_connected(level, receive_maximum, self.held.between_connections)

    def on_disconnected(self) -> None:
        """The connection is gone: what was not answered on it is due again."""
        self.due.on_disconnected(*self.in_flight.unsettled)
        self.held.on_disconnected(self.in_flight.pubrec, self.in_flight.puback)

    def begin_again(self) -> None:
        """All that is unsettled is looked at for the next connection."""
        self.in_flight.begin(self.held.between_connections)
        self.handed_out.drop_settled()
        self.handed_out.rewind()

    def begin_session(self, session: str) -> None:
        """Messages leave in ``session`` from now on, which had nothing."""
        self.due.new_session()
        self.record.begin_session(session)

    def on_session_lost(self, *, republish: bool) -> int:
        """The remote has forgotten everything: unreleased messages go as new, and released ones, too, if ``republish``; else they
        are settled. How many had been released.
        """
        self.record.lose_session()
        released = self.held.on_lost()
        self.take_up_refused()
        for start, stop in released:
            if republish:
                self.due.republish(start, stop)
            else:
                self.record.settle(DELIVERED, start, stop)
        return released.count()

    def on_resumed(self, released: Ranges, sent: Ranges, sent_below: int) -> None:
        """A session that was left is resumed: it has ``released``, and ``sent`` without PUBREC, all below ``sent_below``."""
        self.held.on_resumed(released, sent, self.due.sent_stop)
        self.due.on_resumed(sent_below, released)
