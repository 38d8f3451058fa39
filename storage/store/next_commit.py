"""The next commit: what it makes durable, how strongly, and when it is due. Pure: time is an argument.

Code that puts something into ``write`` says here what it needs. ``commits`` makes it durable.
"""

from __future__ import annotations

from storage.engine.engine import Write
from storage.store.commit_due import CommitTime


class NextCommit:
    """The open write, and what those want that have put something into it.

    messages: how many came with it. time: when it is due. needs_sync: it is to survive the loss of power. awaited: somebody waits
    for it. at_once: it is not put off, because a queue can be handed out after it.
    """

    __slots__ = ("at_once", "awaited", "messages", "needs_sync", "time", "write")

    def __init__(self, flush_period_s: float) -> None:
        self.write = Write()
        self.messages = 0
        self.needs_sync = self.awaited = self.at_once = False
        self.time = CommitTime(flush_period_s)

    def promise(self) -> None:
        """Somebody waits for something in it that is to survive the loss of power."""
        self.needs_sync = self.awaited = True

    def done(self, now_s: float, *, written: bool) -> None:
        """Everything that was wanted is committed; if that was ``written`` to the disk, another write begins."""
        if written:
            self.write = Write()
            self.messages = 0
            self.time.written(now_s)
        self.needs_sync = self.awaited = self.at_once = False
        self.time.committed()
