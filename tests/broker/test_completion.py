"""A shell completes the names that a running node knows, in real bash too; without a node it offers none, and says nothing."""

from __future__ import annotations

import os
import shlex
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from supervisor.cli import completion
from supervisor.cli.main import cli, main
from tests.conftest import StartNode
from tests.support.mqtt_client import MqttClient
from tests.support.node import Node, bridge_config, node_config
from tests.support.ports import free_port
from tests.support.waiting import PATIENCE_S, wait_until

HOSTILE = ("$(touch here)", "a b", "`id`", "x;y", "a*", "quo'te", "line\u2028end")
KEPT = ("pump-7", "pump-8", "press:1")


def offered(*words: str) -> list[str]:
    """The names that are offered for the last of ``words``; files are left out."""
    *before, incomplete = words
    found = ShellComplete(cli, {}, "bascule", "_BASCULE_COMPLETE").get_completions(before, incomplete)
    return [item.value for item in found if item.type == "plain"]


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who types waits for the answer of a node as long as a loaded machine takes for it."""
    monkeypatch.setattr(completion, "ANSWER_S", PATIENCE_S)


@pytest.fixture
def node(start_node: StartNode) -> Node:
    config = node_config(bridge_config("cloud", free_port()), bridge_config("cold-store", free_port()))
    node = start_node(config)
    for name in (*KEPT, *HOSTILE):
        with MqttClient(node.port, name, version=5, clean=False, session_expiry_s=600):
            pass
    return node


def in_bash(node: Node, *words: str, cwd: Path) -> list[str]:
    """What bash has to offer, by the script that it is given, for the last of ``words`` behind ``bascule``."""
    program = cwd / "bascule"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -P -m supervisor.cli "$@"\n')
    program.chmod(0o755)
    line = " ".join(map(shlex.quote, ["bascule", *words]))
    script = f"""
    eval "$(_BASCULE_COMPLETE=bash_source bascule)"
    COMP_WORDS=({line}); COMP_CWORD={len(words)}
    _bascule_completion bascule bascule bascule 2>/dev/null
    printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    root = Path(__file__).resolve().parents[2]
    environment = {
        **os.environ,
        "PATH": f"{cwd}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(root),
        "BASCULE_CONFIG": str(node.config_path),
    }
    done = subprocess.run(
        ["bash", "-c", script], cwd=cwd, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    return done.stdout.split()


def test_names_are_those_that_the_node_knows(node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = str(node.config_path)
    assert offered("bridge", "pause", config, "") == ["cloud", "cold-store"]
    assert offered("-c", config, "queue", "peek", "col") == ["cold-store"]
    assert offered("queue", "peek", config, "cloud", "--lane", "") == ["0"]
    assert offered("queue", "resend", config, "cloud", "--into", "cl") == ["cloud"]
    assert offered("session", "show", config, "p") == ["press:1", "pump-7", "pump-8"]
    assert offered("session", "show", config, "") == sorted(KEPT), "what strangers chose is not typed for anybody"
    monkeypatch.setenv("BASCULE_CONFIG", config)
    assert offered("session", "end", "pump-8") == ["pump-8"]
    assert offered("bridge", "show", "") == ["cloud", "cold-store"]
    assert main(["snapshot", "make"]) == 0
    (made,) = offered("snapshot", "copy", "")
    assert (node.data_dir / "snapshots" / made).is_dir()

    def wait_offered(*words: str, names: list[str]) -> None:
        """Press the key again where the node does not answer in the second that it has."""
        wait_until(lambda: in_bash(node, *words, cwd=tmp_path) == names, PATIENCE_S, f"bash offers {names}")

    wait_offered("bridge", "pause", "c", names=["cloud", "cold-store"])
    wait_offered("session", "show", "p", names=["pump-7", "pump-8"])  # a colon breaks words in bash
    wait_offered("bri", names=["bridge"])
    node.stop()
    assert in_bash(node, "bridge", "pause", "c", cwd=tmp_path) == []
    assert not (tmp_path / "here").exists()


def test_a_node_that_does_not_run_knows_no_names(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    there = tmp_path / "node.yaml"
    there.write_text(f"node: {{name: edge, data_dir: {tmp_path}/data}}\n")
    for config in (str(there), str(tmp_path / "nowhere.yaml")):
        assert offered("bridge", "pause", config, "") == []
        assert offered("session", "show", config, "") == []
        assert offered("snapshot", "copy", config, "") == []
        assert offered("key", "remove", config, "") == []
    assert capfd.readouterr() == ("", "")


def test_a_node_that_does_not_answer_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody listens at its address and says nothing: the question ends by its own limit."""
    monkeypatch.setattr(completion, "ANSWER_S", 0.05)
    key = tmp_path / "me"
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        assert main(["key", "make", str(key), "--node", address]) == 0
        public = (tmp_path / "me.pub").read_text()
        (tmp_path / "server.pub").write_text(public)
        monkeypatch.setenv("BASCULE_NODE", address)
        monkeypatch.setenv("BASCULE_KEY", str(key))
        monkeypatch.setenv("BASCULE_SERVER_KEY", str(tmp_path / "server.pub"))
        assert offered("bridge", "pause", "") == []


def test_names_of_files_are_offered_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = tmp_path / "tokens"
    assert main(["token", "add", str(tokens), "panel"]) == 0
    assert offered("token", "remove", str(tokens), "") == ["panel"]
    assert offered("token", "remove", str(tmp_path / "none"), "") == []
    assert offered("user", "remove", str(tmp_path / "none"), "") == []
    assert "link.down" in offered("events", "--kind", "link")
    assert "aws-iot" in offered("init", "--for", "")
    assert "default" in offered("init", "--example", "")
