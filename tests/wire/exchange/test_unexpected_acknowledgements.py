"""Acknowledgements that a peer should not have sent: every kind, in every standing of its message, at both levels, in any order."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.outbound_model import PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL, ack, hand_out, lane_opened, outbound_flow
from tests.wire.outbound_steps import EDGE, burst, commit, flow_at, kinds, offer, settled
from wire.exchange.sender import SenderHalf
from wire.exchange.unexpected_acknowledgements import PUBRELS_MORE
from wire.frames.batch import from_rows
from wire.status.outcomes import REDELIVERED

LEVELS = pytest.mark.parametrize("level", [4, 5])


def reconnected(flow: SenderHalf, level: int) -> None:
    flow.on_disconnected()
    flow.on_connected(session=EDGE, session_present=True, level=level)


def standing(name: str, level: int, **policy: Any) -> SenderHalf:
    """A flow in which the message with identifier 1 stands so."""
    flow = flow_at(level=level, **policy)
    offer(flow, 0, 1 if name in ("puback owed", "puback not sent here") else 2)
    burst(flow, level)
    if name in ("received", "pubcomp owed", "none"):
        flow.on_received(ack(PUBREC, 1))
    if name in ("pubcomp owed", "none"):
        commit(flow, 1)
        burst(flow, level)
    if name == "none":
        flow.on_received(ack(PUBCOMP, 1))
        commit(flow, 2)
    if name.endswith("not sent here"):
        reconnected(flow, level)
    return flow


STANDINGS = ("puback owed", "pubrec owed", "received", "pubcomp owed", "puback not sent here", "pubrec not sent here", "none")
# Acknowledgements that may come at once, and what they lead to at once: the outcome, and the PUBREL that leaves; else nothing
# changes.
AT_ONCE = {
    ("puback owed", PUBACK): ("delivered", False),
    ("puback owed", PUBREC): ("delivered", True),
    ("pubrec owed", PUBACK): ("delivered", False),
    ("pubcomp owed", PUBREC): (None, True),
    ("pubcomp owed", PUBCOMP): ("delivered", False),
    ("none", PUBREC): (None, True),
}
EXPECTED = {("puback owed", PUBACK), ("pubrec owed", PUBREC), ("pubcomp owed", PUBCOMP)}


@LEVELS
@pytest.mark.parametrize("name", STANDINGS)
@pytest.mark.parametrize("kind", [PUBACK, PUBREC, PUBCOMP])
def test_each_kind_in_each_standing_changes_what_the_table_says_and_nothing_else(level: int, name: str, kind: int) -> None:
    """exchange.unexpected-changes-nothing, exchange.other-kind-has-message"""
    if (name, kind) == ("pubrec owed", PUBREC):
        return  # the answer that is waited for
    flow = standing(name, level)
    before = flow.in_flight.messages
    flow.on_received(ack(kind, 1))
    outcome, has_pubrel = AT_ONCE.get((name, kind), (None, False))
    assert flow.counts.unexpected_acknowledgements == ((name, kind) not in EXPECTED)
    assert flow.counts.acknowledged_as_qos1 == ((name, kind) == ("pubrec owed", PUBACK))
    assert flow.in_flight.messages == before - (outcome is not None)
    told = settled(flow, 7)
    assert told.pop(REDELIVERED, ()) in ((), ((0, 1),))
    assert told == ({outcome: ((0, 1),)} if outcome else {})
    flow.record.on_committed(7)
    leaves = [(kind, each.reason_code) for kind, each in ((each.kind, each) for each in burst(flow, level))]
    not_found = 0x92 if level == 5 and name == "none" else 0
    wanted = [(PUBREL, not_found)] if has_pubrel else []
    if name == "received":
        wanted = [(PUBREL, 0)]
    elif name.endswith("not sent here"):
        wanted = [(PUBLISH, 0)]
    assert leaves == wanted


@pytest.mark.parametrize("name", STANDINGS)
@pytest.mark.parametrize("kind", [PUBACK, PUBREC])
def test_a_refusal_of_any_kind_ends_only_what_waits_for_an_answer(name: str, kind: int) -> None:
    flow = standing(name, 5)
    flow.on_received(ack(kind, 1, 0x87))
    is_owed = name in ("puback owed", "pubrec owed")
    told = settled(flow, 7)
    told.pop(REDELIVERED, None)
    assert told == ({"dead:remote_0x87": ((0, 1),)} if is_owed else {})
    assert flow.counts.refused == is_owed


@LEVELS
@pytest.mark.parametrize("name", ["puback not sent here", "pubrec not sent here"])
def test_an_answer_right_behind_connack_costs_one_repeat_and_no_more(level: int, name: str) -> None:
    """exchange.unexpected-changes-nothing: in the read of CONNACK, or before the message is sent again."""
    flow = standing(name, level)
    kind = PUBACK if name.startswith("puback") else PUBREC
    flow.on_received(ack(kind, 1) * 3)
    sent = burst(flow, level)
    assert [(packet.kind, packet.packet_id, packet.dup) for packet in sent] == [(PUBLISH, 1, True)]
    flow.on_received(ack(kind, 1))
    assert flow.in_flight.messages == (kind == PUBREC)
    assert flow.counts.unexpected_acknowledgements == 3


def test_a_pubrec_for_what_an_earlier_life_may_have_sent_has_no_pubrel() -> None:
    """The remote would release the identifier, and take what goes again for another message."""
    flow = outbound_flow()
    flow.open(lane_opened(head=0, tail=10, dup_below=5, session=EDGE))
    flow.on_connected(session=EDGE, session_present=True, level=5)
    flow.on_received(ack(PUBREC, 4))
    assert burst(flow, 5) == []
    flow.on_received(ack(PUBREC, 6))
    assert kinds(burst(flow, 5)) == [(PUBREL, 6)], "that one was never sent"
    flow.hand_out(hand_out(0, from_rows([(b"t", 2, b"x")] * 5)))
    assert [(packet.packet_id, packet.dup) for packet in burst(flow, 5)] == [(packet_id, True) for packet_id in range(1, 6)]


@LEVELS
def test_a_remote_that_answers_qos_2_with_puback_gets_what_follows_at_qos_1(level: int) -> None:
    """exchange.other-kind-has-message: as RabbitMQ 3.10 does. Messages on their way are settled as they are answered."""
    flow = flow_at(level=level)
    offer(flow, 0, 2, 2, 1)
    burst(flow, level)
    offer(flow, 3, 2, 2)
    flow.on_received(ack(PUBACK, 1))
    assert [packet.qos for packet in burst(flow, level)] == [1, 1]
    flow.on_received(b"".join(ack(PUBACK, packet_id) for packet_id in (2, 3, 4, 5)))
    assert settled(flow) == {"delivered": ((0, 5),)}
    assert (flow.counts.acknowledged_as_qos1, flow.counts.qos_lowered, flow.in_flight.qos2) == (2, 2, 0)
    assert flow.counts.unexpected_acknowledgements == 2


@LEVELS
def test_what_it_had_at_qos_2_and_did_not_answer_goes_again_at_qos_1_without_a_pubrel(level: int) -> None:
    """RabbitMQ 3.10 reads nothing that comes behind a PUBREL."""
    flow = flow_at(level=level)
    offer(flow, 0, 2, 2)
    burst(flow, level)
    flow.on_received(ack(PUBACK, 1))
    learnt = flow.publishing.learnt
    flow.on_disconnected()
    flow.on_connected(session=EDGE, session_present=True, level=level, learnt=learnt)
    assert [(packet.kind, packet.packet_id, packet.qos, packet.dup) for packet in burst(flow, level)] == [(PUBLISH, 2, 1, True)]
    flow.on_received(ack(PUBACK, 2))
    assert settled(flow)["delivered"] == ((0, 2),)


@pytest.mark.parametrize("kind", [PUBACK, PUBREC])
def test_a_pubrel_that_is_answered_with_pubrec_for_ever_goes_a_few_times(kind: int) -> None:
    """exchange.unexpected-changes-nothing"""
    flow = standing("pubcomp owed", 5)
    packets = 0
    for _ in range(20):
        flow.on_received(ack(kind, 1) + ack(PUBREC, 500))
        packets += len(burst(flow, 5))
    assert packets == (1 + (kind != PUBACK)) * PUBRELS_MORE
    assert flow.counts.unexpected_acknowledgements == 40


@LEVELS
@pytest.mark.parametrize("name", ["puback owed", "pubrec owed", "pubcomp owed", "puback not sent here", "pubrec not sent here"])
def test_at_a_stall_the_wrong_answer_stands_for_the_right_one_and_the_queue_moves(level: int, name: str) -> None:
    """exchange.other-kind-has-message"""
    flow = standing(name, level)
    commit(flow, 3)
    wrong = PUBCOMP if name in ("puback owed", "pubrec owed") else PUBACK
    flow.on_received(ack(wrong, 1))
    burst(flow, level)
    flow.on_stalled()
    outcome = "dead:wrongly_acknowledged" if wrong == PUBCOMP else "delivered"
    told = settled(flow, 7)
    told.pop(REDELIVERED, None)
    assert told == {outcome: ((0, 1),)}
    assert flow.in_flight.messages == 0
    reconnected(flow, level)
    offer(flow, 1, 1)
    assert kinds(burst(flow, level)) == [(PUBLISH, 2)]


def test_at_a_stall_nothing_is_given_up_that_was_not_answered_at_all() -> None:
    flow = standing("pubrec owed", 4)
    flow.on_received(ack(PUBCOMP, 9))
    flow.on_stalled()
    assert settled(flow) == {}
    reconnected(flow, 4)
    assert kinds(burst(flow)) == [(PUBLISH, 1)]


def test_at_a_stall_policy_may_have_it_tried_again() -> None:
    flow = standing("pubrec owed", 4, default="retry")
    flow.on_received(ack(PUBCOMP, 1))
    flow.on_stalled()
    assert settled(flow) == {}
    assert flow.refusals.take_counts() == {0x101: 1}
    reconnected(flow, 4)
    assert burst(flow, now_s=0.0) == []
    assert kinds(burst(flow, now_s=60.0)) == [(PUBLISH, 1)]


_ACKS = st.tuples(
    st.sampled_from([PUBACK, PUBREC, PUBCOMP]),
    st.sampled_from([1, 2, 3, 4, 5, 6, 300, 65_001]),
    st.sampled_from([0, 0x10, 0x87, 0x97]),
)
_STEPS = st.lists(st.one_of(_ACKS, st.sampled_from(["pump", "commit", "cut", "stall", "offer"])), max_size=60)


@given(level=st.sampled_from([4, 5]), steps=_STEPS)
def test_whatever_comes_in_whatever_order_each_message_ends_once_and_nothing_floods(
    level: int, steps: list[str | tuple[int, int, int]]
) -> None:
    flow = flow_at(level=level, receive_maximum=10)
    number, next_seq, now_s = 0, 0, 0.0
    ended: Counter[int] = Counter()
    published: Counter[int] = Counter()  # on the live connection
    pubrels: Counter[int] = Counter()

    def tell() -> None:
        nonlocal number
        number += 1
        for outcome, ranges in settled(flow, number).items():
            if outcome != REDELIVERED:
                ended.update(seq for start, stop in ranges for seq in range(start, stop))
        flow.record.on_committed(number)

    def pump() -> None:
        nonlocal now_s
        now_s += 100.0
        for packet in burst(flow, level, now_s):
            (published if packet.kind == PUBLISH else pubrels)[packet.packet_id] += 1

    for step in steps:
        if isinstance(step, tuple):
            kind, packet_id, code = step
            flow.on_received(ack(kind, packet_id, code if level == 5 else None))
        elif step == "offer":
            offer(flow, next_seq, 1, 2)
            next_seq += 2
        elif step == "pump":
            pump()
        elif step == "commit":
            tell()
        else:
            if step == "stall":
                flow.on_stalled()
            reconnected(flow, level)
            published.clear()
            pubrels.clear()
        waiting = (*flow.in_flight.unsettled, *flow.held.unsettled)
        assert flow.in_flight.messages == sum(each.count() for each in waiting)
        assert flow.in_flight.qos2 <= flow.in_flight.messages
        assert all(count <= 1 + flow.counts.retried for count in published.values())
        assert all(count <= 2 + flow.counts.retried for count in pubrels.values())

    for _ in range(4):  # a peer that answers as it should, from now on
        reconnected(flow, level)
        pump()
        flow.on_received(b"".join(ack(kind, seq + 1) for kind in (PUBACK, PUBREC) for seq in range(next_seq)))
        tell()
        pump()
        flow.on_received(b"".join(ack(PUBCOMP, seq + 1) for seq in range(next_seq)))
        tell()
    assert ended == Counter(range(next_seq))
