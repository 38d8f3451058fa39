"""Common parts of every plot of the page: its frame, its legend, its axis of times, and how many colours there are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from analysis.page.scale import Tick, day
from analysis.page.text import markup, shown
from analysis.reports.report_model import Chart, Series

SERIES_MAX = 6  # with a colour of their own
ROWS_FIRST = 12  # bars with names, or rows of a timeline, before "show all"
NOTHING = '<p class="nothing">Nothing to plot in this time.</p>'
_ORDERED = re.compile(r"p\d+(\.\d+)?|min|median|mean|max|lowest|highest", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Plot:
    """One figure: its markup, and the figures for the cursor (``None``: everything is in the markup)."""

    html: str
    figures: dict[str, object] | None


def figure(chart: Chart, name: str, legend: str, body: str, spoken: str = "", scale: str = "") -> str:
    """The frame around ``body``. ``spoken`` is the plot in words; ``scale`` stands beside the title."""
    unit = f'<span class="unit">{markup(scale)}</span>' if scale else ""
    about = f'<p class="about" id="{name}-about">{markup(spoken)}</p>' if spoken else ""
    return (
        f'<figure class="plot {chart.kind}" id="{name}"><figcaption><h4 id="{name}-title">{markup(chart.title)}</h4>{unit}'
        f"</figcaption>{legend}{body}{about}</figure>"
    )


def legend(series: Sequence[Series], colours: Sequence[str], others: int = 0, switches: bool = True) -> str:
    """Which colour is what; as ``switches`` that show and hide. Empty where there is nothing to tell apart."""
    if len(series) + others < 2:
        return ""
    items = []
    for at, (one, colour) in enumerate(zip(series, colours, strict=True)):
        key = (
            f'<svg class="key {colour}" aria-hidden="true"><line class="line {colour}" x2="100%" y1="50%" y2="50%"/>'
            f'<rect class="bar {colour}" width="100%" height="100%" rx="2"/></svg><bdi>{markup(one.name)}</bdi>'
        )
        if switches:
            key = f'<button type="button" class="switch" aria-pressed="true" data-series="{at}">{key}</button>'
        items.append(f"<li>{key}</li>" if switches else f'<li class="plain">{key}</li>')
    if others:
        items.append(
            '<li class="plain"><svg class="key" aria-hidden="true"><line class="line faint" x2="100%" y1="50%" y2="50%"/></svg>'
            f"{others:,} others</li>"
        )
    return f'<ul class="legend">{"".join(items)}</ul>'


def more(rows: int) -> str:
    """The button that shows all ``rows``, where some are not shown at first."""
    return f'<button type="button" class="show-more">Show all {rows:,}</button>' if rows > ROWS_FIRST else ""


def stackable(series: Sequence[Series]) -> Sequence[Series]:
    """At most ``SERIES_MAX``, of which the last is the sum of the smaller ones."""
    if len(series) <= SERIES_MAX:
        return series
    largest = sorted(range(len(series)), key=lambda at: -sum(abs(v) for v in series[at].values if v is not None))
    chosen = set(largest[: SERIES_MAX - 1])
    rest = [one for at, one in enumerate(series) if at not in chosen]
    together = tuple(sum(v or 0.0 for v in values) for values in zip(*(one.values for one in rest), strict=True))
    return [*(series[at] for at in sorted(chosen)), Series(name=f"{len(rest)} others together", values=together)]


def colours_of(series: Sequence[Series]) -> list[str]:
    """Percentiles and the like are shades of one colour, from calm to strong; anything else gets colours that are told apart."""
    shade = "o" if len(series) > 1 and all(_ORDERED.fullmatch(one.name) for one in series) else "c"
    return [f"{shade}{at}" for at in range(len(series))]


def x_axis(ticks: Sequence[Tick]) -> str:
    """Every second tick is left out where there is little room, but none that begins a day."""
    return "".join(
        f'<g class="x{" second" if at % 2 and not tick.strong else ""}{" day" if tick.strong else ""}">'
        f'<line x1="{percent(tick.at)}" x2="{percent(tick.at)}" y1="100%" y2="100%"/>'
        f'<text x="{percent(tick.at)}" y="100%" dy="1.55em"{_anchor(tick.at)}>{markup(tick.text)}</text></g>'
        for at, tick in enumerate(ticks)
    )


def _anchor(at: float) -> str:
    return ' class="first"' if at < 0.03 else ' class="last"' if at > 0.97 else ""


def period(low_ms: float, high_ms: float) -> str:
    """From when to when, as a sentence."""
    low, high = shown("time", low_ms), shown("time", high_ms)
    return f"From {low[11:16]} on {day(low_ms)} to {high[11:16]} on {day(high_ms)}, UTC."


def percent(fraction: float) -> str:
    """``fraction`` as SVG takes a length or a position."""
    return f"{fraction * 100:.2f}".rstrip("0").rstrip(".") + "%"
