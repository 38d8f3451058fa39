"""Logs: JSON for programs, text for who looks at a terminal, and nothing that speaks to that."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from actors.process.logs import configure_logging, follow_settings
from wire.config_settings import LogSettings
from wire.setting_kinds import Effect

log = logging.getLogger("bascule")


class Screen(io.StringIO):
    def __init__(self, *, terminal: bool) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


@pytest.fixture(autouse=True)
def root_logger() -> Iterator[None]:
    root = logging.getLogger()
    before = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = before


FACTS = {"user": "ada\x1b[2J", "address": "::1", "why": "wrong password", "filters": ["a", "b"]}


def said(monkeypatch: pytest.MonkeyPatch, written: str, *, terminal: bool, facts: dict[str, object] | None = None) -> str:
    screen = Screen(terminal=terminal)
    monkeypatch.setattr("sys.stderr", screen)
    configure_logging(LogSettings(format=written), node="edge", process="clients")
    log.warning("login.refused", extra=facts or FACTS)
    return screen.getvalue()


@pytest.mark.parametrize(("written", "terminal"), [("auto", False), ("json", True), ("json", False)])
def test_a_program_gets_json(monkeypatch: pytest.MonkeyPatch, written: str, terminal: bool) -> None:
    line = json.loads(said(monkeypatch, written, terminal=terminal))
    assert (line["event"], line["level"], line["node"], line["process"]) == ("login.refused", "WARNING", "edge", "clients")
    assert (line["why"], line["filters"]) == ("wrong password", ["a", "b"])


@pytest.mark.parametrize(("written", "terminal"), [("auto", True), ("text", True), ("text", False)])
def test_people_get_a_line_of_text(monkeypatch: pytest.MonkeyPatch, written: str, terminal: bool) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    line = said(monkeypatch, written, terminal=terminal)
    assert line.split()[2:5] == ["WARNING", "clients", "login.refused"]
    assert line.endswith('user=ada\\x1b[2J  address=::1  why="wrong password"  filters="a, b"\n')


@pytest.mark.parametrize(("variable", "terminal", "coloured"), [("", True, True), ("1", True, False), ("", False, False)])
def test_it_is_coloured_on_a_terminal_whose_user_allows_it(
    monkeypatch: pytest.MonkeyPatch, variable: str, terminal: bool, coloured: bool
) -> None:
    monkeypatch.setenv("NO_COLOR", variable)
    assert ("\x1b[33m" in said(monkeypatch, "text", terminal=terminal)) == coloured


def test_a_change_holds_from_the_next_line_on(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen(terminal=False)
    monkeypatch.setattr("sys.stderr", screen)
    configure_logging(LogSettings(), node="edge", process="store")
    log.info("one.done")
    follow_settings(LogSettings(format="text", level="error"))
    log.info("two.done")
    try:
        raise ValueError("bad")
    except ValueError:
        log.exception("three.failed")
    first, second, *stack = screen.getvalue().splitlines()
    assert json.loads(first)["event"] == "one.done"
    assert second.split()[2:] == ["ERROR", "store", "three.failed"]
    assert stack[-1] == "ValueError: bad"


def test_a_fact_with_parts_is_told_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    changes = [{"what": "bridge b: added", "how": Effect.LIVE, "detail": ""}, {"what": "limits", "how": "live"}]

    line = said(monkeypatch, "text", terminal=False, facts={"changes": changes, "problems": []})

    assert line.endswith('  changes="what bridge b: added, how live; what limits, how live"\n')
