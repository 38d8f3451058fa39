"""QuarantineOutcome: what an operator sees of a message on which the remote closes, and its end; more in ``test_quarantine.py``."""

from __future__ import annotations

import pytest

from tests.wire.outbound_model import hand_out, lane_opened
from wire.exchange.lane_messages import LaneMessages
from wire.exchange.publish_encoder import PublishSegment, Style
from wire.exchange.quarantine import Quarantine, QuarantinedMessage
from wire.exchange.quarantine_class import MessageClass
from wire.exchange.quarantine_outcome import QuarantineEntry, QuarantineOutcome
from wire.frames.batch import from_rows

STYLE = Style(4, 2, True)


@pytest.mark.parametrize("held_there", [False, True])
def test_what_is_given_up_is_settled_at_once_and_its_identifier_known_where_the_remote_may_hold_it(held_there: bool) -> None:
    """exchange.abandoned-identifier-released"""
    messages, suspects = LaneMessages(receive_maximum=10, qos2_maximum=None), Quarantine(sets_aside=True)
    messages.open(lane_opened())
    messages.handed_out.add(PublishSegment.of(hand_out(0, from_rows([(b"plant/a", 2, b"x")]))))
    closed_on = QuarantineOutcome("dead:x", messages, suspects)
    messages.on_connected(4, 10)
    messages.on_sent(0, 1, 2 if held_there else 1, again=False)
    messages.on_disconnected()
    messages.begin_again()
    suspects.found[0] = QuarantinedMessage(MessageClass.of("plant/a", 14), [], closed=7, proofs=2)
    blamed = QuarantineEntry(seq=0, topic="plant/a", packet_bytes=14, closed=7, proofs=2)
    assert closed_on.messages(STYLE) == [blamed]

    closed_on.give_up(0, STYLE)

    assert (closed_on.messages(STYLE), closed_on.take_given_up(), closed_on.take_given_up()) == ([], [blamed], [])
    assert (messages.due.again.count(), closed_on.closed_on, messages.record.settled_messages) == (0, 1, 1)
    assert messages.held.abandoned.ranges() == (((0, 1),) if held_there else ())
