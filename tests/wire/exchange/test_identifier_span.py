"""IdentifierSpan: no packet identifier is given twice."""

from __future__ import annotations

from tests.wire.outbound_model import (
    PUBACK,
    PUBLISH,
    ack,
    lane_opened,
)
from tests.wire.outbound_steps import burst, flow_at, kinds, offer
from wire.exchange.due_messages import DueMessages
from wire.exchange.identifier_span import IdentifierSpan
from wire.ranges import RangeSet


def test_what_is_unsettled_never_spans_more_than_65_000_sequences() -> None:
    """exchange.identifier-never-twice"""
    flow = flow_at(receive_maximum=65_535)
    offer(flow, 0, 1)
    offer(flow, 64_999, 1, 1, 0)
    assert kinds(burst(flow)) == [(PUBLISH, 1), (PUBLISH, 65_000)]
    flow.on_received(ack(PUBACK, 1))
    assert burst(flow) == [], "a crash now would send the first one again, under the identifier of the third"
    assert flow.record.urgent
    facts = flow.record.facts(7)
    assert facts is not None
    assert facts.settled == (("delivered", ((0, 1),)),)
    assert (facts.session, facts.generation) == (flow.record.session, flow.record.generation)
    assert not flow.record.urgent, "it asks once"
    assert burst(flow) == []
    flow.record.on_committed(7)
    assert kinds(burst(flow)) == [(PUBLISH, 1), (PUBLISH, 0)]


def test_a_lane_that_keeps_up_has_its_settlements_on_record_long_before_its_identifiers_come_round() -> None:
    """exchange.identifier-never-twice"""
    flow = flow_at(receive_maximum=1000)
    asked = 0
    for number, start in enumerate(range(0, 130_000, 1000), 1):
        offer(flow, start, *[1] * 1000)
        assert kinds(burst(flow))
        flow.on_received(b"".join(ack(PUBACK, seq % 65_000 + 1) for seq in range(start, start + 1000)))
        facts = flow.record.facts(number)
        assert facts is not None
        if facts.session is not None:
            asked += 1
            flow.record.on_committed(number)
    assert asked == 3, "one commit in about 32,500 messages"


def test_a_refused_message_blocks_nothing_but_the_span_of_65_000() -> None:
    flow = flow_at(level=5, receive_maximum=65_535)
    offer(flow, 0, 1)
    burst(flow, 5)
    flow.on_received(ack(PUBACK, 1, 0x97))
    burst(flow, 5, 0.0)
    offer(flow, 64_999, 1, 1)
    assert kinds(burst(flow, 5, 1.0)) == [(PUBLISH, 1), (PUBLISH, 65_000)]


def test_room_ends_a_round_behind_what_is_unsettled_and_behind_what_is_not_on_record() -> None:
    due, unsettled = DueMessages(), RangeSet()
    due.open(lane_opened(head=10))
    span = IdentifierSpan(due, (unsettled,))
    span.open(10)
    unsettled.add(10, 20)
    due.on_sent(10, 20, again=False)
    assert (span.room(20, 0), span.room(20, 1)) == (64_990, 64_990)
    unsettled.clear()
    assert (span.room(20, 0), span.room(20, 1)) == (65_000, 64_990), "all that was sent is settled, and not on record"
    assert not span.wants_record(), "nothing waits for that yet"
    assert span.room(65_010, 1) == 0
    assert span.wants_record()
    span.on_reported(1)
    assert not span.wants_record(), "it asks once"
    span.on_committed(1)
    assert span.room(65_010, 1) > 0
