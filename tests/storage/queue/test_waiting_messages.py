"""Departures from a queue before hand-out: too old, too much, or settled by another."""

from __future__ import annotations

import pytest

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
    assert queue.expire(lambda at_ms: at_ms < 250) == 6
    assert (queue.ledger.expired, queue.depth, queue.head, queue.oldest_ms()) == (6, 6, 6, 300)
    assert handed(queue.hand_out(100, 1 << 30, too_old=lambda at_ms: at_ms < 250)) == payloads(6, 7, 8)
    assert queue.ledger.expired == 9, "what is behind it expires when it is next"
    assert queue.ledger.closes(queue.depth)


def test_a_hand_out_stops_behind_what_expired_on_disk() -> None:
    _, queue = filled(100, 300)

    assert queue.hand_out(100, 1 << 30, too_old=lambda at_ms: at_ms < 250) == []
    assert handed(queue.hand_out(100, 1 << 30, too_old=lambda at_ms: at_ms < 250)) == payloads(3, 4, 5)


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

    assert (queue.expire(lambda at_ms: at_ms < 1 << 40), queue.drop_oldest(3, 0)) == (0, 0)
    assert handed(queue.hand_out(100, 1 << 30, too_old=lambda at_ms: at_ms < 1 << 40)) == payloads(0, 1, 2)


@pytest.mark.parametrize(("qos", "settled"), [((1, 0, 0), ((4, 6),)), ((0, 0, 0), ((3, 6),)), ((0, 0, 2), ())])
def test_qos_0_behind_the_last_message_on_disk_is_settled_when_the_queue_is_opened_again(
    qos: tuple[int, ...], settled: tuple[tuple[int, int], ...]
) -> None:
    engine, queue = filled(100)
    append(engine, queue, batch([b"%d" % seq for seq in (3, 4, 5)], list(qos)))

    queue = open_queue(engine)

    assert queue.settled.ranges() == settled
    on_disk = [0, 2, *(seq for seq, of in zip((3, 4, 5), qos, strict=True) if of)]
    assert handed(queue.hand_out(100, 1 << 30)) == payloads(*on_disk)
    assert queue.settle("delivered", ((0, 6),)) == len(on_disk)
    assert (queue.head, queue.depth, queue.ledger.dropped) == (6, 0, {"restart": 6 - len(on_disk)})


def test_a_queue_of_nothing_but_qos_0_is_empty_when_it_is_opened_again() -> None:
    engine = RecordingEngine()
    append(engine, open_queue(engine), batch([b"0", b"1"], [0, 0]))

    queue = open_queue(engine)

    assert (queue.head, queue.tail, queue.depth, queue.waiting()) == (2, 2, 0, False)


def test_what_waits_may_be_settled_and_is_passed_then() -> None:
    _, queue = filled(100, 200, 300)
    queue.preload_waiting(((0, 5),))
    assert (queue.depth, queue.head) == (9, 0)

    assert queue.settle("delivered", ((1, 5), (4, 7))) == 6
    assert queue.settle("delivered", ((1, 7),)) == 0

    assert handed(queue.hand_out(100, 1 << 30)) == payloads(0, 7, 8)
    assert queue.settle("delivered", ((0, 9),)) == 3
    assert (queue.depth, queue.size_bytes, queue.ledger.delivered) == (0, 0, 9)
