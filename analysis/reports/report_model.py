"""A finished report as plain values: what the console, the JSON file and the HTML page show, and nothing of how it was found out.

Owns the shape and its JSON form. Standard library only, so that a page can be rendered where there is no Spark. The reports fill it
(``analysis/reports/``), ``analysis/page/page.py`` and ``supervisor/cli/report.py`` show it.

Units: a time is milliseconds since 1970 in UTC, a duration seconds, a percentage 0 to 100, a size bytes. ``None`` is "not known".
Texts such as topics and reasons come from outside: whoever shows them escapes them.
"""

from __future__ import annotations

import json
import types
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

FORMAT = 1

Verdict = Literal["ok", "attention", "problem", "none"]  # none: there was nothing to judge
Kind = Literal["text", "count", "bytes", "duration_s", "percent", "time", "state"]  # a cell of kind state is a Verdict
ChartKind = Literal["lines", "bars", "stacked-bars", "timeline"]
Unit = Literal["text", "count", "bytes", "duration_s", "percent", "time", "per_s"]
Cell = str | int | float | None

_WORST_FIRST: tuple[Verdict, ...] = ("problem", "attention", "ok", "none")


def worst(*verdicts: Verdict) -> Verdict:
    """The worst of them; ``none`` if there is none."""
    return min(verdicts, key=_WORST_FIRST.index, default="none")


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of a section's table. ``name`` is stable, for programs; ``title`` is for people."""

    name: str
    title: str
    kind: Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A stretch of a timeline: [``start_ms``, ``stop_ms``), with what it says when looked at. Equal ends mark a moment."""

    start_ms: int
    stop_ms: int
    label: str
    verdict: Verdict = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One line, one colour of bars, or one row of a timeline (``spans``). ``values`` has one for each x; ``None`` is a gap."""

    name: str
    values: tuple[float | None, ...] = ()
    spans: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A plot. ``x`` are times (``unit_x`` = time), ascending, or names (text); a timeline has no x, its spans have times.

    ``log_y``: the y axis is better logarithmic (no value is 0 or less then).
    """

    kind: ChartKind
    title: str
    x: tuple[str | int | float, ...] = ()
    series: tuple[Series, ...]
    unit_x: Unit = "time"
    unit_y: Unit = "count"
    log_y: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One report: a question, its answer in a word and in a sentence, then the figures.

    ``rows`` are the worst or the largest first, at most some thousands; ``rows_total`` says how many there are (all are in the
    Parquet output).
    """

    name: str
    title: str
    question: str
    verdict: Verdict
    summary: str
    columns: tuple[Column, ...] = ()
    rows: tuple[tuple[Cell, ...], ...] = ()
    rows_total: int = 0
    charts: tuple[Chart, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One figure of a card."""

    name: str
    title: str
    kind: Kind
    value: Cell


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One bridge of one node (``bridge`` is empty: the local sessions of the node) at a glance, with why it got its verdict."""

    node: str
    bridge: str
    verdict: Verdict
    summary: str
    at_ms: int
    facts: tuple[Fact, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotUsed:
    """A snapshot that the report was made of. ``newest``: its node's state was taken from it."""

    node: str
    snapshot_id: str
    at_ms: int
    newest: bool
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something unreadable that was left out, by the operator's choice. ``queue`` is empty if it was the whole snapshot."""

    path: str
    queue: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All of it. ``verdict`` and ``headline`` answer first whether everything adds up. Cards come worst first."""

    title: str
    verdict: Verdict
    headline: str
    made_at_ms: int
    since_ms: int | None = None
    until_ms: int | None = None
    nodes: tuple[str, ...]
    snapshots: tuple[SnapshotUsed, ...]
    cards: tuple[Card, ...]
    sections: tuple[Section, ...]
    problems: tuple[Problem, ...]
    format: int = field(default=FORMAT)

    def section(self, name: str) -> Section:
        """The section called ``name``.

        Raises:
            KeyError: there is none.
        """
        for section in self.sections:
            if section.name == name:
                return section
        raise KeyError(name)

    def to_json(self) -> str:
        """One JSON object; ``from_json`` gives an equal report."""
        return json.dumps(_plain(self), ensure_ascii=False, allow_nan=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Report:
        """The report that ``to_json`` wrote.

        Raises:
            ValueError: it is no report, or a newer build wrote it.
        """
        fields_read = json.loads(text)
        if not isinstance(fields_read, dict) or fields_read.get("format") != FORMAT:
            raise ValueError(f"this is no report of format {FORMAT}")
        try:
            report = _build(cls, fields_read)
        except (KeyError, TypeError) as error:
            raise ValueError("this is no whole report") from error
        assert isinstance(report, cls)
        return report


def _plain(value: object) -> object:
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: _plain(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    return value


@cache
def _hints(kind: type) -> Mapping[str, Any]:
    return get_type_hints(kind)


def _build(kind: Any, value: Any) -> Any:
    if is_dataclass(kind):
        assert isinstance(kind, type)
        return kind(**{name: _build(hint, value[name]) for name, hint in _hints(kind).items()})
    if get_origin(kind) is tuple:
        return tuple(_build(get_args(kind)[0], one) for one in value)
    allowed = _alternatives(kind)
    if value not in allowed and not any(isinstance(one, type) and isinstance(value, one) for one in allowed):
        raise TypeError(f"{value!r} is not {kind}")
    return value


def _alternatives(kind: Any) -> tuple[Any, ...]:
    """The values (of a Literal) and types that ``kind`` allows."""
    allowed = get_args(kind) if get_origin(kind) in (Union, types.UnionType, Literal) else (kind,)
    return (*allowed, int) if float in allowed else allowed
