"""Shows a report on a terminal: the verdict, each section's answer, and the first rows of its table. Times are UTC."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from textwrap import wrap

from rich.console import Console, JustifyMethod
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from analysis.reports.report_model import Cell, Column, Report, Section, Verdict
from analysis.reports.report_parts import duration, plural, size

ROWS_SHOWN = 15
CELL_MAX = 48
HEAD_LINES_MAX = 2
COLUMNS_MIN = 3
_GAP = 2  # between two columns
_TEXT = 9  # where texts begin, beside the verdicts
_PIPE_WIDTH = 100
_STYLES: dict[Verdict, str] = {"ok": "green", "attention": "yellow", "problem": "bold red", "none": "dim"}
_WORDS: dict[Verdict, str] = {"ok": "ok", "attention": "look", "problem": "PROBLEM", "none": "-"}


def show(report: Report, console: Console | None = None) -> None:
    """Print ``report`` on standard output, or to ``console``."""
    if console is None:
        terminal = Console(emoji=False)  # names have colons
        console = terminal if terminal.is_terminal or "COLUMNS" in os.environ else Console(emoji=False, width=_PIPE_WIDTH)
    newest = sum(used.newest for used in report.snapshots)
    made = f"{plural(len(report.nodes), 'node')}, {plural(len(report.snapshots), 'snapshot')}, {newest} of them newest"
    _headed(console, report.verdict, report.headline)
    _say(console, f"{made}; made {cell(report.made_at_ms, 'time')}", "dim")
    for problem in report.problems:
        _say(console, f"left out: {problem.path} {problem.queue}: {problem.why}", "yellow")
    for section in report.sections:
        _section(section, console)


def _headed(console: Console, verdict: Verdict, title: str) -> None:
    """A verdict, and what it is about."""
    grid = Table.grid()
    grid.add_column(width=_TEXT)
    grid.add_row(Text(_WORDS[verdict], _STYLES[verdict]), Text(title, "bold"))
    console.print(grid)


def _say(console: Console, text: str, style: str = "") -> None:
    """``text`` in lines below a title."""
    console.print(Padding(Text(text, style), (0, 0, 0, _TEXT)), highlight=False)


def _section(section: Section, console: Console) -> None:
    console.print()
    _headed(console, section.verdict, section.title)
    _say(console, section.question, "dim")
    _say(console, section.summary)
    if not section.rows:
        return
    shown = [index for index, _ in enumerate(section.columns) if any(row[index] not in (None, 0, "") for row in section.rows)]
    columns = [section.columns[index] for index in shown]
    cells = [[_plain(row[index], section.columns[index]) for index in shown] for row in section.rows[:ROWS_SHOWN]]
    widths = [max(_head_width(column.title), *(len(row[place]) for row in cells)) for place, column in enumerate(columns)]
    fitting = _fitting(widths, console.width)
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, _GAP, 0, 0))
    for column, width in zip(columns[:fitting], widths, strict=False):
        justify: JustifyMethod = "left" if column.kind in ("text", "state", "time") else "right"
        table.add_column(escape(column.title), justify=justify, width=width, vertical="bottom")
    for row in cells:
        table.add_row(
            *(Text(text, style=_style(text, column), no_wrap=True) for text, column in zip(row[:fitting], columns, strict=False))
        )
    console.print(table)
    more = [f"{section.rows_total - ROWS_SHOWN:,} more rows"] if section.rows_total > ROWS_SHOWN else []
    more += [f"on a wider terminal: {', '.join(column.title for column in columns[fitting:])}"] if fitting < len(columns) else []
    if more:
        console.print(Text(f"... {'; '.join(more)}", "dim"))


def _head_width(title: str) -> int:
    """The least width at which ``title`` takes few lines, and no word of it is broken."""
    words = title.split()
    width = max(map(len, words), default=0)
    while len(wrap(title, width or 1)) > HEAD_LINES_MAX:
        width += 1
    return width


def _fitting(widths: list[int], width: int) -> int:
    """How many columns of ``widths`` fit side by side."""
    used = -_GAP
    for place, wanted in enumerate(widths):
        used += _GAP + wanted
        if used > width and place >= COLUMNS_MIN:
            return place
    return len(widths)


def _style(text: str, column: Column) -> str:
    return next((_STYLES[verdict] for verdict, word in _WORDS.items() if word == text), "") if column.kind == "state" else ""


def _plain(value: Cell, column: Column) -> str:
    if column.kind == "state":
        return next((word for verdict, word in _WORDS.items() if verdict == value), "-")
    text = "".join(letter if letter.isprintable() else "?" for letter in cell(value, column.kind))
    return text if len(text) <= CELL_MAX else f"{text[: CELL_MAX - 1]}…"


def cell(value: Cell, kind: str) -> str:
    """A value as a person reads it."""
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    match kind:
        case "time":
            return datetime.fromtimestamp(value / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
        case "bytes":
            return size(value)
        case "duration_s":
            return duration(value)
        case "percent":
            return f"{value:.1f} %"
        case _:
            return f"{value:,.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else f"{value:,}"
