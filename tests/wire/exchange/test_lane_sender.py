"""A lane between two addresses: what it keeps of a session that it leaves, and how it goes on there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.wire.outbound_model import PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL, ack, hand_out, lane_flow, lane_opened, parse
from wire.exchange.former_sessions import LeftSession
from wire.exchange.lane_sender import LaneSender
from wire.exchange.packet_identifiers import ANNOUNCED_ID, PACKET_IDS
from wire.exchange.remote_limits import RemoteLimits
from wire.frames.batch import from_rows

HERE, THERE = "c@here", "c@there"


def connect(flow: LaneSender, session: str, *, present: bool, maximum_qos: int = 2) -> None:
    flow.on_connected(session=session, session_present=present, level=5, limits=RemoteLimits(maximum_qos))


def offer(flow: LaneSender, *flags: int) -> None:
    flow.exchange.hand_out(hand_out(0, from_rows((b"t", flag, b"%d" % seq) for seq, flag in enumerate(flags))))


def leaving(flow: LaneSender) -> list[tuple[int, int, bool]]:
    """Kind, packet identifier and DUP of what leaves now."""
    return [(packet.kind, packet.packet_id, packet.dup) for packet in parse(flow.pump(1 << 20, 0.0), 5)]


def commit(flow: LaneSender, number: int) -> None:
    flow.exchange.record.facts(number)
    flow.exchange.record.on_committed(number)


def lane_that_left(*, republish: bool = False, recorded: bool = True) -> LaneSender:
    """Of three QoS 2 messages and one of QoS 1 sent here, the first had its PUBREC. Then it was at the other address."""
    flow = lane_flow(HERE, THERE, republish=republish)
    flow.open(lane_opened(tail=4, session=HERE, generation=1))
    connect(flow, HERE, present=True)
    offer(flow, 2, 2, 2, 1)
    assert [packet_id for _, packet_id, _ in leaving(flow)] == [1, 2, 3, 4]
    flow.on_received(ack(PUBREC, 1))
    commit(flow, 1)
    flow.on_disconnected()
    connect(flow, THERE, present=False)
    assert flow.left == (LeftSession(HERE, 1, 4, ((0, 1),), ((1, 3),)),)
    assert flow.exchange.record.generation == 2
    if recorded:
        commit(flow, 2)
    return flow


def test_a_session_that_was_left_lets_go_of_what_is_settled_and_goes_on_with_the_rest() -> None:
    """exchange.left-session-resumed, exchange.left-identifiers-released"""
    flow = lane_that_left()
    assert leaving(flow) == [(PUBLISH, 2, False), (PUBLISH, 3, False), (PUBLISH, 4, False)], "the first counts as delivered"
    flow.on_received(ack(PUBREC, 2))
    commit(flow, 3)
    assert leaving(flow) == [(PUBREL, 2, False)]
    flow.on_received(ack(PUBCOMP, 2))
    flow.on_disconnected()

    connect(flow, HERE, present=True)
    assert (flow.session_known, flow.session_number, flow.exchange.on_record) == (True, 1, False)
    assert leaving(flow) == [(PUBREL, 1, False), (PUBREL, 2, False)]
    assert flow.on_received(ack(PUBCOMP, 1)) == 4
    assert leaving(flow) == []
    assert flow.unfinished
    facts = flow.exchange.record.facts(4)
    assert facts is not None
    assert facts.session is None, "not on record before the remote has released all"
    assert flow.owed == (None, None, 2)
    flow.on_received(ack(PUBCOMP, 2, 0x92))
    facts = flow.exchange.record.facts(5)
    assert facts is not None
    assert (facts.session, facts.generation, [left.session for left in flow.left]) == (HERE, 1, [THERE])
    assert leaving(flow) == [], "exchange.session-on-record-first"
    flow.exchange.record.on_committed(5)
    assert leaving(flow) == [(PUBLISH, 3, True), (PUBLISH, 4, True)]
    flow.on_received(ack(PUBREC, 3) + ack(PUBACK, 4))


def test_a_session_is_entered_once_its_remote_has_let_go() -> None:
    """exchange.left-identifiers-released: what is published then has its answer taken by the exchange."""
    flow, entered = lane_that_left(), []
    flow.on_disconnected()
    flow.on_connected(session=HERE, session_present=True, level=5, entered=lambda: entered.append(flow.exchange.live))
    assert leaving(flow) == [(PUBREL, 1, False)]
    assert not entered
    flow.on_received(ack(PUBCOMP, 1))
    assert entered == [True]
    flow.exchange.answers.expect(ANNOUNCED_ID, lambda reason_code: entered.append(reason_code == 0x87))
    flow.on_received(ack(PUBACK, ANNOUNCED_ID, 0x87))
    assert (entered, flow.counts.unexpected_acknowledgements) == ([True, True], 0)


def test_a_connection_that_is_lost_before_the_remote_has_let_go_leaves_everything_as_it_was() -> None:
    flow = lane_that_left()
    flow.on_disconnected()
    for _ in range(2):
        connect(flow, HERE, present=True)
        assert leaving(flow) == [(PUBREL, 1, False)]
        flow.on_disconnected()

    connect(flow, THERE, present=True)
    assert flow.exchange.on_record
    assert [left.session for left in flow.left] == [HERE]


def test_a_session_that_was_taken_up_and_left_again_before_it_was_on_record_is_still_one_that_was_left() -> None:
    """exchange.left-session-on-record"""
    flow = lane_that_left()
    (left,) = flow.left
    flow.on_disconnected()
    connect(flow, HERE, present=True)
    flow.on_received(ack(PUBCOMP, 1))
    flow.on_disconnected()

    connect(flow, THERE, present=True)

    assert flow.left == (left,)
    assert leaving(flow) == [], "what is on record now may be either"
    commit(flow, 3)
    assert leaving(flow) == [(PUBLISH, 2, True), (PUBLISH, 3, True), (PUBLISH, 4, True)]


def test_what_the_next_session_counted_as_delivered_is_let_go_of_once_that_is_on_record() -> None:
    """exchange.left-identifiers-released: after a crash it would go again, to a remote that has released its identifier."""
    flow = lane_that_left(recorded=False)
    flow.on_disconnected()
    connect(flow, HERE, present=True)
    assert leaving(flow) == []
    assert not any(flow.owed), "the remote is not silent: it was asked nothing"

    commit(flow, 2)
    assert leaving(flow) == [(PUBREL, 1, False)]
    assert any(flow.owed)
    flow.on_received(ack(PUBCOMP, 1))
    assert [left.session for left in flow.left] == [THERE]


def test_a_released_message_that_was_to_be_sent_anew_is_completed_where_it_was_released() -> None:
    flow = lane_that_left(republish=True)
    flow.on_disconnected()

    connect(flow, HERE, present=True)
    commit(flow, 3)

    assert leaving(flow) == [(PUBREL, 1, False), (PUBLISH, 2, True), (PUBLISH, 3, True), (PUBLISH, 4, True)]


def test_a_session_that_the_remote_has_lost_is_new_and_has_a_number_of_its_own() -> None:
    flow = lane_that_left()
    flow.on_disconnected()
    connect(flow, HERE, present=False)
    commit(flow, 3)

    assert (flow.exchange.record.generation, [left.session for left in flow.left]) == (3, [THERE])
    assert leaving(flow) == [(PUBLISH, 2, False), (PUBLISH, 3, False), (PUBLISH, 4, False)]


def test_a_remote_that_takes_no_qos_2_is_sent_no_pubrel_of_what_is_settled() -> None:
    flow = lane_that_left()
    flow.on_disconnected()
    connect(flow, HERE, present=True, maximum_qos=1)
    commit(flow, 3)

    assert [kind for kind, *_ in leaving(flow)] == [PUBLISH] * 3


@pytest.mark.parametrize("keeps", [False, True])
def test_a_lane_without_remote_subscriptions_keeps_no_session_elsewhere(keeps: bool) -> None:
    flow = lane_flow(*((HERE, THERE) if keeps else ()))
    flow.open(lane_opened(session=HERE))
    connect(flow, THERE, present=False)

    assert flow.knows(HERE, session_present=True) is keeps
    assert bool(flow.left) is keeps


def test_one_broker_behind_two_addresses_leaves_no_session_that_is_taken_for_another() -> None:
    """exchange.left-session-resumed: met at an address where nothing of ours should be; that of an address that was left may be
    the one that is ended there.
    """
    flow = lane_flow(HERE, THERE)
    flow.open(lane_opened(session=HERE, generation=1))
    assert not flow.knows(THERE, session_present=True)
    flow.ends(THERE)
    connect(flow, THERE, present=False)

    assert flow.left == ()
    assert not flow.knows(HERE, session_present=True)


def test_one_broker_behind_two_addresses_is_remembered_when_the_lane_is_opened_anew() -> None:
    """exchange.left-session-resumed: the store died before the session that the clean start has begun was on record."""
    flow = lane_flow(HERE, THERE)
    flow.open(lane_opened(session=HERE, generation=1))
    flow.ends(THERE)
    flow.open(lane_opened(session=HERE, generation=1))
    connect(flow, THERE, present=False)

    assert flow.left == ()


def test_after_a_purge_one_broker_behind_two_addresses_leaves_no_session_that_is_taken_for_another() -> None:
    """exchange.left-session-resumed: a purge of what is in flight, or a restore, leaves the session, and none is in use."""
    flow = lane_flow(HERE, THERE)
    flow.open(replace(lane_opened(generation=2), left=(LeftSession(HERE, 1, 0, (), ()),)))
    assert not flow.knows(THERE, session_present=True)
    flow.ends(THERE)
    connect(flow, THERE, present=False)

    assert flow.left == ()
    assert not flow.knows(HERE, session_present=True)


def test_a_session_that_began_and_was_left_at_once_is_no_sign_of_one_broker() -> None:
    flow = lane_flow(HERE, THERE)
    flow.open(lane_opened(session=HERE, generation=1))
    connect(flow, THERE, present=False)
    flow.on_disconnected()
    connect(flow, HERE, present=True)
    commit(flow, 1)
    flow.on_disconnected()

    assert not flow.knows(THERE, session_present=True), "it was not on record"
    flow.ends(THERE)
    connect(flow, THERE, present=False)
    assert [left.session for left in flow.left] == [HERE]


def test_a_restored_lane_lets_go_of_every_identifier_but_those_of_what_it_sends_again() -> None:
    """exchange.left-identifiers-released: what the remote may hold of sequences that are other messages' by now."""
    flow = lane_flow(HERE, THERE)
    left = LeftSession(HERE, 3, 12, (), ((10, 10 + PACKET_IDS),))
    flow.open(replace(lane_opened(head=10, tail=12, dup_below=12, generation=4), left=(left,)))
    assert flow.knows(HERE, session_present=True)
    connect(flow, HERE, present=True)
    flow.exchange.hand_out(hand_out(10, from_rows((b"t", 2, b"%d" % seq) for seq in (10, 11))))

    released = leaving(flow)
    assert {kind for kind, _, _ in released} == {PUBREL}
    assert sorted(packet_id for _, packet_id, _ in released) == sorted({*range(1, PACKET_IDS + 1)} - {11, 12})
    *most, (_, last, _) = released
    flow.on_received(b"".join(ack(PUBCOMP, packet_id, 0x92) for _, packet_id, _ in most))
    commit(flow, 1)
    assert leaving(flow) == [], "before the last PUBCOMP nothing is PUBLISHed"
    flow.on_received(ack(PUBCOMP, last))
    commit(flow, 2)

    assert leaving(flow) == [(PUBLISH, 11, True), (PUBLISH, 12, True)]
    assert (flow.session_number, flow.left) == (3, ()), "it goes on under its own number"
    flow.exchange.hand_out(hand_out(12, from_rows([(b"t", 2, b"new")])))
    assert leaving(flow) == [(PUBLISH, 13, False)]
