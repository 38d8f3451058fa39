"""The client of the control socket, against an answering end that the test holds."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import zmq

from actors.process.request_sockets import ipc_endpoint
from supervisor.control.client import ControlClient, call
from supervisor.control.control_socket import (
    COMMANDS,
    SOCKET_NAME,
    ControlError,
    NotRunning,
    Request,
    encode_error,
    encode_result,
    parse_request,
)
from supervisor.control.roles import NEEDED, ROLES, may
from tests.support.waiting import PATIENCE_S, wait_until

Answers = Callable[[Request], Any]


class AnsweringEnd:
    """A ROUTER in a thread. ``answers`` makes each answer, or raises ``ControlError``; None answers nothing."""

    def __init__(self, run_dir: Path) -> None:
        self.answers: Answers = lambda request: {"node": request.command, **request.arguments}
        self.askers: set[bytes] = set()
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket = self._context.socket(zmq.ROUTER)
        self._socket.bind(ipc_endpoint(run_dir / SOCKET_NAME))
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        if not self._ended.is_set():
            self._ended.set()
            self._thread.join(PATIENCE_S)
            self._socket.close(0)
            self._context.term()

    def _run(self) -> None:
        while not self._ended.is_set():
            if self._socket.poll(10):
                whom, payload = self._socket.recv_multipart()
                self.askers.add(whom)
                request = parse_request(payload)
                try:
                    result = self.answers(request)
                except ControlError as error:
                    self._socket.send_multipart([whom, encode_error(error)])
                else:
                    if result is not None:
                        self._socket.send_multipart([whom, encode_result(request.request_id, result)])


@pytest.fixture
def end(tmp_path: Path) -> Iterator[AnsweringEnd]:
    end = AnsweringEnd(tmp_path)
    yield end
    end.close()


@pytest.fixture
def node(end: AnsweringEnd, tmp_path: Path) -> Iterator[ControlClient]:
    with ControlClient.of_run_dir(tmp_path) as node:
        yield node


# A call of each typed method, and what goes over the socket for it.
CALLS: list[tuple[Callable[[ControlClient], Any], str, dict[str, str]]] = [
    (lambda node: node.ping(), "ping", {}),
    (lambda node: node.status(), "status", {}),
    (lambda node: node.stop(), "stop", {}),
    (lambda node: node.plan_reload(), "reload.plan", {}),
    (lambda node: node.reload(), "reload", {}),
    (lambda node: node.access(), "access", {}),
    (lambda node: node.show_bridge("n"), "bridge.show", {"name": "n"}),
    (lambda node: node.put_bridge("n", "text", plan=True), "bridge.put", {"name": "n", "text": "text", "plan": "yes"}),
    (lambda node: node.remove_bridge("n", yes=True), "bridge.remove", {"name": "n", "yes": "yes"}),
    (lambda node: node.reload(yes=True), "reload", {"yes": "yes"}),
    (lambda node: node.events(7, 3), "events", {"from": "7", "count": "3"}),
    (lambda node: node.pause("cloud"), "bridge.pause", {"bridge": "cloud"}),
    (lambda node: node.resume("cloud"), "bridge.resume", {"bridge": "cloud"}),
    (lambda node: node.restart("cloud"), "bridge.restart", {"bridge": "cloud"}),
    (lambda node: node.queues(), "queue.list", {}),
    (lambda node: node.queues("cloud"), "queue.list", {"bridge": "cloud"}),
    (lambda node: node.peek("cloud", lane=0, count=9), "queue.peek", {"bridge": "cloud", "lane": "0", "from": "0", "count": "9"}),
    (lambda node: node.export("cloud", dead=True), "queue.export", {"bridge": "cloud", "dead": "yes", "from": "0", "count": "500"}),
    (
        lambda node: node.outline("cloud", lane=0, held=True),
        "queue.outline",
        {"bridge": "cloud", "lane": "0", "held": "yes", "from": "0", "count": "500"},
    ),
    (lambda node: node.purge("cloud", in_flight=True), "queue.purge", {"bridge": "cloud", "in_flight": "yes"}),
    (
        lambda node: node.purge("cloud", dead=True, reason="x", start=4),
        "queue.purge",
        {"bridge": "cloud", "dead": "yes", "reason": "x", "from": "4"},
    ),
    (
        lambda node: node.replay("cloud", reason="x", start=4, count=1),
        "queue.replay",
        {"bridge": "cloud", "reason": "x", "from": "4", "count": "1"},
    ),
    (
        lambda node: node.resend("cloud", "r", lane=1, into="b", start=4, below=9, since_ms=5, until_ms=6, count=1),
        "queue.resend",
        {"bridge": "cloud", "run": "r", "lane": "1", "into": "b", "from": "4", "below": "9"}
        | {"since_ms": "5", "until_ms": "6", "count": "1"},
    ),
    (
        lambda node: node.import_messages("cloud", "r", ["a", "b"], start=4, below=9),
        "queue.import",
        {"bridge": "cloud", "run": "r", "from": "4", "below": "9", "messages": "a\nb"},
    ),
    (
        lambda node: node.sessions(after="a", like="b*", user="c", connected=False),
        "session.list",
        {"after": "a", "like": "b*", "user": "c", "connected": "no"},
    ),
    (lambda node: node.session("pump"), "session.show", {"client_id": "pump"}),
    (lambda node: node.will("pump"), "session.will", {"client_id": "pump"}),
    (lambda node: node.end_session("pump", drops_will=True), "session.end", {"client_id": "pump", "drops_will": "yes"}),
    (lambda node: node.disconnect("pump"), "session.disconnect", {"client_id": "pump"}),
    (lambda node: node.snapshot(), "snapshot", {}),
    (lambda node: node.snapshot_result(3), "snapshot.result", {"number": "3"}),
    (lambda node: node.trace("a/#", timeout_s=5), "trace", {"topic": "a/#", "timeout_s": "5"}),
    (lambda node: node.trace_result(3), "trace.result", {"number": "3"}),
    (lambda node: node.history(since="1h", bridge="cloud"), "history", {"since": "1h", "bridge": "cloud"}),
    (lambda node: node.topics(7), "topics", {"count": "7"}),
    (lambda node: node.promote(), "cluster.promote", {}),
    (lambda node: node.step_down(), "cluster.step_down", {}),
    (lambda node: node.step_down("b"), "cluster.step_down", {"to": "b"}),
    (lambda node: node.remove_member("c"), "cluster.remove", {"member": "c"}),
]


@pytest.mark.parametrize(("ask", "command", "arguments"), CALLS, ids=[command for _, command, _ in CALLS])
def test_each_method_sends_its_command(
    ask: Callable[[ControlClient], Any], command: str, arguments: dict[str, str], end: AnsweringEnd, node: ControlClient
) -> None:
    asked: list[Request] = []

    def answer(request: Request) -> dict[str, Any]:
        asked.append(request)
        return {"number": 3}

    end.answers = answer
    ask(node)
    assert [(request.command, request.arguments) for request in asked] == [(command, arguments)]


def test_each_command_has_a_method_and_a_role() -> None:
    assert {command for _, command, _ in CALLS} == set(COMMANDS)
    assert set(NEEDED) == set(COMMANDS)


def test_a_role_may_what_the_one_before_it_may() -> None:
    for command in COMMANDS:
        allowed = [may(role, command) for role in ROLES]
        assert allowed == sorted(allowed), command
        assert allowed[-1], command
        assert not may("", command)
    assert may("view", "status")
    assert not may("view", "queue.peek")
    assert not may("operate", "queue.purge")


def test_a_connection_is_used_again_and_each_thread_has_its_own(end: AnsweringEnd, node: ControlClient) -> None:
    for _ in range(5):
        node.ping()
    assert len(end.askers) == 1

    together = threading.Barrier(3)  # of two threads and this one: both requests are under way at a time

    def ask() -> None:
        together.wait(PATIENCE_S)
        assert node.pause("cloud").bridge == "cloud"

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    together.wait(PATIENCE_S)
    for thread in threads:
        thread.join(PATIENCE_S)
    assert len(end.askers) <= 3


def test_pages_are_joined(end: AnsweringEnd, node: ControlClient) -> None:
    def answer(request: Request) -> dict[str, Any]:
        if request.command == "events":
            start = int(request.arguments["from"])
            return {"events": [{"number": number} for number in range(start, min(start + 2, 5))], "next": start + 2, "until": 5}
        if request.command == "session.show":
            later = "from" in request.arguments
            return {"filters": [{"filter": "b" if later else "a"}], "next": None if later else 1}
        after = request.arguments.get("after")
        return {"sessions": [{"client_id": f"after {after}"}], "next": None if after else "m"}

    end.answers = answer
    assert [event.number for event in node.all_events(1)] == [1, 2, 3, 4]
    assert [each.filter for each in node.session("pump").filters] == ["a", "b"]
    assert [row.client_id for row in node.each_session()] == ["after None", "after m"]


def test_a_refusal_is_raised_and_the_connection_goes_on(end: AnsweringEnd, node: ControlClient) -> None:
    def refuse(request: Request) -> dict[str, Any]:
        raise ControlError("unknown_bridge", "there is none", request.request_id)

    end.answers = refuse
    for _ in range(2):
        with pytest.raises(ControlError) as refused:
            node.pause("nowhere")
        assert (refused.value.kind, refused.value.message) == ("unknown_bridge", "there is none")
    assert len(end.askers) == 1


def test_who_does_not_answer_in_time_is_asked_by_another_connection_next(end: AnsweringEnd, node: ControlClient) -> None:
    end.answers = lambda request: None
    with pytest.raises(NotRunning, match=r"did not answer within 0\.1 s"):
        node.call("ping", timeout_s=0.1)
    end.answers = lambda request: {"pid": 2}
    assert node.ping().pid == 2
    assert len(end.askers) == 2


def test_a_node_that_ends_meanwhile_is_noticed_at_once(end: AnsweringEnd, node: ControlClient) -> None:
    asked = threading.Event()

    def answer(request: Request) -> None:
        asked.set()

    end.answers = answer
    failures: list[Exception] = []

    def ask() -> None:
        try:
            node.call("ping", timeout_s=PATIENCE_S * 10)
        except NotRunning as error:
            failures.append(error)

    asker = threading.Thread(target=ask)
    asker.start()
    assert asked.wait(PATIENCE_S)
    end.close()
    asker.join(PATIENCE_S)
    assert "may have been carried out or not" in str(failures[0])


def test_a_node_that_was_started_again_is_asked_anew(end: AnsweringEnd, node: ControlClient, tmp_path: Path) -> None:
    node.ping()
    end.close()
    second = AnsweringEnd(tmp_path)

    def is_answered() -> bool:
        try:
            return bool(node.ping().node == "ping")
        except NotRunning:  # it was asked before the client had noticed the end
            return False

    try:
        wait_until(is_answered, PATIENCE_S, "an answer of the second")
        assert len(second.askers) == 1
    finally:
        second.close()


def test_nobody_to_answer_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(NotRunning, match="has no control socket"):
        call(tmp_path, "ping")
    (tmp_path / SOCKET_NAME).touch()
    with pytest.raises(NotRunning, match="cannot be reached"):
        call(tmp_path, "ping", timeout_s=PATIENCE_S * 10)


def test_each_method_says_what_it_does() -> None:
    methods = [method for name, method in inspect.getmembers(ControlClient, inspect.isfunction) if not name.startswith("_")]
    assert len(methods) > len(COMMANDS)
    assert [method.__name__ for method in methods if not method.__doc__] == []


def test_what_is_no_text_is_refused_before_it_is_sent(node: ControlClient) -> None:
    with pytest.raises(ControlError) as refused:
        node.disconnect("\udcff")
    assert refused.value.kind == "bad_arguments"
