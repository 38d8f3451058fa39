"""Which chunks of a queue the disk keeps: what is live, and behind that what its history keeps of settled messages."""

from __future__ import annotations

from collections.abc import Callable

from storage.engine.engine import Engine, Write
from storage.engine.keys import chunk_key
from storage.queue.chunk import Place
from storage.queue.chunk_reader import ChunkReader
from storage.queue.history import QueueHistory
from storage.queue.ledger import HistoryRow, LedgerRow
from wire.errors import ConfigError, StorageDamaged, Unavailable
from wire.frames.base import Ranges

TRIM_MESSAGES = 5000
TRIM_BYTES = 16 << 20


class Trimming:
    """Deletes the chunks of one queue that nobody needs any more.

    queue.trimmed-after-settled [P3]: a chunk is deleted only in or after the write whose row has all of it settled.

    With a history, trimming deletes no chunk: the history does when it is cut (queue.settled-chunks-kept).

    history: None where none is kept.
    """

    def __init__(
        self,
        engine: Engine,
        reader: ChunkReader,
        row: LedgerRow,
        live_from: Callable[[], Place],
        changed: Callable[[], None],
        *,
        retained: bool,
    ) -> None:
        """Go on with the history where one is to be ``retained``, or begin one, or drop the one that nobody wants any more.

        reader: of the live chunks. live_from: where the earliest chunk begins that is still needed. changed: is called when the row
        is to be written.
        """
        self.history: QueueHistory | None = None
        self._reader = reader
        self._live_from = live_from
        self._changed = changed
        self._trimmed_bytes = 0
        self._no_history = row.history
        self._left_over: QueueHistory | None = None  # what is kept though nobody wants it any more
        began = row.history.begins >= 0
        if not retained and not began:
            return
        kept = row.history if began else row.history._replace(chunks_from=row.trimmed)
        history = QueueHistory(engine, reader.name, reader.number, kept, row.head)
        if retained:
            self.history = history
            if not began:
                self.restart(row.head, row.settled)
            return
        self._no_history = HistoryRow(first=row.history.next, next=row.history.next)
        self._left_over = history
        changed()

    @property
    def trimmed(self) -> int:
        """Chunks below it have nothing live in them."""
        return self._reader.low

    def begin_at(self, size_bytes: int) -> None:
        """There are ``size_bytes`` durable bytes of the queue before ``trimmed``."""
        self._trimmed_bytes = size_bytes

    # --- deleting ---

    def trim(self, write: Write, *, idle: bool) -> None:
        """Delete what is not live with ``write`` if it is much or the queue is ``idle``."""
        floor, floor_bytes = self._live_from()
        trimmed = self._reader.low
        messages, size_bytes = floor - trimmed, floor_bytes - self._trimmed_bytes
        if messages < TRIM_MESSAGES and size_bytes < TRIM_BYTES and not (idle and messages > 0):
            return
        if size_bytes <= 0 and self.history is None:
            return  # only QoS 0 was there, as far as is known; if more was, it goes with what follows
        self._move(floor, floor_bytes)
        if self.history is None:  # else it keeps them
            write.delete_range("msg", chunk_key(self._reader.number, trimmed), chunk_key(self._reader.number, floor))

    def settled_below(self, head: int) -> int:
        """Below it no chunk has anything that is not settled; without a history they are deleted, or will be with what follows."""
        if self.history is None:
            return self.trimmed
        floor = self._live_from()[0]
        try:
            chunk = self._reader.before(head)
        except (StorageDamaged, ConfigError, Unavailable):
            return floor
        return floor if chunk is None or chunk.first_seq < floor else chunk.first_seq if chunk.stop > head else head

    def delete(self, write: Write, start: int, tail: int, tail_bytes: int) -> None:
        """Delete the chunks from ``start`` to the ``tail`` of the queue, in which nothing is live any more, with ``write``."""
        write.delete_range("msg", chunk_key(self._reader.number, start), chunk_key(self._reader.number, tail))
        self._move(tail, tail_bytes)

    def _move(self, floor: int, floor_bytes: int) -> None:
        self._reader.begin_at(floor)
        self._trimmed_bytes = floor_bytes
        self._changed()

    def kept_bytes(self, tail_bytes: int) -> int:
        """About what the disk keeps of the queue, which ever had ``tail_bytes``."""
        return tail_bytes - self._trimmed_bytes if self.history is None else self.history.size_bytes(tail_bytes)

    # --- the history ---

    @property
    def size_bytes(self) -> int:
        """About what the history takes on the disk."""
        return 0 if self.history is None else self.history.size_bytes(self._live_from()[1])

    def retained(self, head: int) -> int:
        """Messages below ``head`` that have left the queue and are kept."""
        return 0 if self.history is None else max(0, head - self.history.begins)

    def restart(self, head: int, settled: Ranges) -> None:
        """The kept history has a hole, or cannot be read: start again where nothing has left the queue, which has ``settled``
        these."""
        assert self.history is not None
        self.history.restart(max(head, settled[-1][1] if settled else 0))
        self._changed()

    def seq_for(self, part: float) -> int:
        """The start of the history at which about ``part`` of its bytes are left.

        Raises:
            StorageDamaged, ConfigError, Unavailable: it cannot be read.
        """
        assert self.history is not None
        return self.history.seq_for(part, *self._live_from())

    def cut(self, write: Write, *, below: int = 0) -> None:
        """Delete with ``write`` what the history has found to be old.

        below: what is below it goes however young it is, where the settlements tell how far they reach.

        Raises:
            StorageDamaged, ConfigError, Unavailable: it cannot be read; nothing has changed.
        """
        assert self.history is not None
        live = self._live_from()
        self.history.cut(*live, write, below=below)
        self._move(*live)  # what is deleted is below what the row says is live

    # --- the row ---

    def write(self, write: Write, wall_ms: int, head: int, reach: int) -> None:
        """Put into ``write`` what goes into the history with a row of this ``head``; nothing has left the queue above ``reach``."""
        if self.history is not None:
            self.history.write(write, wall_ms, head, reach)
        elif self._left_over is not None:
            self._left_over.drop(self.trimmed, write)
            self._left_over = None

    def row(self) -> HistoryRow:
        """The history in the queue's row, once everything is committed."""
        return self._no_history if self.history is None else self.history.row()
