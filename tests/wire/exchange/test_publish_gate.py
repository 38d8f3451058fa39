"""Publishing: the bytes that leave, what may not, and what is too old or too large to."""

from __future__ import annotations

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
from tests.wire.outbound_steps import ACCEPTED_MS, EDGE, after, aging, burst, commit, flow_at, kinds, offer, settled
from wire.frames.batch import RETAIN, from_rows
from wire.mqtt.publish_properties import message_expiry_s


def test_golden_burst_of_mqtt_3_1_1() -> None:
    """Packet identifiers come from the sequence, QoS 0 has none, and nothing else is in the bytes."""
    flow = flow_at(64_999)
    flow.hand_out(hand_out(64_999, from_rows([(b"a/b", 1, b"xy"), (b"a/b", 0, b""), (b"c", 2 | RETAIN, b"z" * 130)])))
    assert flow.pump(1 << 20, 0.0) == (
        b"\x32\x09\x00\x03a/b\xfd\xe8xy" + b"\x30\x05\x00\x03a/b" + b"\x35\x87\x01\x00\x01c\x00\x02" + b"z" * 130
    )


def test_golden_burst_of_mqtt_5_with_and_without_properties() -> None:
    flow = flow_at(level=5)
    batch = from_rows([(b"a", 1, b"x"), (b"a", 1, b"y"), (b"bb", 0, b"z"), (b"bb", 0, b"")])
    batch.properties = {1: b"\x01\x01", 3: b"\x01\x00"}
    flow.hand_out(hand_out(0, batch))
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
    flow.hand_out(hand_out(0, batch))
    packets: list[Sent] = []
    while data := flow.pump(bytes_max, 0.0):
        packets += parse(data, level)
    assert [(packet.topic, packet.qos, packet.payload, bool(packet.flags & 1)) for packet in packets] == [
        (topic, qos, payload, at in retains) for at, (topic, qos, payload) in enumerate(rows)
    ]
    assert [packet.properties for packet in packets] == [
        batch.properties.get(at, b"") if level == 5 else b"" for at in range(len(rows))
    ]


def test_a_lane_that_finishes_sends_nothing_new_and_all_that_may_have_been_sent() -> None:
    """exchange.failback-when-finished: what an earlier life may have sent (0, 1), what an earlier connection has (2), a release;
    3 and 4 wait.
    """
    flow = outbound_flow(receive_maximum=3)
    flow.open(lane_opened(head=0, tail=5, dup_below=2, session=EDGE))
    assert flow.unfinished
    flow.on_connected(session=EDGE, session_present=True, level=4)
    offer(flow, 0, 1, 2, 1, 1, 1)
    assert [packet.packet_id for packet in burst(flow)] == [1, 2, 3]
    flow.on_disconnected()
    flow.on_connected(session=EDGE, session_present=True, level=4)
    flow.finish(True)
    assert [packet.packet_id for packet in burst(flow)] == [1, 2, 3]
    flow.on_received(ack(PUBACK, 1) + ack(PUBREC, 2) + ack(PUBACK, 3))
    assert flow.unfinished
    assert burst(flow) == []
    commit(flow, 1)
    assert kinds(burst(flow)) == [(PUBREL, 2)]
    assert flow.unfinished
    flow.on_received(ack(PUBCOMP, 2))
    assert not flow.unfinished
    assert burst(flow) == []
    flow.finish(False)
    assert [packet.packet_id for packet in burst(flow)] == [4, 5]
    assert flow.unfinished


def test_qos_and_retain_are_lowered_to_what_the_remote_takes() -> None:
    """A message lowered to QoS 0 is settled when it leaves: nobody will acknowledge it."""
    flow = flow_at(level=5, maximum_qos=0, retain_available=False)
    offer(flow, 0, 2 | RETAIN, 1, 0)
    assert [packet.flags for packet in burst(flow, 5)] == [0, 0, 0]
    assert settled(flow) == {"delivered": ((0, 2),)}
    assert (flow.counts.qos_lowered, flow.counts.retain_stripped) == (2, 1)


def test_a_message_too_large_for_the_remote_is_given_up_and_those_around_it_leave() -> None:
    flow = flow_at(level=5, maximum_packet_size=30)
    flow.hand_out(hand_out(0, from_rows([(b"t", 1, b"a"), (b"t", 1, bytes(22)), (b"t", 1, bytes(23)), (b"t", 1, b"b")])))
    packets = burst(flow, 5)
    assert [packet.packet_id for packet in packets] == [1, 2, 4]
    assert max(len(packet.raw) for packet in packets) == 30
    assert settled(flow) == {"dead:packet_too_large": ((2, 3),)}


def test_the_properties_of_a_topic_go_with_each_of_its_rows_that_has_none_of_its_own() -> None:
    """At level 5 they stand in front of the payload; at level 4 there are none."""
    batch = from_rows([(b"a", 1, b"x"), (b"b", 0, b"y"), (b"a", 1, b"z")])
    batch.topic_properties = [b"\x01\x01", b""]
    batch.properties = {2: b"\x01\x00"}
    at_5 = flow_at(level=5)
    at_5.hand_out(hand_out(0, batch))
    assert at_5.pump(1 << 20, 0.0) == (
        b"\x32\x09\x00\x01a\x00\x01\x02\x01\x01x" + b"\x30\x05\x00\x01b\x00y" + b"\x32\x09\x00\x01a\x00\x03\x02\x01\x00z"
    )
    at_4 = flow_at(level=4)
    at_4.hand_out(hand_out(0, batch))
    assert at_4.pump(1 << 20, 0.0) == b"\x32\x06\x00\x01a\x00\x01x" + b"\x30\x04\x00\x01by" + b"\x32\x06\x00\x01a\x00\x03z"


@pytest.mark.parametrize("level", [4, 5])
def test_what_waits_for_the_window_counts_down_and_expires_there(level: int) -> None:
    """exchange.expired-not-sent: [MQTT-3.3.2-5] [MQTT-3.3.2-6], where a remote that takes no properties is told of no time."""
    flow = flow_at(receive_maximum=1, level=level)
    flow.hand_out(aging(0, (1, 60), (1, 2), (0, 2), (2, 2), (1, None), (1, 60), (1, 3)))
    assert after(flow, 0.0, level) == [(0, 60 if level == 5 else None)]
    assert after(flow, 2.5, level) == []
    assert settled(flow) == {}, "nothing expires before it could leave"
    flow.on_received(ack(PUBACK, 1))
    assert after(flow, 2.5, level) == []
    assert commit(flow, 2) == {"delivered": ((0, 1),), "expired": ((1, 2), (3, 4))}, "the Forwarder has settled QoS 0"
    assert after(flow, 2.5, level) == [(4, None)]
    flow.on_received(ack(PUBACK, 5))
    assert after(flow, 2.999, level) == [(5, 58 if level == 5 else None)]
    flow.on_received(ack(PUBACK, 6))
    assert after(flow, 3.0, level) == []
    assert settled(flow, 3) == {"delivered": ((4, 6),), "expired": ((6, 7),)}
    assert flow.counts.expired == 4
    assert (flow.in_flight.messages, flow.handed_out.stop - flow.due.sent_stop, flow.handed_out.passed_messages) == (0, 0, 7)


def test_what_was_sent_goes_again_however_old_it_is_and_tells_its_age() -> None:
    """exchange.expired-not-sent"""
    flow = flow_at(level=5)
    flow.hand_out(aging(0, (1, 2), (2, 60), (1, 2)))
    assert after(flow, 1.0) == [(0, 1), (1, 59), (2, 1)]
    flow.on_received(ack(PUBACK, 3))
    flow.on_disconnected()
    flow.hand_out(aging(3, (1, 2), (1, None)))
    flow.on_connected(session=EDGE, session_present=True, level=5)
    assert after(flow, 10.0) == [(0, 1), (1, 50)]
    assert commit(flow, 1) == {"delivered": ((2, 3),), "redelivered": ((0, 2),), "expired": ((3, 4),)}
    assert after(flow, 10.0) == [(4, None)]


def test_what_an_earlier_life_may_have_sent_is_seen_through() -> None:
    """exchange.expired-not-sent"""
    for present in (True, False):
        flow = outbound_flow()
        flow.open(lane_opened(head=0, tail=4, dup_below=2, session=EDGE))
        flow.on_connected(session=EDGE, session_present=present, level=5)
        flow.record.facts(1)
        flow.record.on_committed(1)
        flow.hand_out(aging(0, (1, 2), (1, 2), (1, 2), (1, None)))
        assert after(flow, 5.0) == [(0, 1), (1, 1)]
        assert commit(flow, 2)["expired"] == ((2, 3),)
        assert after(flow, 5.0) == [(3, None)]


def test_nothing_was_sent_before_a_session_is_on_record() -> None:
    """exchange.expired-not-sent: so what the queue's mark only says may have been sent, since the node was stopped before the
    remote was reached, expires.
    """
    flow = outbound_flow()
    flow.open(lane_opened(head=0, tail=3, dup_below=3))
    flow.on_connected(session=EDGE, session_present=False, level=5)
    flow.record.facts(1)
    flow.record.on_committed(1)
    flow.hand_out(aging(0, (1, 2), (1, 60), (2, 2)))
    assert after(flow, 5.0) == []
    assert commit(flow, 2) == {"expired": ((0, 1), (2, 3))}
    assert after(flow, 5.0) == [(1, 55)]


def test_a_clock_that_went_back_and_rows_without_an_interval_change_nothing() -> None:
    """exchange.expired-not-sent"""
    flow = flow_at(level=5)
    flow.hand_out(aging(0, (1, 2), (1, None)))
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
def test_each_row_leaves_in_order_or_expires_and_each_is_settled_once(
    rows: list[tuple[int, int | None]], dup_below: int, window: int, steps: list[int]
) -> None:
    """exchange.expired-not-sent"""
    flow = outbound_flow(receive_maximum=window)
    flow.open(lane_opened(tail=len(rows), dup_below=dup_below, session=EDGE))
    flow.on_connected(session=EDGE, session_present=True, level=5)
    flow.hand_out(aging(0, *rows))
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
            flow.on_received(ack(answers[packet.qos] if packet.kind == PUBLISH else PUBCOMP, packet.packet_id))
        packets = []
        if (facts := flow.record.facts(1)) is not None:
            flow.record.on_committed(1)
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


def test_what_is_too_old_by_the_lanes_limit_expires_unless_it_may_have_been_sent() -> None:
    """exchange.expired-not-sent"""
    flow = outbound_flow(max_age_s=2.5)
    flow.open(lane_opened(tail=4, dup_below=1, session=EDGE))
    flow.on_connected(session=EDGE, session_present=True, level=5)
    flow.hand_out(aging(0, (1, None), (1, None)))
    flow.hand_out(aging(2, (0, None), (2, 60)))
    assert after(flow, 2.501) == [(0, None)]
    assert commit(flow, 1) == {"redelivered": ((0, 1),), "expired": ((1, 2), (3, 4))}
    flow.hand_out(aging(4, (1, None)))
    assert after(flow, 2.5) == [(4, None)]


def test_what_has_expired_is_not_given_up_as_too_large() -> None:
    """exchange.expired-not-sent"""
    flow = flow_at(level=5, maximum_packet_size=10)
    flow.hand_out(aging(1_000_000_000, (1, 2), (1, 60)))
    assert after(flow, 2.0) == []
    assert settled(flow) == {
        "expired": ((1_000_000_000, 1_000_000_001),),
        "dead:packet_too_large": ((1_000_000_001, 1_000_000_002),),
    }
