"""Hands out what is next of a queue, in order."""

from __future__ import annotations

from array import array

from storage.queue.chunk import Chunk
from storage.queue.hand_out_cursor import Cursor, NextBatch
from storage.queue.hand_out_pieces import HandOutPiece, join_tiny, pick
from storage.queue.in_flight import InFlight
from storage.queue.ledger_balance import Balance
from storage.queue.sent_record import SentRecord
from storage.queue.settled_ranges import Settled
from storage.queue.waiting_messages import TooOld, Waiting
from wire.errors import StorageDamaged, Unavailable
from wire.frames.batch import pack_column
from wire.ranges import ranges_of

SPLIT_ROWS = 4000  # a chunk up to this size is handed out whole even if the credit ends inside it


class Dispatch:
    """The hand-outs of one queue.

    cut_short: the last one stopped before what could not be read.
    """

    def __init__(
        self,
        cursor: Cursor,
        waiting: Waiting,
        in_flight: InFlight,
        settled: Settled,
        balance: Balance,
        sent: SentRecord,
        *,
        durable: bool,
    ) -> None:
        """durable: what is stored outlives the process, so marks are needed (queue.handed-out-below-mark), and what is discarded is
        committed first.
        """
        self.cut_short = False
        self._cursor = cursor
        self._waiting = waiting
        self._in_flight = in_flight
        self._settled = settled
        self._balance = balance
        self._sent = sent
        self._durable = durable

    def hand_out(self, messages: int, size_bytes: int, too_old: TooOld | None, below: int | None) -> list[HandOutPiece]:
        """Hand out until ``messages`` or ``size_bytes`` are reached (by a chunk more), and mark it in flight; see ``Queue``.

        Raises:
            StorageDamaged: the next chunk cannot be read.
            Unavailable: the disk refuses for now.
        """
        pieces: list[HandOutPiece] = []
        self.cut_short = False
        cursor, waiting, balance, sent = self._cursor, self._waiting, self._balance, self._sent
        end = cursor.tail if below is None else min(below, cursor.tail)
        stored_before = balance.stored
        while messages > 0 and size_bytes > 0 and cursor.seq < end:
            try:
                batch = waiting.next()
            except (StorageDamaged, Unavailable):
                self.cut_short = bool(pieces)
                if pieces:
                    break  # hand out what could be read; the trouble is met again next time
                raise
            if cursor.seq >= end:  # there was nothing left before it
                break
            if too_old is not None and waiting.has_expired(batch, too_old):
                waiting.discard(batch, None, "expired")
                continue
            if self._durable:
                if balance.stored < stored_before:
                    break
                stored = batch.stored
                if stored is not None and stored.stop > sent.mark:
                    sent.want(stored.stop)
                    break
            piece = self._take(batch, messages)
            if piece is not None:
                messages -= piece.count
                size_bytes -= piece.size_bytes
                pieces.append(piece)
        self._settled.advance()
        sent.hand_out(cursor.seq)
        return join_tiny(pieces)

    def _take(self, batch: NextBatch, messages: int) -> HandOutPiece | None:
        """Mark ``batch``, which is next, as in flight; None if all of it is settled."""
        stored, qos0 = batch
        chunk = stored if stored is not None else qos0
        assert chunk is not None, "there is a next batch"
        first_seq, stop = chunk.first_seq, chunk.stop
        untouched = first_seq == self._cursor.seq and not self._any_settled(first_seq, stop)
        if untouched and (chunk.count <= messages or chunk.count <= SPLIT_ROWS):
            if stored is None or qos0 is None:
                return self._take_whole(batch, chunk, stop)
            whole = self._cursor.upcoming.whole(first_seq)
            if whole is not None:
                return self._take_both(stored, qos0, whole)
        return self._take_rows(batch, None if qos0 is not None else max(messages, SPLIT_ROWS))

    def _any_settled(self, start: int, stop: int) -> bool:
        settled = self._settled.above
        following = settled.next_range(start) if settled else None
        return following is not None and following[0] < stop

    def _take_whole(self, batch: NextBatch, chunk: Chunk, stop: int) -> HandOutPiece:
        cursor, first_seq = self._cursor, chunk.first_seq
        cursor.pop(batch)
        if batch.stored is None:
            self._in_flight.add_qos0(chunk, first_seq, stop, chunk.offsets, chunk.count, bytes_before=cursor.bytes_before)
        else:
            self._in_flight.add(chunk, first_seq, stop, chunk.offsets, chunk.count)
        offsets = b""
        if chunk.offsets is not None:
            offsets = pack_column(chunk.offsets)
            self._settled.leave_empty(first_seq, stop, ranges_of(chunk.seqs()))
        cursor.move(stop)
        return HandOutPiece(first_seq, chunk.count, chunk.size_bytes, offsets, chunk.body, chunk.accepted_ms)

    def _take_both(self, stored: Chunk, qos0: Chunk, whole: bytes) -> HandOutPiece:
        self._cursor.pop(NextBatch(stored, qos0))
        first_seq, stop = stored.first_seq, stored.stop
        self._in_flight.add(stored, first_seq, stop, stored.offsets, stored.count)
        self._in_flight.add_qos0(qos0, first_seq, stop, qos0.offsets, qos0.count, bytes_before=stored.bytes_before)
        self._cursor.move(stop)
        size_bytes = stored.size_bytes + qos0.size_bytes
        return HandOutPiece(first_seq, stored.count + qos0.count, size_bytes, b"", whole, stored.accepted_ms)

    def _take_rows(self, batch: NextBatch, rows_max: int | None) -> HandOutPiece | None:
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
                    self._in_flight.add(chunk, start, end, offsets, len(seqs))
            elif seqs:
                self._in_flight.add_qos0(chunk, start, end, offsets, len(seqs), bytes_before=bytes_before)
            else:
                cursor.qos0.free(chunk.size_bytes)
        cursor.move(end, None if end == stop else (first_seq, bytes_before))
        if end < stop:  # the rest of the chunk is read again
            cursor.upcoming.begin_at(end)
        return piece
