"""A metric: its name and what it means, and where in the status its values stand. Pure.

A path leads there: ``store.commits``; ``bridges[].depth``, once for each row, labelled as the row's ``LABELS`` say; and
``http.refused{reason}``, once for each key, which is the label ``reason``. A value that nobody has reported yet, or that is not
configured, is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from wire.figure import Kind
from wire.status.histogram import HistogramFigures

_UNITS = {"seconds": "s", "bytes": "By", "ratio": "1", "messages": "{message}"}

Labels = tuple[str, ...]
Value = float | HistogramFigures


@dataclass(frozen=True, slots=True)
class Metric:
    """A ``FigureMetric`` with the path of its figure. labels: the names of its labels, those of rows that are in ``per`` only."""

    name: str
    kind: Kind
    path: str
    text: str
    labels: Labels
    known: tuple[str, ...] = ()
    beside: str = ""
    words: tuple[tuple[str, str], ...] = ()

    @property
    def unit(self) -> str:
        """The unit that its name ends with, as UCUM writes it; empty where it is a count of something else."""
        return _UNITS.get(self.name.removesuffix("_total").rpartition("_")[2], "")

    @property
    def told_as(self) -> str:
        """Its kind for people: a gauge, however its value is made."""
        return "gauge" if self.kind in ("given", "count", "equals") else self.kind

    def values(self, status: Any) -> dict[Labels, Value]:
        """Its values in ``status``, by their labels; the first one where several rows tell the same."""
        found: dict[Labels, Value] = {}
        for labels, value in self._found(status, [step for step in self.path.split(".") if step], {}):
            kept = tuple(text for name, text in labels.items() if name in self.labels)
            for more, one in self._made(value):
                found.setdefault((*kept, *more), one)
        return found

    def _found(self, value: Any, steps: list[str], labels: dict[str, str]) -> Iterator[tuple[dict[str, str], Any]]:
        """The values where ``steps`` lead from ``value``, with their labels."""
        if not steps:
            yield labels, value
            return
        name, _, label = steps[0].partition("{")
        below = getattr(value, name.removesuffix("[]"))
        if name.endswith("[]"):
            for row in below:
                of_row = {label: str(getattr(row, key)) for label, key in row.LABELS.items()}
                yield from self._found(row, steps[1:], labels | of_row)
        elif not label and (below is not None or not steps[1:]):
            yield from self._found(below, steps[1:], labels)
        elif below is not None:
            zeros = dict.fromkeys(self.known, 0) if not self.beside or getattr(value, self.beside) is not None else {}
            for key, one in {**zeros, **below}.items():
                yield from self._found(one, steps[1:], {**labels, label[:-1]: str(key)})

    def _made(self, value: Any) -> Iterator[tuple[Labels, Value]]:
        """The values that are made of ``value``, each with the labels that it adds."""
        if self.kind == "given":
            yield (), float(bool(value))
        elif value is None:
            return
        elif self.kind == "states":
            yield from (((str(state),), float(state == value)) for state in dict.fromkeys((*self.known, value)))
        elif self.kind == "info":
            texts = tuple(_text(value, path) for _, path in self.words)
            yield from [(texts, 1.0)] if any(texts) else []
        elif self.kind == "histogram":
            yield (), value
        elif self.kind == "count":
            yield (), float(len(value))
        elif self.kind == "equals":
            yield (), float(value in self.known)
        else:
            yield (), float(value) / 1000 if self.path.endswith("_ms") else float(value)


def _text(value: Any, path: str) -> str:
    for name in path.split("."):
        value = None if value is None else getattr(value, name)
    return "" if value is None else str(value)
