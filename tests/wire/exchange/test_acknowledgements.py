"""Answers: acknowledgements of every kind, in every order, cut anywhere."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.outbound_model import (
    PUBACK,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    ack,
)
from tests.wire.outbound_steps import burst, flow_at, kinds, offer, settled
from wire.errors import PeerViolation


@given(order=st.permutations(range(12)), cuts=st.lists(st.integers(1, 60), max_size=8))
def test_pubacks_settle_in_any_order_and_cut_anywhere(order: list[int], cuts: list[int]) -> None:
    flow = flow_at(64_995)
    offer(flow, 64_995, *[1] * 12)
    burst(flow)
    data = b"".join(ack(PUBACK, (64_995 + at) % 65_000 + 1) for at in order)
    waiting, at = b"", 0
    for cut in [*cuts, len(data)]:
        waiting += data[at : at + cut]
        at += cut
        waiting = waiting[flow.on_received(waiting) :]
    assert not waiting
    assert flow.in_flight.messages == 0
    assert settled(flow) == {"delivered": ((64_995, 65_007),)}


@pytest.mark.parametrize("reason_code", [None, 0x00, 0x10])
def test_success_and_no_matching_subscribers_settle_as_delivered(reason_code: int | None) -> None:
    flow = flow_at(level=5)
    offer(flow, 0, 1, 1, 2)
    burst(flow, 5)
    flow.on_received(ack(PUBACK, 1, reason_code) + ack(PUBACK, 2, reason_code) + ack(PUBREC, 3, reason_code))
    facts = flow.record.facts(1)
    assert facts is not None
    assert (dict(facts.settled), facts.released) == ({"delivered": ((0, 2),)}, ((2, 3),))


def test_a_negative_reason_code_settles_the_message_and_frees_its_place() -> None:
    flow = flow_at(level=5, receive_maximum=2)
    offer(flow, 0, 1, 2, 1)
    burst(flow, 5)
    flow.on_received(ack(PUBACK, 1, 0x99) + bytes([0x50, 4, 0, 2, 0x87, 0]))
    assert settled(flow) == {"dead:remote_0x99": ((0, 1),), "dead:remote_0x87": ((1, 2),)}
    assert flow.in_flight.messages == 0
    assert kinds(burst(flow, 5)) == [(PUBLISH, 3)]


@pytest.mark.parametrize("level", [4, 5])
@pytest.mark.parametrize("packet_id", [0, 3, 65_001])
def test_one_under_an_identifier_that_was_never_used_is_counted(level: int, packet_id: int) -> None:
    flow = flow_at(level=level)
    offer(flow, 0, 1, 2)
    burst(flow, level)
    flow.on_received(ack(PUBACK, packet_id) + ack(PUBCOMP, packet_id))
    assert (settled(flow), burst(flow, level)) == ({}, [])
    assert (flow.counts.unexpected_acknowledgements, flow.in_flight.messages) == (2, 2)


@pytest.mark.parametrize("level", [4, 5])
def test_pubacks_that_all_come_twice_settle_each_message_once(level: int) -> None:
    flow = flow_at(level=level)
    offer(flow, 0, *[1] * 50)
    burst(flow, level)
    flow.on_received(b"".join(ack(PUBACK, packet_id) * 2 for packet_id in range(1, 51)))
    assert settled(flow) == {"delivered": ((0, 50),)}
    assert (flow.counts.acknowledged, flow.counts.unexpected_acknowledgements) == (50, 50)
    assert burst(flow, level) == []


@pytest.mark.parametrize(
    ("level", "answer"),
    [
        (4, ack(PUBACK, 1, 0)),  # a reason code before MQTT 5
        (4, b"\x40\x01\x00\x00"),
        (5, b"\x40\xff\xff\x7f\x00"),
    ],
)
def test_a_malformed_acknowledgement_is_a_violation(level: int, answer: bytes) -> None:
    flow = flow_at(level=level)
    offer(flow, 0, 1, 2)
    burst(flow, level)
    with pytest.raises(PeerViolation, match=r"^MQTT-"):
        flow.on_received(answer)


def test_other_packets_are_left_to_the_caller() -> None:
    flow = flow_at()
    offer(flow, 0, 1)
    burst(flow)
    assert flow.on_received(ack(PUBACK, 1) + b"\xd0\x00\x40\x02") == 4
    assert flow.on_received(b"\xd0\x00\x40\x02\x00\x01") == 0


@pytest.mark.parametrize(("codes", "outcome"), [((), "dead:remote_0x80"), (((0x80, "drop"),), "dropped:remote_0x80")])
def test_a_message_given_up_says_why(codes: tuple[tuple[int, str], ...], outcome: str) -> None:
    flow = flow_at(level=5, codes=codes)
    offer(flow, 0, 1, 2)
    burst(flow, 5)
    flow.on_received(ack(PUBACK, 1, 0x80) + ack(PUBREC, 2, 0x80))
    assert settled(flow) == {outcome: ((0, 2),)}
    assert flow.refusals.take_counts() == {0x80: 2}
    assert flow.refusals.take_counts() == {}
    assert (flow.refusals.hold.reason_code, flow.counts.retried, flow.counts.refused) == (0, 0, 2)


@pytest.mark.parametrize("reason_code", [0x92, 0x80, 0x10, 0x00])
def test_a_pubcomp_ends_the_exchange_whatever_it_says(reason_code: int) -> None:
    """0x92: the remote does not know the identifier, so it has released it before."""
    flow = flow_at(level=5)
    offer(flow, 0, 2)
    burst(flow, 5)
    flow.on_received(ack(PUBREC, 1))
    flow.record.facts(1)
    flow.record.on_committed(1)
    burst(flow, 5)
    flow.on_received(ack(PUBCOMP, 1, reason_code))
    assert settled(flow) == {"delivered": ((0, 1),)}
    assert flow.in_flight.messages == 0


@pytest.mark.parametrize("reason_code", [0x01, 0x10, 0x11, 0x7F])
def test_every_reason_code_below_0x80_is_success(reason_code: int) -> None:
    flow = flow_at(level=5)
    offer(flow, 0, 1, 2)
    burst(flow, 5)
    flow.on_received(ack(PUBACK, 1, reason_code) + ack(PUBREC, 2, reason_code))
    facts = flow.record.facts(1)
    assert facts is not None
    assert (dict(facts.settled), facts.released) == ({"delivered": ((0, 1),)}, ((1, 2),))
    assert flow.counts.refused == 0
