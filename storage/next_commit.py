"""What the next commit makes durable, how strongly, and when it is due. Pure: time is an argument.

Whoever puts something into ``write`` says here what it needs. ``commits`` makes it durable.
"""

from __future__ import annotations

from storage.commit_time import CommitTime
from storage.engine import Write

EARLY_COMMIT_BYTES = 16 << 20  # a write this large does not wait for the flush period


class NextCommit:
    """The open write, and what those want that have put something into it.

    needs_sync: it is to survive the loss of power. awaited: somebody waits for it. at_once: it is not put off, because a queue can
    be handed out after it.
    """

    __slots__ = ("at_once", "awaited", "needs_sync", "time", "write")

    def __init__(self, flush_period_s: float) -> None:
        self.write = Write()
        self.needs_sync = self.awaited = self.at_once = False
        self.time = CommitTime(flush_period_s)

    def promise(self) -> None:
        """Somebody waits for something in it that is to survive the loss of power."""
        self.needs_sync = self.awaited = True

    def is_due(self, now_s: float) -> bool:
        """Whether to commit now, though nobody asks for it."""
        return self.write.size_bytes >= EARLY_COMMIT_BYTES or self.time.is_due(now_s)

    def wakes_at_s(self) -> float:
        """When it is due though nothing comes."""
        return self.time.wakes_at_s(waited_for=self.awaited)

    def written(self, now_s: float) -> None:
        """The write went to the disk, so another one begins."""
        self.write = Write()
        self.time.written(now_s)

    def done(self) -> None:
        """Everything that was wanted is committed."""
        self.needs_sync = self.awaited = self.at_once = False
        self.time.committed()
