"""On terminals of 80 and of 60 columns the rows that a command prints fit, and nothing of them is cut off."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from click import Group

from supervisor.cli.main import cli, main
from tests.conftest import StartNode
from tests.support.mqtt_client import MqttClient
from tests.support.mqtt_packets import PUBACK
from tests.support.node import Node, bridge_config, node_config
from tests.support.ports import free_port
from tests.support.waiting import PATIENCE_S

CLIENT = "a-client-with-a-long-name-of-44-characters-0"
TOPIC = "plant/1/temperature/of/the/third/oven/in/the/hall"
ROWS = {  # each command that prints rows, with what must be there whole
    "status": ("cloud:0", "clients"),
    "status -o wide": ("cloud:0", "dead lettered", "ledger"),
    "bridge list": ("cloud:0", "backoff", "127.0.0.1:"),
    "bridge show cloud": ("accepted", "ledger_closes"),
    "queue list": ("bridge:cloud:0", "open"),
    "queue peek cloud": ("bridge:cloud:0", TOPIC, "retain no", "degrees"),
    "session list": (CLIENT, "subs"),
    "session show " + CLIENT: (CLIENT, "plant/#"),
    "events": ("node.started", "supervisor"),
    "topics --seconds 1": (),
    "trace nothing/# --timeout 1": (),
    "snapshot list": ("messages",),
    "check --explain " + TOPIC: (TOPIC, "limits"),
    "key list": ("laptop", "operate"),
    "reload --plan": ("nothing",),
}
# Those of one sentence, of JSON or of a file of another program, which a terminal breaks where it must, and those of files alone.
NO_ROWS = {
    *("init", "convert", "check", "demo", "run", "stop", "reload", "doctor", "metrics", "backup", "restore", "notify test"),
    *("report", "export", "user add", "user remove", "user list", "token add", "token remove", "token list", "key make", "key add"),
    *("key remove", "key show", "snapshot make", "snapshot copy", "snapshot verify", "bridge add", "bridge remove", "bridge pause"),
    *("bridge resume", "bridge restart", "queue export", "queue import", "queue purge", "queue replay", "queue resend"),
    *("session end", "session disconnect", "cluster promote", "cluster step-down", "cluster remove", "cluster show"),
}


def on_terminal(width: int, *words: str, cwd: Path) -> str:
    """What ``bascule`` prints on a terminal that is so wide, without its colours."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    environment = {name: text for name, text in os.environ.items() if name not in ("COLUMNS", "LINES")}
    environment |= {"TERM": "xterm", "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    command = [sys.executable, "-P", "-m", "supervisor.cli", *words]
    with subprocess.Popen(command, cwd=cwd, env=environment, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        said = b""
        while True:
            try:
                piece = os.read(ours, 65_536)
            except OSError:
                break  # it has ended
            said += piece
        process.wait(PATIENCE_S)
    os.close(ours)
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", said.decode()).replace("\r\n", "\n")


@pytest.fixture
def node(start_node: StartNode, tmp_path: Path) -> Node:
    keys = tmp_path / "keys"
    waits = {"initial": "1h", "max": "1h"}  # it is not seen in an attempt
    node = start_node(
        node_config(
            bridge_config("cloud", free_port(), backoff=waits), control={"bind": "tcp://127.0.0.1:0", "allowed_keys": str(keys)}
        )
    )
    config = str(node.config_path)
    with MqttClient(node.port, CLIENT, version=5, clean=False, session_expiry_s=600) as client:
        client.subscribe("plant/#", qos=1)
    with MqttClient(node.port, version=5) as client:
        client.publish(TOPIC, '{"value": 21.5, "unit": "degrees"}', qos=1, packet_id=1)
        client.expect(PUBACK, packet_id=1)
    node.wait_lane("cloud", depth=1, state="backoff")
    assert main(["snapshot", "make", config]) == 0
    assert main(["key", "make", str(tmp_path / "me")]) == 0
    assert main(["key", "add", config, "laptop", str(tmp_path / "me.pub"), "--role", "operate"]) == 0
    return node


def test_rows_fit_80_and_60_columns_and_are_whole(node: Node, tmp_path: Path) -> None:
    config = str(node.config_path)
    for width in (80, 60):
        for words, wanted in ROWS.items():
            said = on_terminal(width, "-c", config, *words.split(), cwd=tmp_path)
            too_long = [line for line in said.splitlines() if len(line) > width and " " in line.strip()]
            assert too_long == [], (width, words)
            assert [text for text in wanted if text not in said] == [], (width, words, said)


def test_each_command_either_prints_rows_or_is_known_not_to() -> None:
    known = {words.split(" -")[0] for words in ROWS} | NO_ROWS
    names = []
    for name, command in cli.commands.items():
        names += [f"{name} {verb}" for verb in command.commands] if isinstance(command, Group) else [name]
    of_rows = {name for name in names if any(words == name or words.startswith(f"{name} ") for words in ROWS)}
    assert set(names) - of_rows - known == set()
    assert NO_ROWS - set(names) == set(), "a command that is no more goes"
