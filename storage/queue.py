"""The durable FIFO of one bridge lane: append, hand out, settle, reset. Pure over the engine's protocol.

Memory holds positions, what is in flight, a bounded cache of the newest chunks and the QoS 0 messages that are kept apart; nothing
per message of the backlog. Which write is committed when, and who gets what, is the business of ``tier1``.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Collection, Iterator
from functools import partial
from heapq import merge
from itertools import chain
from operator import attrgetter
from typing import NamedTuple

from storage.chunk import Chunk, claimed_span
from storage.chunk_reader import ChunkReader
from storage.damage import Loss
from storage.engine import Engine, Write
from storage.flights import Flights
from storage.history import QueueHistory
from storage.keys import chunk_key, lane_key
from storage.ledger import HistoryRow, LaneRow
from storage.messages import Message, rows_of
from storage.pieces import Piece, apart, join_tiny, pick, qos0_seqs
from storage.queued_ways import QueuedWays
from wire.batch import head_of, pack_column
from wire.errors import ConfigError, StorageDamaged, Unavailable
from wire.frames import Ranges
from wire.left_sessions import LeftRows, LeftSession
from wire.ranges import ArrivalSet, RangeSet, ranges_of
from wire.sequences import PACKET_IDS

READ_AHEAD_BYTES = 1 << 20
READ_AHEAD_CHUNKS = 1000
SPLIT_ROWS = 4000  # a chunk up to this size is handed out whole even if the credit ends inside it
TRIM_MESSAGES = 5000
HANDED_AHEAD = 16_384  # more than a batch, so that a lane that keeps up has its marks with the commits of the messages
TRIM_BYTES = 16 << 20
CACHE_BYTES = 8 << 20


class Unsent(NamedTuple):
    """What a purge would take: the sequences from ``start`` on; and what stays of the queue below."""

    start: int
    kept_durable: int
    kept_volatile: int
    kept_bytes: int


class Queue:
    """The sequences in [head, tail) and no others.

    Q1  head <= cursor <= tail; the sequence of a durable message is never reused, not even after a crash.
    Q2  a chunk and the tail that covers it land in the same write.
    Q3  what is at or above the cursor has not been handed out since the last reset; what is below it is settled or in flight.
    Q4  accepted = ended + depth (P6), in memory and in every row that is written.
    Q5  a chunk is deleted only in or after the write whose row has all of it settled.
    Q6  a durable message is handed out only below a committed mark, ``handed`` in the row. So after any crash it is known what may
        have been sent: that is neither dropped nor expired, for the remote may hold its packet identifier. Where commits do not
        survive the loss of power the mark may be an older one: then it is all that can be in flight from the head on.
    Q7  where a history is kept, what leaves the queue is noted in it, each sequence once, and trimming deletes no chunk.
    """

    def __init__(
        self,
        engine: Engine,
        name: str,
        number: int,
        row: LaneRow,
        *,
        volatile_max_bytes: int,
        cache_bytes: int = CACHE_BYTES,
        on_change: Callable[[], None] = lambda: None,
        mark_holds: bool = True,
    ) -> None:
        self.name = name
        self.number = number
        self.ledger = row.ledger
        self.generation, self.session, self.left = row.generation, row.session, row.left
        self.head, self.tail = row.head, row.tail
        self.settled = RangeSet(row.settled)
        self.ways = QueuedWays(row.ways)
        self.released = ArrivalSet(row.released)  # in the order of the PUBRECs, which PUBRELs have to keep
        self._changed = False
        self._on_change = on_change
        self._engine = engine
        self._reader = ChunkReader(engine, name, number)
        self._volatile_max_bytes = volatile_max_bytes
        self._cache_bytes = cache_bytes
        self._next = row.tail  # the tail once everything appended is committed
        self._cursor = row.head
        # At or below the first sequence of the chunk in which the cursor stands, and the durable bytes before it, or fewer.
        self._cursor_floor = (row.trimmed, 0)
        self._handed = row.handed if mark_holds else max(row.handed, min(row.tail, row.head + PACKET_IDS))
        self._marked = row.handed  # the committed mark (Q6)
        self._marking = row.handed  # the mark in the newest row that was written, committed or not
        self._mark_wanted = 0
        self.cut_short = False  # the last hand-out stopped before what could not be read
        self._trimmed = row.trimmed
        self._tail_bytes = self._committed_bytes = self._cursor_bytes = row.tail_bytes
        self._trimmed_bytes = 0
        self._depth = row.depth
        self._volatile_depth = self._volatile_bytes = 0
        self._flights = Flights()
        self._volatile: deque[Chunk] = deque()  # QoS 0 kept apart and not handed out
        self._recent: deque[Chunk] = deque()  # every chunk from _recent_low on that is not handed out
        self._recent_low = row.tail
        self._recent_bytes = 0
        self._whole: dict[int, bytes] = {}  # the batches of recent chunks as they came, with the QoS 0 rows
        self._ahead: deque[Chunk] = deque()  # read from disk up to _read_to and not handed out
        self._read_to = row.head
        self._aligned = False  # whether a chunk begins at _read_to
        self._oldest: tuple[int, int | None] = (-1, None)
        self._purged = RangeSet(row.purged)
        self._holes: list[tuple[int, int]] = []  # what was purged above the head: where it ended, durable bytes
        self._passed_bytes: int | None = None  # durable bytes up to the end of the last chunk passed, if the next is read after it
        self._losses: list[Loss] = []
        self.ledger_opened = row.ledger
        self.history: QueueHistory | None = None
        self._no_history = row.history
        self._left_over: QueueHistory | None = None  # what is kept though nobody wants it any more
        self._volatile_from = row.tail  # QoS 0 below it went with a former life of the store

    @classmethod
    def open(
        cls,
        engine: Engine,
        name: str,
        number: int,
        *,
        first_seq: int,
        volatile_max_bytes: int,
        tail_known: int = 0,
        cache_bytes: int = CACHE_BYTES,
        on_change: Callable[[], None] = lambda: None,
        mark_holds: bool = True,
        retained: bool = False,
    ) -> Queue:
        """The queue as the engine has it, or a new one that begins at ``first_seq``. Reads its row and its first chunk (P8).

        tail_known: evidence from elsewhere that the queue went that far once; what is missing up to there is lost. on_change: is
        called when the row is to be written. mark_holds: nothing is committed that a loss of power takes back (Q6). retained:
        whether a history is kept.

        Raises:
            StorageDamaged: its row is damaged.
        """
        value = engine.get("meta", lane_key(number))
        if value is None:
            row = LaneRow(head=first_seq, tail=first_seq, handed=first_seq, trimmed=first_seq)
        else:
            row = LaneRow.decode(value, queue=name)
        queue = cls(
            engine,
            name,
            number,
            row,
            volatile_max_bytes=volatile_max_bytes,
            cache_bytes=cache_bytes,
            on_change=on_change,
            mark_holds=mark_holds,
        )
        queue.ledger_opened = row.ledger.copy()
        lost = row.ledger.accepted - row.ledger.ended() - row.depth  # QoS 0 of the store's former life
        queue._count("dropped:restart", lost)
        if retained or row.history.begins >= 0:
            queue._open_history(row, retained=retained)
        known = True
        if row.head < row.tail:
            known = queue._find_cursor()
        else:
            queue._cursor_floor = (row.head, row.tail_bytes)
        queue._trimmed_bytes = queue._cursor_bytes if known and row.head == row.trimmed else 0
        if tail_known > row.tail:
            queue._lose_tail(tail_known)
        return queue

    @property
    def changed(self) -> bool:
        """Whether the row is to be written."""
        return self._changed

    @changed.setter
    def changed(self, changed: bool) -> None:
        if changed and not self._changed:
            self._on_change()
        self._changed = changed

    # --- figures ---

    @property
    def depth(self) -> int:
        """Messages accepted and not ended, those of uncommitted writes included."""
        return self._depth + self._volatile_depth

    @property
    def depth_on_disk(self) -> int:
        """Those that the open write has on disk, or a commit before it."""
        return self._depth

    @property
    def size_bytes(self) -> int:
        """Bytes of the messages in the queue, to within a chunk."""
        purged = sum(size_bytes for stop, size_bytes in self._holes if self._cursor < stop) if self._holes else 0
        return self._tail_bytes - self._cursor_bytes + self._flights.size_bytes + self._volatile_bytes - purged

    @property
    def in_flight(self) -> int:
        """Messages handed out and not settled."""
        return self._flights.messages

    @property
    def dup_below(self) -> int:
        """Sequences below it may have been sent before."""
        return self._handed

    def waiting(self) -> bool:
        """Whether there is something that was not handed out."""
        return self._cursor < self.tail

    def oldest_ms(self) -> int | None:
        """When the oldest message of the queue was accepted; None if there is none.

        Raises:
            StorageDamaged, Unavailable: it cannot be read.
        """
        first = self._flights.first
        if first is not None:
            return first.accepted_ms
        if self._cursor >= self.tail:
            return None
        if self._oldest[0] != self._cursor:
            durable, volatile = self._peek(chunks_max=1)
            chunk = durable if durable is not None else volatile
            self._oldest = (self._cursor, chunk.accepted_ms if chunk is not None else None)
        return self._oldest[1]

    # --- append ---

    def append(self, body: bytes, count: int, size_bytes: int, qos0: int, write: Write) -> range:
        """Add the batch ``body`` to ``write``: its sequences count once ``write`` is committed, and not before.

        count: its rows, qos0: how many of them are QoS 0. Where the engine is durable, those are kept apart, in memory only.
        """
        first_seq = self._next
        accepted_ms, ways = head_of(body)
        durable = volatile = None
        if qos0 == 0 or not self._engine.durable:
            durable = self._chunk(first_seq, count, None, count, qos0, size_bytes, accepted_ms, body)
        elif qos0 == count:
            volatile = self._chunk(first_seq, count, None, count, qos0, size_bytes, accepted_ms, body)
        else:
            kept, passing = apart(body)
            kept_bytes = kept.batch.size_bytes()
            durable = self._chunk(
                first_seq, count, kept.offsets, len(kept.offsets), 0, kept_bytes, accepted_ms, kept.batch.encode()
            )
            volatile = self._chunk(
                first_seq, count, passing.offsets, qos0, qos0, size_bytes - kept_bytes, accepted_ms, passing.batch.encode()
            )
        self._next = first_seq + count
        self.ways.take(ways, self._next)
        self.ledger.accepted += count
        self.changed = True
        if durable is not None:
            write.put("msg", chunk_key(self.number, first_seq), durable.encode())
            self._tail_bytes += durable.size_bytes
            self._depth += durable.count
        if volatile is not None:
            self._volatile_depth += volatile.count
        write.on_commit(partial(self._committed, self._next, durable, volatile, body))
        return range(first_seq, self._next)

    def refuse_into(self, outcome: str, messages: int) -> None:
        """Count ``messages`` that were accepted and ended at once, under ``outcome``, without ever being in the queue."""
        self.ledger.accepted += messages
        self._count(outcome, messages)

    def count_refused(self, messages: int) -> None:
        """Count ``messages`` that were refused for good, for want of room: they were never accepted."""
        self.ledger.refused += messages
        self.changed = True

    # --- hand out ---

    def hand_out(self, messages: int, size_bytes: int, *, accepted_before_ms: int = 0, below: int | None = None) -> list[Piece]:
        """Hand out, in order, until ``messages`` or ``size_bytes`` are reached (by a chunk more), and mark it in flight.

        What was accepted before ``accepted_before_ms`` is expired instead; if that takes something off the disk, ``depth_on_disk``
        falls and nothing behind it is handed out in this call: let that be committed first, synced (P4). below: nothing from there
        on, where a chunk begins.

        Raises:
            StorageDamaged: the next chunk cannot be read.
            Unavailable: the disk refuses for now.

        Where something could be handed out before that, ``cut_short`` is true instead, and the next call raises.
        """
        pieces: list[Piece] = []
        self.cut_short = False
        end = self.tail if below is None else min(below, self.tail)
        on_disk = self._depth
        while messages > 0 and size_bytes > 0 and self._cursor < end:
            try:
                durable, volatile = self._peek()
            except (StorageDamaged, Unavailable):
                self.cut_short = bool(pieces)
                if pieces:
                    break  # hand out what could be read; the trouble is met again next time
                raise
            if self._cursor >= end:  # there was nothing left before it
                break
            if self._too_old(durable, volatile, accepted_before_ms):
                self._discard(durable, volatile, None, "expired")
                continue
            if self._depth < on_disk and self._engine.durable:
                break
            if durable is not None and durable.stop > self._marked and self._engine.durable:
                self._mark_wanted = durable.stop
                break
            piece = self._take(durable, volatile, messages)
            if piece is not None:
                messages -= piece.count
                size_bytes -= piece.size_bytes
                pieces.append(piece)
        self._advance()
        if self._cursor > self._handed:
            self._handed = self._cursor
            self.changed = True
        return join_tiny(pieces)

    @property
    def wants_mark(self) -> bool:
        """Whether ``hand_out`` stopped for want of a higher mark: write the row, commit it in full strength, and go on (Q6)."""
        return self._mark_wanted > self._marked

    # --- settle ---

    def settle(self, outcome: str, ranges: Ranges, *, by: str = "store") -> int:
        """Take the messages of ``ranges`` out of the queue under ``outcome``, handed out or not; how many. by: who says so.

        Changes memory at once; the row goes with the next write. What is settled, or not in the queue, is ignored. The bytes of
        what was not handed out go when the cursor passes it.

        Raises:
            StorageDamaged, Unavailable: what was not handed out cannot be read; nothing has changed.
        """
        settled = self._settle_waiting(outcome, ranges, by) if any(stop > self._cursor for _, stop in ranges) else 0
        for start, stop in ranges:
            start, stop = max(start, self.head), min(stop, self._cursor)
            if start >= stop:
                continue
            if self.history is not None:
                self._note(by, outcome, start, stop)
            if self.settled:
                settled += sum(self._leave(low, high) for low, high in self.settled.missing(start, stop))
            else:
                settled += self._leave(start, stop)
            self.settled.add(start, stop)
            self.released.discard(start, stop)
        self._count(outcome, settled)
        self._advance()
        return settled

    def look_waiting(self, ranges: Ranges) -> None:
        """Read what ``settle`` of ``ranges`` is to read, and change nothing.

        Raises:
            Unavailable: it cannot be read for now.
        """
        if any(stop > self._cursor for _, stop in ranges):
            for start, stop in self._waiting_gaps(ranges):
                for _ in self._reader.look(start, stop, self._trimmed, lambda _: None):
                    pass

    def count_redelivered(self, ranges: Ranges, *, by: str = "store") -> None:
        """Count messages that were sent again; nothing is settled."""
        if self.history is not None:
            self.history.note(by, "redelivered", ranges)
        self._count("redelivered", sum(stop - start for start, stop in ranges))

    def release(self, ranges: Ranges) -> None:
        """Remember that PUBREC came for ``ranges``: never PUBLISH again. It holds once the row is committed.

        A client whose connection outlives the store tells of what the new store has not handed out again yet.
        """
        for start, stop in ranges:
            self.released.add(max(start, self.head), min(stop, self.tail))
        self.changed = True

    def new_session(self, generation: int, session: str, left: LeftRows = ()) -> bool:
        """Put the remote session on record, and those ``left`` at other addresses; whether any is another than before.

        Another ``generation`` forgets what was released before it.
        """
        another = (generation, session, left) != (self.generation, self.session, self.left)
        if generation != self.generation:
            self.generation = generation
            self.released.clear()
        self.session = session
        self.left = left
        self.changed = True
        return another

    def keep_left(self, sessions: Collection[str]) -> None:
        """Forget the sessions at other addresses that are none of ``sessions``."""
        self.left = tuple(left for left in self.left if left.session in sessions)
        self.changed = True

    def _leave_session(self) -> None:
        """Something that the remote may hold goes otherwise than by an exchange: the session is left, with all that it may hold.

        A lane that takes nothing from its remote ends it by a clean start. One that does has the remote let go of that.
        """
        if self.session:
            others = (left for left in self.left if left.session != self.session)
            sent = RangeSet(self.settled.missing(self.head, min(self.dup_below, self.head + PACKET_IDS)))
            for start, stop in self.released.ranges():
                sent.discard(start, stop)
            mine = LeftSession(self.session, self.generation, self.dup_below, self.released.ranges(), sent.ranges())
            self.left = (*others, mine)
        self.session = ""

    # --- reset ---

    def reset(self, *, forwarder_lives: bool) -> None:
        """Forget the markers: the cursor goes back to the head, and everything unsettled is handed out again.

        QoS 0 is at most once: what was handed to a Forwarder that died is dropped; one that lives has settled what it passed on.
        """
        if not forwarder_lives:
            self._drop_qos0_in_flight()
        self._volatile.extendleft(reversed(list(self._flights.chunks_apart())))
        first = self._flights.first
        if first is not None:
            self._cursor_floor, self._cursor_bytes = (first.floor, first.bytes_before), first.bytes_before
        self._flights.clear()
        self._cursor = self.head
        self._passed_bytes = None
        self._ahead.clear()
        self._read_to = self.head
        self._aligned = False

    def close(self, sent_below: int) -> None:
        """Nothing is handed out for now; what was not sent may be dropped, and expires (Q6). The next hand-out commits a mark anew.

        sent_below: what was handed out from there on was never sent; -1: that is not known.
        """
        if sent_below >= 0:
            self._handed = min(self._handed, max(sent_below, self.head))
        self._marked = min(self._marked, self._handed)
        self._marking = self._mark_wanted = self._handed
        self.changed = True

    def cache(self, size_bytes: int) -> None:
        """Keep so much in memory of what is on disk as well; 0 where nobody takes from the queue for now."""
        self._cache_bytes = size_bytes
        while self._recent_bytes > size_bytes:
            self._forget_recent()

    # --- limits ---

    def drop_oldest(self, messages: int, size_bytes: int) -> int:
        """Drop the oldest messages never handed out, until ``messages`` and ``size_bytes`` are free; how many were dropped.

        Raises:
            StorageDamaged, Unavailable: the oldest cannot be read.
        """
        dropped = 0
        while (messages > 0 or size_bytes > 0) and self._cursor < self.tail:
            durable, volatile = self._peek()
            seqs = self._unsettled(durable, volatile)
            if (durable is None and volatile is None) or (seqs and seqs[0] < self._handed):
                break
            if seqs:
                chunks = [chunk for chunk in (durable, volatile) if chunk is not None]
                each = max(1, sum(chunk.size_bytes for chunk in chunks) // sum(chunk.count for chunk in chunks))
                count = min(len(seqs), max(messages, -(-size_bytes // each)))
                self._discard(durable, volatile, None if count == len(seqs) else seqs[count], "dropped:overflow")
                dropped += count
                messages -= count
                size_bytes -= count * each
            else:
                self._discard(durable, volatile, None, "dropped:overflow")
        self._advance()
        return dropped

    def expire(self, accepted_before_ms: int, *, chunks_max: int = 1000) -> int:
        """Expire what waits at the cursor and was accepted before ``accepted_before_ms``; how many messages that were.

        Raises:
            StorageDamaged, Unavailable: it cannot be read.
        """
        before = self.ledger.expired
        for _ in range(chunks_max):
            if self._cursor >= self.tail:
                break
            durable, volatile = self._peek(chunks_max=1)
            if not self._too_old(durable, volatile, accepted_before_ms):
                break
            self._discard(durable, volatile, None, "expired")
        self._advance()
        return self.ledger.expired - before

    # --- looking, for operators and the dead-letter queue ---

    @property
    def cursor(self) -> int:
        """What is below it and not settled is in flight."""
        return self._cursor

    def in_hand(self, ranges: Ranges) -> list[tuple[int, int]]:
        """What of ``ranges`` ``settle`` would settle."""
        found = []
        for start, stop in ranges:
            found += self.settled.missing(max(start, self.head), min(stop, self.tail))
        return found

    def read(self, start: int, stop: int, *, damage: Callable[[StorageDamaged], None] | None = None) -> Iterator[Message]:
        """The messages of ``[start, stop)`` that are committed and not settled, in order; nothing is changed.

        damage: is told of a chunk that cannot be read, and the rest goes on; without it, that raises.

        Raises:
            StorageDamaged, Unavailable: it cannot be read.
        """
        start = max(start, self.head)
        settled = self.settled
        kept = (
            message
            for chunk in self._reader.look(start, stop, self._trimmed, damage)
            for message in rows_of(chunk, start, stop, settled)
        )
        volatile = (message for chunk in self._volatile_chunks(start, stop) for message in rows_of(chunk, start, stop, settled))
        return merge(kept, volatile, key=attrgetter("seq"))

    def _volatile_chunks(self, start: int, stop: int) -> Iterator[Chunk]:
        last: Chunk | None = None
        for chunk in chain(self._flights.chunks_apart(), self._volatile):
            if chunk is not last and chunk.first_seq < stop and chunk.stop > start:
                yield chunk
            last = chunk  # one that was handed out in part is in several flights

    # --- for a snapshot ---

    def in_flight_ranges(self) -> Ranges:
        """What was handed out and is not settled."""
        return tuple(self.settled.missing(self.head, self._cursor))

    def history_row(self) -> HistoryRow:
        """What the queue's row says of its history, once everything is committed."""
        return self._no_history if self.history is None else self.history.row()

    def in_memory(self) -> tuple[int, int, list[Chunk]]:
        """What is not on disk: how many messages, their bytes to within a chunk, and the chunks, of which rows may be settled."""
        return self._volatile_depth, self._volatile_bytes, list(self._volatile_chunks(self.head, self._next))

    # --- purge ---

    def unsent(self) -> Unsent:
        """What ``purge_unsent`` would drop: everything that was certainly never sent. Call both between two commits.

        What may have been sent stays: a remote that holds its QoS 2 packet identifier would take a later message with the same
        identifier for it, and swallow it.

        Raises:
            StorageDamaged, Unavailable: what stays cannot be counted.
        """
        start = max(self._cursor, min(self.dup_below, self.tail))
        durable, volatile = self._flights.durable, self._flights.volatile
        kept_bytes = 0
        if start > self._cursor:
            for chunk in self._reader.look(self._cursor, start, self._trimmed, None):
                rows = self._unsettled_rows(chunk, self._cursor, start)
                durable += rows
                kept_bytes += chunk.size_bytes * rows // chunk.count
            volatile += sum(self._unsettled_rows(chunk, self._cursor, start) for chunk in self._volatile)
        return Unsent(start, durable, volatile, kept_bytes)

    def purge_unsent(self, unsent: Unsent, write: Write) -> int:
        """Drop ``unsent`` with ``write``; how many messages that were."""
        assert self._next == self.tail, "a purge comes after a commit"
        start = unsent.start
        purged = self.depth - unsent.kept_durable - unsent.kept_volatile
        known = sum(size_bytes for stop, size_bytes in self._holes if self._cursor < stop)
        hole_bytes = self._tail_bytes - self._cursor_bytes - unsent.kept_bytes - known
        self._holes = [(stop, size_bytes) for stop, size_bytes in self._holes if stop > self.head]
        self._holes.append((self.tail, max(0, hole_bytes)))
        self._depth, self._volatile_depth = unsent.kept_durable, unsent.kept_volatile
        self._volatile_bytes -= sum(chunk.size_bytes for chunk in self._volatile if chunk.first_seq >= start)
        self._volatile = deque(chunk for chunk in self._volatile if chunk.first_seq < start)
        if self.history is not None:
            self._note("operator", "dropped:purged", start, self.tail)
        self.settled.add(start, self.tail)
        self._purged.add(start, self.tail)
        if start == self._cursor:
            self._jump(self.tail)
        self._count("dropped:purged", purged)
        self._advance()
        if start < self.tail:
            write.delete_range("msg", chunk_key(self.number, start), chunk_key(self.number, self.tail))
        self.changed = True
        return purged

    def purge_all(self, write: Write) -> int:
        """Drop everything, what is in flight included; how many messages that were.

        The lane must be opened anew: the remote's session is left, so that no packet identifier of before means anything.
        """
        assert self._next == self.tail, "a purge comes after a commit"
        purged = self.depth
        floor = self._trimmed
        if self.history is not None:
            floor = self._settled_below()
            self._note("operator", "dropped:purged", self.head, self.tail)
        self._leave_session()
        self.new_session(self.generation + 1, "", self.left)
        self._flights.clear()
        self._volatile.clear()
        self._holes.clear()
        self._purged.clear()
        self.settled.clear()
        self._volatile_bytes = self._depth = self._volatile_depth = 0
        self.head = self.tail
        self._jump(self.tail)
        self._count("dropped:purged", purged)
        write.delete_range("msg", chunk_key(self.number, floor), chunk_key(self.number, self.tail))
        self._trimmed, self._trimmed_bytes = self.tail, self._tail_bytes
        self.changed = True
        return purged

    # --- disk ---

    def trim(self, write: Write, *, idle: bool = False) -> tuple[bytes, bytes] | None:
        """Delete the chunks below the head with ``write`` if they are many or the queue is ``idle``; the keys deleted."""
        self._advance()
        floor, floor_bytes = self._floor()
        messages, size_bytes = floor - self._trimmed, floor_bytes - self._trimmed_bytes
        if messages < TRIM_MESSAGES and size_bytes < TRIM_BYTES and not (idle and messages > 0):
            return None
        if size_bytes <= 0 and self.history is None:
            return None  # only QoS 0 was there, as far as is known; if more was, it goes with what follows
        start, stop = chunk_key(self.number, self._trimmed), chunk_key(self.number, floor)
        self._trimmed, self._trimmed_bytes = floor, floor_bytes
        self.changed = True
        if self.history is not None:
            return None  # it keeps them
        write.delete_range("msg", start, stop)
        return start, stop

    def write_row(self, write: Write, *, strong: bool = True, ahead: bool = True, wall_ms: int = 0) -> None:
        """Put the queue's row into ``write``, as it is once everything appended is committed, and what goes into the history.

        strong: the commit has the configured strength, so the mark of Q6 may move; ahead: by a block, since more can be handed out
        soon.
        """
        self._advance()
        settled = self.settled.ranges()
        if self.history is not None:
            self.history.write(write, wall_ms, self.head, settled[-1][1] if settled else self.head)
        elif self._left_over is not None:
            self._left_over.drop(self._trimmed, write)
            self._left_over = None
        mark = self._marking  # a row that is written twice before a commit takes nothing back
        if strong:
            mark = max(mark, self._mark_wanted)
            if ahead or self.wants_mark:
                mark = max(mark, min(self._next, self._cursor + HANDED_AHEAD))
            if mark > self._marked:
                write.on_commit(partial(self._mark, mark))
            self._marking = mark
        if self._depth < 0 or (self._depth and self.head == self._next):
            self._put_right()
        row = LaneRow(
            head=self.head,
            tail=self._next,
            handed=max(self._handed, mark),
            trimmed=self._trimmed,
            tail_bytes=self._tail_bytes,
            depth=self._depth,
            settled=settled,
            released=self.released.ranges(),
            generation=self.generation,
            session=self.session,
            ledger=self.ledger,
            purged=self._purged.ranges() if self._purged else (),
            history=self.history_row(),
            ways=self.ways.row(self.head),
            left=self.left,
        )
        write.put("meta", lane_key(self.number), row.encode())
        write.tails[self.number] = self._next
        self.changed = False

    def _mark(self, mark: int) -> None:
        self._marked = max(self._marked, min(mark, self._marking))  # it may have been taken back meanwhile

    # --- damage ---

    def isolate(self, error: StorageDamaged) -> None:
        """Take what cannot be read at the cursor out of the queue as ``dropped:damaged``; the queue goes on behind it, in order.

        How many messages those were is known as well as can be: by the damaged chunk's header where what follows agrees with it,
        else by the sequences up to the next chunk that can be read. When the queue has run empty the sum is put right.

        Raises:
            Unavailable: the disk refuses for now.
        """
        self._ahead.clear()
        start = self._cursor
        first_seq, value, sound = self._reader.row_at(start, self._trimmed, self._recent_low)
        if sound:  # what was damaged stands below the cursor, or can be read after all
            self._read_to, self._aligned = max(start, first_seq), first_seq >= start
            return
        known = self._recent[0].bytes_before if self._recent else None
        following, bytes_before = self._reader.next_readable(max(start, first_seq + 1) if value else start, self._recent_low, known)
        if not value and following == start:
            self._read_to, self._aligned = start, True
            return
        stop = max(start + 1, following)
        claimed = claimed_span(value, first_seq)
        lost = self._unsettled_seqs(start, stop)
        if claimed is not None and first_seq >= start and claimed[0] <= stop:
            lost = min(lost, claimed[1])
        while self._volatile and self._volatile[0].first_seq < stop:  # QoS 0 rows of the same batches go with them
            volatile = self._volatile.popleft()
            rows = self._unsettled_rows(volatile, start)
            lost = max(0, lost - rows)
            self._volatile_bytes -= volatile.size_bytes
            self._volatile_depth -= rows
            self._count("dropped:damaged", rows)
        self._read_to, self._aligned = stop, True
        self._lose(start, stop, lost, str(error), value, unreadable=not value)
        self._passed_bytes = bytes_before
        if bytes_before is not None:
            self._cursor_bytes = bytes_before
        self._move_cursor(stop)
        self._advance()

    @property
    def has_losses(self) -> bool:
        """Whether something was found to be lost since ``take_losses``."""
        return bool(self._losses)

    def take_losses(self) -> list[Loss]:
        """What was found to be lost since the last call."""
        losses, self._losses = self._losses, []
        return losses

    def _lose(self, start: int, stop: int, messages: int, error: str, raw: bytes = b"", *, unreadable: bool = False) -> None:
        """Settle ``[start, stop)``, where ``messages`` durable messages at most are lost."""
        messages = max(0, min(messages, self._depth - self._flights.durable))
        self._depth -= messages
        self._count("dropped:damaged", messages)
        if self.history is not None:
            self._note("store", "dropped:damaged", max(start, self.head), stop)
        forget = bool(self.session) and start < self.dup_below
        if forget:
            self._leave_session()
        self.settled.add(start, stop)
        self.released.discard(start, stop)
        self.changed = True
        loss = Loss(
            start=start, stop=stop, messages=messages, error=error, session_forgotten=forget, unreadable=unreadable, raw=raw
        )
        self._losses.append(loss)

    def _lose_tail(self, tail: int) -> None:
        """The queue's row is older than what was promised: the sequences up to ``tail`` were used, so they are not used again."""
        start, messages = self.tail, tail - self.tail
        self.ledger.accepted += messages
        self._depth += messages
        self.tail = self._next = self._recent_low = tail
        if self._cursor == start:
            self._cursor = self._read_to = tail
            self._cursor_floor = (tail, self._tail_bytes)
        self._lose(start, tail, messages, "commits are missing")
        self._handed = max(self._handed, self._cursor)
        self.session = ""
        self._advance()

    def _put_right(self) -> None:
        """An empty queue has no messages: what was counted too little or too much as damaged is put right."""
        depth, self._depth = self._depth, 0
        damaged = self.ledger.dropped.get("damaged", 0)
        self.ledger.dropped["damaged"] = damaged + depth
        self.changed = True
        if depth > 0:
            self._losses.append(Loss(start=self.head, stop=self.head, messages=depth, error="messages are missing"))

    def _unsettled_seqs(self, start: int, stop: int) -> int:
        return sum(high - low for low, high in self.settled.missing(start, stop))

    def _look_for_gap(self, following: Chunk | None, seq: int) -> None:
        """Between the cursor and ``seq`` there is nothing: was that QoS 0, or are durable bytes missing?"""
        if following is not None:
            bytes_before = following.bytes_before
        elif seq == self.tail:
            bytes_before = self._committed_bytes
        else:
            return
        purged = self._purged.next_range(self._cursor) if self._purged else None
        if purged is not None and purged[0] < seq:
            self._passed_bytes = bytes_before  # what was purged there had bytes, too
        elif self._passed_bytes is not None and bytes_before > self._passed_bytes:
            self._lose(self._cursor, seq, self._unsettled_seqs(self._cursor, seq), "chunks are missing")
            self._passed_bytes = bytes_before

    # --- inside: appending ---

    def _chunk(
        self,
        first_seq: int,
        span: int,
        offsets: array[int] | None,
        count: int,
        qos0: int,
        size_bytes: int,
        accepted_ms: int,
        body: bytes,
    ) -> Chunk:
        return Chunk(
            first_seq=first_seq,
            span=span,
            count=count,
            qos0=qos0,
            bytes_before=self._tail_bytes,
            size_bytes=size_bytes,
            accepted_ms=accepted_ms,
            offsets=offsets,
            body=body,
        )

    def _committed(self, tail: int, durable: Chunk | None, volatile: Chunk | None, body: bytes) -> None:
        self.tail = tail
        if durable is not None:
            self._committed_bytes = durable.bytes_before + durable.size_bytes
            self._recent.append(durable)
            self._recent_bytes += len(durable.body)
            if volatile is not None:
                self._whole[durable.first_seq] = body
                self._recent_bytes += len(body)
            while self._recent_bytes > self._cache_bytes:
                self._forget_recent()
        if volatile is not None:
            self._keep_volatile(volatile)

    def _forget_recent(self) -> Chunk:
        chunk = self._recent.popleft()
        self._recent_low = chunk.stop
        self._recent_bytes -= len(chunk.body)
        whole = self._whole.pop(chunk.first_seq, None)
        if whole is not None:
            self._recent_bytes -= len(whole)
        return chunk

    def _keep_volatile(self, chunk: Chunk) -> None:
        """Keep QoS 0 messages in memory; the oldest that were not handed out make room, and if that is not enough, the new ones."""
        self._volatile.append(chunk)
        self._volatile_bytes += chunk.size_bytes
        while self._volatile and self._volatile_bytes > self._volatile_max_bytes:
            oldest = self._volatile.popleft()
            rows = self._unsettled_rows(oldest, self._cursor)
            self._volatile_bytes -= oldest.size_bytes
            self._volatile_depth -= rows
            self._count("dropped:qos0_memory", rows)

    # --- inside: the next messages ---

    def _peek(self, chunks_max: int | None = None) -> tuple[Chunk | None, Chunk | None]:
        """The next messages at or above the cursor: the chunk kept on disk, the QoS 0 messages, or both of one batch."""
        if self.settled:
            following = self.settled.next_range(self._cursor)
            if following is not None and following[0] == self._cursor:
                self._jump(following[1])
        volatile = self._volatile[0] if self._volatile else None
        if volatile is not None and volatile.offsets is None and volatile.first_seq <= self._cursor:
            return None, volatile
        if not self._ahead and self._read_to < self._recent_low:
            self._read(chunks_max)
        durable = self._ahead[0] if self._ahead else self._recent[0] if self._recent else None
        if durable is not None and volatile is not None and durable.first_seq != volatile.first_seq:
            durable, volatile = (durable, None) if durable.first_seq < volatile.first_seq else (None, volatile)
        chunk = durable if durable is not None else volatile
        first_seq = chunk.first_seq if chunk is not None else self.tail
        if first_seq > self._cursor:
            self._look_for_gap(durable, first_seq)
            self._pass_over(first_seq)
            return self._peek(chunks_max)  # what was next may have been settled out of order
        return durable, volatile

    def _read(self, chunks_max: int | None) -> None:
        """Read chunks from ``_read_to`` on ahead, up to those that are in memory."""
        start = self._read_to
        if not self._aligned:
            start = self._reader.begins(start, self._trimmed)
            self._aligned = True
        size_bytes = 0
        most = READ_AHEAD_CHUNKS if chunks_max is None else chunks_max
        try:
            for chunk, stored_bytes in self._reader.scan(start, self._recent_low):
                self._read_to = max(self._read_to, chunk.stop)
                if chunk.stop <= self._cursor:
                    continue
                self._ahead.append(chunk)
                size_bytes += stored_bytes
                if size_bytes >= READ_AHEAD_BYTES or len(self._ahead) >= most:
                    return
        except (StorageDamaged, Unavailable):
            self._aligned = self._read_to > self._cursor
            if self._ahead:
                return  # what could be read goes first
            raise
        self._read_to = self._recent_low

    def _jump(self, seq: int) -> None:
        """Put the cursor forward to ``seq``; everything before it is settled."""
        floor: tuple[int, int] | None = self._cursor_floor  # the chunk around ``seq`` may begin anywhere above, until it is read
        while self._ahead and self._ahead[0].stop <= seq:
            floor = self._pass(self._ahead.popleft())
        while self._recent and self._recent[0].stop <= seq:
            floor = self._pass(self._forget_recent())
        while self._volatile and self._volatile[0].stop <= seq:
            self._volatile_bytes -= self._volatile.popleft().size_bytes
        following = self._ahead[0] if self._ahead else self._recent[0] if self._recent else None
        if following is not None and following.first_seq <= seq:
            floor = (following.first_seq, following.bytes_before)
        elif seq == self.tail or (self._aligned and self._read_to >= seq):
            floor = None
        self._move_cursor(seq, floor)
        self._passed_bytes = None
        if self._read_to < seq:
            self._read_to = seq
            self._aligned = False

    def _pass(self, chunk: Chunk) -> tuple[int, int]:
        """Where ``chunk`` ends: its sequence, and the durable bytes before it."""
        self._cursor_bytes = self._passed_bytes = chunk.bytes_before + chunk.size_bytes
        return chunk.stop, self._cursor_bytes

    def _pass_over(self, seq: int) -> None:
        """Nothing is left between the cursor and ``seq``: it was QoS 0 that is gone."""
        if self.history is not None:
            self._note_gone(self.settled.missing(self._cursor, seq))
        self.settled.add(self._cursor, seq)
        self._move_cursor(seq)
        self._advance()
        self.changed = True

    def _move_cursor(self, seq: int, floor: tuple[int, int] | None = None) -> None:
        """To ``seq``, where a chunk begins, or where nobody knows: then ``floor`` is at or below the beginning of the chunk."""
        self._cursor = seq
        if seq == self.tail:
            self._cursor_bytes = self._committed_bytes
        self._cursor_floor = (seq, self._cursor_bytes) if floor is None else floor

    def _pop(self, durable: Chunk | None, volatile: Chunk | None) -> None:
        """Take what ``_peek`` returned out of the memory it was in."""
        if durable is not None:
            if self._ahead:
                self._ahead.popleft()
            else:
                self._forget_recent()
                self._read_to = max(self._read_to, self._recent_low)
            self._pass(durable)
        if volatile is not None:
            self._volatile.popleft()

    def _take(self, durable: Chunk | None, volatile: Chunk | None, messages: int) -> Piece | None:
        """Mark what ``_peek`` returned as in flight; None if all of it is settled."""
        chunk = durable if durable is not None else volatile
        assert chunk is not None
        first_seq, stop = chunk.first_seq, chunk.stop
        untouched = first_seq == self._cursor and not self._any_settled(first_seq, stop)
        if untouched and (chunk.count <= messages or chunk.count <= SPLIT_ROWS):
            if durable is None or volatile is None:
                return self._take_whole(chunk, is_volatile=durable is None)
            whole = self._whole.get(first_seq) if not self._ahead else None
            if whole is not None:
                return self._take_both(durable, volatile, whole)
        return self._take_rows(durable, volatile, None if volatile is not None else max(messages, SPLIT_ROWS))

    def _take_whole(self, chunk: Chunk, *, is_volatile: bool) -> Piece:
        self._pop(None if is_volatile else chunk, chunk if is_volatile else None)
        self._fly(chunk, chunk.first_seq, chunk.stop, chunk.offsets, chunk.count, self._cursor_bytes if is_volatile else None)
        offsets = b""
        if chunk.offsets is not None:
            offsets = pack_column(chunk.offsets)
            self._settle_holes(chunk.first_seq, chunk.stop, chunk.seqs())
        self._move_cursor(chunk.stop)
        return Piece(chunk.first_seq, chunk.count, chunk.size_bytes, offsets, chunk.body, chunk.accepted_ms)

    def _take_both(self, durable: Chunk, volatile: Chunk, whole: bytes) -> Piece:
        self._pop(durable, volatile)
        self._fly(durable, durable.first_seq, durable.stop, durable.offsets, durable.count)
        self._fly(volatile, volatile.first_seq, volatile.stop, volatile.offsets, volatile.count, durable.bytes_before)
        self._move_cursor(durable.stop)
        size_bytes = durable.size_bytes + volatile.size_bytes
        return Piece(durable.first_seq, durable.count + volatile.count, size_bytes, b"", whole, durable.accepted_ms)

    def _take_rows(self, durable: Chunk | None, volatile: Chunk | None, rows_max: int | None) -> Piece | None:
        chunks = [chunk for chunk in (durable, volatile) if chunk is not None]
        start, stop = self._cursor, chunks[0].stop
        bytes_before = durable.bytes_before if durable is not None else self._cursor_bytes
        piece, taken = pick(chunks, start, self.settled, rows_max)
        end = stop
        if rows_max is not None and piece is not None and piece.count == rows_max and taken[0][-1] + 1 < stop:
            end = taken[0][-1] + 1
        self._settle_holes(start, end, sorted(seq for seqs in taken for seq in seqs))
        self._pop(durable, volatile)
        for chunk, seqs in zip(chunks, taken, strict=True):
            if seqs:
                offsets = array("I", [seq - start for seq in seqs])
                self._fly(chunk, start, end, offsets, len(seqs), bytes_before if chunk is volatile else None)
            elif chunk is volatile:
                self._volatile_bytes -= chunk.size_bytes
        self._move_cursor(end, None if end == stop else (chunks[0].first_seq, bytes_before))
        if end < stop:  # the rest of the chunk is read again
            self._ahead.clear()
            self._read_to = end
            self._aligned = False
        return piece

    def _any_settled(self, start: int, stop: int) -> bool:
        following = self.settled.next_range(start) if self.settled else None
        return following is not None and following[0] < stop

    def _settle_holes(self, start: int, stop: int, seqs: list[int]) -> None:
        """Settle, without counting, the sequences of ``[start, stop)`` that are not in ``seqs``: nothing is there any more."""
        position = start
        for low, high in (*ranges_of(seqs), (stop, stop)):
            if self.history is not None:
                self._note_gone(self.settled.missing(position, low))
            self.settled.add(position, low)
            position = high
        self.changed = True

    def _fly(
        self, chunk: Chunk, start: int, stop: int, offsets: array[int] | None, count: int, bytes_before: int | None = None
    ) -> None:
        """bytes_before: durable bytes before ``chunk``, which is QoS 0 kept apart; None: it is durable."""
        if bytes_before is not None:
            self._flights.leave_apart(chunk, start, stop, offsets, count, bytes_before=bytes_before)
        else:
            self._flights.leave(chunk, start, stop, offsets, count)

    def _too_old(self, durable: Chunk | None, volatile: Chunk | None, accepted_before_ms: int) -> bool:
        """Whether the next messages have expired; what may have been sent already is the exchange's to finish."""
        chunk = durable if durable is not None else volatile
        return chunk is not None and chunk.accepted_ms < accepted_before_ms and self._cursor >= self._handed

    def _discard(self, durable: Chunk | None, volatile: Chunk | None, stop: int | None, outcome: str) -> None:
        """Take the next messages, or those of them below ``stop``, out of the queue under ``outcome``."""
        chunk = durable if durable is not None else volatile
        assert chunk is not None
        end = chunk.stop if stop is None else stop
        start = max(self._cursor, chunk.first_seq)
        count = 0
        if durable is not None:
            rows = self._unsettled_rows(durable, start, end)
            self._depth -= rows
            count += rows
        if volatile is not None:
            rows = self._unsettled_rows(volatile, start, end)
            self._volatile_depth -= rows
            count += rows
        self._count(outcome, count)
        if self.history is not None:
            self._note_left(outcome, end, durable, volatile)
        self.settled.add(self._cursor, end)
        self.changed = True
        if stop is None:
            self._pop(durable, volatile)
            if volatile is not None:
                self._volatile_bytes -= volatile.size_bytes
            self._move_cursor(end)
        else:
            bytes_before = durable.bytes_before if durable is not None else self._cursor_bytes
            if durable is not None:
                passed = durable.size_bytes * durable.rows_in(durable.first_seq, end) // durable.count
                self._cursor_bytes = bytes_before + passed
            self._move_cursor(end, (chunk.first_seq, bytes_before))

    def _unsettled_rows(self, chunk: Chunk, start: int, stop: int | None = None) -> int:
        start, stop = max(start, chunk.first_seq), chunk.stop if stop is None else stop
        if start >= stop:
            return 0
        return sum(chunk.rows_in(low, high) for low, high in self.settled.missing(start, stop))

    def _unsettled(self, durable: Chunk | None, volatile: Chunk | None) -> list[int]:
        seqs = [seq for chunk in (durable, volatile) if chunk is not None for seq in chunk.seqs()]
        return sorted(seq for seq in seqs if seq >= self._cursor and seq not in self.settled)

    # --- inside: settling ---

    def _leave(self, start: int, stop: int) -> int:
        """Take the rows of ``[start, stop)``, none of which is settled, out of what is in flight; how many there were."""
        durable, volatile, volatile_bytes = self._flights.land(start, stop)
        self._depth -= durable
        self._volatile_depth -= volatile
        self._volatile_bytes -= volatile_bytes
        return durable + volatile

    def _settle_waiting(self, outcome: str, ranges: Ranges, by: str) -> int:
        """Settle what is at or above the cursor in ``ranges``; how many messages that were. Their chunks are read for it."""
        gaps = self._waiting_gaps(ranges)
        damaged: list[StorageDamaged] = []  # they go with the rest; what they held is counted when the queue has run empty
        left = RangeSet()
        durable = sum(
            self._rows_left(chunk, start, stop, left)
            for start, stop in gaps
            for chunk in self._reader.look(start, stop, self._trimmed, damaged.append)
        )
        volatile = sum(self._rows_left(chunk, start, stop, left) for start, stop in gaps for chunk in self._volatile)
        self._depth -= durable
        self._volatile_depth -= volatile
        if self.history is not None:
            self.history.note(by, outcome, left)
            rest = [gap for start, stop in gaps for gap in left.missing(start, stop)]
            if damaged:
                self.history.note("store", "dropped:damaged", rest)
            else:
                self._note_gone(rest)
        for start, stop in gaps:
            self.settled.add(start, stop)
            self.released.discard(start, stop)
        self._oldest = (-1, None)
        return durable + volatile

    def _waiting_gaps(self, ranges: Ranges) -> list[tuple[int, int]]:
        waiting = RangeSet((max(start, self._cursor), min(stop, self.tail)) for start, stop in ranges)
        return [gap for start, stop in waiting for gap in self.settled.missing(start, stop)]

    def _advance(self) -> None:
        """Move the head over what is settled."""
        if not self.settled:
            return
        head = self.settled.advance(self.head)
        if head == self.head:
            return
        self.head = head
        self.changed = True
        if self.released:
            self.released.discard(0, head)
        if self._purged:
            self._purged.discard(0, head)
        if self._cursor < head:  # what was settled out of order before a reset
            self._jump(head)
        self._flights.forget_below(head)

    def _drop_qos0_in_flight(self) -> None:
        lost: list[int] = []
        for flight in self._flights:
            if flight.chunk is not None:
                chunk_rows = flight.chunk.seqs()
                lost.extend(seq for seq in chunk_rows if flight.start <= seq < flight.stop)
            elif flight.qos0:
                for chunk, _ in self._reader.scan(flight.floor, flight.stop):
                    lost.extend(seq for seq in qos0_seqs(chunk) if flight.start <= seq < flight.stop)
        self.settle("dropped:actor_restart", ranges_of(sorted(lost)))

    def _count(self, outcome: str, messages: int) -> None:
        if messages > 0:
            self.ledger.count(outcome, messages)
            self.changed = True

    # --- inside: history ---

    def _open_history(self, row: LaneRow, *, retained: bool) -> None:
        """Go on with the history, or begin one, or drop the one that nobody wants any more."""
        kept = row.history if row.history.begins >= 0 else row.history._replace(chunks_from=row.trimmed)
        history = QueueHistory(self._engine, self.name, self.number, kept, row.head)
        if retained and row.history.begins >= 0:
            self.history = history
            return
        self.changed = True
        if retained:
            self.history = history
            self.restart_history()
            return
        self._no_history = HistoryRow(first=row.history.next, next=row.history.next)
        self._left_over = history

    def restart_history(self) -> None:
        """What is kept has a hole, or cannot be read: begin anew where nothing has left the queue."""
        assert self.history is not None
        settled = self.settled.ranges()
        self.history.restart(max(self.head, settled[-1][1] if settled else 0))
        self.changed = True

    @property
    def retained(self) -> int:
        """Messages that have left the queue and are kept, to within those that left out of order."""
        return 0 if self.history is None else max(0, self.head - self.history.begins)

    @property
    def history_bytes(self) -> int:
        """About what the history takes on the disk."""
        return 0 if self.history is None else self.history.size_bytes(self._floor()[1])

    def history_from(self, part: float) -> int:
        """Where the history is to begin so that about ``part`` of its bytes are left.

        Raises:
            StorageDamaged, ConfigError, Unavailable: it cannot be read.
        """
        assert self.history is not None
        return self.history.seq_for(part, *self._floor())

    def cut_history(self, write: Write, *, below: int = 0) -> tuple[bytes, bytes] | None:
        """Delete with ``write`` what the history has found to be old; the keys of the chunks that are deleted, if any.

        below: what is below it goes however young it is, where the settlements tell how far they reach.

        Raises:
            StorageDamaged, ConfigError, Unavailable: it cannot be read; nothing has changed.
        """
        assert self.history is not None
        floor, floor_bytes = self._floor()
        deleted = self.history.cut(floor, floor_bytes, write, below=below)
        self._trimmed, self._trimmed_bytes = floor, floor_bytes  # what is deleted is below what the row says is live
        self.changed = True
        return deleted

    def _note(self, by: str, outcome: str, start: int, stop: int) -> None:
        """What of ``[start, stop)`` is in the queue leaves it."""
        assert self.history is not None
        self.history.note(by, outcome, self.settled.missing(start, stop) if self.settled else ((start, stop),))
        self.changed = True

    def _note_gone(self, gaps: list[tuple[int, int]]) -> None:
        """In ``gaps`` was QoS 0 that was lost with the memory of a former life, or pushed out of it in this one."""
        assert self.history is not None
        for start, stop in gaps:
            middle = min(max(start, self._volatile_from), stop)
            if start < middle:
                self.history.note("store", "dropped:restart", ((start, middle),))
            if middle < stop:
                self.history.note("store", "dropped:qos0_memory", ((middle, stop),))

    def _settled_below(self) -> int:
        """Below it no chunk has anything that is not settled; less exactly where that cannot be read."""
        floor = self._floor()[0]
        try:
            chunk = self._reader.before(self.head, floor)
        except (StorageDamaged, ConfigError, Unavailable):
            return floor
        return floor if chunk is None else chunk.first_seq if chunk.stop > self.head else self.head

    def _rows_left(self, chunk: Chunk, start: int, stop: int, left: RangeSet) -> int:
        """How many rows ``chunk`` has in ``[start, stop)``; where a history is kept, their sequences are put into ``left``."""
        if self.history is not None:
            if chunk.offsets is None:
                left.add(max(start, chunk.first_seq), min(stop, chunk.stop))
            else:
                for low, high in ranges_of(seq for seq in chunk.seqs() if start <= seq < stop):
                    left.add(low, high)
        return chunk.rows_in(start, stop)

    def _note_left(self, outcome: str, stop: int, durable: Chunk | None, volatile: Chunk | None) -> None:
        """What of the next messages is below ``stop`` leaves the queue under ``outcome``; in between was QoS 0 that is gone."""
        assert self.history is not None
        left = RangeSet(ranges_of(seq for seq in self._unsettled(durable, volatile) if seq < stop))
        self.history.note("store", outcome, left)
        for start, end in self.settled.missing(self._cursor, stop):
            self._note_gone(left.missing(start, end))

    def _floor(self) -> tuple[int, int]:
        """Where the earliest chunk begins that is still needed, and the durable bytes before it."""
        first = self._flights.first
        if first is not None:
            return first.floor, first.bytes_before
        return self._cursor_floor

    def _find_cursor(self) -> bool:
        """Read the chunk at the cursor; False if that cannot be done, which is met again, and told, when it is to be handed out."""
        try:
            durable, _ = self._peek(chunks_max=1)
        except (StorageDamaged, Unavailable):
            return False
        if durable is not None:
            self._cursor_bytes = durable.bytes_before
        floor = self._cursor if durable is None else min(self._cursor, durable.first_seq)
        self._cursor_floor = (floor, self._cursor_bytes)
        return True
