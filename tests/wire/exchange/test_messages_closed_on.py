"""ClosedOn: what an operator sees of a message on which the remote closes, and its end; more in ``test_suspected_messages.py``."""

from __future__ import annotations

import pytest

from tests.wire.outbound_model import hand_out, lane_opened
from wire.exchange.dup_and_identifiers import Segment, Style
from wire.exchange.handed_out import HandedOut
from wire.exchange.held_identifiers import HeldIdentifiers
from wire.exchange.identifier_span import IdentifierSpan
from wire.exchange.lane_record import LaneRecord
from wire.exchange.message_class import MessageClass
from wire.exchange.messages_closed_on import Blamed, ClosedOn
from wire.exchange.suspected_messages import Suspect, Suspects
from wire.exchange.what_may_be_sent import PublishDue
from wire.frames.batch import from_rows
from wire.ranges import RangeSet
from wire.status.bridges import ExchangeFigures

STYLE = Style(4, 2, True)


@pytest.mark.parametrize("held_there", [False, True])
def test_what_is_given_up_is_settled_at_once_and_its_identifier_known_where_the_remote_may_hold_it(held_there: bool) -> None:
    """exchange.abandoned-identifier-released"""
    due, held, counts, suspects = PublishDue(), HeldIdentifiers(), ExchangeFigures(), Suspects(sets_aside=True)
    record, in_hand = LaneRecord(held, IdentifierSpan(due, due.unsettled)), HandedOut(due.unsettled)
    due.open(lane_opened())
    in_hand.add(Segment.of(hand_out(0, from_rows([(b"plant/a", 2, b"x")]))))
    closed_on = ClosedOn("dead:x", suspects=suspects, handed_out=in_hand, due=due, held=held, record=record, counts=counts)
    due.sent(0, 1, again=False)
    due.disconnected(RangeSet([(0, 1)]))
    held.disconnected(RangeSet([(0, 1)] if held_there else []))
    suspects.found[0] = Suspect(MessageClass.of("plant/a", 14), [], closed=7, proofs=2)
    blamed = Blamed(seq=0, topic="plant/a", packet_bytes=14, closed=7, proofs=2)
    assert closed_on.messages(STYLE) == [blamed]

    closed_on.give_up(0, STYLE)

    assert (closed_on.messages(STYLE), closed_on.take_convicted(), closed_on.take_convicted()) == ([], [blamed], [])
    assert (due.again.count(), counts.closed_on, record.settled_messages) == (0, 1, 1)
    assert held.abandoned.ranges() == (((0, 1),) if held_there else ())
