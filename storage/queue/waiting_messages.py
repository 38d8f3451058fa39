"""The messages of a queue that were not handed out: the next of them, and each way by which they leave: handed out, expired,
dropped, settled, or lost to damage.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from storage.queue.chunk import Chunk, Left, claimed_span
from storage.queue.chunk_reader import ChunkReader
from storage.queue.hand_out_cursor import Cursor, NextBatch
from storage.queue.hand_out_pieces import join_tiny, pick
from storage.queue.sent_record import SentRecord
from storage.queue.settled_ranges import Settled
from wire.errors import StorageDamaged, Unavailable
from wire.frames.frame import Ranges
from wire.ranges import RangeSet, ranges_of
from wire.status.loss_reasons import Loss
from wire.status.outcomes import EXPIRED

SPLIT_ROWS = 4000  # a chunk up to this size is handed out whole even if the credit ends inside it

TooOld = Callable[[int], bool]  # whether what was accepted then (UTC, ms) has expired


@dataclass(frozen=True, slots=True, kw_only=True)
class LostStretch:
    """Messages of a queue that cannot be read any more: the sequences ``[start, stop)``, and how many messages that were.

    session_forgotten: the remote session went off the record, because the remote may hold identifiers of these messages.
    unreadable: the engine's files are damaged in this place; else they are whole, and what is missing is not in them.
    raw: the bytes found in their place; empty if the engine could not read them either. error: what was found, in words.
    """

    start: int
    stop: int
    messages: int
    error: str
    session_forgotten: bool = False
    unreadable: bool = False
    raw: bytes = b""


class Waiting:
    """The messages of one queue at or above its cursor.

    cut_short: the last hand-out stopped before what could not be read. losses: those that nobody was told of yet.
    """

    def __init__(self, reader: ChunkReader, cursor: Cursor, settled: Settled, sent: SentRecord, *, durable: bool) -> None:
        """durable: what is stored outlives the process, so marks are needed (queue.handed-out-below-mark), and what is discarded is
        committed first.
        """
        self.cut_short = False
        self.losses: list[LostStretch] = []
        self._reader = reader
        self._cursor = cursor
        self._settled = settled
        self._sent = sent
        self._durable = durable
        self._oldest: tuple[int, int | None] = (-1, None)

    def advance(self) -> None:
        """Move the head over what is settled, and forget what is below it."""
        if self._settled.advance():
            head = self._settled.head
            self._sent.forget_below(head)
            self._cursor.forget_below(head)

    # --- what is next ---

    def begin(self) -> bool:
        """The queue is opened: read the first chunk. False if that cannot be done; it is met again when it is to be handed out."""
        try:
            batch = self.next(chunks_max=1) if self._cursor.seq < self._cursor.tail else None
        except (StorageDamaged, Unavailable):
            return False
        self._cursor.begin_in(batch.stored if batch is not None else None)
        self._settle_lost_end()
        return True

    def _settle_lost_end(self) -> None:
        """Settle the QoS 0 behind the last message that a former life has left: nothing that is handed out later tells of it.

        A lane that had sent it would wait for it, and not go back to its first address.
        """
        start, tail = self._settled.head, self._cursor.tail
        if start >= tail:
            return
        try:
            last = self._reader.before(tail)
        except (StorageDamaged, Unavailable):
            return  # met again when it is to be handed out
        if last is not None:
            if last.bytes_before + last.size_bytes != self._cursor.tail_bytes:
                return  # what is missing behind it was on disk
            start = max(start, last.seqs()[-1] + 1)
        elif self._settled.stored:
            return
        if start < tail:
            self._settled.leave_empty(start, tail)
            self.advance()

    def next(self, chunks_max: int | None = None) -> NextBatch:
        """The next messages, behind those that are settled or found to be missing; nothing where the queue ends.

        Raises:
            StorageDamaged, Unavailable: it cannot be read.
        """
        cursor = self._cursor
        while True:
            batch = cursor.peek(self._settled.above, chunks_max)
            stored, qos0 = batch
            chunk = stored if stored is not None else qos0
            first_seq = chunk.first_seq if chunk is not None else cursor.tail
            if first_seq <= cursor.seq:
                return batch
            self._pass_over(stored, first_seq)  # what is next then may have been settled out of order

    def _pass_over(self, stored: Chunk | None, seq: int) -> None:
        """Nothing is left between the cursor and ``seq``: it was QoS 0 that is gone, or is missing."""
        start = self._cursor.seq
        if self._cursor.misses_bytes(stored, seq):
            self._lose(start, seq, self._waiting_seqs(start, seq), "chunks are missing")
        self._settled.leave_empty(start, seq)
        self._cursor.move(seq)
        self.advance()

    def oldest_ms(self) -> int | None:
        """The time at which the first message was accepted; None if there is none.

        Raises:
            StorageDamaged, Unavailable: it cannot be read.
        """
        if self._cursor.seq >= self._cursor.tail:
            return None
        if self._oldest[0] != self._cursor.seq:
            batch = self.next(chunks_max=1)
            self._oldest = (self._cursor.seq, batch.chunk.accepted_ms if batch.exists else None)
        return self._oldest[1]

    # --- handed out ---

    def hand_out(self, messages: int, size_bytes: int, *, too_old: TooOld | None = None, below: int | None = None) -> list[Chunk]:
        """Hand out, in order, until ``messages`` or ``size_bytes`` are reached (by a chunk more), and mark it in flight.

        A message that is ``too_old`` is expired instead; if that takes something off the disk, nothing behind it is handed out in
        this call: let that be committed first, synced (P4). below: nothing from there on, where a chunk begins.

        Raises:
            StorageDamaged: the next chunk cannot be read.
            Unavailable: the disk refuses for now.
        """
        handed: list[Chunk] = []
        self.cut_short = False
        cursor, settled, sent = self._cursor, self._settled, self._sent
        end = cursor.tail if below is None or below > cursor.tail else below
        stored_before = settled.stored
        while messages > 0 and size_bytes > 0 and cursor.seq < end:
            try:
                batch = self.next()
            except (StorageDamaged, Unavailable):
                self.cut_short = bool(handed)
                if handed:
                    break  # hand out what could be read; the trouble is met again next time
                raise
            if cursor.seq >= end:  # there was nothing left before it
                break
            if too_old is not None and self.has_expired(batch, too_old):
                self.discard(batch, None, EXPIRED)
                continue
            if self._durable:
                if settled.stored < stored_before:
                    break
                stored = batch.stored
                if stored is not None and stored.first_seq + stored.span > sent.mark:
                    sent.want(stored.stop)
                    break
            given = self._take(batch, messages)
            if given is not None:
                messages -= given.count
                size_bytes -= given.size_bytes
                handed.append(given)
        if settled.above.starts:
            self.advance()
        if cursor.seq > sent.below:
            sent.hand_out(cursor.seq)
        return handed if len(handed) < 2 else join_tiny(handed)

    def _take(self, batch: NextBatch, messages: int) -> Chunk | None:
        """Mark ``batch``, which is next, as in flight; None if all of it is settled."""
        chunk = batch.stored if batch.stored is not None else batch.chunk
        first_seq = chunk.first_seq
        above = self._settled.above
        following = above.next_range(first_seq) if above.starts else None
        untouched = first_seq == self._cursor.seq and (following is None or following[0] >= chunk.stop)
        if untouched and (chunk.count <= messages or chunk.count <= SPLIT_ROWS):
            given = self._cursor.hand_out(batch)
            if given is not None:
                if given.offsets is not None:
                    self._settled.leave_empty(first_seq, given.stop, ranges_of(given.seqs()))
                return given
        return self._take_rows(batch, None if batch.qos0 is not None else max(messages, SPLIT_ROWS))

    def _take_rows(self, batch: NextBatch, rows_max: int | None) -> Chunk | None:
        cursor, chunks = self._cursor, [chunk for chunk in batch if chunk is not None]
        start, stop, first_seq = cursor.seq, chunks[0].stop, chunks[0].first_seq
        bytes_before = batch.stored.bytes_before if batch.stored is not None else cursor.bytes_before
        piece, taken = pick(chunks, start, self._settled.above, rows_max)
        end = stop
        if rows_max is not None and piece is not None and piece.count == rows_max and taken[0][-1] + 1 < stop:
            end = taken[0][-1] + 1
        self._settled.leave_empty(start, end, ranges_of(sorted(seq for seqs in taken for seq in seqs)))
        cursor.pop(batch)
        for chunk, seqs in zip(chunks, taken, strict=True):
            offsets = array("I", [seq - start for seq in seqs])
            if chunk is batch.stored:
                if seqs:
                    cursor.in_flight.add(chunk, start, end, offsets, len(seqs))
            elif seqs:
                cursor.in_flight.add_qos0(chunk, start, end, offsets, len(seqs), bytes_before=bytes_before)
            else:
                cursor.qos0.free(chunk.size_bytes)
        cursor.move(end, None if end == stop else (first_seq, bytes_before))
        if end < stop:  # the rest of the chunk is read again
            cursor.upcoming.begin_at(end)
        return piece

    # --- limits ---

    def has_expired(self, batch: NextBatch, too_old: TooOld) -> bool:
        """Whether ``batch`` is ``too_old``; what may have been sent already is the exchange's to finish."""
        chunk = batch.stored if batch.stored is not None else batch.qos0
        return chunk is not None and too_old(chunk.accepted_ms) and self._cursor.seq >= self._sent.below

    def discard(self, batch: NextBatch, stop: int | None, outcome: str) -> None:
        """Take ``batch``, which is next, or what of it is below ``stop``, out of the queue under ``outcome``."""
        settled, cursor = self._settled, self._cursor
        end = batch.chunk.stop if stop is None else stop
        stored, qos0 = (0 if chunk is None else settled.rows_left(chunk, cursor.seq, end) for chunk in batch)
        settled.end(outcome, stored, qos0)
        rows = RangeSet(ranges_of(seq for seq in self._unsettled(batch) if seq < end)) if settled.noted else RangeSet()
        settled.leave_rows("store", outcome, settled.above.missing(cursor.seq, end), rows)
        settled.changed()
        if stop is not None:
            cursor.move_into(batch, end)
            return
        cursor.pop(batch)
        if batch.qos0 is not None:
            cursor.qos0.free(batch.qos0.size_bytes)
        cursor.move(end)

    def drop_oldest(self, messages: int, size_bytes: int) -> int:
        """Drop the oldest messages never handed out, until ``messages`` and ``size_bytes`` are free; how many were dropped.

        Raises:
            StorageDamaged, Unavailable: the oldest cannot be read.
        """
        dropped = 0
        while (messages > 0 or size_bytes > 0) and self._cursor.seq < self._cursor.tail:
            batch = self.next()
            seqs = self._unsettled(batch)
            if not batch.exists or (seqs and seqs[0] < self._sent.below):
                break
            if seqs:
                chunks = [chunk for chunk in batch if chunk is not None]
                each = max(1, sum(chunk.size_bytes for chunk in chunks) // sum(chunk.count for chunk in chunks))
                count = min(len(seqs), max(messages, -(-size_bytes // each)))
                self.discard(batch, None if count == len(seqs) else seqs[count], Loss.OVERFLOW.dropped)
                dropped += count
                messages -= count
                size_bytes -= count * each
            else:
                self.discard(batch, None, Loss.OVERFLOW.dropped)
        self.advance()
        return dropped

    def expire(self, too_old: TooOld, *, chunks_max: int) -> int:
        """Expire what is next and ``too_old``; how many messages that were.

        Raises:
            StorageDamaged, Unavailable: it cannot be read.
        """
        before = self._settled.ledger.expired
        for _ in range(chunks_max):
            if self._cursor.seq >= self._cursor.tail:
                break
            batch = self.next(chunks_max=1)
            if not self.has_expired(batch, too_old):
                break
            self.discard(batch, None, EXPIRED)
        self.advance()
        return self._settled.ledger.expired - before

    def _unsettled(self, batch: NextBatch) -> list[int]:
        seqs = [seq for chunk in batch if chunk is not None for seq in chunk.seqs()]
        return sorted(seq for seq in seqs if seq >= self._cursor.seq and seq not in self._settled.above)

    # --- settled before it is handed out ---

    def settle(self, outcome: str, ranges: Ranges, by: str, left: Left | None = None) -> tuple[int, int]:
        """Settle what of ``ranges`` waits, and read its chunks for it; how many messages that were, stored ones and QoS 0.

        They are put down in ``left``. The bytes go when the cursor passes them.

        Raises:
            StorageDamaged, Unavailable: it cannot be read; nothing has changed.
        """
        gaps = self._gaps(ranges)
        damaged: list[StorageDamaged] = []  # they go with the rest; what they held is counted when the queue has run empty
        noted = RangeSet()
        stored = sum(
            self._rows_in(chunk, start, stop, noted, left)
            for start, stop in gaps
            for chunk in self._reader.chunks_in(start, stop, damaged.append)
        )
        qos0 = sum(self._rows_in(chunk, start, stop, noted, left) for start, stop in gaps for chunk in self._cursor.qos0.waiting)
        self._settled.leave_rows(by, outcome, gaps, noted, damaged=bool(damaged))
        for start, stop in gaps:
            self._sent.released.discard(start, stop)
        self._oldest = (-1, None)
        return stored, qos0

    def preload(self, ranges: Ranges) -> None:
        """Read what ``settle`` of ``ranges`` is to read, and change nothing.

        Raises:
            Unavailable: it cannot be read for now.
        """
        for start, stop in self._gaps(ranges):
            for _ in self._reader.chunks_in(start, stop, lambda _: None):
                pass

    def _gaps(self, ranges: Ranges) -> Sequence[tuple[int, int]]:
        waiting = RangeSet((max(start, self._cursor.seq), min(stop, self._cursor.tail)) for start, stop in ranges)
        return [gap for start, stop in waiting for gap in self._settled.above.missing(start, stop)]

    def _rows_in(self, chunk: Chunk, start: int, stop: int, noted: RangeSet, left: Left | None) -> int:
        """How many rows ``chunk`` has in ``[start, stop)``; where a history is kept, their sequences are put into ``noted``."""
        if self._settled.noted:
            if chunk.offsets is None:
                noted.add(max(start, chunk.first_seq), min(stop, chunk.stop))
            else:
                for low, high in ranges_of(seq for seq in chunk.seqs() if start <= seq < stop):
                    noted.add(low, high)
        rows = chunk.rows_in(start, stop)
        if left is not None and rows:
            left.append((chunk.accepted_ms, rows))
        return rows

    # --- lost ---

    def take_losses(self) -> list[LostStretch]:
        """Losses that were found since the last call."""
        found = self.losses.copy()
        self.losses.clear()
        return found

    def _lose(self, start: int, stop: int, messages: int, error: str, raw: bytes = b"", *, unreadable: bool = False) -> None:
        """Settle ``[start, stop)``, where ``messages`` stored messages at most are lost."""
        messages = max(0, min(messages, self._settled.stored - self._cursor.in_flight.stored))
        head = self._settled.head
        self._settled.end(Loss.DAMAGED.dropped, messages)
        forgotten = self._sent.lose(start, stop, head, self._settled.above)
        self._settled.leave("store", Loss.DAMAGED.dropped, max(start, head), stop)
        self._settled.changed()
        loss = LostStretch(
            start=start, stop=stop, messages=messages, error=error, session_forgotten=forgotten, unreadable=unreadable, raw=raw
        )
        self.losses.append(loss)

    def lose_tail(self, tail: int) -> None:
        """The row is older than what was promised: the sequences up to ``tail`` were used, so they are not used again."""
        start = self._cursor.tail
        self._settled.accept(tail - start, 0)
        self._cursor.lose_tail(tail)
        self._lose(start, tail, tail - start, "commits are missing")
        self._sent.hand_out(self._cursor.seq)
        self._sent.forget_session()
        self.advance()

    def isolate(self, error: StorageDamaged) -> None:
        """Take what cannot be read at the cursor out of the queue; it goes on behind that.

        How many messages those were is known as well as can be: by the damaged chunk's header where what follows agrees with it,
        else by the sequences up to the next chunk that can be read. The sum is put right when the queue has run empty.

        Raises:
            Unavailable: the disk refuses for now.
        """
        upcoming, start = self._cursor.upcoming, self._cursor.seq
        first_seq, value, sound = self._reader.row_at(start, upcoming.low)
        if sound:  # what was damaged stands below the cursor, or can be read after all
            upcoming.begin_at(max(start, first_seq), aligned=first_seq >= start)
            return
        known = upcoming.first_recent.bytes_before if upcoming.first_recent is not None else None
        following, bytes_before = self._reader.next_readable(max(start, first_seq + 1) if value else start, upcoming.low, known)
        if not value and following == start:
            upcoming.begin_at(start, aligned=True)
            return
        stop = max(start + 1, following)
        claimed = claimed_span(value, first_seq)
        lost = self._waiting_seqs(start, stop)
        if claimed is not None and first_seq >= start and claimed[0] <= stop:
            lost = min(lost, claimed[1])
        qos0 = self._cursor.qos0.drop_below(stop, self._settled, start)  # QoS 0 rows of the same batches go with them
        self._settled.end(Loss.DAMAGED.dropped, 0, qos0)
        self._lose(start, stop, max(0, lost - qos0), str(error), value, unreadable=not value)
        self._cursor.skip_damage(stop, bytes_before)
        self.advance()

    def put_right(self) -> None:
        """The queue is empty: what was counted too little or too much as damaged is put right."""
        missing, head = self._settled.put_right(), self._settled.head
        if missing > 0:
            self.losses.append(LostStretch(start=head, stop=head, messages=missing, error="messages are missing"))

    def _waiting_seqs(self, start: int, stop: int) -> int:
        return sum(high - low for low, high in self._settled.above.missing(start, stop))
