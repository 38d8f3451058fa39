"""The queues of a node: which there are, and what of them is to be written. It opens, forgets and trims them.

Who takes from a queue is the business of ``lane_openings``; what leaves it, of ``hand_outs`` and ``settlements``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from storage.engine.engine import Engine, Write
from storage.engine.keys import QueueNumbers
from storage.queue.ledger import LaneRow
from storage.queue.queue import CACHE_BYTES, Queue
from storage.queue.queue_damage import Quarantine
from storage.store.end_to_end import end_to_end
from storage.store.event_log import EventLog
from storage.store.lane import Lane
from wire.errors import StorageDamaged
from wire.frames.names import CLIENT_SESSION, connection_name, lane_of_queue, peer_of, queue_name, session_of_queue
from wire.settings import LimitSettings, NodeSettings

log = logging.getLogger("bascule")

TRIM_IDLE_S = 10.0

_UNLIMITED = LimitSettings(
    max_messages=None, max_bytes=None, max_age_s=None, min_free_disk_bytes=0, volatile_max_bytes=64 << 20, overflow="reject"
)


class Lanes:
    """Every queue by its name: ``all`` of them, and those ``of_bridges``, configured or not (P7).

    changed: those whose row is to be written.
    """

    def __init__(
        self,
        engine: Engine,
        settings: NodeSettings,
        numbers: QueueNumbers,
        events: EventLog,
        keeps_history: Callable[[str], bool],
        *,
        first_seq: int,
    ) -> None:
        """Open what is configured and what is there.

        keeps_history: whether one is kept of the queues of a bridge. first_seq: where a new queue begins.

        Raises:
            ConfigError, Unavailable: a queue cannot be opened.
        """
        self.all: dict[str, Lane] = {}
        self.of_bridges: dict[str, Lane] = {}
        self.changed: set[str] = set()
        self._engine = engine
        self._numbers = numbers
        self._events = events
        self._first_seq = first_seq
        self._keeps_history = keeps_history
        self._mark_holds = settings.persistence.sync == "full"
        self._know(settings)
        self._quarantine = Quarantine(Path(settings.node.data_dir) / "damaged")
        self._trimmed_s = 0.0
        self._open_all()

    def _know(self, settings: NodeSettings) -> None:
        self._limits: Mapping[str, LimitSettings] = {bridge.name: bridge.limits for bridge in settings.bridges}
        self._session_limits = _session_limits(settings)
        self._max_age_s = settings.limits.max_age_s
        self._configured = {queue_name(bridge.name, lane) for bridge in settings.bridges for lane in range(bridge.lanes)}

    def adopt(self, settings: NodeSettings) -> None:
        """These hold from now on: queues that are new are opened, and each has its new limits; none is closed (P7).

        Raises:
            ConfigError, Unavailable: a queue cannot be opened.
        """
        self._know(settings)
        for name, lane in self.all.items():
            lane.limits, lane.max_age_s = self._limits_of(name)
            lane.queue.qos0.max_bytes = lane.limits.volatile_max_bytes
        for name in sorted(self._configured - self.all.keys()):
            self.open(name)

    def _limits_of(self, name: str) -> tuple[LimitSettings, float | None]:
        """The limits of a queue, and how old may be what is handed out of it."""
        place = lane_of_queue(name)
        limits = self._limits.get(place.bridge, _UNLIMITED) if place is not None else self._session_limits
        return limits, limits.max_age_s if limits.max_age_s is not None else self._max_age_s

    def _open_all(self) -> None:
        """Open what is configured and what is there; what waits for others is kept, and named (P7)."""
        for name in sorted({*self._configured, *self._numbers.names()}):
            if lane_of_queue(name) is not None or session_of_queue(name) is not None:
                self.open(name)
        for name, lane in self.of_bridges.items():
            if lane.bridge not in self._limits and lane.queue.depth:
                log.warning("queue.unserved", extra={"queue": name, "messages": lane.queue.depth})

    def open(self, name: str) -> Lane:
        """Open the queue ``name``, or begin a new one. One whose row is damaged takes nothing and gives nothing."""
        place = lane_of_queue(name)
        limits, max_age_s = self._limits_of(name)
        number = self._numbers.number(name)
        row_damaged = False
        try:
            queue = Queue(
                self._engine,
                name,
                number,
                first_seq=self._first_seq,
                session=CLIENT_SESSION if place is None else "",
                volatile_max_bytes=limits.volatile_max_bytes,
                tail_known=self._engine.missing.tails.get(number, 0) if self._engine.missing is not None else 0,
                cache_bytes=CACHE_BYTES if place is not None else 0,
                on_change=lambda: self.changed.add(name),
                mark_holds=self._mark_holds,
                retained=place is not None and self._keeps_history(place.bridge),
            )
        except StorageDamaged as error:
            log.critical("queue.row_damaged", extra={"queue": name, "error": str(error), "kept": self._engine.keep_evidence()})
            nothing = LaneRow(head=0, tail=0, handed=0, trimmed=0)
            queue = Queue(self._engine, name, number, nothing, volatile_max_bytes=limits.volatile_max_bytes)
            row_damaged = True
        lane = Lane(
            queue=queue,
            limits=limits,
            peer=peer_of(name),
            bridge=place.bridge if place is not None else "",
            number=place.number if place is not None else 0,
            max_age_s=max_age_s,
            row_damaged=row_damaged,
            end_to_end=end_to_end() if place is not None else None,
        )
        self.all[name] = lane
        if place is not None:
            self.of_bridges[name] = lane
        return lane

    def take_changed(self) -> set[str]:
        """The queues whose row is to be written; from now on, those that change again."""
        changed, self.changed = self.changed, set()
        return changed

    # --- which there are ---

    def queue_that_stands(self, name: str) -> Queue | None:
        """The queue of a bridge's lane, if it is known where it stands."""
        lane = self.of_bridges.get(name)
        return None if lane is None or lane.row_damaged else lane.queue

    def is_configured(self, name: str) -> bool:
        """Whether a bridge of the configuration has this queue."""
        return name in self._configured

    def belongs_to_a_bridge(self, name: str) -> bool:
        """Whether ``name`` is a lane's queue or Connection."""
        return name in self.of_bridges or any(
            name == connection_name(lane.bridge, lane.number) for lane in self.of_bridges.values()
        )

    def wakes_at_s(self, names: Iterable[str], now_s: float) -> float:
        """When the first of ``names`` that could not be read is to be tried again; infinity for none."""
        wake_s = float("inf")
        for name in names:
            lane = self.all.get(name)
            if lane is not None and lane.unreadable is not None and lane.retry_s > now_s:
                wake_s = min(wake_s, lane.retry_s)
        return wake_s

    # --- what time brings ---

    def trim_idle(self, write: Write, now_s: float) -> None:
        """From time to time, delete with ``write`` what is settled of queues in which little happens."""
        if now_s - self._trimmed_s >= TRIM_IDLE_S:
            self._trimmed_s = now_s
            for lane in self.all.values():
                lane.queue.trim(write, idle=not lane.queue.depth)

    def tell_losses(self, names: Iterable[str], reopen: Callable[[Lane], None]) -> None:
        """Tell of what was found to be lost, once it is on record. reopen: has a lane opened anew."""
        for name in names:
            lane = self.all.get(name)
            if lane is None:
                continue
            for loss in lane.queue.take_losses():
                lane.losses += 1
                facts = {"queue": name, "first_seq": loss.start, "last_seq": loss.stop - 1, "messages": loss.messages}
                kept = self._engine.keep_evidence() if loss.unreadable else self._quarantine.keep(name, loss)
                log.critical("queue.messages_damaged", extra={**facts, "error": loss.error, "kept": kept})
                if lane.open and loss.session_forgotten:  # the remote is told to forget what it holds of them
                    reopen(lane)


def _session_limits(settings: NodeSettings) -> LimitSettings:
    """The limits of each session's queue. They never refuse a message to its publisher: the queue is one subscriber's own."""
    own = settings.sessions
    return LimitSettings(
        max_messages=own.queue_max_messages,
        max_bytes=own.queue_max_bytes,
        max_age_s=None,
        min_free_disk_bytes=0,
        volatile_max_bytes=0,
        overflow=own.overflow,
    )
