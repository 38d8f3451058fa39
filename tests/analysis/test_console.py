"""A report on a terminal: it fits, and keeps verdict, title, question and answer apart."""

from __future__ import annotations

import pytest
from rich.console import Console

from analysis.console import show
from tests.analysis.report_builder import Fleet


def shown(width: int, nodes: int) -> list[str]:
    console = Console(width=width, emoji=False)
    with console.capture() as capture:
        show(Fleet(nodes=nodes).report(), console)
    return [line.rstrip() for line in capture.get().splitlines()]


@pytest.mark.parametrize("width", [80, 100, 200])
def test_nothing_is_wider_than_the_terminal_and_no_head_of_a_table_is_cut(width: int) -> None:
    lines = shown(width, nodes=3)

    assert [line for line in lines if len(line) > width] == []
    assert [line for line in lines if "…" in line] == []


def test_a_section_is_its_verdict_and_title_then_its_question_then_its_answer() -> None:
    report = Fleet(nodes=2).report()
    lines = shown(300, nodes=2)

    assert lines[0].split(None, 1)[1] == report.headline
    for section in report.sections:
        at = next(place for place, line in enumerate(lines) if line[9:] == section.title)
        assert lines[at].split()[0] in ("ok", "look", "PROBLEM", "-")
        assert lines[at - 1] == ""
        assert [line.strip() for line in lines[at + 1 : at + 3]] == [section.question, section.summary]


def test_columns_that_do_not_fit_are_named() -> None:
    lines = shown(60, nodes=2)

    titles = {column.title for section in Fleet(nodes=2).report().sections for column in section.columns}
    named = " ".join(lines).split("on a wider terminal: ")[1:]
    assert named
    assert all(any(told.startswith(title) for title in titles) for told in named)
