"""Timelines: one row for each link or node, with its stretches of time.

The worse a stretch, the taller: colour is not the only sign.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from analysis.page.figure import NOTHING, ROWS_FIRST, Plot, figure, more, percent, period, x_axis
from analysis.page.scale import Scale, times_axis
from analysis.page.text import markup, shown, visible
from analysis.reports.report_model import Chart, Series, Span


def timeline(chart: Chart, name: str) -> Plot:
    spans = [span for one in chart.series for span in one.spans]
    if not spans:
        return Plot(figure(chart, name, "", NOTHING), None)
    across, ticks = times_axis(min(span.start_ms for span in spans), max(span.stop_ms for span in spans))
    rows = [
        f'<div class="lane{" more" if at >= ROWS_FIRST else ""}" data-lane="{at}">'
        f'<span class="name" title="{markup(one.name)}"><bdi>{markup(one.name)}</bdi></span>'
        f'<svg class="track" role="img" aria-label="{markup(_lane_spoken(one))}"><rect class="rail" y="50%" width="100%" '
        f'height="1"/>'
        f"{''.join(_span(span, across) for span in one.spans)}</svg></div>"
        for at, one in enumerate(chart.series)
    ]
    body = (
        f'<div class="timeline" id="{name}-stage" aria-labelledby="{name}-title">{"".join(rows)}'
        f'<div class="lane scale" aria-hidden="true"><span class="name"></span><svg class="axis">{x_axis(ticks)}</svg></div></div>'
        f"{more(len(rows))}"
    )
    lanes = [
        {"name": visible(one.name), "spans": [[s.start_ms, s.stop_ms, visible(s.label), s.verdict] for s in one.spans]}
        for one in chart.series
    ]
    figures: dict[str, object] = {"kind": "timeline", "across": [across.low, across.high], "lanes": lanes}
    return Plot(figure(chart, name, _verdicts(spans), body, period(across.low, across.high)), figures)


_HEIGHTS = {"ok": (0.36, 0.28), "none": (0.36, 0.28), "attention": (0.2, 0.6), "problem": (0.05, 0.9)}


def _span(span: Span, across: Scale) -> str:
    """The worse, the taller: colour is not the only sign."""
    left, right = across.at(span.start_ms), across.at(span.stop_ms)
    if span.stop_ms <= span.start_ms:
        return f'<circle class="span s-{span.verdict}" cx="{percent(left)}" cy="50%" r="5"/>'
    y, height = _HEIGHTS[span.verdict]
    where = f'x="{percent(left)}" width="{percent(right - left)}" y="{percent(y)}" height="{percent(height)}"'
    return f'<rect class="span s-{span.verdict}" {where}/>'


def _lane_spoken(one: Series) -> str:
    bad = [span for span in one.spans if span.verdict in ("problem", "attention")]
    long_s = sum(span.stop_ms - span.start_ms for span in bad) / 1000
    return f"{one.name}: {len(bad)} times not well, {shown('duration_s', long_s)} in all"


def _verdicts(spans: Sequence[Span]) -> str:
    """The meaning of heights and colours: the words that the labels of a verdict begin with, if those are the same in all of
    them."""
    labels: dict[str, set[str]] = {}
    for span in spans:
        labels.setdefault(span.verdict, set()).add(re.split("[:,]", span.label)[0])
    words = {"problem": "Problem", "attention": "Attention", "ok": "OK", "none": "Other"}
    items = []
    for verdict, word in words.items():
        if verdict in labels:
            text = labels[verdict].pop() if len(labels[verdict]) == 1 else word
            key = _HEIGHTS[verdict]
            items.append(
                f'<li class="plain"><svg class="key" aria-hidden="true"><rect class="span s-{verdict}" width="100%" '
                f'y="{percent(key[0])}" '
                f'height="{percent(key[1])}"/></svg>{markup(text)}</li>'
            )
    return f'<ul class="legend">{"".join(items)}</ul>'
