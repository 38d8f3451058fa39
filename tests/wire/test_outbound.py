"""OutboundFlow by example: the bytes that leave, the windows, resuming, lost sessions, and acknowledgements of every kind."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.outbound_model import (
    PUBACK,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    PUBREL,
    Sent,
    ack,
    hand_out,
    lane_opened,
    outbound_flow,
    parse,
)
from wire.batch import RETAIN, from_rows
from wire.errors import PeerViolation
from wire.frames import HandOut
from wire.mqtt.publish_properties import message_expiry_s, with_message_expiry
from wire.outbound import OutboundFlow

EDGE = "edge@here"


def flow_at(
    head: int = 0,
    *,
    level: int = 4,
    receive_maximum: int = 100,
    qos2_maximum: int = 20,
    republish: bool = False,
    remote_maximum: int = 65_535,
    maximum_qos: int = 2,
    retain_available: bool = True,
    maximum_packet_size: int | None = None,
    **policy: Any,
) -> OutboundFlow:
    """A flow whose lane begins at ``head``, connected with the session on record."""
    flow = outbound_flow(receive_maximum=receive_maximum, qos2_maximum=qos2_maximum, republish=republish, **policy)
    flow.open(lane_opened(head=head, session=EDGE))
    flow.connected(
        session=EDGE,
        session_present=True,
        level=level,
        receive_maximum=remote_maximum,
        maximum_qos=maximum_qos,
        retain_available=retain_available,
        maximum_packet_size=maximum_packet_size,
    )
    return flow


def offer(flow: OutboundFlow, first_seq: int, *flags: int) -> None:
    """Hand out one row for each of ``flags``."""
    flow.offer(hand_out(first_seq, from_rows((b"t", flag, b"%d" % (first_seq + at)) for at, flag in enumerate(flags))))


def commit(flow: OutboundFlow, number: int) -> dict[str, tuple[tuple[int, int], ...]]:
    """Have all that is known of committed as ``Settle`` ``number``; what it settles."""
    found = settled(flow, number)
    flow.record.committed(number)
    return found


def burst(flow: OutboundFlow, level: int = 4, now_s: float = 0.0) -> list[Sent]:
    """What leaves now."""
    return parse(flow.pump(1 << 20, now_s), level)


def kinds(packets: list[Sent]) -> list[tuple[int, int]]:
    """Kind and packet identifier of each."""
    return [(packet.kind, packet.packet_id) for packet in packets]


def settled(flow: OutboundFlow, number: int = 1) -> dict[str, tuple[tuple[int, int], ...]]:
    """What became of messages since the last time."""
    facts = flow.record.facts(number)
    return {} if facts is None else dict(facts.settled)


# --- golden bytes ---


def test_golden_burst_of_mqtt_3_1_1() -> None:
    """Packet identifiers come from the sequence, QoS 0 has none, and nothing else is in the bytes."""
    flow = flow_at(64_999)
    flow.offer(hand_out(64_999, from_rows([(b"a/b", 1, b"xy"), (b"a/b", 0, b""), (b"c", 2 | RETAIN, b"z" * 130)])))
    assert flow.pump(1 << 20, 0.0) == (
        b"\x32\x09\x00\x03a/b\xfd\xe8xy" + b"\x30\x05\x00\x03a/b" + b"\x35\x87\x01\x00\x01c\x00\x02" + b"z" * 130
    )


def test_golden_burst_of_mqtt_5_with_and_without_properties() -> None:
    flow = flow_at(level=5)
    batch = from_rows([(b"a", 1, b"x"), (b"a", 1, b"y"), (b"bb", 0, b"z"), (b"bb", 0, b"")])
    batch.properties = {1: b"\x01\x01", 3: b"\x01\x00"}
    flow.offer(hand_out(0, batch))
    assert flow.pump(1 << 20, 0.0) == (
        b"\x32\x07\x00\x01a\x00\x01\x00x"
        + b"\x32\x09\x00\x01a\x00\x02\x02\x01\x01y"
        + b"\x30\x06\x00\x02bb\x00z"
        + b"\x30\x07\x00\x02bb\x02\x01\x00"
    )


@given(
    rows=st.lists(
        st.tuples(st.sampled_from([b"t", b"a/b/c"]), st.integers(0, 2), st.binary(max_size=300)), min_size=1, max_size=40
    ),
    with_properties=st.sets(st.integers(0, 39)),
    level=st.sampled_from([4, 5]),
    retains=st.sets(st.integers(0, 39)),
    bytes_max=st.sampled_from([1, 100, 1 << 20]),
)
def test_every_message_leaves_as_it_was_handed_out(
    rows: list[tuple[bytes, int, bytes]], with_properties: set[int], level: int, retains: set[int], bytes_max: int
) -> None:
    flow = flow_at(level=level, qos2_maximum=100)
    batch = from_rows((topic, qos | (RETAIN if at in retains else 0), payload) for at, (topic, qos, payload) in enumerate(rows))
    batch.properties = {at: b"\x26\x00\x01k\x00\x01v" for at in with_properties if at < len(rows)}
    flow.offer(hand_out(0, batch))
    packets: list[Sent] = []
    while data := flow.pump(bytes_max, 0.0):
        packets += parse(data, level)
    assert [(packet.topic, packet.qos, packet.payload, bool(packet.flags & 1)) for packet in packets] == [
        (topic, qos, payload, at in retains) for at, (topic, qos, payload) in enumerate(rows)
    ]
    assert [packet.properties for packet in packets] == [
        batch.properties.get(at, b"") if level == 5 else b"" for at in range(len(rows))
    ]


# --- windows ---


def test_f1_the_window_is_the_smaller_receive_maximum_and_each_puback_opens_it() -> None:
    flow = flow_at(receive_maximum=3, remote_maximum=2, level=5)
    offer(flow, 0, 1, 1, 1, 1)
    assert kinds(burst(flow, 5)) == [(PUBLISH, 1), (PUBLISH, 2)]
    assert burst(flow, 5) == []
    flow.received(ack(PUBACK, 1))
    assert kinds(burst(flow, 5)) == [(PUBLISH, 3)]


def test_f2_qos_2_has_a_window_of_its_own_at_level_4_and_its_head_blocks() -> None:
    """A QoS 2 message counts until PUBCOMP; what is behind it waits, QoS 1 too, which Mosquitto 2.0 would refuse then (F8)."""
    flow = flow_at(qos2_maximum=1)
    offer(flow, 0, 2, 2, 1)
    assert kinds(burst(flow)) == [(PUBLISH, 1)]
    flow.received(ack(PUBREC, 1))
    facts = flow.record.facts(1)
    assert facts is not None
    assert facts.released == ((0, 1),)
    flow.record.committed(1)
    assert kinds(burst(flow)) == [(PUBREL, 1)]
    flow.received(ack(PUBCOMP, 1))
    assert kinds(burst(flow)) == [(PUBLISH, 2)]
    flow.received(ack(PUBREC, 2))
    flow.record.facts(2)
    flow.record.committed(2)
    assert kinds(burst(flow)) == [(PUBREL, 2)]
    flow.received(ack(PUBCOMP, 2))
    assert kinds(burst(flow)) == [(PUBLISH, 3)]


def test_f2_at_level_5_one_slot_of_the_window_is_never_taken_by_qos_2() -> None:
    """A remote that counts the QoS 2 it holds of an earlier connection still has room for what goes again before that."""
    flow = flow_at(level=5, remote_maximum=3)
    offer(flow, 0, 1, 2, 2, 2)
    assert kinds(burst(flow, 5)) == [(PUBLISH, 1), (PUBLISH, 2), (PUBLISH, 3)]
    flow.received(ack(PUBACK, 1))
    assert not burst(flow, 5), "two of three slots are the most that QoS 2 takes"
    alone = flow_at(level=5, remote_maximum=1)
    offer(alone, 0, 2)
    assert kinds(burst(alone, 5)) == [(PUBLISH, 1)], "but for a window of one"


@pytest.mark.parametrize("republish", [False, True])
def test_a_session_that_was_forgotten_because_of_damage_is_a_lost_one(republish: bool) -> None:
    """What was released in it must not be released in the next one, which has no PUBREC of it."""
    flow = outbound_flow(republish=republish)
    flow.open(lane_opened(head=0, tail=1, released=[0], session=""))
    offer(flow, 0, 2)

    flow.connected(session=EDGE, session_present=False, level=4)

    assert (flow.record.generation, flow.counts.sessions_lost) == (1, 1)
    settled(flow)
    flow.record.committed(1)
    assert kinds(burst(flow)) == ([(PUBLISH, 1)] if republish else [])


def test_f3_what_is_unsettled_never_spans_more_than_65_000_sequences() -> None:
    flow = flow_at(receive_maximum=65_535)
    offer(flow, 0, 1)
    offer(flow, 64_999, 1, 1, 0)
    assert kinds(burst(flow)) == [(PUBLISH, 1), (PUBLISH, 65_000)]
    flow.received(ack(PUBACK, 1))
    assert burst(flow) == [], "a crash now would send the first one again, under the identifier of the third"
    assert flow.record.urgent
    facts = flow.record.facts(7)
    assert facts is not None
    assert facts.settled == (("delivered", ((0, 1),)),)
    assert (facts.session, facts.generation) == (flow.record.session, flow.record.generation)
    assert not flow.record.urgent, "it asks once"
    assert burst(flow) == []
    flow.record.committed(7)
    assert kinds(burst(flow)) == [(PUBLISH, 1), (PUBLISH, 0)]


def test_f3_a_lane_that_keeps_up_has_its_settlements_on_record_long_before_its_identifiers_come_round() -> None:
    flow = flow_at(receive_maximum=1000)
    asked = 0
    for number, start in enumerate(range(0, 130_000, 1000), 1):
        offer(flow, start, *[1] * 1000)
        assert kinds(burst(flow))
        flow.received(b"".join(ack(PUBACK, seq % 65_000 + 1) for seq in range(start, start + 1000)))
        facts = flow.record.facts(number)
        assert facts is not None
        if facts.session is not None:
            asked += 1
            flow.record.committed(number)
    assert asked == 3, "one commit in about 32,500 messages"


def test_f4_pubrel_waits_for_the_commit_even_over_a_reconnect() -> None:
    """The link is cut and the store may have the release or not: PUBLISH never leaves again, PUBREL not before the answer."""
    flow = flow_at()
    offer(flow, 0, 2)
    burst(flow)
    flow.received(ack(PUBREC, 1))
    assert burst(flow) == []
    flow.record.facts(1)
    flow.disconnected()
    flow.connected(session=EDGE, session_present=True, level=4)
    assert burst(flow) == []
    assert flow.in_flight.messages == 1
    flow.record.committed(1)
    assert kinds(burst(flow)) == [(PUBREL, 1)]


@pytest.mark.parametrize("level", [4, 5])
def test_a_second_pubrec_has_its_pubrel_again_and_the_exchange_ends_with_the_first_pubcomp(level: int) -> None:
    flow = flow_at(level=level)
    offer(flow, 0, 2, 2)
    burst(flow, level)
    flow.received(ack(PUBREC, 1) + ack(PUBREC, 2))
    flow.record.facts(1)
    flow.record.committed(1)
    assert kinds(burst(flow, level)) == [(PUBREL, 1), (PUBREL, 2)]
    flow.received(ack(PUBREC, 1))
    assert [packet.raw for packet in burst(flow, level)] == [b"\x62\x02\0\x01"]
    assert (flow.in_flight.messages, flow.owed[2] is not None) == (2, True)
    flow.received(ack(PUBREC, 2) + ack(PUBCOMP, 1) + ack(PUBCOMP, 1) + ack(PUBCOMP, 2))
    assert kinds(burst(flow, level)) == [(PUBREL, 2)], "it was owed when its PUBREC came"
    flow.received(ack(PUBCOMP, 2))
    assert settled(flow, 2) == {"delivered": ((0, 2),)}
    assert flow.in_flight.messages == 0


@pytest.mark.parametrize("level", [4, 5])
def test_f4_a_second_pubrec_waits_for_the_commit_like_the_first_and_both_have_one_pubrel(level: int) -> None:
    flow = flow_at(level=level)
    offer(flow, 0, 2)
    burst(flow, level)
    flow.received(ack(PUBREC, 1) + ack(PUBREC, 1))
    flow.record.facts(1)
    flow.received(ack(PUBREC, 1))
    assert burst(flow, level) == []
    flow.record.committed(1)
    flow.received(ack(PUBREC, 1))
    assert kinds(burst(flow, level)) == [(PUBREL, 1)]


@pytest.mark.parametrize("level", [4, 5])
def test_a_second_pubcomp_of_what_a_life_before_had_released_is_ignored(level: int) -> None:
    """Its sequence is above all that was sent since the lane was opened."""
    flow = outbound_flow(receive_maximum=1)
    flow.open(lane_opened(tail=9, dup_below=9, released=[7], session=EDGE))
    flow.connected(session=EDGE, session_present=True, level=level)
    burst(flow, level)
    flow.received(ack(PUBREC, 8))
    assert kinds(burst(flow, level)) == [(PUBREL, 8)]
    flow.received(ack(PUBCOMP, 8) + ack(PUBCOMP, 8))
    assert settled(flow) == {"delivered": ((7, 8),)}


def test_a_pubrec_of_failure_behind_one_of_success_breaks_the_exchange() -> None:
    flow = flow_at(level=5)
    offer(flow, 0, 2)
    burst(flow, 5)
    flow.received(ack(PUBREC, 1))
    flow.record.facts(1)
    flow.record.committed(1)
    burst(flow, 5)
    with pytest.raises(PeerViolation, match=r"^MQTT-4\.3\.3-4 "):
        flow.received(ack(PUBREC, 1, 0x87))


def test_f6_a_pubrel_without_pubcomp_goes_again_on_the_resumed_session() -> None:
    flow = flow_at()
    offer(flow, 0, 2, 1)
    burst(flow)
    flow.received(ack(PUBREC, 1))
    flow.record.facts(1)
    flow.record.committed(1)
    burst(flow)
    flow.disconnected()
    flow.connected(session=EDGE, session_present=True, level=4)
    again = burst(flow)
    assert kinds(again) == [(PUBREL, 1), (PUBLISH, 2)]
    assert again[1].dup
    flow.received(ack(PUBCOMP, 1) + ack(PUBACK, 2))
    assert settled(flow) == {"delivered": ((0, 2),), "redelivered": ((1, 2),)}


def test_f6_everything_unsettled_goes_again_in_order_with_dup_and_what_is_settled_does_not() -> None:
    flow = flow_at()
    offer(flow, 0, 1, 1, 0, 1, 1)
    burst(flow)
    flow.received(ack(PUBACK, 2) + ack(PUBACK, 4))
    flow.disconnected()
    flow.connected(session=EDGE, session_present=True, level=4)
    again = burst(flow)
    assert [(packet.packet_id, packet.dup, packet.payload) for packet in again] == [(1, True, b"0"), (5, True, b"4")]
    assert burst(flow) == []


# --- opening the lane ---


def test_what_was_settled_or_released_before_the_lane_was_opened_is_not_published() -> None:
    """DUP below ``dup_below``; a released message is settled when its PUBCOMP came, handed out again or not."""
    flow = outbound_flow()
    flow.open(lane_opened(head=10, dup_below=14, settled=[11], released=[12], session=EDGE))
    flow.connected(session=EDGE, session_present=True, level=4)
    assert kinds(burst(flow)) == [(PUBREL, 13)]
    flow.received(ack(PUBCOMP, 13))
    assert settled(flow) == {"delivered": ((12, 13),)}
    offer(flow, 10, 1, 1, 2, 1, 1)
    assert settled(flow) == {}
    assert [(packet.packet_id, packet.dup) for packet in burst(flow)] == [(11, True), (14, True), (15, False)]


def test_f7_nothing_leaves_before_a_new_session_is_on_record() -> None:
    flow = outbound_flow()
    flow.open(lane_opened())
    assert flow.knows(EDGE, session_present=False)
    assert not flow.knows(EDGE, session_present=True)
    flow.connected(session=EDGE, session_present=False, level=4)
    offer(flow, 0, 1)
    assert burst(flow) == []
    facts = flow.record.facts(1)
    assert facts is not None
    assert (facts.session, facts.generation) == (EDGE, 0)
    assert burst(flow) == []
    flow.record.committed(1)
    assert kinds(burst(flow)) == [(PUBLISH, 1)]


@pytest.mark.parametrize("republish", [False, True])
def test_f7_a_lost_session_settles_or_sends_again_what_it_had_released(republish: bool) -> None:
    """Unreleased messages go as new, without DUP, in both cases; the generation rises."""
    flow = flow_at(republish=republish)
    offer(flow, 0, 2, 2, 1)
    burst(flow)
    flow.received(ack(PUBREC, 1))
    flow.record.facts(1)
    flow.record.committed(1)
    flow.disconnected()
    flow.connected(session=EDGE, session_present=False, level=4)
    facts = flow.record.facts(2)
    assert facts is not None
    assert (facts.session, facts.generation) == (EDGE, 1)
    assert dict(facts.settled) == ({} if republish else {"delivered": ((0, 1),)})
    flow.record.committed(2)
    again = burst(flow)
    assert [(packet.packet_id, packet.dup) for packet in again] == [
        *([(1, False)] if republish else []),
        (2, False),
        (3, False),
    ]
    assert flow.counts.sessions_lost == 1
    assert flow.counts.assumed_delivered == (0 if republish else 1)


def test_another_address_is_another_session() -> None:
    flow = flow_at()
    offer(flow, 0, 1)
    burst(flow)
    flow.disconnected()
    assert not flow.knows("edge@there", session_present=True)
    flow.connected(session="edge@there", session_present=False, level=4)
    assert (flow.record.session, flow.record.generation) == ("edge@there", 1)


# --- what the remote cannot take ---


def test_f16_a_lane_that_finishes_sends_nothing_new_and_all_that_may_have_been_sent() -> None:
    """What an earlier life may have sent (0, 1), what an earlier connection has (2), a release; 3 and 4 wait."""
    flow = outbound_flow(receive_maximum=3)
    flow.open(lane_opened(head=0, tail=5, dup_below=2, session=EDGE))
    assert flow.unfinished
    flow.connected(session=EDGE, session_present=True, level=4)
    offer(flow, 0, 1, 2, 1, 1, 1)
    assert [packet.packet_id for packet in burst(flow)] == [1, 2, 3]
    flow.disconnected()
    flow.connected(session=EDGE, session_present=True, level=4)
    flow.finish(True)
    assert [packet.packet_id for packet in burst(flow)] == [1, 2, 3]
    flow.received(ack(PUBACK, 1) + ack(PUBREC, 2) + ack(PUBACK, 3))
    assert flow.unfinished
    assert burst(flow) == []
    commit(flow, 1)
    assert kinds(burst(flow)) == [(PUBREL, 2)]
    assert flow.unfinished
    flow.received(ack(PUBCOMP, 2))
    assert not flow.unfinished
    assert burst(flow) == []
    flow.finish(False)
    assert [packet.packet_id for packet in burst(flow)] == [4, 5]
    assert flow.unfinished


def test_f16_what_was_never_sent_is_not_unfinished_and_a_refused_message_is_not() -> None:
    flow = outbound_flow()
    flow.open(lane_opened(head=0, tail=4, dup_below=3, settled=[1, 2], session=EDGE))
    flow.connected(session=EDGE, session_present=True, level=5)
    offer(flow, 0, 1)
    burst(flow, level=5)
    assert flow.unfinished
    flow.received(ack(PUBACK, 1, 0x97))
    assert not flow.unfinished, "its exchange has ended; it is sent as new, here or elsewhere"


def test_leaving_what_is_finished_loses_no_session_and_another_address_is_another_generation() -> None:
    flow = outbound_flow()
    flow.open(lane_opened(session=EDGE, generation=3))
    flow.connected(session=EDGE, session_present=True, level=4)
    offer(flow, 0, 2)
    burst(flow)
    flow.received(ack(PUBREC, 1))
    commit(flow, 1)
    burst(flow)
    flow.received(ack(PUBCOMP, 1))
    flow.finish(True)
    flow.disconnected()
    flow.connected(session="edge@there", session_present=False, level=4)
    assert (flow.counts.sessions_lost, flow.record.generation) == (0, 4)
    commit(flow, 2)
    offer(flow, 1, 2)
    assert [(packet.packet_id, packet.dup) for packet in burst(flow)] == [(2, False)]


def test_qos_and_retain_are_lowered_to_what_the_remote_takes() -> None:
    """A message lowered to QoS 0 is settled when it leaves: nobody will acknowledge it."""
    flow = flow_at(level=5, maximum_qos=0, retain_available=False)
    offer(flow, 0, 2 | RETAIN, 1, 0)
    assert [packet.flags for packet in burst(flow, 5)] == [0, 0, 0]
    assert settled(flow) == {"delivered": ((0, 2),)}
    assert (flow.counts.qos_lowered, flow.counts.retain_stripped) == (2, 1)


def test_a_message_too_large_for_the_remote_is_given_up_and_those_around_it_leave() -> None:
    flow = flow_at(level=5, maximum_packet_size=30)
    flow.offer(hand_out(0, from_rows([(b"t", 1, b"a"), (b"t", 1, bytes(22)), (b"t", 1, bytes(23)), (b"t", 1, b"b")])))
    packets = burst(flow, 5)
    assert [packet.packet_id for packet in packets] == [1, 2, 4]
    assert max(len(packet.raw) for packet in packets) == 30
    assert settled(flow) == {"dead:packet_too_large": ((2, 3),)}


# --- acknowledgements ---


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
        waiting = waiting[flow.received(waiting) :]
    assert not waiting
    assert flow.in_flight.messages == 0
    assert settled(flow) == {"delivered": ((64_995, 65_007),)}


@pytest.mark.parametrize("reason_code", [None, 0x00, 0x10])
def test_success_and_no_matching_subscribers_settle_as_delivered(reason_code: int | None) -> None:
    flow = flow_at(level=5)
    offer(flow, 0, 1, 1, 2)
    burst(flow, 5)
    flow.received(ack(PUBACK, 1, reason_code) + ack(PUBACK, 2, reason_code) + ack(PUBREC, 3, reason_code))
    facts = flow.record.facts(1)
    assert facts is not None
    assert (dict(facts.settled), facts.released) == ({"delivered": ((0, 2),)}, ((2, 3),))


def test_a_negative_reason_code_settles_the_message_and_frees_its_place() -> None:
    flow = flow_at(level=5, receive_maximum=2)
    offer(flow, 0, 1, 2, 1)
    burst(flow, 5)
    flow.received(ack(PUBACK, 1, 0x99) + bytes([0x50, 4, 0, 2, 0x87, 0]))
    assert settled(flow) == {"dead:remote_0x99": ((0, 1),), "dead:remote_0x87": ((1, 2),)}
    assert flow.in_flight.messages == 0
    assert kinds(burst(flow, 5)) == [(PUBLISH, 3)]


def test_mqtt_5_answers_an_unknown_pubrec_and_ignores_an_unknown_pubcomp() -> None:
    flow = flow_at(level=5)
    flow.received(ack(PUBREC, 7) + ack(PUBCOMP, 8, 0x92))
    assert [(packet.kind, packet.packet_id, packet.reason_code) for packet in burst(flow, 5)] == [(PUBREL, 7, 0x92)]


def test_mqtt_3_1_1_ignores_a_repeated_puback_of_something_settled() -> None:
    flow = flow_at()
    offer(flow, 0, 1, 1)
    burst(flow)
    flow.received(ack(PUBACK, 1) + ack(PUBACK, 1) + ack(PUBACK, 2))
    assert settled(flow) == {"delivered": ((0, 2),)}


@pytest.mark.parametrize(
    ("level", "answer"),
    [
        (4, ack(PUBACK, 2)),  # waits for PUBREC
        (4, ack(PUBREC, 1)),  # waits for PUBACK
        (4, ack(PUBCOMP, 2)),  # PUBREL has not left
        (4, ack(PUBACK, 3)),  # never sent
        (4, ack(PUBACK, 65_001)),  # never given
        (4, ack(PUBACK, 0)),
        (4, ack(PUBACK, 1, 0)),  # a reason code before MQTT 5
        (4, b"\x40\x01\x00\x00"),
        (5, ack(PUBACK, 3)),
        (5, ack(PUBREC, 1)),
        (5, b"\x40\xff\xff\x7f\x00"),
    ],
)
def test_an_acknowledgement_that_nothing_waits_for_is_a_violation(level: int, answer: bytes) -> None:
    flow = flow_at(level=level)
    offer(flow, 0, 1, 2)
    burst(flow, level)
    with pytest.raises(PeerViolation, match=r"^MQTT-"):
        flow.received(answer)


def test_other_packets_are_left_to_the_caller() -> None:
    flow = flow_at()
    offer(flow, 0, 1)
    burst(flow)
    assert flow.received(ack(PUBACK, 1) + b"\xd0\x00\x40\x02") == 4
    assert flow.received(b"\xd0\x00\x40\x02\x00\x01") == 0


# --- what is kept ---


def test_what_passed_counts_once_and_makes_room_for_all_of_a_hand_out() -> None:
    """Messages sent again after a reconnect free no more credit."""
    flow = flow_at(receive_maximum=2)
    offer(flow, 0, 1, 1, 1, 0)
    burst(flow)
    assert flow.handed_out.passed_messages == 2
    flow.disconnected()
    flow.connected(session=EDGE, session_present=True, level=4)
    burst(flow)
    assert flow.handed_out.passed_messages == 2
    flow.received(ack(PUBACK, 1) + ack(PUBACK, 2))
    burst(flow)
    assert flow.handed_out.passed_messages == 4
    assert flow.handed_out.passed_bytes == 4 * 2


def test_opening_the_lane_anew_forgets_the_old_one() -> None:
    flow = flow_at()
    offer(flow, 0, 1, 2)
    burst(flow)
    flow.received(ack(PUBREC, 2))
    flow.open(lane_opened(head=0, dup_below=2, released=[1], session=EDGE, epoch=2))
    assert (flow.live, flow.record.facts(1), flow.pump(100, 0.0)) == (False, None, b"")
    flow.connected(session=EDGE, session_present=True, level=4)
    offer(flow, 0, 1, 2)
    again = burst(flow)
    assert kinds(again) == [(PUBREL, 2), (PUBLISH, 1)]
    assert again[1].dup


def test_the_properties_of_a_topic_go_with_each_of_its_rows_that_has_none_of_its_own() -> None:
    """At level 5 they stand in front of the payload; at level 4 there are none."""
    batch = from_rows([(b"a", 1, b"x"), (b"b", 0, b"y"), (b"a", 1, b"z")])
    batch.topic_properties = [b"\x01\x01", b""]
    batch.properties = {2: b"\x01\x00"}
    at_5 = flow_at(level=5)
    at_5.offer(hand_out(0, batch))
    assert at_5.pump(1 << 20, 0.0) == (
        b"\x32\x09\x00\x01a\x00\x01\x02\x01\x01x" + b"\x30\x05\x00\x01b\x00y" + b"\x32\x09\x00\x01a\x00\x03\x02\x01\x00z"
    )
    at_4 = flow_at(level=4)
    at_4.offer(hand_out(0, batch))
    assert at_4.pump(1 << 20, 0.0) == b"\x32\x06\x00\x01a\x00\x01x" + b"\x30\x04\x00\x01by" + b"\x32\x06\x00\x01a\x00\x03z"


def test_sequences_of_an_in_memory_queue_are_resent_like_any_other() -> None:
    """They begin at the store's epoch << 32, far above 2**62."""
    first_seq = 1_795_224_171 << 32
    flow = flow_at(head=first_seq)
    offer(flow, first_seq, 1, 2)
    sent = kinds(burst(flow))
    flow.disconnected()
    flow.connected(session=EDGE, session_present=True, level=4)
    assert kinds(burst(flow)) == sent


# --- refusals ---


def test_f9_a_message_refused_for_now_leaves_again_as_new_before_what_waits() -> None:
    """The lane is held back for the delay; what was in flight goes on, and MQTT-4.4.0-2 forbids a retransmission, so DUP is 0."""
    flow = flow_at(level=5, receive_maximum=3)
    offer(flow, 0, 1, 2, 1, 1)
    assert kinds(burst(flow, 5)) == [(PUBLISH, 1), (PUBLISH, 2), (PUBLISH, 3)]
    flow.received(ack(PUBACK, 1, 0x97))
    assert (flow.counts.retried, flow.refusals.hold.reason_code, settled(flow)) == (1, 0x97, {})
    assert burst(flow, 5, 10.0) == []
    assert flow.refusals.hold.until_s == 11.0
    flow.received(ack(PUBREC, 2) + ack(PUBACK, 3))
    facts = flow.record.facts(1)
    assert facts is not None
    flow.record.committed(1)
    assert kinds(burst(flow, 5, 10.9)) == [(PUBREL, 2)]
    again = burst(flow, 5, 11.0)
    assert [(packet.packet_id, packet.dup) for packet in again] == [(1, False), (4, False)]
    assert flow.refusals.hold.reason_code == 0
    flow.received(ack(PUBCOMP, 2) + ack(PUBACK, 1) + ack(PUBACK, 4))
    assert settled(flow)["delivered"] == ((0, 2), (3, 4))
    assert flow.in_flight.messages == 0


def test_f9_a_pubrec_that_refuses_frees_the_identifier_and_the_same_one_is_used_anew() -> None:
    flow = flow_at(level=5, codes=((0x87, "retry"),))
    offer(flow, 0, 2)
    burst(flow, 5)
    flow.received(ack(PUBREC, 1, 0x87))
    assert (flow.in_flight.messages, flow.in_flight.qos2) == (0, 0)
    burst(flow, 5, 0.0)
    assert [(packet.packet_id, packet.dup) for packet in burst(flow, 5, 1.0)] == [(1, False)]
    flow.received(ack(PUBREC, 1))
    facts = flow.record.facts(1)
    assert facts is not None
    assert facts.released == ((0, 1),)


def test_f9_a_refused_message_keeps_its_hold_over_a_reconnect_and_goes_as_new_among_those_with_dup() -> None:
    flow = flow_at(level=5)
    offer(flow, 0, 1, 1, 1, 1)
    burst(flow, 5)
    flow.received(ack(PUBACK, 2, 0x97))
    burst(flow, 5, 0.0)
    flow.disconnected()
    flow.connected(session=EDGE, session_present=True, level=5)
    assert burst(flow, 5, 0.9) == []
    again = burst(flow, 5, 1.0)
    assert [(packet.packet_id, packet.dup) for packet in again] == [(1, True), (2, False), (3, True), (4, True)]
    flow.disconnected()
    flow.connected(session=EDGE, session_present=True, level=5)
    assert [packet.dup for packet in burst(flow, 5, 1.0)] == [True] * 4


def test_f9_a_new_session_is_not_held_back_by_the_refusals_of_the_old_one() -> None:
    flow = flow_at(level=5)
    offer(flow, 0, 1, 1)
    burst(flow, 5)
    flow.received(ack(PUBACK, 1, 0x97))
    burst(flow, 5, 0.0)
    flow.disconnected()
    flow.connected(session="edge@there", session_present=False, level=5)
    flow.record.facts(1)
    flow.record.committed(1)
    assert [(packet.packet_id, packet.dup) for packet in burst(flow, 5, 0.0)] == [(1, False), (2, False)]


def test_f9_after_a_crash_a_refused_message_may_have_been_sent_like_any_other() -> None:
    """Nobody remembers the refusal: it is unsettled, so it goes with DUP."""
    flow = flow_at(level=5)
    offer(flow, 0, 1)
    burst(flow, 5)
    flow.received(ack(PUBACK, 1, 0x97))
    flow.open(lane_opened(head=0, dup_below=1, session=EDGE, epoch=2))
    flow.connected(session=EDGE, session_present=True, level=5)
    offer(flow, 0, 1)
    assert [(packet.packet_id, packet.dup) for packet in burst(flow, 5, 0.0)] == [(1, True)]


def test_what_is_settled_behind_an_unsettled_message_is_not_kept() -> None:
    """One message that is refused again and again, or never acknowledged, must not hold 65,000 others in memory."""
    flow = flow_at(level=5, receive_maximum=100)
    offer(flow, 0, 1)
    burst(flow, 5)
    for seq in range(1, 2_000):
        offer(flow, seq, 1)
        burst(flow, 5)
        flow.received(ack(PUBACK, seq + 1))
    assert flow.handed_out.kept_segments <= 300
    flow.received(ack(PUBACK, 1, 0x97))
    burst(flow, 5, 0.0)
    assert [packet.packet_id for packet in burst(flow, 5, 1.0)] == [1]
    assert flow.handed_out.kept_segments == 1
    assert settled(flow)["delivered"] == ((1, 2_000),)


def test_a_refused_message_blocks_nothing_but_the_span_of_65_000() -> None:
    flow = flow_at(level=5, receive_maximum=65_535)
    offer(flow, 0, 1)
    burst(flow, 5)
    flow.received(ack(PUBACK, 1, 0x97))
    burst(flow, 5, 0.0)
    offer(flow, 64_999, 1, 1)
    assert kinds(burst(flow, 5, 1.0)) == [(PUBLISH, 1), (PUBLISH, 65_000)]


@pytest.mark.parametrize(("codes", "outcome"), [((), "dead:remote_0x80"), (((0x80, "drop"),), "dropped:remote_0x80")])
def test_a_message_given_up_says_why(codes: tuple[tuple[int, str], ...], outcome: str) -> None:
    flow = flow_at(level=5, codes=codes)
    offer(flow, 0, 1, 2)
    burst(flow, 5)
    flow.received(ack(PUBACK, 1, 0x80) + ack(PUBREC, 2, 0x80))
    assert settled(flow) == {outcome: ((0, 2),)}
    assert flow.refusals.take_counts() == {0x80: 2}
    assert flow.refusals.take_counts() == {}
    assert (flow.refusals.hold.reason_code, flow.counts.retried, flow.counts.refused) == (0, 0, 2)


def test_a_message_that_grew_too_large_for_a_resumed_session_gives_its_identifier_back() -> None:
    """The remote may hold it of the first sending, when it took more; then the next one under it would be a duplicate to it."""
    flow = flow_at(level=5)
    flow.offer(hand_out(0, from_rows([(b"t", 2, bytes(50)), (b"t", 2, b"a")])))
    burst(flow, 5)
    flow.disconnected()
    flow.connected(session=EDGE, session_present=True, level=5, maximum_packet_size=30)
    again = burst(flow, 5)
    assert kinds(again) == [(PUBLISH, 2), (PUBREL, 1)]
    flow.received(ack(PUBCOMP, 1, 0x92) + ack(PUBREC, 2))
    assert settled(flow) == {"dead:packet_too_large": ((0, 1),), "redelivered": ((1, 2),)}


def grown_too_large() -> OutboundFlow:
    """A flow that gives up its QoS 2 message 0, of which the remote has had the PUBLISH: it takes 30 bytes now."""
    flow = flow_at(level=5)
    flow.offer(hand_out(0, from_rows([(b"t", 2, bytes(50))])))
    burst(flow, 5)
    flow.disconnected()
    flow.connected(session=EDGE, session_present=True, level=5, maximum_packet_size=30)
    assert kinds(burst(flow, 5)) == [(PUBREL, 1)]
    return flow


def test_f13_the_pubrel_of_what_was_given_up_goes_on_each_connection_until_its_pubcomp() -> None:
    """Once it is settled, nobody would know that its identifier is to be freed, and a later message has the same."""
    flow = grown_too_large()
    assert settled(flow) == {}
    for _ in range(2):
        flow.disconnected()
        flow.connected(session=EDGE, session_present=True, level=5)
        assert kinds(burst(flow, 5)) == [(PUBREL, 1)]
    flow.received(ack(PUBCOMP, 1, 0x92))
    assert settled(flow) == {"dead:packet_too_large": ((0, 1),)}
    assert flow.in_flight.messages == 0
    flow.disconnected()
    flow.connected(session=EDGE, session_present=True, level=5)
    offer(flow, 65_000, 2)
    assert burst(flow, 5) == []  # F3
    flow.record.facts(2)
    flow.record.committed(2)
    assert [(packet.packet_id, packet.dup) for packet in burst(flow, 5)] == [(1, False)]


def test_f13_a_crash_before_the_pubcomp_has_the_message_given_up_again() -> None:
    flow = grown_too_large()
    flow.open(lane_opened(tail=3, dup_below=2, session=EDGE))
    flow.connected(session=EDGE, session_present=True, level=5, maximum_packet_size=30)
    flow.offer(hand_out(0, from_rows([(b"t", 2, bytes(50))] * 3)))
    assert kinds(burst(flow, 5)) == [(PUBREL, 1), (PUBREL, 2)]  # what was never handed out before was never sent
    assert settled(flow) == {"dead:packet_too_large": ((2, 3),)}
    flow.received(ack(PUBCOMP, 1) + ack(PUBCOMP, 2))
    assert settled(flow) == {"dead:packet_too_large": ((0, 2),)}


def test_f13_a_new_session_holds_no_identifiers() -> None:
    flow = grown_too_large()
    flow.disconnected()
    flow.connected(session=EDGE, session_present=False, level=5)
    assert settled(flow) == {"dead:packet_too_large": ((0, 1),)}
    flow.record.committed(1)
    assert burst(flow, 5) == []
    assert (flow.in_flight.messages, flow.counts.assumed_delivered) == (0, 0)


@pytest.mark.parametrize("maximum_qos", [0, 1])
def test_f13_a_remote_that_takes_no_qos_2_is_sent_no_pubrel_for_what_it_perhaps_never_had(maximum_qos: int) -> None:
    """It may know no PUBREL, and would close the connection on it each time."""
    flow = outbound_flow()
    flow.open(lane_opened(tail=2, dup_below=1, session=EDGE))
    for _ in range(2):
        flow.connected(session=EDGE, session_present=True, level=5, maximum_qos=maximum_qos, maximum_packet_size=30)
        flow.offer(hand_out(flow.due.sent_stop, from_rows([(b"t", 2, bytes(50))])))
        assert burst(flow, 5) == []
        flow.disconnected()
    assert settled(flow) == {"dead:packet_too_large": ((0, 2),)}


def shown(packets: list[Sent]) -> list[tuple[int, int, int, bool]]:
    """Kind, QoS, packet identifier and DUP of each; of a PUBREL the middle flag bits are 1."""
    return [(packet.kind, packet.qos, packet.packet_id, packet.dup) for packet in packets]


def taken_to(flow: OutboundFlow, maximum_qos: int) -> list[tuple[int, int, int, bool]]:
    """The link is cut and the session resumed with that Maximum QoS; what leaves then."""
    flow.disconnected()
    flow.connected(session=EDGE, session_present=True, level=5, maximum_qos=maximum_qos)
    return shown(burst(flow, 5))


@pytest.mark.parametrize("reason_code", [0x00, 0x92])
@pytest.mark.parametrize("maximum_qos", [0, 1])
def test_f14_what_left_at_qos_2_goes_at_a_lower_qos_once_its_identifier_is_free(maximum_qos: int, reason_code: int) -> None:
    """Held on, it makes the message 65,000 later a repeat; and what is behind waits, or it would be ahead."""
    flow = flow_at(level=5)
    offer(flow, 0, 2, 1, 2)
    burst(flow, 5)
    flow.received(ack(PUBACK, 2))
    offer(flow, 3, 1, 0)
    assert taken_to(flow, maximum_qos) == [(PUBREL, 1, 1, False), (PUBREL, 1, 3, False)]
    flow.received(ack(PUBCOMP, 1, reason_code))
    assert burst(flow, 5) == []
    flow.received(ack(PUBCOMP, 3, reason_code))
    assert settled(flow) == {"delivered": ((1, 2),)}
    if maximum_qos:
        assert shown(burst(flow, 5)) == [
            (PUBLISH, 1, 1, True),
            (PUBLISH, 1, 3, True),
            (PUBLISH, 1, 4, False),
            (PUBLISH, 0, 0, False),
        ]
        assert flow.in_flight.messages == 3
        assert taken_to(flow, 1)[:2] == [(PUBLISH, 1, 1, True), (PUBLISH, 1, 3, True)]  # it has left at QoS 1 since
    else:
        assert [packet.payload for packet in burst(flow, 5)] == [b"0", b"2", b"3", b"4"]
        assert (settled(flow)["delivered"], flow.in_flight.messages) == (((0, 1), (2, 4)), 0)


def test_f14_the_pubrel_goes_on_each_connection_until_its_pubcomp_or_until_qos_2_is_taken_again() -> None:
    flow = flow_at(level=5)
    offer(flow, 0, 2)
    burst(flow, 5)
    assert taken_to(flow, 1) == [(PUBREL, 1, 1, False)]
    assert flow.owed[2] is not None
    assert taken_to(flow, 1) == [(PUBREL, 1, 1, False)]
    assert taken_to(flow, 2) == [(PUBLISH, 2, 1, True)]
    assert taken_to(flow, 1) == [(PUBREL, 1, 1, False)]
    assert settled(flow) == {"redelivered": ((0, 1),)}
    flow.disconnected()
    flow.connected(session=EDGE, session_present=False, level=5, maximum_qos=1)
    flow.record.facts(2)
    flow.record.committed(2)
    assert shown(burst(flow, 5)) == [(PUBLISH, 1, 1, False)]  # a new session holds nothing
    assert flow.in_flight.messages == 1


def test_f14_what_was_released_or_given_up_before_is_not_sent_at_a_lower_qos() -> None:
    flow = grown_too_large()
    offer(flow, 1, 2, 2)
    burst(flow, 5)
    flow.received(ack(PUBREC, 2))
    flow.record.facts(1)
    flow.record.committed(1)
    assert taken_to(flow, 1) == [(PUBREL, 1, 1, False), (PUBREL, 1, 2, False), (PUBREL, 1, 3, False)]
    flow.received(ack(PUBCOMP, 1) + ack(PUBCOMP, 2) + ack(PUBCOMP, 3))
    assert settled(flow, 2) == {"dead:packet_too_large": ((0, 1),), "delivered": ((1, 2),)}
    assert shown(burst(flow, 5)) == [(PUBLISH, 1, 3, True)]


@pytest.mark.parametrize("reason_code", [0x92, 0x80, 0x10, 0x00])
def test_a_pubcomp_ends_the_exchange_whatever_it_says(reason_code: int) -> None:
    """0x92: the remote does not know the identifier, so it has released it before."""
    flow = flow_at(level=5)
    offer(flow, 0, 2)
    burst(flow, 5)
    flow.received(ack(PUBREC, 1))
    flow.record.facts(1)
    flow.record.committed(1)
    burst(flow, 5)
    flow.received(ack(PUBCOMP, 1, reason_code))
    assert settled(flow) == {"delivered": ((0, 1),)}
    assert flow.in_flight.messages == 0


@pytest.mark.parametrize("reason_code", [0x01, 0x10, 0x11, 0x7F])
def test_every_reason_code_below_0x80_is_success(reason_code: int) -> None:
    flow = flow_at(level=5)
    offer(flow, 0, 1, 2)
    burst(flow, 5)
    flow.received(ack(PUBACK, 1, reason_code) + ack(PUBREC, 2, reason_code))
    facts = flow.record.facts(1)
    assert facts is not None
    assert (dict(facts.settled), facts.released) == ({"delivered": ((0, 1),)}, ((1, 2),))
    assert flow.counts.refused == 0


def test_owed_names_the_oldest_answer_of_each_kind_and_a_back_off_owes_none() -> None:
    flow = flow_at(level=5)
    offer(flow, 0, 1, 2, 1, 2)
    assert flow.owed == (None, None, None)
    burst(flow, 5)
    first = flow.owed
    assert None not in first[:2]
    flow.received(ack(PUBREC, 2))
    assert (flow.owed[0], flow.owed[1] != first[1], flow.owed[2]) == (first[0], True, None)
    flow.record.facts(1)
    flow.record.committed(1)
    burst(flow, 5)
    assert flow.owed[2] is not None
    flow.received(ack(PUBCOMP, 2) + ack(PUBREC, 4, 0x97) + ack(PUBACK, 1) + ack(PUBACK, 3))
    burst(flow, 5, 0.0)
    assert flow.owed == (None, None, None)
    burst(flow, 5, 1.0)
    assert flow.owed[1] is not None


def after_a_retry() -> OutboundFlow:
    """Sequence 0 was refused and tried again behind 1: its PUBREC is the later one. Both are told to the store."""
    flow = flow_at(level=5)
    offer(flow, 0, 2, 2)
    burst(flow, 5)
    flow.received(ack(PUBREC, 1, 0x97) + ack(PUBREC, 2))
    burst(flow, 5, 0.0)
    assert kinds(burst(flow, 5, 1.0)) == [(PUBLISH, 1)]
    flow.received(ack(PUBREC, 1))
    return flow


def test_f10_pubrels_leave_in_the_order_of_the_pubrecs_and_again_so_on_the_resumed_session() -> None:
    flow = after_a_retry()
    facts = flow.record.facts(1)
    assert facts is not None
    assert facts.released == ((1, 2), (0, 1))
    flow.record.committed(1)
    assert kinds(burst(flow, 5, 1.0)) == [(PUBREL, 2), (PUBREL, 1)]
    flow.disconnected()
    flow.connected(session=EDGE, session_present=True, level=5)
    assert kinds(burst(flow, 5, 1.0)) == [(PUBREL, 2), (PUBREL, 1)]
    flow.received(ack(PUBCOMP, 2) + ack(PUBCOMP, 1))
    assert settled(flow, 2)["delivered"] == ((0, 2),)
    assert flow.in_flight.messages == 0


def test_f10_releases_of_several_commits_that_leave_together_leave_in_the_order_of_the_pubrecs() -> None:
    flow = flow_at(level=5)
    offer(flow, 0, 2, 2, 2)
    burst(flow, 5)
    flow.received(ack(PUBREC, 1, 0x97) + ack(PUBREC, 2))
    flow.record.facts(1)
    burst(flow, 5, 0.0)
    assert kinds(burst(flow, 5, 1.0)) == [(PUBLISH, 1)]
    flow.received(ack(PUBREC, 3) + ack(PUBREC, 1))
    flow.record.facts(2)
    flow.record.committed(2)
    assert kinds(burst(flow, 5, 1.0)) == [(PUBREL, 2), (PUBREL, 3), (PUBREL, 1)]


def test_f10_a_lane_opened_anew_releases_in_the_order_on_record() -> None:
    flow = outbound_flow()
    flow.open(lane_opened(tail=3, dup_below=3, released=[1, 0], session=EDGE))
    flow.connected(session=EDGE, session_present=True, level=5)
    assert kinds(burst(flow, 5)) == [(PUBREL, 2), (PUBREL, 1)]


# --- message expiry (F11) ---

ACCEPTED_MS = 1_000_000


def aging(first_seq: int, *rows: tuple[int, int | None]) -> HandOut:
    """One row for each (QoS, message expiry interval) of ``rows``, accepted at ``ACCEPTED_MS``."""
    batch = from_rows(((b"t", qos, b"%d" % (first_seq + at)) for at, (qos, _) in enumerate(rows)), accepted_ms=ACCEPTED_MS)
    batch.properties = {row: with_message_expiry(b"", each) for row, (_, each) in enumerate(rows) if each is not None}
    return hand_out(first_seq, batch)


def after(flow: OutboundFlow, waited_s: float, level: int = 5) -> list[tuple[int, int | None]]:
    """What leaves ``waited_s`` after it was accepted: sequence and what it says of its time."""
    packets = parse(flow.pump(1 << 20, 0.0, ACCEPTED_MS + int(waited_s * 1000)), level)
    return [(int(packet.payload), message_expiry_s(packet.properties)) for packet in packets if packet.kind == PUBLISH]


@pytest.mark.parametrize("level", [4, 5])
def test_f11_what_waits_for_the_window_counts_down_and_expires_there(level: int) -> None:
    """[MQTT-3.3.2-5] [MQTT-3.3.2-6], where a remote that takes no properties is told of no time."""
    flow = flow_at(receive_maximum=1, level=level)
    flow.offer(aging(0, (1, 60), (1, 2), (0, 2), (2, 2), (1, None), (1, 60), (1, 3)))
    assert after(flow, 0.0, level) == [(0, 60 if level == 5 else None)]
    assert after(flow, 2.5, level) == []
    assert settled(flow) == {}, "nothing expires before it could leave"
    flow.received(ack(PUBACK, 1))
    assert after(flow, 2.5, level) == []
    assert commit(flow, 2) == {"delivered": ((0, 1),), "expired": ((1, 2), (3, 4))}, "the Forwarder has settled QoS 0"
    assert after(flow, 2.5, level) == [(4, None)]
    flow.received(ack(PUBACK, 5))
    assert after(flow, 2.999, level) == [(5, 58 if level == 5 else None)]
    flow.received(ack(PUBACK, 6))
    assert after(flow, 3.0, level) == []
    assert settled(flow, 3) == {"delivered": ((4, 6),), "expired": ((6, 7),)}
    assert flow.counts.expired == 4
    assert (flow.in_flight.messages, flow.handed_out.stop - flow.due.sent_stop, flow.handed_out.passed_messages) == (0, 0, 7)


def test_f11_what_was_sent_goes_again_however_old_it_is_and_tells_its_age() -> None:
    flow = flow_at(level=5)
    flow.offer(aging(0, (1, 2), (2, 60), (1, 2)))
    assert after(flow, 1.0) == [(0, 1), (1, 59), (2, 1)]
    flow.received(ack(PUBACK, 3))
    flow.disconnected()
    flow.offer(aging(3, (1, 2), (1, None)))
    flow.connected(session=EDGE, session_present=True, level=5)
    assert after(flow, 10.0) == [(0, 1), (1, 50)]
    assert commit(flow, 1) == {"delivered": ((2, 3),), "redelivered": ((0, 2),), "expired": ((3, 4),)}
    assert after(flow, 10.0) == [(4, None)]


def test_f11_what_an_earlier_life_may_have_sent_is_seen_through() -> None:
    for present in (True, False):
        flow = outbound_flow()
        flow.open(lane_opened(head=0, tail=4, dup_below=2, session=EDGE))
        flow.connected(session=EDGE, session_present=present, level=5)
        flow.record.facts(1)
        flow.record.committed(1)
        flow.offer(aging(0, (1, 2), (1, 2), (1, 2), (1, None)))
        assert after(flow, 5.0) == [(0, 1), (1, 1)]
        assert commit(flow, 2)["expired"] == ((2, 3),)
        assert after(flow, 5.0) == [(3, None)]


def test_f11_nothing_was_sent_before_a_session_is_on_record() -> None:
    """So what the queue's mark only says may have been sent, since the node was stopped before the remote was reached, expires."""
    flow = outbound_flow()
    flow.open(lane_opened(head=0, tail=3, dup_below=3))
    flow.connected(session=EDGE, session_present=False, level=5)
    flow.record.facts(1)
    flow.record.committed(1)
    flow.offer(aging(0, (1, 2), (1, 60), (2, 2)))
    assert after(flow, 5.0) == []
    assert commit(flow, 2) == {"expired": ((0, 1), (2, 3))}
    assert after(flow, 5.0) == [(1, 55)]


def test_f11_a_clock_that_went_back_and_rows_without_an_interval_change_nothing() -> None:
    flow = flow_at(level=5)
    flow.offer(aging(0, (1, 2), (1, None)))
    assert after(flow, -500.0) == [(0, 2), (1, None)]
    offer(flow, 2, 1, 1)
    assert [packet.payload for packet in parse(flow.pump(1 << 20, 0.0, 1 << 50), 5)] == [b"2", b"3"]
    assert flow.counts.expired == 0


@given(
    rows=st.lists(st.tuples(st.integers(0, 2), st.none() | st.integers(0, 6)), min_size=1, max_size=30),
    dup_below=st.integers(0, 30),
    window=st.integers(1, 5),
    steps=st.lists(st.integers(0, 3_000), max_size=30),
)
def test_f11_each_row_leaves_in_order_or_expires_and_each_is_settled_once(
    rows: list[tuple[int, int | None]], dup_below: int, window: int, steps: list[int]
) -> None:
    flow = outbound_flow(receive_maximum=window)
    flow.open(lane_opened(tail=len(rows), dup_below=dup_below, session=EDGE))
    flow.connected(session=EDGE, session_present=True, level=5)
    flow.offer(aging(0, *rows))
    waited_ms, left, packets = 0, [], []
    for step_ms in steps + [0] * 3 * len(rows):
        waited_ms += step_ms
        sent = parse(flow.pump(200, 0.0, ACCEPTED_MS + waited_ms), 5)
        for packet in sent:
            if packet.kind == PUBLISH:
                seq = int(packet.payload)
                left.append(seq)
                own = rows[seq][1]
                said = message_expiry_s(packet.properties)
                assert said == (None if own is None else max(1, own - waited_ms // 1000) if own else 0)
                assert own is None or own > waited_ms // 1000 or seq < dup_below
                assert packet.qos == 0 or packet.packet_id == seq + 1
        packets += [packet for packet in sent if packet.packet_id]
        answers = {1: PUBACK, 2: PUBREC}
        for packet in packets:
            flow.received(ack(answers[packet.qos] if packet.kind == PUBLISH else PUBCOMP, packet.packet_id))
        packets = []
        if (facts := flow.record.facts(1)) is not None:
            flow.record.committed(1)
            for outcome, ranges in facts.settled:
                if outcome != "redelivered":
                    left += [-1 - seq for start, stop in ranges for seq in range(start, stop) if outcome == "expired"]
    gone = [-1 - each for each in left if each < 0]
    sent_seqs = [each for each in left if each >= 0]
    assert sent_seqs == sorted(set(sent_seqs))
    assert not set(gone) & set(sent_seqs)
    assert all(seq >= dup_below and rows[seq][1] is not None and rows[seq][0] for seq in gone)
    assert flow.counts.expired + len(sent_seqs) == len(rows)
    assert flow.in_flight.messages == 0


def test_f11_what_is_too_old_by_the_lanes_limit_expires_unless_it_may_have_been_sent() -> None:
    flow = outbound_flow(max_age_s=2.5)
    flow.open(lane_opened(tail=4, dup_below=1, session=EDGE))
    flow.connected(session=EDGE, session_present=True, level=5)
    flow.offer(aging(0, (1, None), (1, None)))
    flow.offer(aging(2, (0, None), (2, 60)))
    assert after(flow, 2.501) == [(0, None)]
    assert commit(flow, 1) == {"redelivered": ((0, 1),), "expired": ((1, 2), (3, 4))}
    flow.offer(aging(4, (1, None)))
    assert after(flow, 2.5) == [(4, None)]


def test_f11_what_has_expired_is_not_given_up_as_too_large() -> None:
    flow = flow_at(level=5, maximum_packet_size=10)
    flow.offer(aging(1_000_000_000, (1, 2), (1, 60)))
    assert after(flow, 2.0) == []
    assert settled(flow) == {
        "expired": ((1_000_000_000, 1_000_000_001),),
        "dead:packet_too_large": ((1_000_000_001, 1_000_000_002),),
    }


# --- what has expired is on record first (F15) ---


def test_f15_nothing_leaves_behind_what_has_expired_before_that_is_committed() -> None:
    flow = flow_at(level=5)
    flow.offer(aging(0, (1, 60), (1, 5), (0, None), (1, None)))
    assert after(flow, 6.0) == [(0, 54)], "what stands before it does not wait"
    assert flow.record.urgent
    facts = flow.record.facts(1)
    assert facts is not None
    assert (facts.settled, facts.session) == ((("expired", ((1, 2),)),), EDGE), "so the store answers when it is committed"
    assert not flow.record.urgent
    flow.received(ack(PUBACK, 1))
    assert after(flow, 6.0) == []
    flow.record.committed(1)
    assert after(flow, 6.0) == [(2, None), (3, None)]


def test_f15_all_that_has_expired_by_then_waits_for_one_commit() -> None:
    """Also what is further behind than the window reaches, and what is handed out meanwhile."""
    flow = flow_at(level=5, receive_maximum=2)
    flow.offer(aging(0, (1, 5), (1, None), (1, 5), (2, 5), (0, 5), (1, 60)))
    flow.offer(aging(6, (1, 5), (1, 7)))
    assert after(flow, 6.0) == []
    assert commit(flow, 1) == {"expired": ((0, 1), (2, 4), (6, 7))}
    assert after(flow, 6.0) == [(1, None), (5, 54)]
    flow.received(ack(PUBACK, 2) + ack(PUBACK, 6))
    assert after(flow, 7.0) == []
    assert flow.record.facts(2) is not None
    flow.offer(aging(8, (1, 5)))
    flow.offer(aging(9, (1, 5), (1, None)))
    assert after(flow, 7.0) == []
    assert commit(flow, 3) == {"expired": ((8, 10),)}
    assert after(flow, 7.0) == [(10, None)]
    assert flow.counts.expired == 8
    assert flow.handed_out.passed_messages == 11


def test_f15_the_commit_of_some_of_what_has_expired_is_not_that_of_all() -> None:
    flow = flow_at(level=5)
    flow.offer(aging(0, (1, 5)))
    after(flow, 6.0)
    assert settled(flow, 1) == {"expired": ((0, 1),)}
    flow.offer(aging(1, (1, 5), (1, None)))
    after(flow, 6.0)
    flow.record.committed(1)
    assert after(flow, 6.0) == []
    commit(flow, 2)
    assert after(flow, 6.0) == [(2, None)]


def test_f15_qos_0_that_has_expired_holds_nothing_up() -> None:
    flow = flow_at(level=5)
    flow.offer(aging(0, (0, 5), (1, None)))
    assert after(flow, 6.0) == [(1, None)]
    assert not flow.record.urgent


@pytest.mark.parametrize("present", [True, False])
def test_f15_the_wait_outlasts_the_connection_and_what_was_sent_before_goes_again(present: bool) -> None:
    flow = flow_at(level=5)
    flow.offer(aging(0, (1, None), (1, 5), (1, None)))
    assert after(flow, 6.0) == [(0, None)]
    facts = flow.record.facts(1)
    flow.disconnected()
    flow.connected(session=EDGE, session_present=present, level=5)
    if not present:
        assert flow.record.facts(2) is not None
        flow.record.committed(2)
        assert after(flow, 6.0) == [(0, None), (2, None)], "commits are in order"
        return
    assert after(flow, 6.0) == [(0, None)]
    assert facts is not None
    flow.record.committed(1)
    assert after(flow, 6.0) == [(2, None)]


def test_f15_a_lane_that_is_opened_anew_does_not_wait_for_what_the_former_one_was_told() -> None:
    flow = flow_at(level=5)
    flow.offer(aging(0, (1, 5), (1, None)))
    assert after(flow, 6.0) == []
    assert settled(flow) == {"expired": ((0, 1),)}
    flow.disconnected()
    flow.open(lane_opened(tail=2, dup_below=2, session=EDGE))
    flow.connected(session=EDGE, session_present=True, level=5)
    flow.offer(aging(0, (1, 5), (1, None)))
    assert after(flow, 6.0) == [(0, 1), (1, None)], "it may have been sent for all that is on record, and is in order"


def test_f15_suspects_are_not_taken_back_because_of_the_wait() -> None:
    """Another message is there to show what the remote takes: it only waits for a commit (F12)."""
    flow = flow_at(level=5)
    flow.offer(aging(0, (1, None)))
    for _ in range(2 + 5):
        assert after(flow, 0.0) == [(0, None)]
        flow.disconnected(by_remote=True)
        flow.connected(session=EDGE, session_present=True, level=5)
    flow.offer(aging(1, (1, 5), (1, None)))
    assert after(flow, 6.0) == []
    commit(flow, 1)
    assert after(flow, 6.0) == [(2, None)]
    flow.received(ack(PUBACK, 3))
    assert after(flow, 6.0) == [(0, None)]
