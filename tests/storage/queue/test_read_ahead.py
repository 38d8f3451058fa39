"""The next chunks of a queue are read once, and not at all if they are still in memory."""

from __future__ import annotations

import pytest

from storage.engine.engine import Write
from storage.engine.keys import chunk_key
from storage.queue.chunk_reader import ChunkReader, ReadAhead
from tests.storage.building import QUEUE, batch
from tests.storage.queues import CountingEngine, append, chunk, open_queue
from wire.errors import StorageDamaged


def test_what_was_just_committed_is_handed_out_without_reading_and_byte_for_byte() -> None:
    engine = CountingEngine()
    queue = open_queue(engine)
    large = batch([b"x" * 300] * 200)
    append(engine, queue, large)

    (piece,) = queue.hand_out(1000, 1 << 30)

    assert piece.body == large.encode()
    assert engine.reads == 0


def test_opening_reads_one_chunk_whatever_the_backlog() -> None:
    engine = CountingEngine()
    queue = open_queue(engine)
    for _ in range(50):
        append(engine, queue, *[batch([b"x"] * 20) for _ in range(20)])
    engine.reads = 0

    reopened = open_queue(engine)

    assert reopened.depth == 20_000
    assert reopened.size_bytes == queue.size_bytes
    assert engine.reads == 1


def stored(*firsts: int, cache_bytes: int = 1 << 20) -> tuple[CountingEngine, ReadAhead]:
    """Chunks of ten sequences each, on disk and, as far as the cache goes, in memory."""
    engine, write = CountingEngine(), Write()
    upcoming = ReadAhead(ChunkReader(engine, QUEUE, 1, 0), 0, 0, cache_bytes)
    for first_seq in firsts:
        write.put("msg", chunk_key(1, first_seq), chunk(first_seq, 10).encode())
        upcoming.add(chunk(first_seq, 10))
    engine.commit(write, sync=True)
    return engine, upcoming


def firsts(upcoming: ReadAhead, cursor: int, chunks_max: int | None = None) -> list[int]:
    """The first sequences of all that comes next."""
    found = []
    while (first := upcoming.first(cursor, chunks_max)) is not None:
        found.append(first.first_seq)
        upcoming.pop()
        cursor = first.stop
    return found


@pytest.mark.parametrize("cache_bytes", [0, 15, 25, 1000])
def test_what_the_cache_does_not_hold_is_read_once_in_order(cache_bytes: int) -> None:
    engine, upcoming = stored(0, 10, 20, cache_bytes=cache_bytes)
    on_disk = upcoming.low // 10

    assert firsts(upcoming, 0) == [0, 10, 20]
    assert engine.reads == on_disk
    upcoming.begin_at(12)
    assert firsts(upcoming, 12) == [10, 20], "from the middle of a chunk: that chunk is read, too"
    assert upcoming.first(30, None) is None


def test_a_smaller_cache_leaves_the_newest_and_the_whole_batch_goes_with_its_chunk() -> None:
    _, upcoming = stored(0, 10)
    upcoming.add(chunk(20, 10), b"the whole of it")
    assert upcoming.whole(20) == b"the whole of it"

    upcoming.keep(35)
    assert (upcoming.low, upcoming.whole(20)) == (20, b"the whole of it")
    assert upcoming.first(0, 1) is not None
    assert upcoming.whole(20) is None, "it is not what comes next"
    upcoming.keep(0)
    upcoming.begin_at(20)
    assert (upcoming.low, upcoming.whole(20)) == (30, None)


def test_what_is_skipped_is_not_read() -> None:
    _, upcoming = stored(0, 10, 20, 30, cache_bytes=25)
    upcoming.first(0, 1)

    passed = upcoming.skip(25)
    upcoming.go_on(25)

    assert passed is not None
    assert passed.first_seq == 0, "the second was never read"
    assert not upcoming.has_read(25)
    assert firsts(upcoming, 25) == [20, 30]


def test_what_could_be_read_before_a_damaged_chunk_goes_first() -> None:
    engine, upcoming = stored(0, 10, 20, cache_bytes=0)
    write = Write()
    write.put("msg", chunk_key(1, 10), b"damaged")
    engine.commit(write, sync=True)

    first = upcoming.first(0, None)
    assert first is not None
    assert first.first_seq == 0
    upcoming.pop()
    with pytest.raises(StorageDamaged):
        upcoming.first(10, None)
    upcoming.begin_at(20, aligned=True)
    assert firsts(upcoming, 20) == [20]
