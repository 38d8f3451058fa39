"""What of a queue is handed out and not settled: marks in memory, shared by what was handed out together. Pure.

Which sequences are settled, and what the queue counts, is the business of ``queue``.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator

from storage.chunk import Chunk, rows_in
from storage.chunk_reader import ChunkReader
from storage.pieces import qos0_seqs

FLIGHT_ROWS_MAX = 1000


class Flight:
    """Messages handed out together and not all settled: sequences ``[start, stop)``, thinned out by ``offsets`` from ``start``.

    chunk: for QoS 0 kept apart, the messages themselves. floor, bytes_before: of the first chunk they came from.
    """

    __slots__ = ("accepted_ms", "bytes_before", "chunk", "floor", "offsets", "qos0", "remaining", "size_bytes", "start", "stop")

    def __init__(self, start: int, stop: int, offsets: array[int] | None, count: int, size_bytes: int, chunk: Chunk) -> None:
        self.start = start
        self.stop = stop
        self.offsets = offsets
        self.remaining = count
        self.size_bytes = size_bytes
        self.chunk: Chunk | None = None
        self.qos0 = chunk.qos0
        self.floor = chunk.first_seq
        self.bytes_before = chunk.bytes_before
        self.accepted_ms = chunk.accepted_ms


class Flights:
    """The flights of one queue, in the order in which they left. ``size_bytes`` is of the durable ones."""

    def __init__(self) -> None:
        self.messages = 0
        self.size_bytes = 0
        self._flights: list[Flight] = []

    def __len__(self) -> int:
        return len(self._flights)

    def __iter__(self) -> Iterator[Flight]:
        return iter(self._flights)

    @property
    def first(self) -> Flight | None:
        """The one that left first."""
        return self._flights[0] if self._flights else None

    @property
    def durable(self) -> int:
        """Messages in flight that are on disk."""
        return sum(flight.remaining for flight in self._flights if flight.chunk is None)

    @property
    def volatile(self) -> int:
        """Messages in flight that are kept apart."""
        return sum(flight.remaining for flight in self._flights if flight.chunk is not None)

    def chunks_apart(self) -> Iterator[Chunk]:
        """What is kept apart and in flight; a chunk that was handed out in parts comes as often."""
        return (flight.chunk for flight in self._flights if flight.chunk is not None and flight.remaining)

    def qos0_seqs(self, reader: ChunkReader) -> list[int]:
        """The sequences of the QoS 0 messages in flight, some of which may have landed; what is stored of them is read.

        Raises:
            StorageDamaged, Unavailable: it cannot be read.
        """
        found: list[int] = []
        for flight in self._flights:
            if flight.chunk is not None:
                found.extend(seq for seq in flight.chunk.seqs() if flight.start <= seq < flight.stop)
            elif flight.qos0:
                for chunk, _ in reader.scan(flight.floor, flight.stop):
                    found.extend(seq for seq in qos0_seqs(chunk) if flight.start <= seq < flight.stop)
        return found

    def leave(self, chunk: Chunk, start: int, stop: int, offsets: array[int] | None, count: int) -> None:
        """Mark ``count`` durable messages of ``chunk`` as in flight; tiny neighbours share a mark."""
        self.messages += count
        size_bytes = chunk.size_bytes if count == chunk.count else chunk.size_bytes * count // chunk.count
        self.size_bytes += size_bytes
        last = self._flights[-1] if self._flights else None
        if (
            last is not None
            and last.remaining  # the bytes of a settled one are given back already
            and last.chunk is None
            and last.offsets is None
            and offsets is None
            and last.stop == start
            and last.stop - last.start + count <= FLIGHT_ROWS_MAX
        ):
            last.stop = stop
            last.remaining += count
            last.size_bytes += size_bytes
            last.qos0 += chunk.qos0
            return
        self._flights.append(Flight(start, stop, offsets, count, size_bytes, chunk))

    def leave_apart(
        self, chunk: Chunk, start: int, stop: int, offsets: array[int] | None, count: int, *, bytes_before: int
    ) -> None:
        """Mark ``count`` messages of ``chunk``, which is kept apart behind ``bytes_before`` durable bytes, as in flight."""
        self.messages += count
        size_bytes = chunk.size_bytes if count == chunk.count else chunk.size_bytes * count // chunk.count
        flight = Flight(start, stop, offsets, count, size_bytes, chunk)
        flight.chunk = chunk
        flight.bytes_before = bytes_before
        self._flights.append(flight)

    def land(self, start: int, stop: int) -> tuple[int, int, int]:
        """Take the rows of ``[start, stop)``, none of which has landed, out of their flights.

        Returns how many durable ones there were, how many kept apart, and the bytes of what is kept apart and all landed.
        """
        flights = self._flights
        index = 0 if not flights or start < flights[0].stop else self._first_reaching(start)
        durable = volatile = volatile_bytes = 0
        while index < len(flights) and flights[index].start < stop:
            flight = flights[index]
            index += 1
            rows = rows_in(flight.start, flight.stop, flight.offsets, start, stop)
            if not rows:
                continue
            flight.remaining -= rows
            if flight.chunk is None:
                durable += rows
                if not flight.remaining:
                    self.size_bytes -= flight.size_bytes
            else:
                volatile += rows
                if not flight.remaining:
                    volatile_bytes += flight.chunk.size_bytes
                    flight.qos0 = 0
        self.messages -= durable + volatile
        return durable, volatile, volatile_bytes

    def forget_below(self, head: int) -> None:
        """Everything below ``head`` is settled: its marks go."""
        gone = 0
        for flight in self._flights:
            if flight.stop > head:
                break
            gone += 1
        if gone:
            del self._flights[:gone]

    def needed_from(self, otherwise: tuple[int, int]) -> tuple[int, int]:
        """Where the first chunk begins that has anything in flight, and the durable bytes before it; ``otherwise`` if none has."""
        return (self._flights[0].floor, self._flights[0].bytes_before) if self._flights else otherwise

    def clear(self) -> None:
        """Forget every mark."""
        self._flights.clear()
        self.messages = self.size_bytes = 0

    def _first_reaching(self, seq: int) -> int:
        """The index of the first flight that ends above ``seq``."""
        low, high = 0, len(self._flights)
        while low < high:
            middle = (low + high) // 2
            if self._flights[middle].stop <= seq:
                low = middle + 1
            else:
                high = middle
        return low
