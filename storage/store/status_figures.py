"""What ``bascule status`` shows of the store. It looks at every part, and changes none but for damage that it meets."""

from __future__ import annotations

from storage.engine.engine import Engine
from storage.queue.queued_ways import former_rules
from storage.store.commits import Commits
from storage.store.dead_letter_queues import DeadLetterQueues
from storage.store.disk_trouble import Disk, refusal_of
from storage.store.event_log import EventLog
from storage.store.lane import Lane
from storage.store.lanes import Lanes
from storage.store.local_sessions import LocalSessions
from storage.store.receiving_link import Senders
from storage.store.session_queues import SessionQueues
from wire.clock_steps import elapsed_ms
from wire.figure import joined
from wire.settings import NodeSettings
from wire.status.bridges import QueueFigures, RetainedHistory
from wire.status.states import StoreState
from wire.status.store import StoreReport


class Figures:
    """The figures of all parts of a store."""

    def __init__(
        self,
        engine: Engine,
        settings: NodeSettings,
        disk: Disk,
        lanes: Lanes,
        senders: Senders,
        dead_letters: DeadLetterQueues,
        local_sessions: LocalSessions,
        session_queues: SessionQueues,
        events: EventLog,
        commits: Commits,
    ) -> None:
        self._engine = engine
        self._mode = settings.persistence.mode
        self.adopt(settings)
        self._disk = disk
        self._lanes = lanes
        self._senders = senders
        self._dead_letters = dead_letters
        self._local_sessions = local_sessions
        self._session_queues = session_queues
        self._events = events
        self._commits = commits

    def adopt(self, settings: NodeSettings) -> None:
        """These hold from now on."""
        self._rules = {bridge.name: bridge.local_subscriptions for bridge in settings.bridges}

    def status(self, now_s: float, wall_ms: int) -> StoreReport:
        """All of them, as they are now."""
        held_back, known = self._senders.held_back(), self._engine.known
        unreadable = (lane.unread for lane in self._lanes.all.values() if lane.unread is not None)
        trouble = self._disk.refusal or next(unreadable, None)
        running = StoreState.DISK_LOW if self._disk.is_low else StoreState.RUNNING
        state, error = (running, "") if trouble is None else refusal_of(trouble)
        return joined(
            StoreReport,
            self._commits.figures(),
            state=state,
            error=error,
            mode=self._mode,
            since_ms=known.since_ms or None,
            former_store=known.former,
            lost=known.lost,
            disk_free_bytes=self._disk.free_bytes,
            disk_needed_bytes=self._disk.needed_bytes,
            damaged_files=self._engine.kept,
            events=self._events.figures(),
            rocksdb=self._engine.figures(),
            sessions=self._local_sessions.figures(self._session_queues.figures()),
            queues={name: self._of_queue(lane, held_back[name], now_s, wall_ms) for name, lane in self._lanes.of_bridges.items()},
            dead_letters=self._dead_letters.figures(),
        )

    def _of_queue(self, lane: Lane, held_back: int, now_s: float, wall_ms: int) -> QueueFigures:
        queue, ledger, history = lane.queue, lane.queue.ledger, lane.queue.trimming
        oldest_ms = self._oldest_ms(lane, now_s)
        return QueueFigures(
            depth=queue.depth,
            bytes=queue.size_bytes,
            oldest_age_s=elapsed_ms(oldest_ms, wall_ms) / 1000 if oldest_ms is not None else None,
            accepted=ledger.accepted,
            delivered=ledger.delivered,
            expired=ledger.expired,
            dropped=dict(ledger.dropped),
            dead_lettered=sum(ledger.dead.values()),
            redelivered=ledger.redelivered,
            refused=ledger.refused,
            held_back=held_back,
            ledger_closes=ledger.closes(queue.depth),
            end_to_end_seconds=lane.end_to_end.figures() if lane.end_to_end is not None else None,
            waits_for_lanes=tuple(self._lanes.changes.waits_for(lane)),
            former_rules=former_rules(queue, self._rules.get(lane.bridge, ())),
            retained=RetainedHistory(messages=history.retained(queue.head), bytes=history.size_bytes),
        )

    def _oldest_ms(self, lane: Lane, now_s: float) -> int | None:
        oldest: list[int | None] = [None]
        if not lane.is_stopped and lane.unread is None and self._disk.retry_s is None:
            self._lanes.read(lane, now_s, lambda: oldest.__setitem__(0, lane.queue.oldest_ms()))
        return oldest[0]
