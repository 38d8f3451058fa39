"""Shows a report on a terminal: the verdict, each section's answer, and the first rows of its table. Times are UTC."""

from __future__ import annotations

from datetime import UTC, datetime

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from storage.analysis.report_model import Cell, Column, Report, Section, Verdict
from storage.analysis.reports.made import duration, size

ROWS_SHOWN = 15
_STYLES: dict[Verdict, str] = {"ok": "green", "attention": "yellow", "problem": "bold red", "none": "dim"}
_WORDS: dict[Verdict, str] = {"ok": "ok", "attention": "look", "problem": "PROBLEM", "none": "-"}


def show(report: Report, console: Console) -> None:
    """Print ``report``."""
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
    table = Table(box=None, pad_edge=False, header_style="dim")
    shown = [index for index, _ in enumerate(section.columns) if any(row[index] not in (None, 0, "") for row in section.rows)]
    for index in shown:
        column = section.columns[index]
        table.add_column(
            escape(column.title), justify="left" if column.kind in ("text", "state", "time") else "right", overflow="fold"
        )
    for row in section.rows[:ROWS_SHOWN]:
        table.add_row(*(_cell(row[index], section.columns[index]) for index in shown))
    console.print(table)
    if section.rows_total > ROWS_SHOWN:
        console.print(f"[dim]... {section.rows_total - ROWS_SHOWN:,} more[/]")


def _cell(value: Cell, column: Column) -> str:
    if column.kind == "state" and value in _STYLES:
        return f"[{_STYLES[value]}]{_WORDS[value]}[/]"
    return escape(cell(value, column.kind))


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
