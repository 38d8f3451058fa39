"""Where a queue stands in handing out, and what comes next there: a stored chunk, QoS 0 from memory, or both of one batch."""

from __future__ import annotations

from typing import NamedTuple

from storage.queue.chunk import Chunk, Place
from storage.queue.chunk_reader import ChunkReader
from storage.queue.in_flight import InFlight
from storage.queue.ledger import LaneRow
from storage.queue.qos0_memory import Qos0Memory
from storage.queue.read_ahead import UpcomingChunks
from wire.ranges import RangeSet


class NextBatch(NamedTuple):
    """What comes next: the rows of one batch that are stored, those of QoS 0 that are kept apart, or both; they share one span."""

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


class Cursor:
    """The position of one queue.

    queue.cursor-after-handed-out [P2]: what is at or above the cursor has not been handed out since the last reset; what is below
        it is settled or in flight.

    seq: the position; a chunk begins there, or ``floor`` is at or below the beginning of the chunk, with the durable bytes before
    it, or fewer. tail: everything below is committed, with ``tail_bytes`` durable bytes. bytes_before: durable bytes below ``seq``.
    """

    def __init__(self, reader: ChunkReader, row: LaneRow, *, qos0_max_bytes: int, cache_bytes: int) -> None:
        self.seq = row.head
        self.tail = row.tail
        self.tail_bytes = self.bytes_before = row.tail_bytes
        self.floor: Place = (row.trimmed, 0)
        self.upcoming = UpcomingChunks(reader, row.head, row.tail, cache_bytes)
        self.qos0 = Qos0Memory(qos0_max_bytes)
        self._passed_bytes: int | None = None  # durable bytes up to the end of the last chunk passed, if the next is read after it

    def committed(self, tail: int, stored: Chunk | None, whole: bytes | None) -> None:
        """What is appended up to ``tail`` is committed; ``whole``: the batch as it came, where ``stored`` is not all of it."""
        self.tail = tail
        if stored is not None:
            self.tail_bytes = stored.bytes_before + stored.size_bytes
            self.upcoming.add(stored, whole)

    def peek(self, settled: RangeSet, chunks_max: int | None) -> NextBatch:
        """The next batch that does not end at or below the cursor, which moves over what is ``settled``.

        Raises:
            StorageDamaged, Unavailable: it cannot be read.
        """
        if settled:
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

    def misses_bytes(self, stored: Chunk | None, seq: int, *, purged: bool) -> bool:
        """Between the cursor and ``seq``, where ``stored`` begins, there is nothing: whether durable bytes are missing there.

        purged: some was purged there; that had bytes, too.
        """
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

    # --- moving ---

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

    def jump_to_head(self, head: int) -> None:
        """What is below ``head`` was settled out of order, before a reset."""
        if self.seq < head:
            self.jump(head)

    def skip_damage(self, stop: int, bytes_before: int | None) -> None:
        """To ``stop``, where the next chunk begins, behind what cannot be read; bytes_before: the durable bytes below, if known."""
        self.upcoming.begin_at(stop, aligned=True)
        self._passed_bytes = bytes_before
        if bytes_before is not None:
            self.bytes_before = bytes_before
        self.move(stop)

    def go_back(self, head: int, in_flight: InFlight) -> None:
        """Back to ``head``: what is in ``in_flight`` is to be handed out again."""
        self.qos0.take_back(in_flight.qos0_chunks())
        if len(in_flight):
            self.floor = in_flight.needed_from(self.floor)
            self.bytes_before = self.floor[1]
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
        start, self.tail, self.upcoming.low = self.tail, tail, tail
        if self.seq == start:
            self.seq = tail
            self.upcoming.begin_at(tail)
            self.floor = (tail, self.tail_bytes)
