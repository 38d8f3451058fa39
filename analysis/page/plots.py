"""The charts of a report as SVG that fits any width: positions are percentages, text keeps its size.

Owns the drawing of lines and bars over time. The values that a reader sees at the cursor, by pointer or by key, are written by
``assets/page.js`` from the figures that ``plot`` returns beside the markup; colours, line styles and shapes are classes of
``assets/page.css``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from analysis.page.bars import named_bars
from analysis.page.figure import NOTHING, SERIES_MAX, Plot, colours_of, figure, legend, percent, period, stackable, x_axis
from analysis.page.scale import Scale, Tick, times_axis, values_axis
from analysis.page.text import markup, shown, visible
from analysis.page.timeline import timeline
from analysis.reports.report_model import Chart, Series

BODY = 1000  # the drawing's own units, both ways; the browser stretches them
POINTS_MAX = 1500  # of a line; more are drawn as the lowest and the highest of each stretch
BARS_SPACED_MAX = 120  # more bars than that touch each other


def plot(chart: Chart, name: str) -> Plot:
    """``chart`` as a figure whose element ids begin with ``name``."""
    if chart.kind == "timeline":
        return timeline(chart, name)
    if chart.unit_x == "text" or any(isinstance(one, str) for one in chart.x):
        return named_bars(chart, name)
    if not chart.x or not any(value is not None for series in chart.series for value in series.values):
        return Plot(figure(chart, name, "", NOTHING), None)
    return _lines(chart, name) if chart.kind == "lines" else _bars_over_time(chart, name)


def _lines(chart: Chart, name: str) -> Plot:
    series, others = _leading(chart.series)
    xs = [float(one) for one in chart.x]
    across, x_ticks = _across(chart, xs[0], xs[-1])
    up, y_ticks = values_axis(chart.unit_y, [v for one in chart.series for v in one.values if v is not None], chart.log_y)
    colours = colours_of(series)
    drawn = [f'<path class="line faint" d="{_line(xs, one.values, across, up)}"/>' for one in others]
    if len(chart.series) == 1 and not up.log and up.low == 0:
        drawn.append(f'<path class="area {colours[0]}" d="{_area(xs, series[0].values, across, up)}"/>')
    drawn += [
        f'<path class="line {colours[at]}" data-series="{at}" d="{_line(xs, one.values, across, up)}"/>'
        for at, one in reversed(list(enumerate(series)))
    ]
    figures = _figures(chart, xs, across, up, [*series, *others], [*colours, *([""] * len(others))])
    stage = _stage(name, drawn, x_ticks, y_ticks)
    scale = "logarithmic scale" if up.log else ""
    return Plot(figure(chart, name, legend(series, colours, len(others)), stage, _spoken(chart), scale), figures)


def _bars_over_time(chart: Chart, name: str) -> Plot:
    stacked = chart.kind == "stacked-bars"
    series = stackable(chart.series) if stacked else chart.series[:SERIES_MAX]
    xs = [float(one) for one in chart.x]
    width = min((after - before for before, after in pairwise(xs)), default=3_600_000.0)
    across, x_ticks = _across(chart, xs[0], xs[-1] + width)
    columns = [[one.values[at] or 0.0 for one in series] for at in range(len(xs))]
    tops = [sum(v for v in column if v > 0) if stacked else max([0.0, *column]) for column in columns]
    bottoms = [sum(v for v in column if v < 0) if stacked else min([0.0, *column]) for column in columns]
    up, y_ticks = values_axis(chart.unit_y, [*tops, *bottoms], log=False)
    colours = colours_of(series)
    bands = [_band(across, x, width, len(xs)) for x in xs]
    drawn = [
        f'<path class="bar {colour}" data-series="{at}" d="{"".join(_column(up, columns, bands, at, stacked))}"/>'
        for at, colour in enumerate(colours)
    ]
    figures = _figures(chart, xs, across, up, series, colours) | {"w": width}
    return Plot(figure(chart, name, legend(series, colours), _stage(name, drawn, x_ticks, y_ticks), _spoken(chart)), figures)


def _across(chart: Chart, low: float, high: float) -> tuple[Scale, list[Tick]]:
    return times_axis(low, high) if chart.unit_x == "time" else values_axis(chart.unit_x, [low, high], log=False, ticks=8)


def _leading(series: Sequence[Series]) -> tuple[Sequence[Series], Sequence[Series]]:
    """Those with a colour of their own, which reach highest, and the others. Both in the order they came in."""
    if len(series) <= SERIES_MAX:
        return series, ()
    highest = sorted(range(len(series)), key=lambda at: -max((v for v in series[at].values if v is not None), default=0.0))
    chosen = set(highest[: SERIES_MAX - 1])
    return [series[at] for at in sorted(chosen)], [one for at, one in enumerate(series) if at not in chosen]


def _line(xs: Sequence[float], values: Sequence[float | None], across: Scale, up: Scale) -> str:
    """A path with a gap where a value is not known, or no logarithm; a lone point becomes a dot.

    A series none of whose points are neighbours was taken at times of its own (snapshots of one node among those of others): its
    points are joined.
    """
    path, pen = [], False
    own_times = not any(one is not None and other is not None for one, other in pairwise(values))
    for x, value in _thinned(xs, values):
        if value is None or (up.log and value <= 0):
            pen = pen and own_times
            continue
        point = f"{_n(across.at(x) * BODY)} {_n((1 - up.at(value)) * BODY)}"
        path.append(f"L{point}h0" if pen and own_times else f"L{point}" if pen else f"M{point}h0")
        pen = True
    return "".join(path)


def _area(xs: Sequence[float], values: Sequence[float | None], across: Scale, up: Scale) -> str:
    """The area between the line and zero, in one piece for each stretch without a gap."""
    stretches: list[list[tuple[str, str]]] = [[]]
    for x, value in _thinned(xs, values):
        if value is None:
            stretches.append([])
        else:
            stretches[-1].append((_n(across.at(x) * BODY), _n((1 - up.at(value)) * BODY)))
    return "".join(
        f"M{points[0][0]} {BODY}{''.join(f'L{at} {height}' for at, height in points)}L{points[-1][0]} {BODY}Z"
        for points in stretches
        if points
    )


def _thinned(xs: Sequence[float], values: Sequence[float | None]) -> Iterable[tuple[float, float | None]]:
    if len(xs) <= POINTS_MAX:
        return zip(xs, values, strict=True)
    points: list[tuple[float, float | None]] = []
    stretch = -(-len(xs) * 2 // POINTS_MAX)
    for begin in range(0, len(xs), stretch):
        known = [(value, at) for at, value in enumerate(values[begin : begin + stretch], begin) if value is not None]
        picked = sorted({min(known)[1], max(known)[1]}) if known else [begin]
        points += [(xs[at], values[at]) for at in picked]
    return points


def _band(across: Scale, x: float, width: float, bars: int) -> tuple[float, float]:
    left, right = across.at(x) * BODY, across.at(x + width) * BODY
    inset = (right - left) * 0.11 if bars <= BARS_SPACED_MAX else 0.0
    return left + inset, right - inset


def _column(
    up: Scale, columns: Sequence[Sequence[float]], bands: Sequence[tuple[float, float]], at: int, stacked: bool
) -> Iterable[str]:
    """The bars of series ``at``, one rectangle for each value that is not zero."""
    for column, (left, right) in zip(columns, bands, strict=True):
        value, base = column[at], 0.0
        if value == 0:
            continue
        if stacked:
            base = sum(other for other in column[:at] if (other > 0) == (value > 0))
        else:
            part = (right - left) / len(column)
            left, right = left + at * part, left + (at + 1) * part
        top, bottom = sorted(((1 - up.at(base)) * BODY, (1 - up.at(base + value)) * BODY))
        yield f"M{_n(left)} {_n(top)}H{_n(right)}V{_n(max(bottom, top + 1))}H{_n(left)}Z"


def _stage(name: str, drawn: Sequence[str], x_ticks: Sequence[Tick], y_ticks: Sequence[Tick]) -> str:
    margin = max((len(tick.text) for tick in y_ticks), default=0)
    rows = "".join(
        f'<line class="grid{" zero" if tick.strong else ""}" x1="0" x2="100%" y1="{percent(1 - tick.at)}" '
        f'y2="{percent(1 - tick.at)}"/>'
        f'<text class="y" x="-10" y="{percent(1 - tick.at)}" dy=".33em">{markup(tick.text)}</text>'
        for tick in y_ticks
    )
    return (
        f'<div class="stage m{min(max((margin + 1) // 2, 2), 7)}" id="{name}-stage" role="img" '
        f'aria-labelledby="{name}-title" aria-describedby="{name}-about">'
        f'<svg class="axes" aria-hidden="true">{rows}{x_axis(x_ticks)}'
        f'<svg class="body" viewBox="0 0 {BODY} {BODY}" preserveAspectRatio="none" width="100%" '
        f'height="100%">{"".join(drawn)}</svg>'
        "</svg></div>"
    )


def _figures(
    chart: Chart, xs: Sequence[float], across: Scale, up: Scale, series: Sequence[Series], colours: Sequence[str]
) -> dict[str, object]:
    return {
        "kind": chart.kind,
        "ux": chart.unit_x,
        "uy": chart.unit_y,
        "x": xs,
        "across": [across.low, across.high],
        "up": [up.low, up.high, up.log],
        "series": [
            {"name": visible(one.name), "colour": colour, "values": [_rounded(value) for value in one.values]}
            for one, colour in zip(series, colours, strict=True)
        ],
    }


def _spoken(chart: Chart) -> str:
    """The plot in words: the period, and for each of the leading lines its lowest, highest and last value."""
    words = [period(float(chart.x[0]), float(chart.x[-1]))] if chart.unit_x == "time" else []
    for one in chart.series[:SERIES_MAX]:
        known = [value for value in one.values if value is not None]
        if known:
            low, high, last = (shown(chart.unit_y, value) for value in (min(known), max(known), known[-1]))
            words.append(f"{one.name}: lowest {low}, highest {high}, last {last}.")
    return " ".join(words)


def _rounded(value: float | None) -> float | None:
    if value is None or isinstance(value, int):
        return value
    return int(value) if value.is_integer() and abs(value) < 1e15 else float(f"{value:.6g}")


def _n(value: float) -> str:
    text = f"{value:.1f}"
    return text[:-2] if text.endswith(".0") else text
