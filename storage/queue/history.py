"""History of the messages that have left a queue: settlements, their bytes on the disk, and when they go. So here is decided which
chunks of the queue the disk keeps: those that are live, and behind them those of the history.

The rows of the column family ``history`` under ``T`` are settlements. For a bridge with ``retention``, each commit that settled
something writes one row for each queue and each actor that settled, in the same write as the queue's own row:

    key    ``T`` u8 | number of the queue u32 | number of the row u64, big endian
    value  msgpack ``(1, settled_ms, by, ((outcome, ((start, stop), ...)), ...), head, reach)``

Rows are numbered from 0 in each queue, without a gap, and a number is never given twice. ``settled_ms`` is UTC epoch. ``by``:
``connection:<bridge>:<lane>@<lane epoch>`` or ``forwarder:<bridge>:<lane>@<lane epoch>`` for an actor of the lane, ``store``, or
``operator``. ``outcome`` is as in the ledger: ``delivered``, ``expired``, ``dropped:<reason>``, ``dead:<reason>``, each sequence of
whose ranges left the queue by it; or ``redelivered``, which counts sendings and settles nothing. ``head`` is the queue's
head before the commit, ``reach`` is where the highest stops that has left the queue.

queue.history-without-gap [P6, reports]: from ``begins`` (of the queue's row) to its tail each sequence is in one settlement, and
    there once, or in none and still in the queue. ``head`` and ``reach`` never fall from a row to the next, and what a row settles
    is in ``[head, reach)``. So what is settled of ``[start, stop)`` is in the rows from the first that reaches above ``start`` up
    to the first with a head of ``stop`` or more. The chunks of what is settled there are kept, too, but for purged and damaged
    ones. Below ``begins`` nothing is promised.
queue.history-leaves-live-alone [P2]: what becomes of the history never changes what is live.

A QoS 0 message that was lost with the memory of the store is settled, as ``dropped:restart`` or ``dropped:qos0_memory``, only when
the queue has come to it; until then it is in the ledger alone. A purge, and damage, settle all that they find unsettled, such
messages included.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import msgpack

from storage.engine.engine import Engine, Write
from storage.engine.keys import chunk_key
from storage.queue.chunk import Chunk, Message, Place, rows_of
from storage.queue.chunk_reader import ChunkReader
from storage.queue.ledger import HistoryRow, LedgerRow
from wire.errors import ConfigError, StorageDamaged, Unavailable
from wire.frames.frame import Ranges
from wire.ranges import RangeSet
from wire.status.outcomes import REDELIVERED

SETTLEMENT_VERSION = 1
ROW_BYTES = 110  # about what a settlement takes on the disk
LOOKED_MAX = 100_000  # settlements that are old and cannot go yet, because they reach above what can

LOOKED_BYTES = 8 << 20  # of a page of messages, what is not in it included
LOOKED_CHUNKS = 5000
SETTLEMENTS_MAX = 20_000  # of such a page
UNKNOWN = "left"  # how one left of which that cannot be told

_KIND = b"T"
TRIM_MESSAGES = 5000
TRIM_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Settlement:
    """One row: what ``by`` settled with one commit."""

    settled_ms: int
    by: str
    outcomes: tuple[tuple[str, Ranges], ...]
    head: int
    reach: int

    def encode(self) -> bytes:
        """The row's value."""
        packed: bytes = msgpack.packb((SETTLEMENT_VERSION, self.settled_ms, self.by, self.outcomes, self.head, self.reach))
        return packed

    @classmethod
    def decode(cls, value: bytes) -> Settlement:
        """The row that ``encode`` made.

        Raises:
            StorageDamaged: it is not a row.
            ConfigError: a newer build wrote it.
        """
        try:
            version, *fields = msgpack.unpackb(value, use_list=False)
            version += 0
        except (ValueError, TypeError, msgpack.UnpackException) as error:
            raise StorageDamaged("a settlement is damaged") from error
        if version != SETTLEMENT_VERSION:
            raise ConfigError("a settlement was written by another version", version=version, known=SETTLEMENT_VERSION)
        try:
            settled_ms, by, outcomes, head, reach = fields
            ranges_of = tuple((outcome, tuple((start, stop) for start, stop in ranges)) for outcome, ranges in outcomes)
            return cls(settled_ms, by, ranges_of, head + 0, reach + 0)
        except (ValueError, TypeError) as error:
            raise StorageDamaged("a settlement is damaged") from error


class LeftMessage(NamedTuple):
    """One that has left. outcome: as in the ledger, or ``UNKNOWN``. left_ms: when that was, UTC; 0 if that cannot be told."""

    message: Message
    outcome: str
    left_ms: int


def settlement_key(queue: int, number: int) -> bytes:
    """The key of row ``number`` of ``queue``."""
    return _KIND + queue.to_bytes(4, "big") + number.to_bytes(8, "big")


def settlement_of(key: bytes) -> tuple[int, int]:
    """The queue and the number of the row under ``key``."""
    return int.from_bytes(key[1:5], "big"), int.from_bytes(key[5:13], "big")


RowFrom = Callable[[int, int], tuple[int, Settlement] | None]  # the first row in [low, high) that can be read, with its number


def rows_about(numbers: tuple[int, int], start: int, stop: int, row_from: RowFrom) -> tuple[int, int]:
    """Numbers ``[low, high)`` in ``numbers`` with every row that settles something of the sequences ``[start, stop)``
    (queue.history-without-gap).

    Looks at about ``2 * log2`` of the rows. One that cannot be read is left in unless its neighbours tell that it does not matter.
    """
    low, _ = _split(numbers, row_from, lambda row: row.reach > start)
    _, high = _split((low, numbers[1]), row_from, lambda row: row.head >= stop)
    return low, high


def rows_below(numbers: tuple[int, int], stop: int, row_from: RowFrom) -> int:
    """The number of the first row that may settle something from the sequence ``stop`` on (queue.history-without-gap)."""
    return _split(numbers, row_from, lambda row: row.reach > stop)[0]


def _split(numbers: tuple[int, int], row_from: RowFrom, beyond: Callable[[Settlement], bool]) -> tuple[int, int]:
    """The start of the rows that are ``beyond``: all of them are from the first number on, and all from the second on are."""
    low, high = numbers
    end, known = high, True
    while low < end:
        middle = (low + end) // 2
        found = row_from(middle, end)
        if found is None:
            end = middle
        elif beyond(found[1]):
            end, high = middle, found[0]
        else:
            low, known = found[0] + 1, found[1].reach >= 0
    return (low if known else numbers[0]), high


class QueueHistory:
    """The history of one queue: notes what leaves it, writes that with the queue's row, and deletes what is too old."""

    def __init__(self, engine: Engine, name: str, number: int, row: HistoryRow, head: int) -> None:
        """head: the queue's, as its row has it."""
        self.begins = row.begins
        self.chunks_bytes = row.chunks_bytes
        self._engine = engine
        self._queue = number
        self._reader = ChunkReader(engine, name, number, row.chunks_from)
        self._first = row.first
        self._next = row.next
        self._head = head
        self._notes: dict[str, dict[str, list[tuple[int, int]]]] = {}
        self._deletes = False  # whether everything kept before ``begins`` is to be deleted
        self._look_at = row.first
        self._looked: deque[tuple[int, int]] = deque()  # settlements that are old and still kept: number, where the highest stops
        self._old = RangeSet()
        self._old_to = row.begins  # everything below it is old

    @property
    def chunks_from(self) -> int:
        """Chunks below it are deleted."""
        return self._reader.low

    # --- what leaves the queue ---

    def note(self, by: str, outcome: str, ranges: Iterable[tuple[int, int]]) -> None:
        """``ranges`` leave the queue; they are written with its row."""
        noted = self._notes.setdefault(by, {}).setdefault(outcome, [])
        for start, stop in ranges:
            if noted and noted[-1][1] == start:
                noted[-1] = (noted[-1][0], stop)
            elif start < stop:
                noted.append((start, stop))

    def chunks(self, start: int, stop: int, damage: Callable[[StorageDamaged], None]) -> Iterator[Chunk]:
        """The chunks with anything in ``[start, stop)``, as far as they are kept; ``damage`` is told of one that cannot be read.

        Raises:
            Unavailable: they cannot be read for now.
        """
        return self._reader.chunks_in(max(start, self.begins), stop, damage)

    def left(
        self, stretch: tuple[int, int], times: tuple[int, int], has_left: Callable[[int], bool], *, count: int, size_bytes: int
    ) -> tuple[list[LeftMessage], int, int]:
        """The first of the sequences ``stretch`` that have left and were accepted in ``times`` (UTC), where a next look begins,
        and how many damaged chunks were passed over: ``count`` at most, and no more once they have ``size_bytes``. Nothing changes.

        Raises:
            Unavailable, ConfigError: they cannot be read.
        """
        found, following, damaged = self._kept(stretch, times, has_left, count, size_bytes)
        fates = self._fates([message.seq for message in found]) if found else {}
        return [LeftMessage(message, *fates.get(message.seq, (UNKNOWN, 0))) for message in found], following, damaged

    def _kept(
        self, stretch: tuple[int, int], times: tuple[int, int], has_left: Callable[[int], bool], count: int, size_bytes: int
    ) -> tuple[list[Message], int, int]:
        found: list[Message] = []
        damages: list[StorageDamaged] = []
        looked = looked_bytes = found_bytes = 0
        for chunk in self.chunks(*stretch, damages.append):
            if times[0] <= chunk.accepted_ms < times[1]:
                for message in rows_of(chunk, *stretch, RangeSet()):
                    if not has_left(message.seq):
                        continue
                    if len(found) == count or found_bytes >= size_bytes:
                        return found, message.seq, len(damages)
                    found.append(message)
                    found_bytes += message.size_bytes
            looked, looked_bytes = looked + 1, looked_bytes + chunk.size_bytes
            if looked == LOOKED_CHUNKS or looked_bytes >= LOOKED_BYTES:
                return found, chunk.stop, len(damages)
        return found, stretch[1], len(damages)

    def _fates(self, seqs: list[int]) -> dict[int, tuple[str, int]]:
        """How and when (UTC) each of ``seqs``, which rise, left, as far as settlements tell it that can be read."""
        found: dict[int, tuple[str, int]] = {}
        try:
            low, high = rows_about((self._first, self._next), seqs[0], seqs[-1] + 1, self._row_from)
            rows = settlement_key(self._queue, low), settlement_key(self._queue, min(high, low + SETTLEMENTS_MAX))
            for _, value in self._engine.scan("history", *rows):
                row = Settlement.decode(value)
                for outcome, ranges in row.outcomes:
                    if outcome != REDELIVERED:
                        for first, end in ranges:
                            of_it = seqs[bisect_left(seqs, first) : bisect_left(seqs, end)]
                            found |= dict.fromkeys(of_it, (outcome, row.settled_ms))
        except StorageDamaged:  # the reports name it
            return found
        return found

    def write(self, write: Write, wall_ms: int, head: int, reach: int) -> None:
        """Put what was noted into ``write``. The queue's row that goes with it has this ``head``; nothing left above ``reach``."""
        if self._deletes:
            self._deletes = False
            write.delete_range("history", settlement_key(self._queue, 0), settlement_key(self._queue + 1, 0))
        for by, outcomes in self._notes.items():
            noted = tuple((outcome, _sorted(ranges)) for outcome, ranges in outcomes.items() if ranges)
            if not noted:
                continue
            write.put(
                "history", settlement_key(self._queue, self._next), Settlement(wall_ms, by, noted, self._head, reach).encode()
            )
            self._next += 1
        self._notes.clear()
        self._head = head

    def row(self) -> HistoryRow:
        """The history in the queue's row, once ``write`` was called."""
        return HistoryRow(self.begins, self.chunks_from, self.chunks_bytes, self._first, self._next)

    def restart(self, begins: int) -> None:
        """Forget everything that is kept, and begin at ``begins``: nothing from there on has left the queue."""
        self.begins = self._old_to = begins
        self._first = self._look_at = self._next
        self._notes.clear()
        self._looked.clear()
        self._old.clear()
        self._deletes = True

    # --- how much there is ---

    @property
    def settlements(self) -> int:
        """How many rows are kept."""
        return self._next - self._first

    def size_bytes(self, live_bytes: int) -> int:
        """About what it takes on the disk; there are ``live_bytes`` durable bytes of the queue before what is live."""
        return max(0, live_bytes - self.chunks_bytes) + self.settlements * ROW_BYTES

    # --- what is too old ---

    def age_out(self, stays: Callable[[int], bool], rows_max: int) -> bool:
        """Look at ``rows_max`` settlements more, the oldest first, and take them for old; whether there may be more of them.

        A settlement is old until one was made at a time that ``stays``.

        Raises:
            StorageDamaged, ConfigError: a settlement cannot be read, or is missing.
            Unavailable: the disk refuses for now.
        """
        first, end = settlement_key(self._queue, self._look_at), settlement_key(self._queue, self._next)
        if self._look_at >= self._next:
            return False
        for key, value in self._engine.scan("history", first, end):
            if settlement_of(key)[1] != self._look_at:
                raise StorageDamaged("a settlement is missing", queue=self._queue, number=self._look_at)
            settlement = Settlement.decode(value)
            if stays(settlement.settled_ms) or len(self._looked) >= LOOKED_MAX:
                return False
            self._take_for_old(settlement)
            rows_max -= 1
            if rows_max <= 0:
                return True
        return False

    def _take_for_old(self, settlement: Settlement) -> None:
        highest = 0
        for outcome, ranges in settlement.outcomes:
            if outcome != REDELIVERED:
                for low, high in ranges:
                    self._old.add(max(low, self._old_to), high)
                    highest = max(highest, high)
        self._old_to = self._old.advance(self._old_to)
        self._looked.append((self._look_at, highest))
        self._look_at += 1

    def seq_for(self, part: float, live_from: int, live_bytes: int) -> int:
        """Above where ``part`` of the bytes of the chunks are, or of the sequences where there are no chunks: QoS 0 has none.

        Raises:
            StorageDamaged, ConfigError, Unavailable: it cannot be read.
        """
        if live_bytes > self.chunks_bytes:
            return self._seq_at(live_bytes - int((live_bytes - self.chunks_bytes) * part), live_from)
        return live_from - int(max(0, live_from - self.begins) * part)

    def _seq_at(self, size_bytes: int, live_from: int) -> int:
        """The start of the chunk that has ``size_bytes`` durable bytes of the queue or more before it; ``live_from`` at most."""
        low, high = self.chunks_from, live_from
        while low < high:
            middle = (low + high) // 2
            chunk = self._reader.before(middle)
            if chunk is None or chunk.bytes_before < size_bytes:
                low = max(middle + 1, chunk.stop if chunk is not None else 0)
            else:
                high = chunk.first_seq
        return min(low, live_from)

    def cut(self, live_from: int, live_bytes: int, write: Write, *, below: int = 0) -> None:
        """Delete with ``write`` what was found to be old and is below ``live_from``.

        live_from: there is nothing live below it, and ``live_bytes`` durable bytes of the queue. below: what is below it goes
        however young it is. Write the queue's row, too.

        Raises:
            StorageDamaged, ConfigError, Unavailable: it cannot be read; nothing has changed.
        """
        seq, size_bytes = min(max(self._old_to, below), live_from), live_bytes
        if seq < live_from:
            chunk = self._reader.before(seq)
            size_bytes = self.chunks_bytes
            if chunk is not None and chunk.stop > seq:
                seq, size_bytes = chunk.first_seq, chunk.bytes_before
            elif chunk is not None:
                size_bytes = chunk.bytes_before + chunk.size_bytes
        first = rows_below((self._first, self._next), seq, self._row_from) if below > self._old_to else self._first
        while self._looked and (self._looked[0][1] <= seq or self._looked[0][0] < first):
            first = max(first, self._looked.popleft()[0] + 1)
        self._look_at = max(self._look_at, first)
        self._old.discard(0, seq)
        self._old_to = self._old.advance(max(self._old_to, seq))
        if first > self._first:
            write.delete_range("history", settlement_key(self._queue, self._first), settlement_key(self._queue, first))
            self._first = first
        self._delete_chunks(seq, size_bytes, write)

    def _row_from(self, low: int, _high: int) -> tuple[int, Settlement]:
        value = self._engine.get("history", settlement_key(self._queue, low))
        if value is None:
            raise StorageDamaged("a settlement is missing", queue=self._queue, number=low)
        return low, Settlement.decode(value)

    def drop(self, live_from: int, write: Write) -> None:
        """Delete everything that is kept with ``write``, below ``live_from`` where there is nothing live."""
        self.restart(live_from)
        self.write(write, 0, live_from, live_from)
        self._delete_chunks(live_from, 0, write)

    def _delete_chunks(self, seq: int, size_bytes: int, write: Write) -> None:
        if seq <= self.chunks_from:
            return
        write.delete_range("msg", chunk_key(self._queue, self.chunks_from), chunk_key(self._queue, seq))
        self._reader.begin_at(seq)
        self.chunks_bytes = max(size_bytes, self.chunks_bytes)
        self.begins = max(self.begins, seq)


def _sorted(ranges: list[tuple[int, int]]) -> Ranges:
    return RangeSet(ranges).ranges() if len(ranges) > 1 else tuple(ranges)


class Trimming:
    """Deletes the chunks of one queue that nobody needs any more.

    queue.trimmed-after-settled [P3]: a chunk is deleted only in or after the write whose row has all of it settled.

    With a history, trimming deletes no chunk: the history does when it is cut (queue.history-without-gap).

    history: None where none is kept.
    """

    def __init__(
        self,
        engine: Engine,
        reader: ChunkReader,
        row: LedgerRow,
        live_from: Callable[[], Place],
        changed: Callable[[], None],
        *,
        retained: bool,
    ) -> None:
        """Go on with the history where one is to be ``retained``, or begin one, or drop the one that nobody wants any more.

        reader: of the live chunks. live_from: where the earliest chunk begins that is still needed. changed: is called when the row
        is to be written.
        """
        self.history: QueueHistory | None = None
        self._reader = reader
        self._live_from = live_from
        self._changed = changed
        self._trimmed_bytes = 0
        self._no_history = row.history
        self._left_over: QueueHistory | None = None  # what is kept though nobody wants it any more
        began = row.history.begins >= 0
        if not retained and not began:
            return
        kept = row.history if began else row.history._replace(chunks_from=row.trimmed)
        history = QueueHistory(engine, reader.name, reader.number, kept, row.head)
        if retained:
            self.history = history
            if not began:
                self.restart(row.head, row.settled)
            return
        self._no_history = HistoryRow(first=row.history.next, next=row.history.next)
        self._left_over = history
        changed()

    @property
    def trimmed(self) -> int:
        """Chunks below it have nothing live in them."""
        return self._reader.low

    def begin_at(self, size_bytes: int) -> None:
        """There are ``size_bytes`` durable bytes of the queue before ``trimmed``."""
        self._trimmed_bytes = size_bytes

    # --- deleting ---

    def trim(self, write: Write, *, idle: bool) -> None:
        """Delete what is not live with ``write`` if it is much or the queue is ``idle``."""
        floor, floor_bytes = self._live_from()
        trimmed = self._reader.low
        messages, size_bytes = floor - trimmed, floor_bytes - self._trimmed_bytes
        if messages < TRIM_MESSAGES and size_bytes < TRIM_BYTES and not (idle and messages > 0):
            return
        if size_bytes <= 0 and self.history is None:
            return  # only QoS 0 was there, as far as is known; if more was, it goes with what follows
        self._move(floor, floor_bytes)
        if self.history is None:  # else it keeps them
            write.delete_range("msg", chunk_key(self._reader.number, trimmed), chunk_key(self._reader.number, floor))

    def settled_below(self, head: int) -> int:
        """Below it no chunk has anything that is not settled; without a history they are deleted, or will be with what follows."""
        if self.history is None:
            return self.trimmed
        floor = self._live_from()[0]
        try:
            chunk = self._reader.before(head)
        except (StorageDamaged, ConfigError, Unavailable):
            return floor
        return floor if chunk is None or chunk.first_seq < floor else chunk.first_seq if chunk.stop > head else head

    def delete(self, write: Write, start: int, tail: int, tail_bytes: int) -> None:
        """Delete the chunks from ``start`` to the ``tail`` of the queue, in which nothing is live any more, with ``write``."""
        write.delete_range("msg", chunk_key(self._reader.number, start), chunk_key(self._reader.number, tail))
        self._move(tail, tail_bytes)

    def _move(self, floor: int, floor_bytes: int) -> None:
        self._reader.begin_at(floor)
        self._trimmed_bytes = floor_bytes
        self._changed()

    def kept_bytes(self, tail_bytes: int) -> int:
        """About what the disk keeps of the queue, which ever had ``tail_bytes``."""
        return tail_bytes - self._trimmed_bytes if self.history is None else self.history.size_bytes(tail_bytes)

    # --- the history ---

    @property
    def size_bytes(self) -> int:
        """About what the history takes on the disk."""
        return 0 if self.history is None else self.history.size_bytes(self._live_from()[1])

    def retained(self, head: int) -> int:
        """Messages below ``head`` that have left the queue and are kept."""
        return 0 if self.history is None else max(0, head - self.history.begins)

    def restart(self, head: int, settled: Ranges) -> None:
        """The kept history has a hole, or cannot be read: start again where nothing has left the queue, which has ``settled``
        these."""
        assert self.history is not None
        self.history.restart(max(head, settled[-1][1] if settled else 0))
        self._changed()

    def seq_for(self, part: float) -> int:
        """The start of the history at which about ``part`` of its bytes are left.

        Raises:
            StorageDamaged, ConfigError, Unavailable: it cannot be read.
        """
        assert self.history is not None
        return self.history.seq_for(part, *self._live_from())

    def cut(self, write: Write, *, below: int = 0) -> None:
        """Delete with ``write`` what the history has found to be old.

        below: what is below it goes however young it is, where the settlements tell how far they reach.

        Raises:
            StorageDamaged, ConfigError, Unavailable: it cannot be read; nothing has changed.
        """
        assert self.history is not None
        live = self._live_from()
        self.history.cut(*live, write, below=below)
        self._move(*live)  # what is deleted is below what the row says is live

    # --- the row ---

    def write(self, write: Write, wall_ms: int, head: int, reach: int) -> HistoryRow:
        """Put into ``write`` what goes into the history with a row of this ``head``, and return what that row has of the history;
        nothing has left the queue above ``reach``.
        """
        if self.history is not None:
            self.history.write(write, wall_ms, head, reach)
            return self.history.row()
        if self._left_over is not None:
            self._left_over.drop(self.trimmed, write)
            self._left_over = None
        return self._no_history

    def row(self) -> HistoryRow:
        """The history in the queue's row, once everything is committed."""
        return self._no_history if self.history is None else self.history.row()
