"""What the store deletes is given back to the disk within a minute.

Here is counted what the rows keep; what RocksDB's files take beside it, and when that is too much, is the engine's
(``storage/engine/dead_bytes.py``). Nothing is remembered of what was deleted, so no death and no pace makes a difference.
"""

from __future__ import annotations

from contextlib import suppress

from storage.engine.engine import Engine, Write
from storage.queue.history import ROW_BYTES
from storage.store.dead_letter_queues import DeadLetterQueues
from storage.store.disk_trouble import Disk
from storage.store.event_log import EventLog
from storage.store.lanes import Lanes
from storage.store.retained_messages import RetainedMessages
from wire.errors import Unavailable

TIDY_PERIOD_S = 10.0


class Space:
    """Has the engine give back what is not kept."""

    def __init__(
        self, engine: Engine, lanes: Lanes, dead_letters: DeadLetterQueues, retained: RetainedMessages, events: EventLog, disk: Disk
    ) -> None:
        self._engine = engine
        self._lanes = lanes
        self._dead_letters = dead_letters
        self._retained = retained
        self._events = events
        self._disk = disk
        self._tidied_s = float("-inf")
        self._is_due = False

    def tick(self, now_s: float) -> None:
        """It is time to look, now and then, and each time while there is little room on the disk."""
        if now_s - self._tidied_s >= TIDY_PERIOD_S or self._disk.is_tight:
            self._tidied_s, self._is_due = now_s, True

    def tidy(self, write: Write) -> None:
        """Look, if it is time and nothing waits in ``write``: the tables know nothing of what that deletes."""
        if self._is_due and not write:
            self._is_due = False
            with suppress(Unavailable):  # the next commit tells of it
                self._engine.tidy(self._kept_bytes(), pressed=self._disk.is_tight)

    def _kept_bytes(self) -> int:
        """About what everything takes that is kept; a queue's row, and an event, about what a settlement does."""
        first, following = self._events.numbers
        queues = sum(lane.queue.kept_bytes + ROW_BYTES for lane in self._lanes.all.values())
        letters = sum(letters.size_bytes for letters in self._dead_letters.queues.values())
        return queues + letters + self._retained.figures().bytes + (following - first) * ROW_BYTES
