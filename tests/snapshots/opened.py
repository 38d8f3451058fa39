"""A snapshot, opened read-only as a stranger would, and compared with what its manifest says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rocksdict import AccessType, Options, Rdict

from storage.chunk import Chunk
from storage.dead_letters import DeadRow
from storage.engine import FAMILIES
from storage.events import event_key, event_number
from storage.history import settlement_key, settlement_of
from storage.keys import chunk_key, dead_key, first_seq_of, lane_key
from storage.ledger import LaneRow
from storage.manifest import QueueFacts, read_manifest, verify
from wire.ranges import RangeSet


@contextmanager
def opened(snapshot: Path) -> Iterator[dict[str, Any]]:
    """The families of the snapshot's store by name; nothing is written to its folder."""
    before = sorted(path.name for path in (snapshot / "store").iterdir())
    db = Rdict(str(snapshot / "store"), Options(raw_mode=True), access_type=AccessType.read_only(False))
    families: dict[str, Any] = {family: db.get_column_family(family) for family in FAMILIES}
    try:
        yield families
    finally:
        for family in families.values():
            family.close()
        families.clear()
        db.close()
    assert sorted(path.name for path in (snapshot / "store").iterdir()) == before


def check(snapshot: Path) -> None:
    """The snapshot is whole, and its manifest says of every queue and dead-letter queue what the rows and the messages say."""
    assert verify(snapshot) == []
    manifest = read_manifest(snapshot)
    with opened(snapshot) as families:
        for queue in manifest.queues:
            row = LaneRow.decode(families["meta"].get(lane_key(queue.number)), queue=queue.name)
            _check_queue(queue, row, _sequences(families["msg"], queue.number, row))
            keys = _keys(families["history"], settlement_key(queue.number, 0), settlement_key(queue.number + 1, 0))
            assert [settlement_of(key)[1] for key in keys] == list(range(*queue.settlements)), queue.name
        events = _keys(families["history"], event_key(0), event_key((1 << 64) - 1))
        assert [event_number(key) for key in events] == list(range(*manifest.events))
        for dead in manifest.dead_letters:
            letters = DeadRow.decode(families["meta"].get(dead_key(dead.number)), queue=dead.bridge)
            assert (letters.held, letters.size_bytes) == (dead.held, dead.size_bytes)
        names = [key for key in families["meta"].keys() if key.startswith(b"L")]  # noqa: SIM118  # not a dict
        assert len(names) == len(manifest.queues)


def _check_queue(queue: QueueFacts, row: LaneRow, waiting: list[int]) -> None:
    facts, kept = queue.ledger, row.ledger
    assert (queue.head, queue.tail, queue.depth) == (row.head, row.tail, row.depth), queue.name
    assert (facts.accepted, facts.delivered, facts.expired) == (kept.accepted, kept.delivered, kept.expired), queue.name
    assert (facts.redelivered, facts.dropped, facts.dead) == (kept.redelivered, kept.dropped, kept.dead), queue.name
    assert facts.accepted == facts.ended() + queue.depth + queue.volatile.messages, queue.name
    assert len(waiting) == queue.depth, queue.name
    volatile = {seq for start, stop in queue.volatile.ranges for seq in range(start, stop)}
    assert len(volatile) == queue.volatile.messages, queue.name
    assert volatile.isdisjoint(waiting)
    in_flight = {seq for start, stop in queue.in_flight for seq in range(start, stop)}
    assert in_flight <= volatile | set(waiting), queue.name
    assert in_flight == {seq for seq in volatile | set(waiting) if seq < queue.cursor}, queue.name


def _keys(family: Any, start: bytes, stop: bytes) -> list[bytes]:
    found = []
    iterator = family.iter()
    iterator.seek(start)
    while iterator.valid() and iterator.key() < stop:
        found.append(iterator.key())
        iterator.next()
    iterator.status()
    return found


def _sequences(messages: Any, number: int, row: LaneRow) -> list[int]:
    """The sequences of the queue's messages that are not settled, from the chunks themselves."""
    settled, found = RangeSet(row.settled), []
    stop = chunk_key(number, row.tail)
    iterator = messages.iter()
    iterator.seek(chunk_key(number, row.trimmed))
    while iterator.valid() and iterator.key() < stop:
        chunk = Chunk.decode(iterator.value(), queue="", seq=first_seq_of(iterator.key()))
        found += [seq for seq in chunk.seqs() if seq >= row.head and seq not in settled]
        iterator.next()
    iterator.status()
    return found
