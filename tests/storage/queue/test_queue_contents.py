"""Looking at a queue: stored and QoS 0 messages in order, without what is settled, and nothing is changed by it."""

from __future__ import annotations

from storage.engine.engine import Write
from storage.engine.keys import chunk_key
from storage.queue.queue import Queue
from tests.storage.building import RecordingEngine, batch
from tests.storage.queues import append, open_queue
from wire.errors import StorageDamaged


def filled() -> tuple[RecordingEngine, Queue]:
    """Three batches of four: mixed, QoS 0, and QoS 1; the first is handed out, and its second message settled."""
    engine = RecordingEngine()
    queue = open_queue(engine, cache_bytes=0)
    rows = ([0, 1, 0, 2], [0] * 4, [1] * 4)
    append(engine, queue, *[batch([b"%d" % (4 * at + row) for row in range(4)], qos) for at, qos in enumerate(rows)])
    queue.hand_out(4, 1 << 30)
    queue.settle("delivered", ((1, 2),))
    return engine, queue


def read(queue: Queue, start: int, stop: int) -> list[int]:
    found = list(queue.read(start, stop))
    assert [message.payload for message in found] == [b"%d" % message.seq for message in found]
    return [message.seq for message in found]


def test_all_of_it_is_read_in_order_whatever_was_handed_out() -> None:
    _, queue = filled()

    assert read(queue, 0, 99) == [0, *range(2, 12)]
    assert read(queue, 3, 9) == [3, 4, 5, 6, 7, 8]
    assert (queue.cursor, queue.depth, queue.in_flight) == (4, 11, 3)


def test_what_would_be_settled_and_what_is_in_flight() -> None:
    _, queue = filled()

    assert queue.in_hand(((0, 5), (10, 99))) == [(0, 1), (2, 5), (10, 12)]
    assert queue.in_flight_ranges() == ((0, 1), (2, 4))


def test_what_is_in_memory_only_is_listed_once() -> None:
    _, queue = filled()

    messages, size_bytes, chunks = queue.in_memory()

    assert (messages, [chunk.first_seq for chunk in chunks]) == (6, [0, 4])
    assert size_bytes == sum(chunk.size_bytes for chunk in chunks)


def test_damage_is_told_and_the_rest_is_read() -> None:
    engine, queue = filled()
    write = Write()
    write.put("msg", chunk_key(1, 0), b"damaged")
    engine.commit(write, sync=True)
    met: list[StorageDamaged] = []

    found = [message.seq for message in queue.read(0, 99, damage=met.append)]

    assert found == [0, 2, *range(4, 12)]
    assert len(met) == 1
