"""The queues of a node and who takes from them: they are opened, get credit, are handed out as far as it goes, and closed.

A message at the head of a queue is handed out, expires there, or gives way to newer ones. Damaged messages are taken out of their
queue; a queue that cannot be read for now is tried again by itself.

What their Forwarders and Connections settle leaves the queue with the next commit, each lane's in order. A settlement that needs
chunks that cannot be read for now waits, and so do those behind it.

store.answer-after-commit: ``LaneOpened``, ``HandOut`` and ``Settled`` are sent after the commit they tell of (P1).
store.old-epoch-changes-nothing: frames of an old epoch change nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from storage.engine.engine import Moment, Write
from storage.engine.queue_numbers import QueueNumbers
from storage.queue.admission import REJECT
from storage.queue.history import ROW_BYTES
from storage.queue.ledger import LedgerRow
from storage.queue.queue import CACHE_BYTES, Queue
from storage.queue.queue_damage import QueueDamage
from storage.queue.tail import former_rules
from storage.queue.waiting_messages import TooOld
from storage.store.dead_letter_queues import DeadLetterQueues, Remains
from storage.store.followed_messages import FollowedMessages
from storage.store.history_resends import Resends
from storage.store.lane import Lane, State
from storage.store.lane_changes import LaneChanges
from storage.store.next_commit import NextCommit
from storage.store.session_rows import Sessions
from storage.store.thinned_messages import ThinnedMessages
from wire.clock_steps import elapsed_ms
from wire.config_settings import BridgeSettings, LimitSettings, RuleSettings, SessionSettings, SettingsNow
from wire.errors import ConfigError, StorageDamaged, Unavailable
from wire.exchange.former_sessions import left_rows
from wire.frames.frame import Effects, Frame
from wire.frames.lanes import Credit, LaneAwaited, LaneClose, LaneOpen, LaneReopen, Settle
from wire.frames.names import CLIENT_SESSION, LANE_EPOCH_SHIFT, connection_name, lane_of_queue, queue_name, session_of_queue
from wire.frames.supervision import ResetMarkers
from wire.frames.traces import TraceMark
from wire.routing.awaited_lanes import AwaitedLanes
from wire.routing.live_lanes import LiveLanes
from wire.status.bridges import QueueFigures, RetainedHistory
from wire.status.outcomes import REDELIVERED, is_dead

log = logging.getLogger("bascule")

TRIM_IDLE_S = 10.0
ISOLATED_MAX = 1000  # damaged places of a queue in one turn

_UNLIMITED = LimitSettings(
    max_messages=None, max_bytes=None, max_age_s=None, min_free_disk_bytes=0, volatile_max_bytes=64 << 20, overflow="reject"
)


class Lanes:
    """Every queue by its name: ``all`` of them, and those ``of_bridges``, configured or not (P7).

    resends: what was sent again, by the bridge that got it. changed: those whose row is to be written. ready: those in which
    something may have come to be handed out. pending: those whose peer is owed ``LaneOpened`` or ``Settled``. changes: what waits
    because the number of a bridge's lanes has changed. live: what leaves beside a backlog. followed: the messages that an operator
    wants to see. unsettled: queues of which settlements wait until they can be read. Of these the first comes first. durable:
    whether what is committed outlives the process.
    """

    def __init__(
        self,
        next_commit: NextCommit,
        settings: SettingsNow,
        numbers: QueueNumbers,
        dead_letters: DeadLetterQueues,
        sessions: Sessions,
        *,
        keeps_history: Callable[[str], bool],
        first_seq: int,
    ) -> None:
        """Open what is configured and what is there.

        keeps_history: whether one is kept of the queues of a bridge. first_seq: where a new queue begins.

        Raises:
            ConfigError, Unavailable: a queue cannot be opened.
        """
        self.all: dict[str, Lane] = {}
        self.of_bridges: dict[str, Lane] = {}
        self.resends: dict[str, Resends] = {}
        self.changed: dict[str, None] = {}
        self.ready: dict[str, None] = {}
        self.pending: dict[str, None] = {}
        self.unsettled: dict[str, None] = {}
        self.followed = FollowedMessages(self.all)
        self.durable = next_commit.engine.durable
        self._engine = next_commit.engine
        self._numbers = numbers
        self._next = next_commit
        self._dead_letters = dead_letters
        self._sessions = sessions
        self._written: dict[str, None] = {}  # those whose row is in the open write
        self._effects: Effects = []
        self._first_seq = first_seq
        self._keeps_history = keeps_history
        self._settings = settings
        self._quarantine = QueueDamage(Path(settings.now.node.data_dir) / "damaged")
        self._trimmed_s = 0.0
        self._awaited = AwaitedLanes()
        self._open_all()
        self.thinned = ThinnedMessages(self.of_bridges, next_commit, settings, self.ready.setdefault)
        self.changes = LaneChanges(self._engine, settings, self.of_bridges)
        self.live = LiveLanes(settings, self.of_bridges)

    def settings_changed(self) -> None:
        """Others hold: queues that are new are opened, and each has its new limits; none is closed (P7).

        Raises:
            ConfigError, Unavailable: a queue cannot be opened.
        """
        bridges = self.configured
        for name, lane in self.all.items():
            lane.limit(*self._limits_of(name))
            if lane.bridge and lane.bridge not in bridges:
                continue  # kept as before: its bridge goes on until it hears that it is removed
            if lane.keeps_by(synced=self._is_synced(name)):
                self._strengthen(lane)
        for name in self._queue_names():
            if name not in self.all:
                self.open(name)
        self.changes.settings_changed()
        self.live.settings_changed()
        self.all_ready()

    def _is_synced(self, name: str) -> bool:
        """Whether what is answered of a queue is to survive the loss of power."""
        place, durabilities = lane_of_queue(name), self._next.durabilities
        return (durabilities.own if place is None else durabilities.of_bridge(place.bridge)).synced

    def _strengthen(self, lane: Lane) -> None:
        """A strict bridge has come back to a queue that was kept without it: what was committed of it is synced at once."""
        lane.queue.change()
        self._next.promise(synced=True)
        self._next.time.hurry()
        self._next.time.want(0.0)

    def _limits_of(self, name: str) -> tuple[LimitSettings, float | None, str]:
        """The limits of a queue, how old may be what is handed out of it, and what the limits count for."""
        place, settings = lane_of_queue(name), self._settings.now
        if place is None:
            room, limits = "", _session_limits(settings.sessions)
        else:
            known = (bridge.limits_of(place.label) for bridge in settings.bridges if bridge.name == place.bridge)
            room, limits = next(known, (place.bridge, _UNLIMITED))
        return limits, limits.max_age_s if limits.max_age_s is not None else settings.limits.max_age_s, room

    def _queue_names(self) -> list[str]:
        return sorted(queue_name(bridge.name, lane) for bridge in self._settings.now.bridges for lane in bridge.lane_labels)

    def _open_all(self) -> None:
        """Open what is configured and what is there; what waits for others is kept, and named (P7)."""
        for name in sorted({*self._queue_names(), *self._numbers.names()}):
            if lane_of_queue(name) is not None or session_of_queue(name) is not None:
                self.open(name)
        for name, lane in self.of_bridges.items():
            if lane.queue.depth and lane.bridge not in self.configured:
                log.warning("queue.unserved", extra={"queue": name, "messages": lane.queue.depth})

    def open(self, name: str) -> Lane:
        """Open the queue ``name``, or begin a new one. One whose row is damaged takes nothing and gives nothing."""
        place = lane_of_queue(name)
        limits, max_age_s, room = self._limits_of(name)
        number = self._numbers.number(name)
        readable = True
        synced = self._is_synced(name)
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
                on_change=partial(self.changed.setdefault, name),
                mark_holds=synced,
                retained=place is not None and self._keeps_history(place.bridge),
            )
        except StorageDamaged as error:
            log.critical("queue.row_damaged", extra={"queue": name, "error": str(error), "kept": self._engine.keep_evidence()})
            nothing = LedgerRow(head=0, tail=0, handed=0, trimmed=0)
            queue = Queue(self._engine, name, number, nothing, volatile_max_bytes=limits.volatile_max_bytes)
            readable = False
        lane = Lane(queue, limits, max_age_s, room=room, readable=readable, synced=synced)
        self.all[name] = lane
        if place is not None:
            self.of_bridges[name] = lane
            if place.bridge not in self.resends:
                self.resends[place.bridge] = Resends(self._engine, place.bridge)
        return lane

    def remove(self, name: str) -> Lane | None:
        """The queue of a session goes; None if there is none."""
        return self.all.pop(name, None)

    # --- which there are ---

    def queue_that_stands(self, name: str) -> Queue | None:
        """The queue of a bridge's lane, if it is known where it stands."""
        lane = self.of_bridges.get(name)
        return None if lane is None or lane.is_unreadable else lane.queue

    @property
    def configured(self) -> dict[str, BridgeSettings]:
        """The bridges of the configuration, by name."""
        return {bridge.name: bridge for bridge in self._settings.now.bridges}

    def is_configured(self, name: str) -> bool:
        """Whether a bridge of the configuration has this queue."""
        lane = self.of_bridges[name]
        bridge = self.configured.get(lane.bridge)
        return bridge is not None and lane.label in bridge.lane_labels

    def overflow_of(self, name: str) -> str:
        """What a queue does with QoS 1 and 2 where the node is full and refuses: one of a bridge keeps what was taken for it."""
        lane = self.all[name]
        return REJECT if lane.bridge else lane.limits.overflow

    def belongs_to_a_bridge(self, name: str) -> bool:
        """Whether ``name`` is a lane's queue or Connection."""
        return name in self.of_bridges or any(name == connection_name(lane.bridge, lane.label) for lane in self.of_bridges.values())

    @property
    def kept_bytes(self) -> int:
        """About what the disk keeps of them; a row takes about what a settlement does."""
        return sum(lane.queue.kept_bytes + ROW_BYTES for lane in self.all.values())

    # --- frames ---

    @property
    def applies(self) -> dict[type[Frame], Callable[[Any], None]]:
        """The receiver of each frame."""
        return {
            Settle: self._on_settle,
            Credit: self._on_credit,
            LaneOpen: self._begin,
            LaneClose: self._on_close,
            ResetMarkers: self._on_reset,
            LaneAwaited: self._on_awaited,
            TraceMark: self.followed.mark,
        }

    def _on_close(self, frame: LaneClose) -> None:
        """Nobody takes from it for now."""
        lane = self.all.get(frame.queue)
        if lane is not None and frame.epoch == lane.epoch and not lane.is_unreadable:
            lane.close(frame.sent_below)

    def _on_reset(self, frame: ResetMarkers) -> None:
        """The markers go when the next Forwarder opens the lane: what this one had settled still counts."""
        lane = self.all.get(frame.queue)
        if lane is not None and lane.epoch >> LANE_EPOCH_SHIFT <= frame.epoch:
            lane.leave()

    def _begin(self, frame: LaneOpen) -> None:
        """A lane is opened, or opened anew, which is answered after the next commit."""
        lane = self.all.get(frame.queue)
        if lane is None:
            if session_of_queue(frame.queue) is not None:
                return  # the session has ended, and its client is told so
            lane = self.open(frame.queue)
        if frame.epoch > lane.epoch and not lane.is_unreadable:
            self.pending[frame.queue] = None
            lane.begin(frame.epoch)

    def _on_credit(self, frame: Credit) -> None:
        """More may be handed out."""
        lane = self.all.get(frame.queue)
        if lane is not None and lane.is_open and frame.epoch == lane.epoch:
            lane.grant(frame.messages, frame.size_bytes, self._next.wall_ms)
            if frame.messages:
                self.ready[frame.queue] = None

    def _on_awaited(self, frame: LaneAwaited) -> None:
        """Its link is closed by choice until enough waits."""
        lane = self.of_bridges.get(frame.queue)
        if lane is not None and frame.epoch == lane.epoch:
            self._awaited.add(frame, connection_name(lane.bridge, lane.label))

    def _waiting(self, name: str) -> tuple[int, int, int]:
        """The epoch of a bridge's lane, and the messages and bytes that wait in it."""
        lane = self.of_bridges[name]
        held = self.thinned.held(name), self.thinned.size_bytes(name)
        return lane.epoch, lane.queue.depth + held[0], lane.queue.size_bytes + held[1]

    def on_purged(self, name: str, *, whole: bool) -> None:
        """Queue ``name`` was purged: hand out what comes now; where the ``whole`` queue went, once its lane is opened anew."""
        lane = self.all[name]
        self.ready[name] = None
        if lane.purged(whole=whole):
            self._reopen(lane)

    def _reopen(self, lane: Lane) -> None:
        """Have who takes from the queue open the lane anew, and hand out nothing before."""
        lane.leave()
        self._effects.append((lane.peer, LaneReopen(queue=lane.queue.name)))

    # --- what is settled ---

    def _on_settle(self, frame: Settle) -> None:
        lane = self.all.get(frame.queue)
        if lane is not None and lane.wait(frame):
            self._settle(frame.queue, lane, self._next.now_s, self._next.wall_ms)
        if self.followed.all:
            self.followed.settling(frame)

    def collect(self, now_s: float, wall_ms: int) -> None:
        """Try again, where it is time, what could not be settled because it could not be read."""
        for name in tuple(self.unsettled):
            lane = self.all.get(name)
            if lane is None or not lane.settles:  # the session has ended, or the lane was opened anew
                self.unsettled.pop(name, None)
            elif now_s >= lane.retry_s:
                self._next.time.hurry()  # its answer has waited long enough
                self._settle(name, lane, now_s, wall_ms)
                if not lane.settles:
                    self.unsettled.pop(name, None)
                    self.ready[name] = None
                    lane.mark_readable()

    def _settle(self, name: str, lane: Lane, now_s: float, wall_ms: int) -> None:
        """Apply what waits of ``lane`` in order, until one needs what cannot be read for now; that one and the rest wait."""
        while lane.settles:
            frame = lane.settles[0]
            remains: list[Remains] | None = None
            try:
                remains = self._read_remains(frame, lane.queue)
                self._apply(frame, lane, remains)
            except ConfigError as error:
                self.unsettled.pop(name, None)
                lane.stop(error)
                return
            except Unavailable as error:
                self.unsettled[name] = None
                if remains is None:
                    lane.mark_unreadable(error, now_s)
                else:  # it was read, so this is more than that; what is applied of it waits with the open write
                    self._next.disk.refuses(error, now_s, wall_ms)
                return
            lane.on_settled()

    def _read_remains(self, frame: Settle, queue: Queue) -> list[Remains]:
        """Do the reading that ``frame`` needs before anything changes; what is to be kept of those that died, in their order."""
        remains = []
        for outcome, ranges in frame.settled:
            if is_dead(outcome):
                remains.append(self._dead_letters.read(queue, ranges))
            elif outcome != REDELIVERED:
                queue.preload_waiting(ranges)
        return remains

    def _apply(self, frame: Settle, lane: Lane, remains: Iterable[Remains]) -> None:
        queue, by, dead = lane.queue, lane.by[frame.number > 0], iter(remains)
        for outcome, ranges in frame.settled:
            if is_dead(outcome):
                self._dead_letters.keep(lane.bridge, queue, outcome, ranges, next(dead), by=by)
            elif outcome != REDELIVERED:
                lane.settle(outcome, ranges, by=by, times=frame.times)
        for outcome, ranges in frame.settled:
            if outcome == REDELIVERED:
                queue.count_redelivered(ranges, by=by)
        if frame.session is not None:  # the Forwarder, which settles QoS 0, knows neither session nor generation
            if queue.sent.new_session(frame.generation, frame.session, left_rows(frame.left)):
                self._sessions.forget_unknown(queue)
        elif not frame.released:
            return
        if frame.released:
            queue.release(frame.released)
        lane.owe(frame.number)
        self.pending[queue.name] = None
        self._next.promise(synced=lane.synced)
        if self._next.durabilities.differ:
            self._next.time.want(self._next.durabilities.of_bridge(lane.bridge).flush_period_s)

    # --- what leaves their heads ---

    def all_ready(self) -> None:
        """Every queue may have something."""
        self.ready.update(dict.fromkeys(self.all))

    def hand_out(self, now_s: float, wall_ms: int) -> Effects:
        """Hand out what may be; ``at_once`` of the next commit tells whether more can be after it."""
        effects: Effects = []
        if self.changes.waiting:
            self.ready.update(dict.fromkeys(self.changes.advance()))
        for name in tuple(self.ready):
            self.ready.pop(name, None)
            lane = self.all.get(name)
            if lane is None:
                continue  # the session has ended
            if lane.state is not State.OPEN or lane.discarding:
                continue
            if lane.unread is not None and now_s < lane.retry_s:
                self.ready[name] = None
                continue
            self.read(lane, now_s, self._hand_out, name, lane, wall_ms, effects)
            if lane.queue.losses:
                self._next.go_on(synced=lane.synced)  # who takes from it may have to open the lane anew
        return effects

    def _hand_out(self, name: str, lane: Lane, wall_ms: int, effects: Effects) -> None:
        queue = lane.queue
        too_old = _older_than(lane.max_age_s, wall_ms) if lane.max_age_s is not None else None
        below = self.changes.below(lane) if self.changes.waiting else None
        more = True
        while more and not lane.discarding:
            messages = lane.credit_messages - lane.given_messages
            size_bytes = lane.credit_bytes - lane.given_bytes
            if messages <= 0 or size_bytes <= 0:
                return
            on_disk_before = queue.counts.stored
            try:
                pieces = queue.hand_out(messages, size_bytes, too_old=too_old, below=below)
            finally:
                if queue.counts.stored < on_disk_before and self._hold_behind(name, lane, on_disk_before):
                    self._next.go_on(synced=lane.synced)
            if queue.sent.needs_sent_mark:
                self._next.go_on(synced=lane.synced)
                self.changed[name] = None
                self.ready[name] = None
            if pieces:
                if lane.unread is not None:
                    lane.mark_readable()
                effects += lane.hand_out(pieces)
            more = queue.waits.cut_short  # nobody else would see to what could not be read

    def expire(self, now_s: float, wall_ms: int) -> None:
        """Take what has grown too old out of the queues that nobody takes from."""
        for name, lane in self.all.items():
            if lane.max_age_s is not None and not lane.is_stopped and now_s >= lane.retry_s and lane.queue.waiting():
                self.read(lane, now_s, self._expire, name, lane, _older_than(lane.max_age_s, wall_ms))

    def _expire(self, name: str, lane: Lane, too_old: TooOld) -> None:
        on_disk_before = lane.queue.depth_on_disk
        try:
            lane.queue.expire(too_old)
        finally:
            if self._hold_behind(name, lane, on_disk_before):
                self._next.go_on(synced=lane.synced)

    def drop_oldest(self, name: str, messages: int, size_bytes: int, now_s: float) -> tuple[int, int]:
        """Drop the oldest of a queue to make room for so much; the messages and the bytes by which it is smaller now."""
        name = self.live.gives_way(name)
        lane = self.all[name]
        if lane.is_stopped:
            return 0, 0
        queue = lane.queue
        messages_before, bytes_before, on_disk_before = queue.depth, queue.size_bytes, queue.depth_on_disk
        try:
            queue.drop_oldest(messages, size_bytes)
        except StorageDamaged as error:
            queue.isolate(error)
        except Unavailable as error:
            lane.mark_unreadable(error, now_s)
        self._hold_behind(name, lane, on_disk_before)
        return messages_before - queue.depth, bytes_before - queue.size_bytes

    def _hold_behind(self, name: str, lane: Lane, on_disk_before: int) -> bool:
        """Whether the queue has lost some that were on disk: then nothing behind them is handed out before the next commit, synced.

        A crash would bring them back, and they would leave behind newer ones of their topic (P4).
        """
        if lane.queue.depth_on_disk >= on_disk_before or not self.durable:
            return False
        self._next.survive(synced=lane.synced)
        if not lane.discarding:
            lane.discard(on_record=False)
            self._next.write.on_commit(partial(self._on_discarded, name))
        return True

    def _on_discarded(self, name: str) -> None:
        lane = self.all.get(name)
        if lane is not None:
            lane.discard(on_record=True)
            self.ready[name] = None

    def read(self, lane: Lane, now_s: float, action: Callable[..., None], *arguments: Any) -> None:
        """Do ``action`` on a queue; what is damaged is taken out of it. One that cannot be read for now is tried again, alone."""
        try:
            for _ in range(ISOLATED_MAX):
                try:
                    action(*arguments)
                    return
                except StorageDamaged as error:
                    lane.queue.isolate(error)
            self.ready[lane.queue.name] = None
        except ConfigError as error:
            lane.stop(error)
        except Unavailable as error:
            self.ready[lane.queue.name] = None
            lane.mark_unreadable(error, now_s)

    # --- a commit ---

    def write_rows(self, write: Write, moment: Moment) -> None:
        """Put what has changed into ``write``."""
        changed = tuple(self.changed)
        self.changed.clear()
        for name in changed:
            self._written[name] = None
            lane = self.all.get(name)
            if lane is not None and lane.state is not State.UNREADABLE and (lane.queue.changed or lane.queue.sent.needs_sent_mark):
                lane.queue.trimming.trim(write, idle=False)
                ahead = lane.is_open and lane.has_credit and (not self.changes.waiting or self.changes.below(lane) is None)
                lane.queue.write_row(write, strong=moment.strong or not lane.synced, ahead=ahead, wall_ms=moment.wall_ms)
                if lane.bridge:  # no evidence is kept of queues that come and go
                    write.reaches(lane.queue.number, lane.queue.appended.seq)
        if self.changes.unwritten:
            self.changes.write_rows(write)

    def on_committed(self) -> None:
        """Releases are on record, and losses that were found in the queues that have changed: tell of them."""
        for name in self.pending:
            lane = self.all.get(name)
            if lane is not None:
                lane.on_committed()
        written, self._written = self._written, {}
        for name in written:
            lane = self.all.get(name)
            if lane is None or not lane.queue.losses:
                continue
            for loss in lane.take_losses():
                facts = {"queue": name, "first_seq": loss.start, "last_seq": loss.stop - 1, "messages": loss.messages}
                kept = self._engine.keep_evidence() if loss.unreadable else self._quarantine.keep(name, loss)
                log.critical("queue.messages_damaged", extra={**facts, "error": loss.error, "kept": kept})
                if lane.is_open and loss.session_forgotten:  # the remote is told to forget what it holds of them
                    self._reopen(lane)

    def committed(self, now_s: float, wall_ms: int) -> Effects:
        """What may be sent: answers that need no commit any more, then what is handed out."""
        effects, self._effects = self._effects, []
        for name in tuple(self.pending):
            lane = self.all.get(name)
            receives = lane is not None and lane.state is State.OPENING and self._sessions.has_received(lane.queue)
            found = [] if lane is None else lane.answer(receives=receives)
            if found is not None:  # a lane that is gone is owed nothing: the session has ended
                self.pending.pop(name, None)
                effects += found
        if not self.followed.all:
            if self.ready or self.changes.waiting:
                effects += self.hand_out(now_s, wall_ms)
            return effects
        effects += self.followed.take_effects()  # a lane is told what to follow before it gets it
        effects += self.hand_out(now_s, wall_ms)
        commit = self._next
        facts = {"commit": commit.count, "took_ms": round(commit.last_s * 1000, 3)}
        return effects + self.followed.report_progress(now_s + commit.last_s, committed=not commit.awaited, facts=facts)

    def went_back(self) -> None:
        """Commits are missing in the store that was opened: put on record where everything stands."""
        self.changes.went_back()
        for lane in self.all.values():
            lane.queue.change()

    # --- what time brings ---

    def wakes_at_s(self, now_s: float) -> float:
        """The time at which the first that could not be read is to be read again; infinity for none."""
        wake_s = float("inf")
        for name in (*self.ready, *self.unsettled):
            lane = self.all.get(name)
            if lane is not None and lane.unread is not None and lane.retry_s > now_s:
                wake_s = min(wake_s, lane.retry_s)
        return wake_s

    def tick(self, write: Write, now_s: float, wall_ms: int) -> None:
        """Housekeeping: what has grown too old leaves; from time to time, what is settled of queues in which little happens is
        deleted with ``write``.
        """
        self.expire(now_s, wall_ms)
        if self.thinned.queues:
            self.thinned.tick(wall_ms)
        self._effects += self._awaited.look(self._waiting, now_s)
        self.live.look(lambda name: self._oldest_ms(self.all[name], now_s), wall_ms)
        if now_s - self._trimmed_s >= TRIM_IDLE_S:
            self._trimmed_s = now_s
            for lane in self.all.values():
                lane.queue.trimming.trim(write, idle=not lane.queue.depth)

    @property
    def on_disk(self) -> int:
        """How many messages are on disk."""
        queues = (lane.queue for lane in self.all.values() if lane.queue.depth)
        return sum(queue.depth - queue.in_memory()[0] for queue in queues)

    def figures(self, wall_ms: int) -> dict[str, QueueFigures]:
        """The figures of each bridge's queues. Nothing changes but for damage that is met."""
        rules = {name: bridge.local_subscriptions for name, bridge in self.configured.items()}
        refused = self._next.disk.retry_s is not None
        found = {}
        for name, lane in self.of_bridges.items():
            oldest_ms = None if refused else self._oldest_ms(lane, self._next.now_s)
            found[name] = self._figures_of(lane, oldest_ms, rules.get(lane.bridge, ()), wall_ms)
        return found

    def _figures_of(self, lane: Lane, oldest_ms: int | None, rules: Sequence[RuleSettings], wall_ms: int) -> QueueFigures:
        queue, ledger, history = lane.queue, lane.queue.ledger, lane.queue.trimming
        held = self.thinned.held(queue.name)
        return QueueFigures(
            depth=queue.depth + held,
            bytes=queue.size_bytes + self.thinned.size_bytes(queue.name),
            held=held,
            untracked=self.thinned.untracked(queue.name),
            oldest_age_s=elapsed_ms(oldest_ms, wall_ms) / 1000 if oldest_ms is not None else None,
            accepted=ledger.accepted + held,
            delivered=ledger.delivered,
            expired=ledger.expired,
            dropped=dict(ledger.dropped),
            dead_lettered=sum(ledger.dead.values()),
            redelivered=ledger.redelivered,
            refused=ledger.refused,
            raised=ledger.raised,
            resent=self.resends[lane.bridge].messages.get(lane.label, 0),
            from_retained=ledger.from_retained,
            ledger_closes=ledger.closes(queue.depth),
            end_to_end_seconds=lane.end_to_end.figures() if lane.end_to_end is not None else None,
            waits_for_lanes=tuple(self.changes.waits_for(lane)),
            backlog=queue.name in self.live.backlogs,
            former_rules=former_rules(queue, rules),
            remote_filters=self._sessions.filters_of(queue),
            retained=RetainedHistory(messages=history.retained(queue.head), bytes=history.size_bytes),
        )

    def _oldest_ms(self, lane: Lane, now_s: float) -> int | None:
        oldest: list[int | None] = [None]
        if not lane.is_stopped and lane.unread is None:
            self.read(lane, now_s, lambda: oldest.__setitem__(0, lane.queue.oldest_ms()))
        return oldest[0]


def _session_limits(own: SessionSettings) -> LimitSettings:
    """The limits of each session's queue. They never refuse a message to its publisher: the queue is one subscriber's own."""
    return LimitSettings(
        max_messages=own.queue_max_messages,
        max_bytes=own.queue_max_bytes,
        max_age_s=None,
        min_free_disk_bytes=0,
        volatile_max_bytes=0,
        overflow=own.overflow,
    )


def _older_than(max_age_s: float, wall_ms: int) -> TooOld:
    return lambda accepted_ms: elapsed_ms(accepted_ms, wall_ms) > max_age_s * 1000
