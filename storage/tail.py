"""Where a queue grows: batches become chunks, go into the open write, and count once that is committed."""

from __future__ import annotations

from functools import partial

from storage.balance import Balance
from storage.chunk import Chunk
from storage.cursor import Cursor
from storage.engine import Write
from storage.keys import chunk_key
from storage.ledger import LaneRow
from storage.pieces import chunks_of
from storage.queued_ways import QueuedWays
from storage.settled import Settled
from wire.batch import head_of


class Tail:
    """The end of one queue, once everything appended is committed.

    Q1  the sequence of a durable message is never reused, not even after a crash.
    Q2  a chunk and the tail that covers it land in the same write.

    seq: one past the last message. size_bytes: of all stored messages that were ever appended. ways: by which they go.
    """

    def __init__(self, number: int, row: LaneRow, cursor: Cursor, settled: Settled, balance: Balance, *, all_stored: bool) -> None:
        """all_stored: QoS 0 is stored with the rest."""
        self.seq = row.tail
        self.size_bytes = row.tail_bytes
        self.ways = QueuedWays(row.ways)
        self._number = number
        self._cursor = cursor
        self._settled = settled
        self._balance = balance
        self._all_stored = all_stored

    def append(self, body: bytes, count: int, size_bytes: int, qos0: int, write: Write) -> range:
        """Add the batch ``body`` to ``write``: its sequences count once ``write`` is committed, and not before.

        count: its rows, qos0: how many of them are QoS 0.
        """
        first_seq, self.seq = self.seq, self.seq + count
        accepted_ms, ways = head_of(body)
        all_stored, before = self._all_stored, self.size_bytes
        stored, apart = chunks_of(body, first_seq, count, size_bytes, qos0, accepted_ms, before, all_stored=all_stored)
        self.ways.take(ways, self.seq)
        self._balance.accept(stored.count if stored is not None else 0, apart.count if apart is not None else 0)
        if stored is not None:
            write.put("msg", chunk_key(self._number, first_seq), stored.encode())
            self.size_bytes += stored.size_bytes
        write.on_commit(partial(self._cursor.committed, self.seq, stored, None if apart is None else body))
        if apart is not None:
            write.on_commit(partial(self._keep, apart))
        return range(first_seq, self.seq)

    def _keep(self, apart: Chunk) -> None:
        self._balance.end("dropped:qos0_memory", 0, self._cursor.qos0.add(apart, self._settled, self._cursor.seq))
