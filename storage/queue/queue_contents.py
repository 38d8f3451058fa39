"""What is in a queue, for those who look and change nothing: operators, the dead-letter queue, snapshots."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import merge
from itertools import chain
from operator import attrgetter

from storage.queue.chunk import Chunk
from storage.queue.chunk_reader import ChunkReader
from storage.queue.hand_out_cursor import Cursor
from storage.queue.in_flight import InFlight
from storage.queue.ledger_balance import Balance
from storage.queue.settled_ranges import Settled
from storage.queue.single_messages import Message, rows_of
from wire.errors import StorageDamaged
from wire.frames.base import Ranges


class Contents:
    """The messages of one queue that are committed and not settled."""

    def __init__(self, reader: ChunkReader, cursor: Cursor, in_flight: InFlight, settled: Settled, balance: Balance) -> None:
        self._reader = reader
        self._cursor = cursor
        self._in_flight = in_flight
        self._settled = settled
        self._balance = balance

    def in_hand(self, ranges: Ranges) -> list[tuple[int, int]]:
        """What of ``ranges`` would be settled if they were."""
        found = []
        for start, stop in ranges:
            found += self._settled.above.missing(max(start, self._settled.head), min(stop, self._cursor.tail))
        return found

    def in_flight(self) -> Ranges:
        """What was handed out and is not settled."""
        return tuple(self._settled.above.missing(self._settled.head, self._cursor.seq))

    def maybe_sent(self, below: int) -> int:
        """How many messages below ``below`` are not settled."""
        return sum(stop - start for start, stop in self.in_hand(((0, below),)))

    def read(self, start: int, stop: int, *, damage: Callable[[StorageDamaged], None] | None = None) -> Iterator[Message]:
        """The messages of ``[start, stop)``, in order.

        damage: is told of a chunk that cannot be read, and the rest goes on; without it, that raises.

        Raises:
            StorageDamaged, Unavailable: it cannot be read.
        """
        start = max(start, self._settled.head)
        settled = self._settled.above
        stored = (row for chunk in self._reader.look(start, stop, damage) for row in rows_of(chunk, start, stop, settled))
        qos0 = (row for chunk in self._qos0_chunks(start, stop) for row in rows_of(chunk, start, stop, settled))
        return merge(stored, qos0, key=attrgetter("seq"))

    def in_memory(self) -> tuple[int, int, list[Chunk]]:
        """What is not on disk: how many messages, their bytes to within a chunk, and the chunks, of which rows may be settled."""
        chunks = list(self._qos0_chunks(self._settled.head, self._cursor.tail))
        return self._balance.qos0, self._cursor.qos0.size_bytes, chunks

    def _qos0_chunks(self, start: int, stop: int) -> Iterator[Chunk]:
        last: Chunk | None = None
        for chunk in chain(self._in_flight.qos0_chunks(), self._cursor.qos0.waiting):
            if chunk is not last and chunk.first_seq < stop and chunk.stop > start:
                yield chunk
            last = chunk  # one that was handed out in part is in several in_flight
