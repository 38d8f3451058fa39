"""The table of messages: the chunks of a queue, decoded in columns, with what the queue's row and its settlements say of them.

The messages that are not settled are exactly the durable depth of the queue. Settled messages are there as far as the queue's
history goes back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from analysis.tables.arrow import INT, Makers, batch, binaries, longs, picked, slices, texts, times
from analysis.tables.checkpoint_reader import Bulk
from analysis.tables.chunk_decoder import NONE, BadChunk, ChunkColumns, ChunkRows
from analysis.tables.runs import Longs, Runs, painted
from analysis.tables.schemas import PAYLOAD, SETTLED, STATES
from analysis.tables.settlements import Settlements, settlements_about
from analysis.tables.snapshot import Snapshot
from analysis.tables.splits import Part, SplitFilters
from storage.engine.keys import chunk_key
from storage.queue.chunk import claimed_span
from storage.queue.ledger import LedgerRow
from storage.snapshots.manifest import QueueFacts
from wire.errors import ConfigError, StorageDamaged
from wire.ranges import RangeSet

SETTLED_CODE = STATES.index(SETTLED)
OF_SETTLEMENT = frozenset(("settled_at", "outcome", "settled_by", "settlement"))
KEY_BYTES = 12
_ALL = 1 << 62


@dataclass(slots=True)
class MessagePlace:
    """A queue while it is read: its row, its states by sequence, and its settlements if anybody asked for them."""

    queue: QueueFacts
    row: LedgerRow
    states: Runs
    settlements: Settlements | None = None

    def entries(self, seqs: Longs, states: Longs) -> Longs:
        """Per sequence, with its state, the entry of the settlements that it is in; -1 where it is not settled, or in none."""
        assert self.settlements is not None
        # A settlement below the head or in the settled ranges; anything else would be a contradiction, which reports look for.
        if not (states == SETTLED_CODE).any():
            return np.full(len(seqs), NONE)
        return np.where(states == SETTLED_CODE, self.settlements.index.of(seqs), NONE)


def read_messages(snapshot: Snapshot, part: Part, schema: pa.Schema, filters: SplitFilters) -> Iterator[pa.RecordBatch]:
    """The messages of ``part`` that are wanted, in order."""
    queue = next(each for each in snapshot.manifest.queues if each.number == part.number)
    row = snapshot.row(queue)
    if row is None:
        return
    place = MessagePlace(queue, row, states_of(queue, row))
    start, stop = wanted_range(row, part, filters)
    if start >= stop:
        return
    if OF_SETTLEMENT & set(schema.names) or queue.name in filters.numbers:
        wanted = filters.numbers_of(queue.name, row.history.first, row.history.next)
        place.settlements = _settlements(snapshot, queue, row, start, stop, min(wanted)[0] if wanted else row.history.next)
    with_lengths = PAYLOAD in schema.names
    for rows in decoded(snapshot, place, start, stop, filters):
        chosen = _chosen(rows, place, start, stop, filters)
        if chosen is None:
            yield from slices(_made(snapshot, place, rows, slice(None), schema), rows.lengths if with_lengths else None)
        elif len(chosen):
            yield from slices(_made(snapshot, place, rows, chosen, schema), rows.lengths[chosen] if with_lengths else None)


def states_of(queue: QueueFacts, row: LedgerRow) -> Runs:
    """The state of each sequence, as a place in ``STATES``."""
    settled = (*row.settled, (0, row.head))
    return painted(0, [(queue.in_flight, 1), (row.released, 2), (settled, SETTLED_CODE)])


def wanted_range(row: LedgerRow, part: Part, filters: SplitFilters) -> tuple[int, int]:
    """The sequences to look at: those of ``part`` that can be wanted and that the snapshot has."""
    history = row.history.begins
    with_settled = history >= 0 and (filters.states is None or SETTLED in filters.states)
    start = max(part.start, min(history, row.head) if with_settled else row.head, filters.seq_from or 0)
    stop = min(part.stop, row.tail, filters.seq_to if filters.seq_to is not None else _ALL)
    return start, stop


# --- chunks ---


def decoded(snapshot: Snapshot, place: MessagePlace, start: int, stop: int, filters: SplitFilters) -> Iterator[ChunkRows]:
    """The rows of the chunks with anything in ``[start, stop)`` that may be wanted. Damage is reported and left out."""
    store, queue = snapshot.store, place.queue
    assert store is not None
    gaps = _Gaps(snapshot, place, stop)
    begin_key, end_key = chunk_key(queue.number, start), chunk_key(queue.number, stop)
    unknown = ""  # why it is not known whether a chunk reaches over ``start``

    def damaged(first_key: bytes, stop_key: bytes, why: str) -> None:
        nonlocal unknown
        first = int.from_bytes(first_key[4:12], "big") + (len(first_key) > KEY_BYTES)
        following = store.key_from("msg", stop_key, end_key) if stop_key < end_key else None
        behind = int.from_bytes(following[4:12], "big") if following is not None else stop
        first = max(start if unknown else first, gaps.seq)
        snapshot.damaged(why, queue.name, first, max(first, behind - 1))
        gaps.forget()
        unknown = ""

    try:
        begin_key = store.key_before("msg", begin_key, chunk_key(queue.number, 0)) or begin_key
    except StorageDamaged as error:
        unknown = str(error)
    for bulk in store.bulks_around("msg", begin_key, end_key, KEY_BYTES, damaged):
        if unknown and bulk.keys[0] > begin_key:
            snapshot.damaged(unknown, queue.name, start, int.from_bytes(bulk.keys[0][4:12], "big") - 1)
        unknown = ""
        chunks = ChunkColumns(bulk)
        for bad in chunks.bad:
            _tell_bad(snapshot, queue, bad, start)
        gaps.scan(chunks, anew=bool(chunks.bad))
        chosen = chunks.stop > start
        chosen &= _chunks_wanted(chunks, place.states, filters, history=place.row.history.begins >= 0)
        if chosen.any():
            yield from _rows(snapshot, queue, bulk, chunks, chosen)
    if unknown:
        snapshot.damaged(unknown, queue.name, start, stop - 1)
    gaps.end()


def _rows(
    snapshot: Snapshot, queue: QueueFacts, bulk: Bulk, chunks: ChunkColumns, chosen: npt.NDArray[np.bool_]
) -> Iterator[ChunkRows]:
    try:
        rows = chunks.rows(chosen)
    except StorageDamaged as error:
        if len(bulk.keys) == 1:
            seq = int.from_bytes(bulk.keys[0][4:12], "big")
            snapshot.damaged(str(error), queue.name, seq, seq)
            return
        wanted = set(chunks.first_seq[chosen].tolist())
        for key, value in zip(*bulk, strict=True):  # one by one, to tell which it is
            alone = Bulk([key], [value])
            single = ChunkColumns(alone)
            if len(single) and int(single.first_seq[0]) in wanted:
                yield from _rows(snapshot, queue, alone, single, np.ones(1, np.bool_))
        return
    yield rows


def _chunks_wanted(chunks: ChunkColumns, states: Runs, filters: SplitFilters, *, history: bool) -> npt.NDArray[np.bool_]:
    """Which chunks may have rows that are wanted, by their headers."""
    chosen = np.ones(len(chunks), np.bool_)
    if filters.since_us is not None:
        chosen &= chunks.accepted_ms * 1000 >= filters.since_us
    if filters.until_us is not None:
        chosen &= chunks.accepted_ms * 1000 < filters.until_us
    codes = _state_codes(filters, history=history)
    if len(codes) < len(STATES):
        uniform = states.uniform(chunks.first_seq, chunks.stop)
        chosen &= (uniform < 0) | np.isin(uniform, codes)
    return chosen


def _state_codes(filters: SplitFilters, *, history: bool) -> list[int]:
    """The states that are wanted; settled messages only as far as history is kept."""
    wanted = STATES if filters.states is None else filters.states
    return [code for code, state in enumerate(STATES) if state in wanted and (history or state != SETTLED)]


def _tell_bad(snapshot: Snapshot, queue: QueueFacts, bad: BadChunk, start: int) -> None:
    claimed = claimed_span(bad.value, bad.seq)
    if claimed is not None and claimed[0] <= start:
        return  # it has nothing of what is read
    if bad.newer and snapshot.trouble.fails:
        raise ConfigError(bad.why, path=snapshot.path, queue=queue.name, seq=bad.seq)
    snapshot.damaged(bad.why, queue.name, bad.seq, claimed[0] - 1 if claimed is not None else bad.seq)


class _Gaps:
    """Whether durable bytes are missing between chunks that follow each other, above the head and not where they were purged."""

    def __init__(self, snapshot: Snapshot, place: MessagePlace, stop: int) -> None:
        self._snapshot = snapshot
        self._place = place
        self._stop = stop
        self._purged = RangeSet(place.row.purged)
        self.seq = self._bytes = NONE  # where the chunk before ends, if that is known

    def forget(self) -> None:
        """Messages before that are not known, or reported already."""
        self.seq = NONE

    def scan(self, chunks: ChunkColumns, *, anew: bool) -> None:
        """At ``chunks``, which follow those before. anew: not all that follow each other here are neighbours."""
        if not len(chunks):
            return
        if anew:
            self.forget()
            return
        ends = chunks.bytes_before + chunks.size_bytes
        before = np.concatenate([[self._bytes if self.seq != NONE else chunks.bytes_before[0]], ends[:-1]])
        for at in np.flatnonzero(chunks.bytes_before != before):
            first = int(chunks.stop[at - 1]) if at else self.seq
            self._warn(first, int(chunks.first_seq[at]))
        self.seq, self._bytes = int(chunks.stop[-1]), int(ends[-1])

    def end(self) -> None:
        """The last chunk was looked at."""
        row = self._place.row
        if self.seq != NONE and self._stop >= row.tail and self._bytes != row.tail_bytes:
            self._warn(self.seq, row.tail)

    def _warn(self, start: int, stop: int) -> None:
        start = max(start, self._place.row.head)
        purged = self._purged.next_range(start)
        if start < stop and (purged is None or purged[0] >= stop):
            self._snapshot.damaged("chunks are missing", self._place.queue.name, start, stop - 1)


# --- rows ---


def _chosen(rows: ChunkRows, place: MessagePlace, start: int, stop: int, filters: SplitFilters) -> npt.NDArray[np.intp] | None:
    """The rows that are wanted; None: all of them."""
    chosen = (rows.seq >= start) & (rows.seq < stop)
    codes = _state_codes(filters, history=place.row.history.begins >= 0)
    if len(codes) < len(STATES):
        chosen &= np.isin(place.states.of(rows.seq), codes)
    numbers = filters.numbers.get(place.queue.name)
    if numbers is not None and place.settlements is not None:
        states = place.states.of(rows.seq)
        settled_by = place.settlements.at("numbers", place.entries(rows.seq, states))
        within = np.searchsorted(np.array(numbers, np.int64).ravel(), settled_by, side="right") % 2 == 1
        chosen &= (states != SETTLED_CODE) | within
    return None if chosen.all() else np.flatnonzero(chosen)


def _made(snapshot: Snapshot, place: MessagePlace, rows: ChunkRows, chosen: Any, schema: pa.Schema) -> pa.RecordBatch:
    """The rows that are ``chosen`` (indices or a slice), in the columns of ``schema``."""
    seq = rows.seq[chosen]
    states = cache(lambda: place.states.of(seq))
    entries = cache(lambda: place.entries(seq, states()))
    makers: Makers = {
        **snapshot.same(len(seq), place.queue),
        "seq": lambda: longs(seq),
        "state": lambda: picked(STATES, states()),
        "topic": lambda: picked(texts(rows.topics), rows.topic[chosen]),
        "rule": lambda: picked([route.rule for route in rows.routes], rows.topic_routes[rows.topic[chosen]]),
        "destination": lambda: picked([route.destination for route in rows.routes], rows.topic_routes[rows.topic[chosen]]),
        "qos": lambda: longs(rows.qos[chosen], kind=INT),
        "retain": lambda: pa.array(rows.retain[chosen]),
        "accepted_at": lambda: times(rows.accepted_ms[chosen]),
        "expires_at": lambda: times(rows.expires_ms[chosen], null=rows.expires_ms[chosen] == NONE),
        "payload_bytes": lambda: longs(rows.lengths[chosen], kind=INT),
        "properties_bytes": lambda: longs(rows.properties_bytes[chosen], kind=INT),
        "payload": lambda: _payload(rows, chosen),
        **{name: partial(_of_settlement, name, place, entries) for name in OF_SETTLEMENT},
    }
    return batch(schema, makers)


def _payload(rows: ChunkRows, chosen: Any) -> pa.Array:
    payloads = binaries(rows.payloads, rows.lengths)
    return payloads if isinstance(chosen, slice) else payloads.take(pa.array(chosen))


def _of_settlement(name: str, place: MessagePlace, entries: Callable[[], Longs]) -> pa.Array:
    assert place.settlements is not None
    settlements, entry = place.settlements, entries()
    match name:
        case "outcome":
            return picked(list(settlements.outcome_names), settlements.at("outcome", entry))
        case "settled_by":
            return picked(list(settlements.by_names), settlements.at("by", entry))
        case "settled_at":
            return times(settlements.at("settled_ms", entry), null=entry < 0)
        case _:
            return longs(settlements.at("numbers", entry), null=entry < 0)


def _settlements(snapshot: Snapshot, queue: QueueFacts, row: LedgerRow, start: int, stop: int, number: int) -> Settlements:
    """The settlements from ``number`` on that can have anything of ``[start, stop)``; what is missing is told.

    Nothing is read where nothing in there is settled.
    """
    assert snapshot.store is not None
    settled = RangeSet((*row.settled, (0, row.head))).next_range(start)
    if settled is None or settled[0] >= stop:
        return Settlements()
    low, high = settlements_about(snapshot.store, queue.number, (row.history.first, row.history.next), start, stop)
    low = max(low, number)
    name = snapshot.path, snapshot.manifest.id, queue.number
    known = _RECENT.get(name)
    if known is not None and known[0] <= low and high <= known[1]:
        return known[2]
    whole = True

    def missing(first: int, stop: int, why: str) -> None:
        nonlocal whole
        whole = False
        snapshot.damaged(f"{why}: settlements {first} to {stop - 1}", queue.name)

    found = Settlements.read(snapshot.store, queue.number, low, high, missing)
    _RECENT.clear()
    if whole:
        _RECENT[name] = low, high, found
    return found


# The settlements that were read last, and their numbers: those of a part are most often those of the next one as well where
# nothing tells them apart, or where much was in the queue.
_RECENT: dict[tuple[str, str, int], tuple[int, int, Settlements]] = {}
