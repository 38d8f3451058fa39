"""The chunks of one queue on the engine: read in order, looked up, and found again behind what cannot be read. It changes nothing.

Damage and chunks that are still in memory are the business of ``queue``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from storage.engine.engine import Engine
from storage.engine.keys import chunk_key, first_seq_of
from storage.queue.chunk import Chunk, claimed_span
from wire.errors import StorageDamaged

PROBES_BY_ONE = 256  # behind a block that cannot be read, so many sequences are tried one by one, then by doubling steps


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
