"""Counts by size: how many of what was measured fell between fixed bounds. Pure.

A figure of ``status``: ``counts`` has one more than ``bounds``, for what is above the last; none of them counts what another does.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Any


class Histogram:
    """What was measured since the process began; a value that is equal to a bound counts below it."""

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

    def figures(self) -> dict[str, Any]:
        """For ``bascule status``."""
        return {"bounds": list(self._bounds), "counts": list(self._counts), "sum": round(self._sum, 6)}
