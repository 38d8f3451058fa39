"""The chunks of a queue that come next: read ahead from the disk, or still in memory since they were committed."""

from __future__ import annotations

from collections import deque

from storage.queue.chunk import Chunk
from storage.queue.chunk_reader import ChunkReader
from wire.errors import StorageDamaged, Unavailable

READ_AHEAD_BYTES = 1 << 20
READ_AHEAD_CHUNKS = 1000


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
