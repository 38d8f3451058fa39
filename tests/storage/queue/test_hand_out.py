"""Hand-outs: in order, joined where they are tiny, in parts where they are huge, and below a committed mark only."""

from __future__ import annotations

import pytest

from storage.engine.engine import Write
from storage.queue.hand_out_pieces import JOINED_ROWS_MAX
from tests.storage.building import RecordingEngine, batch
from tests.storage.queues import append, handed, open_queue, row_after
from wire.frames.batch import Batch
from wire.routing.message_route import MessageRoute


def test_a_backlog_of_single_messages_is_handed_out_in_few_pieces() -> None:
    engine = RecordingEngine()
    queue = open_queue(engine)
    append(engine, queue, *[batch([b"%d" % number]) for number in range(2500)])

    pieces = open_queue(engine).hand_out(10_000, 1 << 30)

    assert [piece.count for piece in pieces] == [1000, 1000, 500]
    assert max(piece.count for piece in pieces) <= JOINED_ROWS_MAX
    assert handed(pieces) == [b"%d" % number for number in range(2500)]
    assert len(queue.hand_out(10_000, 1 << 30)) == 3


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


@pytest.mark.parametrize(("provenance", "pieces"), [("none", [(3, 1000)]), ("envelope", [(2, 1000), (1, 1400)])])
def test_messages_that_tell_when_they_were_accepted_are_joined_with_their_like(
    provenance: str, pieces: list[tuple[int, int]]
) -> None:
    engine = RecordingEngine()
    queue = open_queue(engine)
    route = MessageRoute("rule", "{#}", preserve_retain=True, properties=b"", provenance=provenance).encode()
    batches = [batch([b"m"], accepted_ms=accepted_ms) for accepted_ms in (1000, 1000, 1400)]
    for each in batches:
        each.routes, each.route_of = [route], [0]
    append(engine, queue, *batches)

    told = queue.hand_out(10, 1 << 30)

    assert [(piece.count, Batch.decode(piece.body).accepted_ms) for piece in told] == pieces


def test_a_huge_chunk_is_handed_out_in_parts() -> None:
    engine = RecordingEngine()
    queue = open_queue(engine)
    append(engine, queue, batch([b"%d" % number for number in range(9000)]))

    parts = [queue.hand_out(100, 1 << 30) for _ in range(3)]

    assert [len(handed(pieces)) for pieces in parts] == [4000, 4000, 1000]
    assert [payload for pieces in parts for payload in handed(pieces)] == [b"%d" % number for number in range(9000)]


def test_nothing_durable_is_handed_out_before_a_mark_above_it_is_committed() -> None:
    """queue.handed-out-below-mark"""
    engine = RecordingEngine()
    queue = open_queue(engine)
    write = Write()
    for payload in (b"a", b"b"):
        queue.append(batch([payload]).encode(), 1, batch([payload]).size_bytes(), 0, write)
    queue.write_row(write, ahead=False)
    engine.commit(write, sync=True)

    assert queue.hand_out(10, 1 << 30) == []
    assert queue.sent.needs_sent_mark
    row_after(engine, queue, strong=False, ahead=True)
    assert queue.hand_out(10, 1 << 30) == [], "a write that is not synced may be lost"
    row_after(engine, queue, strong=True, ahead=False)
    assert handed(queue.hand_out(10, 1 << 30)) == [b"a", b"b"]
    assert not queue.sent.needs_sent_mark
