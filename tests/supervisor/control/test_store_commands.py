"""Queue commands on their way to the store: their arguments and frames; and messages as text."""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest

from supervisor.cli.main import main
from supervisor.control.control_socket import COMMANDS, OPTIONAL, ControlError, Request, encode_request, parse_request
from supervisor.control.store_commands import is_queue_command, to_frame
from supervisor.terminal.message_text import message_json, message_of, printable, shown
from tests.supervisor.cli.test_main import bascule
from tests.supervisor.conftest import StartSupervisor
from tests.support.client_double import have_answered
from wire.frames.names import SUPERVISOR
from wire.frames.supervision import SessionCommand
from wire.mqtt.properties import Properties, encode_properties
from wire.status.answers import HeldMessage


def request(command: str = "queue.list", **arguments: str) -> Request:
    return Request(request_id="r", command=command, arguments=arguments)


def test_arguments_become_what_the_store_takes() -> None:
    asked = request("queue.peek", bridge="b", lane="2", count="7", **{"from": "9"})
    assert to_frame(asked, 1).arguments == {"bridge": "b", "lane": 2, "count": 7, "from": 9, "payload_bytes": 200}
    assert to_frame(request("queue.export", bridge="b", dead="yes"), 2).arguments == {"bridge": "b", "dead": True}
    assert to_frame(request("queue.purge", bridge="b", in_flight="no"), 3).arguments == {"bridge": "b", "in_flight": False}


@pytest.mark.parametrize(
    ("command", "arguments", "named"),
    [
        ("queue.peek", {"bridge": "b", "lane": "0", "from": str(1 << 63)}, "from"),
        ("queue.peek", {"bridge": "b"}, "lane"),
        ("queue.peek", {"bridge": "b", "lane": "0", "left": "yes", "dead": "yes"}, "dead, held and left one"),
        ("queue.export", {"bridge": "b", "lane": "0", "left": "yes", "held": "yes"}, "dead, held and left one"),
        ("queue.outline", {"bridge": "b", "dead": "yes", "held": "yes"}, "dead, held and left one"),
        ("queue.peek", {"bridge": "b", "lane": "0", "since_ms": "0"}, "go with left"),
        ("queue.export", {"bridge": "b", "dead": "yes", "until_ms": "5"}, "go with left"),
        ("queue.purge", {"bridge": "b", "dead": "true"}, "dead"),
        ("queue.purge", {"bridge": "b", "reason": "expired"}, "goes with dead"),
        ("queue.replay", {"bridge": "b", "count": "x"}, "count"),
    ],
)
def test_wrong_arguments_are_refused_by_name(command: str, arguments: dict[str, str], named: str) -> None:
    with pytest.raises(ControlError, match=named) as refused:
        to_frame(request(command, **arguments), 1)
    assert (refused.value.kind, refused.value.request_id) == ("bad_arguments", "r")


@pytest.mark.parametrize("command", OPTIONAL)
def test_optional_arguments_may_be_there_and_others_not(command: str) -> None:
    required = dict.fromkeys(COMMANDS[command], "b")
    everything = required | dict.fromkeys(OPTIONAL[command], "1")
    assert is_queue_command(command) is not (command in ("history", "trace", "topics", "reload", "bridge.put", "bridge.remove"))
    assert parse_request(encode_request(1, command, everything)).arguments == everything
    assert parse_request(encode_request(1, command, required)).arguments == required
    with pytest.raises(ControlError, match=f'knows no argument "colour" of {command}'):
        parse_request(encode_request(1, command, everything | {"colour": "red"}))


def test_each_command_becomes_a_frame_for_the_store_or_the_listener() -> None:
    listed, purged = to_frame(request(), 1), to_frame(request("queue.purge", bridge="b"), 2)
    assert (listed.verb, purged.verb, purged.arguments, purged.request) == ("list", "purge", {"bridge": "b"}, 2)
    asked = to_frame(request("session.end", client_id="c", drops_will="yes"), 3)
    assert asked == SessionCommand(request=3, verb="end", arguments={"client_id": "c", "drops_will": True}, asker=SUPERVISOR)


@pytest.mark.process
def test_a_node_whose_store_is_not_there_says_so(start: StartSupervisor, tmp_path: Path) -> None:
    node = start("store", "--exit", "65")
    path = tmp_path / "bascule.yaml"
    remote = {"addresses": ["127.0.0.1:1"], "client_id": "x"}
    bridge = {"name": "cloud", "remote": remote, "local_subscriptions": [{"filters": ["#"]}]}
    listeners = [{"bind": "127.0.0.1:18831"}]
    whole = {"node": {"name": "test", "data_dir": "data"}, "listeners": listeners, "access": {"allow_anonymous": True}}
    path.write_text(json.dumps({**whole, "bridges": [bridge]}))
    node.wait_process("store", state="damaged")
    done = bascule("queue", "list", str(path))
    assert done.returncode == 1
    assert "the queue store is damaged; nothing was done" in done.stderr


LISTED = {"queues": [{"lane": 0, "depth": 7}, {"lane": 1, "depth": 2}], "dead_letters": [{"held": 3}]}


@pytest.mark.parametrize(("said", "purges"), [("y\n", True), ("n\n", False), ("\n", False)])
def test_a_purge_asks_first_where_somebody_can_answer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str], said: str, purges: bool
) -> None:
    called: list[tuple[str, dict[str, str]]] = []

    def call(command: str, arguments: dict[str, str]) -> object:
        called.append((command, arguments))
        return LISTED if command == "queue.list" else {"purged": 2, "kept": 0, "kept_in_flight": 0, "kept_lanes": []}

    stdin = StringIO(said)
    monkeypatch.setattr(stdin, "isatty", lambda: True)
    monkeypatch.setattr("sys.stdin", stdin)
    have_answered(monkeypatch, call)
    assert main(["queue", "purge", str(tmp_path / "x"), "cloud", "--lane", "1"]) == (0 if purges else 130)
    assert "Remove up to 2 messages of cloud for good?" in capsys.readouterr().out
    assert called[0] == ("queue.list", {"bridge": "cloud"})
    assert called[1:] == ([("queue.purge", {"bridge": "cloud", "lane": "1"})] if purges else [])


# --- text ---


@pytest.mark.parametrize(
    ("payload", "size", "text"),
    [
        (b"", 0, ""),
        (b"23.5", 4, "23.5"),
        ("21 °C".encode(), 6, "21 °C"),
        (b"a\nb", 3, "a\\nb"),
        (b"x" * 200, 1000, "x" * 60 + "..."),
        ("é".encode()[:1], 2, "..."),
        (b"\xff\x00", 2, "0xff00"),
        (bytes(200), 500, "0x" + "00" * 24 + "..."),
        (b"\x1b[31m", 5, "0x1b5b33316d"),
    ],
)
def test_a_payload_is_shown_on_one_line_and_never_speaks_to_the_terminal(payload: bytes, size: int, text: str) -> None:
    assert shown(payload, size) == text


def test_what_does_not_print_is_escaped() -> None:
    assert printable("a/\x1b[2J\u202eé") == "a/\\x1b[2J\\u202eé"


def test_a_message_is_whole_in_json() -> None:
    properties = Properties(content_type="text", correlation_data=b"\1\2", user_properties=(("a", "b"),))
    row = HeldMessage(
        seq=3,
        state="waiting",
        topic=b"t/\xc3\xa9",
        qos=1,
        retain=True,
        size=2,
        payload=b"ab",
        properties=encode_properties(properties),
        rule="r",
        accepted_ms=1000,
    )
    said = message_json(message_of("bridge:c:0", row, 3500, whole=True))
    assert said == json.loads(json.dumps(said)) | {"properties": said["properties"]}
    assert (said["topic"], said["age_s"], said["payload_base64"], said["payload_text"]) == ("t/é", 2.5, "YWI=", "ab")
    assert said["properties"] == {"content_type": "text", "correlation_data": "0102", "user_properties": (("a", "b"),)}
    dead = replace(row, state=None, reason="remote_0x87", at_ms=2000, queue="bridge:c:0", queue_seq=9, remote="x@y")
    said = message_json(message_of("dead:c", dead, 3500, whole=False))
    assert (said["queue"], said["from_queue"], said["dead_at"]) == ("dead:c", "bridge:c:0", "1970-01-01T00:00:02.000+00:00")
    damaged = message_of("dead:c", HeldMessage(seq=4, damaged=True), 0, whole=False)
    assert message_json(damaged) == {"queue": "dead:c", "seq": 4, "damaged": True}
