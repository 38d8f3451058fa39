"""The settlements of a queue: read in bulk, as rows of the table, and as an index from sequences to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from itertools import chain
from typing import Any, Literal

import msgpack
import numpy as np

from analysis.tables.checkpoint_reader import CheckpointReader, uncollected
from analysis.tables.runs import Longs, Runs, numbered
from storage.queue.history import (
    SETTLEMENT_VERSION,
    Settlement,
    rows_about,
    settlement_key,
    settlement_of,
)
from wire.errors import ConfigError, StorageDamaged
from wire.status.outcomes import REDELIVERED

_KEY_BYTES = 13
_UNPACK = partial(msgpack.unpackb, use_list=False)

Name = Literal["numbers", "settled_ms", "by", "outcome"]
Missing = Callable[[int, int, str], None]  # settlements [first, stop) cannot be read, and why


class Settlements:
    """Ranges that were settled, in columns: entry ``i`` is ``[starts[i], stops[i])``, settled by ``numbers[i]``."""

    def __init__(self) -> None:
        self._parts: list[tuple[Longs, ...]] = []  # of each bulk the columns below, one after the other
        self._padded: dict[str, Longs] = {}
        self.outcome_names: dict[str, int] = {}
        self.by_names: dict[str, int] = {}

    def __len__(self) -> int:
        return sum(len(part[0]) for part in self._parts)

    def add(self, numbers: Sequence[int], values: Sequence[bytes], wrong: Callable[[int, str], None]) -> None:
        """Settlements with these numbers and values. One that is none is told to ``wrong``, with why, and left out.

        Raises:
            ConfigError: another version wrote one.
        """
        try:
            with uncollected():
                self._add(numbers, list(map(_UNPACK, values)))
        except (ValueError, TypeError, OverflowError, msgpack.UnpackException) as error:
            if len(numbers) == 1:
                wrong(numbers[0], f"a settlement is damaged: {error!r}")
                return
            for number, value in zip(numbers, values, strict=True):  # one by one, to tell which it is
                self.add([number], [value], wrong)

    def _add(self, numbers: Sequence[int], rows: Sequence[Any]) -> None:
        """All of ``rows`` or, with an error, none. Nothing in here is done for each range by itself."""
        groups, sizes, outcome_of, row_of = [], [], [], []
        row_ms, row_by = [], []
        for row, (version, settled_ms, by, outcomes, *_) in enumerate(rows):
            if version != SETTLEMENT_VERSION:
                raise ConfigError("a settlement was written by another version", version=version, known=SETTLEMENT_VERSION)
            row_ms.append(settled_ms)
            row_by.append(self.by_names.setdefault(by, len(self.by_names)))
            for outcome, ranges in outcomes:
                groups.append(ranges)
                sizes.append(len(ranges))
                outcome_of.append(self.outcome_names.setdefault(outcome, len(self.outcome_names)))
                row_of.append(row)
        ranges = list(chain.from_iterable(groups))
        if not set(map(len, ranges)) <= {2}:
            raise ValueError("a range has two ends")
        starts, stops = np.fromiter(chain.from_iterable(ranges), np.int64, 2 * len(ranges)).reshape(-1, 2).T
        of_group = np.repeat(np.arange(len(groups)), sizes)
        of_row = np.array(row_of, np.int64)[of_group]
        columns = (
            starts,
            stops,
            np.array(numbers, np.int64)[of_row],
            np.array(row_ms, np.int64)[of_row],
            np.array(row_by, np.int64)[of_row],
            np.array(outcome_of, np.int64)[of_group],
        )
        whole = starts < stops
        self._parts.append(columns if whole.all() else tuple(column[whole] for column in columns))

    def _column(self, place: int) -> Longs:
        return np.concatenate([np.zeros(0, np.int64), *(part[place] for part in self._parts)])

    @cached_property
    def starts(self) -> Longs:
        """First sequences."""
        return self._column(0)

    @cached_property
    def stops(self) -> Longs:
        """One past the last sequences."""
        return self._column(1)

    @cached_property
    def numbers(self) -> Longs:
        """The settlements' numbers."""
        return self._column(2)

    @cached_property
    def settled_ms(self) -> Longs:
        """Times, UTC epoch."""
        return self._column(3)

    @cached_property
    def by(self) -> Longs:
        """Actors: places in ``by_names``."""
        return self._column(4)

    @cached_property
    def outcome(self) -> Longs:
        """Outcomes: places in ``outcome_names``."""
        return self._column(5)

    def at(self, column: Name, entries: Longs) -> Longs:
        """A column at these entries; -1 where there is none."""
        if column not in self._padded:
            self._padded[column] = np.append(getattr(self, column), -1)
        return self._padded[column][entries]

    @cached_property
    def index(self) -> Runs:
        """The entry that settled a sequence; -1 for none."""
        nothing = self.outcome_names.get(REDELIVERED, -1)
        entries = np.flatnonzero(self.outcome != nothing)
        runs = numbered(self.starts[entries], self.stops[entries], -1)
        if len(entries) == len(self):
            return runs
        return Runs(runs.bounds, np.where(runs.values < 0, -1, np.append(entries, -1)[runs.values]))

    @classmethod
    def read(cls, store: CheckpointReader, queue: int, first: int, stop: int, missing: Missing) -> Settlements:
        """The settlements ``[first, stop)`` of ``queue`` as one. Parts that are not there are told to ``missing``.

        Raises: as ``read_settlements``.
        """
        every = cls()
        for _ in read_settlements(store, queue, first, stop, missing, into=every):
            pass
        return every


def read_settlements(
    store: CheckpointReader, queue: int, first: int, stop: int, missing: Missing, *, into: Settlements | None = None
) -> Iterator[Settlements]:
    """The settlements ``[first, stop)`` of ``queue``, some at a time, or ``into`` one. Parts that are not there are told to
    ``missing``.

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
        numbers = [int.from_bytes(key[5:13], "big") for key in bulk.keys]
        if numbers[0] != due or numbers[-1] - due != len(numbers) - 1:
            for number in numbers:
                if number != due:
                    missing(due, number, why)
                    why = "settlements are missing"
                due = number + 1
        due = numbers[-1] + 1
        found.add(numbers, bulk.values, lambda number, error: missing(number, number + 1, error))
        yield found
    if due < stop:
        missing(due, stop, why)


def settlements_about(store: CheckpointReader, queue: int, numbers: tuple[int, int], start: int, stop: int) -> tuple[int, int]:
    """The settlements ``[low, high)`` of those with ``numbers`` that can have settled something of ``[start, stop)``.

    Those that cannot be read are not told of here: they are left in where they may matter.

    Raises:
        ConfigError: another version wrote one.
        Unavailable: the disk refuses for now.
    """

    def row_from(low: int, high: int) -> tuple[int, Settlement] | None:
        key, end = settlement_key(queue, low), settlement_key(queue, high)
        try:
            value = store.get("history", key)
            if value is not None:
                return low, Settlement.decode(value)
        except StorageDamaged:
            pass  # the next one that can be read does as well
        for bulk in store.bulks_around("history", key, end, _KEY_BYTES, lambda _start, _stop, _why: None, rows_max=1):
            try:
                return settlement_of(bulk.keys[0])[1], Settlement.decode(bulk.values[0])
            except StorageDamaged:
                continue
        return None

    return rows_about(numbers, start, stop, row_from)
