"""Makes the next commit durable: what every part of the store has changed goes into one write, by rows of its own.

store.refused-write-kept: when the disk refuses, the open write is kept and committed again later: no acknowledgement, no loss, no
    gap in the numbers.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Protocol

from storage.engine.engine import Engine, Moment, Write
from storage.store.lanes import Lanes
from storage.store.next_commit import NextCommit
from wire.errors import Unavailable
from wire.settings import PersistenceSettings
from wire.status.histogram import Histogram
from wire.status.store import CommitFigures

log = logging.getLogger("bascule")


SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)
MESSAGES = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000)


class Rows(Protocol):
    """A part of the store with rows of its own."""

    def write_rows(self, write: Write, moment: Moment) -> object: ...


class Commits:
    """Commits over ``engine``. count: how many it has made. last_s: how long the last one took."""

    def __init__(
        self,
        engine: Engine,
        settings: PersistenceSettings,
        next_commit: NextCommit,
        lanes: Lanes,
        others: Sequence[Rows],
    ) -> None:
        """others: who has rows as well, in the order in which they are written behind those of ``lanes``."""
        self.count = 0
        self.last_s = 0.0
        self._written_bytes = 0
        self._seconds = Histogram(SECONDS)
        self._messages = Histogram(MESSAGES)
        self._engine = engine
        self._syncs = settings.sync == "full"
        self._disk = next_commit.disk
        self._next = next_commit
        self._lanes = lanes
        self._others = others

    def commit_now(self, now_s: float, wall_ms: int) -> bool:
        """Commit what is there, synced; whether the disk took it. If not, it is committed when it does."""
        self._next.survive()
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
        moment = Moment(now_s, wall_ms, strong, self._disk.refusal is None)
        changed = lanes.write_rows(write, moment)
        for other in self._others:
            other.write_rows(write, moment)
        if commit.awaited and strong:
            write.promise()  # what the loss of power may take back leaves no mark
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
        commit.on_done(now_s, written=written)
        lanes.on_committed(changed)
        if self._disk.refusal is not None:
            self._disk.on_recovered(wall_ms)
            lanes.all_ready()
            log.info("store.available")

    def figures(self) -> CommitFigures:
        """For ``bascule status``, since the process began."""
        return CommitFigures(
            commits=self.count,
            written_bytes=self._written_bytes,
            commit_seconds=self._seconds.figures(),
            commit_messages=self._messages.figures(),
        )
