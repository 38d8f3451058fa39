"""The node's own affairs: its events, the disk below it, the history of its queues, its dead letters, and deleted data.

Deleted data of the store is given back to the disk within a minute: the store says what its rows keep; what RocksDB's files take
beside it, and when that is too much, is the engine's (``storage/engine/dead_bytes.py``). Nothing is remembered of what was deleted,
so no death and no pace makes a difference.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any

from storage.engine.engine import Engine, Moment, Write
from storage.engine.queue_numbers import QueueNumbers
from storage.store.dead_letter_queues import DeadLetterQueues
from storage.store.disk_trouble import Disk
from storage.store.event_log import EventLog, event_of
from storage.store.history_retention import Lane, Retention
from wire.config_settings import SettingsNow
from wire.errors import Unavailable
from wire.frames.frame import Frame
from wire.frames.supervision import NodeEvents

TIDY_PERIOD_S = 10.0


class Housekeeping:
    """Has the events, the disk, the retention of histories and the dead letters.

    tidy_is_due: whether it is time to look for deleted data.
    """

    def __init__(self, engine: Engine, settings: SettingsNow, numbers: QueueNumbers) -> None:
        """Open what is on record.

        Raises:
            StorageDamaged, ConfigError, Unavailable: it cannot be read.
        """
        self.events = EventLog(engine, settings)
        self.disk = Disk(engine, settings, tell=self.events.disk)
        self.retention = Retention(engine, settings, self.events)
        self.dead_letters = DeadLetterQueues(engine, numbers, settings)
        self.tidy_is_due = False
        self._engine = engine
        self._tidied_s = float("-inf")

    @property
    def applies(self) -> dict[type[Frame], Callable[[Any], None]]:
        """The receiver of each frame."""
        return {NodeEvents: self._on_events}

    def _on_events(self, frame: NodeEvents) -> None:
        for event in frame.events:
            self.events.add(event_of(event))

    def settings_changed(self) -> None:
        """Others hold."""
        self.retention.settings_changed()

    def write_rows(self, write: Write, moment: Moment) -> None:
        """Put what has changed into ``write``."""
        if self.dead_letters.queues:
            self.dead_letters.write_rows(write, moment)
        if self.events.waiting:
            self.events.put(write, moment.wall_ms)

    @property
    def kept_bytes(self) -> int:
        """About what the disk keeps of it."""
        return self.dead_letters.kept_bytes + self.events.kept_bytes

    def tick(self, lanes: Collection[Lane], write: Write, now_s: float, wall_ms: int) -> None:
        """See to all of it; call it about once a second, while the disk does not refuse. lanes: of bridges."""
        self.dead_letters.tick(write, now_s, wall_ms)
        self.disk.measure_room(now_s)
        for lane in lanes:
            self.events.ledger(lane.queue.number, lane.bridge, lane.label, lane.queue.ledger, now_s, wall_ms)
        self.events.clock(now_s, wall_ms)
        self.events.disk("min_free_disk" if self.disk.is_low else "", wall_ms, self.disk.free_bytes)
        self.events.tick(write, now_s, wall_ms)
        if now_s - self._tidied_s >= TIDY_PERIOD_S or self.disk.is_tight:
            self._tidied_s, self.tidy_is_due = now_s, True
        self.retention.tick(lanes, write, now_s, wall_ms, self.disk.free_bytes)

    def tidy(self, kept_bytes: int) -> None:
        """Have the engine give back what is not among the ``kept_bytes`` of the store.

        Call it when nothing waits in the open write: the tables know nothing of what that deletes.
        """
        self.tidy_is_due = False
        with suppress(Unavailable):  # the next commit tells of it
            self._engine.tidy(kept_bytes, pressed=self.disk.is_tight)
