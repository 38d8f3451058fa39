"""A metric: its name and what it means, and where in the answer to ``status`` its values stand. Pure.

A path leads there: ``store.commits``; ``bridges[].depth``, once for each row, labelled as ``LABELS_OF_ROWS`` says; and
``http.refused{reason}``, once for each key, which is the label ``reason``. What nobody has reported yet, and what is not
configured, has no value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

_UNITS = {"seconds": "s", "bytes": "By", "ratio": "1", "messages": "{message}"}

Kind = Literal["gauge", "counter", "histogram", "states", "info"]
Labels = tuple[str, ...]

# Label and key of the rows of a list.
LABELS_OF_ROWS: dict[str, dict[str, str]] = {
    "bridges": {"bridge": "name", "lane": "lane"},
    "processes": {"process": "name"},
    "actors": {"actor": "name"},
    "unserved": {"queue": "queue"},
}


@dataclass(frozen=True, slots=True)
class Buckets:
    """A histogram: how many of what was measured fell between two bounds, the last above them all, and the sum of all of it."""

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    total: float

    def cumulative(self) -> list[tuple[float, int]]:
        """How many fell at or below each bound, and behind the last, which is infinity, all."""
        rising, so_far = [], 0
        for bound, count in zip((*self.bounds, float("inf")), self.counts, strict=True):
            so_far += count
            rising.append((bound, so_far))
        return rising


def number(value: Any) -> float:
    """A number as it is; true is 1 and false 0."""
    return float(value)


def seconds(value: Any) -> float:
    """Milliseconds as seconds."""
    return float(value) / 1000


def given(value: Any) -> float:
    """1 if there is something, else 0."""
    return float(bool(value))


def count(value: Any) -> float:
    """How many there are."""
    return float(len(value))


@dataclass(frozen=True, slots=True)
class Metric:
    """kind: a counter only grows, but for restarts; states: 1 for the one state of ``known`` that holds, 0 for the others.

    path: where its values are. text: what it is. known: keys that have a value, 0, before the status has them, as soon as there is
    something at ``beside``. read: makes the value; what is None has one only if that is ``given``. per: which labels of
    its rows stay, where several rows tell the same. label: of states, what their label is called. words: of an info, its further
    labels and where below ``path`` each stands; without any text there is no value.
    """

    name: str
    kind: Kind
    path: str
    text: str
    known: tuple[str, ...] = ()
    beside: str = ""
    read: Callable[[Any], float] = number
    per: tuple[str, ...] | None = None
    label: str = "state"
    words: Mapping[str, str] = field(default_factory=dict)

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of its labels."""
        names: list[str] = []
        for step in self._steps():
            name, _, label = step.partition("{")
            names += LABELS_OF_ROWS[name[:-2]] if name.endswith("[]") else []
            names += [label[:-1]] if label else []
        names = [name for name in names if self.per is None or name in self.per]
        return (*names, *((self.label,) if self.kind == "states" else ()), *self.words)

    @property
    def unit(self) -> str:
        """The unit that its name ends with, as UCUM writes it; empty where it is a count of something else."""
        return _UNITS.get(self.name.removesuffix("_total").rpartition("_")[2], "")

    def values(self, status: Mapping[str, Any]) -> dict[Labels, float | Buckets]:
        """Its values in ``status``, by their labels; the first one where several rows tell the same."""
        found: dict[Labels, float | Buckets] = {}
        for labels, value in self._found(status, self._steps(), {}):
            kept = tuple(text for name, text in labels.items() if self.per is None or name in self.per)
            for more, one in self._made(value):
                found.setdefault((*kept, *more), one)
        return found

    def _steps(self) -> list[str]:
        return [step for step in self.path.split(".") if step]

    def _found(self, value: Any, steps: list[str], labels: dict[str, str]) -> Iterator[tuple[dict[str, str], Any]]:
        """What is where ``steps`` lead from ``value``, with its labels."""
        if not steps:
            yield labels, value
            return
        name, _, label = steps[0].partition("{")
        below = value.get(name.removesuffix("[]"))
        if name.endswith("[]"):
            keys = LABELS_OF_ROWS[name[:-2]]
            for row in below or ():
                yield from self._found(row, steps[1:], {**labels, **{label: str(row[key]) for label, key in keys.items()}})
        elif not label and (below is not None or not steps[1:]):
            yield from self._found(below, steps[1:], labels)
        elif below is not None:
            zeros = dict.fromkeys(self.known, 0) if not self.beside or value.get(self.beside) is not None else {}
            for key, one in {**zeros, **below}.items():
                yield from self._found(one, steps[1:], {**labels, label[:-1]: str(key)})

    def _made(self, value: Any) -> Iterator[tuple[Labels, float | Buckets]]:
        """The values that are made of ``value``, each with the labels that it adds."""
        if self.kind == "states":
            yield from (((state,), float(state == value)) for state in dict.fromkeys((*self.known, value)) if value is not None)
        elif self.kind == "info":
            texts = tuple(_text(value, path.split(".")) for path in self.words.values())
            yield from [(texts, 1.0)] if any(texts) else []
        elif self.kind == "histogram" and value is not None:
            yield (), Buckets(tuple(value["bounds"]), tuple(value["counts"]), value["sum"])
        elif value is not None or self.read is given:
            yield (), self.read(value)


def _text(value: Any, path: list[str]) -> str:
    for key in path:
        value = (value or {}).get(key)
    return "" if value is None else str(value)
