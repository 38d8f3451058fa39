"""Requests that the store carries out: who gets them, and who is answered when, without a socket."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest

from supervisor.control.control_socket import Answers, ControlError, Request
from supervisor.control.store_commands import ANSWER_TIMEOUT_S
from supervisor.tree.store_requests import ASKERS_MAX, START_WAIT_S, TIMER, StoreRequests
from tests.supervisor.tree_double import Children
from wire.frames.names import CLIENTS, LISTENER, QUEUE_STORE, STORE
from wire.frames.supervision import QueueAnswer, QueueCommand, SessionCommand
from wire.status.states import ChildState
from wire.status.store import StoreReport


class Desk(Children):
    """The store runs and is ready, unless a test says otherwise."""

    def __init__(self, **states: str) -> None:
        super().__init__()
        for name in (STORE, CLIENTS):
            self.children.spawn(self.children[name])
            self.children[name].state = ChildState(states.get(name, "ready"))
        self.requests = StoreRequests(self.mailbox, self.children)

    def ask(self, whom: bytes, command: str = "queue.list", **arguments: str) -> None:
        self.requests.ask([whom], Request(request_id=whom.decode(), command=command, arguments=arguments))


def said(answers: Answers) -> list[tuple[list[bytes], Any]]:
    """The asker, and the result or the kind of error."""
    read = [(whom, msgpack.unpackb(payload)) for whom, payload in answers]
    return [(whom, answer["result"] if answer["ok"] else answer["error"]["kind"]) for whom, answer in read]


def answer(number: int, error: str = "") -> QueueAnswer:
    return QueueAnswer(request=number, error=error, message="why", result={"number": number})


def test_each_who_asked_gets_the_answer_to_his_question_once() -> None:
    desk = Desk()
    desk.ask(b"a")
    desk.ask(b"b", "queue.purge", bridge="cloud")
    first, second = [frame for peer, frame in desk.sent(QueueCommand) if peer == QUEUE_STORE]

    assert said(desk.requests.on_answered(answer(second.request, "refused"))) == [([b"b"], "refused")]
    assert TIMER in desk.fake.timers
    assert said(desk.requests.on_answered(answer(first.request))) == [([b"a"], {"number": first.request})]
    assert TIMER not in desk.fake.timers, "nobody waits"
    assert desk.requests.on_answered(answer(first.request)) == []


@pytest.mark.parametrize(("clients", "receiver"), [("ready", LISTENER), ("starting", QUEUE_STORE)])
def test_questions_about_sessions_go_by_the_listener_where_one_works(clients: str, receiver: str) -> None:
    desk = Desk(clients=clients)

    desk.ask(b"a", "session.list")

    assert [peer for peer, _ in desk.sent(SessionCommand)] == [receiver]
    assert said(desk.requests.on_listener_ended()) == ([([b"a"], "unavailable")] if receiver == LISTENER else [])


def test_what_is_asked_of_a_store_that_starts_reaches_it_when_it_has() -> None:
    desk = Desk(store="starting")
    desk.ask(b"a")
    desk.ask(b"b", "queue.peek", bridge="cloud")
    assert desk.sent(QueueCommand) == []

    desk.children[STORE].state = ChildState.READY
    assert said(desk.requests.on_store_ready()) == [([b"b"], "bad_arguments")], "a lane is missing"
    ((peer, frame),) = desk.sent(QueueCommand)
    assert peer == QUEUE_STORE
    assert said(desk.requests.on_answered(answer(frame.request))) == [([b"a"], {"number": frame.request})]
    assert desk.requests.on_store_ready() == [], "it is asked once"
    assert TIMER not in desk.fake.timers


@pytest.mark.parametrize("state", ["starting", "restarting"])
def test_a_store_that_does_not_start_in_time_was_asked_nothing(state: str) -> None:
    desk = Desk(store=state)
    desk.ask(b"a")
    desk.fake.time_s = 1.0
    desk.ask(b"b")
    assert desk.fake.timers[TIMER] == START_WAIT_S

    ((whom, payload),) = desk.requests.timed_out(START_WAIT_S)
    assert whom == [b"a"]
    assert msgpack.unpackb(payload)["error"]["message"] == f"the queue store is {state}; nothing was done"
    assert desk.fake.timers[TIMER] == 1.0 + START_WAIT_S
    assert desk.sent(QueueCommand) == []


def test_so_many_wait_for_a_store_to_start_and_no_more() -> None:
    desk = Desk(store="restarting")
    for number in range(ASKERS_MAX):
        desk.ask(b"%d" % number)

    with pytest.raises(ControlError, match="too many queue commands are waiting"):
        desk.ask(b"one more")


def test_nobody_is_asked_where_the_store_cannot_start_and_it_is_said_why() -> None:
    desk = Desk(store="damaged")
    with pytest.raises(ControlError, match="the queue store is damaged; nothing was done"):
        desk.ask(b"a")
    desk.children[STORE].state = ChildState.STARTING
    desk.children[STORE].reports = {QUEUE_STORE: StoreReport(error="disk: locked")}
    with pytest.raises(ControlError, match="cannot open its files for now: disk: locked"):
        desk.ask(b"a")

    assert desk.sent(QueueCommand) == []
    assert desk.requests.on_store_ready() == []


def test_who_waits_too_long_or_ordered_something_of_a_store_that_has_ended_is_told_so() -> None:
    desk = Desk()
    desk.ask(b"a")
    desk.fake.time_s = 5.0
    desk.ask(b"b", "queue.purge", bridge="cloud")
    assert desk.fake.timers[TIMER] == ANSWER_TIMEOUT_S

    assert said(desk.requests.timed_out(ANSWER_TIMEOUT_S)) == [([b"a"], "unavailable")]
    assert desk.fake.timers[TIMER] == 5.0 + ANSWER_TIMEOUT_S
    ((whom, payload),) = desk.requests.on_store_ended(starts_again=True)
    assert whom == [b"b"]
    assert "carried out or not: look with queue list" in msgpack.unpackb(payload)["error"]["message"]
    assert TIMER not in desk.fake.timers


def test_so_many_wait_for_an_answer_and_no_more() -> None:
    desk = Desk()
    for number in range(ASKERS_MAX):
        desk.ask(b"%d" % number)
    with pytest.raises(ControlError, match="too many queue commands are waiting"):
        desk.ask(b"one more")

    desk.requests.on_answered(answer(1))
    desk.ask(b"one more")


def test_who_only_looks_is_answered_by_the_next_store() -> None:
    desk = Desk()
    desk.ask(b"a")
    assert desk.requests.on_store_ended(starts_again=True) == []
    assert desk.fake.timers[TIMER] == START_WAIT_S

    assert desk.requests.on_store_ready() == []
    first, again = [frame for _, frame in desk.sent(QueueCommand)]
    assert desk.requests.on_answered(answer(first.request)) == [], "it comes late, of a life that has ended"
    assert said(desk.requests.on_answered(answer(again.request))) == [([b"a"], {"number": again.request})]


def test_a_question_that_two_stores_end_with_is_not_asked_a_third_time() -> None:
    """It may be why they end."""
    desk = Desk()
    desk.ask(b"a")
    assert desk.requests.on_store_ended(starts_again=True) == []
    assert desk.requests.on_store_ready() == []

    assert said(desk.requests.on_store_ended(starts_again=True)) == [([b"a"], "unavailable")]
    assert desk.requests.on_store_ready() == []
    assert len(desk.sent(QueueCommand)) == 2


def test_a_node_that_stops_lets_nobody_wait() -> None:
    desk = Desk()
    desk.ask(b"a")
    desk.children[STORE].state = ChildState.RESTARTING
    desk.ask(b"b")

    assert said(desk.requests.on_store_ended(starts_again=False)) == [([b"a"], "unavailable"), ([b"b"], "unavailable")]
    assert TIMER not in desk.fake.timers
