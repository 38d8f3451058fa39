"""The charts of a report as SVG that fits any width: positions are percentages, text keeps its size.

Owns the drawing. What a reader sees at the cursor, by pointer or by key, is written by ``assets/page.js`` from the figures that ``plot``
returns beside the markup; colours, line styles and shapes are classes of ``assets/page.css``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from storage.analysis.page_scale import Scale, Tick, day, times_axis, values_axis
from storage.analysis.page_text import markup, shown, visible
from storage.analysis.report_model import Chart, Series, Span

BODY = 1000  # the drawing's own units, both ways; the browser stretches them
SERIES_MAX = 6  # with a colour of their own
POINTS_MAX = 1500  # of a line; more are drawn as the lowest and the highest of each stretch
CATEGORIES_FIRST = 12  # bars with names, or rows of a timeline, before "show all"
BARS_SPACED_MAX = 120  # more bars than that touch each other
_ORDERED = re.compile(r"p\d+(\.\d+)?|min|median|mean|max|lowest|highest", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Plot:
    """One figure: its markup, and the figures for the cursor (``None``: everything is in the markup)."""

    html: str
    figures: dict[str, object] | None


def plot(chart: Chart, name: str) -> Plot:
    """``chart`` as a figure whose element ids begin with ``name``."""
    if chart.kind == "timeline":
        return _timeline(chart, name)
    if chart.unit_x == "text" or any(isinstance(one, str) for one in chart.x):
        return _named_bars(chart, name)
    if not chart.x or not any(value is not None for series in chart.series for value in series.values):
        return Plot(_figure(chart, name, "", '<p class="nothing">Nothing to plot in this time.</p>', ""), None)
    return _lines(chart, name) if chart.kind == "lines" else _bars_over_time(chart, name)


# Lines and bars over time


def _lines(chart: Chart, name: str) -> Plot:
    series, others = _leading(chart.series)
    xs = [float(one) for one in chart.x]
    across, x_ticks = _across(chart, xs[0], xs[-1])
    up, y_ticks = values_axis(chart.unit_y, [v for one in chart.series for v in one.values if v is not None], chart.log_y)
    colours = _colours(series)
    drawn = [f'<path class="line faint" d="{_line(xs, one.values, across, up)}"/>' for one in others]
    if len(chart.series) == 1 and not up.log and up.low == 0:
        drawn.append(f'<path class="area {colours[0]}" d="{_area(xs, series[0].values, across, up)}"/>')
    drawn += [
        f'<path class="line {colours[at]}" data-series="{at}" d="{_line(xs, one.values, across, up)}"/>'
        for at, one in reversed(list(enumerate(series)))
    ]
    figures = _figures(chart, xs, across, up, [*series, *others], [*colours, *([""] * len(others))])
    return Plot(
        _figure(chart, name, _legend(series, colours, others), _stage(name, drawn, x_ticks, y_ticks), _spoken(chart)), figures
    )


def _bars_over_time(chart: Chart, name: str) -> Plot:
    stacked = chart.kind == "stacked-bars"
    series = _stackable(chart.series) if stacked else chart.series[:SERIES_MAX]
    xs = [float(one) for one in chart.x]
    width = min((after - before for before, after in pairwise(xs)), default=3_600_000.0)
    across, x_ticks = _across(chart, xs[0], xs[-1] + width)
    columns = [[one.values[at] or 0.0 for one in series] for at in range(len(xs))]
    tops = [sum(v for v in column if v > 0) if stacked else max([0.0, *column]) for column in columns]
    bottoms = [sum(v for v in column if v < 0) if stacked else min([0.0, *column]) for column in columns]
    up, y_ticks = values_axis(chart.unit_y, [*tops, *bottoms], log=False)
    colours = _colours(series)
    bands = [_band(across, x, width, len(xs)) for x in xs]
    drawn = [
        f'<path class="bar {colour}" data-series="{at}" d="{"".join(_column(up, columns, bands, at, stacked))}"/>'
        for at, colour in enumerate(colours)
    ]
    figures = _figures(chart, xs, across, up, series, colours) | {"w": width}
    return Plot(_figure(chart, name, _legend(series, colours, ()), _stage(name, drawn, x_ticks, y_ticks), _spoken(chart)), figures)


def _across(chart: Chart, low: float, high: float) -> tuple[Scale, list[Tick]]:
    return times_axis(low, high) if chart.unit_x == "time" else values_axis(chart.unit_x, [low, high], log=False, ticks=8)


def _leading(series: Sequence[Series]) -> tuple[Sequence[Series], Sequence[Series]]:
    """Those with a colour of their own, which reach highest, and the others. Both in the order they came in."""
    if len(series) <= SERIES_MAX:
        return series, ()
    highest = sorted(range(len(series)), key=lambda at: -max((v for v in series[at].values if v is not None), default=0.0))
    chosen = set(highest[: SERIES_MAX - 1])
    return [series[at] for at in sorted(chosen)], [one for at, one in enumerate(series) if at not in chosen]


def _stackable(series: Sequence[Series]) -> Sequence[Series]:
    """At most ``SERIES_MAX``, of which the last is the sum of the smaller ones."""
    if len(series) <= SERIES_MAX:
        return series
    largest = sorted(range(len(series)), key=lambda at: -sum(abs(v) for v in series[at].values if v is not None))
    chosen = set(largest[: SERIES_MAX - 1])
    rest = [one for at, one in enumerate(series) if at not in chosen]
    together = tuple(sum(v or 0.0 for v in values) for values in zip(*(one.values for one in rest), strict=True))
    return [*(series[at] for at in sorted(chosen)), Series(name=f"{len(rest)} others together", values=together)]


def _colours(series: Sequence[Series]) -> list[str]:
    """Percentiles and the like are shades of one colour, from calm to strong; anything else gets colours that are told apart."""
    shade = "o" if len(series) > 1 and all(_ORDERED.fullmatch(one.name) for one in series) else "c"
    return [f"{shade}{at}" for at in range(len(series))]


def _line(xs: Sequence[float], values: Sequence[float | None], across: Scale, up: Scale) -> str:
    """A path with a gap where a value is not known, or no logarithm; a lone point becomes a dot."""
    path, pen = [], False
    for x, value in _thinned(xs, values):
        if value is None or (up.log and value <= 0):
            pen = False
            continue
        point = f"{_n(across.at(x) * BODY)} {_n((1 - up.at(value)) * BODY)}"
        path.append(f"L{point}" if pen else f"M{point}h0")
        pen = True
    return "".join(path)


def _area(xs: Sequence[float], values: Sequence[float | None], across: Scale, up: Scale) -> str:
    """What is between the line and zero, in one piece for each stretch without a gap."""
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
        f'<line class="grid{" zero" if tick.strong else ""}" x1="0" x2="100%" y1="{_p(1 - tick.at)}" y2="{_p(1 - tick.at)}"/>'
        f'<text class="y" x="-10" y="{_p(1 - tick.at)}" dy=".33em">{markup(tick.text)}</text>'
        for tick in y_ticks
    )
    return (
        f'<div class="stage m{min(max((margin + 1) // 2, 2), 7)}" id="{name}-stage" role="img" '
        f'aria-labelledby="{name}-title" aria-describedby="{name}-about">'
        f'<svg class="axes" aria-hidden="true">{rows}{_x_axis(x_ticks)}'
        f'<svg class="body" viewBox="0 0 {BODY} {BODY}" preserveAspectRatio="none" width="100%" height="100%">{"".join(drawn)}</svg>'
        "</svg></div>"
    )


def _x_axis(ticks: Sequence[Tick]) -> str:
    """Every second tick is left out where there is little room, but none that begins a day."""
    return "".join(
        f'<g class="x{" second" if at % 2 and not tick.strong else ""}{" day" if tick.strong else ""}">'
        f'<line x1="{_p(tick.at)}" x2="{_p(tick.at)}" y1="100%" y2="100%"/>'
        f'<text x="{_p(tick.at)}" y="100%" dy="1.55em"{_anchor(tick.at)}>{markup(tick.text)}</text></g>'
        for at, tick in enumerate(ticks)
    )


def _anchor(at: float) -> str:
    return ' class="first"' if at < 0.03 else ' class="last"' if at > 0.97 else ""


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


# Bars with names, and timelines


def _named_bars(chart: Chart, name: str) -> Plot:
    """One row for each name: what it is, a bar, and the value in words. Nothing here needs a pointer."""
    series = _stackable(chart.series) if chart.kind == "stacked-bars" else chart.series[:SERIES_MAX]
    colours = _colours(series)
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
            f'<li{" class=more" if at >= CATEGORIES_FIRST else ""}><span class="name" title="{text}"><bdi>{text}</bdi></span>'
            f'<span class="value">{markup(said)}</span>{_named_bar(chart, series, colours, values, longest)}</li>'
        )
    body = f'<ol class="bars" aria-labelledby="{name}-title">{"".join(rows)}</ol>{_more(len(rows), CATEGORIES_FIRST)}'
    if not rows:
        body = '<p class="nothing">Nothing to plot in this time.</p>'
    return Plot(_figure(chart, name, _legend(series, colours, ()), body, ""), None)


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
                f'<rect class="bar {colours[at]}" x="{_p(left)}" width="{_p(size)}" y="{_p(y)}" height="{_p(height)}" rx="1.5">'
                f"<title>{markup(said)}</title></rect>"
            )
        left += size if rows == 1 else 0.0
    spoken = "" if len(series) == 1 else f'<span class="vh">{markup(_list(chart, series, values))}</span>'
    return f'<svg class="hbar r{rows}" aria-hidden="true"><rect class="rail" width="100%" height="100%" rx="2"/>{"".join(parts)}</svg>{spoken}'


def _list(chart: Chart, series: Sequence[Series], values: Sequence[float | None]) -> str:
    return ", ".join(f"{one.name} {shown(chart.unit_y, value)}" for one, value in zip(series, values, strict=True) if value)


def _timeline(chart: Chart, name: str) -> Plot:
    spans = [span for one in chart.series for span in one.spans]
    if not spans:
        return Plot(_figure(chart, name, "", '<p class="nothing">Nothing to plot in this time.</p>', ""), None)
    across, ticks = times_axis(min(span.start_ms for span in spans), max(span.stop_ms for span in spans))
    rows = [
        f'<div class="lane{" more" if at >= CATEGORIES_FIRST else ""}" data-lane="{at}">'
        f'<span class="name" title="{markup(one.name)}"><bdi>{markup(one.name)}</bdi></span>'
        f'<svg class="track" role="img" aria-label="{markup(_lane_spoken(one))}"><rect class="rail" y="50%" width="100%" height="1"/>'
        f"{''.join(_span(span, across) for span in one.spans)}</svg></div>"
        for at, one in enumerate(chart.series)
    ]
    body = (
        f'<div class="timeline" id="{name}-stage" aria-labelledby="{name}-title">{"".join(rows)}'
        f'<div class="lane scale" aria-hidden="true"><span class="name"></span><svg class="axis">{_x_axis(ticks)}</svg></div></div>'
        f"{_more(len(rows), CATEGORIES_FIRST)}"
    )
    lanes = [
        {"name": visible(one.name), "spans": [[s.start_ms, s.stop_ms, visible(s.label), s.verdict] for s in one.spans]}
        for one in chart.series
    ]
    figures: dict[str, object] = {"kind": "timeline", "across": [across.low, across.high], "lanes": lanes}
    return Plot(_figure(chart, name, _verdicts(spans), body, _period(across.low, across.high)), figures)


_HEIGHTS = {"ok": (0.36, 0.28), "none": (0.36, 0.28), "attention": (0.2, 0.6), "problem": (0.05, 0.9)}


def _span(span: Span, across: Scale) -> str:
    """The worse, the taller: colour is not the only sign."""
    left, right = across.at(span.start_ms), across.at(span.stop_ms)
    if span.stop_ms <= span.start_ms:
        return f'<circle class="span s-{span.verdict}" cx="{_p(left)}" cy="50%" r="5"/>'
    y, height = _HEIGHTS[span.verdict]
    return f'<rect class="span s-{span.verdict}" x="{_p(left)}" width="{_p(right - left)}" y="{_p(y)}" height="{_p(height)}"/>'


def _lane_spoken(one: Series) -> str:
    bad = [span for span in one.spans if span.verdict in ("problem", "attention")]
    long_s = sum(span.stop_ms - span.start_ms for span in bad) / 1000
    return f"{one.name}: {len(bad)} times not well, {shown('duration_s', long_s)} in all"


def _verdicts(spans: Sequence[Span]) -> str:
    labels: dict[str, set[str]] = {}
    for span in spans:
        labels.setdefault(span.verdict, set()).add(span.label)
    words = {"problem": "Problem", "attention": "Attention", "ok": "OK", "none": "Other"}
    items = []
    for verdict, word in words.items():
        if verdict in labels:
            text = next(iter(labels[verdict])) if len(labels[verdict]) == 1 else word
            key = _HEIGHTS[verdict]
            items.append(
                f'<li><svg class="key" aria-hidden="true"><rect class="span s-{verdict}" width="100%" y="{_p(key[0])}" '
                f'height="{_p(key[1])}"/></svg>{markup(text)}</li>'
            )
    return f'<ul class="legend">{"".join(items)}</ul>'


# What all have


def _figure(chart: Chart, name: str, legend: str, body: str, spoken: str) -> str:
    scale = '<span class="unit">logarithmic scale</span>' if "grid" in body and chart.log_y else ""
    about = f'<p class="about" id="{name}-about">{markup(spoken)}</p>' if spoken else ""
    return (
        f'<figure class="plot {chart.kind}" id="{name}"><figcaption><h4 id="{name}-title">{markup(chart.title)}</h4>{scale}</figcaption>'
        f"{legend}{body}{about}</figure>"
    )


def _legend(series: Sequence[Series], colours: Sequence[str], others: Sequence[Series]) -> str:
    if len(series) + len(others) < 2:
        return ""
    items = [
        f'<li><button type="button" class="switch" aria-pressed="true" data-series="{at}">'
        f'<svg class="key {colour}" aria-hidden="true"><line class="line {colour}" x2="100%" y1="50%" y2="50%"/>'
        f'<rect class="bar {colour}" width="100%" height="100%" rx="2"/></svg><bdi>{markup(one.name)}</bdi></button></li>'
        for at, (one, colour) in enumerate(zip(series, colours, strict=True))
    ]
    if others:
        items.append(
            '<li class="others"><svg class="key" aria-hidden="true"><line class="line faint" x2="100%" y1="50%" y2="50%"/></svg>'
            f"{len(others)} others</li>"
        )
    return f'<ul class="legend">{"".join(items)}</ul>'


def _more(total: int, first: int) -> str:
    return f'<button type="button" class="show-more">Show all {total:,}</button>' if total > first else ""


def _spoken(chart: Chart) -> str:
    """The plot in words: the period, and for each of the leading lines its lowest, highest and last value."""
    words = [_period(float(chart.x[0]), float(chart.x[-1]))] if chart.unit_x == "time" else []
    for one in chart.series[:SERIES_MAX]:
        known = [value for value in one.values if value is not None]
        if known:
            low, high, last = (shown(chart.unit_y, value) for value in (min(known), max(known), known[-1]))
            words.append(f"{one.name}: lowest {low}, highest {high}, last {last}.")
    return " ".join(words)


def _period(low_ms: float, high_ms: float) -> str:
    low, high = shown("time", low_ms), shown("time", high_ms)
    return f"From {low[11:16]} on {day(low_ms)} to {high[11:16]} on {day(high_ms)}, UTC."


def _rounded(value: float | None) -> float | None:
    if value is None or isinstance(value, int):
        return value
    return int(value) if value.is_integer() and abs(value) < 1e15 else float(f"{value:.6g}")


def _n(value: float) -> str:
    text = f"{value:.1f}"
    return text[:-2] if text.endswith(".0") else text


def _p(fraction: float) -> str:
    return f"{fraction * 100:.2f}".rstrip("0").rstrip(".") + "%"
