"""Appended messages: stored or kept in memory, and there once they are committed."""

from __future__ import annotations

import pytest

from storage.engine.engine import Write
from tests.storage.building import RecordingEngine, batch, messages
from tests.storage.queues import append, handed, open_queue


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


@pytest.mark.parametrize(("qos", "stored", "in_memory"), [([1, 2], 2, 0), ([0, 0], 0, 2), ([0, 1, 0], 1, 2)])
@pytest.mark.parametrize("durable", [True, False])
def test_qos_0_is_kept_apart_where_the_engine_is_durable(qos: list[int], stored: int, in_memory: int, durable: bool) -> None:
    engine = RecordingEngine()
    engine.durable = durable
    queue = open_queue(engine)

    append(engine, queue, batch([b"x"] * len(qos), qos))

    expected = (stored, in_memory) if durable else (stored + in_memory, 0)
    assert (queue.depth_on_disk, queue.depth - queue.depth_on_disk) == expected
    assert len(list(engine.scan("msg", b"", b"\xff"))) == (expected[0] > 0)
    assert queue.ledger.accepted == len(qos)


def test_a_sequence_is_given_once_and_the_chunk_and_its_row_are_one_write() -> None:
    """queue.sequence-never-reused, queue.chunk-with-its-tail"""
    engine = RecordingEngine()
    queue = open_queue(engine)
    one = batch([b"a", b"b"])
    write = Write()

    assert queue.append(one.encode(), 2, one.size_bytes(), 0, write) == range(2)
    assert queue.append(one.encode(), 2, one.size_bytes(), 0, write) == range(2, 4)
    queue.write_row(write)

    assert (queue.tail, queue.depth) == (0, 4), "it counts, and is not there yet"
    assert [family for _, family, _, _ in write.ops] == ["msg", "msg", "meta"]
    engine.commit(write, sync=True)
    assert (queue.tail, open_queue(engine).tail) == (4, 4)
    assert open_queue(engine).append(one.encode(), 2, one.size_bytes(), 0, Write()) == range(4, 6)
