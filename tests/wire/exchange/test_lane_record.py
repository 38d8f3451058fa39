"""LaneRecord: what has to be on record before anything else leaves."""

from __future__ import annotations

import pytest

from tests.wire.outbound_model import (
    PUBACK,
    PUBLISH,
    ack,
    lane_opened,
    outbound_flow,
)
from tests.wire.outbound_steps import EDGE, after, aging, burst, commit, flow_at, kinds, offer, settled
from wire.exchange.due_messages import DueMessages
from wire.exchange.held_identifiers import HeldIdentifiers
from wire.exchange.identifier_span import IdentifierSpan
from wire.exchange.lane_record import Facts, LaneRecord


def test_nothing_leaves_before_a_new_session_is_on_record() -> None:
    """exchange.session-on-record-first"""
    flow = outbound_flow()
    flow.open(lane_opened())
    assert flow.knows(EDGE, session_present=False)
    assert not flow.knows(EDGE, session_present=True)
    flow.on_connected(session=EDGE, session_present=False, level=4)
    offer(flow, 0, 1)
    assert burst(flow) == []
    facts = flow.record.facts(1)
    assert facts is not None
    assert (facts.session, facts.generation) == (EDGE, 0)
    assert burst(flow) == []
    flow.record.on_committed(1)
    assert kinds(burst(flow)) == [(PUBLISH, 1)]


def test_nothing_leaves_behind_what_has_expired_before_that_is_committed() -> None:
    """exchange.expiry-committed-first"""
    flow = flow_at(level=5)
    flow.hand_out(aging(0, (1, 60), (1, 5), (0, None), (1, None)))
    assert after(flow, 6.0) == [(0, 54)], "what stands before it does not wait"
    assert flow.record.urgent
    facts = flow.record.facts(1)
    assert facts is not None
    assert (facts.settled, facts.session) == ((("expired", ((1, 2),)),), EDGE), "so the store answers when it is committed"
    assert not flow.record.urgent
    flow.on_received(ack(PUBACK, 1))
    assert after(flow, 6.0) == []
    flow.record.on_committed(1)
    assert after(flow, 6.0) == [(2, None), (3, None)]


def test_all_that_has_expired_by_then_waits_for_one_commit() -> None:
    """exchange.expiry-committed-first: also what is further behind than the window reaches, and what is handed out meanwhile."""
    flow = flow_at(level=5, receive_maximum=2)
    flow.hand_out(aging(0, (1, 5), (1, None), (1, 5), (2, 5), (0, 5), (1, 60)))
    flow.hand_out(aging(6, (1, 5), (1, 7)))
    assert after(flow, 6.0) == []
    assert commit(flow, 1) == {"expired": ((0, 1), (2, 4), (6, 7))}
    assert after(flow, 6.0) == [(1, None), (5, 54)]
    flow.on_received(ack(PUBACK, 2) + ack(PUBACK, 6))
    assert after(flow, 7.0) == []
    assert flow.record.facts(2) is not None
    flow.hand_out(aging(8, (1, 5)))
    flow.hand_out(aging(9, (1, 5), (1, None)))
    assert after(flow, 7.0) == []
    assert commit(flow, 3) == {"expired": ((8, 10),)}
    assert after(flow, 7.0) == [(10, None)]
    assert flow.counts.expired == 8
    assert flow.handed_out.passed_messages == 11


def test_the_commit_of_some_of_what_has_expired_is_not_that_of_all() -> None:
    """exchange.expiry-committed-first"""
    flow = flow_at(level=5)
    flow.hand_out(aging(0, (1, 5)))
    after(flow, 6.0)
    assert settled(flow, 1) == {"expired": ((0, 1),)}
    flow.hand_out(aging(1, (1, 5), (1, None)))
    after(flow, 6.0)
    flow.record.on_committed(1)
    assert after(flow, 6.0) == []
    commit(flow, 2)
    assert after(flow, 6.0) == [(2, None)]


def test_qos_0_that_has_expired_holds_nothing_up() -> None:
    """exchange.expiry-committed-first"""
    flow = flow_at(level=5)
    flow.hand_out(aging(0, (0, 5), (1, None)))
    assert after(flow, 6.0) == [(1, None)]
    assert not flow.record.urgent


@pytest.mark.parametrize("present", [True, False])
def test_the_wait_outlasts_the_connection_and_what_was_sent_before_goes_again(present: bool) -> None:
    """exchange.expiry-committed-first"""
    flow = flow_at(level=5)
    flow.hand_out(aging(0, (1, None), (1, 5), (1, None)))
    assert after(flow, 6.0) == [(0, None)]
    facts = flow.record.facts(1)
    flow.on_disconnected()
    flow.on_connected(session=EDGE, session_present=present, level=5)
    if not present:
        assert flow.record.facts(2) is not None
        flow.record.on_committed(2)
        assert after(flow, 6.0) == [(0, None), (2, None)], "commits are in order"
        return
    assert after(flow, 6.0) == [(0, None)]
    assert facts is not None
    flow.record.on_committed(1)
    assert after(flow, 6.0) == [(2, None)]


def test_a_lane_that_is_opened_anew_does_not_wait_for_what_the_former_one_was_told() -> None:
    """exchange.expiry-committed-first"""
    flow = flow_at(level=5)
    flow.hand_out(aging(0, (1, 5), (1, None)))
    assert after(flow, 6.0) == []
    assert settled(flow) == {"expired": ((0, 1),)}
    flow.on_disconnected()
    flow.open(lane_opened(tail=2, dup_below=2, session=EDGE))
    flow.on_connected(session=EDGE, session_present=True, level=5)
    flow.hand_out(aging(0, (1, 5), (1, None)))
    assert after(flow, 6.0) == [(0, 1), (1, None)], "it may have been sent for all that is on record, and is in order"


def test_suspects_are_not_taken_back_because_of_the_wait() -> None:
    """exchange.expiry-committed-first: another message is there to show what the remote takes: it only waits for a commit
    (exchange.given-up-only-when-proven).
    """
    flow = flow_at(level=5)
    flow.hand_out(aging(0, (1, None)))
    for _ in range(2 + 5):
        assert after(flow, 0.0) == [(0, None)]
        flow.on_disconnected(by_remote=True)
        flow.on_connected(session=EDGE, session_present=True, level=5)
    flow.hand_out(aging(1, (1, 5), (1, None)))
    assert after(flow, 6.0) == []
    commit(flow, 1)
    assert after(flow, 6.0) == [(2, None)]
    flow.on_received(ack(PUBACK, 3))
    assert after(flow, 6.0) == [(0, None)]


def record_of(held: HeldIdentifiers) -> LaneRecord:
    record = LaneRecord(held, IdentifierSpan(DueMessages(), ()))
    record.open(lane_opened(session=EDGE, generation=3))
    return record


def test_facts_tell_once_what_was_settled_and_released() -> None:
    held = HeldIdentifiers()
    record = record_of(held)
    assert (record.facts(1), record.urgent) == (None, False)
    record.settle("delivered", 0, 2)
    record.settle("redelivered", 1, 2)
    assert (record.settled_messages, record.urgent) == (2, False)
    held.pubrec(2, 3)
    assert (record.urgent, record.releases) == (False, True)
    told = Facts(settled=(("delivered", ((0, 2),)), ("redelivered", ((1, 2),))), released=((2, 3),), session=None, generation=3)
    assert record.facts(1) == told
    assert record.facts(2) is None
    held.pubrec(3, 4)
    assert not record.releases, "it waits for the commit that is under way"
    record.on_committed(1)
    assert held.due.ranges() == ((2, 3),)
    assert record.releases


def test_a_session_is_on_record_when_the_settle_that_told_it_is_committed() -> None:
    record = record_of(HeldIdentifiers())
    record.lose_session()
    record.begin_session("edge@there")
    assert (record.recorded, record.urgent) == (False, True)
    facts = record.facts(1)
    assert facts is not None
    assert (facts.session, facts.generation, record.recorded, record.urgent) == ("edge@there", 4, False, False)
    record.on_committed(1)
    assert record.recorded


def test_what_has_expired_is_waited_for_until_all_of_it_is_committed() -> None:
    record = record_of(HeldIdentifiers())
    record.expire(0, 1)
    record.on_expired()
    assert record.facts(1) is not None
    record.expire(1, 2)
    record.on_expired()
    assert record.facts(2) is not None
    record.on_committed(1)
    assert record.expiring.ranges() == ((0, 2),)
    record.on_committed(2)
    assert not record.expiring
