"""Functions of the sequence that are constant over runs: what state, or which settlement, a sequence has. Numpy only."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Longs = npt.NDArray[np.int64]
Ranges = Iterable[tuple[int, int]]


class Runs(NamedTuple):
    """``values[i]`` holds for the sequences ``[bounds[i], bounds[i + 1])``; the last one goes on, the first has no beginning."""

    bounds: Longs
    values: Longs

    def of(self, seqs: Longs) -> Longs:
        """The value of each sequence; those in rising order take a fraction of the time."""
        if len(seqs) and (seqs[1:] >= seqs[:-1]).all():
            first, last = np.maximum(np.searchsorted(self.bounds, seqs[[0, -1]], "right"), 1)
            edges = np.searchsorted(seqs, self.bounds[first:last], "left")
            return np.repeat(self.values[first - 1 : last], np.diff(edges, prepend=0, append=len(seqs)))
        return self.values[np.maximum(np.searchsorted(self.bounds, seqs, "right") - 1, 0)]

    def uniform(self, starts: Longs, stops: Longs) -> Longs:
        """The value that all of ``[start, stop)`` have; -1 where there are several."""
        first = np.maximum(np.searchsorted(self.bounds, starts, "right") - 1, 0)
        last = np.maximum(np.searchsorted(self.bounds, stops - 1, "right") - 1, 0)
        return np.where(first == last, self.values[first], -1)


def painted(default: int, layers: Iterable[tuple[Ranges, int]]) -> Runs:
    """``default``, and over it, one after the other, each layer's value on its ranges (which may overlap)."""
    columns = [(np.array(list(ranges), np.int64).reshape(-1, 2), value) for ranges, value in layers]
    bounds = np.unique(np.concatenate([np.array([np.iinfo(np.int64).min]), *(column.ravel() for column, _ in columns)]))
    values = np.full(len(bounds), default, np.int64)
    for column, value in columns:
        edges = np.zeros(len(bounds) + 1, np.int64)
        np.add.at(edges, np.searchsorted(bounds, column[:, 0]), 1)
        np.add.at(edges, np.searchsorted(bounds, column[:, 1]), -1)
        values[np.cumsum(edges)[:-1] > 0] = value
    return Runs(bounds, values)


def numbered(starts: Longs, stops: Longs, default: int) -> Runs:
    """The number of the range that a sequence is in, the lowest if there are several; ``default`` in none."""
    order = np.argsort(starts, kind="stable")
    low, high = starts[order], stops[order]
    lowest = np.array([np.iinfo(np.int64).min])
    if (low[1:] >= high[:-1]).all():  # none overlap: each is a run, and behind it there is a gap or the next
        bounds = np.concatenate([lowest, np.stack([low, high], axis=1).ravel()])
        values = np.full(len(bounds), default, np.int64)
        values[1::2] = order
        kept = np.append(bounds[1:] > bounds[:-1], True)
        return Runs(bounds[kept], values[kept])
    bounds = np.unique(np.concatenate([lowest, starts, stops]))
    values = np.full(len(bounds), default, np.int64)
    first, last = np.searchsorted(bounds, starts), np.searchsorted(bounds, stops)
    for number in range(len(starts) - 1, -1, -1):
        values[first[number] : last[number]] = number
    return Runs(bounds, values)
