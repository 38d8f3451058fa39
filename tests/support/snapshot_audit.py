"""Compares what is said of a snapshot with the rows that are in it: queues, messages, dead letters, settlements, events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from storage.engine.engine import Family
from storage.engine.keys import chunk_key, dead_key, first_seq_of, lane_key
from storage.queue.chunk import Chunk
from storage.queue.dead_letters import DeadRow
from storage.queue.history import settlement_key, settlement_of
from storage.queue.ledger import LedgerRow
from storage.snapshots.manifest import DeadFacts, QueueFacts
from storage.store.event_rows import event_key, event_number
from wire.ranges import RangeSet


class Rows(Protocol):
    """A store as it is in a snapshot."""

    def get(self, family: Family, key: bytes) -> bytes | None: ...
    def scan(self, family: Family, start: bytes, stop: bytes) -> Iterator[tuple[bytes, bytes]]: ...


def compare(rows: Rows, queues: Iterable[QueueFacts], dead_letters: Iterable[DeadFacts], events: tuple[int, int]) -> None:
    """Every figure is that of the rows, and every queue of the store is told of. Raises ``AssertionError``."""
    numbers = set()
    for queue in queues:
        numbers.add(lane_key(queue.number))
        value = rows.get("meta", lane_key(queue.number))
        if value is None:  # nothing has ever come into it
            assert (queue.tail, queue.depth, queue.ledger.accepted, queue.volatile.messages) == (0, 0, 0, 0), queue.name
            continue
        row = LedgerRow.decode(value, queue=queue.name)
        _compare_queue(queue, row, _waiting(rows, queue.number, row))
        kept = rows.scan("history", settlement_key(queue.number, 0), settlement_key(queue.number + 1, 0))
        assert [settlement_of(key)[1] for key, _ in kept] == list(range(*queue.settlements)), queue.name
    assert numbers >= {key for key, _ in rows.scan("meta", b"L", b"M")}
    for dead in dead_letters:
        value = rows.get("meta", dead_key(dead.number))
        letters = DeadRow() if value is None else DeadRow.decode(value, queue=dead.bridge)
        assert (letters.held, letters.size_bytes) == (dead.held, dead.size_bytes), dead.bridge
    found = [event_number(key) for key, _ in rows.scan("history", event_key(0), event_key((1 << 64) - 1))]
    assert found == list(range(*events))


def _compare_queue(queue: QueueFacts, row: LedgerRow, waiting: list[int]) -> None:
    facts, kept = queue.ledger, row.ledger
    assert (queue.head, queue.tail, queue.depth) == (row.head, row.tail, row.depth), queue.name
    assert (facts.accepted, facts.delivered, facts.expired) == (kept.accepted, kept.delivered, kept.expired), queue.name
    assert (facts.redelivered, facts.dropped, facts.dead) == (kept.redelivered, kept.dropped, kept.dead), queue.name
    found = (facts.refused, facts.raised, facts.from_retained)
    assert found == (kept.refused, kept.raised, kept.from_retained), queue.name
    assert facts.accepted == facts.ended() + queue.depth + queue.volatile.messages, queue.name
    assert len(waiting) == queue.depth, queue.name
    volatile = {seq for start, stop in queue.volatile.ranges for seq in range(start, stop)}
    assert len(volatile) == queue.volatile.messages, queue.name
    assert volatile.isdisjoint(waiting), queue.name
    in_flight = {seq for start, stop in queue.in_flight for seq in range(start, stop)}
    assert in_flight == {seq for seq in volatile | set(waiting) if seq < queue.cursor}, queue.name


def _waiting(rows: Rows, number: int, row: LedgerRow) -> list[int]:
    """The sequences of the queue's messages that are not settled, from the chunks themselves."""
    settled, found = RangeSet(row.settled), []
    for key, value in rows.scan("msg", chunk_key(number, row.trimmed), chunk_key(number, row.tail)):
        chunk = Chunk.decode(value, queue="", seq=first_seq_of(key))
        found += [seq for seq in chunk.seqs() if seq >= row.head and seq not in settled]
    return found
