"""The tables of a report: the first rows as markup, all rows as data that the page's script sorts, filters and pages.

Without a script the first rows are still there, and say how many more there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from analysis.page.text import UNKNOWN, markup, script_json, shown, visible
from analysis.reports.report_model import Cell, Column

ROWS_FIRST = 10  # on a page of the table, unless the reader wants more
NUMBERS = ("count", "bytes", "duration_s", "percent")


def table(name: str, caption: str, columns: Sequence[Column], rows: Sequence[Sequence[Cell]], total: int) -> str:
    """A table whose element ids begin with ``name``. ``total`` rows exist, of which ``rows`` are in the report."""
    head = "".join(
        f'<th scope="col" role="columnheader" class="{_class(one)}" data-column="{at}"><button type="button" class="sort">'
        f'{markup(one.title)}<svg class="arrow" aria-hidden="true" viewBox="0 0 10 12"><path class="up" d="M1.5 5 5 1.5 8.5 5"/>'
        f'<path class="down" d="M1.5 7 5 10.5 8.5 7"/></svg></button></th>'
        for at, one in enumerate(columns)
    )
    body = "".join(
        f'<tr role="row">{"".join(_cell(one, value) for one, value in zip(columns, row, strict=True))}</tr>'
        for row in rows[:ROWS_FIRST]
    )
    data = {
        "columns": [{"name": one.name, "title": visible(one.title), "kind": one.kind} for one in columns],
        "rows": [[visible(value) if isinstance(value, str) else value for value in row] for row in rows],
        "total": max(total, len(rows)),
        "first": ROWS_FIRST,
    }
    more = (
        f'<p class="without-script">The first {ROWS_FIRST} of {len(rows):,} rows; the others need a script.</p>'
        if len(rows) > ROWS_FIRST
        else ""
    )
    return (
        f'<div class="table" id="{name}"><div class="scroll" role="region" tabindex="0" aria-labelledby="{name}-caption">'
        f'<table role="table"><caption id="{name}-caption" class="vh">{markup(caption)}</caption>'
        f'<thead role="rowgroup"><tr role="row">{head}</tr></thead><tbody role="rowgroup">{body}</tbody></table></div>{more}'
        f'<script type="application/json" id="{name}-data">{script_json(data)}</script></div>'
    )


def badge(verdict: str) -> str:
    """A verdict as a sign and a word."""
    return f'<span class="badge s-{verdict}">{icon(verdict)}{shown("state", verdict)}</span>'


def icon(verdict: str) -> str:
    """The sign of a verdict: each has a shape of its own."""
    return f'<svg class="icon s-{verdict}" aria-hidden="true" viewBox="0 0 16 16"><use href="#i-{verdict}"/></svg>'


def _class(column: Column) -> str:
    return "number" if column.kind in NUMBERS else column.kind


def _cell(column: Column, value: Cell) -> str:
    text = markup(shown(column.kind, value))
    if value is None or text == UNKNOWN:
        text = f'<span class="unknown">{UNKNOWN}</span>'
    elif column.kind == "state" and isinstance(value, str):
        text = badge(value) if value in ("ok", "attention", "problem", "none") else text
    elif column.kind == "time" and isinstance(value, int | float):
        text = f'<time datetime="{_iso(value)}">{text}</time>'
    elif column.kind == "text":
        text = f"<bdi>{text}</bdi>"
    return f'<td role="cell" class="{_class(column)}" data-label="{markup(column.title)}">{text}</td>'


def _iso(at_ms: float) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
