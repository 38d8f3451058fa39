"""What leaves a queue before it is handed out: too old, too much, or settled by another."""

from __future__ import annotations

from storage.queue.queue import Queue
from tests.storage.building import RecordingEngine, batch
from tests.storage.queues import append, handed, open_queue


def filled(*accepted_ms: int) -> tuple[RecordingEngine, Queue]:
    """Batches of three, the middle one of QoS 0, accepted at these times; what is stored is read from disk."""
    engine = RecordingEngine()
    queue = open_queue(engine, cache_bytes=0)
    for at, ms in enumerate(accepted_ms):
        append(engine, queue, batch([b"%d" % (3 * at + row) for row in range(3)], [1, 0, 2], accepted_ms=ms))
    return engine, queue


def payloads(*numbers: int) -> list[bytes]:
    return [b"%d" % number for number in numbers]


def test_what_is_too_old_expires_up_to_the_first_that_is_not() -> None:
    _, queue = filled(100, 200, 300, 100)

    assert queue.oldest_ms() == 100
    assert queue.expire(250) == 6
    assert (queue.ledger.expired, queue.depth, queue.head, queue.oldest_ms()) == (6, 6, 6, 300)
    assert handed(queue.hand_out(100, 1 << 30, accepted_before_ms=250)) == payloads(6, 7, 8)
    assert queue.ledger.expired == 9, "what is behind it expires when it is next"
    assert queue.ledger.closes(queue.depth)


def test_a_hand_out_stops_behind_what_expired_on_disk() -> None:
    _, queue = filled(100, 300)

    assert queue.hand_out(100, 1 << 30, accepted_before_ms=250) == []
    assert handed(queue.hand_out(100, 1 << 30, accepted_before_ms=250)) == payloads(3, 4, 5)


def test_the_oldest_are_dropped_by_messages_or_by_bytes_and_in_the_middle_of_a_batch() -> None:
    _, queue = filled(100, 200)
    size_bytes = queue.size_bytes

    assert queue.drop_oldest(2, 0) == 2
    assert (queue.head, queue.depth, queue.ledger.dropped) == (2, 4, {"overflow": 2})
    assert queue.drop_oldest(0, size_bytes // 6) == 1
    assert handed(queue.hand_out(100, 1 << 30)) == payloads(3, 4, 5)
    assert queue.drop_oldest(1, 0) == 0, "what is handed out is not dropped"


def test_what_was_handed_out_before_a_reset_neither_expires_nor_is_dropped() -> None:
    _, queue = filled(100)
    queue.hand_out(100, 1 << 30)
    queue.reset(forwarder_lives=True)

    assert (queue.expire(1 << 40), queue.drop_oldest(3, 0)) == (0, 0)
    assert handed(queue.hand_out(100, 1 << 30, accepted_before_ms=1 << 40)) == payloads(0, 1, 2)


def test_what_waits_may_be_settled_and_is_passed_then() -> None:
    _, queue = filled(100, 200, 300)
    queue.look_waiting(((0, 5),))
    assert (queue.depth, queue.head) == (9, 0)

    assert queue.settle("delivered", ((1, 5), (4, 7))) == 6
    assert queue.settle("delivered", ((1, 7),)) == 0

    assert handed(queue.hand_out(100, 1 << 30)) == payloads(0, 7, 8)
    assert queue.settle("delivered", ((0, 9),)) == 3
    assert (queue.depth, queue.size_bytes, queue.ledger.delivered) == (0, 0, 9)
