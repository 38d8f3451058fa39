"""Columns as Arrow arrays, in the types of ``tables.arrow_schema``: numpy's are passed on without copying where they can be."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

BATCH_ROWS_MAX = 10_000
BATCH_BYTES_MAX = 8 << 20

STRING, LONG, INT = pa.string(), pa.int64(), pa.int32()
TIMESTAMP = pa.timestamp("us", tz="UTC")

Longs = npt.NDArray[np.int64]
Makers = Mapping[str, Callable[[], Any]]


def same(value: object, kind: pa.DataType, count: int) -> pa.Array:
    """``value``, or null, ``count`` times."""
    return pa.nulls(count, kind) if value is None else pa.repeat(pa.scalar(value, kind), count)


def longs(column: npt.NDArray[Any], *, null: npt.NDArray[np.bool_] | None = None, kind: pa.DataType = LONG) -> pa.Array:
    """Whole numbers; null where ``null`` says so."""
    return pa.array(column, mask=null if null is not None and null.any() else None, type=kind)


def times(ms: Longs, *, null: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """Times from milliseconds of the UTC epoch; null where ``null`` says so."""
    return longs(ms * 1000, null=null).view(TIMESTAMP)


def picked(names: Sequence[str | None] | pa.Array, places: npt.NDArray[Any]) -> pa.Array:
    """For each of ``places`` that one of ``names``; null for a place below 0."""
    if not isinstance(names, pa.Array):
        names = pa.array(names, STRING)
    return names.take(pa.array(places, mask=places < 0 if len(places) and places.min() < 0 else None))


def texts(raw: Sequence[bytes]) -> pa.Array:
    """Strings from UTF-8; what is none is shown with replacement characters."""
    try:
        return pa.array(raw, pa.binary()).cast(STRING)
    except pa.ArrowInvalid:
        return pa.array([each.decode(errors="replace") for each in raw], STRING)


def binaries(joined: bytes, lengths: Longs) -> pa.Array:
    """The parts of ``joined``, which is not copied."""
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return pa.Array.from_buffers(pa.binary(), len(lengths), [None, pa.py_buffer(offsets), pa.py_buffer(joined)])


def batch(schema: pa.Schema, makers: Makers) -> pa.RecordBatch:
    """The columns of ``schema``, each made by its maker; no other maker is called."""
    return pa.RecordBatch.from_arrays([makers[name]() for name in schema.names], schema=schema)


def rows_batch(schema: pa.Schema, rows: Sequence[Mapping[str, Any]]) -> pa.RecordBatch:
    """A batch from rows, for the small tables; times are microseconds."""
    return pa.RecordBatch.from_arrays([pa.array([row[of.name] for row in rows], of.type) for of in schema], schema=schema)


def slices(made: pa.RecordBatch, lengths: Longs | None = None) -> Iterator[pa.RecordBatch]:
    """``made`` in pieces that keep to the limits. lengths: bytes of each row's payload, if it is in there."""
    ends = np.cumsum(lengths) if lengths is not None else None
    start = 0
    while start < made.num_rows:
        stop = min(made.num_rows, start + BATCH_ROWS_MAX)
        if ends is not None:
            before = int(ends[start - 1]) if start else 0
            stop = max(start + 1, min(stop, int(np.searchsorted(ends, before + BATCH_BYTES_MAX, "right"))))
        yield made.slice(start, stop - start)
        start = stop
