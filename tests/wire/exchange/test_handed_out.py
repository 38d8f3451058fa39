"""HandedOut: what is in hand, and what makes room for more."""

from __future__ import annotations

from tests.wire.outbound_model import (
    PUBACK,
    ack,
    hand_out,
)
from tests.wire.outbound_steps import EDGE, burst, flow_at, offer, settled
from wire.exchange.handed_out import HandedOut
from wire.exchange.publish_encoder import PublishSegment, Style
from wire.frames.batch import from_rows
from wire.ranges import RangeSet


def test_what_passed_counts_once_and_makes_room_for_all_of_a_hand_out() -> None:
    """Messages sent again after a reconnect free no more credit."""
    flow = flow_at(receive_maximum=2)
    offer(flow, 0, 1, 1, 1, 0)
    burst(flow)
    assert flow.handed_out.passed_messages == 2
    flow.on_disconnected()
    flow.on_connected(session=EDGE, session_present=True, level=4)
    burst(flow)
    assert flow.handed_out.passed_messages == 2
    flow.on_received(ack(PUBACK, 1) + ack(PUBACK, 2))
    burst(flow)
    assert flow.handed_out.passed_messages == 4
    assert flow.handed_out.passed_bytes == 4 * 2


def test_what_is_settled_behind_an_unsettled_message_is_not_kept() -> None:
    """One message that is refused again and again, or never acknowledged, must not hold 65,000 others in memory."""
    flow = flow_at(level=5, receive_maximum=100)
    offer(flow, 0, 1)
    burst(flow, 5)
    for seq in range(1, 2_000):
        offer(flow, seq, 1)
        burst(flow, 5)
        flow.on_received(ack(PUBACK, seq + 1))
    assert len(flow.handed_out._kept) <= 300
    flow.on_received(ack(PUBACK, 1, 0x97))
    burst(flow, 5, 0.0)
    assert [packet.packet_id for packet in burst(flow, 5, 1.0)] == [1]
    assert len(flow.handed_out._kept) == 1
    assert settled(flow)["delivered"] == ((1, 2_000),)


def segment(first_seq: int, count: int) -> PublishSegment:
    return PublishSegment.of(hand_out(first_seq, from_rows((b"t/%d" % (first_seq + at), 1, b"x") for at in range(count))))


def test_what_was_looked_at_is_kept_while_something_of_it_is_unsettled_and_looked_at_again_when_rewound() -> None:
    unsettled = RangeSet()
    in_hand = HandedOut((unsettled,))
    in_hand.open(5)
    for first in (5, 7, 9):
        in_hand.add(segment(first, 2))
    unsettled.add(7, 8)
    for _ in range(2):
        in_hand.move_over(in_hand.waiting[0], 2)
        in_hand.keep_first()
    assert (len(in_hand._kept), in_hand.passed_messages) == (2, 4)
    in_hand.drop_settled()
    assert len(in_hand._kept) == 1
    assert in_hand.describe(7, Style(4, 2, True))[0] == "t/7"
    in_hand.rewind()
    assert [each.first_seq for each in in_hand.waiting] == [7, 9]
    in_hand.move_over(in_hand.waiting[0], 2)
    assert in_hand.passed_messages == 4, "it makes room once"
