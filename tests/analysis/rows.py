"""Rows out of Arrow batches, in the form in which ``plainly`` has them: times as microseconds, maps as sorted pairs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from analysis.tables.reader import EVERYTHING, Problem, SplitFilters, plan, read
from storage.snapshots.manifest import find_snapshots

Row = dict[str, Any]


def rows_of(batches: Iterable[pa.RecordBatch]) -> list[Row]:
    found: list[Row] = []
    for batch in batches:
        columns: dict[str, list[Any]] = {}
        for field, column in zip(batch.schema, batch.columns, strict=True):
            if pa.types.is_timestamp(field.type):
                columns[field.name] = column.cast(pa.int64()).to_pylist()
            elif pa.types.is_map(field.type):
                columns[field.name] = [sorted(pairs) for pairs in column.to_pylist()]
            else:
                columns[field.name] = column.to_pylist()
        found.extend(dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True))
    return found


def table(
    path: Path,
    name: str,
    columns: Sequence[str] | None = None,
    filters: SplitFilters = EVERYTHING,
    *,
    target_rows: int = 250_000,
    problems: list[Problem] | None = None,
) -> list[Row]:
    """All rows; where ``problems`` is given, damage is skipped and put there."""
    tell = None if problems is None else problems.append
    damaged = "fail" if problems is None else "skip"
    splits = plan(find_snapshots(path), name, target_rows, filters, damaged=damaged, on_problem=tell)  # type: ignore[arg-type]
    return [
        row
        for split in splits
        for row in rows_of(read(split, columns, filters, damaged=damaged, on_problem=tell))  # type: ignore[arg-type]
    ]
