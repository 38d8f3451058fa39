"""HeldIdentifiers: QoS 2 from PUBREC to PUBCOMP, and the identifiers of what is given up."""

from __future__ import annotations

import pytest

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
from tests.wire.outbound_steps import EDGE, burst, flow_at, kinds, offer, settled
from wire.exchange.held_identifiers import HeldIdentifiers
from wire.exchange.remote_limits import RemoteLimits
from wire.exchange.sender import SenderHalf
from wire.frames.batch import from_rows
from wire.ranges import RangeSet


def test_pubrel_waits_for_the_commit_even_over_a_reconnect() -> None:
    """exchange.release-after-record: the link is cut and the store may have the release or not: PUBLISH never leaves again, PUBREL
    not before the answer.
    """
    flow = flow_at()
    offer(flow, 0, 2)
    burst(flow)
    flow.on_received(ack(PUBREC, 1))
    assert burst(flow) == []
    flow.record.facts(1)
    flow.on_disconnected()
    flow.on_connected(session=EDGE, session_present=True, level=4)
    assert burst(flow) == []
    assert flow.in_flight.messages == 1
    flow.record.on_committed(1)
    assert kinds(burst(flow)) == [(PUBREL, 1)]


@pytest.mark.parametrize("level", [4, 5])
def test_a_second_pubrec_has_its_pubrel_again_and_the_exchange_ends_with_the_first_pubcomp(level: int) -> None:
    flow = flow_at(level=level)
    offer(flow, 0, 2, 2)
    burst(flow, level)
    flow.on_received(ack(PUBREC, 1) + ack(PUBREC, 2))
    flow.record.facts(1)
    flow.record.on_committed(1)
    assert kinds(burst(flow, level)) == [(PUBREL, 1), (PUBREL, 2)]
    flow.on_received(ack(PUBREC, 1))
    assert [packet.raw for packet in burst(flow, level)] == [b"\x62\x02\0\x01"]
    assert (flow.in_flight.messages, flow.owed[2] is not None) == (2, True)
    flow.on_received(ack(PUBREC, 2) + ack(PUBCOMP, 1) + ack(PUBCOMP, 1) + ack(PUBCOMP, 2))
    assert kinds(burst(flow, level)) == [(PUBREL, 2)], "it was owed when its PUBREC came"
    flow.on_received(ack(PUBCOMP, 2))
    assert settled(flow, 2) == {"delivered": ((0, 2),)}
    assert flow.in_flight.messages == 0


@pytest.mark.parametrize("level", [4, 5])
def test_a_second_pubrec_waits_for_the_commit_like_the_first_and_both_have_one_pubrel(level: int) -> None:
    """exchange.release-after-record"""
    flow = flow_at(level=level)
    offer(flow, 0, 2)
    burst(flow, level)
    flow.on_received(ack(PUBREC, 1) + ack(PUBREC, 1))
    flow.record.facts(1)
    flow.on_received(ack(PUBREC, 1))
    assert burst(flow, level) == []
    flow.record.on_committed(1)
    flow.on_received(ack(PUBREC, 1))
    assert kinds(burst(flow, level)) == [(PUBREL, 1)]


@pytest.mark.parametrize("level", [4, 5])
def test_a_second_pubcomp_of_what_a_life_before_had_released_is_ignored(level: int) -> None:
    """Its sequence is above all that was sent since the lane was opened."""
    flow = outbound_flow(receive_maximum=1)
    flow.open(lane_opened(tail=9, dup_below=9, released=[7], session=EDGE))
    flow.on_connected(session=EDGE, session_present=True, level=level)
    burst(flow, level)
    flow.on_received(ack(PUBREC, 8))
    assert kinds(burst(flow, level)) == [(PUBREL, 8)]
    flow.on_received(ack(PUBCOMP, 8) + ack(PUBCOMP, 8))
    assert settled(flow) == {"delivered": ((7, 8),)}


def test_a_pubrel_without_pubcomp_goes_again_on_the_resumed_session() -> None:
    """exchange.resumed-in-order"""
    flow = flow_at()
    offer(flow, 0, 2, 1)
    burst(flow)
    flow.on_received(ack(PUBREC, 1))
    flow.record.facts(1)
    flow.record.on_committed(1)
    burst(flow)
    flow.on_disconnected()
    flow.on_connected(session=EDGE, session_present=True, level=4)
    again = burst(flow)
    assert kinds(again) == [(PUBREL, 1), (PUBLISH, 2)]
    assert again[1].dup
    flow.on_received(ack(PUBCOMP, 1) + ack(PUBACK, 2))
    assert settled(flow) == {"delivered": ((0, 2),), "redelivered": ((1, 2),)}


def grown_too_large() -> SenderHalf:
    """A flow that has given up its QoS 2 message 0, of which the remote has had the PUBLISH: it takes 30 bytes now."""
    flow = flow_at(level=5)
    flow.hand_out(hand_out(0, from_rows([(b"t", 2, bytes(50)), (b"t", 2, b"a")])))
    burst(flow, 5)
    flow.on_disconnected()
    flow.on_connected(session=EDGE, session_present=True, level=5, limits=RemoteLimits(packet_max_bytes=30))
    assert kinds(burst(flow, 5)) == [(PUBLISH, 2)]
    return flow


def test_what_grew_too_large_is_given_up_at_once_and_its_identifier_let_go_of_behind_the_next_pubrec() -> None:
    """exchange.abandoned-identifier-released: the remote may hold it of the first sending, when it took more; then the next
    message under it would be a duplicate to it.
    """
    flow = grown_too_large()
    assert settled(flow) == {"dead:packet_too_large": ((0, 1),), "redelivered": ((1, 2),)}
    flow.on_received(ack(PUBREC, 2))
    assert kinds(burst(flow, 5)) == [(PUBREL, 1)]
    flow.on_received(ack(PUBCOMP, 1, 0x92))
    assert settled(flow, 2) == {}
    assert flow.in_flight.messages == 1


@pytest.mark.parametrize("present", [True, False])
def test_an_abandoned_identifier_goes_with_its_session(present: bool) -> None:
    """exchange.abandoned-identifier-released"""
    flow = grown_too_large()
    flow.on_disconnected()
    flow.on_connected(session=EDGE, session_present=present, level=5)
    flow.record.facts(1)
    flow.record.on_committed(1)
    assert kinds(burst(flow, 5)) == [(PUBLISH, 2)]
    flow.on_received(ack(PUBREC, 2))
    assert kinds(burst(flow, 5)) == [(PUBREL, 1)] * present


def test_no_pubrel_goes_for_an_identifier_that_a_later_message_has() -> None:
    """exchange.abandoned-identifier-released: it would release that one before its PUBREC is on record."""
    held = HeldIdentifiers()
    held.on_disconnected(RangeSet([(0, 2)]), RangeSet())
    held.abandon(0, 2)
    held.pubrec(65_000, 65_001)
    assert held.replies == [bytes((0x62, 2, 0, 2))]


def shown(packets: list[Sent]) -> list[tuple[int, int, int, bool]]:
    """Kind, QoS, packet identifier and DUP of each; of a PUBREL the middle flag bits are 1."""
    return [(packet.kind, packet.qos, packet.packet_id, packet.dup) for packet in packets]


def taken_to(flow: SenderHalf, maximum_qos: int) -> list[tuple[int, int, int, bool]]:
    """The link is cut and the session resumed with that Maximum QoS; what leaves then."""
    flow.on_disconnected()
    flow.on_connected(session=EDGE, session_present=True, level=5, limits=RemoteLimits(maximum_qos))
    return shown(burst(flow, 5))


@pytest.mark.parametrize("maximum_qos", [0, 1])
def test_what_left_at_qos_2_goes_at_a_lower_qos_at_once_and_in_its_order(maximum_qos: int) -> None:
    """No PUBREL before: a remote that never had QoS 2 may close the connection on it."""
    flow = flow_at(level=5)
    offer(flow, 0, 2, 1, 2)
    burst(flow, 5)
    flow.on_received(ack(PUBACK, 2))
    offer(flow, 3, 1, 0)
    found = taken_to(flow, maximum_qos)
    if maximum_qos:
        assert found == [(PUBLISH, 1, 1, True), (PUBLISH, 1, 3, True), (PUBLISH, 1, 4, False), (PUBLISH, 0, 0, False)]
        assert flow.in_flight.messages == 3
        assert taken_to(flow, 1)[:2] == [(PUBLISH, 1, 1, True), (PUBLISH, 1, 3, True)]
    else:
        assert [kind for kind, *_ in found] == [PUBLISH] * 4
        assert (settled(flow)["delivered"], flow.in_flight.messages) == (((0, 4),), 0)


def test_an_identifier_that_a_lowered_message_left_behind_is_let_go_of_once_the_remote_knows_qos_2_again() -> None:
    """exchange.abandoned-identifier-released: held on, it would make the message 65,000 later a repeat."""
    flow = flow_at(level=5)
    offer(flow, 0, 2, 1, 2)
    burst(flow, 5)
    flow.on_received(ack(PUBREC, 3))
    taken_to(flow, 1)
    flow.on_received(ack(PUBACK, 1))
    flow.on_disconnected()
    offer(flow, 3, 2)
    flow.on_connected(session=EDGE, session_present=True, level=5)
    assert (PUBLISH, 2, 4, False) in shown(burst(flow, 5)), "it has shown nothing yet"
    flow.on_received(ack(PUBREC, 4))
    assert shown(burst(flow, 5)) == [(PUBREL, 1, 1, False)]
    flow.on_received(ack(PUBCOMP, 1))
    flow.on_received(ack(PUBREC, 4))
    assert shown(burst(flow, 5)) == [], "once is enough"


def test_a_lost_session_holds_no_identifier_of_what_was_lowered() -> None:
    """exchange.abandoned-identifier-released"""
    flow = flow_at(level=5)
    offer(flow, 0, 2)
    burst(flow, 5)
    taken_to(flow, 1)
    flow.on_disconnected()
    flow.on_connected(session=EDGE, session_present=False, level=5)
    assert not flow.held.abandoned


def test_what_was_released_before_is_not_sent_at_a_lower_qos() -> None:
    flow = flow_at(level=5)
    offer(flow, 0, 2, 2)
    burst(flow, 5)
    flow.on_received(ack(PUBREC, 1))
    flow.record.facts(1)
    flow.record.on_committed(1)
    assert taken_to(flow, 1) == [(PUBREL, 1, 1, False), (PUBLISH, 1, 2, True)]
    flow.on_received(ack(PUBCOMP, 1))
    assert settled(flow, 2) == {"redelivered": ((1, 2),), "delivered": ((0, 1),)}


def after_a_retry() -> SenderHalf:
    """Sequence 0 was refused and tried again behind 1: its PUBREC is the later one. Both are told to the store."""
    flow = flow_at(level=5)
    offer(flow, 0, 2, 2)
    burst(flow, 5)
    flow.on_received(ack(PUBREC, 1, 0x97) + ack(PUBREC, 2))
    burst(flow, 5, 0.0)
    assert kinds(burst(flow, 5, 1.0)) == [(PUBLISH, 1)]
    flow.on_received(ack(PUBREC, 1))
    return flow


def test_pubrels_leave_in_the_order_of_the_pubrecs_and_again_so_on_the_resumed_session() -> None:
    """exchange.pubrels-in-pubrec-order"""
    flow = after_a_retry()
    facts = flow.record.facts(1)
    assert facts is not None
    assert facts.released == ((1, 2), (0, 1))
    flow.record.on_committed(1)
    assert kinds(burst(flow, 5, 1.0)) == [(PUBREL, 2), (PUBREL, 1)]
    flow.on_disconnected()
    flow.on_connected(session=EDGE, session_present=True, level=5)
    assert kinds(burst(flow, 5, 1.0)) == [(PUBREL, 2), (PUBREL, 1)]
    flow.on_received(ack(PUBCOMP, 2) + ack(PUBCOMP, 1))
    assert settled(flow, 2)["delivered"] == ((0, 2),)
    assert flow.in_flight.messages == 0


def test_releases_of_several_commits_that_leave_together_leave_in_the_order_of_the_pubrecs() -> None:
    """exchange.pubrels-in-pubrec-order"""
    flow = flow_at(level=5)
    offer(flow, 0, 2, 2, 2)
    burst(flow, 5)
    flow.on_received(ack(PUBREC, 1, 0x97) + ack(PUBREC, 2))
    flow.record.facts(1)
    burst(flow, 5, 0.0)
    assert kinds(burst(flow, 5, 1.0)) == [(PUBLISH, 1)]
    flow.on_received(ack(PUBREC, 3) + ack(PUBREC, 1))
    flow.record.facts(2)
    flow.record.on_committed(2)
    assert kinds(burst(flow, 5, 1.0)) == [(PUBREL, 2), (PUBREL, 3), (PUBREL, 1)]


def test_a_lane_opened_anew_releases_in_the_order_on_record() -> None:
    """exchange.pubrels-in-pubrec-order"""
    flow = outbound_flow()
    flow.open(lane_opened(tail=3, dup_below=3, released=[1, 0], session=EDGE))
    flow.on_connected(session=EDGE, session_present=True, level=5)
    assert kinds(burst(flow, 5)) == [(PUBREL, 2), (PUBREL, 1)]


def test_the_way_from_pubrec_to_pubcomp() -> None:
    held = HeldIdentifiers()
    held.pubrec(5, 7)
    held.pubrec(3, 4)
    assert held.untold
    assert held.report_released(1) == ((5, 7), (3, 4)), "in the order of the PUBRECs (exchange.pubrels-in-pubrec-order)"
    parts: list[bytes] = []
    held.pubrels(parts)
    assert not parts, "not committed (exchange.release-after-record)"
    held.on_committed(1)
    held.pubrels(parts)
    assert parse(b"".join(parts), 4) == parse(bytes((0x62, 2, 0, 6, 0x62, 2, 0, 7, 0x62, 2, 0, 4)), 4)
    held.awaited.discard(5, 6)
    held.pubcomp(5, 6)
    held.on_disconnected(RangeSet(), RangeSet())
    assert (held.between_connections, held.released_in_order()) == (2, ((6, 7), (3, 4)))


def test_a_lost_session_has_what_had_its_pubrec_and_abandoned_nothing() -> None:
    held = HeldIdentifiers()
    held.open(((0, 2),))
    held.on_disconnected(RangeSet([(4, 5)]), RangeSet())
    held.abandon(4, 5)
    held.abandon(9, 10)
    assert held.abandoned.ranges() == ((4, 5),), "the remote cannot hold the other"
    assert (held.on_lost().ranges(), held.between_connections, held.abandoned.ranges()) == (((0, 2),), 0, ())
