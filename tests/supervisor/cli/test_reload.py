"""``bascule reload``: what is asked, what is said, and with which status it ends."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from supervisor.cli import reload as command
from supervisor.cli.main import main
from supervisor.terminal import view
from tests.support.client_double import have_answered

LIVE = {"what": "log.level", "how": "live", "target": "", "detail": "info -> debug"}
LOST = {"what": "bridge cloud: removed", "how": "destructive", "target": "cloud", "detail": "5 messages stay"}
MOVED = {"what": "node.data_dir", "how": "node-restart", "target": "", "detail": "/a -> /b"}


class Box:
    """A node whose file would change ``changes``. asked: the commands that came, with their arguments."""

    def __init__(self, *changes: dict[str, str], problems: tuple[str, ...] = ()) -> None:
        self.changes = list(changes)
        self.problems = list(problems)
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.pending = [["bridge:cloud:0"], []]
        self.cause = ""  # what keeps the node from being ready

    def __call__(self, name: str, arguments: dict[str, str]) -> Any:
        self.asked.append((name, arguments))
        if name == "status":
            rows = [
                {"name": "clients", "state": "ready", "last_cause": self.cause},
                {"name": "store", "state": "ready", "last_cause": ""},
            ]
            return {"ready": not self.cause, "configuration": {"number": 2, "pending": self.pending.pop(0)}, "processes": rows}
        refused = "not as it is" if self.problems or MOVED in self.changes else None
        if LOST in self.changes and name == "reload" and arguments.get("yes") != "yes":
            refused = "bridge cloud: removed would give something up for good"
        applied = name == "reload" and refused is None
        number = 2 if applied else None
        return {"changes": self.changes, "applied": applied, "refused": refused, "problems": self.problems, "number": number}


def typed(monkeypatch: pytest.MonkeyPatch, box: Box, *words: str) -> int:
    have_answered(monkeypatch, box)
    return main(["reload", "node.yaml", *words])


@pytest.mark.parametrize(
    ("box", "words", "status"),
    [
        (Box(LIVE), (), 0),
        (Box(), (), 0),
        (Box(LOST), (), 2),
        (Box(LOST), ("--yes",), 0),
        (Box(LOST, MOVED), ("--yes",), 1),
        (Box(problems=("/node.yaml:3:1: limits: what",)), (), 78),
        (Box(LIVE), ("--plan",), 0),
        (Box(LOST), ("--plan",), 0),
        (Box(MOVED), ("--plan",), 1),
    ],
)
@pytest.mark.parametrize("as_json", [False, True])
def test_the_status_says_what_became_of_it(
    box: Box,
    words: tuple[str, ...],
    status: int,
    as_json: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert typed(monkeypatch, box, *words, *(["--json"] if as_json else [])) == status
    said = capsys.readouterr()
    if as_json:
        assert json.loads(said.out)["changes"] == box.changes
    else:
        assert all(change["what"] in said.out and change["how"] in said.out for change in box.changes)
        assert all(problem in said.err for problem in box.problems)


def test_a_plan_asks_for_nothing_to_be_applied(monkeypatch: pytest.MonkeyPatch) -> None:
    box = Box(LIVE)
    typed(monkeypatch, box, "--plan", "--yes")
    assert box.asked == [("reload.plan", {})]


def test_who_sits_at_a_terminal_is_asked_before_something_is_given_up(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    said = iter((True, False))
    monkeypatch.setattr("click.confirm", lambda text: next(said))
    box = Box(LOST)
    assert typed(monkeypatch, box) == 0
    assert box.asked == [("reload", {}), ("reload", {"yes": "yes"})]
    assert "applied" in capsys.readouterr().out
    box = Box(LOST)
    assert typed(monkeypatch, box) == 2
    assert box.asked == [("reload", {})]
    shown = capsys.readouterr()
    assert shown.out.endswith("nothing was changed\n")
    assert shown.err == "", "it is no error to be asked"


def test_waiting_ends_when_all_processes_go_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    box = Box(LIVE)
    assert typed(monkeypatch, box, "--wait") == 0
    assert [name for name, _ in box.asked] == ["reload", "status", "status"]


def test_who_waits_is_told_for_what(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(command, "QUIET_S", 0.0)
    monkeypatch.setattr(command, "WAIT_S", 0.2)
    box = Box(LIVE)
    box.cause, box.pending = "cannot listen on 127.0.0.1:1883", [["bridge:cloud:0"], *([[]] * 99)]
    assert typed(monkeypatch, box, "--wait") == 1
    said = [line for line in capsys.readouterr().err.splitlines() if "waits for" in line]
    assert len(said) == 2, "each once"
    assert "bridge:cloud:0" in said[0]
    assert "clients (cannot listen on 127.0.0.1:1883)" in said[1]


def test_waiting_ends_at_some_time(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(command, "WAIT_S", 0.0)
    box = Box(LIVE)
    box.pending = [["bridge:cloud:0"]] * 9
    assert typed(monkeypatch, box, "--wait") == 1
    assert "bascule status node.yaml says which" in capsys.readouterr().err


def test_a_plan_fits_a_terminal_of_80_columns(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(view._console, "__defaults__", (80,))
    long = {
        "what": f"bridge {'b' * 50}: local_subscriptions",
        "how": "node-restart",
        "target": "",
        "detail": "added: " + "plant/#, " * 20,
    }
    typed(monkeypatch, Box(long), "--plan")
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80
