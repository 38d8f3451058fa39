"""MessageTraces: who asks for a trace is answered once the next message will be followed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgpack
import pytest

from supervisor.control.control_socket import ControlError, Request
from supervisor.tree.message_traces import ANSWER_S, ASKERS_MAX, TIMER, MessageTraces
from tests.supervisor.tree_double import FakeMailbox
from wire.frames.names import CLIENTS, DISTRIBUTOR, LISTENER
from wire.frames.traces import TraceStep, TraceWanted

WHOM = [b"somebody"]


class Desk:
    def __init__(self) -> None:
        self.mailbox = FakeMailbox()
        mailbox: Any = self.mailbox
        children: Any = {CLIENTS: SimpleNamespace(is_working=True, state="ready")}
        self.traces = MessageTraces(mailbox, children)

    def ask(self, topic: str = "a/#") -> None:
        self.traces.ask(WHOM, Request(request_id=7, command="trace", arguments={"topic": topic}))

    def told(self, step: str, number: int = 1) -> list[Any]:
        frame = TraceStep(request=number, step=step, actor=LISTENER, queue="", at_s=0.0, details={})
        return [(whom, msgpack.unpackb(payload)) for whom, payload in self.traces.on_stepped(frame)]


def test_a_trace_is_answered_once_all_who_find_its_message_are_looking_for_it() -> None:
    """Who is answered may publish at once."""
    desk = Desk()
    desk.ask()
    assert desk.mailbox.sent == [(DISTRIBUTOR, TraceWanted(request=1, topic_filter="a/#", timeout_s=30.0))]
    ((whom, answer),) = desk.told("armed")
    assert (whom, answer["id"], answer["result"]) == (WHOM, 7, {"number": 1, "timeout_s": 30.0})
    assert desk.told("armed") == [], "once"
    assert desk.told("taken") == []
    request = Request(request_id=8, command="trace.result", arguments={"number": "1"})
    assert [step.step for step in desk.traces.result(request).steps] == ["taken"]


def test_who_cannot_be_answered_is_told_so() -> None:
    desk = Desk()
    desk.ask()
    assert desk.mailbox.timers == {TIMER: ANSWER_S}
    ((whom, payload),) = desk.traces.timed_out(ANSWER_S)
    assert (whom, msgpack.unpackb(payload)["error"]["kind"]) == (WHOM, "unavailable")
    assert desk.told("armed") == []
    for _ in range(ASKERS_MAX):
        desk.ask()
    with pytest.raises(ControlError):
        desk.ask()


def test_that_it_was_taken_comes_first_and_once_whatever_the_times_say() -> None:
    """Who published it is told by one actor, and what it is by another; the command shows the message by its first step."""
    desk = Desk()
    desk.ask()
    steps: list[tuple[str, float, dict[str, Any]]] = [
        ("settled", 1.0, {}),
        ("taken", 2.0, {"qos": 1}),
        ("routed", 3.0, {"lanes": [], "sessions_count": 2}),
        ("taken", 4.0, {"client_id": "a"}),
    ]
    for step, at_s, details in steps:
        frame = TraceStep(request=1, step=step, actor=DISTRIBUTOR, queue="", at_s=at_s, details=details)
        desk.traces.on_stepped(frame)
    request = Request(request_id=8, command="trace.result", arguments={"number": "1"})
    rows = desk.traces.result(request).steps
    assert [row.step for row in rows] == ["taken", "settled", "routed"]
    assert rows[0].details == {"qos": 1, "client_id": "a"}
