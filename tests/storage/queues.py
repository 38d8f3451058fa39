"""A queue over an engine of its own, for the tests of its parts."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from storage.engine.engine import Family, Write
from storage.engine.keys import first_seq_of
from storage.queue.chunk import Chunk
from storage.queue.ledger import LedgerRow
from storage.queue.queue import Queue
from tests.storage.building import QUEUE, RecordingEngine, messages, qos0_rows
from wire.frames.batch import Batch


def open_queue(engine: RecordingEngine, *, volatile_max_bytes: int = 1 << 20, **more: Any) -> Queue:
    return Queue(engine, QUEUE, 1, volatile_max_bytes=volatile_max_bytes, **more)


def append(engine: RecordingEngine, queue: Queue, *batches: Batch) -> None:
    write = Write()
    for of in batches:
        queue.append(of.encode(), len(of), of.size_bytes(), qos0_rows(of), write)
    queue.write_row(write)
    engine.commit(write, sync=True)


def handed(pieces: list[Chunk]) -> list[bytes]:
    return [payload for piece in pieces for _, payload in messages(piece)]


def row_after(engine: RecordingEngine, queue: Queue, *, strong: bool, ahead: bool) -> None:
    write = Write()
    queue.write_row(write, strong=strong, ahead=ahead)
    engine.commit(write, sync=strong)


def trimmed(engine: RecordingEngine, queue: Queue) -> list[int]:
    """Trim and commit; the first sequences of the chunks that are left."""
    write = Write()
    queue.trimming.trim(write, idle=True)
    queue.write_row(write)
    engine.commit(write, sync=True)
    return [first_seq_of(key) for key, _ in engine.scan("msg", b"\0", b"\xff")]


def chunk(
    first_seq: int, count: int, *, offsets: array[int] | None = None, bytes_before: int = 0, size_bytes: int | None = None
) -> Chunk:
    """``count`` sequences from ``first_seq`` on, 10 bytes each; of them those at ``offsets``."""
    rows = count if offsets is None else len(offsets)
    return Chunk(
        first_seq=first_seq,
        span=count,
        count=rows,
        qos0=0,
        bytes_before=bytes_before,
        size_bytes=10 * rows if size_bytes is None else size_bytes,
        accepted_ms=1000,
        offsets=offsets,
        body=b"%d" % first_seq * 10,
    )


def new_row(head: int = 0, **more: Any) -> LedgerRow:
    return replace(LedgerRow.begin(head), **more)


class CountingEngine(RecordingEngine):
    """Counts the rows that are read."""

    reads = 0

    def scan(self, family: Family, start: bytes, stop: bytes) -> Iterator[tuple[bytes, bytes]]:
        for row in super().scan(family, start, stop):
            self.reads += family == "msg"
            yield row
