"""The cursor of a queue: over settled messages, through both kinds of chunks, and back again after a reset."""

from __future__ import annotations

from array import array

from storage.queue.chunk_reader import ChunkReader
from storage.queue.hand_out_cursor import Cursor
from storage.queue.settled_ranges import Settled
from tests.storage.building import QUEUE, RecordingEngine
from tests.storage.queues import chunk, new_row
from wire.ranges import RangeSet

NOTHING = RangeSet()


def cursor_over(*stored: int, qos0: tuple[int, ...] = ()) -> Cursor:
    """Batches of ten messages from 0 on, some of them stored, some QoS 0, some mixed: of these every other row is QoS 0."""
    cursor = Cursor(ChunkReader(RecordingEngine(), QUEUE, 1, 0), new_row(), qos0_max_bytes=1 << 20, cache_bytes=1 << 20)
    size_bytes = 0
    for first_seq in sorted({*stored, *qos0}):
        mixed = first_seq in stored and first_seq in qos0
        kept = chunk(first_seq, 10, offsets=array("I", range(0, 10, 2)) if mixed else None, bytes_before=size_bytes)
        apart = chunk(first_seq, 10, offsets=array("I", range(1, 10, 2)) if mixed else None, bytes_before=size_bytes)
        cursor.on_committed(first_seq + 10, kept if first_seq in stored else None, None)
        if first_seq in qos0:
            cursor.qos0.add(apart, Settled(new_row(), None, lambda: None), 0)
        size_bytes += kept.size_bytes if first_seq in stored else 0
    return cursor


def walk(cursor: Cursor) -> list[tuple[int, bool, bool]]:
    """The next batches: where each begins, and whether it is stored and QoS 0."""
    found = []
    while cursor.seq < cursor.tail:
        batch = cursor.peek(NOTHING, None)
        found.append((batch.chunk.first_seq, batch.stored is not None, batch.qos0 is not None))
        cursor.pop(batch)
        cursor.move(batch.chunk.stop)
    return found


def test_stored_and_qos_0_come_in_the_order_of_their_sequences_and_a_mixed_batch_at_once() -> None:
    cursor = cursor_over(0, 20, 30, qos0=(10, 30))

    assert walk(cursor) == [(0, True, False), (10, False, True), (20, True, False), (30, True, True)]
    assert (cursor.seq, cursor.bytes_before, cursor.floor) == (40, 250, (40, 250))
    assert not cursor.peek(NOTHING, None).exists


def test_what_is_settled_is_passed_and_the_floor_is_at_the_chunk_around_the_cursor() -> None:
    """queue.cursor-after-handed-out"""
    cursor = cursor_over(0, 10, 20)

    batch = cursor.peek(RangeSet(((0, 15),)), None)

    assert (batch.chunk.first_seq, cursor.seq, cursor.floor, cursor.bytes_before) == (10, 15, (10, 100), 100)
    cursor.forget_below(12)
    assert cursor.seq == 15
    cursor.forget_below(30)
    assert (cursor.seq, cursor.floor, cursor.bytes_before) == (30, (30, 300), 300)


def test_inside_of_a_batch_the_bytes_below_count_by_rows() -> None:
    cursor = cursor_over(0, 10)

    cursor.move_into(cursor.peek(NOTHING, None), 4)

    assert (cursor.seq, cursor.bytes_before, cursor.floor) == (4, 40, (0, 0))


def test_after_a_reset_everything_comes_again() -> None:
    """queue.cursor-after-handed-out"""
    cursor = cursor_over(0, 10, qos0=(20,))
    assert cursor.hand_out(cursor.peek(NOTHING, None)) is not None
    assert (cursor.seq, cursor.in_flight.messages) == (10, 10)

    cursor.go_back(0)

    assert (cursor.seq, cursor.floor, cursor.bytes_before, cursor.in_flight.messages) == (0, (0, 0), 0, 0)


def test_bytes_that_are_missing_between_two_chunks_are_noticed_but_where_they_were_purged() -> None:
    for purged in (False, True):
        cursor = cursor_over(0, 10, 30)
        for _ in range(2):
            batch = cursor.peek(NOTHING, None)
            cursor.pop(batch)
            cursor.move(batch.chunk.stop)
        following = chunk(30, 10, bytes_before=250)  # 50 bytes were in between
        if purged:
            cursor.purged.add(22, 24, 50, 0)
        assert cursor.misses_bytes(following, 30) is not purged
        cursor.purged.clear()
        assert not cursor.misses_bytes(following, 30), "once"
    assert not cursor.misses_bytes(None, 25), "nobody knows what is next"


def test_behind_damage_the_cursor_goes_on_where_a_chunk_begins() -> None:
    cursor = cursor_over(0, 10)
    cursor.skip_damage(10, 100)
    assert (cursor.seq, cursor.bytes_before, cursor.floor) == (10, 100, (10, 100))
    cursor = cursor_over(0)
    cursor.move(10)
    cursor.lose_tail(17)
    assert (cursor.seq, cursor.tail, cursor.floor) == (17, 17, (17, 100))
