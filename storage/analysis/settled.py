"""The settlements of a queue: read in bulk, as rows of the table, and as an index from sequences to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import msgpack
import numpy as np

from storage.analysis.runs import Longs, Runs, numbered
from storage.analysis.store import SnapshotStore
from storage.history import SETTLEMENT_VERSION, SETTLES_NOTHING, settlement_key
from wire.errors import ConfigError, StorageDamaged

_KEY_BYTES = 13

Missing = Callable[[int, int, str], None]  # settlements [first, stop) cannot be read, and why


class Settlements:
    """Ranges that were settled, in columns: entry ``i`` is ``[starts[i], stops[i])``, settled by ``numbers[i]``."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._stops: list[int] = []
        self._rows: list[int] = []  # per entry the row in the columns below
        self._outcomes: list[int] = []
        self._row_numbers: list[int] = []
        self._row_ms: list[int] = []
        self._row_by: list[int] = []
        self.outcome_names: dict[str, int] = {}
        self.by_names: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._starts)

    def add(self, number: int, fields: Any) -> None:
        """One row.

        Raises:
            StorageDamaged, ConfigError: it is none of this version.
        """
        try:
            version, settled_ms, by, outcomes, *_ = fields
            if version != SETTLEMENT_VERSION:
                raise ConfigError("a settlement was written by another version", version=version, known=SETTLEMENT_VERSION)
            row = len(self._row_numbers)
            for outcome, ranges in outcomes:
                code = self.outcome_names.setdefault(outcome, len(self.outcome_names))
                for start, stop in ranges:
                    if start >= stop:
                        continue
                    self._starts.append(start)
                    self._stops.append(stop)
                    self._rows.append(row)
                    self._outcomes.append(code)
            self._row_by.append(self.by_names.setdefault(by, len(self.by_names)))
        except (TypeError, ValueError) as error:
            raise StorageDamaged("a settlement is damaged", number=number) from error
        self._row_numbers.append(number)
        self._row_ms.append(settled_ms)

    @cached_property
    def starts(self) -> Longs:
        """First sequences."""
        return np.array(self._starts, np.int64)

    @cached_property
    def stops(self) -> Longs:
        """One past the last sequences."""
        return np.array(self._stops, np.int64)

    @cached_property
    def _of_row(self) -> Longs:
        return np.array(self._rows, np.int64)

    @cached_property
    def numbers(self) -> Longs:
        """The settlements' numbers."""
        return np.array(self._row_numbers, np.int64)[self._of_row]

    @cached_property
    def settled_ms(self) -> Longs:
        """When, UTC epoch."""
        return np.array(self._row_ms, np.int64)[self._of_row]

    @cached_property
    def by(self) -> Longs:
        """Who: places in ``by_names``."""
        return np.array(self._row_by, np.int64)[self._of_row]

    @cached_property
    def outcome(self) -> Longs:
        """What became of them: places in ``outcome_names``."""
        return np.array(self._outcomes, np.int64)

    @cached_property
    def index(self) -> Runs:
        """The entry that settled a sequence; -1 for none."""
        nothing = self.outcome_names.get(SETTLES_NOTHING, -1)
        entries = np.flatnonzero(self.outcome != nothing)
        runs = numbered(self.starts[entries], self.stops[entries], -1)
        if len(entries) == len(self):
            return runs
        return Runs(runs.bounds, np.where(runs.values < 0, -1, np.append(entries, -1)[runs.values]))

    @classmethod
    def read(cls, store: SnapshotStore, queue: int, first: int, stop: int, missing: Missing) -> Settlements:
        """The settlements ``[first, stop)`` of ``queue`` as one. What is not there is told to ``missing``.

        Raises: as ``read_settlements``.
        """
        every = cls()
        for _ in read_settlements(store, queue, first, stop, missing, into=every):
            pass
        return every


def read_settlements(
    store: SnapshotStore, queue: int, first: int, stop: int, missing: Missing, *, into: Settlements | None = None
) -> Iterator[Settlements]:
    """The settlements ``[first, stop)`` of ``queue``, some at a time, or ``into`` one. What is not there is told to ``missing``.

    Raises:
        ConfigError: another version wrote one.
        Unavailable: the disk refuses for now.
    """
    due, why = first, "settlements are missing"

    def damaged(_start: bytes, _stop: bytes, error: str) -> None:
        nonlocal why
        why = error

    start, end = settlement_key(queue, first), settlement_key(queue, stop)
    for bulk in store.bulks_around("history", start, end, _KEY_BYTES, damaged):
        found = Settlements() if into is None else into
        for key, value in zip(*bulk, strict=True):
            number = int.from_bytes(key[5:13], "big")
            if number != due:
                missing(due, number, why)
                why = "settlements are missing"
            due = number + 1
            try:
                found.add(number, msgpack.unpackb(value))
            except (StorageDamaged, ValueError, TypeError, msgpack.UnpackException) as error:
                missing(number, due, str(error))
        yield found
    if due < stop:
        missing(due, stop, why)
