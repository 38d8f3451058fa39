"""The cursor of a queue's hand-out: what comes next there, a stored chunk, QoS 0 from memory, or both of one batch; and what is in
flight behind it, handed out and not settled: marks in memory, shared by what was handed out together.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from storage.queue.chunk import Chunk, Left, Place, rows_in
from storage.queue.chunk_reader import ChunkReader, ReadAhead
from storage.queue.ledger import LedgerRow
from storage.queue.settled_ranges import Settled
from wire.frames.batch import QOS_MASK, Batch
from wire.frames.frame import Ranges
from wire.ranges import RangeSet

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
    """Messages in flight of one queue: their ``marks``, as they were handed out. ``size_bytes`` is of what is stored."""

    def __init__(self) -> None:
        self.messages = 0
        self.size_bytes = 0
        self.marks: list[Mark] = []

    def __len__(self) -> int:
        return len(self.marks)

    def __iter__(self) -> Iterator[Mark]:
        return iter(self.marks)

    @property
    def first(self) -> Mark | None:
        """The one that left first."""
        return self.marks[0] if self.marks else None

    @property
    def stored(self) -> int:
        """Messages in flight that are stored."""
        return sum(mark.remaining for mark in self.marks if mark.chunk is None)

    @property
    def qos0(self) -> int:
        """Messages in flight that are in memory only."""
        return sum(mark.remaining for mark in self.marks if mark.chunk is not None)

    def qos0_chunks(self) -> Iterator[Chunk]:
        """Chunks that are in memory only; a chunk that was handed out in parts comes as often."""
        return (mark.chunk for mark in self.marks if mark.chunk is not None and mark.remaining)

    def qos0_seqs(self, reader: ChunkReader) -> list[int]:
        """The sequences of the QoS 0 messages in flight, some of which may be settled; what is stored of them is read.

        Raises:
            StorageDamaged, Unavailable: it cannot be read.
        """
        found: list[int] = []
        for mark in self.marks:
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
        last = self.marks[-1] if self.marks else None
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
        self.marks.append(Mark(start, stop, offsets, count, size_bytes, chunk))

    def add_qos0(self, chunk: Chunk, start: int, stop: int, offsets: array[int] | None, count: int, *, bytes_before: int) -> None:
        """``count`` messages of ``chunk`` are handed out, which is in memory only, behind ``bytes_before`` stored bytes."""
        self.messages += count
        size_bytes = chunk.size_bytes if count == chunk.count else chunk.size_bytes * count // chunk.count
        mark = Mark(start, stop, offsets, count, size_bytes, chunk)
        mark.chunk = chunk
        mark.bytes_before = bytes_before
        self.marks.append(mark)

    def settle(self, start: int, stop: int, left: Left | None = None) -> tuple[int, int, int]:
        """The rows of ``[start, stop)``, none of which was settled, are in flight no more; they are put down in ``left``.

        Returns how many stored ones there were, how many of QoS 0, and the bytes of QoS 0 chunks that are settled by it.
        """
        marks = self.marks
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
        for mark in self.marks:
            if mark.stop > head:
                break
            gone += 1
        if gone:
            del self.marks[:gone]

    def clear(self) -> None:
        """Forget every mark."""
        self.marks.clear()
        self.messages = self.size_bytes = 0

    def _first_reaching(self, seq: int) -> int:
        """The index of the first mark that ends above ``seq``."""
        low, high = 0, len(self.marks)
        while low < high:
            middle = (low + high) // 2
            if self.marks[middle].stop <= seq:
                low = middle + 1
            else:
                high = middle
        return low


def _qos0_seqs(chunk: Chunk) -> list[int]:
    """The sequences of the QoS 0 rows of ``chunk``."""
    flags = Batch.decode(chunk.body).flags
    return [seq for seq, flag in zip(chunk.seqs(), flags, strict=True) if not flag & QOS_MASK]


class NextBatch(NamedTuple):
    """The next rows: those of one batch that are stored, those of QoS 0 that are kept apart, or both; they share one span."""

    stored: Chunk | None
    qos0: Chunk | None

    @property
    def exists(self) -> bool:
        """Whether anything comes next."""
        return self.stored is not None or self.qos0 is not None

    @property
    def chunk(self) -> Chunk:
        """One of them."""
        chunk = self.stored if self.stored is not None else self.qos0
        assert chunk is not None, "there is a next batch"
        return chunk


class Qos0Memory:
    """The messages that wait to be handed out, in order, up to ``max_bytes``. size_bytes: of these, and of those in flight."""

    def __init__(self, max_bytes: int) -> None:
        self.size_bytes = 0
        self.max_bytes = max_bytes
        self.waiting: deque[Chunk] | tuple[()] = ()  # an empty deque takes 760 bytes

    def add(self, chunk: Chunk, settled: Settled, cursor: int) -> int:
        """Keep ``chunk``; how many messages went for it: the oldest that wait, and if that is not enough, the new ones."""
        self.waiting = self.waiting or deque()
        self.waiting.append(chunk)
        self.size_bytes += chunk.size_bytes
        dropped = 0
        while self.waiting and self.size_bytes > self.max_bytes:
            dropped += settled.rows_left(self._drop_first(), cursor)
        return dropped

    def limit(self, max_bytes: int) -> None:
        """So much waits at most, from the next chunk on."""
        self.max_bytes = max_bytes

    def pop(self) -> None:
        """The first is handed out; its bytes stay counted until ``free``."""
        assert self.waiting, "there is one"
        self.waiting.popleft()

    def free(self, size_bytes: int) -> None:
        """So many bytes of what was popped are needed no more."""
        self.size_bytes -= size_bytes

    def take_back(self, chunks: Iterable[Chunk]) -> None:
        """``chunks``, which were handed out before all that waits, are to be handed out again."""
        self.waiting = deque((*chunks, *self.waiting)) or ()

    def skip(self, seq: int) -> None:
        """Forget the chunks that end at or below ``seq``: all of them is settled."""
        while self.waiting and self.waiting[0].stop <= seq:
            self._drop_first()

    def drop_below(self, stop: int, settled: Settled, cursor: int) -> int:
        """Forget the chunks that begin below ``stop``; how many messages of them wait from ``cursor`` on."""
        dropped = 0
        while self.waiting and self.waiting[0].first_seq < stop:
            dropped += settled.rows_left(self._drop_first(), cursor)
        return dropped

    def drop_from(self, start: int) -> None:
        """Forget the chunks that begin at or above ``start``."""
        self.size_bytes -= sum(chunk.size_bytes for chunk in self.waiting if chunk.first_seq >= start)
        self.waiting = deque(chunk for chunk in self.waiting if chunk.first_seq < start)

    def clear(self) -> None:
        """Forget everything, what is in flight included."""
        self.waiting = ()
        self.size_bytes = 0

    def _drop_first(self) -> Chunk:
        assert self.waiting, "there is one"
        chunk = self.waiting.popleft()
        self.size_bytes -= chunk.size_bytes
        return chunk


class Purged:
    """The purged sequences of one queue, ``ranges``, and the bytes that they had, as far as this life of the store knows."""

    def __init__(self, ranges: Ranges) -> None:
        self.ranges = RangeSet(ranges)
        self._holes: list[tuple[int, int]] = []  # where each ended, and its durable bytes

    def add(self, start: int, stop: int, size_bytes: int, head: int) -> None:
        """``[start, stop)`` was purged, with ``size_bytes``; nothing is asked for below ``head`` any more."""
        self._holes = [hole for hole in self._holes if hole[0] > head]
        self._holes.append((stop, size_bytes))
        self.ranges.add(start, stop)

    def bytes_above(self, cursor: int) -> int:
        """The bytes that were purged above ``cursor``."""
        return sum(size_bytes for stop, size_bytes in self._holes if cursor < stop) if self._holes else 0

    def has_any(self, start: int, stop: int) -> bool:
        """Whether anything of ``[start, stop)`` was purged."""
        following = self.ranges.next_range(start) if self.ranges else None
        return following is not None and following[0] < stop

    def clear(self) -> None:
        """There is nothing in the queue."""
        self.ranges.clear()
        self._holes.clear()

    def row(self, head: int) -> Ranges:
        """The purged places in the queue's row: those above ``head``. The rest is forgotten."""
        self.ranges.discard(0, head)
        return self.ranges.ranges()


class Cursor:
    """The position of one queue.

    queue.cursor-after-handed-out [P2]: what is at or above the cursor has not been handed out since the last reset; what is below
        it is settled or in flight.

    seq: the position; a chunk begins there, or ``floor`` is at or below the beginning of the chunk, with the durable bytes before
    it, or fewer. tail: everything below is committed, with ``tail_bytes`` durable bytes. bytes_before: durable bytes below ``seq``.
    upcoming, qos0: what comes next of either kind. in_flight: what was handed out. purged: where chunks are rightly missing.
    """

    def __init__(self, reader: ChunkReader, row: LedgerRow, *, qos0_max_bytes: int, cache_bytes: int) -> None:
        self.seq = row.head
        self.tail = row.tail
        self.tail_bytes = self.bytes_before = row.tail_bytes
        self.floor: Place = (row.trimmed, 0)
        self.upcoming = ReadAhead(reader, row.head, row.tail, cache_bytes)
        self.qos0 = Qos0Memory(qos0_max_bytes)
        self.in_flight = InFlight()
        self.purged = Purged(row.purged)
        self._passed_bytes: int | None = None  # durable bytes up to the end of the last chunk passed, if the next is read after it

    def on_committed(self, tail: int, stored: Chunk | None, whole: bytes | None) -> None:
        """Everything appended up to ``tail`` is committed; ``whole``: the batch as it came, where ``stored`` is not all of it."""
        self.tail = tail
        if stored is not None:
            self.tail_bytes = stored.bytes_before + stored.size_bytes
            self.upcoming.add(stored, whole)

    def peek(self, settled: RangeSet, chunks_max: int | None) -> NextBatch:
        """The next batch that does not end at or below the cursor, which moves over what is ``settled``.

        Raises:
            StorageDamaged, Unavailable: it cannot be read.
        """
        if settled.starts:
            following = settled.next_range(self.seq)
            if following is not None and following[0] == self.seq:
                self.jump(following[1])
        waiting = self.qos0.waiting
        qos0 = waiting[0] if waiting else None
        if qos0 is not None and qos0.offsets is None and qos0.first_seq <= self.seq:
            return NextBatch(None, qos0)
        stored = self.upcoming.first(self.seq, chunks_max)
        if stored is not None and qos0 is not None and stored.first_seq != qos0.first_seq:
            return NextBatch(stored, None) if stored.first_seq < qos0.first_seq else NextBatch(None, qos0)
        return NextBatch(stored, qos0)

    def misses_bytes(self, stored: Chunk | None, seq: int) -> bool:
        """Between the cursor and ``seq``, where ``stored`` begins, there is nothing: whether durable bytes are missing there, of
        which nothing was purged.
        """
        purged = self.purged.has_any(self.seq, seq)
        if stored is not None:
            bytes_before = stored.bytes_before
        elif seq == self.tail:
            bytes_before = self.tail_bytes
        else:
            return False
        missing = not purged and self._passed_bytes is not None and bytes_before > self._passed_bytes
        if missing or purged:
            self._passed_bytes = bytes_before
        return missing

    def live_from(self) -> Place:
        """The start of the first chunk that is still needed, and the stored bytes before it."""
        marks = self.in_flight.marks
        return (marks[0].floor, marks[0].bytes_before) if marks else self.floor

    # --- moving ---

    def hand_out(self, batch: NextBatch) -> Chunk | None:
        """Move over the whole of ``batch``, which was peeked and of which nothing is settled, and mark it as in flight.

        Returns all of it as one chunk; None, and nothing has changed, where the batch as it came is not kept.
        """
        stored, qos0 = batch
        before = self.bytes_before
        if stored is None:
            assert qos0 is not None, "there is a next batch"
            given = qos0
        elif qos0 is None:
            given = stored
        else:
            whole = self.upcoming.whole(stored.first_seq)
            if whole is None:
                return None
            before = stored.bytes_before
            given = Chunk(
                first_seq=stored.first_seq,
                span=stored.span,
                count=stored.count + qos0.count,
                size_bytes=stored.size_bytes + qos0.size_bytes,
                accepted_ms=stored.accepted_ms,
                body=whole,
            )
        first_seq, stop = given.first_seq, given.first_seq + given.span
        if stored is not None:
            self.upcoming.pop()
            self.bytes_before = self._passed_bytes = stored.bytes_before + stored.size_bytes
            self.in_flight.add(stored, first_seq, stop, stored.offsets, stored.count)
        if qos0 is not None:
            self.qos0.pop()
            self.in_flight.add_qos0(qos0, first_seq, stop, qos0.offsets, qos0.count, bytes_before=before)
        self.move(stop)
        return given

    def pop(self, batch: NextBatch) -> None:
        """Take ``batch``, which was peeked, out of the memory that it was in; the cursor moves after it."""
        if batch.stored is not None:
            self.upcoming.pop()
            self.bytes_before = self._passed_bytes = batch.stored.bytes_before + batch.stored.size_bytes
        if batch.qos0 is not None:
            self.qos0.pop()

    def move(self, seq: int, floor: Place | None = None) -> None:
        """To ``seq``, where a chunk begins, or where nobody knows: then ``floor`` is at or below the beginning of the chunk."""
        self.seq = seq
        if seq == self.tail:
            self.bytes_before = self.tail_bytes
        self.floor = (seq, self.bytes_before) if floor is None else floor

    def move_into(self, batch: NextBatch, seq: int) -> None:
        """To ``seq`` inside of ``batch``: what is below it has left the queue."""
        first_seq, bytes_before, stored = batch.chunk.first_seq, self.bytes_before, batch.stored
        if stored is not None:
            bytes_before = stored.bytes_before
            self.bytes_before = bytes_before + stored.size_bytes * stored.rows_in(first_seq, seq) // stored.count
        self.move(seq, (first_seq, bytes_before))

    def jump(self, seq: int) -> None:
        """Forward to ``seq``; everything before it is settled."""
        floor: Place | None = self.floor  # the chunk around ``seq`` may begin anywhere above, until it is read
        passed = self.upcoming.skip(seq)
        if passed is not None:
            self.bytes_before = passed.bytes_before + passed.size_bytes
            floor = (passed.stop, self.bytes_before)
        self.qos0.skip(seq)
        following = self.upcoming.at_hand
        if following is not None and following.first_seq <= seq:
            floor = (following.first_seq, following.bytes_before)
        elif seq == self.tail or self.upcoming.has_read(seq):
            floor = None
        self.move(seq, floor)
        self._passed_bytes = None
        self.upcoming.go_on(seq)

    def forget_below(self, head: int) -> None:
        """Everything below ``head`` is settled: its marks go. After a reset some of it may be above the cursor."""
        if self.seq < head:
            self.jump(head)
        self.in_flight.forget_below(head)

    def skip_damage(self, stop: int, bytes_before: int | None) -> None:
        """To ``stop``, where the next chunk begins, behind what cannot be read; bytes_before: the durable bytes below, if known."""
        self.upcoming.begin_at(stop, aligned=True)
        self._passed_bytes = bytes_before
        if bytes_before is not None:
            self.bytes_before = bytes_before
        self.move(stop)

    def go_back(self, head: int) -> None:
        """Back to ``head``: what is in flight is to be handed out again."""
        self.qos0.take_back(self.in_flight.qos0_chunks())
        if len(self.in_flight):
            self.floor = self.live_from()
            self.bytes_before = self.floor[1]
        self.in_flight.clear()
        self.seq = head
        self._passed_bytes = None
        self.upcoming.begin_at(head)

    def begin_in(self, stored: Chunk | None) -> None:
        """The queue was opened: ``stored`` is the first chunk at the cursor, if there is any."""
        if stored is not None:
            self.bytes_before = stored.bytes_before
        self.floor = (self.seq if stored is None else min(self.seq, stored.first_seq), self.bytes_before)

    def lose_tail(self, tail: int) -> None:
        """Sequences up to ``tail`` were used, and what was there is lost."""
        start, self.tail = self.tail, tail
        self.upcoming.lose_tail(tail)
        if self.seq == start:
            self.seq = tail
            self.upcoming.begin_at(tail)
            self.floor = (tail, self.tail_bytes)
