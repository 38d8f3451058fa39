"""What an operator may drop of a queue: all that was certainly never sent, or everything."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from storage.engine.engine import Write
from storage.engine.keys import chunk_key
from storage.queue.chunk_reader import ChunkReader
from storage.queue.hand_out_cursor import Cursor
from storage.queue.in_flight import InFlight
from storage.queue.ledger_balance import Balance
from storage.queue.purged_chunks import Purged
from storage.queue.sent_record import SentRecord
from storage.queue.settled_ranges import Settled
from storage.queue.tail import Tail
from storage.queue.trimming import Trimming


class Unsent(NamedTuple):
    """What a purge would take: the sequences from ``start`` on; and what stays of the queue below."""

    start: int
    kept_stored: int
    kept_qos0: int
    kept_bytes: int


class Purge:
    """Purges one queue. Everything that was appended is committed."""

    def __init__(
        self,
        reader: ChunkReader,
        cursor: Cursor,
        in_flight: InFlight,
        settled: Settled,
        balance: Balance,
        sent: SentRecord,
        purged: Purged,
        trimming: Trimming,
        tail: Tail,
        changed: Callable[[], None],
    ) -> None:
        """changed: is called when the row is to be written."""
        self._reader = reader
        self._cursor = cursor
        self._in_flight = in_flight
        self._settled = settled
        self._balance = balance
        self._sent = sent
        self._purged = purged
        self._trimming = trimming
        self._tail = tail
        self._changed = changed

    def unsent(self) -> Unsent:
        """What ``drop_unsent`` would drop: everything that was certainly never sent. Call both between two commits.

        What may have been sent stays: a remote that holds its QoS 2 packet identifier would take a later message with the same
        identifier for it, and swallow it.

        Raises:
            StorageDamaged, Unavailable: what stays cannot be counted.
        """
        cursor, rows_left = self._cursor.seq, self._settled.rows_left
        start = max(cursor, min(self._sent.below, self._cursor.tail))
        stored, qos0 = self._in_flight.stored, self._in_flight.qos0
        kept_bytes = 0
        if start > cursor:
            for chunk in self._reader.look(cursor, start, None):
                rows = rows_left(chunk, cursor, start)
                stored += rows
                kept_bytes += chunk.size_bytes * rows // chunk.count
            qos0 += sum(rows_left(chunk, cursor, start) for chunk in self._cursor.qos0.waiting)
        return Unsent(start, stored, qos0, kept_bytes)

    def drop_unsent(self, unsent: Unsent, write: Write) -> int:
        """Drop ``unsent`` with ``write``; how many messages that were."""
        assert self._tail.seq == self._cursor.tail, "a purge comes after a commit"
        cursor, start = self._cursor, unsent.start
        tail, before = cursor.tail, cursor.bytes_before + unsent.kept_bytes + self._purged.bytes_above(cursor.seq)
        self._purged.add(start, tail, max(0, cursor.tail_bytes - before), self._settled.head)
        cursor.qos0.drop_from(start)
        self._settled.leave("operator", "dropped:purged", start, tail)
        if start == cursor.seq:
            cursor.jump(tail)
        purged = self._balance.keep("dropped:purged", unsent.kept_stored, unsent.kept_qos0)
        self._settled.advance()
        if start < tail:
            write.delete_range("msg", chunk_key(self._reader.number, start), chunk_key(self._reader.number, tail))
        self._changed()
        return purged

    def drop_all(self, write: Write) -> int:
        """Drop everything with ``write``, what is in flight included; how many messages that were.

        The remote's session is left, so that no packet identifier of before means anything: the lane must be opened anew.
        """
        assert self._tail.seq == self._cursor.tail, "a purge comes after a commit"
        cursor, head = self._cursor, self._settled.head
        floor = self._trimming.settled_below(head)
        self._sent.leave_session(head, self._settled.above)
        self._sent.new_session(self._sent.generation + 1, "", self._sent.left)
        self._in_flight.clear()
        cursor.qos0.clear()
        self._purged.clear()
        self._settled.leave_all("operator", "dropped:purged", cursor.tail)
        cursor.jump(cursor.tail)
        purged = self._balance.keep("dropped:purged", 0, 0)
        self._trimming.delete(write, floor, cursor.tail, cursor.tail_bytes)
        return purged
