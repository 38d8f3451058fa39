"""Shows a report on a terminal: the verdict, each section's answer, and the first rows of its table. Times are UTC."""

from __future__ import annotations

from datetime import UTC, datetime

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from storage.analysis.reports.report_model import Cell, Column, Report, Section, Verdict
from storage.analysis.reports.report_parts import duration, size

ROWS_SHOWN = 15
CELL_MAX = 48
_STYLES: dict[Verdict, str] = {"ok": "green", "attention": "yellow", "problem": "bold red", "none": "dim"}
_WORDS: dict[Verdict, str] = {"ok": "ok", "attention": "look", "problem": "PROBLEM", "none": "-"}


def show(report: Report) -> None:
    """Print ``report`` on standard output."""
    console = Console(emoji=False)  # names have colons
    console.print(f"[{_STYLES[report.verdict]}]{_WORDS[report.verdict]}[/] [bold]{escape(report.headline)}[/]")
    newest = sum(used.newest for used in report.snapshots)
    console.print(
        f"[dim]{len(report.nodes)} node(s), {len(report.snapshots)} snapshot(s), {newest} of them newest; made"
        f" {cell(report.made_at_ms, 'time')}[/]"
    )
    for problem in report.problems:
        console.print(f"[yellow]left out[/] {escape(problem.path)} {escape(problem.queue)}: {escape(problem.why)}", highlight=False)
    for section in report.sections:
        _section(section, console)


def _section(section: Section, console: Console) -> None:
    console.print()
    console.print(
        f"[{_STYLES[section.verdict]}]{_WORDS[section.verdict]}[/] [bold]{escape(section.title)}[/]"
        f" [dim]{escape(section.question)}[/]"
    )
    console.print(escape(section.summary), highlight=False)
    if not section.rows:
        return
    shown = [index for index, _ in enumerate(section.columns) if any(row[index] not in (None, 0, "") for row in section.rows)]
    cells = [[_plain(row[index], section.columns[index]) for index in shown] for row in section.rows[:ROWS_SHOWN]]
    fitting = _fitting([section.columns[index].title for index in shown], cells, console.width)
    table = Table(box=None, pad_edge=False, header_style="dim")
    for index in shown[:fitting]:
        column = section.columns[index]
        table.add_column(
            escape(column.title), justify="left" if column.kind in ("text", "state", "time") else "right", no_wrap=False
        )
    for row in cells:
        styled = zip(row[:fitting], (section.columns[index] for index in shown), strict=False)
        table.add_row(*(Text(text, style=_style(text, column), no_wrap=True) for text, column in styled))
    console.print(table)
    more = [f"{section.rows_total - ROWS_SHOWN:,} more rows"] if section.rows_total > ROWS_SHOWN else []
    more += [f"{len(shown) - fitting} more columns on a wider terminal"] if fitting < len(shown) else []
    if more:
        console.print(f"[dim]... {', '.join(more)}[/]")


def _fitting(titles: list[str], cells: list[list[str]], width: int) -> int:
    """How many columns fit side by side, cells on one line each; at least three."""
    used = 0
    for place, title in enumerate(titles):
        used += 1 + max(*(len(row[place]) for row in cells), *(len(word) for word in title.split()))
        if used > width and place >= 3:
            return place
    return len(titles)


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
