"""SenderHalf by example: lanes that are opened, sessions that are resumed, lost and left, connections that come and go."""

from __future__ import annotations

import pytest

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
from tests.wire.outbound_steps import EDGE, burst, commit, flow_at, kinds, offer, settled


@pytest.mark.parametrize("republish", [False, True])
def test_a_session_that_was_forgotten_because_of_damage_is_a_lost_one(republish: bool) -> None:
    """Messages that were released in it must not be released in the next one, which has no PUBREC of them."""
    flow = outbound_flow(republish=republish)
    flow.open(lane_opened(head=0, tail=1, released=[0], session=""))
    offer(flow, 0, 2)

    flow.on_connected(session=EDGE, session_present=False, level=4)

    assert (flow.record.generation, flow.counts.sessions_lost) == (1, 1)
    settled(flow)
    flow.record.on_committed(1)
    assert kinds(burst(flow)) == ([(PUBLISH, 1)] if republish else [])


@pytest.mark.parametrize("republish", [False, True])
def test_a_lost_session_settles_or_sends_again_what_it_had_released(republish: bool) -> None:
    """exchange.session-on-record-first: unreleased messages go as new, without DUP, in both cases; the generation rises."""
    flow = flow_at(republish=republish)
    offer(flow, 0, 2, 2, 1)
    burst(flow)
    flow.on_received(ack(PUBREC, 1))
    flow.record.facts(1)
    flow.record.on_committed(1)
    flow.on_disconnected()
    flow.on_connected(session=EDGE, session_present=False, level=4)
    facts = flow.record.facts(2)
    assert facts is not None
    assert (facts.session, facts.generation) == (EDGE, 1)
    assert dict(facts.settled) == ({} if republish else {"delivered": ((0, 1),)})
    flow.record.on_committed(2)
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
    flow.on_disconnected()
    assert not flow.knows("edge@there", session_present=True)
    flow.on_connected(session="edge@there", session_present=False, level=4)
    assert (flow.record.session, flow.record.generation) == ("edge@there", 1)


def test_what_was_never_sent_is_not_unfinished_and_a_refused_message_is_not() -> None:
    """exchange.failback-when-finished"""
    flow = outbound_flow()
    flow.open(lane_opened(head=0, tail=4, dup_below=3, settled=[1, 2], session=EDGE))
    flow.on_connected(session=EDGE, session_present=True, level=5)
    offer(flow, 0, 1)
    burst(flow, level=5)
    assert flow.unfinished
    flow.on_received(ack(PUBACK, 1, 0x97))
    assert not flow.unfinished, "its exchange has ended; it is sent as new, here or elsewhere"


def test_leaving_what_is_finished_loses_no_session_and_another_address_is_another_generation() -> None:
    flow = outbound_flow()
    flow.open(lane_opened(session=EDGE, generation=3))
    flow.on_connected(session=EDGE, session_present=True, level=4)
    offer(flow, 0, 2)
    burst(flow)
    flow.on_received(ack(PUBREC, 1))
    commit(flow, 1)
    burst(flow)
    flow.on_received(ack(PUBCOMP, 1))
    flow.finish(True)
    flow.on_disconnected()
    flow.on_connected(session="edge@there", session_present=False, level=4)
    assert (flow.counts.sessions_lost, flow.record.generation) == (0, 4)
    commit(flow, 2)
    offer(flow, 1, 2)
    assert [(packet.packet_id, packet.dup) for packet in burst(flow)] == [(2, False)]


def test_opening_the_lane_anew_forgets_the_old_one() -> None:
    flow = flow_at()
    offer(flow, 0, 1, 2)
    burst(flow)
    flow.on_received(ack(PUBREC, 2))
    flow.open(lane_opened(head=0, dup_below=2, released=[1], session=EDGE, epoch=2))
    assert (flow.live, flow.record.facts(1), flow.pump(100, 0.0)) == (False, None, b"")
    flow.on_connected(session=EDGE, session_present=True, level=4)
    offer(flow, 0, 1, 2)
    again = burst(flow)
    assert kinds(again) == [(PUBREL, 2), (PUBLISH, 1)]
    assert again[1].dup


def test_sequences_of_an_in_memory_queue_are_resent_like_any_other() -> None:
    """They begin at the store's epoch << 32, far above 2**62."""
    first_seq = 1_795_224_171 << 32
    flow = flow_at(head=first_seq)
    offer(flow, first_seq, 1, 2)
    sent = kinds(burst(flow))
    flow.on_disconnected()
    flow.on_connected(session=EDGE, session_present=True, level=4)
    assert kinds(burst(flow)) == sent


def test_owed_names_the_oldest_answer_of_each_kind_and_a_back_off_owes_none() -> None:
    flow = flow_at(level=5)
    offer(flow, 0, 1, 2, 1, 2)
    assert flow.owed == (None,) * 4
    burst(flow, 5)
    first = flow.owed
    assert None not in first[:2]
    flow.on_received(ack(PUBREC, 2))
    assert (flow.owed[0], flow.owed[1] != first[1], flow.owed[2]) == (first[0], True, None)
    flow.record.facts(1)
    flow.record.on_committed(1)
    burst(flow, 5)
    assert flow.owed[2] is not None
    flow.on_received(ack(PUBCOMP, 2) + ack(PUBREC, 4, 0x97) + ack(PUBACK, 1) + ack(PUBACK, 3))
    burst(flow, 5, 0.0)
    assert flow.owed == (None,) * 4
    burst(flow, 5, 1.0)
    assert flow.owed[1] is not None
