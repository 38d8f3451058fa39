"""Requests that the store carries out: who gets them, and who is answered when, without a socket."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest

from supervisor.control.control_socket import ControlError, Request
from supervisor.control.store_commands import ANSWER_TIMEOUT_S
from supervisor.tree.store_requests import TIMER, Answers, StoreRequests
from tests.supervisor.tree_double import Children
from wire.frames.names import CLIENTS, LISTENER, QUEUE_STORE, STORE
from wire.frames.supervision import QueueAnswer, QueueCommand, SessionCommand


class Desk(Children):
    """The store runs and is ready, unless a test says otherwise."""

    def __init__(self, **states: str) -> None:
        super().__init__()
        for name in (STORE, CLIENTS):
            self.children.spawn(self.children[name])
            self.children[name].state = states.get(name, "ready")
        self.requests = StoreRequests(self.mailbox, self.children)

    def ask(self, whom: bytes, command: str = "queue.ls", **arguments: str) -> None:
        self.requests.ask([whom], Request(request_id=whom.decode(), command=command, arguments=arguments))


def said(answers: Answers) -> list[tuple[list[bytes], Any]]:
    """Whom, and the result or the kind of error."""
    read = [(whom, msgpack.unpackb(payload)) for whom, payload in answers]
    return [(whom, answer["result"] if answer["ok"] else answer["error"]["kind"]) for whom, answer in read]


def answer(number: int, error: str = "") -> QueueAnswer:
    return QueueAnswer(request=number, error=error, message="why", result={"number": number})


def test_each_who_asked_gets_the_answer_to_his_question_once() -> None:
    desk = Desk()
    desk.ask(b"a")
    desk.ask(b"b", "queue.purge", bridge="cloud")
    first, second = [frame for peer, frame in desk.sent(QueueCommand) if peer == QUEUE_STORE]

    assert said(desk.requests.answered(answer(second.request, "refused"))) == [([b"b"], "refused")]
    assert TIMER in desk.fake.timers
    assert said(desk.requests.answered(answer(first.request))) == [([b"a"], {"number": first.request})]
    assert TIMER not in desk.fake.timers, "nobody waits"
    assert desk.requests.answered(answer(first.request)) == []


@pytest.mark.parametrize(("clients", "receiver"), [("ready", LISTENER), ("starting", QUEUE_STORE)])
def test_questions_about_sessions_go_by_the_listener_where_one_works(clients: str, receiver: str) -> None:
    desk = Desk(clients=clients)

    desk.ask(b"a", "session.ls")

    assert [peer for peer, _ in desk.sent(SessionCommand)] == [receiver]
    assert said(desk.requests.listener_ended()) == ([([b"a"], "unavailable")] if receiver == LISTENER else [])


def test_nobody_is_asked_where_the_store_is_not_ready_and_it_is_said_why() -> None:
    desk = Desk(store="starting")
    with pytest.raises(ControlError, match="the queue store is starting; nothing was done"):
        desk.ask(b"a")
    desk.children[STORE].figures = {QUEUE_STORE: {"error": "disk: locked"}}
    with pytest.raises(ControlError, match="cannot open its files for now: disk: locked"):
        desk.ask(b"a")

    assert desk.sent(QueueCommand) == []


def test_who_waits_too_long_or_for_a_store_that_has_ended_is_told_so() -> None:
    desk = Desk()
    desk.ask(b"a")
    desk.fake.time_s = 5.0
    desk.ask(b"b")
    assert desk.fake.timers[TIMER] == ANSWER_TIMEOUT_S

    assert said(desk.requests.timed_out(ANSWER_TIMEOUT_S)) == [([b"a"], "unavailable")]
    assert desk.fake.timers[TIMER] == 5.0 + ANSWER_TIMEOUT_S
    assert said(desk.requests.store_ended()) == [([b"b"], "unavailable")]
    assert TIMER not in desk.fake.timers
