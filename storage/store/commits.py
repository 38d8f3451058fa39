"""Makes the next commit durable: what every part of the store has changed goes into one write, by rows of its own.

store.refused-write-kept: when the disk refuses, the open write is kept and committed again later: no acknowledgement, no loss, no
    gap in the numbers.
"""

from __future__ import annotations

import logging

from storage.engine.engine import Engine
from storage.store.dead_letter_queues import DeadLetterQueues
from storage.store.disk_trouble import Disk
from storage.store.event_log import EventLog
from storage.store.hand_outs import HandOuts
from storage.store.lane_changes import LaneChanges
from storage.store.lane_openings import LaneOpenings
from storage.store.lanes import Lanes
from storage.store.next_commit import NextCommit
from storage.store.receiving_link import Senders
from storage.store.session_rows import Sessions
from wire.errors import Unavailable
from wire.settings import PersistenceSettings
from wire.status.histogram import Histogram
from wire.status.store import CommitFigures

log = logging.getLogger("bascule")


SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)
MESSAGES = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000)


class Commits:
    """Commits over ``engine``. count: how many it has made. last_s: how long the last one took."""

    def __init__(
        self,
        engine: Engine,
        settings: PersistenceSettings,
        disk: Disk,
        next_commit: NextCommit,
        lanes: Lanes,
        lane_changes: LaneChanges,
        openings: LaneOpenings,
        hand_outs: HandOuts,
        dead_letters: DeadLetterQueues,
        senders: Senders,
        sessions: Sessions,
        events: EventLog,
    ) -> None:
        self.count = 0
        self.last_s = 0.0
        self._written_bytes = 0
        self._seconds = Histogram(SECONDS)
        self._messages = Histogram(MESSAGES)
        self._engine = engine
        self._syncs = settings.sync == "full"
        self._disk = disk
        self._next = next_commit
        self._lanes = lanes
        self._lane_changes = lane_changes
        self._openings = openings
        self._hand_outs = hand_outs
        self._dead_letters = dead_letters
        self._senders = senders
        self._sessions = sessions
        self._events = events

    def commit_now(self, now_s: float, wall_ms: int) -> bool:
        """Commit what is there, synced; whether the disk took it. If not, it is committed when it does."""
        self._next.needs_sync = True
        self.commit(now_s, wall_ms)
        return self._disk.retry_s is None

    def commit(self, now_s: float, wall_ms: int) -> None:
        """Commit what is there, as strongly as it needs; where the disk refuses, ``disk`` knows.

        Raises:
            StorageDamaged: what every queue depends on is damaged.
        """
        commit, lanes = self._next, self._lanes
        write = commit.write
        strong = commit.needs_sync or not self._syncs
        changed = lanes.take_changed()
        for name in changed:
            lane = lanes.all.get(name)
            if lane is not None and (lane.queue.changed or lane.queue.wants_mark) and not lane.row_damaged:
                lane.queue.trim(write, idle=False)
                ahead = lane.open and lane.has_credit and self._lane_changes.below(lane) is None
                lane.queue.write_row(write, strong=strong, ahead=ahead, wall_ms=wall_ms)
                if not lane.bridge:  # no evidence is kept of queues that come and go
                    del write.tails[lane.queue.number]
        self._lane_changes.write_rows(write)
        self._dead_letters.write(write, now_s, wall_ms, evict=self._disk.refusal is None)
        self._senders.write_rows(write)
        self._sessions.write_rows(write)
        if self._events.waiting:
            self._events.put(write, wall_ms)
        write.promised |= commit.awaited and strong  # what the loss of power may take back leaves no mark
        written = bool(write)
        if written:
            try:
                self.last_s = self._engine.commit(write, sync=commit.needs_sync and self._syncs)
            except Unavailable as error:
                self._disk.refuses(error, now_s, wall_ms)
                return
            self._seconds.add(self.last_s)
            self._messages.add(commit.messages)
            self._written_bytes += write.size_bytes
            self._disk.wrote(write.size_bytes)
            self.count += 1
        commit.done(now_s, written=written)
        if self._openings.owing:
            self._openings.committed()
        lanes.tell_losses(changed, self._openings.reopen)
        if self._disk.refusal is not None:
            self._disk.takes_again(wall_ms)
            self._hand_outs.all_ready()
            log.info("store.available")

    def figures(self) -> CommitFigures:
        """For ``bascule status``, since the process began."""
        return CommitFigures(
            commits=self.count,
            written_bytes=self._written_bytes,
            commit_seconds=self._seconds.figures(),
            commit_messages=self._messages.figures(),
        )
