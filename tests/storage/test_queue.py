"""The queue by example: what is read, what is joined, what QoS 0 may cost, and that opening costs the same at any length."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

import pytest

from storage.chunk import Chunk
from storage.engine import Family, Write
from storage.keys import first_seq_of
from storage.pieces import JOINED_ROWS_MAX, Piece
from storage.queue import Queue
from tests.storage.building import QUEUE, RecordingEngine, batch, messages, qos0_rows
from wire.batch import Batch, concat, from_rows, head_of, ways_columns
from wire.errors import ConfigError, StorageDamaged


def open_queue(engine: RecordingEngine, **more: int) -> Queue:
    return Queue(engine, QUEUE, 1, first_seq=0, volatile_max_bytes=more.get("volatile_max_bytes", 1 << 20))


def append(engine: RecordingEngine, queue: Queue, *batches: Batch) -> None:
    write = Write()
    for of in batches:
        queue.append(of.encode(), len(of), of.size_bytes(), qos0_rows(of), write)
    queue.write_row(write)
    engine.commit(write, sync=True)


def handed(pieces: list[Piece]) -> list[bytes]:
    return [payload for piece in pieces for _, payload in messages(piece)]


class CountingEngine(RecordingEngine):
    """Counts the rows that are read."""

    reads = 0

    def scan(self, family: Family, start: bytes, stop: bytes) -> Iterator[tuple[bytes, bytes]]:
        for row in super().scan(family, start, stop):
            self.reads += family == "msg"
            yield row


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


def test_a_backlog_of_single_messages_is_handed_out_in_few_pieces() -> None:
    engine = RecordingEngine()
    queue = open_queue(engine)
    append(engine, queue, *[batch([b"%d" % number]) for number in range(2500)])

    pieces = open_queue(engine).hand_out(10_000, 1 << 30)

    assert [piece.count for piece in pieces] == [1000, 1000, 500]
    assert max(piece.count for piece in pieces) <= JOINED_ROWS_MAX
    assert handed(pieces) == [b"%d" % number for number in range(2500)]
    assert len(queue.hand_out(10_000, 1 << 30)) == 3
    assert len(queue._in_flight) == 3, "marks are shared, too"


def test_messages_with_properties_keep_their_second_when_joined() -> None:
    engine = RecordingEngine()
    queue = open_queue(engine)
    batches = []
    for accepted_ms in (1000, 1400, 3000):
        of = batch([b"m"], accepted_ms=accepted_ms)
        of.properties[0] = b"\x02\x00\x00\x00\x05"
        batches.append(of)
    append(engine, queue, *batches)

    pieces = queue.hand_out(10, 1 << 30)

    assert [(piece.count, Batch.decode(piece.body).accepted_ms) for piece in pieces] == [(2, 1000), (1, 3000)]


def test_a_huge_chunk_is_handed_out_in_parts() -> None:
    engine = RecordingEngine()
    queue = open_queue(engine)
    append(engine, queue, batch([b"%d" % number for number in range(9000)]))

    parts = [queue.hand_out(100, 1 << 30) for _ in range(3)]

    assert [len(handed(pieces)) for pieces in parts] == [4000, 4000, 1000]
    assert [payload for pieces in parts for payload in handed(pieces)] == [b"%d" % number for number in range(9000)]


def test_qos_0_is_not_on_disk_and_merges_by_sequence() -> None:
    engine = RecordingEngine()
    queue = open_queue(engine)
    append(engine, queue, batch([b"a0", b"b1", b"c0", b"d2"], [0, 1, 0, 2]), batch([b"e0"], 0))

    assert not any(b"a0" in value or b"c0" in value or b"e0" in value for _, value in engine.scan("msg", b"\0", b"\xff"))
    assert handed(queue.hand_out(100, 1 << 30)) == [b"a0", b"b1", b"c0", b"d2", b"e0"]
    queue.reset(forwarder_lives=True)
    assert handed(queue.hand_out(100, 1 << 30)) == [b"a0", b"b1", b"c0", b"d2", b"e0"]

    restarted = open_queue(engine)
    assert restarted.ledger.dropped == {"restart": 3}
    (piece,) = restarted.hand_out(100, 1 << 30)
    assert messages(piece) == [(1, b"b1"), (3, b"d2")]
    assert restarted.settle("delivered", ((1, 2), (3, 4))) == 2
    assert (restarted.head, restarted.depth) == (5, 0)


def test_memory_for_qos_0_is_bounded_and_the_oldest_goes_first() -> None:
    engine = RecordingEngine()
    queue = open_queue(engine, volatile_max_bytes=250)

    append(engine, queue, *[batch([b"%d" % number * 99], 0) for number in range(5)])

    assert handed(queue.hand_out(100, 1 << 30)) == [b"3" * 99, b"4" * 99]
    assert queue.ledger.dropped == {"qos0_memory": 3}
    assert queue.ledger.closes(queue.depth)
    assert queue.settle("delivered", ((0, 5),)) == 2
    assert queue.size_bytes == 0


def test_what_is_settled_before_it_is_handed_out_again_is_released_no_more() -> None:
    """PUBCOMP may come before the lane has handed the message out anew."""
    engine = RecordingEngine()
    queue = open_queue(engine)
    append(engine, queue, batch([b"a", b"b", b"c"], 2), batch([b"d"], 2))
    queue.hand_out(100, 1 << 30)
    queue.release(((1, 2), (3, 4)))
    queue.reset(forwarder_lives=False)

    assert queue.settle("delivered", ((1, 2), (3, 9))) == 2

    assert (queue.sent.released.ranges(), queue.settled.ranges(), queue.depth) == ((), ((1, 2), (3, 4)), 2)
    assert handed(queue.hand_out(100, 1 << 30)) == [b"a", b"c"]
    assert queue.settle("delivered", ((0, 1), (2, 3))) == 2
    assert (queue.head, queue.size_bytes) == (4, 0)


def test_what_is_released_before_it_is_handed_out_again_is_on_record() -> None:
    """A client whose connection outlives the store tells of its PUBRECs as soon as the lane is opened."""
    engine = RecordingEngine()
    queue = open_queue(engine)
    append(engine, queue, batch([b"a", b"b", b"c"], 2))
    queue.hand_out(100, 1 << 30)
    append(engine, queue)

    reopened = open_queue(engine)
    reopened.reset(forwarder_lives=True)
    reopened.release(((0, 2), (2, 9)))
    append(engine, reopened)

    assert open_queue(engine).sent.released.ranges() == ((0, 3),)


def test_the_order_of_the_pubrecs_is_on_record() -> None:
    engine = RecordingEngine()
    queue = open_queue(engine)
    append(engine, queue, batch([b"a", b"b", b"c", b"d"], 2))
    queue.hand_out(100, 1 << 30)
    queue.release(((1, 3), (0, 1)))
    queue.release(((3, 4),))
    append(engine, queue)

    reopened = open_queue(engine)
    assert reopened.sent.released.ranges() == ((1, 3), (0, 1), (3, 4))
    reopened.hand_out(100, 1 << 30)
    reopened.settle("delivered", ((1, 2),))
    assert reopened.sent.released.ranges() == ((2, 3), (0, 1), (3, 4))


def row_after(engine: RecordingEngine, queue: Queue, *, strong: bool, ahead: bool) -> None:
    write = Write()
    queue.write_row(write, strong=strong, ahead=ahead)
    engine.commit(write, sync=strong)


def test_q6_nothing_durable_is_handed_out_before_a_mark_above_it_is_committed() -> None:
    engine = RecordingEngine()
    queue = open_queue(engine)
    write = Write()
    for payload in (b"a", b"b"):
        queue.append(batch([payload]).encode(), 1, batch([payload]).size_bytes(), 0, write)
    queue.write_row(write, ahead=False)
    engine.commit(write, sync=True)

    assert queue.hand_out(10, 1 << 30) == []
    assert queue.wants_mark
    row_after(engine, queue, strong=False, ahead=True)
    assert queue.hand_out(10, 1 << 30) == [], "a write that is not synced may be lost"
    row_after(engine, queue, strong=True, ahead=False)
    assert handed(queue.hand_out(10, 1 << 30)) == [b"a", b"b"]
    assert not queue.wants_mark


def test_q6_what_was_handed_out_is_neither_dropped_nor_expired_after_a_crash_right_behind_it() -> None:
    engine = RecordingEngine()
    queue = open_queue(engine)
    append(engine, queue, *(batch([b"%d" % number]) for number in range(3)))
    assert len(handed(queue.hand_out(10, 1 << 30))) == 3  # and the store dies: no commit comes any more

    reopened = open_queue(engine)

    assert reopened.drop_oldest(3, 0) == 0
    assert reopened.expire(1 << 40) == 0
    assert handed(reopened.hand_out(10, 1 << 30, accepted_before_ms=1 << 40)) == [b"0", b"1", b"2"]


def test_q6_a_row_that_is_written_again_before_the_commit_takes_no_mark_back() -> None:
    engine = RecordingEngine()
    queue = open_queue(engine)
    write = Write()
    queue.append(batch([b"a"]).encode(), 1, batch([b"a"]).size_bytes(), 0, write)
    queue.write_row(write, ahead=True)  # the disk refuses it, and the lane is opened anew meanwhile
    queue.write_row(write, ahead=False)
    engine.commit(write, sync=True)
    assert handed(queue.hand_out(10, 1 << 30)) == [b"a"]

    assert open_queue(engine).drop_oldest(1, 0) == 0


def test_q6_a_lane_without_credit_leaves_its_messages_to_be_dropped_after_a_restart() -> None:
    engine = RecordingEngine()
    queue = open_queue(engine)
    write = Write()
    for number in range(3):
        queue.append(batch([b"%d" % number]).encode(), 1, batch([b"0"]).size_bytes(), 0, write)
    queue.write_row(write, ahead=False)
    engine.commit(write, sync=True)

    assert open_queue(engine).drop_oldest(2, 0) == 2


def test_settled_chunks_are_deleted_many_at_a_time() -> None:
    engine = RecordingEngine()
    queue = open_queue(engine)
    append(engine, queue, *[batch([b"x"] * 100) for _ in range(60)])
    queue.hand_out(10_000, 1 << 30)
    deletes = []
    for stop in range(1000, 6001, 1000):
        queue.settle("delivered", ((0, stop),))
        write = Write()
        deletes.append(queue.trim(write) is not None)
        queue.write_row(write)
        engine.commit(write, sync=False)

    assert deletes == [False, False, False, False, True, False]
    assert len(list(engine.scan("msg", b"\0", b"\xff"))) == 10
    write = Write()
    assert queue.trim(write, idle=True) is not None
    engine.commit(write, sync=False)
    assert list(engine.scan("msg", b"\0", b"\xff")) == []


def trimmed(engine: RecordingEngine, queue: Queue) -> list[int]:
    """Trim and commit; the first sequences of the chunks that are left."""
    write = Write()
    queue.trim(write, idle=True)
    queue.write_row(write)
    engine.commit(write, sync=True)
    return [first_seq_of(key) for key, _ in engine.scan("msg", b"\0", b"\xff")]


def test_chunks_that_were_settled_before_they_were_read_are_deleted_with_those_around_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new life of the store hands out two chunks, has read the third, and is told that this and half of the next are settled."""
    monkeypatch.setattr("storage.upcoming.READ_AHEAD_CHUNKS", 2)
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
    monkeypatch.setattr("storage.dispatch.SPLIT_ROWS", 2)
    engine = RecordingEngine()
    queue = open_queue(engine)
    append(engine, queue, batch([b"a"] * 2), batch([b"b"] * 6))
    for stop in (4, 6, 8):
        queue.hand_out(4 if stop == 4 else 2, 1 << 30)
        queue.settle("delivered", ((0, stop),))
        assert trimmed(engine, queue) == ([2] if stop < 8 else [])


def test_memory_follows_disk() -> None:
    engine = RecordingEngine()
    queue = open_queue(engine)
    write = Write()
    of = batch([b"a"])
    queue.append(of.encode(), 1, of.size_bytes(), 0, write)
    queue.write_row(write)

    assert queue.hand_out(10, 1 << 30) == []
    engine.commit(write, sync=True)
    assert handed(queue.hand_out(10, 1 << 30)) == [b"a"]


@pytest.mark.parametrize("offsets", [None, array("I", [1, 3])])
def test_a_chunk_is_itself_again_and_any_flipped_bit_is_noticed(offsets: array[int] | None) -> None:
    chunk = Chunk(
        first_seq=7,
        span=4,
        count=4 if offsets is None else 2,
        qos0=1,
        bytes_before=9,
        size_bytes=5,
        accepted_ms=123,
        offsets=offsets,
        body=b"the body",
    )
    value = chunk.encode()
    again = Chunk.decode(value, queue=QUEUE, seq=7)

    assert all(getattr(again, name) == getattr(chunk, name) for name in Chunk.__slots__)
    for at in range(len(value)):
        torn = bytearray(value)
        torn[at] ^= 0x10
        with pytest.raises(StorageDamaged):
            Chunk.decode(bytes(torn), queue=QUEUE, seq=7)
    for length in range(len(value)):
        with pytest.raises(StorageDamaged):
            Chunk.decode(value[:length], queue=QUEUE, seq=7)


def test_a_chunk_of_a_newer_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storage.chunk.CHUNK_VERSION", 2)
    value = Chunk(
        first_seq=0, span=1, count=1, qos0=0, bytes_before=0, size_bytes=1, accepted_ms=0, offsets=None, body=b""
    ).encode()
    monkeypatch.undo()

    with pytest.raises(ConfigError, match="newer"):
        Chunk.decode(value, queue=QUEUE, seq=0)


def test_joined_batches_are_their_rows_one_after_the_other() -> None:
    first = from_rows([(b"a", 1, b"1"), (b"b", 2, b"2")], accepted_ms=5)
    second = from_rows([(b"b", 5, b"3"), (b"c", 0, b"")], accepted_ms=4)
    first.ways, first.way_of = ways_columns([b"7", b"8"])
    second.ways, second.way_of = ways_columns([b"9", b"7"])
    second.properties[1] = b"p"

    joined = concat([first, second])

    ways = joined.ways_of_topics()
    rows = [(joined.topics[topic], ways[topic]) for topic in joined.topic_of]
    assert rows == [(b"a", b"7"), (b"b", b"8"), (b"b", b"9"), (b"c", b"7")]
    assert (joined.rows_payloads(), joined.flags, joined.properties) == ([b"1", b"2", b"3", b""], b"\x01\x02\x05\x00", {3: b"p"})
    assert head_of(joined.encode()) == (4, [b"7", b"8", b"9"])
