"""Which of Spark's filters the reader of snapshots can use, and what they leave of a reading.

A filter here may only narrow: what it leaves is a superset of the rows that satisfy it, and Spark evaluates each filter again.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from storage.analysis.tables.reader import Filters
from storage.analysis.tables.schemas import TIME_COLUMN
from storage.snapshots.manifest import Manifest

_NAMES = {"node": "nodes", "queue": "queues", "bridge": "bridges", "state": "states"}
_STATES_OF = ("messages", "inflight")
_SEQS_OF = ("messages", "inflight", "dead_letters")
_UNJUDGED = ("snapshots", "damage")  # rows without a node or a time are in them, too
_EPOCH = datetime.fromtimestamp(0, UTC)

Bounds = tuple[int | None, int | None]  # [low, high)


class Narrowed:
    """A reading of ``table`` that filters narrow, one after the other."""

    def __init__(self, table: str, filters: Filters) -> None:
        """filters: what the options say."""
        self.filters = filters
        self._table = table
        self._snapshots: frozenset[str] | None = None
        self._made_us: Bounds = (None, None)

    @property
    def nothing(self) -> bool:
        """Whether no row can be left."""
        filters = self.filters
        named = (filters.nodes, filters.queues, filters.bridges, filters.states, self._snapshots)
        bounds = ((filters.seq_from, filters.seq_to), (filters.since_us, filters.until_us), self._made_us)
        return any(names is not None and not names for names in named) or any(
            low is not None and high is not None and low >= high for low, high in bounds
        )

    def takes(self, manifest: Manifest | None) -> bool:
        """Whether a snapshot can have rows that are left. The planning judges those without a manifest."""
        if manifest is None:
            return True
        low, high = self._made_us
        made_us = manifest.at_ms * 1000
        return (
            (self._snapshots is None or manifest.id in self._snapshots)
            and (low is None or made_us >= low)
            and (high is None or made_us < high)
        )

    def push(self, condition: Filter) -> bool:
        """Narrow by ``condition``; whether that could be done."""
        column = _column(condition)
        names = _values(condition)
        bounds = _bounds(condition)
        if column is None or (self._table in _UNJUDGED and column not in ("snapshot_id", "snapshot_at")):
            return False
        if column == "snapshot_id" and names is not None:
            self._snapshots = names if self._snapshots is None else self._snapshots & names
        elif column == "snapshot_at" and bounds is not None:
            self._made_us = _within(self._made_us, bounds)
        elif column in _NAMES and names is not None and (column != "state" or self._table in _STATES_OF):
            self._name(_NAMES[column], names)
        elif bounds is not None:
            return self._bound(column, bounds)
        else:
            return False
        return True

    def _name(self, field: str, names: frozenset[str]) -> None:
        former: tuple[str, ...] | None = getattr(self.filters, field)
        left = sorted(names) if former is None else [name for name in former if name in names]
        changed: dict[str, Any] = {field: tuple(left)}
        self.filters = replace(self.filters, **changed)

    def _bound(self, column: str, bounds: Bounds) -> bool:
        filters, (low, high) = self.filters, bounds
        if column == TIME_COLUMN[self._table]:
            low, high = _within((filters.since_us, filters.until_us), bounds)
            self.filters = replace(filters, since_us=low, until_us=high)
            return True
        if self._table == "settlements":  # rows that reach into [seq_from, seq_to)
            if column == "last_seq" and low is not None:
                bounds = (low, None)
            elif column == "first_seq" and high is not None:
                bounds = (None, high)
            else:
                return False
        elif column != "seq" or self._table not in _SEQS_OF:
            return False
        low, high = _within((filters.seq_from, filters.seq_to), bounds)
        self.filters = replace(filters, seq_from=low, seq_to=high)
        return True


def _column(condition: Filter) -> str | None:
    path: tuple[str, ...] = getattr(condition, "attribute", ())
    return path[0] if len(path) == 1 else None


def _values(condition: Filter) -> frozenset[str] | None:
    """The texts that ``condition`` allows; None where it is about something else."""
    match condition:
        case EqualTo(value=str() as value) | EqualNullSafe(value=str() as value):
            return frozenset((value,))
        case In(value=values):
            return frozenset(value for value in values if value is not None) if _all_texts(values) else None
        case _:
            return None


def _all_texts(values: Any) -> bool:
    return all(value is None or isinstance(value, str) for value in values)


def _bounds(condition: Filter) -> Bounds | None:
    """The whole numbers, or times in microseconds, that ``condition`` allows; None where it is about something else."""
    match condition:
        case In(value=values):
            numbers = [_number(value) for value in values if value is not None]
            known = [number for number in numbers if number is not None]
            return (min(known), max(known) + 1) if known and len(known) == len(numbers) else None
        case EqualTo() | EqualNullSafe() | GreaterThan() | GreaterThanOrEqual() | LessThan() | LessThanOrEqual():
            number = _number(condition.value)
        case _:
            return None
    if number is None:
        return None
    match condition:
        case GreaterThan():
            return number + 1, None
        case GreaterThanOrEqual():
            return number, None
        case LessThan():
            return None, number
        case LessThanOrEqual():
            return None, number + 1
        case _:
            return number, number + 1


def _number(value: object) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, datetime):
        return moment_us(value)
    return None


def moment_us(moment: datetime) -> int:
    """UTC epoch in microseconds; a time without a zone is UTC."""
    since = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def _within(one: Bounds, other: Bounds) -> Bounds:
    lows = [low for low in (one[0], other[0]) if low is not None]
    highs = [high for high in (one[1], other[1]) if high is not None]
    return max(lows, default=None), min(highs, default=None)
