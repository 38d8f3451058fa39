"""Which chunks the disk keeps."""

from __future__ import annotations

from typing import Any

import pytest

from storage.engine.engine import Write
from storage.engine.keys import chunk_key
from storage.queue.chunk_reader import ChunkReader
from storage.queue.history import TRIM_BYTES, TRIM_MESSAGES, Trimming
from storage.queue.ledger import HistoryRow
from tests.storage.building import QUEUE, RecordingEngine, batch
from tests.storage.queues import append, new_row, open_queue, trimmed


def test_settled_chunks_are_deleted_many_at_a_time() -> None:
    """queue.trimmed-after-settled"""
    engine = RecordingEngine()
    queue = open_queue(engine)
    append(engine, queue, *[batch([b"x"] * 100) for _ in range(60)])
    queue.hand_out(10_000, 1 << 30)
    deletes = []
    for stop in range(1000, 6001, 1000):
        queue.settle("delivered", ((0, stop),))
        write = Write()
        queue.trimming.trim(write, idle=False)
        deletes.append(bool(write))
        queue.write_row(write)
        engine.commit(write, sync=False)

    assert deletes == [False, False, False, False, True, False]
    assert len(list(engine.scan("msg", b"\0", b"\xff"))) == 10
    write = Write()
    queue.trimming.trim(write, idle=True)
    engine.commit(write, sync=False)
    assert list(engine.scan("msg", b"\0", b"\xff")) == []


def test_chunks_that_were_settled_before_they_were_read_are_deleted_with_those_around_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new life of the store hands out two chunks, has read the third, and is told that this and half of the next are settled."""
    monkeypatch.setattr("storage.queue.chunk_reader.READ_AHEAD_CHUNKS", 2)
    engine = RecordingEngine()
    append(engine, open_queue(engine), *[batch([b"%d" % number] * 2) for number in range(5)])
    queue = open_queue(engine)
    queue.hand_out(4, 1 << 30)
    queue.settle("delivered", ((0, 7),))

    assert trimmed(engine, queue)[-2:] == [6, 8]
    queue.hand_out(100, 1 << 30)
    assert trimmed(engine, queue) == [6, 8]
    queue.settle("delivered", ((7, 10),))
    assert trimmed(engine, queue) == []


def test_a_chunk_that_is_handed_out_in_parts_is_deleted_after_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """queue.trimmed-after-settled"""
    monkeypatch.setattr("storage.queue.waiting_messages.SPLIT_ROWS", 2)
    engine = RecordingEngine()
    queue = open_queue(engine)
    append(engine, queue, batch([b"a"] * 2), batch([b"b"] * 6))
    for stop in (4, 6, 8):
        queue.hand_out(4 if stop == 4 else 2, 1 << 30)
        queue.settle("delivered", ((0, stop),))
        assert trimmed(engine, queue) == ([2] if stop < 8 else [])


def trimming(engine: RecordingEngine, live: list[tuple[int, int]], *, retained: bool, **row: Any) -> Trimming:
    reader = ChunkReader(engine, QUEUE, 1, row.get("trimmed", 0))
    return Trimming(engine, reader, new_row(**row), lambda: live[-1], lambda: None, retained=retained)


def test_only_what_is_below_the_earliest_chunk_that_is_needed_goes_and_once() -> None:
    """queue.trimmed-after-settled"""
    live = [(30, 300)]
    of_queue = trimming(RecordingEngine(), live, retained=False)
    write = Write()

    of_queue.trim(write, idle=False)
    assert write.ops == [], "it is little"
    for _ in range(2):
        of_queue.trim(write, idle=True)
        assert write.ops == [("delete_range", "msg", chunk_key(1, 0), chunk_key(1, 30))]
    live.append((30 + TRIM_MESSAGES, 400))
    of_queue.trim(write, idle=False)
    assert write.ops[1:] == [("delete_range", "msg", chunk_key(1, 30), chunk_key(1, 30 + TRIM_MESSAGES))]
    assert of_queue.kept_bytes(1000) == 600
    live.append((31 + TRIM_MESSAGES, 400 + TRIM_BYTES))
    of_queue.trim(write, idle=False)
    assert len(write.ops) == 3, "few, and large"


def test_where_there_was_only_qos_0_nothing_is_deleted() -> None:
    of_queue = trimming(RecordingEngine(), [(30, 0)], retained=False)
    write = Write()

    of_queue.trim(write, idle=True)
    assert (write.ops, of_queue.trimmed) == ([], 0)


def test_a_history_keeps_the_chunks_until_it_is_cut() -> None:
    """queue.history-without-gap"""
    live = [(30, 300)]
    of_queue = trimming(RecordingEngine(), live, retained=True)
    assert of_queue.history is not None
    write = Write()

    of_queue.trim(write, idle=True)
    assert (write.ops, of_queue.trimmed, of_queue.retained(35), of_queue.size_bytes) == ([], 30, 35, 300)
    assert of_queue.kept_bytes(1000) == 1000
    of_queue.cut(write, below=20)
    assert write.ops == [("delete_range", "msg", chunk_key(1, 0), chunk_key(1, 20))], "where no chunk begins later"
    assert (of_queue.history.begins, of_queue.row().chunks_from) == (20, 20)


def test_a_history_begins_where_nothing_has_left_the_queue() -> None:
    began = trimming(RecordingEngine(), [(30, 300)], retained=True, head=30, trimmed=20, settled=((35, 40),))
    assert (began.row().begins, began.row().chunks_from) == (40, 20)

    began.restart(50, ())
    assert began.row().begins == 50


def test_a_history_that_nobody_wants_any_more_goes_with_the_next_row() -> None:
    kept = HistoryRow(begins=10, chunks_from=5, chunks_bytes=50, first=2, next=7)
    of_queue = trimming(RecordingEngine(), [(30, 300)], retained=False, head=30, trimmed=30, history=kept)
    assert (of_queue.history, of_queue.row()) == (None, HistoryRow(first=7, next=7)), "no number is given twice"

    write = Write()
    of_queue.write(write, 1000, 30, 30)
    of_queue.write(write, 1000, 30, 30)

    assert [(op, family) for op, family, _, _ in write.ops] == [("delete_range", "history"), ("delete_range", "msg")]
    assert write.ops[1][2:] == (chunk_key(1, 5), chunk_key(1, 30)), "up to what is live"
