"""A node that is asked over the network: who is let in and what for; and hostile use of all its control sockets."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import msgpack
import pytest

from actors.process.mailbox import Mailbox
from actors.process.request_sockets import CurveKeys, NoAnswer, RequestConnections, Why, ipc_endpoint, new_key_pair
from supervisor.control.client import ControlClient
from supervisor.control.control_socket import (
    COMMANDS,
    PAYLOAD_MAX_BYTES,
    SOCKET_NAME,
    ControlError,
    NotRunning,
    Request,
    encode_request,
    encode_result,
)
from supervisor.control.key_files import KeyFile, write_key
from supervisor.tree.control_endpoints import REMOTE, WAITING_MAX, ControlEndpoints
from tests.supervisor.conftest import TestNode
from tests.supervisor.settings import node_settings
from tests.support.ports import free_port
from tests.support.settings import bridge
from tests.support.waiting import PATIENCE_S, wait_until
from wire.config_settings import ControlSettings

pytestmark = pytest.mark.process

CONNECTIONS_MAX = 8
REQUESTS = 1000
KEYS = {role: new_key_pair() for role in ("view", "operate", "admin")}


class Door:
    """The node of this module and its address."""

    def __init__(self, node: TestNode, keys: Path) -> None:
        self.node = node
        self.keys = keys
        self.address = self.figures()["endpoint"]
        self.server = self.figures()["public_key"]
        self.pids = node.pids()

    def figures(self) -> dict[str, Any]:
        figures: dict[str, Any] = self.node.status()["control"]
        return figures

    def refused(self, reason: str) -> int:
        count: int = self.figures()["refused"][reason]
        return count

    def client(self, pair: tuple[str, str], *, server: str = "") -> ControlClient:
        public, secret = pair
        return ControlClient.remote(self.address, public=public, secret=secret, server=server or self.server, timeout_s=PATIENCE_S)

    def raw(self, pair: tuple[str, str] | None) -> RequestConnections:
        """Connections that send what a client never would; without a pair of keys, in clear."""
        keys = None if pair is None else CurveKeys(public=pair[0], secret=pair[1], server=self.server)
        return RequestConnections(self.address, keys)

    def let_in(self, name: str, public: str, role: str) -> None:
        write_key(self.keys / f"{name}.key", KeyFile(public=public, role=role), "Of a test.")

    def is_unmoved(self) -> bool:
        return self.node.pids() == self.pids and self.node.status()["ready"]

    def port(self) -> tuple[str, int]:
        host, _, port = self.address.removeprefix("tcp://").rpartition(":")
        return host, int(port)


def until_closed(stranger: socket.socket) -> None:
    """Read what the node says, its greeting, until it closes the connection."""
    with suppress(ConnectionResetError):
        while stranger.recv(4096):
            pass


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    folder = tmp_path_factory.mktemp("control")
    keys = folder / "keys"
    keys.mkdir()
    control = ControlSettings(
        bind="tcp://127.0.0.1:0", allowed_keys=str(keys), connections_max=CONNECTIONS_MAX, handshake_timeout_s=0.5
    )
    settings = replace(node_settings(folder, bridge("cloud")), control=control)
    with ExitStack() as stack:
        node = stack.enter_context(TestNode(folder, settings)).wait_ready()
        door = Door(node, keys)
        for role, (public, _) in KEYS.items():
            door.let_in(role, public, role)
        wait_until(lambda: door.figures()["keys"] == len(KEYS), PATIENCE_S, "the keys to be read")
        yield door


def test_a_node_is_asked_and_commanded_from_elsewhere(door: Door) -> None:
    with door.client(KEYS["admin"]) as node:
        assert node.ping().ready is True
        assert node.status().node == door.node.status()["node"]
        assert node.pause("cloud").bridge == "cloud"
        assert node.status().bridges[0].paused_since_ms is not None
        node.resume("cloud")
        with pytest.raises(ControlError) as refused:
            node.pause("nowhere")
        assert refused.value.kind == "unknown_bridge"


def test_a_role_may_only_what_it_may(door: Door) -> None:
    before = door.refused("role")
    with door.client(KEYS["view"]) as viewer, door.client(KEYS["operate"]) as operator:
        assert viewer.status().ready
        assert operator.pause("cloud")
        operator.resume("cloud")
        for order in (viewer.stop, lambda: viewer.pause("cloud"), operator.stop, lambda: operator.purge("cloud")):
            with pytest.raises(ControlError) as refused:
                order()
            assert refused.value.kind == "forbidden"
    assert door.refused("role") == before + 4
    assert door.is_unmoved()


def test_a_key_that_is_taken_off_the_list_is_refused_though_it_is_connected(door: Door) -> None:
    pair = new_key_pair()
    door.let_in("guest", pair[0], "view")
    wait_until(lambda: door.figures()["keys"] == len(KEYS) + 1, PATIENCE_S, "the key to be read")
    with door.client(pair) as guest:
        assert guest.ping().ready
        (door.keys / "guest.key").unlink()

        wait_until(lambda: door.figures()["keys"] == len(KEYS), PATIENCE_S, "the folder to be read again")
        with pytest.raises(ControlError, match="not on the list any more") as refused:
            guest.ping()
        assert refused.value.kind == "forbidden"
    before = door.refused("key")
    with door.client(pair) as guest, pytest.raises(ControlError, match="bascule key add"):
        guest.ping()
    assert door.refused("key") > before


def test_an_unknown_key_is_refused_and_counted(door: Door) -> None:
    before = door.refused("key")
    for _ in range(20):
        with door.client(new_key_pair()) as stranger, pytest.raises(ControlError) as refused:
            stranger.status()
        assert refused.value.kind == "forbidden"
    wait_until(lambda: door.refused("key") >= before + 20, PATIENCE_S, "20 to be counted")
    assert door.is_unmoved()


def test_another_server_key_plain_peers_nonsense_and_silence_are_refused_and_counted(door: Door) -> None:
    before = door.refused("handshake")
    with door.client(KEYS["admin"], server=new_key_pair()[0]) as node, pytest.raises(NotRunning, match="another server key"):
        node.ping()
    plain = door.raw(None)
    with pytest.raises(NoAnswer) as no_answer:
        plain.ask(encode_request(1, "stop", {}), PATIENCE_S)
    assert no_answer.value.why is Why.NO_HANDSHAKE
    plain.close()
    chance = random.Random(7)
    for said in (
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        bytes(100),
        b"\xff" + bytes(8) + b"\x7f" + chance.randbytes(200),
        b"\x01\x00",
    ):
        with socket.create_connection(door.port(), timeout=PATIENCE_S) as stranger:
            stranger.sendall(said)
            until_closed(stranger)
    wait_until(lambda: door.refused("handshake") >= before + 6, PATIENCE_S, "6 to be counted")
    assert door.is_unmoved()


def test_more_connections_than_there_may_be_are_closed_and_those_that_stand_stay(door: Door) -> None:
    wait_until(lambda: door.figures()["connections"] == 0, PATIENCE_S, "others to have gone")
    before = door.refused("too_many")
    with door.client(KEYS["admin"]) as node, ExitStack() as stack:
        node.ping()
        crowd = [stack.enter_context(socket.create_connection(door.port(), timeout=PATIENCE_S)) for _ in range(3 * CONNECTIONS_MAX)]
        for one in crowd:  # closed at once, or when its time to show a key is up
            until_closed(one)
        wait_until(lambda: door.refused("too_many") >= before + 2 * CONNECTIONS_MAX, PATIENCE_S, "those too many to be counted")
        assert node.ping().ready
    assert door.is_unmoved()


def malformed(count: int) -> Iterator[bytes]:
    """Requests that are none: bytes by chance, other shapes, broken ones, too large ones."""
    chance = random.Random(20)
    good = [encode_request(1, command, dict.fromkeys(arguments, "x")) for command, arguments in COMMANDS.items()]
    shapes: list[Any] = [None, 7, "status", [1], {}, {"v": 1}, {"v": 1, "cmd": "status", "args": 3}, {"v": 9, "cmd": "status"}]
    shapes += [
        {"v": 1, "id": 1, "cmd": "explode"},
        {"v": 1, "id": [], "cmd": "ping"},
        {"v": 1, "cmd": "queue.purge", "args": {"bridge": 1}},
    ]
    for number in range(count):
        match number % 4:
            case 0:
                yield chance.randbytes(chance.randrange(200))
            case 1:
                yield chance.choice(good)[: -chance.randrange(1, 9)]
            case 2:
                yield msgpack.packb(chance.choice(shapes))
            case _:
                yield b"\x81" * 3000 if number % 40 else bytes(PAYLOAD_MAX_BYTES + 1)


@pytest.mark.parametrize("way", ["file", "tcp"])
def test_1000_malformed_requests_are_refused_and_counted_and_move_nothing(door: Door, way: str) -> None:
    before = door.refused("malformed")
    raw = door.raw(KEYS["admin"]) if way == "tcp" else RequestConnections(ipc_endpoint(door.node.run_dir / SOCKET_NAME))
    for payload in malformed(REQUESTS):
        answer = msgpack.unpackb(raw.ask(payload, PATIENCE_S))
        assert answer["ok"] is False, payload
        assert answer["error"]["kind"] in ("bad_request", "bad_version", "unknown_command", "bad_arguments")
    raw.close()
    assert door.refused("malformed") == before + REQUESTS
    assert door.is_unmoved()
    assert not door.node.named("node.failed")


class Answers:
    """Stands for the network's socket: which requests came by which key, and which were answered how."""

    def __init__(self) -> None:
        self.given: list[tuple[int, str]] = []

    def answer(self, whom: list[bytes], payload: bytes) -> None:
        answer = msgpack.unpackb(payload)
        self.given.append((answer["id"], "ok" if answer["ok"] else answer["error"]["kind"]))
        assert whom == [b"route"]


def test_one_key_has_one_question_under_way_and_the_others_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """tree.one-question-each: what waits is carried out in order, what is too much is refused, and orders do not wait."""
    doors, answers = ControlEndpoints(cast(Mailbox, None), node_settings(tmp_path, bridge("cloud"))), Answers()
    monkeypatch.setattr(doors, "_tcp", answers)

    def come(*requests: tuple[str, int, str]) -> list[tuple[list[bytes], Request]]:
        came = [
            ([b"tcp", key.encode(), b"route"], encode_request(number, command, {}), "view") for key, number, command in requests
        ]
        monkeypatch.setattr(doors, "_tcp_requests", lambda: came)
        return doors.requests(REMOTE)

    greedy = [("greedy", number, "queue.list") for number in range(WAITING_MAX + 3)]
    (first,) = come(*greedy)
    assert first[1].request_id == 0
    assert answers.given == [(WAITING_MAX + 1, "busy"), (WAITING_MAX + 2, "busy")]
    others = come(("honest", 100, "queue.list"), ("greedy", 101, "ping"), ("other", 102, "status"))
    assert [request.request_id for _, request in others] == [100, 101, 102]
    answers.given.clear()
    for whom, request in others:
        doors.answer(whom, encode_result(request.request_id, {}))
    assert doors.waited() == []

    due = [first]
    for number in range(WAITING_MAX + 1):
        ((whom, request),) = due
        assert request.request_id == number
        doors.answer(whom, encode_result(number, {}))
        due = doors.waited()
    assert due == []
    assert answers.given == [(number, "ok") for number in (100, 101, 102, *range(WAITING_MAX + 1))]
    assert len(come(("greedy", 200, "status"))) == 1, "and nothing is left of it"


def test_many_questions_at_once_by_one_key_are_all_answered(door: Door) -> None:
    raw = door.raw(KEYS["view"])
    one = raw._connection()
    for number in range(WAITING_MAX):
        one._socket.send(encode_request(number, "status", {}))
    assert one._socket.poll(round(PATIENCE_S * 1000))
    assert [msgpack.unpackb(one._socket.recv())["id"] for _ in range(WAITING_MAX)] == list(range(WAITING_MAX))
    one.close()
    raw.close()


def test_of_a_request_that_is_far_too_large_the_connection_is_closed(door: Door) -> None:
    raw = door.raw(KEYS["admin"])
    with pytest.raises(NoAnswer) as no_answer:
        raw.ask(bytes(2 << 20), PATIENCE_S)
    assert no_answer.value.why is Why.ENDED
    raw.close()
    assert door.is_unmoved()


def test_an_address_that_is_taken_is_named_and_bound_once_it_is_free(tmp_path: Path) -> None:
    port = free_port()
    with socket.create_server(("127.0.0.1", port)) as taken:
        control = ControlSettings(bind=f"tcp://127.0.0.1:{port}", allowed_keys=str(tmp_path / "keys"))
        settings = replace(node_settings(tmp_path, bridge("cloud")), control=control)
        with TestNode(tmp_path, settings).wait_ready() as node:
            figures = node.status()["control"]
            assert figures["error"] == f"tcp://127.0.0.1:{port}: Address already in use"
            assert figures["endpoint"] == ""
            taken.close()
            wait_until(lambda: node.status()["control"]["endpoint"], PATIENCE_S, "the address to be bound")
            assert node.status()["control"]["error"] == ""
