"""The store: it takes frames, commits, and answers. It takes them as they come, commits once a turn, and answers; no socket, no
thread.

It has four parts: ``links`` (who sends), ``lanes`` (the queues, and who takes from them), ``sessions`` and ``housekeeping``.
A turn is a loop over them: each frame goes to the part that ``applies`` it (``receive``); then (``commit``) each part collects what
waits into the next commit and puts its rows there, that is made durable, and each part has what may be sent since it is
``committed``. With ``acknowledge: fast``, ``admit`` returns acknowledgements before.

store.answer-after-commit [P1, P2, P3]: ``Committed`` (unless ``fast``), ``Settled``, ``LaneOpened``, ``HandOut`` and what sessions
    are answered are returned after the commit they tell of (P1).
store.old-epoch-changes-nothing [P2, P3]: frames of an old epoch change nothing.
store.refused-write-kept [P1, P6]: when the disk refuses, the open write is kept and committed again later: no acknowledgement, no
    loss, no gap in the numbers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from storage.engine.engine import Engine, Moment, Write
from storage.engine.keys import open_format
from storage.engine.queue_numbers import QueueNumbers
from storage.snapshots.manifest import DeadFacts
from storage.store.checkpoint import CheckpointStands, QueueStands, note, take
from storage.store.commands import Commands
from storage.store.disk_trouble import refusal_of
from storage.store.housekeeping import Housekeeping
from storage.store.lanes import Lanes
from storage.store.links import Links
from storage.store.local_sessions import LocalSessions
from storage.store.next_commit import NextCommit
from storage.store.queue_commands import QueueCommands
from storage.store.session_commands import SessionCommands
from storage.store.session_rows import Sessions
from wire.config_settings import SettingsNow
from wire.errors import DiskFull, Unavailable
from wire.figure import joined
from wire.frames.frame import Effects, Frame
from wire.frames.intake import Append, RoomWanted
from wire.frames.lanes import Credit, Settle
from wire.frames.supervision import QueueCommand, SessionCommand
from wire.status.event_kinds import EventKind
from wire.status.states import StoreState
from wire.status.store import StoreReport

log = logging.getLogger("bascule")

TICK_S = 1.0
EARLY_COMMIT_BYTES = 16 << 20  # a write this large does not wait for the flush period
_LEAVE_ROOM_KNOWN = frozenset((Append, Settle, Credit, RoomWanted))  # of other frames, the room of queues is measured anew

Apply = Callable[[Any], None]


class Part(Protocol):
    """The shape of a part. Each has besides, as far as it needs them, ``collect``, ``committed`` and ``tick``."""

    @property
    def applies(self) -> Mapping[type[Frame], Apply]:
        """The receiver of each frame; nothing of it is durable, and nothing is answered, before a commit."""

    def write_rows(self, write: Write, moment: Moment) -> None:
        """Put what has changed into ``write``."""

    def settings_changed(self) -> None:
        """Others hold: what acts on a change does so now, between two turns."""


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
        self._mode = settings.now.persistence.mode
        self._settings = settings
        numbers, sessions = QueueNumbers(engine), Sessions(engine)
        kept = self.housekeeping = Housekeeping(engine, settings, numbers)
        commit = self.next_commit = NextCommit(engine, kept.disk, settings)
        lanes = self.lanes = Lanes(
            commit,
            settings,
            numbers,
            kept.dead_letters,
            sessions,
            keeps_history=kept.retention.wants,
            first_seq=0 if engine.durable else epoch << 32,
        )
        local = self.sessions = LocalSessions(settings, numbers, lanes, commit, sessions, epoch=epoch)
        self.links = Links(lanes, local, commit, settings, kept.events.on_overflowed, epoch=epoch)
        on_queues = QueueCommands(lanes, kept.dead_letters, kept.events, commit, self.links.room)
        self.commands = Commands(
            self.commit_now, kept.disk.refuses, on_queues, SessionCommands(sessions, local, lanes, kept.events)
        )
        # Queues are opened by the retention of their bridge; a session's rows may change by what its lane has settled.
        self._parts: tuple[Part, ...] = (kept, lanes, local, self.links)
        self._rows = (lanes.write_rows, kept.write_rows, self.links.write_rows, local.write_rows)
        self._committed = (self.links.committed, local.committed, lanes.committed)  # all that may be sent, in this order
        self._apply: dict[type[Frame], Apply] = {QueueCommand: self.commands.apply, SessionCommand: self.commands.apply}
        for part in self._parts:
            self._apply.update(part.applies)
        if new and (known := engine.known).node:
            kept.events.note(known.since_ms, EventKind.STORE_BEGUN, actor="store", reason=known.former, count=known.lost)
        if engine.missing is not None:
            self._went_back()
            self._commit(0.0, 0)  # at that time no dead letter is old

    def settings_changed(self) -> None:
        """Others hold from now on, for all that comes from here on and all that is kept; queues that are new are opened.

        The settings with which a store was opened stay: where and how it keeps things, and of which queues it keeps a history.

        Raises:
            ConfigError, Unavailable: a queue cannot be opened, or what is on record of its lanes cannot be read.
        """
        self.next_commit.settings_changed(self._settings.now)
        for part in self._parts:
            part.settings_changed()

    @property
    def acknowledges_fast(self) -> bool:
        """Whether some are acknowledged before their commit, so that it is worth to ``admit`` first."""
        return self.next_commit.durabilities.any_fast

    # --- a turn ---

    def receive(self, frame: Frame) -> None:
        """Take one frame. Nothing of it is durable, and nothing is answered, before ``commit``."""
        kind = type(frame)
        self.next_commit.time.take(frame)
        if kind not in _LEAVE_ROOM_KNOWN:
            self.links.room.rooms.forget()
        self._apply[kind](frame)

    def admit(self, now_s: float, wall_ms: int) -> Effects:
        """Decide on what waits and put it into the next commit. Acknowledgements, where they need not wait for it."""
        return self.links.collect(now_s, wall_ms)

    def commit(self, now_s: float, wall_ms: int, *, at_once: bool = False) -> Effects:
        """Commit if it is due (or ``at_once``) and the disk lets us; then all that may be sent.

        Raises:
            StorageDamaged: what every queue depends on is damaged.
        """
        commit, disk, links, sessions = self.next_commit, self.housekeeping.disk, self.links, self.sessions
        commit.begin_turn(now_s, wall_ms)
        if disk.retry_s is not None:
            if not disk.reopen(now_s, wall_ms):
                return self._answer_while_refused(now_s, wall_ms)
            self._on_reopened(wall_ms)
            at_once = True
        effects: Effects = []
        if self.lanes.unsettled:
            self.lanes.collect(now_s, wall_ms)
        if disk.retry_s is None and (links.waiting or links.late):
            effects += links.collect(now_s, wall_ms)
        pieces, ended = sessions.pieces, sessions.ended
        if disk.retry_s is None and (ended.ready or ((pieces.queues or pieces.asked or pieces.ready) and pieces.busy)):
            links.room.rooms.forget()
            effects += sessions.collect(now_s, wall_ms)
        if disk.retry_s is not None:
            return effects + self._answer_while_refused(now_s, wall_ms)
        due = commit.write.size_bytes >= EARLY_COMMIT_BYTES or commit.time.is_due(now_s)
        if at_once or self.commands.waiting or due:
            self._commit(now_s, wall_ms)
        elif self.lanes.changed:
            commit.time.put_off(now_s)
        answers = self._obey(now_s, wall_ms) if self.commands.waiting else []
        if disk.retry_s is None:
            if self.housekeeping.tidy_is_due and not commit.write:
                self.housekeeping.tidy(self._kept_bytes)
            for committed in self._committed:
                effects += committed(now_s, wall_ms)
            # Once in a block of messages (queue.handed-out-below-mark) where no other commit was, and when something has expired.
            while commit.at_once and commit.goes_on():
                self._commit(now_s, wall_ms)
                for committed in self._committed if disk.retry_s is None else ():
                    effects += committed(now_s, wall_ms)
        effects += answers  # behind what a session's end tells
        if links.room.news or links.room.offers:
            effects += links.room.report_changes(now_s, wall_ms)
        return effects

    def _commit(self, now_s: float, wall_ms: int) -> None:
        """Commit what is there, as strongly as it needs; where the disk refuses, ``disk`` knows."""
        if not self.next_commit.commit(self._rows, now_s, wall_ms):
            return
        self.lanes.on_committed()
        self.links.senders.on_committed()
        disk = self.housekeeping.disk
        if disk.refusal is not None:
            disk.on_recovered(wall_ms)
            self.lanes.all_ready()
            log.info("store.available")

    def commit_now(self, now_s: float, wall_ms: int) -> bool:
        """Commit what is there, synced; whether the disk took it. If not, it is committed when it does."""
        self.next_commit.survive()
        self._commit(now_s, wall_ms)
        return self.housekeeping.disk.retry_s is None

    def _obey(self, now_s: float, wall_ms: int) -> Effects:
        self.links.room.rooms.forget()
        if self.housekeeping.disk.retry_s is not None:
            return self._answer_while_refused(now_s, wall_ms)
        return self.commands.obey(now_s, wall_ms)

    def _answer_while_refused(self, now_s: float, wall_ms: int) -> Effects:
        """Answer commands while the disk refuses."""
        refusal = self.housekeeping.disk.refusal or Unavailable("the disk refuses")
        return self.commands.answer_while_refused(now_s, wall_ms, refusal)

    def _on_reopened(self, wall_ms: int) -> None:
        """The engine is open again after a refusal."""
        if self._engine.missing is not None:
            self._went_back()
        if isinstance(self.housekeeping.disk.refusal, DiskFull):
            lanes = self.lanes.of_bridges.values()
            self.housekeeping.retention.make_room(lanes, self.next_commit.write, wall_ms)

    def _went_back(self) -> None:
        """Commits are missing in the store that was opened: put on record where everything stands."""
        self.links.senders.went_back()
        self.lanes.went_back()
        self.next_commit.promise()
        for lane in self.lanes.all.values():
            self.housekeeping.retention.went_back(lane)

    @property
    def _kept_bytes(self) -> int:
        return self.lanes.kept_bytes + self.sessions.pieces.retained.kept_bytes + self.housekeeping.kept_bytes

    # --- time ---

    def wakes_at_s(self, now_s: float) -> float:
        """The time at which ``tick`` or ``commit`` has something to do even if no frame comes."""
        wake_s = now_s + TICK_S
        commit, retry_s = self.next_commit, self.housekeeping.disk.retry_s
        if retry_s is not None:
            return min(wake_s, retry_s)
        pieces, ended = self.sessions.pieces, self.sessions.ended
        if ended.ready or ((pieces.asked or pieces.ready) and pieces.hurries):
            return now_s
        if self.lanes.ready or self.lanes.unsettled:  # what cannot be read for now is among them
            wake_s = min(wake_s, self.lanes.wakes_at_s(now_s))
        if commit.awaited or self.lanes.changed:
            wake_s = min(wake_s, commit.time.wakes_at_s(waited_for=commit.awaited))
        return wake_s

    def tick(self, now_s: float, wall_ms: int) -> None:
        """Housekeeping: expiry at the head of the queues, and trimming of idle ones. Call it about once a second."""
        commit = self.next_commit
        commit.begin_turn(now_s, wall_ms)
        commit.time.hurry(waited_for=False)
        self.links.room.rooms.forget()
        if self.housekeeping.disk.retry_s is not None:
            return
        self.lanes.tick(commit.write, now_s, wall_ms)
        self.sessions.tick(commit.write, now_s, wall_ms)
        self._engine.check_files(self.lanes.on_disk)
        self.housekeeping.tick(self.lanes.of_bridges.values(), commit.write, now_s, wall_ms)

    def status(self, wall_ms: int) -> StoreReport:
        """Figures for ``bascule status``."""
        kept, known = self.housekeeping, self._engine.known
        disk = kept.disk
        trouble = disk.refusal or next((lane.unread for lane in self.lanes.all.values() if lane.unread is not None), None)
        running = StoreState.DISK_LOW if disk.is_low else StoreState.RUNNING
        state, error = (running, "") if trouble is None else refusal_of(trouble)
        return joined(
            StoreReport,
            self.next_commit.figures(),
            state=state,
            error=error,
            mode=self._mode,
            durability={place: str(one) for place, one in self.next_commit.durabilities.by_place().items()},
            store_id=self.identity,
            since_ms=known.since_ms or None,
            former_store=known.former,
            lost=known.lost,
            disk_free_bytes=disk.free_bytes,
            disk_needed_bytes=disk.needed_bytes,
            damaged_files=self._engine.kept,
            events=kept.events.figures(),
            rocksdb=self._engine.figures(),
            sessions=self.sessions.figures(),
            queues=self.lanes.figures(wall_ms),
            dead_letters=kept.dead_letters.figures(),
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
        kept = self.housekeeping
        if kept.disk.retry_s is None:
            kept.events.put(self.next_commit.write, wall_ms)
        if kept.disk.retry_s is not None or not self.commit_now(now_s, wall_ms):
            raise kept.disk.refusal or Unavailable("the disk refuses")
        letters = kept.dead_letters.queues.items()
        return take(
            self._engine,
            path,
            at_ms=wall_ms,
            epoch=self._epoch,
            identity=self.identity,
            queues=self._stands(),
            dead_letters=(
                DeadFacts(bridge=bridge, number=each.number, held=each.held, size_bytes=each.size_bytes) for bridge, each in letters
            ),
            sessions=self.sessions.kept,
            retained=len(self.sessions.pieces.retained),
            free_bytes=kept.disk.free_bytes,
            events=kept.events.numbers,
        )

    def _stands(self) -> Iterator[QueueStands]:
        """The positions of all queues."""
        for name, lane in self.lanes.all.items():
            configured = not lane.bridge or self.lanes.is_configured(name)
            retention_s = self.housekeeping.retention.period_s(lane.bridge)
            yield note(lane.queue, lane.limits, configured=configured, retention_s=retention_s, damaged=lane.is_unreadable)

    def close(self) -> None:
        """Release the engine; commit first."""
        self._engine.close()
