"""The QoS 0 messages of a queue, which a durable store keeps in memory only."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from storage.queue.chunk import Chunk
from storage.queue.settled_ranges import Settled


class Qos0Memory:
    """What waits to be handed out, in order, up to ``max_bytes``. size_bytes: of that, and of what is in flight."""

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
