"""The chunks of one queue on the engine: read in order and ahead, looked up, and found again behind what cannot be read.

Nothing is changed here.

Damage and chunks that are still in memory are the business of ``queue``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from storage.engine.engine import Engine
from storage.engine.keys import chunk_key, first_seq_of
from storage.queue.chunk import Chunk, claimed_span
from wire.errors import StorageDamaged, Unavailable

PROBES_BY_ONE = 256  # behind a block that cannot be read, so many sequences are tried one by one, then by doubling steps
READ_AHEAD_BYTES = 1 << 20
READ_AHEAD_CHUNKS = 1000


class ChunkReader:
    """Reads committed chunks by sequence, none that begins below ``low``. ``stop`` is one past the last that may be there."""

    def __init__(self, engine: Engine, name: str, number: int, low: int) -> None:
        self.name = name
        self.number = number
        self.low = low
        self._engine = engine
        self._looked: Chunk | None = None

    def begin_at(self, low: int) -> None:
        """Nothing that begins below ``low`` is read any more."""
        self.low = low

    def begins(self, seq: int) -> int:
        """The start of the chunk that may hold ``seq``: the last one not behind it; ``seq`` itself if there is none.

        Raises:
            StorageDamaged, Unavailable: it cannot be read.
        """
        found = self._engine.seek_before("msg", chunk_key(self.number, seq), chunk_key(self.number, self.low))
        return seq if found is None else first_seq_of(found[0])

    def before(self, seq: int) -> Chunk | None:
        """The last chunk that does not begin behind ``seq``; None if there is none.

        Raises:
            StorageDamaged, ConfigError, Unavailable: it cannot be read.
        """
        found = self._engine.seek_before("msg", chunk_key(self.number, seq), chunk_key(self.number, self.low))
        return None if found is None else Chunk.decode(found[1], queue=self.name, seq=first_seq_of(found[0]))

    def scan(self, start: int, stop: int) -> Iterator[tuple[Chunk, int]]:
        """The chunks that begin in ``[start, stop)``, in order, and their bytes on disk.

        Raises:
            StorageDamaged, Unavailable: the next one cannot be read.
        """
        for key, value in self._engine.scan("msg", chunk_key(self.number, start), chunk_key(self.number, stop)):
            yield Chunk.decode(value, queue=self.name, seq=first_seq_of(key)), len(value)

    def chunks_in(self, start: int, stop: int, damage: Callable[[StorageDamaged], None] | None) -> Iterator[Chunk]:
        """The chunks with anything in ``[start, stop)``; the last is kept: the next look is near.

        damage: is told of a chunk that cannot be read, and the rest goes on; without it, that raises.

        Raises:
            StorageDamaged, Unavailable: it cannot be read.
        """
        if self._looked is not None and self._looked.first_seq <= start < self._looked.stop:
            start = self._looked.stop
            yield self._looked
            if start >= stop:
                return
        rows: Iterator[tuple[bytes, bytes]] | None = None
        while True:
            try:
                if rows is None:
                    first = chunk_key(self.number, self.begins(start))
                    rows = self._engine.scan("msg", first, chunk_key(self.number, stop))
                key, value = next(rows)
                chunk = Chunk.decode(value, queue=self.name, seq=first_seq_of(key))
            except StopIteration:
                return
            except StorageDamaged as error:
                if damage is None:
                    raise
                damage(error)
                if rows is None:
                    return
                continue  # where the engine itself cannot go on, it ends with the next step
            if chunk.stop > start:
                self._looked = chunk
                yield chunk

    # --- among damage ---

    def row_at(self, seq: int, stop: int) -> tuple[int, bytes, bool]:
        """The chunk that holds ``seq``, or the next one: its first sequence, its value, and whether that is sound.

        No value: the engine cannot read there.

        Raises:
            Unavailable: the disk refuses for now.
        """
        try:
            found = self._engine.seek_before("msg", chunk_key(self.number, seq), chunk_key(self.number, self.low))
            if found is not None:
                first_seq, value = first_seq_of(found[0]), found[1]
                chunk = self._decoded(first_seq, value)
                claimed = (chunk.stop, 0) if chunk is not None else claimed_span(value, first_seq)
                if claimed is None or claimed[0] > seq:
                    return first_seq, value, chunk is not None
            for key, value in self._engine.scan("msg", chunk_key(self.number, seq), chunk_key(self.number, stop)):
                return first_seq_of(key), value, self._decoded(first_seq_of(key), value) is not None
        except StorageDamaged:
            return seq, b"", False
        return stop, b"", True

    def next_readable(self, seq: int, stop: int, bytes_before_stop: int | None) -> tuple[int, int | None]:
        """The start of the first chunk from ``seq`` on that the engine can read, and the durable bytes before it, if it says so.

        The engine cannot tell where a damaged block ends, so sequences are tried: some one by one, then in doubling steps, the last
        of which is halved again. The chunks from ``stop`` on can be read, and there are ``bytes_before_stop`` before them.

        Raises:
            Unavailable: the disk refuses for now.
        """
        end = stop, bytes_before_stop
        bad, step, tried = seq - 1, 1, 0
        while (found := self._try_read(seq, end)) is None:
            tried += 1
            if tried > PROBES_BY_ONE:
                step *= 2
            bad, seq = seq, min(seq + step, stop)
        while seq - bad > 1:
            middle = (bad + seq) // 2
            better = self._try_read(middle, end)
            if better is None:
                bad = middle
            else:
                seq, found = middle, better
        return found

    def _try_read(self, seq: int, end: tuple[int, int | None]) -> tuple[int, int | None] | None:
        if seq >= end[0]:
            return end
        try:
            for key, value in self._engine.scan("msg", chunk_key(self.number, seq), chunk_key(self.number, end[0])):
                chunk = self._decoded(first_seq_of(key), value)
                return first_seq_of(key), chunk.bytes_before if chunk is not None else None
        except StorageDamaged:
            return None
        return end

    def _decoded(self, first_seq: int, value: bytes) -> Chunk | None:
        try:
            return Chunk.decode(value, queue=self.name, seq=first_seq)
        except StorageDamaged:
            return None


class ReadAhead:
    """The stored chunks of one queue from the cursor on, in order.

    low: from there on every chunk that is not handed out is in memory.
    """

    def __init__(self, reader: ChunkReader, head: int, tail: int, cache_bytes: int) -> None:
        self.low = tail
        self._reader = reader
        self._cache_bytes = cache_bytes
        self._recent: deque[Chunk] | tuple[()] = ()  # every chunk from low on that is not handed out; an empty deque is 760 bytes
        self._recent_bytes = 0
        self._whole: dict[int, bytes] = {}  # the batches of recent chunks as they came, with the QoS 0 rows
        self._ahead: deque[Chunk] | tuple[()] = ()  # read from disk up to _read_to and not handed out
        self._read_to = head
        self._aligned = False  # whether a chunk begins at _read_to

    # --- what is committed ---

    def add(self, chunk: Chunk, whole: bytes | None = None) -> None:
        """``chunk`` is on disk, too; ``whole`` is the batch as it came, where this is not all of it."""
        self._recent = self._recent or deque()
        self._recent.append(chunk)
        self._recent_bytes += len(chunk.body)
        if whole is not None:
            self._whole[chunk.first_seq] = whole
            self._recent_bytes += len(whole)
        while self._recent_bytes > self._cache_bytes:
            self._forget_recent()

    def keep(self, size_bytes: int) -> None:
        """Keep so much in memory of what is on disk as well."""
        self._cache_bytes = size_bytes
        while self._recent_bytes > size_bytes:
            self._forget_recent()

    def _forget_recent(self) -> Chunk:
        assert self._recent, "there is one"
        chunk = self._recent.popleft()
        self._recent = self._recent or ()
        self.low = chunk.first_seq + chunk.span
        self._recent_bytes -= len(chunk.body)
        if self._whole and (whole := self._whole.pop(chunk.first_seq, None)) is not None:
            self._recent_bytes -= len(whole)
        return chunk

    # --- what is next ---

    @property
    def at_hand(self) -> Chunk | None:
        """The next chunk, if it is in memory."""
        return self._ahead[0] if self._ahead else self._recent[0] if self._recent else None

    @property
    def first_recent(self) -> Chunk | None:
        """The chunk at ``low`` or behind it."""
        return self._recent[0] if self._recent else None

    def whole(self, first_seq: int) -> bytes | None:
        """The batch as it came of which the next chunk, which begins at ``first_seq``, is a part; None if it is not kept."""
        return self._whole.get(first_seq) if not self._ahead else None

    def first(self, cursor: int, chunks_max: int | None) -> Chunk | None:
        """The first chunk that ends above ``cursor``; read from disk, with ``chunks_max`` at most, where none is in memory.

        Raises:
            StorageDamaged, Unavailable: it cannot be read.
        """
        if not self._ahead and self._read_to < self.low:
            self._read(cursor, chunks_max)
        return self._ahead[0] if self._ahead else self._recent[0] if self._recent else None

    def _read(self, cursor: int, chunks_max: int | None) -> None:
        """Read chunks from ``_read_to`` on ahead, up to those that are in memory."""
        start = self._read_to
        if not self._aligned:
            start = self._reader.begins(start)
            self._aligned = True
        size_bytes = 0
        most = READ_AHEAD_CHUNKS if chunks_max is None else chunks_max
        try:
            for chunk, stored_bytes in self._reader.scan(start, self.low):
                self._read_to = max(self._read_to, chunk.stop)
                if chunk.stop <= cursor:
                    continue
                self._ahead = self._ahead or deque()
                self._ahead.append(chunk)
                size_bytes += stored_bytes
                if size_bytes >= READ_AHEAD_BYTES or len(self._ahead) >= most:
                    return
        except (StorageDamaged, Unavailable):
            self._aligned = self._read_to > cursor
            if self._ahead:
                return  # what could be read goes first
            raise
        self._read_to = self.low

    # --- going on ---

    def pop(self) -> None:
        """The first is handed out."""
        if self._ahead:
            self._ahead.popleft()
            self._ahead = self._ahead or ()
        else:
            self._forget_recent()
            if self._read_to < self.low:
                self._read_to = self.low

    def skip(self, seq: int) -> Chunk | None:
        """Forget the chunks that end at or below ``seq``; the last of them."""
        last = None
        while self._ahead and self._ahead[0].stop <= seq:
            last = self._ahead.popleft()
        while self._recent and self._recent[0].stop <= seq:
            last = self._forget_recent()
        return last

    def has_read(self, seq: int) -> bool:
        """Whether it is known what is on disk up to ``seq``, or a chunk begins there."""
        return self._aligned and self._read_to >= seq

    def go_on(self, seq: int) -> None:
        """Chunks below ``seq`` need not be read any more."""
        if self._read_to < seq:
            self._read_to = seq
            self._aligned = False

    def lose_tail(self, tail: int) -> None:
        """Nothing below ``tail`` is in memory, or was ever stored."""
        self.low = tail

    def begin_at(self, seq: int, *, aligned: bool = False) -> None:
        """Forget what was read ahead, and read from ``seq`` on; aligned: a chunk begins there, or nothing is there."""
        self._ahead = ()
        self._read_to = seq
        self._aligned = aligned
