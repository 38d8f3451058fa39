"""QuarantineOutcome: what an operator sees of a message on which the remote closes, and its end; more in ``test_quarantine.py``."""

from __future__ import annotations

import pytest

from tests.wire.outbound_model import hand_out, lane_opened
from wire.exchange.due_messages import DueMessages
from wire.exchange.handed_out import HandedOut
from wire.exchange.held_identifiers import HeldIdentifiers
from wire.exchange.identifier_span import IdentifierSpan
from wire.exchange.lane_record import LaneRecord
from wire.exchange.message_class import MessageClass
from wire.exchange.publish_encoder import PublishSegment, Style
from wire.exchange.quarantine import Quarantine, QuarantinedMessage
from wire.exchange.quarantine_outcome import QuarantineEntry, QuarantineOutcome
from wire.frames.batch import from_rows
from wire.ranges import RangeSet
from wire.status.bridges import ExchangeFigures

STYLE = Style(4, 2, True)


@pytest.mark.parametrize("held_there", [False, True])
def test_what_is_given_up_is_settled_at_once_and_its_identifier_known_where_the_remote_may_hold_it(held_there: bool) -> None:
    """exchange.abandoned-identifier-released"""
    due, held, counts, suspects = DueMessages(), HeldIdentifiers(), ExchangeFigures(), Quarantine(sets_aside=True)
    record, in_hand = LaneRecord(held, IdentifierSpan(due, due.unsettled)), HandedOut(due.unsettled)
    due.open(lane_opened())
    in_hand.add(PublishSegment.of(hand_out(0, from_rows([(b"plant/a", 2, b"x")]))))
    closed_on = QuarantineOutcome("dead:x", suspects=suspects, handed_out=in_hand, due=due, held=held, record=record, counts=counts)
    due.on_sent(0, 1, again=False)
    due.on_disconnected(RangeSet([(0, 1)]))
    held.on_disconnected(RangeSet([(0, 1)] if held_there else []))
    suspects.found[0] = QuarantinedMessage(MessageClass.of("plant/a", 14), [], closed=7, proofs=2)
    blamed = QuarantineEntry(seq=0, topic="plant/a", packet_bytes=14, closed=7, proofs=2)
    assert closed_on.messages(STYLE) == [blamed]

    closed_on.give_up(0, STYLE)

    assert (closed_on.messages(STYLE), closed_on.take_given_up(), closed_on.take_given_up()) == ([], [blamed], [])
    assert (due.again.count(), counts.closed_on, record.settled_messages) == (0, 1, 1)
    assert held.abandoned.ranges() == (((0, 1),) if held_there else ())
