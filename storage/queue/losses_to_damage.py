"""What a queue has lost to damage: messages that cannot be read, or are missing, leave it as ``dropped:damaged``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from storage.queue.chunk import claimed_span
from storage.queue.chunk_reader import ChunkReader
from storage.queue.hand_out_cursor import Cursor
from storage.queue.in_flight import InFlight
from storage.queue.ledger_balance import Balance
from storage.queue.sent_record import SentRecord
from storage.queue.settled_ranges import Settled
from wire.errors import StorageDamaged


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
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


class Losses:
    """The losses of one queue that nobody was told of yet; and how the queue goes on behind one, in order."""

    def __init__(
        self,
        reader: ChunkReader,
        cursor: Cursor,
        in_flight: InFlight,
        settled: Settled,
        balance: Balance,
        sent: SentRecord,
        changed: Callable[[], None],
    ) -> None:
        """changed: is called when the row is to be written."""
        self._reader = reader
        self._cursor = cursor
        self._in_flight = in_flight
        self._settled = settled
        self._balance = balance
        self._sent = sent
        self._changed = changed
        self._found: list[Loss] = []

    def __bool__(self) -> bool:
        return bool(self._found)

    def take(self) -> list[Loss]:
        """What was found since the last call."""
        found, self._found = self._found, []
        return found

    def lose(self, start: int, stop: int, messages: int, error: str, raw: bytes = b"", *, unreadable: bool = False) -> None:
        """Settle ``[start, stop)``, where ``messages`` stored messages at most are lost."""
        messages = max(0, min(messages, self._balance.stored - self._in_flight.stored))
        head = self._settled.head
        self._balance.end("dropped:damaged", messages)
        forgotten = self._sent.lose(start, stop, head, self._settled.above)
        self._settled.leave("store", "dropped:damaged", max(start, head), stop)
        self._changed()
        loss = Loss(
            start=start, stop=stop, messages=messages, error=error, session_forgotten=forgotten, unreadable=unreadable, raw=raw
        )
        self._found.append(loss)

    def lose_gap(self, stop: int) -> None:
        """Between the cursor and ``stop`` chunks are missing."""
        start = self._cursor.seq
        self.lose(start, stop, self._waiting_seqs(start, stop), "chunks are missing")

    def lose_tail(self, tail: int) -> None:
        """The row is older than what was promised: the sequences up to ``tail`` were used, so they are not used again."""
        start = self._cursor.tail
        self._balance.accept(tail - start, 0)
        self._cursor.lose_tail(tail)
        self.lose(start, tail, tail - start, "commits are missing")
        self._sent.hand_out(self._cursor.seq)
        self._sent.session = ""
        self._settled.advance()

    def isolate(self, error: StorageDamaged) -> None:
        """Take what cannot be read at the cursor out of the queue; it goes on behind that.

        How many messages those were is known as well as can be: by the damaged chunk's header where what follows agrees with it,
        else by the sequences up to the next chunk that can be read. When the queue has run empty the sum is put right.

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
        self._balance.end("dropped:damaged", 0, qos0)
        self.lose(start, stop, max(0, lost - qos0), str(error), value, unreadable=not value)
        self._cursor.skip_damage(stop, bytes_before)
        self._settled.advance()

    def put_right(self) -> None:
        """The queue is empty: what was counted too little or too much as damaged is put right."""
        missing, head = self._balance.put_right(), self._settled.head
        if missing > 0:
            self._found.append(Loss(start=head, stop=head, messages=missing, error="messages are missing"))

    def _waiting_seqs(self, start: int, stop: int) -> int:
        return sum(high - low for low, high in self._settled.above.missing(start, stop))
