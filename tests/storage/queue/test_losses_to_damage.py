"""Messages that cannot be read leave the queue, counted, and the queue goes on behind them, in order."""

from __future__ import annotations

import pytest

from storage.engine.engine import Write
from storage.engine.keys import chunk_key
from storage.queue.queue import Queue
from tests.storage.building import RecordingEngine, batch
from tests.storage.queues import append, handed, open_queue
from wire.errors import StorageDamaged


def filled(*missing: int, tail_known: int = 0) -> tuple[RecordingEngine, Queue]:
    """Five batches of three on disk, none of them in memory, but for those that begin at ``missing``."""
    engine = RecordingEngine()
    append(engine, open_queue(engine), *[batch([b"%d" % (3 * at + row) for row in range(3)]) for at in range(5)])
    for first_seq in missing:
        overwrite(engine, first_seq, None)
    return engine, open_queue(engine, tail_known=tail_known)


def overwrite(engine: RecordingEngine, first_seq: int, value: bytes | None) -> None:
    write = Write()
    if value is None:
        write.delete("msg", chunk_key(1, first_seq))
    else:
        write.put("msg", chunk_key(1, first_seq), value)
    engine.commit(write, sync=True)


def payloads(*numbers: int) -> list[bytes]:
    return [b"%d" % number for number in numbers]


def isolated(queue: Queue) -> None:
    """Hand out, meet damage, and take it out of the queue."""
    with pytest.raises(StorageDamaged) as damage:
        queue.hand_out(100, 1 << 30)
    queue.isolate(damage.value)


def test_a_damaged_chunk_is_taken_out_and_its_raw_bytes_are_told() -> None:
    engine, queue = filled()
    whole = engine.get("msg", chunk_key(1, 3))
    assert whole is not None
    damaged = whole[:-1] + b"?"
    overwrite(engine, 3, damaged)

    assert handed(queue.hand_out(100, 1 << 30)) == payloads(0, 1, 2)
    assert queue.waits.cut_short
    isolated(queue)

    (loss,) = queue.take_losses()
    assert (loss.start, loss.stop, loss.messages, loss.raw, loss.unreadable) == (3, 6, 3, damaged, False)
    assert not queue.losses
    assert queue.ledger.dropped == {"damaged": 3}
    assert queue.ledger.closes(queue.depth)
    assert handed(queue.hand_out(100, 1 << 30)) == payloads(*range(6, 15))


def test_chunks_that_are_missing_are_noticed_by_the_bytes_before_the_next() -> None:
    _, queue = filled(6)

    assert handed(queue.hand_out(100, 1 << 30)) == payloads(*range(6))
    assert handed(queue.hand_out(100, 1 << 30)) == payloads(*range(9, 15)), "once the loss can be committed"

    (loss,) = queue.take_losses()
    assert (loss.start, loss.stop, loss.messages, loss.error) == (6, 9, 3, "chunks are missing")
    assert queue.settle("delivered", ((0, 15),)) == 12
    assert (queue.head, queue.depth, queue.ledger.closes(0)) == (15, 0, True)


def test_a_session_that_may_hold_what_is_lost_is_left() -> None:
    engine, queue = filled()
    queue.sent.new_session(1, "a@h")
    assert len(handed(queue.hand_out(9, 1 << 30))) == 9
    append(engine, queue)
    overwrite(engine, 0, b"damaged")
    overwrite(engine, 12, b"damaged")
    queue = open_queue(engine)
    isolated(queue)
    assert handed(queue.hand_out(100, 1 << 30)) == payloads(*range(3, 12))
    isolated(queue)

    first, second = queue.take_losses()
    assert (first.session_forgotten, second.session_forgotten) == (True, False), "there is none any more"
    assert [left.session for left in queue.sent.left] == ["a@h"]


def test_the_end_of_a_queue_that_is_known_to_have_been_longer_is_lost_and_its_sequences_are_not_used_again() -> None:
    engine, queue = filled(tail_known=18)

    (loss,) = queue.take_losses()
    assert (loss.start, loss.stop, loss.messages, queue.sent.session) == (15, 18, 3, "")
    assert (queue.tail, queue.ledger.accepted, queue.depth) == (18, 18, 15)
    assert queue.ledger.closes(queue.depth)
    append(engine, queue, batch([b"new"]))
    assert handed(queue.hand_out(100, 1 << 30))[-1] == b"new"
    assert queue.tail == 19


def test_an_empty_queue_tells_of_messages_that_were_missed_in_what_it_counted() -> None:
    engine, queue = filled(0, 3)
    queue.hand_out(100, 1 << 30)
    queue.settle("delivered", ((0, 15),))
    assert queue.depth == 6, "where nothing was read before it, nobody knows what is missing"

    append(engine, queue)

    assert sum(loss.messages for loss in queue.take_losses()) == 6
    assert (queue.depth, queue.ledger.dropped) == (0, {"damaged": 6})
