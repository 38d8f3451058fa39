"""How long what has left the queues is kept: by age, by bytes, and by what the disk has left. Which sequences go is ``history``'s.

Each lane's history is cut about every ten seconds, the oldest first, a bounded piece of work at a time. An unreadable history is
forgotten with the rest of it; the queue itself is never touched.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Protocol

from storage.engine.engine import Engine, Write
from storage.queue.queue import Queue
from storage.store.event_log import EventLog
from wire.clock_steps import elapsed_ms
from wire.config_settings import BridgeSettings, SettingsNow
from wire.errors import ConfigError, StorageDamaged, Unavailable
from wire.frames.names import LaneLabel
from wire.status.event_kinds import EventKind

log = logging.getLogger("bascule")

CUT_PERIOD_S = 10.0
SETTLEMENTS_A_PASS = 2000  # about 10 ms
SLACK = 0.05  # so much more than is needed goes, where it is for want of room
LITTLE_BYTES = 1 << 20  # where room is wanted, the rest of so little goes whole
LOW_BYTES = 256 << 20  # with less free space than this the histories do not take more than is free, whatever min_free_disk is
RESERVE_BYTES = 64 << 20  # more than opening the store writes (engine.WAL_MAX_BYTES): with so much room a cut can be committed


class Lane(Protocol):
    """The part of a lane of the store that this looks at."""

    queue: Queue
    bridge: str
    label: LaneLabel

    @property
    def is_unreadable(self) -> bool: ...


class Retention:
    """Cuts the histories of all lanes."""

    def __init__(self, engine: Engine, settings: SettingsNow, events: EventLog) -> None:
        self._engine = engine
        self._settings = settings
        self._events = events
        self._bridges: dict[str, BridgeSettings] = {}  # as they were when they last kept one
        self.settings_changed()
        self._cut_s = float("-inf")
        if not self._bridges:
            engine.reserve(0)
        self._begun: set[str] = set()  # bridges of which there was more to look at than one pass did

    def settings_changed(self) -> None:
        """Others hold. Whether a queue has a history is decided when it is opened."""
        self._bridges.update((bridge.name, bridge) for bridge in self._settings.now.bridges if bridge.retention_s > 0)

    def wants(self, bridge: str) -> bool:
        """Whether a history is kept of the queues of ``bridge``."""
        return self._engine.durable and bridge in self._bridges

    def period_s(self, bridge: str) -> float:
        """How long the queues of ``bridge`` keep what has left them; 0 if they do not."""
        return self._bridges[bridge].retention_s if bridge in self._bridges else 0.0

    def tick(self, lanes: Iterable[Lane], write: Write, now_s: float, wall_ms: int, free_bytes: int | None) -> None:
        """Housekeeping, into ``write``; call it about once a second, while the disk does not refuse."""
        if not self._bridges:
            return
        all_due = now_s - self._cut_s >= CUT_PERIOD_S
        if not all_due and not self._begun:
            return
        if all_due:
            self._cut_s = now_s
            if free_bytes is not None and free_bytes >= 2 * RESERVE_BYTES:
                self._engine.reserve(RESERVE_BYTES)
        by_bridge = self._by_bridge(lane for lane in lanes if all_due or lane.bridge in self._begun)
        near = all_due and free_bytes is not None and self._is_near(free_bytes, by_bridge)
        self._begun.clear()
        for bridge, its_lanes in by_bridge.items():
            self._cut_bridge(self._bridges[bridge], its_lanes, write, wall_ms, near=near)

    def make_room(self, lanes: Iterable[Lane], write: Write, wall_ms: int) -> None:
        """The disk is full: half of every history goes with ``write``."""
        for bridge, its_lanes in self._by_bridge(lanes).items():
            self._cut_bridge(self._bridges[bridge], its_lanes, write, wall_ms, near=True)

    def _by_bridge(self, lanes: Iterable[Lane]) -> dict[str, list[Lane]]:
        """The lanes of which a history is kept."""
        by_bridge: dict[str, list[Lane]] = {}
        for lane in lanes:
            if lane.queue.trimming.history is not None and not lane.is_unreadable:
                by_bridge.setdefault(lane.bridge, []).append(lane)
        return by_bridge

    def _is_near(self, free_bytes: int, by_bridge: Mapping[str, list[Lane]]) -> bool:
        """Whether the disk is so near to being full that the histories are to give way."""
        settings = self._settings.now
        least = max(limits.min_free_disk_bytes for limits in (settings.limits, *(bridge.limits for bridge in settings.bridges)))
        if free_bytes < least + least // 4:
            return True
        return free_bytes < LOW_BYTES and free_bytes < sum(
            lane.queue.trimming.size_bytes for lanes in by_bridge.values() for lane in lanes
        )

    def went_back(self, lane: Lane) -> None:
        """Commits of the store are missing: the history of the lane may have a hole, so it starts again."""
        if lane.queue.trimming.history is not None:
            self._forget(lane, "commits are missing")

    def _cut_bridge(self, bridge: BridgeSettings, lanes: list[Lane], write: Write, wall_ms: int, *, near: bool) -> None:
        total = sum(lane.queue.trimming.size_bytes for lane in lanes)
        allowed = bridge.retention_max_bytes
        if near:
            allowed = min(allowed, total // 2 if total > LITTLE_BYTES else 0)
        part = 1.0 if total <= allowed else allowed / total * (1 - SLACK)
        for lane in lanes:
            try:
                self._cut_lane(lane, bridge.retention_s, wall_ms, write)
                if part < 1.0:
                    self._cut_down(lane, part, write, "disk" if near else "size")
            except (StorageDamaged, ConfigError) as error:
                self._forget(lane, error)
            except Unavailable as error:
                log.warning("history.unreadable", extra={"queue": lane.queue.name, "error": str(error)})

    def _cut_lane(self, lane: Lane, retention_s: float, wall_ms: int, write: Write) -> None:
        """Settlements older than the retention go; and those from a future further away than that, by a clock that was wrong."""
        history, retention_ms = lane.queue.trimming.history, int(retention_s * 1000)
        assert history is not None

        def stays(settled_ms: int) -> bool:
            return settled_ms <= wall_ms + retention_ms and elapsed_ms(settled_ms, wall_ms) <= retention_ms

        if history.age_out(stays, SETTLEMENTS_A_PASS):
            self._begun.add(lane.bridge)
        lane.queue.trimming.cut(write)

    def _cut_down(self, lane: Lane, part: float, write: Write, reason: str) -> None:
        """The oldest goes, however young it is, until about ``part`` of the bytes are left; that is told."""
        queue, history = lane.queue, lane.queue.trimming.history
        assert history is not None
        before, below = history.begins, queue.trimming.seq_for(part)
        queue.trimming.cut(write, below=below)
        self._events.count(EventKind.HISTORY_CUT, lane.bridge, lane.label, reason, history.begins - before)

    def _forget(self, lane: Lane, error: object) -> None:
        queue = lane.queue
        assert queue.trimming.history is not None
        before = queue.trimming.history.begins
        log.error("history.damaged", extra={"queue": queue.name, "error": str(error)})
        queue.trimming.restart(queue.head, queue.settled.ranges())
        self._events.count(EventKind.HISTORY_CUT, lane.bridge, lane.label, "damage", queue.trimming.history.begins - before)
