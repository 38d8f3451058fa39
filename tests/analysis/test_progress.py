"""The word of a long report about itself: one line that changes on a terminal, and elsewhere a line now and then."""

from __future__ import annotations

import io
import sys
import time

import pytest

from analysis.progress import SILENT_S, Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_one_line_that_is_gone_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)

    with Progress() as shown:
        shown.step("reading")
        shown.step("report 1 of 10: reconciliation")
        shown.say("written: report.html")
        shown.step("report 2 of 10: backlog")

    said = terminal.getvalue()
    assert said.count("\n") == 1
    assert "\r\x1b[Kwritten: report.html\n" in said
    assert said.endswith("\r\x1b[Kreport 2 of 10: backlog\r\x1b[K")


def test_elsewhere_steps_are_told_once_some_time_has_passed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now_s = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now_s[0])

    with Progress() as told:
        told.say("1 snapshot")
        for name in ("reading", "report 1", "report 2", "report 3"):
            told.step(name)
            now_s[0] += SILENT_S / 2

    assert capsys.readouterr().err.splitlines() == ["1 snapshot", "report 2"]
