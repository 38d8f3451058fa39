"""DueMessages: what goes for the first time, once more, later, or not at all."""

from __future__ import annotations

from tests.wire.outbound_model import (
    PUBACK,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    PUBREL,
    ack,
    lane_opened,
    outbound_flow,
)
from tests.wire.outbound_steps import EDGE, burst, flow_at, kinds, offer, settled
from wire.exchange.due_messages import DueMessages
from wire.ranges import RangeSet


def test_everything_unsettled_goes_again_in_order_with_dup_and_what_is_settled_does_not() -> None:
    """exchange.resumed-in-order"""
    flow = flow_at()
    offer(flow, 0, 1, 1, 0, 1, 1)
    burst(flow)
    flow.on_received(ack(PUBACK, 2) + ack(PUBACK, 4))
    flow.on_disconnected()
    flow.on_connected(session=EDGE, session_present=True, level=4)
    again = burst(flow)
    assert [(packet.packet_id, packet.dup, packet.payload) for packet in again] == [(1, True, b"0"), (5, True, b"4")]
    assert burst(flow) == []


def test_what_was_settled_or_released_before_the_lane_was_opened_is_not_published() -> None:
    """DUP below ``dup_below``; a released message is settled when its PUBCOMP came, handed out again or not."""
    flow = outbound_flow()
    flow.open(lane_opened(head=10, dup_below=14, settled=[11], released=[12], session=EDGE))
    flow.on_connected(session=EDGE, session_present=True, level=4)
    assert kinds(burst(flow)) == [(PUBREL, 13)]
    flow.on_received(ack(PUBCOMP, 13))
    assert settled(flow) == {"delivered": ((12, 13),)}
    offer(flow, 10, 1, 1, 2, 1, 1)
    assert settled(flow) == {}
    assert [(packet.packet_id, packet.dup) for packet in burst(flow)] == [(11, True), (14, True), (15, False)]


def test_a_message_refused_for_now_leaves_again_as_new_before_what_waits() -> None:
    """exchange.refusal-ends-exchange: the lane is held back for the delay; what was in flight goes on, and MQTT-4.4.0-2 forbids a
    retransmission, so DUP is 0.
    """
    flow = flow_at(level=5, receive_maximum=3)
    offer(flow, 0, 1, 2, 1, 1)
    assert kinds(burst(flow, 5)) == [(PUBLISH, 1), (PUBLISH, 2), (PUBLISH, 3)]
    flow.on_received(ack(PUBACK, 1, 0x97))
    assert (flow.counts.retried, flow.refusals.hold.reason_code, settled(flow)) == (1, 0x97, {})
    assert burst(flow, 5, 10.0) == []
    assert flow.refusals.hold.until_s == 11.0
    flow.on_received(ack(PUBREC, 2) + ack(PUBACK, 3))
    facts = flow.record.facts(1)
    assert facts is not None
    flow.record.on_committed(1)
    assert kinds(burst(flow, 5, 10.9)) == [(PUBREL, 2)]
    again = burst(flow, 5, 11.0)
    assert [(packet.packet_id, packet.dup) for packet in again] == [(1, False), (4, False)]
    assert flow.refusals.hold.reason_code == 0
    flow.on_received(ack(PUBCOMP, 2) + ack(PUBACK, 1) + ack(PUBACK, 4))
    assert settled(flow)["delivered"] == ((0, 2), (3, 4))
    assert flow.in_flight.messages == 0


def test_a_pubrec_that_refuses_frees_the_identifier_and_the_same_one_is_used_anew() -> None:
    """exchange.refusal-ends-exchange"""
    flow = flow_at(level=5, codes=((0x87, "retry"),))
    offer(flow, 0, 2)
    burst(flow, 5)
    flow.on_received(ack(PUBREC, 1, 0x87))
    assert (flow.in_flight.messages, flow.in_flight.qos2) == (0, 0)
    burst(flow, 5, 0.0)
    assert [(packet.packet_id, packet.dup) for packet in burst(flow, 5, 1.0)] == [(1, False)]
    flow.on_received(ack(PUBREC, 1))
    facts = flow.record.facts(1)
    assert facts is not None
    assert facts.released == ((0, 1),)


def test_a_refused_message_keeps_its_hold_over_a_reconnect_and_goes_as_new_among_those_with_dup() -> None:
    """exchange.refusal-ends-exchange"""
    flow = flow_at(level=5)
    offer(flow, 0, 1, 1, 1, 1)
    burst(flow, 5)
    flow.on_received(ack(PUBACK, 2, 0x97))
    burst(flow, 5, 0.0)
    flow.on_disconnected()
    flow.on_connected(session=EDGE, session_present=True, level=5)
    assert burst(flow, 5, 0.9) == []
    again = burst(flow, 5, 1.0)
    assert [(packet.packet_id, packet.dup) for packet in again] == [(1, True), (2, False), (3, True), (4, True)]
    flow.on_disconnected()
    flow.on_connected(session=EDGE, session_present=True, level=5)
    assert [packet.dup for packet in burst(flow, 5, 1.0)] == [True] * 4


def test_a_new_session_is_not_held_back_by_the_refusals_of_the_old_one() -> None:
    """exchange.refusal-ends-exchange"""
    flow = flow_at(level=5)
    offer(flow, 0, 1, 1)
    burst(flow, 5)
    flow.on_received(ack(PUBACK, 1, 0x97))
    burst(flow, 5, 0.0)
    flow.on_disconnected()
    flow.on_connected(session="edge@there", session_present=False, level=5)
    flow.record.facts(1)
    flow.record.on_committed(1)
    assert [(packet.packet_id, packet.dup) for packet in burst(flow, 5, 0.0)] == [(1, False), (2, False)]


def test_after_a_crash_a_refused_message_may_have_been_sent_like_any_other() -> None:
    """exchange.refusal-ends-exchange: nobody remembers the refusal: it is unsettled, so it goes with DUP."""
    flow = flow_at(level=5)
    offer(flow, 0, 1)
    burst(flow, 5)
    flow.on_received(ack(PUBACK, 1, 0x97))
    flow.open(lane_opened(head=0, dup_below=1, session=EDGE, epoch=2))
    flow.on_connected(session=EDGE, session_present=True, level=5)
    offer(flow, 0, 1)
    assert [(packet.packet_id, packet.dup) for packet in burst(flow, 5, 0.0)] == [(1, True)]


def test_what_was_never_sent_is_due_up_to_what_is_settled_and_to_where_dup_ends() -> None:
    due = DueMessages()
    due.open(lane_opened(head=10, dup_below=14, settled=[12], session=EDGE))
    assert due.next(10, 20) == (10, 12, False)
    due.on_sent(10, 12, again=False)
    assert due.next(12, 20) == (13, 14, False)
    assert (due.has_dup(13), due.has_dup(14)) == (True, False)
    assert due.sent_before == [(13, 14)]


def test_what_is_due_again_is_told_apart_by_whether_it_goes_as_new() -> None:
    due = DueMessages()
    due.open(lane_opened())
    due.on_sent(0, 6, again=False)
    due.on_refused(3)
    due.on_disconnected(RangeSet([(1, 3), (4, 5)]))
    assert due.next(0, 6) == (1, 3, True)
    assert due.take_up_refused()
    assert not due.take_up_refused()
    assert [due.next(seq, 6) for seq in (1, 3, 4, 5)] == [(1, 3, True), (3, 4, True), (4, 5, True), (6, 6, True)]
    assert [due.has_dup(seq) for seq in (1, 3, 4)] == [True, False, True]
    due.on_sent(1, 5, again=True)
    assert (due.next(0, 6), due.refused_messages) == ((6, 6, True), 0)


def test_what_is_set_aside_is_not_due_until_it_is_taken_back() -> None:
    due = DueMessages()
    due.open(lane_opened())
    due.on_sent(0, 2, again=False)
    due.on_disconnected(RangeSet([(0, 2)]))
    due.quarantine([0])
    assert due.next(0, 2) == (1, 2, True)
    due.take_back()
    assert due.next(0, 2) == (0, 2, True)


def test_what_is_to_expire_is_what_nobody_has_sent_and_comes_once() -> None:
    due = DueMessages()
    due.open(lane_opened(dup_below=3, session=EDGE))
    assert due.to_expire(0, 6) == [(3, 6)]
    assert due.to_expire(0, 6) == []
