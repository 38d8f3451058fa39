"""Messages of a queue that are handed out and not settled: marks in memory, shared by what was handed out together."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator

from storage.queue.chunk import Chunk, Left, Place, rows_in
from storage.queue.chunk_reader import ChunkReader
from wire.frames.batch import QOS_MASK, Batch

SHARED_ROWS_MAX = 1000


class Mark:
    """Messages handed out together and not all settled: sequences ``[start, stop)``, thinned out by ``offsets`` from ``start``.

    chunk: for QoS 0 in memory only, the messages themselves. floor, bytes_before, accepted_ms: of the first chunk they came from.
    later: where the other chunks that share the mark begin, and when each was accepted, if not with the one before.
    """

    __slots__ = (
        "accepted_ms",
        "bytes_before",
        "chunk",
        "floor",
        "later",
        "offsets",
        "qos0",
        "remaining",
        "size_bytes",
        "start",
        "stop",
    )

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
        self.later: tuple[array[int], array[int]] | None = None

    def share(self, chunk: Chunk, start: int, stop: int) -> None:
        """``chunk``, all of which is handed out and stored, follows: ``[start, stop)``."""
        newest_ms = self.accepted_ms if self.later is None else self.later[1][-1]
        if chunk.accepted_ms != newest_ms:
            if self.later is None:
                self.later = array("q"), array("q")
            self.later[0].append(start)
            self.later[1].append(chunk.accepted_ms)
        self.stop = stop
        self.remaining += stop - start
        self.qos0 += chunk.qos0

    def accepted_at(self, seq: int) -> int:
        """The time at which the message ``seq`` was accepted (UTC epoch in ms)."""
        place = 0 if self.later is None else bisect_right(self.later[0], seq)
        return self.later[1][place - 1] if self.later is not None and place else self.accepted_ms

    def note(self, start: int, stop: int, rows: int, left: Left) -> None:
        """Put down in ``left`` that ``rows`` rows of ``[start, stop)`` have left the queue."""
        if self.later is None:
            left.append((self.accepted_ms, rows))
            return
        firsts, accepted_ms = self.later
        start, stop = max(start, self.start), min(stop, self.stop)
        place = bisect_right(firsts, start)
        while start < stop:
            end = min(stop, firsts[place]) if place < len(firsts) else stop
            left.append((accepted_ms[place - 1] if place else self.accepted_ms, end - start))
            start, place = end, place + 1


class InFlight:
    """Messages in flight of one queue, in the order in which they were handed out. ``size_bytes`` is of what is stored."""

    def __init__(self) -> None:
        self.messages = 0
        self.size_bytes = 0
        self._marks: list[Mark] = []

    def __len__(self) -> int:
        return len(self._marks)

    def __iter__(self) -> Iterator[Mark]:
        return iter(self._marks)

    @property
    def first(self) -> Mark | None:
        """The one that left first."""
        return self._marks[0] if self._marks else None

    @property
    def stored(self) -> int:
        """Messages in flight that are stored."""
        return sum(mark.remaining for mark in self._marks if mark.chunk is None)

    @property
    def qos0(self) -> int:
        """Messages in flight that are in memory only."""
        return sum(mark.remaining for mark in self._marks if mark.chunk is not None)

    def qos0_chunks(self) -> Iterator[Chunk]:
        """Chunks that are in memory only; a chunk that was handed out in parts comes as often."""
        return (mark.chunk for mark in self._marks if mark.chunk is not None and mark.remaining)

    def qos0_seqs(self, reader: ChunkReader) -> list[int]:
        """The sequences of the QoS 0 messages in flight, some of which may be settled; what is stored of them is read.

        Raises:
            StorageDamaged, Unavailable: it cannot be read.
        """
        found: list[int] = []
        for mark in self._marks:
            if mark.chunk is not None:
                found.extend(seq for seq in mark.chunk.seqs() if mark.start <= seq < mark.stop)
            elif mark.qos0:
                for chunk, _ in reader.scan(mark.floor, mark.stop):
                    found.extend(seq for seq in _qos0_seqs(chunk) if mark.start <= seq < mark.stop)
        return found

    def add(self, chunk: Chunk, start: int, stop: int, offsets: array[int] | None, count: int) -> None:
        """``count`` messages of ``chunk``, which is stored, are handed out; tiny neighbours share a mark."""
        self.messages += count
        size_bytes = chunk.size_bytes if count == chunk.count else chunk.size_bytes * count // chunk.count
        self.size_bytes += size_bytes
        last = self._marks[-1] if self._marks else None
        if (
            last is not None
            and last.remaining  # the bytes of a settled one are given back already
            and last.chunk is None
            and last.offsets is None
            and offsets is None
            and last.stop == start
            and last.stop - last.start + count <= SHARED_ROWS_MAX
        ):
            last.share(chunk, start, stop)
            last.size_bytes += size_bytes
            return
        self._marks.append(Mark(start, stop, offsets, count, size_bytes, chunk))

    def add_qos0(self, chunk: Chunk, start: int, stop: int, offsets: array[int] | None, count: int, *, bytes_before: int) -> None:
        """``count`` messages of ``chunk`` are handed out, which is in memory only, behind ``bytes_before`` stored bytes."""
        self.messages += count
        size_bytes = chunk.size_bytes if count == chunk.count else chunk.size_bytes * count // chunk.count
        mark = Mark(start, stop, offsets, count, size_bytes, chunk)
        mark.chunk = chunk
        mark.bytes_before = bytes_before
        self._marks.append(mark)

    def settle(self, start: int, stop: int, left: Left | None = None) -> tuple[int, int, int]:
        """The rows of ``[start, stop)``, none of which was settled, are in flight no more; they are put down in ``left``.

        Returns how many stored ones there were, how many of QoS 0, and the bytes of QoS 0 chunks that are settled by it.
        """
        marks = self._marks
        index = 0 if not marks or start < marks[0].stop else self._first_reaching(start)
        stored = qos0 = qos0_bytes = 0
        while index < len(marks) and marks[index].start < stop:
            mark = marks[index]
            index += 1
            if mark.offsets is None:
                rows = (stop if stop < mark.stop else mark.stop) - (start if start > mark.start else mark.start)
            else:
                rows = rows_in(mark.start, mark.stop, mark.offsets, start, stop)
            if not rows:
                continue
            mark.remaining -= rows
            if left is not None:
                mark.note(start, stop, rows, left)
            if mark.chunk is None:
                stored += rows
                if not mark.remaining:
                    self.size_bytes -= mark.size_bytes
            else:
                qos0 += rows
                if not mark.remaining:
                    qos0_bytes += mark.chunk.size_bytes
                    mark.qos0 = 0
        self.messages -= stored + qos0
        return stored, qos0, qos0_bytes

    def forget_below(self, head: int) -> None:
        """Everything below ``head`` is settled: its marks go."""
        gone = 0
        for mark in self._marks:
            if mark.stop > head:
                break
            gone += 1
        if gone:
            del self._marks[:gone]

    def needed_from(self, otherwise: Place) -> Place:
        """The start of the first chunk that has anything in flight, and the stored bytes before it; ``otherwise`` if none has."""
        return (self._marks[0].floor, self._marks[0].bytes_before) if self._marks else otherwise

    def clear(self) -> None:
        """Forget every mark."""
        self._marks.clear()
        self.messages = self.size_bytes = 0

    def _first_reaching(self, seq: int) -> int:
        """The index of the first mark that ends above ``seq``."""
        low, high = 0, len(self._marks)
        while low < high:
            middle = (low + high) // 2
            if self._marks[middle].stop <= seq:
                low = middle + 1
            else:
                high = middle
        return low


def _qos0_seqs(chunk: Chunk) -> list[int]:
    """The sequences of the QoS 0 rows of ``chunk``."""
    flags = Batch.decode(chunk.body).flags
    return [seq for seq, flag in zip(chunk.seqs(), flags, strict=True) if not flag & QOS_MASK]
