"""The cursor of a queue's hand-out: what comes next there, a stored chunk, QoS 0 from memory, or both of one batch; and what is in
flight behind it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from storage.queue.chunk import Chunk, Place
from storage.queue.chunk_reader import ChunkReader
from storage.queue.in_flight import InFlight
from storage.queue.ledger import LedgerRow
from storage.queue.read_ahead import ReadAhead
from storage.queue.settled_ranges import Settled
from wire.frames.base import Ranges
from wire.ranges import RangeSet


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
    """The purged sequences of one queue, and the bytes that they had, as far as this life of the store knows."""

    def __init__(self, ranges: Ranges) -> None:
        self._ranges = RangeSet(ranges)
        self._holes: list[tuple[int, int]] = []  # where each ended, and its durable bytes

    def add(self, start: int, stop: int, size_bytes: int, head: int) -> None:
        """``[start, stop)`` was purged, with ``size_bytes``; nothing is asked for below ``head`` any more."""
        self._holes = [hole for hole in self._holes if hole[0] > head]
        self._holes.append((stop, size_bytes))
        self._ranges.add(start, stop)

    def bytes_above(self, cursor: int) -> int:
        """The bytes that were purged above ``cursor``."""
        return sum(size_bytes for stop, size_bytes in self._holes if cursor < stop) if self._holes else 0

    def has_any(self, start: int, stop: int) -> bool:
        """Whether anything of ``[start, stop)`` was purged."""
        following = self._ranges.next_range(start) if self._ranges else None
        return following is not None and following[0] < stop

    def clear(self) -> None:
        """There is nothing in the queue."""
        self._ranges.clear()
        self._holes.clear()

    def row(self, head: int) -> Ranges:
        """The purged places in the queue's row: those above ``head``. The rest is forgotten."""
        if not self._ranges.starts:
            return ()
        self._ranges.discard(0, head)
        return self._ranges.ranges()


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
        return self.in_flight.needed_from(self.floor)

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
        self.pop(batch)
        if stored is not None:
            self.in_flight.add(stored, first_seq, stop, stored.offsets, stored.count)
        if qos0 is not None:
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
