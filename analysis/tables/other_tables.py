"""The tables beside the messages: queues, what is in flight, settlements, events, dead letters, sessions, retained messages.

They are small beside the messages, but settlements and events are read in columns, too: a day of a busy node has many of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from analysis.tables.arrow import INT, STRING, Makers, batch, longs, picked, rows_batch, same, slices, texts, times
from analysis.tables.checkpoint_reader import CheckpointReader
from analysis.tables.chunk_decoder import NONE, ChunkRows
from analysis.tables.message_table import KEY_BYTES, SETTLED_CODE, MessagePlace, decoded, states_of
from analysis.tables.runs import painted
from analysis.tables.schemas import IN_FLIGHT, QUEUED, RELEASED, STATES
from analysis.tables.settlements import Settlements, read_settlements
from analysis.tables.snapshot import Snapshot
from analysis.tables.splits import Part, SplitFilters
from storage.engine.keys import PARTS, PARTS_END, chunk_key, dead_key, retained_key, session_key
from storage.queue.dead_letters import FATES, DeadLetter, DeadRow, dead_queue_name
from storage.queue.ledger import HistoryRow, Ledger, LedgerRow
from storage.snapshots.manifest import DeadFacts, QueueFacts, Ranges
from storage.store.event_rows import Event, event_key, event_number
from storage.store.retained_messages import decode_row
from storage.store.session_rows import Session, is_remote, take_parts
from wire.errors import StorageDamaged
from wire.exchange.packet_identifiers import PACKET_IDS
from wire.frames.batch import QOS_MASK, Batch
from wire.frames.names import lane_of_queue, lane_order
from wire.mqtt.packets import SESSION_NEVER_EXPIRES_S
from wire.mqtt.publish_properties import message_expiry_s
from wire.ranges import RangeSet

Batches = Iterator[pa.RecordBatch]
TEXT_KEY_BYTES = 64
ROWS_MAX = 1000
_ALL = (1 << 64) - 1


def _store(snapshot: Snapshot) -> CheckpointReader:
    assert snapshot.store is not None
    return snapshot.store


def _within(us: int | None, filters: SplitFilters) -> bool:
    """Whether a time, UTC epoch in microseconds, is wanted."""
    if us is None:
        return filters.since_us is None and filters.until_us is None
    return (filters.since_us is None or us >= filters.since_us) and (filters.until_us is None or us < filters.until_us)


def _batches(schema: pa.Schema, rows: Iterator[dict[str, Any]]) -> Batches:
    kept: list[dict[str, Any]] = []
    size_bytes = 0
    for row in rows:
        kept.append(row)
        size_bytes += len(row.get("payload") or b"")
        if len(kept) >= ROWS_MAX or size_bytes >= 8 << 20:
            yield rows_batch(schema, kept)
            kept, size_bytes = [], 0
    if kept:
        yield rows_batch(schema, kept)


# --- queues ---


def read_queues(snapshot: Snapshot, _part: Part, schema: pa.Schema, filters: SplitFilters) -> Batches:
    """The position of each queue, and its ledger."""
    if _within(snapshot.at_us, filters):
        letters = _letters_by_queue(snapshot) if "dead_letters" in schema.names else {}
        with_oldest = "oldest_at" in schema.names
        yield from _batches(
            schema, (_queue(snapshot, queue, letters.get(queue.name, {}), with_oldest) for queue in snapshot.queues(filters))
        )


def _letters_by_queue(snapshot: Snapshot) -> dict[str, dict[str, int]]:
    """The fate of the dead letters of each bridge, by the queue of its first lane."""
    lanes = sorted((queue.bridge, lane_order(queue.lane or 0), queue.name) for queue in snapshot.manifest.queues if queue.bridge)
    first = {bridge: name for bridge, _, name in reversed(lanes)}
    rows = {facts.bridge: _dead_row(snapshot, facts) for facts in snapshot.manifest.dead_letters if facts.bridge in first}
    return {first[bridge]: {name: getattr(row, name) for name in FATES} for bridge, row in rows.items() if row is not None}


def _queue(snapshot: Snapshot, queue: QueueFacts, letters: dict[str, int], with_oldest: bool) -> dict[str, Any]:
    row = snapshot.row(queue)
    oldest_us = _oldest_us(snapshot, queue, row) if row is not None and with_oldest else None
    if row is None:
        row = _row_of_facts(queue)
    released = RangeSet(row.released)
    return {
        **snapshot.head,
        "queue": queue.name,
        "number": queue.number,
        "bridge": queue.bridge,
        "lane": None if queue.lane is None else str(queue.lane),
        "configured": queue.configured,
        "head": row.head,
        "tail": row.tail,
        "handed": row.handed,
        "history_from": row.history.begins if row.history.begins >= 0 else None,
        "depth": row.depth,
        "depth_volatile": queue.volatile.messages,
        "bytes": queue.size_bytes,
        "in_flight": _messages(queue.in_flight),
        "released": released.count(),
        "accepted": row.ledger.accepted,
        "delivered": row.ledger.delivered,
        "expired": row.ledger.expired,
        "redelivered": row.ledger.redelivered,
        "dropped": list(row.ledger.dropped.items()),
        "dead": list(row.ledger.dead.items()),
        "dead_letters": list(letters.items()),
        "refused": row.ledger.refused,
        "raised": row.ledger.raised,
        "generation": row.generation,
        "remote_session": row.session,
        "oldest_at": oldest_us,
        "max_messages": queue.max_messages,
        "max_bytes": queue.max_bytes,
        "retention_s": queue.retention_s,
        "settled_above": _json(row.settled),
        "volatile_ranges": _json(queue.volatile.ranges),
        "purged_ranges": _json(row.purged),
    }


def _row_of_facts(queue: QueueFacts) -> LedgerRow:
    """The manifest's facts about a queue whose row cannot be read."""
    facts = queue.ledger
    ledger = Ledger(
        *(facts.accepted, facts.delivered, facts.expired, facts.redelivered),
        *(dict(facts.dropped), dict(facts.dead), facts.refused, facts.raised),
    )
    return LedgerRow(
        head=queue.head,
        tail=queue.tail,
        handed=queue.cursor,
        trimmed=queue.head,
        depth=queue.depth,
        ledger=ledger,
        history=HistoryRow(),
    )


def _oldest_us(snapshot: Snapshot, queue: QueueFacts, row: LedgerRow) -> int | None:
    if not row.depth:
        return None
    place = MessagePlace(queue, row, states_of(queue, row))
    unsettled = SplitFilters(states=(QUEUED, IN_FLIGHT, RELEASED))
    for rows in decoded(snapshot, place, row.head, row.tail, unsettled):
        waiting = np.flatnonzero((place.states.of(rows.seq) != SETTLED_CODE) & (rows.seq >= row.head))
        if len(waiting):
            return int(rows.accepted_ms[waiting[0]]) * 1000
    return None


def _messages(ranges: Ranges) -> int:
    return sum(stop - start for start, stop in ranges)


def _json(ranges: Ranges) -> str:
    return json.dumps([list(bounds) for bounds in ranges], separators=(",", ":"))


# --- in flight ---


def read_inflight(snapshot: Snapshot, _part: Part, schema: pa.Schema, filters: SplitFilters) -> Batches:
    """Messages that were handed out and not settled: durable messages from the store, volatile ones by their sequence alone."""
    for queue in snapshot.queues(filters):
        row = snapshot.row(queue)
        if row is not None and (queue.in_flight or row.released):
            yield from _inflight(snapshot, MessagePlace(queue, row, states_of(queue, row)), schema, filters)


def _inflight(snapshot: Snapshot, place: MessagePlace, schema: pa.Schema, filters: SplitFilters) -> Batches:
    queue, row = place.queue, place.row
    wanted = [state for state in (IN_FLIGHT, RELEASED) if filters.states is None or state in filters.states]
    bounds = (*queue.in_flight, *row.released)
    start = max(min(low for low, _ in bounds), row.head, filters.seq_from or 0)
    stop = min(max(high for _, high in bounds), row.tail, filters.seq_to if filters.seq_to is not None else row.tail)
    if start >= stop:
        return
    wanted_codes = [STATES.index(state) for state in wanted]
    narrowed = SplitFilters(states=tuple(wanted), since_us=filters.since_us, until_us=filters.until_us)
    for rows in decoded(snapshot, place, start, stop, narrowed):
        codes = place.states.of(rows.seq)
        chosen = np.flatnonzero((rows.seq >= start) & (rows.seq < stop) & np.isin(codes, wanted_codes))
        if len(chosen):
            yield from slices(_inflight_batch(snapshot, place, rows, chosen, schema))
    if IN_FLIGHT in wanted and _within(None, filters):
        volatile = _volatile_in_flight(queue, row, start, stop)
        if len(volatile):
            yield from slices(_volatile_batch(snapshot, queue, volatile, schema))


def _inflight_batch(snapshot: Snapshot, place: MessagePlace, rows: ChunkRows, chosen: Any, schema: pa.Schema) -> pa.RecordBatch:
    seq = rows.seq[chosen]
    makers: Makers = {
        **snapshot.same(len(seq), place.queue),
        "seq": lambda: longs(seq),
        "packet_id": lambda: longs(seq % PACKET_IDS + 1, null=rows.qos[chosen] == 0, kind=INT),
        "state": lambda: picked(STATES, place.states.of(seq)),
        "topic": lambda: picked(texts(rows.topics), rows.topic[chosen]),
        "qos": lambda: longs(rows.qos[chosen], kind=INT),
        "accepted_at": lambda: times(rows.accepted_ms[chosen]),
    }
    return batch(schema, makers)


def _volatile_in_flight(queue: QueueFacts, row: LedgerRow, start: int, stop: int) -> Any:
    """The sequences in flight of messages that are in memory only."""
    in_flight = painted(0, [(queue.in_flight, 1), ((*row.settled, (0, row.head)), 0)])
    seqs = [np.arange(max(low, start), min(high, stop)) for low, high in queue.volatile.ranges if low < stop and high > start]
    every = np.concatenate(seqs) if seqs else np.zeros(0, np.int64)
    return every[in_flight.of(every) == 1]


def _volatile_batch(snapshot: Snapshot, queue: QueueFacts, seq: Any, schema: pa.Schema) -> pa.RecordBatch:
    count = len(seq)
    makers: Makers = {
        **snapshot.same(count, queue),
        "seq": lambda: longs(seq),
        "packet_id": lambda: same(None, INT, count),
        "state": lambda: same(IN_FLIGHT, STRING, count),
        "topic": lambda: same(None, STRING, count),
        "qos": lambda: same(None, INT, count),
        "accepted_at": lambda: same(None, pa.timestamp("us", tz="UTC"), count),
    }
    return batch(schema, makers)


# --- settlements ---


def read_settlement_rows(snapshot: Snapshot, _part: Part, schema: pa.Schema, filters: SplitFilters) -> Batches:
    """Departures from the queues, when, how and by whom: a row for each range."""
    for queue in snapshot.queues(filters):
        row = snapshot.row(queue)
        if row is None:
            continue

        def missing(first: int, stop: int, why: str, name: str = queue.name) -> None:
            snapshot.damaged(f"{why}: settlements {first} to {stop - 1}", name)

        for first, stop in filters.numbers_of(queue.name, row.history.first, row.history.next):
            for found in read_settlements(_store(snapshot), queue.number, first, stop, missing):
                made = _settlement_batch(snapshot, queue, found, schema, filters)
                if made is not None:
                    yield from slices(made)


def _settlement_batch(
    snapshot: Snapshot, queue: QueueFacts, found: Settlements, schema: pa.Schema, filters: SplitFilters
) -> pa.RecordBatch | None:
    wanted = np.ones(len(found), np.bool_)
    if filters.seq_from is not None:
        wanted &= found.stops > filters.seq_from
    if filters.seq_to is not None:
        wanted &= found.starts < filters.seq_to
    if filters.since_us is not None:
        wanted &= found.settled_ms * 1000 >= filters.since_us
    if filters.until_us is not None:
        wanted &= found.settled_ms * 1000 < filters.until_us
    chosen = np.flatnonzero(wanted)
    if not len(chosen):
        return None
    kinds, _, reasons = zip(*(name.partition(":") for name in found.outcome_names), strict=True)
    starts, stops = found.starts[chosen], found.stops[chosen]
    makers: Makers = {
        **snapshot.same(len(chosen), queue),
        "number": lambda: longs(found.numbers[chosen]),
        "settled_at": lambda: times(found.settled_ms[chosen]),
        "first_seq": lambda: longs(starts),
        "last_seq": lambda: longs(stops - 1),
        "messages": lambda: longs(stops - starts),
        "outcome": lambda: picked(kinds, found.outcome[chosen]),
        "reason": lambda: picked([reason or None for reason in reasons], found.outcome[chosen]),
        "settled_by": lambda: picked(list(found.by_names), found.by[chosen]),
    }
    return batch(schema, makers)


# --- events ---


def read_events(snapshot: Snapshot, _part: Part, schema: pa.Schema, filters: SplitFilters) -> Batches:
    """The events of the node. A gap in the numbers is a loss, and told."""
    for first, stop in filters.numbers_of("", 0, _ALL):
        yield from _read_events(snapshot, first, stop, schema, filters)


def _read_events(snapshot: Snapshot, first: int, last: int, schema: pa.Schema, filters: SplitFilters) -> Batches:
    due, why = NONE, ""

    def damaged(_start: bytes, _stop: bytes, error: str) -> None:
        nonlocal why
        why = error

    for bulk in _store(snapshot).bulks_around("history", event_key(first), event_key(last), 9, damaged):
        kept: list[dict[str, Any]] = []
        for key, value in zip(*bulk, strict=True):
            number = event_number(key)
            if due not in (NONE, number) or why:
                snapshot.damaged(f"{why or 'events are missing'}: events {due if due != NONE else '?'} to {number - 1}")
            due, why = number + 1, ""
            try:
                event = Event.decode(value)
            except StorageDamaged as error:
                snapshot.damaged(f"{error}: event {number}")
                continue
            if _within(event.at_ms * 1000, filters) and (filters.bridges is None or event.bridge in filters.bridges):
                kept.append(_event(snapshot, number, event))
        yield from _batches(schema, iter(kept))
    if why:
        snapshot.damaged(f"{why}: events from {due if due != NONE else '?'} on")


def _event(snapshot: Snapshot, number: int, event: Event) -> dict[str, Any]:
    return {
        **snapshot.head,
        "number": number,
        "at": event.at_ms * 1000,
        "kind": event.kind,
        "bridge": event.bridge or None,
        "lane": str(event.lane) if event.lane != -1 else None,
        "actor": event.actor or None,
        "reason": event.reason or None,
        "count": event.count or None,
        "details": json.dumps(dict(event.details), sort_keys=True),
    }


# --- dead letters ---


def read_dead_letters(snapshot: Snapshot, _part: Part, schema: pa.Schema, filters: SplitFilters) -> Batches:
    """The dead letters that are held."""
    for facts in snapshot.manifest.dead_letters:
        if filters.bridges is None or facts.bridge in filters.bridges:
            yield from _batches(schema, _letters(snapshot, facts, filters))


def _dead_row(snapshot: Snapshot, facts: DeadFacts) -> DeadRow | None:
    """The fate of a bridge's dead letters; None if it cannot be read, which is reported."""
    name = dead_queue_name(facts.bridge)
    try:
        value = _store(snapshot).get("meta", dead_key(facts.number))
        return DeadRow.decode(value, queue=name) if value is not None else DeadRow()
    except StorageDamaged as error:
        snapshot.damaged(str(error), name)
        return None


def _letters(snapshot: Snapshot, facts: DeadFacts, filters: SplitFilters) -> Iterator[dict[str, Any]]:
    store, name, number = _store(snapshot), dead_queue_name(facts.bridge), facts.number
    row = _dead_row(snapshot, facts)
    if row is None:
        return
    held, told = 0, False

    def damaged(start: bytes, stop: bytes, why: str) -> None:
        nonlocal told
        told = True
        first = int.from_bytes(start[4:12], "big") + (len(start) > KEY_BYTES)
        snapshot.damaged(why, name, first, max(first, int.from_bytes(stop[4:12], "big") - 1))

    for bulk in store.bulks_around("msg", chunk_key(number, row.head), chunk_key(number, row.tail), KEY_BYTES, damaged):
        for key, letter_value in zip(*bulk, strict=True):
            held += 1
            try:
                letter = DeadLetter.decode(key, letter_value)
            except StorageDamaged as error:
                seq = int.from_bytes(key[4:12], "big")
                snapshot.damaged(str(error), name, seq, seq)
                continue
            found = _letter(snapshot, facts.bridge, letter)
            if _letter_wanted(found, letter.queue, filters):
                yield found
    if held < row.held and not told:
        snapshot.damaged(f"{row.held - held} dead letters are missing", name)


def _letter_wanted(found: dict[str, Any], queue: str, filters: SplitFilters) -> bool:
    seq = found["seq"]
    wanted = (filters.seq_from is None or seq >= filters.seq_from) and (filters.seq_to is None or seq < filters.seq_to)
    return wanted and (filters.queues is None or queue in filters.queues) and _within(found["at"], filters)


def _letter(snapshot: Snapshot, bridge: str, letter: DeadLetter) -> dict[str, Any]:
    message, place = letter.message, lane_of_queue(letter.queue)
    return {
        **snapshot.head,
        "bridge": bridge,
        "lane": str(place.label) if place is not None else None,
        "seq": message.seq,
        "letter": letter.seq,
        "reason": letter.reason,
        "at": letter.at_ms * 1000,
        "remote": letter.remote or None,
        "topic": message.topic.decode(errors="replace"),
        "qos": message.flags & QOS_MASK,
        "accepted_at": message.accepted_ms * 1000,
        "payload_bytes": len(message.payload),
        "payload": message.payload,
    }


# --- sessions and retained messages ---


def _meta_rows(snapshot: Snapshot, start: bytes, stop: bytes, what: str) -> Iterator[tuple[bytes, bytes]]:
    def damaged(first: bytes, behind: bytes, why: str) -> None:
        snapshot.damaged(f"{why}: {what} behind {first[1:].decode(errors='replace')!r} to {behind[1:].decode(errors='replace')!r}")

    for bulk in _store(snapshot).bulks_around("meta", start, stop, TEXT_KEY_BYTES, damaged):
        yield from zip(*bulk, strict=True)


def read_sessions(snapshot: Snapshot, _part: Part, schema: pa.Schema, filters: SplitFilters) -> Batches:
    """The sessions that outlive their connection: local clients', and those of the lanes at their remotes."""
    if not _within(snapshot.at_us, filters):
        return

    def damaged(_key: bytes, name: str, error: StorageDamaged) -> None:
        snapshot.damaged(f"{error}: session {name!r}")

    found: list[Session] = []
    for key, value in _meta_rows(snapshot, session_key(""), b"T", "sessions"):
        try:
            found.append(Session.decode(key[1:].decode(errors="replace"), value))
        except StorageDamaged as error:
            snapshot.damaged(str(error))
    take_parts(found, _meta_rows(snapshot, PARTS, PARTS_END, "parts of sessions"), damaged)
    wanted = (session for session in found if filters.queues is None or session.queue in filters.queues)
    yield from _batches(schema, (_session(snapshot, session) for session in wanted))


def _session(snapshot: Snapshot, session: Session) -> dict[str, Any]:
    remote, gone = is_remote(session.name), session.connected is None
    ends = gone and not remote and session.expiry_s != SESSION_NEVER_EXPIRES_S
    return {
        **snapshot.head,
        "session": session.name.lstrip("\0").replace("\0", " "),
        "kind": "remote" if remote else "local",
        "connected": not gone,
        "since": session.since_ms * 1000 if gone and session.since_ms else None,
        "expires_at": (session.since_ms + session.expiry_s * 1000) * 1000 if ends else None,
        "queue": session.queue or None,
        "subscriptions": len(session.subscriptions),
        "received": len(session.received),
        "has_will": session.will is not None,
    }


def read_retained(snapshot: Snapshot, _part: Part, schema: pa.Schema, filters: SplitFilters) -> Batches:
    """The retained messages."""

    def rows() -> Iterator[dict[str, Any]]:
        for key, value in _meta_rows(snapshot, retained_key(b""), b"S", "retained messages"):
            try:
                _, kept = decode_row(key[1:], value)
            except StorageDamaged:
                snapshot.damaged(f"the retained message of {key[1:].decode(errors='replace')!r} is damaged")
                continue
            if _within(kept.accepted_ms * 1000, filters):
                yield _retained(snapshot, kept)

    yield from _batches(schema, rows())


def _retained(snapshot: Snapshot, kept: Batch) -> dict[str, Any]:
    expiry_s = message_expiry_s(kept.properties[0]) if 0 in kept.properties else None
    return {
        **snapshot.head,
        "topic": kept.topics[0].decode(errors="replace"),
        "qos": kept.flags[0] & QOS_MASK,
        "accepted_at": kept.accepted_ms * 1000,
        "expires_at": (kept.accepted_ms + expiry_s * 1000) * 1000 if expiry_s is not None else None,
        "payload_bytes": len(kept.payloads),
        "payload": kept.payloads,
    }
