"""What has left a queue: everything below its head, and ranges above that."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from storage.queue.chunk import Chunk
from storage.queue.history import QueueHistory
from storage.queue.ledger import LaneRow
from wire.ranges import Ranges, RangeSet

Gaps = Sequence[tuple[int, int]]


class Settled:
    """The settled sequences of one queue.

    queue.history-notes-each-once [P6, reports]: where a history is kept, what leaves the queue is noted in it, each sequence once.

    head: everything below it is settled. above: and these from there on.
    """

    def __init__(
        self,
        row: LaneRow,
        history: QueueHistory | None,
        changed: Callable[[], None],
        below: Sequence[Callable[[int], None]] = (),
    ) -> None:
        """changed: is called when the row is to be written. below: are told of a new head."""
        self.head = row.head
        self.above = RangeSet(row.settled)
        self._history = history
        self._changed = changed
        self._below = below
        self._qos0_from = row.tail  # QoS 0 below it went with a former life of the store

    @property
    def noted(self) -> bool:
        """Whether a history is kept."""
        return self._history is not None

    def rows_left(self, chunk: Chunk, start: int, stop: int | None = None) -> int:
        """How many rows of ``chunk`` are in the queue, of those in ``[start, stop)``."""
        start, stop = max(start, chunk.first_seq), chunk.stop if stop is None else stop
        if start >= stop:
            return 0
        return sum(chunk.rows_in(low, high) for low, high in self.above.missing(start, stop))

    def leave(self, by: str, outcome: str, start: int, stop: int) -> Gaps:
        """What of ``[start, stop)`` is in the queue leaves it under ``outcome``; where that was."""
        gaps: Gaps = self.above.missing(start, stop) if self.above else ((start, stop),)
        if self._history is not None:
            self._history.note(by, outcome, gaps)
            self._changed()
        self.above.add(start, stop)
        return gaps

    def leave_rows(self, by: str, outcome: str, gaps: Gaps, rows: RangeSet, *, damaged: bool = False) -> None:
        """``gaps`` are settled: of them ``rows`` leave under ``outcome``. In between was QoS 0 that is gone; or what is damaged."""
        if self._history is not None:
            self._history.note(by, outcome, rows)
            rest = [gap for start, stop in gaps for gap in rows.missing(start, stop)]
            if damaged:
                self._history.note("store", "dropped:damaged", rest)
            else:
                self._note_gone(rest)
        for start, stop in gaps:
            self.above.add(start, stop)

    def leave_empty(self, start: int, stop: int, but: Ranges = ()) -> None:
        """What is left of ``[start, stop)``, ``but`` for these ranges, was QoS 0 that is gone: settle it, without counting."""
        position = start
        for low, high in (*but, (stop, stop)):
            if self._history is not None:
                self._note_gone(self.above.missing(position, low))
            self.above.add(position, low)
            position = high
        self._changed()

    def leave_all(self, by: str, outcome: str, tail: int) -> None:
        """Everything below ``tail`` leaves under ``outcome``, and there is nothing behind it. Nobody is told of the new head."""
        self.leave(by, outcome, self.head, tail)
        self.above.clear()
        self.head = tail

    def advance(self) -> None:
        """Move the head over what is settled."""
        if not self.above:
            return
        head = self.above.advance(self.head)
        if head == self.head:
            return
        self.head = head
        self._changed()
        for forget_below in self._below:
            forget_below(head)

    def _note_gone(self, gaps: Iterable[tuple[int, int]]) -> None:
        """In ``gaps`` was QoS 0 that was lost with the memory of a former life, or pushed out of it in this one."""
        assert self._history is not None
        for start, stop in gaps:
            middle = min(max(start, self._qos0_from), stop)
            if start < middle:
                self._history.note("store", "dropped:restart", ((start, middle),))
            if middle < stop:
                self._history.note("store", "dropped:qos0_memory", ((middle, stop),))
