"""Which metrics an expression names."""

from __future__ import annotations

import re

from supervisor.metrics.table import METRICS

_HISTOGRAMS = {metric.name for metric in METRICS if metric.kind == "histogram"}


def named(text: str) -> set[str]:
    """The metrics of Bascule in ``text``; the series of a histogram are called like it."""
    found = set()
    for name in re.findall(r"\bbascule_\w+", text):
        family = re.sub("_(bucket|sum|count)$", "", name)
        found.add(family if family in _HISTOGRAMS else name)
    return found
