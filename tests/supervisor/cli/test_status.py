"""``bascule status`` before it asks anybody: which words it takes, and what a monitor is told of those it does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisor.cli import node_calls
from supervisor.cli.main import main
from supervisor.control.client import ControlClient
from supervisor.control.control_socket import ControlError
from wire.errors import Unavailable

CONFIG = """\
node: {name: edge, data_dir: data}
listeners: [{bind: "127.0.0.1:1883"}]
access: {allow_anonymous: true}
"""


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    for variable in (node_calls.CONFIG_VARIABLE, node_calls.NODE_VARIABLE, node_calls.KEY_VARIABLE):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(node_calls, "SYSTEM_CONFIG", tmp_path / "none")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "edge.yaml").write_text(CONFIG)
    return "edge.yaml"


def test_a_node_that_does_not_run_is_critical(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", config, "--check"]) == 2
    assert capsys.readouterr().out == "BASCULE CRITICAL - node edge does not run; bascule run edge.yaml starts it\n"


def test_one_that_does_not_answer_is_critical_and_one_that_refuses_is_unknown(
    config: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for error, status, word in ((Unavailable("no answer"), 2, "CRITICAL"), (ControlError("forbidden", "no key"), 3, "UNKNOWN")):

        def refuse(*_: object, error: Exception = error) -> ControlClient:
            raise error

        monkeypatch.setattr(node_calls, "client_of", refuse)
        assert main(["status", config, "--check"]) == status
        assert capsys.readouterr().out.startswith(f"BASCULE {word} - {error}")


@pytest.mark.parametrize(
    "words",
    [
        ["--check"],
        ["nowhere.yaml", "--check"],
        ["edge.yaml", "--check", "--down", "soon"],
        ["edge.yaml", "--check", "--down", "10m,1m"],
        ["edge.yaml", "--check", "--dead", "1,2,3"],
        ["edge.yaml", "--check", "--full", "nan"],
        ["edge.yaml", "--check", "--dead", "-1"],
        ["edge.yaml", "--check", "--nonsense"],
    ],
)
def test_what_keeps_it_from_asking_is_unknown(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", *words]) == 3
    said = capsys.readouterr()
    assert (said.out + said.err).strip()


def test_without_check_wrong_usage_is_what_it_is_everywhere() -> None:
    assert main(["status", "edge.yaml", "--down", "soon"]) == 2


def test_a_word_that_is_no_file_is_taken_for_a_bridge_and_never_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "cloud"]) == 2
    assert "missing argument 'CONFIG'" in capsys.readouterr().err

    assert main(["status", "edge.yaml", "cloud"]) == 69
    assert "node edge does not run" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["stop", "reload", "doctor", "check", "run"])
def test_where_no_bridge_is_wanted_such_a_word_is_told_to_be_no_file(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "cloud"]) == 2
    assert "there is no file cloud; CONFIG is the node's file" in capsys.readouterr().err
