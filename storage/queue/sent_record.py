"""The record of what a queue has sent: below which sequence, in which session, and what the remote has taken over."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from storage.engine.engine import Write
from storage.queue.ledger import LedgerRow
from wire.exchange.former_sessions import LeftRows, LeftSession
from wire.exchange.packet_identifiers import PACKET_IDS
from wire.frames.frame import Ranges
from wire.ranges import ArrivalSet, RangeSet

HANDED_AHEAD = 16_384  # more than a batch, so that a lane that keeps up has its marks with the commits of the messages


class SentRecord:
    """The messages that the remote of one queue may hold.

    queue.handed-out-below-mark [P2, P3]: a durable message is handed out only below a committed mark, ``handed`` in the row. So
        after any crash it is known what may have been sent: that is neither dropped nor expired, for the remote may hold its packet
        identifier. If commits do not survive the loss of power the mark may be an older one: then it is all that can be in flight
        from the head on.

    generation, session: the remote's session, and how many there were; no session: the next is begun clean. left: sessions that
    the remote may still have at other addresses. released: what had its PUBREC, in the
    order of the PUBRECs, which PUBRELs have to keep. below: sequences below it may have been sent. mark: the committed one.
    """

    def __init__(self, row: LedgerRow, changed: Callable[[], None], *, mark_holds: bool = True) -> None:
        """changed: is called when the row is to be written. mark_holds: nothing is committed that a loss of power takes back."""
        self.generation, self.session, self.left = row.generation, row.session, row.left
        self.released = ArrivalSet(row.released)
        self.below = row.handed if mark_holds else max(row.handed, min(row.tail, row.head + PACKET_IDS))
        self.mark = row.handed
        self._marking = row.handed  # the mark in the newest row that was written, committed or not
        self._wanted = 0
        self._changed = changed

    # --- the mark ---

    @property
    def needs_sent_mark(self) -> bool:
        """Whether something was to be handed out above the mark: write the row, commit it in full strength, and go on
        (queue.handed-out-below-mark).
        """
        return self._wanted > self.mark

    def want(self, stop: int) -> None:
        """Messages below ``stop`` are to be handed out, and have no mark above them yet."""
        self._wanted = stop

    def hand_out(self, stop: int) -> None:
        """Messages below ``stop`` have been handed out. The row says so already if its mark is as high."""
        if stop > self.below:
            self.below = stop
            if stop > self._marking:
                self._changed()

    def close(self, sent_below: int, head: int) -> None:
        """Nothing is handed out for now; what was not sent may be dropped, and expires. The next hand-out commits a mark anew.

        sent_below: what was handed out from there on was never sent; -1: that is not known.
        """
        before = self.below, self._marking
        if sent_below >= 0:
            self.below = min(self.below, max(sent_below, head))
        self.mark = min(self.mark, self.below)
        self._marking = self._wanted = self.below
        if (self.below, self._marking) != before:
            self._changed()

    def put_mark(self, write: Write, cursor: int, tail: int, *, strong: bool, ahead: bool) -> int:
        """The mark in the row in ``write``: all messages below it may have been handed out.

        strong: the commit has the configured strength, so the mark may move; ahead: by a block, since more can be handed out soon.
        """
        mark = self._marking  # a row that is written twice before a commit takes nothing back
        if strong:
            if mark < self._wanted:
                mark = self._wanted
            if ahead or self._wanted > self.mark:
                block = cursor + HANDED_AHEAD
                if block > tail:
                    block = tail
                if mark < block:
                    mark = block
            if mark > self.mark:
                write.on_commit(partial(self._on_committed, mark))
            self._marking = mark
        return mark if mark > self.below else self.below

    def _on_committed(self, mark: int) -> None:
        if mark > self._marking:  # it was taken back meanwhile
            mark = self._marking
        if mark > self.mark:
            self.mark = mark

    # --- the session ---

    def release(self, ranges: Ranges, head: int, tail: int) -> None:
        """PUBREC came for ``ranges``: never PUBLISH again. Outside of ``[head, tail)`` there is nothing to release."""
        for start, stop in ranges:
            self.released.add(max(start, head), min(stop, tail))
        self._changed()

    def forget_below(self, head: int) -> None:
        """Everything below ``head`` is settled."""
        if self.released:
            self.released.discard(0, head)

    def new_session(self, generation: int, session: str, left: LeftRows = ()) -> bool:
        """Put the session on record, and those ``left`` at other addresses; whether any is another than before.

        Another ``generation`` forgets what was released before it.
        """
        another = (generation, session, left) != (self.generation, self.session, self.left)
        if generation != self.generation:
            self.generation = generation
            self.released.clear()
        self.session = session
        self.left = left
        self._changed()
        return another

    def forget_session(self) -> None:
        """The contents of the session on record are not known: the next one is begun clean."""
        self.session = ""

    def leave_session(self, head: int, settled: RangeSet) -> None:
        """Something that the remote may hold goes otherwise than by an exchange: the session is left, with all that it may hold.

        A lane that takes nothing from its remote ends it by a clean start. One that does has the remote release that.
        """
        if self.session:
            others = (left for left in self.left if left.session != self.session)
            sent = RangeSet(settled.missing(head, min(self.below, head + PACKET_IDS)))
            for start, stop in self.released.ranges():
                sent.discard(start, stop)
            mine = LeftSession(self.session, self.generation, self.below, self.released.ranges(), sent.ranges())
            self.left = (*others, mine)
        self.session = ""

    def lose(self, start: int, stop: int, head: int, settled: RangeSet) -> bool:
        """Messages in ``[start, stop)`` are lost: whether the session is left for that, since the remote may hold some of them."""
        leaves = bool(self.session) and start < self.below
        if leaves:
            self.leave_session(head, settled)
        self.released.discard(start, stop)
        return leaves
