"""The control socket's language."""

from __future__ import annotations

import msgpack
import pytest

from supervisor.control.control_socket import (
    COMMANDS,
    PAYLOAD_MAX_BYTES,
    ControlError,
    encode_error,
    encode_request,
    encode_result,
    parse_answer,
    parse_request,
)
from supervisor.version import VERSION


@pytest.mark.parametrize("command", COMMANDS)
def test_a_request_comes_through(command: str) -> None:
    arguments = dict.fromkeys(COMMANDS[command], "cloud")
    request = parse_request(encode_request("id-7", command, arguments))
    assert (request.request_id, request.command, request.arguments) == ("id-7", command, arguments)


def test_arguments_may_be_left_out_where_there_are_none() -> None:
    assert parse_request(msgpack.packb({"v": 1, "id": 1, "cmd": "ping"})).arguments == {}


@pytest.mark.parametrize(
    ("payload", "kind"),
    [
        (b"", "bad_request"),
        (b"\xc1", "bad_request"),
        (b"\x01", "bad_request"),
        (msgpack.packb([1, 2]), "bad_request"),
        (msgpack.packb({"v": 1, "id": [1], "cmd": "ping"}), "bad_request"),
        (msgpack.packb({"v": 1, "id": 1, "cmd": "ping"}) + b"\x00", "bad_request"),
        (msgpack.packb({"v": 1, "id": 1, "cmd": "ping", "args": {"x": "y" * PAYLOAD_MAX_BYTES}}), "bad_request"),
        (msgpack.packb({"v": 2, "id": 1, "cmd": "ping"}), "bad_version"),
        (msgpack.packb({"id": 1, "cmd": "ping"}), "bad_version"),
        (msgpack.packb({"v": 1, "id": 1, "cmd": "PING"}), "unknown_command"),
        (msgpack.packb({"v": 1, "id": 1, "cmd": ["ping"]}), "unknown_command"),
        (msgpack.packb({"v": 1, "id": 1}), "unknown_command"),
        (msgpack.packb({"v": 1, "id": 1, "cmd": "bridge.pause"}), "bad_arguments"),
        (msgpack.packb({"v": 1, "id": 1, "cmd": "bridge.pause", "args": {"bridge": 5}}), "bad_arguments"),
        (msgpack.packb({"v": 1, "id": 1, "cmd": "bridge.pause", "args": {"bridge": "a", "lane": "0"}}), "bad_arguments"),
        (msgpack.packb({"v": 1, "id": 1, "cmd": "ping", "args": ["x"]}), "bad_arguments"),
        (msgpack.packb({"v": 1, "id": 1, "cmd": "session.list", "args": {"like": "a" * 257}}), "bad_arguments"),
        (msgpack.packb({"v": 1, "id": 1, "cmd": "session.list", "args": {"count": "1" * 257}}), "bad_arguments"),
        (msgpack.packb({"v": 1, "id": 1, "cmd": "session.list", "args": {"user": "u" * 65_536}}), "bad_arguments"),
        (msgpack.packb({"v": 1, "id": 1, "cmd": "bridge.pause", "args": {"bridge": "\u20ac" * 86}}), "bad_arguments"),
    ],
)
def test_a_bad_request_is_refused_by_kind(payload: bytes, kind: str) -> None:
    with pytest.raises(ControlError) as refused:
        parse_request(payload)
    assert refused.value.kind == kind


@pytest.mark.parametrize(
    ("command", "arguments", "said"),
    [
        ("queue.shuffle", {}, 'knows no command "queue.shuffle"'),
        ("queue.peek", {"bridge": "cloud", "left": "yes", "tilted": "yes"}, 'knows no argument "tilted" of queue.peek'),
        ("queue.resend", {"bridge": "cloud"}, 'wants the argument "run" of queue.resend'),
    ],
)
def test_a_command_of_another_version_is_told_which_the_node_has_and_what_to_do(
    command: str, arguments: dict[str, str], said: str
) -> None:
    with pytest.raises(ControlError) as refused:
        parse_request(encode_request(1, command, arguments))

    assert str(refused.value).startswith(f"the node runs version {VERSION}, which {said}; update the older of the two")


def test_an_answer_comes_through() -> None:
    assert parse_answer(encode_result(5, {"ready": True})) == {"ready": True}
    assert msgpack.unpackb(encode_result(5, {}))["id"] == 5


def test_a_refusal_comes_through() -> None:
    with pytest.raises(ControlError) as refused:
        parse_answer(encode_error(ControlError("unknown_bridge", "there is none", 5)))
    assert (refused.value.kind, refused.value.message) == ("unknown_bridge", "there is none")


def test_an_answer_of_another_version_is_refused() -> None:
    with pytest.raises(ControlError):
        parse_answer(msgpack.packb({"v": 2, "id": 1, "ok": True, "result": {}}))
