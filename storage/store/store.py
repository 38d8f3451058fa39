"""The store: it takes frames, commits, and answers. It takes them as they come, commits once a turn, and answers; no socket, no
thread.

A turn is: ``receive`` each frame, then ``admit`` (decides on all that waits and puts it into the next commit), then ``commit``
(makes that durable and returns what is to be sent). With ``acknowledge: fast``, ``admit`` returns acknowledgements.

Frames come in by ``intake``, go out by ``lanes``, and settle by ``settlements``. They put what they change into the same
``next_commit``. Here is in which order they have their turn.

store.answer-after-commit [P1, P2, P3]: ``Committed`` (unless ``fast``), ``Settled``, ``LaneOpened`` and what sessions are answered
    are returned after the commit they tell of (P1).
store.hand-out-after-commit [P2, P3]: nothing is handed out before its commit.
store.old-epoch-changes-nothing [P2, P3]: frames of an old epoch change nothing.
store.refused-write-kept [P1, P6]: when the disk refuses, the open write is kept and committed again later: no acknowledgement, no
    loss, no gap in the numbers.
"""

from __future__ import annotations

from collections.abc import Iterator

from storage.engine.engine import Engine
from storage.engine.keys import QueueNumbers, open_format
from storage.store.checkpoint import CheckpointStands, QueueStands, note, take
from storage.store.client_room import ClientRoom
from storage.store.commands import Commands
from storage.store.commits import Commits
from storage.store.dead_letter_queues import DeadLetterQueues
from storage.store.disk_trouble import Disk, refusal_of
from storage.store.event_log import EventLog, event_of
from storage.store.history_retention import Retention
from storage.store.intake import Intake
from storage.store.lanes import Lanes
from storage.store.local_sessions import LocalSessions
from storage.store.next_commit import NextCommit
from storage.store.queue_commands import QueueCommands
from storage.store.receiving_link import ReceivingLinks
from storage.store.room_left import Rooms
from storage.store.session_commands import SessionCommands
from storage.store.settlements import Settlements
from storage.store.space import Space
from storage.store.status_figures import LaneFigures
from wire.errors import DiskFull, Unavailable
from wire.figure import joined
from wire.frames.base import Effects, Frame
from wire.frames.intake import Append, RoomWanted, SenderResumes, SessionClose, SessionOpen, SessionsWanted
from wire.frames.lanes import Credit, LaneClose, LaneOpen, Settle
from wire.frames.local_sessions import RetainedWanted, SubscriptionsAdd, SubscriptionsDrop
from wire.frames.names import LISTENER
from wire.frames.supervision import NodeEvents, QueueCommand, ResetMarkers, SessionCommand
from wire.frames.tracing import TraceMark
from wire.settings import NodeSettings, SettingsNow
from wire.status.states import StoreState
from wire.status.store import StoreReport

TICK_S = 1.0
EARLY_COMMIT_BYTES = 16 << 20  # a write this large does not wait for the flush period


class Store:
    """Everything that a node keeps, over one engine. Its public parts are there to be looked at."""

    def __init__(self, engine: Engine, settings: SettingsNow, epoch: int) -> None:
        """Open every queue, configured or not (P7).

        epoch: this life of the store, which its answers name; where nothing is durable it keeps sequences from being used twice.

        Raises:
            StorageDamaged, ConfigError, Unavailable: the store cannot be opened.
        """
        self.identity, new = open_format(engine)
        self._engine = engine
        self._epoch = epoch
        own = settings.now.persistence
        self.acknowledges_fast = own.acknowledge == "fast"
        self._now_s, self._wall_ms = 0.0, 0
        self._effects: Effects = []
        numbers = QueueNumbers(engine)
        senders = self.senders = ReceivingLinks(engine, lenient=not engine.durable or _may_forget(settings.now))
        events = self.events = EventLog(engine, settings)
        disk = self._disk = Disk(engine, events, settings)
        commit = self.next_commit = NextCommit(disk, settings)
        self._retention = Retention(engine, settings, events)
        lanes = self.lanes = Lanes(
            engine,
            settings,
            numbers,
            commit,
            keeps_history=self._retention.wants,
            send=self._effects.append,
            first_seq=0 if engine.durable else epoch << 32,
        )
        dead_letters = self.dead_letters = DeadLetterQueues(engine, numbers, settings)
        local = self._local_sessions = LocalSessions(engine, settings, numbers, lanes, commit, epoch=epoch)
        sessions = self.sessions = local.rows
        self._space = Space(engine, disk, (lanes, dead_letters, local.pieces.retained, events))
        self._settlements = Settlements(lanes, dead_letters, local.remote, commit)
        rooms = self._rooms = Rooms(lanes, local.queues, disk, settings)
        room = self._client_room = ClientRoom(rooms, settings, overflowed=events.on_overflowed, epoch=epoch)
        self.intake = Intake(senders, lanes, room, commit, local, epoch=epoch)
        commits = self.commits = Commits(engine, own, commit, lanes, (dead_letters, senders, sessions, events))
        on_queues = self._queue_commands = QueueCommands(lanes, dead_letters, events, commit, room)
        self._commands = Commands(commits, commit, on_queues, SessionCommands(sessions, local, lanes, events))
        self._mode = own.mode
        self._figures = LaneFigures(lanes, settings)
        if new and (known := engine.known).node:
            events.note(known.since_ms, "store.begun", actor="store", reason=known.former, count=known.lost)
        if engine.missing is not None:
            self._went_back()
            commits.commit(self._now_s, 0)  # at that time no dead letter is old

    def settings_changed(self) -> None:
        """Others hold from now on, for all that comes from here on and all that is kept; queues that are new are opened.

        The settings with which a store was opened stay: where and how it keeps things, and of which queues it keeps a history.

        Raises:
            ConfigError, Unavailable: a queue cannot be opened, or what is on record of its lanes cannot be read.
        """
        for part in (self._retention, self.lanes, self._local_sessions, self._client_room):
            part.settings_changed()

    # --- a turn ---

    def receive(self, frame: Frame) -> None:
        """Take one frame. Nothing of it is durable, and nothing is answered, before ``commit``."""
        self.next_commit.time.take(frame)
        match frame:
            case Append():
                self.intake.append(frame)
            case Settle():
                self._settlements.receive(frame, self._now_s, self._wall_ms)
                if self.intake.followed.all:
                    self.intake.followed.settling(frame, self._now_s)
            case Credit():
                self.lanes.credit(frame, self._wall_ms)
            case RoomWanted():
                self._client_room.on_asked(frame)
            case _:
                self._rooms.forget()
                self._receive_rare(frame)

    def _receive_rare(self, frame: Frame) -> None:
        match frame:
            case LaneOpen() | LaneClose() | ResetMarkers():
                self.lanes.take(frame)
            case SessionOpen() | SessionClose() | SessionsWanted() | SubscriptionsAdd() | SubscriptionsDrop():
                self.intake.receive(frame)
            case RetainedWanted():
                self._local_sessions.pieces.asked.append(frame)
            case SenderResumes():
                self.senders.resume(frame.sender, frame.epoch, frame.number)
                if frame.sender == LISTENER:
                    self._client_room.resumes(frame.epoch)
            case QueueCommand() | SessionCommand():
                self._commands.receive(frame)
            case TraceMark():
                self.intake.followed.mark(frame)
            case NodeEvents():
                for event in frame.events:
                    self.events.add(event_of(event))
            case _:
                raise AssertionError(f"not for a QueueStore: {frame}")

    def admit(self, now_s: float, wall_ms: int) -> Effects:
        """Decide on what waits and put it into the next commit. Acknowledgements, where they need not wait for it."""
        if (self.intake.waiting or self.intake.late) and self.intake.admit(now_s, wall_ms) and self.acknowledges_fast:
            self._engine.check_files()
            return self.intake.take_acks()
        return []

    def commit(self, now_s: float, wall_ms: int, *, at_once: bool = False) -> Effects:
        """Commit if it is due (or ``at_once``) and the disk lets us; then all that may be sent.

        Raises:
            StorageDamaged: what every queue depends on is damaged.
        """
        self._now_s, self._wall_ms = now_s, wall_ms
        disk, commands, effects = self._disk, self._commands, self._effects
        refused = disk.retry_s is not None
        if refused and disk.reopen(now_s, wall_ms) and self._engine.missing is not None:
            self._went_back()
        if self._settlements.waiting and disk.retry_s is None:
            self._settlements.try_again(now_s, wall_ms)
        if disk.retry_s is not None:
            effects += self._answer_while_refused(now_s, wall_ms)
            return self._take_effects()
        if refused:
            if isinstance(disk.refusal, DiskFull):
                self._retention.make_room(self.lanes.of_bridges.values(), self.next_commit.write, wall_ms)
            at_once = True
        if self.intake.waiting or self.intake.late:
            effects += self.admit(now_s, wall_ms)
        if self._local_sessions.pieces.busy:
            self._rooms.forget()
            effects += self._local_sessions.pieces.serve(now_s, wall_ms)
        if self._local_sessions.ended.ready:
            self._rooms.forget()
            self._local_sessions.ended.serve(now_s)
        due = self.next_commit.write.size_bytes >= EARLY_COMMIT_BYTES or self.next_commit.time.is_due(now_s)
        if at_once or commands.waiting or due:
            self.commits.commit(now_s, wall_ms)
        elif self.lanes.changed:
            self.next_commit.time.put_off(now_s)
        answers: Effects = []
        if commands.waiting:
            self._rooms.forget()
            answers = commands.obey(now_s, wall_ms) if disk.retry_s is None else self._answer_while_refused(now_s, wall_ms)
        if disk.retry_s is None:
            if self._space.is_due:
                self._space.tidy(self.next_commit.write)
            self._answer()
            effects += answers  # behind what a session's end tells
            answers = []
            if self.intake.followed.all:
                effects += self.intake.followed.take_effects()  # a lane is told what to follow before it gets it
            effects += self.lanes.hand_out(now_s, wall_ms)
            # Once in a block of messages (queue.handed-out-below-mark) where no other commit was, and when something has expired.
            while self.next_commit.at_once and self.next_commit.goes_on():
                self.commits.commit(now_s, wall_ms)
                if disk.retry_s is None:
                    self._answer()
                    effects += self.lanes.hand_out(now_s, wall_ms)
        effects += answers
        if self._client_room.news or self._client_room.offers:
            effects += self._client_room.report_changes(now_s, wall_ms)
        if self.intake.followed.all:
            took_s = self.commits.last_s
            facts = {"commit": self.commits.count, "took_ms": round(took_s * 1000, 3)}
            effects += self.intake.followed.report_progress(now_s + took_s, committed=not self.next_commit.awaited, facts=facts)
        return self._take_effects()

    def _answer_while_refused(self, now_s: float, wall_ms: int) -> Effects:
        """Answer commands while the disk refuses."""
        return self._commands.answer_while_refused(now_s, wall_ms, self._disk.refusal or Unavailable("the disk refuses"))

    def _answer(self) -> None:
        """Collect all answers that the last commit permits: everything that the last commit has made true, and what needs no
        commit."""
        if not self.next_commit.awaited:
            self._effects += self.intake.take_acks()
            if self._local_sessions.answers:
                self._effects += self._local_sessions.take_answers()
        if self.intake.repeats:
            self._effects += self.intake.answer_repeats()
        if self.lanes.pending:
            self._effects += self.lanes.answer(self._local_sessions.remote.received)

    def _take_effects(self) -> Effects:
        effects = self._effects.copy()
        self._effects.clear()
        return effects

    def _went_back(self) -> None:
        """Commits are missing in the store that was opened: put on record where everything stands."""
        self.senders.went_back()
        self.lanes.went_back()
        self.next_commit.promise()
        for lane in self.lanes.all.values():
            self._retention.went_back(lane)

    # --- time ---

    def wakes_at_s(self, now_s: float) -> float:
        """The time at which ``tick`` or ``commit`` has something to do even if no frame comes."""
        wake_s = now_s + TICK_S
        if self._disk.retry_s is not None:
            return min(wake_s, self._disk.retry_s)
        if self._local_sessions.pieces.hurries or self._local_sessions.ended.ready:
            return now_s
        if self.lanes.ready or self._settlements.waiting:  # what cannot be read for now is among them
            wake_s = min(wake_s, self.lanes.wakes_at_s(self._settlements.waiting, now_s))
        return min(wake_s, self.next_commit.time.wakes_at_s(waited_for=self.next_commit.awaited))

    def tick(self, now_s: float, wall_ms: int) -> None:
        """Housekeeping: expiry at the head of the queues, and trimming of idle ones. Call it about once a second."""
        self._now_s, self._wall_ms = now_s, wall_ms
        self.next_commit.time.hurry()
        self._rooms.forget()
        if self._disk.retry_s is not None:
            return
        write = self.next_commit.write
        self.lanes.expire(now_s, wall_ms)
        self.lanes.trim_idle(write, now_s)
        self.dead_letters.tick(write, now_s, wall_ms)
        self._local_sessions.tick(write, now_s, wall_ms)
        queues = (lane.queue for lane in self.lanes.all.values() if lane.queue.depth)
        self._engine.check_files(sum(queue.depth - queue.in_memory()[0] for queue in queues))
        self._disk.measure_room(now_s)
        self._keep_events(now_s, wall_ms)
        self._space.tick(now_s)
        self._retention.tick(self.lanes.of_bridges.values(), write, now_s, wall_ms, self._disk.free_bytes)

    def _keep_events(self, now_s: float, wall_ms: int) -> None:
        events = self.events
        for lane in self.lanes.of_bridges.values():
            events.ledger(lane.queue.number, lane.bridge, lane.number, lane.queue.ledger, now_s, wall_ms)
        events.clock(now_s, wall_ms)
        events.disk("min_free_disk" if self._disk.is_low else "", wall_ms, self._disk.free_bytes)
        events.tick(self.next_commit.write, now_s, wall_ms)

    def status(self, wall_ms: int) -> StoreReport:
        """Figures for ``bascule status``."""
        disk, known = self._disk, self._engine.known
        trouble = disk.refusal or next((lane.unread for lane in self.lanes.all.values() if lane.unread is not None), None)
        running = StoreState.DISK_LOW if disk.is_low else StoreState.RUNNING
        state, error = (running, "") if trouble is None else refusal_of(trouble)
        return joined(
            StoreReport,
            self.commits.figures(),
            state=state,
            error=error,
            mode=self._mode,
            store_id=self.identity,
            since_ms=known.since_ms or None,
            former_store=known.former,
            lost=known.lost,
            disk_free_bytes=disk.free_bytes,
            disk_needed_bytes=disk.needed_bytes,
            damaged_files=self._engine.kept,
            events=self.events.figures(),
            rocksdb=self._engine.figures(),
            sessions=self._local_sessions.figures(),
            queues=self._figures.figures(self._now_s, wall_ms, refused=disk.retry_s is not None),
            dead_letters=self.dead_letters.figures(),
        )

    # --- snapshots ---

    def flush(self) -> None:
        """Have little left to do for ``checkpoint``. Blocks; the only method that another thread may call.

        Raises:
            Unavailable, StorageDamaged: the disk refuses.
        """
        self._engine.flush()

    def checkpoint(self, path: str, now_s: float, wall_ms: int) -> CheckpointStands:
        """Commit everything, make a checkpoint in the new folder ``path``, and say what it holds.

        Raises:
            Unavailable: the disk refuses, or nothing is on a disk; parts of a checkpoint may be at the path.
            StorageDamaged: damage was met.
        """
        disk = self._disk
        if disk.retry_s is None:
            self.events.put(self.next_commit.write, wall_ms)
        if disk.retry_s is not None or not self.commits.commit_now(now_s, wall_ms):
            raise disk.refusal or Unavailable("the disk refuses")
        return take(
            self._engine,
            path,
            at_ms=wall_ms,
            epoch=self._epoch,
            identity=self.identity,
            queues=_stands(self.lanes, self._retention),
            dead_letters=self.dead_letters,
            sessions=self._local_sessions.kept,
            retained=len(self._local_sessions.pieces.retained),
            free_bytes=disk.free_bytes,
            events=self.events.numbers,
        )

    def close(self) -> None:
        """Release the engine; commit first."""
        self._engine.close()


def _may_forget(settings: NodeSettings) -> bool:
    """Whether what was answered can be lost without a mark that tells: with ``sync: full`` commits of QoS 0 alone leave none.

    A former life in this run of the node may have had other settings, where they have changed.
    """
    own = settings.persistence
    return own.acknowledge == "fast" or own.sync == "full" or settings.number > 1


def _stands(lanes: Lanes, retention: Retention) -> Iterator[QueueStands]:
    """The positions of all queues."""
    for name, lane in lanes.all.items():
        configured = not lane.bridge or lanes.is_configured(name)
        retention_s = retention.period_s(lane.bridge)
        yield note(lane.queue, lane.limits, configured=configured, retention_s=retention_s, damaged=lane.is_unreadable)
