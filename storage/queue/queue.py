"""The durable FIFO of one bridge lane or session: append, hand out, settle, reset. Pure over the engine's protocol.

Memory holds positions, what is in flight, a bounded cache of the newest chunks and the QoS 0 messages that are kept apart; nothing
per message of the backlog. Which write is committed when, and who gets what, is the business of ``commits`` and ``hand_outs``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import merge
from itertools import chain
from operator import attrgetter
from typing import NamedTuple

from storage.engine.engine import Engine, Write
from storage.engine.keys import chunk_key, lane_key
from storage.queue.chunk import Chunk, Left, Message, rows_of
from storage.queue.chunk_reader import ChunkReader
from storage.queue.hand_out_cursor import Cursor
from storage.queue.history import Trimming
from storage.queue.ledger import LedgerRow
from storage.queue.sent_record import SentRecord
from storage.queue.settled_ranges import Settled
from storage.queue.tail import Tail
from storage.queue.waiting_messages import LostStretch, TooOld, Waiting
from wire.errors import StorageDamaged
from wire.frames.frame import Ranges
from wire.ranges import ranges_of
from wire.status.loss_reasons import Loss
from wire.status.outcomes import REDELIVERED

CACHE_BYTES = 8 << 20


class Unsent(NamedTuple):
    """The messages that a purge would take: the sequences from ``start`` on; and what stays of the queue below."""

    start: int
    kept_stored: int
    kept_qos0: int
    kept_bytes: int


class Queue:
    """The sequences in [head, tail) and no others; head <= cursor <= tail.

    The rules stand with the parts that keep them: queue.sequence-never-reused and queue.chunk-with-its-tail ``tail``,
    queue.cursor-after-handed-out ``cursor``, queue.ledger-adds-up ``settled``,
    queue.trimmed-after-settled and queue.history-without-gap ``history``, queue.handed-out-below-mark ``sent_record``.

    changed: whether the row is to be written. waits: what was not handed out, and is by ``hand_out``. losses: what was found to be
    lost and nobody was told of yet. counts: of messages in the queue, and of all that were.
    """

    def __init__(
        self,
        engine: Engine,
        name: str,
        number: int,
        row: LedgerRow | None = None,
        *,
        first_seq: int = 0,
        session: str = "",
        volatile_max_bytes: int,
        tail_known: int = 0,
        cache_bytes: int = CACHE_BYTES,
        on_change: Callable[[], None] = lambda: None,
        mark_holds: bool = True,
        retained: bool = False,
    ) -> None:
        """Open the queue as ``row``, or else the engine, has it; or a new one. Reads two chunks (P8).

        first_seq, session: where a new one begins, and its remote's session on record. tail_known: evidence from elsewhere that the
        queue went that far once; what is missing up to there is lost. on_change: is called when the row is to be written.
        mark_holds: nothing is committed that a loss of power takes back (queue.handed-out-below-mark). retained: whether a history
        is kept.

        Raises:
            StorageDamaged: its row is damaged.
        """
        if row is None:
            value = engine.get("meta", lane_key(number))
            row = LedgerRow.decode(value, queue=name) if value is not None else LedgerRow.begin(first_seq, session)
        self.name, self.number = name, number
        self._row_key = lane_key(number)
        self.changed = False
        self._on_change = on_change
        self._reader = reader = ChunkReader(engine, name, number, row.trimmed)
        self._cursor = cursor = Cursor(reader, row, qos0_max_bytes=volatile_max_bytes, cache_bytes=cache_bytes)
        self.sent = SentRecord(row, self.change, mark_holds=mark_holds)
        self.trimming = Trimming(engine, reader, row, cursor.live_from, self.change, retained=retained)
        self.counts = settled = Settled(row, self.trimming.history, self.change)
        self.waits = Waiting(reader, cursor, settled, self.sent, durable=engine.durable)
        self.hand_out, self.losses = self.waits.hand_out, self.waits.losses
        self.appended = Tail(number, row, cursor, settled, all_stored=not engine.durable)
        self.ledger, self.settled, self.routes, self.qos0 = settled.ledger, settled.above, self.appended.routes, cursor.qos0
        if self.waits.begin() and row.head == row.trimmed:
            self.trimming.begin_at(cursor.bytes_before)
        if tail_known > row.tail:
            self.appended.lose(tail_known)
            self.waits.lose_tail(tail_known)

    def change(self) -> None:
        """The row is to be written."""
        if not self.changed:
            self.changed = True
            self._on_change()

    # --- figures ---

    @property
    def head(self) -> int:
        """Everything below it has left the queue."""
        return self.counts.head

    @property
    def tail(self) -> int:
        """Everything below it is committed."""
        return self._cursor.tail

    @property
    def cursor(self) -> int:
        """Messages below it that are not settled are in flight."""
        return self._cursor.seq

    @property
    def depth(self) -> int:
        """Messages accepted and not ended, those of uncommitted writes included."""
        return self.counts.depth

    @property
    def depth_on_disk(self) -> int:
        """Those that the open write has on disk, or a commit before it."""
        return self.counts.stored

    @property
    def size_bytes(self) -> int:
        """Bytes of the messages in the queue, to within a chunk."""
        cursor = self._cursor
        waiting = self.appended.size_bytes - cursor.bytes_before + cursor.qos0.size_bytes
        return waiting + cursor.in_flight.size_bytes - cursor.purged.bytes_above(cursor.seq)

    @property
    def kept_bytes(self) -> int:
        """About what the disk keeps of the queue, its history included."""
        return self.trimming.kept_bytes(self.appended.size_bytes) - self._cursor.purged.bytes_above(self.trimming.trimmed)

    @property
    def in_flight(self) -> int:
        """Messages handed out and not settled."""
        return self._cursor.in_flight.messages

    def waiting(self) -> bool:
        """Whether there is something that was not handed out."""
        return self._cursor.seq < self._cursor.tail

    def oldest_ms(self) -> int | None:
        """The time at which the oldest message of the queue was accepted; None if there is none.

        Raises:
            StorageDamaged, Unavailable: it cannot be read.
        """
        first = self._cursor.in_flight.first
        return first.accepted_at(self.counts.head) if first is not None else self.waits.oldest_ms()

    # --- append ---

    def append(self, body: bytes, count: int, size_bytes: int, qos0: int, write: Write) -> range:
        """Add the batch ``body`` to ``write``: its sequences count once ``write`` is committed, and not before.

        count: its rows, qos0: how many of them are QoS 0. In a durable engine, those are kept apart, in memory only.
        """
        return self.appended.append(body, count, size_bytes, qos0, write)

    def refuse_into(self, outcome: str, messages: int) -> None:
        """Count ``messages`` that were accepted and ended at once, under ``outcome``, without ever being in the queue."""
        self.counts.refuse_into(outcome, messages)

    def count_refused(self, messages: int) -> None:
        """Count ``messages`` that were refused for good, for want of room: they were never accepted."""
        self.counts.refuse(messages)

    def count_raised(self, messages: int) -> None:
        """Count ``messages`` of those that were appended as raised by a rule."""
        self.counts.count_raised(messages)

    def count_from_retained(self, messages: int) -> None:
        """Count ``messages`` of those that were appended as retained before, and brought by a rule."""
        self.counts.count_from_retained(messages)

    # --- handed out ---

    def release(self, ranges: Ranges) -> None:
        """Remember that PUBREC came for ``ranges``: never PUBLISH again. It holds once the row is committed.

        A client whose connection outlives the store tells of what the new store has not handed out again yet.
        """
        self.sent.release(ranges, self.head, self.tail)

    def reset(self, *, forwarder_lives: bool) -> None:
        """Forget the markers: the cursor goes back to the head, and everything unsettled is handed out again.

        QoS 0 is at most once: what was handed to a Forwarder that died is dropped; one that lives has settled what it passed on.
        """
        if not forwarder_lives:
            self.settle(Loss.ACTOR_RESTART.dropped, ranges_of(sorted(self._cursor.in_flight.qos0_seqs(self._reader))))
        self._cursor.go_back(self.counts.head)

    def close(self, sent_below: int) -> None:
        """Nothing is handed out for now; what was not sent may be dropped, and expires (queue.handed-out-below-mark). The next
        hand-out commits a mark anew.

        sent_below: what was handed out from there on was never sent; -1: that is not known.
        """
        self.sent.close(sent_below, self.counts.head)

    def cache(self, size_bytes: int) -> None:
        """Keep so much in memory of what is on disk as well; 0 where nobody takes from the queue for now."""
        self._cursor.upcoming.keep(size_bytes)

    # --- settle ---

    def settle(self, outcome: str, ranges: Ranges, *, by: str = "store", left: Left | None = None) -> int:
        """Take the messages of ``ranges`` out of the queue under ``outcome``, handed out or not; how many. by: who says so.

        Changes memory at once; the row goes with the next write. Sequences that are settled, or not in the queue, are ignored. The
        bytes of what was not handed out go when the cursor passes it. Messages that leave are put down in ``left``.

        Raises:
            StorageDamaged, Unavailable: what was not handed out cannot be read; nothing has changed.
        """
        cursor, settled = self._cursor, self.counts
        stored = qos0 = 0
        for _, stop in ranges:
            if stop > cursor.seq:
                stored, qos0 = self.waits.settle(outcome, ranges, by, left)
                break
        for start, stop in ranges:
            start, stop = max(start, settled.head), min(stop, cursor.seq)
            if start >= stop:
                continue
            for low, high in settled.leave(by, outcome, start, stop):
                gone_stored, gone_qos0, qos0_bytes = cursor.in_flight.settle(low, high, left)
                stored += gone_stored
                qos0 += gone_qos0
                if qos0_bytes:
                    cursor.qos0.free(qos0_bytes)
            if self.sent.released:
                self.sent.released.discard(start, stop)
        settled.end(outcome, stored, qos0)
        self.waits.advance()
        return stored + qos0

    def preload_waiting(self, ranges: Ranges) -> None:
        """Read what ``settle`` of ``ranges`` is to read, and change nothing.

        Raises:
            Unavailable: it cannot be read for now.
        """
        if any(stop > self._cursor.seq for _, stop in ranges):
            self.waits.preload(ranges)

    def count_redelivered(self, ranges: Ranges, *, by: str = "store") -> None:
        """Count messages that were sent again; nothing is settled."""
        if self.trimming.history is not None:
            self.trimming.history.note(by, REDELIVERED, ranges)
        self.counts.count(REDELIVERED, sum(stop - start for start, stop in ranges))

    # --- limits ---

    def drop_oldest(self, messages: int, size_bytes: int) -> int:
        """Drop the oldest messages never handed out, until ``messages`` and ``size_bytes`` are free; how many were dropped.

        Raises:
            StorageDamaged, Unavailable: the oldest cannot be read.
        """
        return self.waits.drop_oldest(messages, size_bytes)

    def expire(self, too_old: TooOld, *, chunks_max: int = 1000) -> int:
        """Expire what waits at the cursor and is ``too_old``; how many messages that were.

        Raises:
            StorageDamaged, Unavailable: it cannot be read.
        """
        return self.waits.expire(too_old, chunks_max=chunks_max)

    # --- purge: everything that was appended is committed ---

    def unsent(self) -> Unsent:
        """The messages that ``purge_unsent`` would drop: everything that was certainly never sent. Call both between two commits.

        Messages that may have been sent stay: a remote that holds the QoS 2 packet identifier of one would take a later message
        with the same identifier for it, and swallow it.

        Raises:
            StorageDamaged, Unavailable: what stays cannot be counted.
        """
        cursor, in_flight, rows_left = self._cursor.seq, self._cursor.in_flight, self.counts.rows_left
        start = max(cursor, min(self.sent.below, self._cursor.tail))
        stored, qos0 = in_flight.stored, in_flight.qos0
        kept_bytes = 0
        if start > cursor:
            for chunk in self._reader.chunks_in(cursor, start, None):
                rows = rows_left(chunk, cursor, start)
                stored += rows
                kept_bytes += chunk.size_bytes * rows // chunk.count
            qos0 += sum(rows_left(chunk, cursor, start) for chunk in self._cursor.qos0.waiting)
        return Unsent(start, stored, qos0, kept_bytes)

    def purge_unsent(self, unsent: Unsent, write: Write) -> int:
        """Drop ``unsent`` with ``write``; how many messages that were."""
        assert self.appended.seq == self._cursor.tail, "a purge comes after a commit"
        cursor, start = self._cursor, unsent.start
        tail, before = cursor.tail, cursor.bytes_before + unsent.kept_bytes + cursor.purged.bytes_above(cursor.seq)
        cursor.purged.add(start, tail, max(0, cursor.tail_bytes - before), self.counts.head)
        cursor.qos0.drop_from(start)
        self.counts.leave("operator", Loss.PURGED.dropped, start, tail)
        if start == cursor.seq:
            cursor.jump(tail)
        purged = self.counts.keep(Loss.PURGED.dropped, unsent.kept_stored, unsent.kept_qos0)
        self.waits.advance()
        if start < tail:
            write.delete_range("msg", chunk_key(self.number, start), chunk_key(self.number, tail))
        self.change()
        return purged

    def purge_all(self, write: Write) -> int:
        """Drop everything with ``write``, what is in flight included; how many messages that were.

        The remote's session is left, so that no packet identifier of before means anything: the lane must be opened anew.
        """
        assert self.appended.seq == self._cursor.tail, "a purge comes after a commit"
        cursor, head = self._cursor, self.counts.head
        floor = self.trimming.settled_below(head)
        self.sent.leave_session(head, self.counts.above)
        self.sent.new_session(self.sent.generation + 1, "", self.sent.left)
        cursor.in_flight.clear()
        cursor.qos0.clear()
        cursor.purged.clear()
        self.counts.leave_all("operator", Loss.PURGED.dropped, cursor.tail)
        cursor.jump(cursor.tail)
        purged = self.counts.keep(Loss.PURGED.dropped, 0, 0)
        self.trimming.delete(write, floor, cursor.tail, cursor.tail_bytes)
        return purged

    # --- contents: for those who look and change nothing ---

    def in_hand(self, ranges: Ranges) -> list[tuple[int, int]]:
        """The part of ``ranges`` that would be settled if they were."""
        found = []
        for start, stop in ranges:
            found += self.counts.above.missing(max(start, self.counts.head), min(stop, self._cursor.tail))
        return found

    def has_left(self, seq: int) -> bool:
        """Whether the message ``seq`` was in the queue and is not any more."""
        return seq < self.counts.head or seq in self.counts.above

    def in_flight_ranges(self) -> Ranges:
        """The messages that were handed out and are not settled."""
        return tuple(self.counts.above.missing(self.counts.head, self._cursor.seq))

    def maybe_sent(self, below: int) -> int:
        """How many messages below ``below`` are not settled."""
        return sum(stop - start for start, stop in self.in_hand(((0, below),)))

    def read(self, start: int, stop: int, *, damage: Callable[[StorageDamaged], None] | None = None) -> Iterator[Message]:
        """The messages of ``[start, stop)``, in order.

        damage: is told of a chunk that cannot be read, and the rest goes on; without it, that raises.

        Raises:
            StorageDamaged, Unavailable: it cannot be read.
        """
        start = max(start, self.counts.head)
        settled = self.settled
        stored = (row for chunk in self._reader.chunks_in(start, stop, damage) for row in rows_of(chunk, start, stop, settled))
        qos0 = (row for chunk in self._qos0_chunks(start, stop) for row in rows_of(chunk, start, stop, settled))
        return merge(stored, qos0, key=attrgetter("seq"))

    def in_memory(self) -> tuple[int, int, list[Chunk]]:
        """Messages that are not on disk: how many, their bytes to within a chunk, and the chunks, of which rows may be settled."""
        chunks = list(self._qos0_chunks(self.counts.head, self._cursor.tail))
        return self.counts.qos0, self._cursor.qos0.size_bytes, chunks

    def _qos0_chunks(self, start: int, stop: int) -> Iterator[Chunk]:
        last: Chunk | None = None
        for chunk in chain(self._cursor.in_flight.qos0_chunks(), self._cursor.qos0.waiting):
            if chunk is not last and chunk.first_seq < stop and chunk.stop > start:
                yield chunk
            last = chunk  # one that was handed out in part is in several in_flight

    # --- damage ---

    def take_losses(self) -> list[LostStretch]:
        """Losses that were found since the last call."""
        return self.waits.take_losses()

    def isolate(self, error: StorageDamaged) -> None:
        """Take what cannot be read at the cursor, for ``error``, out of the queue; it goes on behind that.

        Raises:
            Unavailable: the disk refuses for now.
        """
        self.waits.isolate(error)

    # --- disk ---

    def write_row(self, write: Write, *, strong: bool = True, ahead: bool = True, wall_ms: int = 0) -> None:
        """Put the queue's row into ``write``, as it is once everything appended is committed, and what goes into the history.

        strong: the commit has the configured strength, so the mark of queue.handed-out-below-mark may move; ahead: by a block,
        since more can be handed out soon.
        """
        head, above, sent = self.counts.head, self.counts.above, self.sent
        settled = above.ranges() if above.starts else ()
        history = self.trimming.write(write, wall_ms, head, settled[-1][1] if settled else head)
        purged = self._cursor.purged
        handed = sent.put_mark(write, self._cursor.seq, self.appended.seq, strong=strong, ahead=ahead)
        stored = self.counts.stored
        if stored < 0 or (stored and head == self.appended.seq):
            self.waits.put_right()
        row = LedgerRow(
            head=head,
            tail=self.appended.seq,
            handed=handed,
            trimmed=self._reader.low,
            tail_bytes=self.appended.size_bytes,
            depth=self.counts.stored,
            settled=settled,
            released=sent.released.ranges(),
            generation=sent.generation,
            session=sent.session,
            ledger=self.ledger,
            purged=purged.row(head) if purged.ranges.starts else (),
            history=history,
            routes=self.appended.routes.row(head),
            left=sent.left,
        )
        write.put("meta", self._row_key, row.encode())
        self.changed = False
