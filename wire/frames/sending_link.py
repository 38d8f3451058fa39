"""The sender's half of an idempotent link: numbers what it sends and keeps it until the far end says committed.

Pure. It says when a batch is worth sending; what is in a batch is the business of its sender, the Listener or ``RemoteInbox``. The
receiver's half is ``storage/store/receiving_link.py``: it remembers, in the same commit as the messages, the last number of each
sender.
"""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

from wire.frozen_records import record

BATCHES_OUTSTANDING_MAX = 2
OVERLAPPING_ROWS_MIN = 64  # while a batch is being committed, a smaller one waits and grows: each costs a commit and five hops
BATCH_ROWS_MAX = 8_192
BATCH_BYTES_MAX = 2 * 1024 * 1024
RESEND_AFTER_S = 3.0

Sent = TypeVar("Sent")
Kept = TypeVar("Kept")


@record
class Outstanding(Generic[Sent, Kept]):
    """One numbered batch on its way: its frame, and what its sender wants back when it is committed."""

    number: int
    sent: Sent
    kept: Kept


class SendingLink(Generic[Sent, Kept]):
    """Numbers 1, 2, 3, ... within one epoch.

    outstanding: what is on its way, oldest first. next_number: that of the next batch. committed: everything up to it is.

    frames.uncommitted-resent [P2, P3, P4]: every number above the last committed one is kept, in order, and is sent again when an
        actor on the way starts anew and whenever nothing was committed for ``RESEND_AFTER_S``.
    """

    def __init__(self) -> None:
        self.outstanding: deque[Outstanding[Sent, Kept]] = deque()
        self.next_number = 1
        self.committed = 0
        self._progress_s = 0.0

    @property
    def waiting_since_s(self) -> float:
        """Since when the oldest of what is outstanding waits for its commit."""
        return self._progress_s

    def may_send(self) -> bool:
        """Whether fewer than ``BATCHES_OUTSTANDING_MAX`` batches are on their way."""
        return len(self.outstanding) < BATCHES_OUTSTANDING_MAX

    def worth_sending(self, rows: int, *, full: bool) -> bool:
        """Whether a batch of ``rows`` is to go now: a lone one at once, one beside another if it is large, or ``full``."""
        return not self.outstanding or ((full or rows >= OVERLAPPING_ROWS_MIN) and self.may_send())

    def on_sent(self, frame: Sent, kept: Kept, now_s: float) -> int:
        """Keep ``frame``, which carries ``next_number``, until it is committed; returns that number."""
        assert len(self.outstanding) < BATCHES_OUTSTANDING_MAX
        number = self.next_number
        self.next_number = number + 1
        if not self.outstanding:
            self._progress_s = now_s
        self.outstanding.append(Outstanding(number, frame, kept))
        return number

    def acknowledge(self, number: int, now_s: float) -> list[Outstanding[Sent, Kept]]:
        """Forget everything up to ``number`` and return it in order; a repeated or unknown number returns nothing."""
        done = []
        while self.outstanding and self.outstanding[0].number <= number:
            done.append(self.outstanding.popleft())
        if done:
            self.committed = done[-1].number
            self._progress_s = now_s
        return done

    def resend(self, now_s: float) -> list[Sent]:
        """Everything outstanding, in order, because an actor on the way started anew."""
        self._progress_s = now_s
        return [batch.sent for batch in self.outstanding]

    @property
    def overdue_at_s(self) -> float:
        """When what is outstanding is overdue, if nothing is committed before."""
        return self._progress_s + RESEND_AFTER_S

    def overdue(self, now_s: float) -> bool:
        """Whether something is outstanding and nothing was committed for ``RESEND_AFTER_S``."""
        return bool(self.outstanding) and now_s >= self.overdue_at_s
