"""What of a queue was not handed out: what is next of it, and what leaves it otherwise than by being handed out."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from storage.queue.chunk import Chunk
from storage.queue.chunk_reader import ChunkReader
from storage.queue.hand_out_cursor import Cursor, NextBatch
from storage.queue.in_flight import Left
from storage.queue.ledger_balance import Balance
from storage.queue.losses_to_damage import Losses
from storage.queue.purged_chunks import Purged
from storage.queue.sent_record import SentRecord
from storage.queue.settled_ranges import Settled
from wire.errors import StorageDamaged, Unavailable
from wire.frames.base import Ranges
from wire.ranges import RangeSet, ranges_of

TooOld = Callable[[int], bool]  # whether what was accepted then (UTC, ms) has expired


class Waiting:
    """The messages of one queue at or above its cursor."""

    def __init__(
        self,
        reader: ChunkReader,
        cursor: Cursor,
        settled: Settled,
        balance: Balance,
        sent: SentRecord,
        losses: Losses,
        purged: Purged,
        changed: Callable[[], None],
    ) -> None:
        """changed: is called when the row is to be written."""
        self._reader = reader
        self._cursor = cursor
        self._settled = settled
        self._balance = balance
        self._sent = sent
        self._losses = losses
        self._purged = purged
        self._changed = changed
        self._oldest: tuple[int, int | None] = (-1, None)

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
        elif self._balance.stored:
            return
        if start < tail:
            self._settled.leave_empty(start, tail)
            self._settled.advance()

    def next(self, chunks_max: int | None = None) -> NextBatch:
        """What comes next, behind what is settled and what is found to be missing; nothing where the queue ends.

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
        if self._cursor.misses_bytes(stored, seq, purged=self._purged.has_any(start, seq)):
            self._losses.lose_gap(seq)
        self._settled.leave_empty(start, seq)
        self._cursor.move(seq)
        self._settled.advance()

    def oldest_ms(self) -> int | None:
        """When the first message was accepted; None if there is none.

        Raises:
            StorageDamaged, Unavailable: it cannot be read.
        """
        if self._cursor.seq >= self._cursor.tail:
            return None
        if self._oldest[0] != self._cursor.seq:
            batch = self.next(chunks_max=1)
            self._oldest = (self._cursor.seq, batch.chunk.accepted_ms if batch.exists else None)
        return self._oldest[1]

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
        self._balance.end(outcome, stored, qos0)
        rows = RangeSet(ranges_of(seq for seq in self._unsettled(batch) if seq < end)) if settled.noted else RangeSet()
        settled.leave_rows("store", outcome, settled.above.missing(cursor.seq, end), rows)
        self._changed()
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
                self.discard(batch, None if count == len(seqs) else seqs[count], "dropped:overflow")
                dropped += count
                messages -= count
                size_bytes -= count * each
            else:
                self.discard(batch, None, "dropped:overflow")
        self._settled.advance()
        return dropped

    def expire(self, too_old: TooOld, *, chunks_max: int) -> int:
        """Expire what is next and ``too_old``; how many messages that were.

        Raises:
            StorageDamaged, Unavailable: it cannot be read.
        """
        before = self._balance.ledger.expired
        for _ in range(chunks_max):
            if self._cursor.seq >= self._cursor.tail:
                break
            batch = self.next(chunks_max=1)
            if not self.has_expired(batch, too_old):
                break
            self.discard(batch, None, "expired")
        self._settled.advance()
        return self._balance.ledger.expired - before

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
            for chunk in self._reader.look(start, stop, damaged.append)
        )
        qos0 = sum(self._rows_in(chunk, start, stop, noted, left) for start, stop in gaps for chunk in self._cursor.qos0.waiting)
        self._settled.leave_rows(by, outcome, gaps, noted, damaged=bool(damaged))
        for start, stop in gaps:
            self._sent.released.discard(start, stop)
        self._oldest = (-1, None)
        return stored, qos0

    def look(self, ranges: Ranges) -> None:
        """Read what ``settle`` of ``ranges`` is to read, and change nothing.

        Raises:
            Unavailable: it cannot be read for now.
        """
        for start, stop in self._gaps(ranges):
            for _ in self._reader.look(start, stop, lambda _: None):
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
