"""A checkpoint of the running store, and where everything stood in it. Part of the store's process.

``take`` runs on the store's thread between two commits: it makes the engine's checkpoint and notes from memory what it holds, so
the figures are those of the rows on disk. ``CheckpointStands.facts`` does what takes time with the messages that are in memory
only, in any thread. The manifest around the facts, checksums and the folder are the supervisor's
(``supervisor/snapshots/node_snapshots.py``).

store.snapshot-as-rows-say [reports]: what is said of a checkpoint is what its rows say: between two commits, of durable messages,
    each queued, in flight or settled.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from storage.engine.engine import Engine
from storage.engine.keys import STORE_FORMAT
from storage.queue.chunk import CHUNK_VERSION, Chunk
from storage.queue.dead_letters import LETTER_VERSION
from storage.queue.history import SETTLEMENT_VERSION
from storage.queue.ledger import ROW_VERSION, Ledger
from storage.queue.queue import Queue
from storage.snapshots.manifest import DeadFacts, LedgerFacts, QueueFacts, VolatileFacts, queue_fields
from storage.store.event_rows import EVENT_VERSION
from wire.config_settings import LimitSettings
from wire.frames.batch import BATCH_VERSION
from wire.frames.frame import Ranges
from wire.frames.names import lane_of_queue
from wire.ranges import RangeSet, ranges_of

VERSIONS: Mapping[str, int] = {
    "store": STORE_FORMAT,
    "chunk": CHUNK_VERSION,
    "batch": BATCH_VERSION,
    "queue_row": ROW_VERSION,
    "letter": LETTER_VERSION,
    "history": SETTLEMENT_VERSION,
    "event": EVENT_VERSION,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStands:
    """The note of one queue: where it stands, and its chunks in memory, of which the rows that are ``settled`` are gone."""

    facts: QueueFacts
    chunks: tuple[Chunk, ...]
    settled: Ranges


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointStands:
    """The contents of a checkpoint, as noted when it was made; at_ms: UTC epoch, epoch: of the store's life.

    identity: of the store, 32 hexadecimal digits.
    """

    at_ms: int
    epoch: int
    identity: str
    queues: tuple[QueueStands, ...]
    dead_letters: tuple[DeadFacts, ...]
    sessions: int
    retained: int
    free_bytes: int | None
    events: tuple[int, int]

    def facts(self) -> dict[str, Any]:
        """The part of the manifest that the store knows; only values that msgpack and JSON know. Takes a while, in any thread."""
        return {
            "at_ms": self.at_ms,
            "epoch": self.epoch,
            "store_id": self.identity,
            "versions": dict(VERSIONS),
            "queues": [queue_fields(_with_volatile(queue)) for queue in self.queues],
            "dead_letters": [
                {"bridge": dead.bridge, "number": dead.number, "held": dead.held, "bytes": dead.size_bytes}
                for dead in self.dead_letters
            ],
            "sessions": self.sessions,
            "retained": self.retained,
            "disk_free_bytes": self.free_bytes,
            "events": list(self.events),
        }


def take(
    engine: Engine,
    path: str,
    *,
    at_ms: int,
    epoch: int,
    identity: str,
    queues: Iterable[QueueStands],
    dead_letters: Iterable[DeadFacts],
    sessions: int,
    retained: int,
    free_bytes: int | None,
    events: tuple[int, int],
) -> CheckpointStands:
    """Make the checkpoint ``path`` of ``engine``, in which everything is committed, and note what it holds.

    Raises:
        Unavailable, StorageDamaged: there is no checkpoint; parts of one may be at the path.
    """
    engine.checkpoint(path)
    return CheckpointStands(
        at_ms=at_ms,
        epoch=epoch,
        identity=identity,
        queues=tuple(queues),
        dead_letters=tuple(dead_letters),
        sessions=sessions,
        retained=retained,
        free_bytes=free_bytes,
        events=events,
    )


def note(queue: Queue, limits: LimitSettings, *, configured: bool, retention_s: float, damaged: bool) -> QueueStands:
    """The position of ``queue``. damaged: its row cannot be read, and the queue stands for nothing."""
    place = lane_of_queue(queue.name)
    messages, size_bytes, chunks = queue.in_memory()
    history = queue.trimming.row()
    facts = QueueFacts(
        name=queue.name,
        number=queue.number,
        bridge=place.bridge if place is not None else None,
        lane=place.label if place is not None else None,
        configured=configured,
        head=queue.head,
        tail=queue.tail,
        cursor=queue.cursor,
        depth=queue.depth - messages,
        size_bytes=queue.size_bytes,
        volatile=VolatileFacts(messages=messages, size_bytes=size_bytes),
        in_flight=queue.in_flight_ranges(),
        ledger=_ledger_facts(queue.ledger),
        max_messages=limits.max_messages,
        max_bytes=limits.max_bytes,
        retention_s=retention_s,
        damaged=damaged,
        settlements=(history.first, history.next),
        history_from=history.begins,
    )
    return QueueStands(facts=facts, chunks=tuple(chunks), settled=queue.settled.ranges() if chunks else ())


def _ledger_facts(ledger: Ledger) -> LedgerFacts:
    return LedgerFacts(
        accepted=ledger.accepted,
        delivered=ledger.delivered,
        expired=ledger.expired,
        redelivered=ledger.redelivered,
        dropped=dict(ledger.dropped),
        dead=dict(ledger.dead),
        refused=ledger.refused,
        raised=ledger.raised,
        from_retained=ledger.from_retained,
    )


def _with_volatile(stands: QueueStands) -> QueueFacts:
    """The facts of a queue with the sequences that are in memory only."""
    facts = stands.facts
    if not stands.chunks:
        return facts
    settled, head = RangeSet(stands.settled), facts.head
    runs = sorted(chain.from_iterable(_runs(chunk) for chunk in stands.chunks))
    unsettled = (gap for start, stop in runs for gap in settled.missing(max(start, head), max(stop, head)))
    return replace(facts, volatile=replace(facts.volatile, ranges=_joined(unsettled)))


def _runs(chunk: Chunk) -> Ranges:
    return ((chunk.first_seq, chunk.stop),) if chunk.offsets is None else ranges_of(chunk.seqs())


def _joined(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Sorted ranges, of which neighbours touch or overlap, as few as can be."""
    joined: list[tuple[int, int]] = []
    for start, stop in ranges:
        if start >= stop:
            continue
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], stop)
        else:
            joined.append((start, stop))
    return tuple(joined)
