"""How many messages of a queue wait, and what became of the others: the ledger, kept in balance."""

from __future__ import annotations

from collections.abc import Callable

from storage.queue.ledger import Ledger


class Balance:
    """The counts of one queue.

    queue.ledger-adds-up [P6]: accepted = ended + depth (P6), in memory and in every row that is written.

    stored: messages in the queue that the open write has on disk, or a commit before it. qos0: those in memory only.
    """

    __slots__ = ("_changed", "ledger", "qos0", "stored")

    def __init__(self, ledger: Ledger, stored: int, changed: Callable[[], None]) -> None:
        """As a row has them: what was accepted, and is neither ended nor ``stored``, went with the memory of a former life.

        changed: is called when the row is to be written.
        """
        self.ledger = ledger
        self.stored = stored
        self.qos0 = 0
        self._changed = changed
        self.count("dropped:restart", ledger.accepted - ledger.ended() - stored)

    @property
    def depth(self) -> int:
        """Messages accepted and not ended, those of uncommitted writes included."""
        return self.stored + self.qos0

    def accept(self, stored: int, qos0: int) -> None:
        """So many messages have come into the queue."""
        self.ledger.accepted += stored + qos0
        self.stored += stored
        self.qos0 += qos0
        self._changed()

    def end(self, outcome: str, stored: int, qos0: int = 0) -> None:
        """So many have left it under ``outcome``."""
        self.stored -= stored
        self.qos0 -= qos0
        if stored + qos0 > 0:
            self.ledger.count(outcome, stored + qos0)
            self._changed()

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
            self._changed()

    def refuse_into(self, outcome: str, messages: int) -> None:
        """Count ``messages`` that were accepted and ended at once, under ``outcome``, without ever being in the queue."""
        self.ledger.accepted += messages
        self.count(outcome, messages)

    def refuse(self, messages: int) -> None:
        """Count ``messages`` that were refused for good, for want of room: they were never accepted."""
        self.ledger.refused += messages
        self._changed()

    def put_right(self) -> int:
        """The queue is empty: what was counted too little (or, below 0, too much) as damaged is put right; how many that were."""
        missing, self.stored = self.stored, 0
        self.ledger.dropped["damaged"] = self.ledger.dropped.get("damaged", 0) + missing
        self._changed()
        return missing
