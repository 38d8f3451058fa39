"""Settled messages of a queue: everything below its head, and ranges above that; and how many messages became what: the ledger."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from storage.queue.chunk import Chunk
from storage.queue.history import QueueHistory
from storage.queue.ledger import LedgerRow
from wire.ranges import Ranges, RangeSet
from wire.status.loss_reasons import Loss

Gaps = Sequence[tuple[int, int]]


class Settled:
    """The settled sequences of one queue, and its counts.

    queue.ledger-adds-up [P6]: accepted = ended + depth (P6), in memory and in every row that is written.

    head: everything below it is settled. above: and these from there on. stored: messages in the queue that the open write has on
    disk, or a commit before it. qos0: those in memory only. noted: whether a history is kept. changed: the row is to be written.
    """

    def __init__(self, row: LedgerRow, history: QueueHistory | None, changed: Callable[[], None]) -> None:
        """As a row has them: what was accepted, and is neither ended nor stored, went with the memory of a former life.

        changed: is called when the row is to be written.
        """
        self.head = self._told = row.head
        self.above = RangeSet(row.settled)
        self.ledger = row.ledger
        self.stored = row.depth
        self.qos0 = 0
        self.noted = history is not None
        self.changed = changed
        self._history = history
        self._qos0_from = row.tail  # QoS 0 below it went with a former life of the store
        self.count(Loss.RESTART.dropped, self.ledger.accepted - self.ledger.ended() - self.stored)

    # --- sequences ---

    def rows_left(self, chunk: Chunk, start: int, stop: int | None = None) -> int:
        """How many rows of ``chunk`` are in the queue, of those in ``[start, stop)``."""
        start, stop = max(start, chunk.first_seq), chunk.stop if stop is None else stop
        if start >= stop:
            return 0
        return sum(chunk.rows_in(low, high) for low, high in self.above.missing(start, stop))

    def leave(self, by: str, outcome: str, start: int, stop: int) -> Gaps:
        """Settle the part of ``[start, stop)`` that is in the queue under ``outcome``; which part that was."""
        in_order = not self.above
        gaps: Gaps = ((start, stop),) if in_order else self.above.missing(start, stop)
        if self._history is not None:
            self._history.note(by, outcome, gaps)
            self.changed()
        if in_order and start == self.head < stop:
            self.head = stop
        else:
            self.above.add(start, stop)
        return gaps

    def leave_rows(self, by: str, outcome: str, gaps: Gaps, rows: RangeSet, *, damaged: bool = False) -> None:
        """``gaps`` are settled: of them ``rows`` leave under ``outcome``. In between was QoS 0 that is gone; or what is damaged."""
        if self._history is not None:
            self._history.note(by, outcome, rows)
            rest = [gap for start, stop in gaps for gap in rows.missing(start, stop)]
            if damaged:
                self._history.note("store", Loss.DAMAGED.dropped, rest)
            else:
                self._note_gone(rest)
        for start, stop in gaps:
            self.above.add(start, stop)

    def leave_empty(self, start: int, stop: int, but: Ranges = ()) -> None:
        """The rest of ``[start, stop)``, ``but`` for these ranges, was QoS 0 that is gone: settle it, without counting."""
        position = max(start, self.head)
        for low, high in (*but, (stop, stop)):
            if self._history is not None:
                self._note_gone(self.above.missing(position, low))
            self.above.add(position, low)
            position = high
        self.changed()

    def leave_all(self, by: str, outcome: str, tail: int) -> None:
        """Everything below ``tail`` leaves under ``outcome``, and there is nothing behind it. Nobody is told of the new head."""
        self.leave(by, outcome, self.head, tail)
        self.above.clear()
        self.head = self._told = tail

    def advance(self) -> bool:
        """Move the head over what is settled; whether it stands elsewhere than at the last call."""
        if self.above.starts:
            self.head = self.above.advance(self.head)
        if self.head == self._told:
            return False
        self._told = self.head
        self.changed()
        return True

    def _note_gone(self, gaps: Iterable[tuple[int, int]]) -> None:
        """In ``gaps`` was QoS 0 that was lost with the memory of a former life, or pushed out of it in this one."""
        assert self._history is not None
        for start, stop in gaps:
            middle = min(max(start, self._qos0_from), stop)
            if start < middle:
                self._history.note("store", Loss.RESTART.dropped, ((start, middle),))
            if middle < stop:
                self._history.note("store", Loss.QOS0_MEMORY.dropped, ((middle, stop),))

    # --- counts ---

    @property
    def depth(self) -> int:
        """Messages accepted and not ended, those of uncommitted writes included."""
        return self.stored + self.qos0

    def accept(self, stored: int, qos0: int) -> None:
        """So many messages have come into the queue."""
        self.ledger.accept(stored + qos0)
        self.stored += stored
        self.qos0 += qos0
        self.changed()

    def end(self, outcome: str, stored: int, qos0: int = 0) -> None:
        """So many have left it under ``outcome``."""
        self.stored -= stored
        self.qos0 -= qos0
        if stored + qos0 > 0:
            self.ledger.count(outcome, stored + qos0)
            self.changed()

    def keep(self, outcome: str, stored: int, qos0: int) -> int:
        """All but so many have left it under ``outcome``; how many that were."""
        ended = self.depth - stored - qos0
        self.stored, self.qos0 = stored, qos0
        self.count(outcome, ended)
        return ended

    def count(self, outcome: str, messages: int) -> None:
        """Count ``messages`` under ``outcome``; none leaves the queue by it."""
        if messages > 0:
            self.ledger.count(outcome, messages)
            self.changed()

    def refuse_into(self, outcome: str, messages: int) -> None:
        """Count ``messages`` that were accepted and ended at once, under ``outcome``, without ever being in the queue."""
        self.ledger.accept(messages)
        self.count(outcome, messages)

    def refuse(self, messages: int) -> None:
        """Count ``messages`` that were refused for good, for want of room: they were never accepted."""
        self.ledger.refuse(messages)
        self.changed()

    def count_raised(self, messages: int) -> None:
        """Count ``messages`` of those accepted as raised by a rule."""
        self.ledger.count_raised(messages)

    def count_from_retained(self, messages: int) -> None:
        """Count ``messages`` of those accepted as retained before, and brought by a rule."""
        self.ledger.count_from_retained(messages)
        self.changed()

    def put_right(self) -> int:
        """The queue is empty: what was counted too little (or, below 0, too much) as damaged is put right; how many that were."""
        missing, self.stored = self.stored, 0
        self.ledger.put_right(missing)
        self.changed()
        return missing
