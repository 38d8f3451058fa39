"""Counts by size: how many of what was measured fell between fixed bounds. Pure."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate

from wire.figure import figure, figures


@figures
class HistogramFigures:
    """How many of what was measured fell between two bounds."""

    bounds: tuple[float, ...] = figure("In rising order; what is equal to one counts below it.")
    counts: tuple[int, ...] = figure("One more than bounds: the last is of what lies above all; none counts what another does.")
    sum: float = figure("Of all that was measured.")

    def cumulative(self) -> list[tuple[float, int]]:
        """How many fell at or below each bound, and behind the last, which is infinity, all."""
        return list(zip((*self.bounds, float("inf")), accumulate(self.counts), strict=True))


class Histogram:
    """The measurements since the process began; a value that is equal to a bound counts below it."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        """bounds: in rising order, in the unit of what is measured."""
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def add(self, value: float, count: int = 1) -> None:
        """``count`` things were measured, ``value`` each."""
        self._counts[bisect_left(self._bounds, value)] += count
        self._sum += value * count

    def figures(self) -> HistogramFigures:
        """For ``bascule status``."""
        return HistogramFigures(bounds=self._bounds, counts=tuple(self._counts), sum=round(self._sum, 6))
