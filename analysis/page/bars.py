"""Bars with names: one row for each, with its value in words, so that nothing needs a pointer."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.page.figure import NOTHING, ROWS_FIRST, SERIES_MAX, Plot, colours_of, figure, legend, more, percent, stackable
from analysis.page.text import markup, shown
from analysis.reports.report_model import Chart, Series


def named_bars(chart: Chart, name: str) -> Plot:
    """One row for each name: what it is, a bar, and the value in words. Nothing here needs a pointer."""
    series = stackable(chart.series) if chart.kind == "stacked-bars" else chart.series[:SERIES_MAX]
    colours = colours_of(series)
    known = [[abs(value or 0.0) for value in values] for values in zip(*(one.values for one in series), strict=True)]
    stacked = chart.kind == "stacked-bars"
    longest = max((sum(values) if stacked else max(values) for values in known), default=0.0) or 1.0
    rows = []
    for at, label in enumerate(chart.x):
        values = [one.values[at] for one in series]
        total = sum(value or 0.0 for value in values)
        said = shown(chart.unit_y, total if stacked else values[0]) if stacked or len(series) == 1 else ""
        text = markup(shown(chart.unit_x, label))
        rows.append(
            f'<li class="{"more" if at >= ROWS_FIRST else "bar-row"}"><span class="name" title="{text}"><bdi>{text}</bdi></span>'
            f'<span class="value">{markup(said)}</span>{_named_bar(chart, series, colours, values, longest)}</li>'
        )
    body = f'<ol class="bars" aria-labelledby="{name}-title">{"".join(rows)}</ol>{more(len(rows))}'
    return Plot(figure(chart, name, legend(series, colours, switches=False), body if rows else NOTHING), None)


def _named_bar(
    chart: Chart, series: Sequence[Series], colours: Sequence[str], values: Sequence[float | None], longest: float
) -> str:
    parts, left = [], 0.0
    rows = 1 if chart.kind == "stacked-bars" else len(series)
    for at, (one, value) in enumerate(zip(series, values, strict=True)):
        size = abs(value or 0.0) / longest
        said = f"{shown(chart.unit_y, value)} {one.name}" if len(series) > 1 else shown(chart.unit_y, value)
        y, height = (0.0, 1.0) if rows == 1 else (at / rows, 1 / rows)
        if size:
            parts.append(
                f'<rect class="bar {colours[at]}" x="{percent(left)}" width="{percent(size)}" y="{percent(y)}" '
                f'height="{percent(height)}" rx="1.5"><title>{markup(said)}</title></rect>'
            )
        left += size if rows == 1 else 0.0
    rail = '<rect class="rail" width="100%" height="100%" rx="2"/>'
    spoken = "" if len(series) == 1 else f'<span class="vh">{markup(_list(chart, series, values))}</span>'
    return f'<svg class="hbar r{rows}" aria-hidden="true">{rail}{"".join(parts)}</svg>{spoken}'


def _list(chart: Chart, series: Sequence[Series], values: Sequence[float | None]) -> str:
    return ", ".join(f"{one.name} {shown(chart.unit_y, value)}" for one, value in zip(series, values, strict=True) if value)
