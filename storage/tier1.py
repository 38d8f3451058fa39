"""Tier 1: what the store does with frames. It takes them as they come, commits once a turn, and answers; no socket, no thread.

A turn is: ``receive`` each frame, then ``admit`` (decides on all that waits and puts it into the open write), then ``commit``
(makes the write durable and returns what is to be sent). Where ``acknowledge`` is ``fast``, ``admit`` returns acknowledgements.

T1  ``Committed`` (unless ``fast``), ``Settled``, ``LaneOpened`` and what sessions are answered are returned after the commit they
    tell of (P1).
T2  nothing is handed out before its commit.
T3  frames of an old epoch change nothing.
T4  when the disk refuses, the open write is kept and committed again later: no acknowledgement, no loss, no gap in the numbers.
"""

from __future__ import annotations

import logging
from array import array
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from storage.burials import Burials, Remains
from storage.checkpoint import QueueStands, Standing, note, take
from storage.commands import Commands
from storage.commit_time import CommitTime
from storage.damage import Quarantine
from storage.engine import Engine, Write
from storage.event_log import EventLog, event_of
from storage.keys import QueueNumbers, check_format, chunk_key, lane_key
from storage.lane_changes import LaneChanges
from storage.ledger import LaneRow
from storage.limits import Admission, Room, admit
from storage.local_sessions import LocalSessions, SessionFrame
from storage.pieces import Piece
from storage.queue import CACHE_BYTES, Queue
from storage.queued_ways import former_rules
from storage.remote_sessions import RemoteSessions
from storage.retained import RetainedMessages
from storage.retention import Retention
from storage.senders import Senders, Verdict
from storage.session_commands import SessionCommands
from storage.sessions import Sessions
from wire.batch import Batch, pack_column, unpack_column
from wire.errors import ConfigError, DiskFull, StorageDamaged, Unavailable
from wire.frames import (
    Append,
    Committed,
    Credit,
    Frame,
    HandOut,
    LaneClose,
    LaneOpen,
    LaneOpened,
    LaneReopen,
    NodeEvents,
    QueueCommand,
    ResetMarkers,
    SenderResumes,
    SessionClose,
    SessionCommand,
    SessionOpen,
    SessionsWanted,
    Settle,
    Settled,
    SourceResumed,
    SubscriptionsAdd,
    SubscriptionsDrop,
)
from wire.left_sessions import left_rows
from wire.names import (
    LANE_EPOCH_SHIFT,
    LISTENER,
    RETAINED,
    connection_name,
    forwarder_name,
    lane_of_queue,
    peer_of,
    queue_name,
    session_of_queue,
    session_queue_name,
)
from wire.settings import LimitSettings, NodeSettings, PersistenceSettings, RuleSettings

log = logging.getLogger("bascule")

Effects = list[tuple[str, Frame]]
_Ordered = Append | SourceResumed | SessionFrame  # what takes effect in the order in which it came

TICK_S = 1.0
EARLY_COMMIT_BYTES = 16 << 20  # a write this large does not wait for the flush period
WAITING_MAX = 100_000  # while the disk refuses: with more, SUBSCRIBEs of sessions that do not last get nothing that is retained
RETRY_FIRST_S = 0.1
RETRY_MAX_S = 5.0
TRIM_IDLE_S = 10.0
ISOLATED_MAX = 1000  # damaged places of a queue in one turn
COMPACT_BYTES = 64 << 20  # a backlog that has left the memtable
SESSION_CACHE_BYTES = 1 << 20  # of a session's queue while its client is connected

_UNLIMITED = LimitSettings(
    max_messages=None, max_bytes=None, max_age_s=None, min_free_disk_bytes=0, volatile_max_bytes=64 << 20, overflow="reject"
)


@dataclass(slots=True)
class _Lane:
    """One queue and its Forwarder: totals since the lane was opened under ``epoch``."""

    queue: Queue
    limits: LimitSettings
    peer: str
    bridge: str  # empty for the queue of a session
    number: int
    epoch: int = 0
    open: bool = False
    credit_messages: int = 0
    credit_bytes: int = 0
    given_messages: int = 0
    given_bytes: int = 0
    settled_number: int = 0  # the newest Settle that wants an answer
    answered: int = 0
    opening: bool = False  # LaneOpened is owed
    releasing: bool = False  # something was released since the last commit
    discarding: bool = False  # some were dropped or expired, which is not yet on record: nothing behind them is handed out
    damaged: bool = False  # it is stopped until it is opened again
    unreadable: Unavailable | None = None  # why its chunks could not be read the last time
    retry_s: float = 0.0  # when to try to read them again
    retry_delay_s: float = 0.0
    by: tuple[str, str] = ("", "")  # what a history calls its Forwarder and its Connection
    fenced: bool = False  # until it is opened anew, its Forwarder speaks of messages that were purged
    row_damaged: bool = False  # where it stands is not known: it takes nothing and gives nothing, and its row stays as it is
    linked_ms: int | None = None  # when a link of it came up the last time, in this life
    losses: int = 0  # places where messages could not be read, in this life
    peak_bytes: int = 0  # since the last compaction
    trimmed_from: bytes = b""
    settles: deque[Settle] = field(default_factory=deque)  # not applied: the first needs what cannot be read for now

    @property
    def has_credit(self) -> bool:
        """Whether something may be handed out: its Forwarder's link stands, and there is room behind it."""
        return self.credit_messages > self.given_messages and self.credit_bytes > self.given_bytes


def refusal_facts(error: Unavailable) -> dict[str, str]:
    """What ``status`` says of a disk that refuses: there is no room, or something else is wrong with it."""
    return {"state": "disk_full" if isinstance(error, DiskFull) else "disk_error", "error": str(error)}


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


def _may_forget(own: PersistenceSettings) -> bool:
    """Whether what was answered can be lost without a mark that tells: with ``sync: full`` commits of QoS 0 alone leave none."""
    return own.acknowledge == "fast" or own.sync == "full"


class Store:
    """The queues of a node over one engine."""

    def __init__(self, engine: Engine, settings: NodeSettings, epoch: int) -> None:
        """Open every queue, configured or not (P7).

        epoch: this life of the store, which its answers name; where nothing is durable it keeps sequences from being used twice.

        Raises:
            StorageDamaged, ConfigError, Unavailable: the store cannot be opened.
        """
        check_format(engine)
        self._engine = engine
        self._settings = settings
        self._epoch = epoch
        self._persistence = settings.persistence
        self._first_seq = 0 if engine.durable else epoch << 32
        self._limits: Mapping[str, LimitSettings] = {bridge.name: bridge.limits for bridge in settings.bridges}
        self._session_limits = _session_limits(settings)
        self._numbers = QueueNumbers(engine)
        self._senders = Senders(engine, lenient=not engine.durable or _may_forget(settings.persistence))
        self._sessions = Sessions(engine)
        self._lanes: dict[str, _Lane] = {}
        self._bridge_lanes: dict[str, _Lane] = {}
        self._changed: set[str] = set()  # queues whose row is to be written
        self._owing: set[str] = set()  # queues whose peer is owed LaneOpened or Settled
        self._sessions_used = (0, 0)  # messages and bytes in the queues of sessions, as of the last tick and what came since
        self._events = EventLog(engine, settings.persistence)
        self._retention = Retention(engine, settings, self._events)
        self._quarantine = Quarantine(Path(settings.data_dir) / "damaged")
        self._effects: Effects = []
        self._configured = {queue_name(bridge.name, lane) for bridge in settings.bridges for lane in range(bridge.lanes)}
        self._open_lanes()
        self._lane_changes = LaneChanges(engine, settings.bridges, self._bridge_lanes)
        self._burials = Burials(engine, self._numbers, settings.bridges)
        self._commands = Commands(self, settings, SessionCommands(self))
        self._write = Write()
        self._retained = RetainedMessages(engine, settings.sessions)
        self._local = LocalSessions(
            self._sessions, self._retained, self, settings.sessions, epoch=epoch, tells_users_apart=settings.tells_users_apart
        )
        self._remote_sessions = RemoteSessions(self._sessions, self._queue_that_stands, settings.bridges)
        self._waiting: list[_Ordered] = []
        self._without_room = 0  # messages refused or dropped, because of this Append
        self._needs_sync = False
        self._commit_wanted = False  # it is not put off: a queue can be handed out after it
        self._uncommitted = False  # the open write has something that somebody waits for
        self._commit_time = CommitTime(settings.persistence.flush_period_s)
        self._acks: dict[str, Committed] = {}
        self._repeats: set[str] = set()
        self._ready: set[str] = set()
        self._unsettled: set[str] = set()  # queues whose settlements wait until they can be read
        self._commits = 0
        self._now_s, self._wall_ms, self._trimmed_s = 0.0, 0, 0.0
        self._free_bytes: int | None = None
        self._disk_checked_s = float("-inf")
        self._retry_s: float | None = None  # when to try a disk that refuses again
        self._refused = False
        self._refusal: Unavailable | None = None  # the newest one, while the disk refuses
        self._retry_delay_s = RETRY_FIRST_S
        if engine.missing is not None:
            self._went_back()
            self._commit_write(self._now_s, 0)  # at that time no dead letter is old

    # --- frames ---

    def receive(self, frame: Frame) -> None:
        """Take one frame. Nothing of it is durable, and nothing is answered, before ``commit``."""
        self._commit_time.take(frame)
        match frame:
            case Append():
                self._receive_append(frame)
            case Settle():
                self._settle(frame)
            case Credit():
                self._credit(frame)
            case LaneOpen():
                self._lane_open(frame)
            case ResetMarkers():
                self._reset_markers(frame)
            case SessionOpen() | SessionClose():
                # A batch of the sender's former life may still be on its way: not after this.
                if self._senders.begin(frame.sender, frame.epoch).epoch == frame.epoch:
                    self._waiting.append(frame)
            case SessionsWanted():
                if self._senders.begin(LISTENER, frame.epoch).epoch == frame.epoch:
                    self._waiting.append(frame)
            case SubscriptionsAdd() | SubscriptionsDrop():
                if frame.queue or self._retry_s is None or len(self._waiting) < WAITING_MAX:
                    self._waiting.append(frame)
            case SourceResumed():
                self._waiting.append(frame)
            case LaneClose():
                self._lane_close(frame)
            case SenderResumes():
                self._senders.resume(frame.sender, frame.epoch, frame.number, frame.stalled)
            case QueueCommand() | SessionCommand():
                self._commands.receive(frame)
            case NodeEvents():
                for event in frame.events:
                    self._events.add(event_of(event))
            case _:
                raise AssertionError(f"not for a QueueStore: {frame}")

    def _receive_append(self, frame: Append) -> None:
        match self._senders.judge(frame.sender, frame.epoch, frame.number):
            case Verdict.NEXT:
                self._waiting.append(frame)
            case Verdict.REPEAT:
                sender = self._senders.get(frame.sender)
                if sender is not None and frame.number <= sender.committed:  # if not, the commit to come answers it
                    self._repeats.add(frame.sender)
            case Verdict.GAP | Verdict.FENCED:
                pass  # the sender sends again what is missing; one that is gone has no say

    def _settle(self, frame: Settle) -> None:
        lane = self._lanes.get(frame.queue)
        if lane is None or frame.epoch != lane.epoch or lane.fenced:
            return
        lane.settles.append(frame)
        if len(lane.settles) == 1:
            self._settle_waiting(frame.queue, lane)

    def _settle_waiting(self, name: str, lane: _Lane) -> None:
        """Apply the settlements of ``lane`` in order, until one needs what cannot be read for now; that one and the rest wait."""
        while lane.settles:
            frame = lane.settles[0]
            remains: list[Remains] | None = None
            try:
                remains = self._read_remains(frame, lane.queue)
                self._apply_settle(frame, lane, remains)
            except ConfigError as error:
                self._unsettled.discard(name)
                self._stop(name, lane, error)
                return
            except Unavailable as error:
                self._unsettled.add(name)
                if remains is None:
                    self._cannot_read(name, lane, error)
                else:  # it was read, so this is more than that; what is applied of it waits with the open write
                    self._disk_refuses(self._now_s, error)
                return
            lane.settles.popleft()

    def _settle_again(self) -> None:
        """Try again, where it is time, what could not be settled because it could not be read."""
        for name in tuple(self._unsettled):
            lane = self._lanes.get(name)
            if lane is None or not lane.settles:  # the session has ended, or the lane was opened anew
                self._unsettled.discard(name)
            elif self._now_s >= lane.retry_s:
                self._commit_time.hurry()  # its answer has waited long enough
                self._settle_waiting(name, lane)
                if not lane.settles:
                    self._unsettled.discard(name)
                    self._ready.add(name)
                    self._can_read(name, lane)

    def _read_remains(self, frame: Settle, queue: Queue) -> list[Remains]:
        """Do the reading that ``frame`` needs before anything changes; what is to be kept of those that died, in their order."""
        remains = []
        for outcome, ranges in frame.settled:
            if outcome.startswith("dead:"):
                remains.append(self._burials.read(queue, ranges))
            elif outcome != "redelivered":
                queue.look_waiting(ranges)
        return remains

    def _apply_settle(self, frame: Settle, lane: _Lane, remains: Iterable[Remains]) -> None:
        queue, by, dead = lane.queue, lane.by[frame.number > 0], iter(remains)
        for outcome, ranges in frame.settled:
            if outcome.startswith("dead:"):
                self._burials.bury(lane.bridge, queue, outcome, ranges, next(dead), by=by)
            elif outcome != "redelivered":
                queue.settle(outcome, ranges, by=by)
        for outcome, ranges in frame.settled:
            if outcome == "redelivered":
                queue.count_redelivered(ranges, by=by)
        if frame.session is not None:  # the Forwarder, which settles QoS 0, knows neither session nor generation
            if queue.sent.new_session(frame.generation, frame.session, left_rows(frame.left)):
                self._remote_sessions.record(queue)
        elif not frame.released:
            return
        if frame.released:
            queue.release(frame.released)
        lane.releasing = True
        lane.settled_number = max(lane.settled_number, frame.number)
        self._owing.add(frame.queue)
        self._needs_sync = self._uncommitted = True

    def _credit(self, frame: Credit) -> None:
        lane = self._lanes.get(frame.queue)
        if lane is not None and lane.open and frame.epoch == lane.epoch:
            if not lane.credit_messages:
                lane.linked_ms = self._wall_ms
            lane.credit_messages, lane.credit_bytes = frame.messages, frame.size_bytes
            if frame.messages:
                self._ready.add(frame.queue)
            else:
                lane.queue.close(-1)  # the link is down

    def _lane_open(self, frame: LaneOpen) -> None:
        lane = self._lanes.get(frame.queue)
        if lane is None:
            if session_of_queue(frame.queue) is not None:
                return  # the session has ended, and its client is told so
            lane = self._open_lane(frame.queue)
        if frame.epoch <= lane.epoch or lane.row_damaged:
            return
        if not lane.bridge:
            lane.queue.cache(SESSION_CACHE_BYTES)
        self._owing.add(frame.queue)
        forwarder_lives = lane.epoch >> LANE_EPOCH_SHIFT == frame.epoch >> LANE_EPOCH_SHIFT
        lane.queue.reset(forwarder_lives=forwarder_lives)
        lane.epoch = frame.epoch
        if lane.bridge:
            place = lane.bridge, lane.number
            lane.by = f"{forwarder_name(*place)}@{frame.epoch}", f"{connection_name(*place)}@{frame.epoch}"
        lane.opening, lane.open, lane.damaged, lane.fenced = True, False, False, False
        lane.credit_messages = lane.credit_bytes = lane.given_messages = lane.given_bytes = 0
        lane.settled_number = lane.answered = 0
        lane.settles.clear()  # never answered, so nobody relies on them

    def _lane_close(self, frame: LaneClose) -> None:
        """Nobody takes from the queue of a session for now: nothing of it stays in memory."""
        lane = self._lanes.get(frame.queue)
        if lane is not None and frame.epoch == lane.epoch:
            sent_below = frame.sent_below if lane.open else -1
            lane.open = lane.opening = False
            lane.queue.reset(forwarder_lives=True)
            lane.queue.close(sent_below)
            lane.queue.cache(0)

    def _reset_markers(self, frame: ResetMarkers) -> None:
        """Stop handing out; the markers go when the next Forwarder opens the lane: what this one had settled still counts."""
        lane = self._lanes.get(frame.queue)
        if lane is not None and lane.epoch >> LANE_EPOCH_SHIFT <= frame.epoch:
            lane.open = lane.opening = False

    def _have_reopened(self, name: str, lane: _Lane) -> None:
        """Have who takes from the queue open the lane anew, and hand out nothing before."""
        lane.open = False
        self._effects.append((lane.peer, LaneReopen(queue=name)))

    # --- a turn ---

    def admit(self, now_s: float, wall_ms: int) -> Effects:
        """Decide on what waits and put it into the open write. Acknowledgements, where they need not wait for the commit."""
        if not self._waiting or self._retry_s is not None:
            return []
        waiting, self._waiting = self._waiting, []
        rooms: dict[str, list[Room]] = {}
        for place, frame in enumerate(waiting):
            match frame:
                case Append():
                    if self._senders.is_fenced(frame.sender, frame.epoch):
                        continue  # since it came: what its sender's stalled sources were is forgotten with that life
                    queued, retained = self._told_apart(frame)
                    if not all(part[0] in rooms for part in queued.parts):
                        rooms = self._rooms(now_s, [part[0] for part in queued.parts])
                    too_large = self._admit_append(queued, retained, rooms)
                    if self._without_room:
                        self._tell_overflow(queued, too_large, rooms, now_s, wall_ms)
                case SessionOpen() if not self._remote_sessions.knows(frame.session):
                    pass  # its lane has another session by now
                case SourceResumed():
                    self._count_refused(dict.fromkeys(self._senders.source_resumed(frame), frame.given_up))
                case _:
                    try:
                        self._local.receive(frame, wall_ms)
                    except Unavailable as error:  # a retained message cannot be read
                        self._waiting = waiting[place:]
                        self._disk_refuses(now_s, error)
                        return []
                    rooms = {}
                    self._sync_what_sessions_changed()
        if self._persistence.acknowledge != "fast":
            return []
        return self._take_acks()

    def _told_apart(self, frame: Append) -> tuple[Append, tuple[bytes, bytes] | None]:
        """``frame`` with the parts that go into a queue that is there; and the rows and the body that are to be retained."""
        places, retained = [], None
        for place, (queue, _, _, _, rows) in enumerate(frame.parts):
            if queue == RETAINED:
                retained = rows, frame.bodies[place]
            elif queue in self._lanes or session_of_queue(queue) is None:
                places.append(place)
        if len(places) == len(frame.parts):
            return frame, None
        parts, bodies = tuple(frame.parts[place] for place in places), tuple(frame.bodies[place] for place in places)
        return replace(frame, parts=parts, bodies=bodies), retained

    def _admit_append(
        self, frame: Append, retained: tuple[bytes, bytes] | None, rooms: Mapping[str, list[Room]]
    ) -> Mapping[str, int]:
        """Put what there is room for into the open write; for each queue, the bytes of the largest row that can never come in."""
        sender = self._senders.get(frame.sender)
        any_stalled = sender is not None and sender.epoch == frame.epoch and bool(sender.stalled)
        admission = admit(
            frame,
            rooms,
            lambda: self._senders.stalled(frame.sender, frame.epoch),
            any_stalled,
            lambda queue, messages, size_bytes: self._drop_oldest(queue, messages, size_bytes, rooms),
        )
        self._append(admission)
        self._receive_ids(frame, admission)
        if retained is not None:
            rows_column, body = retained
            refused = set(admission.refused)
            rows = unpack_column("H", rows_column) if rows_column else range(len(frame.refusable))
            self._retained.change(body, {at for at, row in enumerate(rows) if row in refused} if refused else (), self._write)
            self._needs_sync = True
        self._local.wills_sent(frame.wills, (frame.epoch, frame.number), admission.refused)
        self._uncommitted = True
        if admission.refused:
            self._without_room += len(admission.refused)
            self._senders.refuse(frame.sender, frame.epoch, frame.number, pack_column(array("H", admission.refused)))
            self._senders.hold(frame.sender, frame.epoch, admission.held)
            self._count_refused(admission.for_good)
        # It acknowledges every number up to this one, so it tells the refusals of them all: earlier answers may have been lost.
        refusals = self._senders.refused(frame.sender, frame.epoch)
        self._acks[frame.sender] = Committed(
            sender=frame.sender, epoch=frame.epoch, store=self._epoch, number=frame.number, refused=refusals
        )
        return admission.too_large

    def _count_refused(self, refused: Mapping[str, int]) -> None:
        """Count at each queue what was refused for good; it is on record with the next commit, synced if anything else of it is."""
        for name, messages in refused.items():
            lane = self._lanes.get(name)
            if lane is not None and messages:
                lane.queue.count_refused(messages)

    def _tell_overflow(
        self, frame: Append, too_large: Mapping[str, int], rooms: Mapping[str, list[Room]], now_s: float, wall_ms: int
    ) -> None:
        """For some messages there was no room, because of ``frame``: which limits were reached?"""
        messages, self._without_room = self._without_room, 0
        full: dict[str, str] = {}
        for queue, count, size_bytes, _, _ in frame.parts:
            largest = max(size_bytes // max(1, count), too_large.get(queue, 0))
            for bridge, room in zip((self._lanes[queue].bridge, ""), rooms[queue], strict=True):
                if not room.fits(1, largest) and (bridge or room is rooms[queue][1]):
                    full[bridge] = "min_free_disk" if room.disk_full else room.overflow
        for bridge, policy in full.items():
            self._events.overflowed(bridge, policy, messages, now_s, wall_ms)

    def _append(self, admission: Admission) -> None:
        durable_only = self._engine.durable
        for part in admission.parts:
            lane = self._lanes[part.queue]
            if part.dropped:
                lane.queue.refuse_into("dropped:overflow", part.dropped)
                self._without_room += part.dropped
            if part.count:
                lane.queue.append(part.body, part.count, part.size_bytes, part.qos0, self._write)
                self._write.on_commit(partial(self._ready.add, part.queue))
                if not lane.bridge:
                    messages, size_bytes = self._sessions_used
                    self._sessions_used = messages + part.count, size_bytes + part.size_bytes
                if not durable_only or part.qos0 < part.count:
                    self._needs_sync = True

    def _receive_ids(self, frame: Append, admission: Admission) -> None:
        refused = set(admission.refused)
        for session, (ids, rows) in frame.received.items():
            packet_ids = unpack_column("H", ids)
            if refused:
                of_rows = unpack_column("H", rows)
                accepted = [packet_id for packet_id, row in zip(packet_ids, of_rows, strict=True) if row not in refused]
                self._forget_ids(session, set(packet_ids).difference(accepted))
            else:
                accepted = list(packet_ids)
            if accepted and self._remote_sessions.knows(session):
                self._sessions.receive(session, accepted)
                self._needs_sync = True
        for session, ids in frame.released.items():
            self._sessions.release(session, unpack_column("H", ids))
            self._needs_sync = True

    def _forget_ids(self, session: str, refused: set[int]) -> None:
        """Forget identifiers whose new messages were ``refused``: on record they are of others, which came in a lost session."""
        known = self._sessions.get(session)
        if known is not None and not refused.isdisjoint(known.received):
            self._sessions.release(session, refused)
            self._needs_sync = True

    def commit(self, now_s: float, wall_ms: int, *, at_once: bool = False) -> Effects:
        """Commit the open write if it is due (or ``at_once``) and the disk lets us; then all that may be sent.

        Raises:
            StorageDamaged: what every queue depends on is damaged.
        """
        self._now_s, self._wall_ms = now_s, wall_ms
        refused = self._retry_s is not None
        if refused:
            self._reopen(now_s)
        if self._unsettled and self._retry_s is None:
            self._settle_again()
        if self._retry_s is not None:
            self._effects.extend(self._look(now_s, wall_ms))
            return self._take_effects()
        if refused:
            if isinstance(self._refusal, DiskFull):
                self._retention.make_room(self._bridge_lanes.values(), self._write, wall_ms)
            at_once = True
        self._effects.extend(self.admit(now_s, wall_ms))
        if at_once or self._commands.waiting or self._write.size_bytes >= EARLY_COMMIT_BYTES or self._commit_time.is_due(now_s):
            self._commit_write(now_s, wall_ms)
        elif self._changed:
            self._commit_time.put_off(now_s)
        answers: Effects = []
        if self._commands.waiting:
            answers = self._commands.obey(now_s, wall_ms) if self._retry_s is None else self._look(now_s, wall_ms)
        if self._retry_s is None:
            self._answer()
            self._effects.extend(answers)  # behind what a session's end tells
            answers = []
            self._hand_out(wall_ms)
            # Once in a block of messages, where no other commit has moved the mark along (Q6), and when something has expired.
            while self._commit_wanted:
                self._commit_wanted = False
                self._needs_sync = True
                self._commit_write(now_s, wall_ms)
                if self._retry_s is None:
                    self._answer()
                    self._hand_out(wall_ms)
        self._effects.extend(answers)
        return self._take_effects()

    def _look(self, now_s: float, wall_ms: int) -> Effects:
        """Answer commands while the disk refuses."""
        return self._commands.look(now_s, wall_ms, self._refusal or Unavailable("the disk refuses"))

    def wakes_at_s(self, now_s: float) -> float:
        """When ``tick`` or ``commit`` has something to do even if no frame comes."""
        wake_s = now_s + TICK_S
        if self._retry_s is not None:
            return min(wake_s, self._retry_s)
        for name in chain(self._ready, self._unsettled):  # what cannot be read for now is among them
            lane = self._lanes.get(name)
            if lane is not None and lane.unreadable is not None and lane.retry_s > now_s:
                wake_s = min(wake_s, lane.retry_s)
        return min(wake_s, self._commit_time.wakes_at_s(waited_for=self._uncommitted))

    def tick(self, now_s: float, wall_ms: int) -> None:
        """What time brings: expiry at the head of the queues, and trimming of idle ones. Call it about once a second."""
        self._now_s, self._wall_ms = now_s, wall_ms
        self._commit_time.hurry()
        if self._retry_s is not None:
            return
        for name, lane in self._lanes.items():
            lane.peak_bytes = max(lane.peak_bytes, lane.queue.size_bytes)
            max_age_s = lane.limits.max_age_s if lane.limits.max_age_s is not None else self._settings.limits.max_age_s
            if max_age_s is not None and not lane.damaged and now_s >= lane.retry_s and lane.queue.waiting():
                self._guarded(name, lane, partial(self._expire, name, lane, wall_ms - int(max_age_s * 1000)))
        if now_s - self._trimmed_s >= TRIM_IDLE_S:
            self._trimmed_s = now_s
            for lane in self._lanes.values():
                self._trim(lane, idle=not lane.queue.depth)
        self._burials.tick(self._write, now_s, wall_ms)
        self._retained.tick(self._write, now_s, wall_ms)
        self._local.tick(wall_ms)
        self._sync_what_sessions_changed()
        queues = [lane.queue for lane in self._lanes.values() if not lane.bridge]
        self._sessions_used = sum(queue.depth for queue in queues), sum(queue.size_bytes for queue in queues)
        self._look_at_disk(now_s)
        self._keep_events(now_s, wall_ms)
        self._retention.tick(self._bridge_lanes.values(), self._write, now_s, wall_ms, self._free_bytes)

    def _keep_events(self, now_s: float, wall_ms: int) -> None:
        events = self._events
        for name, lane in self._bridge_lanes.items():
            events.ledger(name, lane.bridge, lane.number, lane.queue.ledger, now_s, wall_ms)
        events.clock(now_s, wall_ms)
        events.disk("min_free_disk" if self._disk_is_low() else "", wall_ms, self._free_bytes)
        events.tick(self._write, now_s, wall_ms)

    def _disk_is_low(self) -> bool:
        return self._free_bytes is not None and self._free_bytes < self._settings.limits.min_free_disk_bytes

    # --- snapshots ---

    def flush(self) -> None:
        """Have little left to do for ``checkpoint``. Blocks; the only method that another thread may call.

        Raises:
            Unavailable, StorageDamaged: the disk refuses.
        """
        self._engine.flush()

    def checkpoint(self, path: str, now_s: float, wall_ms: int) -> Standing:
        """Commit everything, make a checkpoint in the new folder ``path``, and say what it holds.

        Raises:
            Unavailable: the disk refuses, or nothing is on a disk; parts of a checkpoint may be at the path.
            StorageDamaged: damage was met.
        """
        if self._retry_s is None:
            self._events.put(self._write, wall_ms)
        if self._retry_s is not None or not self.commit_now(now_s, wall_ms):
            raise self._refusal or Unavailable("the disk refuses")
        return take(
            self._engine,
            path,
            at_ms=wall_ms,
            epoch=self._epoch,
            queues=(self._stands(name, lane) for name, lane in self._lanes.items()),
            burials=self._burials,
            sessions=self._local.kept,
            retained=len(self._retained),
            free_bytes=self._free_bytes,
            events=self._events.numbers,
        )

    def _stands(self, name: str, lane: _Lane) -> QueueStands:
        configured = not lane.bridge or name in self._configured
        retention_s = self._retention.period_s(lane.bridge)
        return note(lane.queue, lane.limits, configured=configured, retention_s=retention_s, damaged=lane.row_damaged)

    def _sync_what_sessions_changed(self) -> None:
        if self._local.needs_sync:
            self._local.needs_sync = False
            self._needs_sync = self._uncommitted = True

    def close(self) -> None:
        """Release the engine; commit first."""
        self._engine.close()

    # --- inside: commit ---

    def _commit_write(self, now_s: float, wall_ms: int) -> None:
        write = self._write
        strong = self._needs_sync or self._persistence.sync != "full"
        changed, self._changed = self._changed, set()
        for name in changed:
            lane = self._lanes.get(name)
            if lane is not None and (lane.queue.changed or lane.queue.wants_mark) and not lane.row_damaged:
                self._trim(lane, idle=False)
                ahead = lane.open and lane.has_credit and self._lane_changes.below(lane) is None
                lane.queue.write_row(write, strong=strong, ahead=ahead, wall_ms=wall_ms)
                if not lane.bridge:  # no evidence is kept of queues that come and go
                    del write.tails[lane.queue.number]
        self._lane_changes.write_rows(write)
        self._burials.write(write, now_s, wall_ms, evict=not self._refused)
        self._senders.write_rows(write)
        self._sessions.write_rows(write)
        if self._events.waiting:
            self._events.put(write, wall_ms)
        write.promised |= self._uncommitted and strong  # what the loss of power may take back leaves no mark
        if write:
            try:
                self._engine.commit(write, sync=self._needs_sync and self._persistence.sync == "full")
            except Unavailable as error:
                self._disk_refuses(now_s, error)
                return
            self._write = Write()
            self._commits += 1
            self._commit_time.written(now_s)
        self._needs_sync = self._uncommitted = self._commit_wanted = False
        self._commit_time.committed()
        for name in self._owing:
            self._lanes[name].releasing = False
        self._tell_losses(changed)
        if self._refused:
            self._refused, self._refusal = False, None
            self._events.disk("", wall_ms, self._free_bytes)
            self._ready.update(self._lanes)
            log.info("store.available")

    def _disk_refuses(self, now_s: float, error: Unavailable) -> None:
        self._refusal = error
        if self._refused:
            self._retry_delay_s = min(self._retry_delay_s * 2, RETRY_MAX_S)
        else:
            self._refused = True
            self._retry_delay_s = RETRY_FIRST_S
            log.error("store.unavailable", extra=refusal_facts(error))
            self._events.disk(refusal_facts(error)["state"], self._wall_ms, self._free_bytes)
        self._retry_s = now_s + self._retry_delay_s

    def _reopen(self, now_s: float) -> None:
        """Open the engine again when it is time."""
        assert self._retry_s is not None
        if now_s < self._retry_s:
            return
        if isinstance(self._refusal, DiskFull):
            self._engine.reserve(0)
        try:
            self._engine.reopen()
        except Unavailable as error:
            self._disk_refuses(now_s, error)
            return
        self._retry_s = None
        if self._engine.missing is not None:
            self._went_back()

    def _went_back(self) -> None:
        """Commits are missing in the store that was opened: put on record where everything stands."""
        self._senders.went_back()
        self._lane_changes.went_back()
        self._needs_sync = self._uncommitted = True
        for lane in self._lanes.values():
            lane.queue.changed = True
            self._retention.went_back(lane)

    def _answer(self) -> None:
        """Owe nobody: everything that the last commit has made true, and what needs no commit."""
        if not self._uncommitted:
            self._effects.extend(self._take_acks())
            self._effects.extend(self._local.take_answers())
        for name in self._repeats:
            sender = self._senders.get(name)
            if sender is not None:
                refused = self._senders.refused(name, sender.epoch)
                committed = Committed(sender=name, epoch=sender.epoch, store=self._epoch, number=sender.committed, refused=refused)
                self._effects.append((name, committed))
        self._repeats.clear()
        for name in tuple(self._owing):
            lane = self._lanes[name]
            if lane.releasing:
                continue
            self._owing.discard(name)
            if lane.opening:
                self._effects.append((lane.peer, self._lane_opened(name, lane)))
            if lane.settled_number > lane.answered:
                lane.answered = lane.settled_number
                self._effects.append((lane.peer, Settled(queue=name, epoch=lane.epoch, number=lane.answered)))

    def _lane_opened(self, name: str, lane: _Lane) -> LaneOpened:
        queue = lane.queue
        lane.opening, lane.open = False, True
        return LaneOpened(
            queue=name,
            epoch=lane.epoch,
            head=queue.head,
            tail=queue.tail,
            dup_below=queue.sent.below,
            settled=queue.settled.ranges(),
            released=queue.sent.released.ranges(),
            generation=queue.sent.generation,
            session=queue.sent.session,
            receives=self._remote_sessions.received(queue),
            left=queue.sent.left,
        )

    def _take_acks(self) -> Effects:
        acks, self._acks = self._acks, {}
        return list(acks.items())

    def _take_effects(self) -> Effects:
        effects, self._effects = self._effects, []
        return effects

    # --- inside: hand out ---

    def _hand_out(self, wall_ms: int) -> None:
        if self._lane_changes.waiting:
            self._ready.update(self._lane_changes.look())
        for name in tuple(self._ready):
            self._ready.discard(name)
            lane = self._lanes.get(name)
            if lane is None:
                continue  # the session has ended
            if not lane.open or lane.damaged or lane.discarding or not lane.queue.waiting():
                continue
            if lane.unreadable is not None and self._now_s < lane.retry_s:
                self._ready.add(name)
                continue
            self._guarded(name, lane, lambda: self._hand_out_lane(name, lane, wall_ms))  # noqa: B023
            self._commit_wanted |= bool(lane.queue.losses)  # who takes from it may have to open the lane anew

    def _hand_out_lane(self, name: str, lane: _Lane, wall_ms: int) -> None:
        max_age_s = lane.limits.max_age_s if lane.limits.max_age_s is not None else self._settings.limits.max_age_s
        before_ms = wall_ms - int(max_age_s * 1000) if max_age_s is not None else 0
        below = self._lane_changes.below(lane)
        more = True
        while more and not lane.discarding:
            if not lane.has_credit:
                return
            messages = lane.credit_messages - lane.given_messages
            size_bytes = lane.credit_bytes - lane.given_bytes
            on_disk_before = lane.queue.depth_on_disk
            try:
                pieces = lane.queue.hand_out(messages, size_bytes, accepted_before_ms=before_ms, below=below)
            finally:
                self._commit_wanted |= self._hold_behind(name, lane, on_disk_before)
            self._give(name, lane, pieces)
            more = lane.queue.cut_short  # nobody else would see to what could not be read

    def _expire(self, name: str, lane: _Lane, before_ms: int) -> None:
        on_disk_before = lane.queue.depth_on_disk
        try:
            lane.queue.expire(before_ms)
        finally:
            self._commit_wanted |= self._hold_behind(name, lane, on_disk_before)

    def _hold_behind(self, name: str, lane: _Lane, on_disk_before: int) -> bool:
        """Whether the queue has lost some that were on disk: then nothing behind them is handed out before the next commit, synced.

        A crash would bring them back, and they would leave behind newer ones of their topic (P4).
        """
        if lane.queue.depth_on_disk >= on_disk_before or not self._engine.durable:
            return False
        self._needs_sync = True
        if not lane.discarding:
            lane.discarding = True
            self._write.on_commit(partial(self._has_discarded, name))
        return True

    def _has_discarded(self, name: str) -> None:
        lane = self._lanes.get(name)
        if lane is not None:
            lane.discarding = False
            self._ready.add(name)

    def _give(self, name: str, lane: _Lane, pieces: list[Piece]) -> None:
        if lane.queue.wants_mark:
            self._commit_wanted = True
            self._changed.add(name)
            self._ready.add(name)
        if pieces:
            self._can_read(name, lane)
        for piece in pieces:
            lane.given_messages += piece.count
            lane.given_bytes += piece.size_bytes
            frame = HandOut(
                queue=name,
                epoch=lane.epoch,
                first_seq=piece.first_seq,
                count=piece.count,
                size_bytes=piece.size_bytes,
                offsets=piece.offsets,
                bodies=(piece.body,),
            )
            self._effects.append((lane.peer, frame))

    # --- inside: limits ---

    def _rooms(self, now_s: float, wanted: list[str]) -> dict[str, list[Room]]:
        """For each queue, ``wanted`` ones included, the room of its bridge and of the node, as they are now."""
        for name in wanted:
            if name not in self._lanes:
                self._open_lane(name)
        self._look_at_disk(now_s)
        limits = self._settings.limits
        free = self._free_bytes
        used: dict[str, tuple[int, int]] = {}
        for lane in self._bridge_lanes.values():
            messages, size_bytes = used.get(lane.bridge, (0, 0))
            used[lane.bridge] = (messages + lane.queue.depth, size_bytes + lane.queue.size_bytes)
        node = Room.of(
            limits,
            sum(messages for messages, _ in used.values()) + self._sessions_used[0],
            sum(size_bytes for _, size_bytes in used.values()) + self._sessions_used[1],
            disk_full=free is not None and free < limits.min_free_disk_bytes,
        )
        bridges: dict[str, Room] = {}
        for name, (messages, size_bytes) in used.items():
            own = self._limits.get(name, _UNLIMITED)
            disk_full = free is not None and free < own.min_free_disk_bytes
            bridges[name] = Room.of(own, messages, size_bytes, disk_full=disk_full)
        for lane in self._bridge_lanes.values():
            if lane.row_damaged:
                bridges[lane.bridge] = Room(messages=0, size_bytes=0, overflow="reject", disk_full=True)
        rooms = {name: [bridges[lane.bridge], node] for name, lane in self._bridge_lanes.items()}
        for name in wanted:
            if name not in rooms:
                queue = self._lanes[name].queue
                room = Room.of(self._session_limits, queue.depth, queue.size_bytes, disk_full=False)
                if self._lanes[name].row_damaged:
                    room = Room(messages=0, size_bytes=0, overflow="drop-newest")
                rooms[name] = [room, node]
        return rooms

    def _drop_oldest(self, queue: str, messages: int, size_bytes: int, rooms: Mapping[str, list[Room]]) -> int:
        lane = self._lanes[queue]
        if lane.damaged:
            return 0
        messages_before, bytes_before = lane.queue.depth, lane.queue.size_bytes
        on_disk_before = lane.queue.depth_on_disk
        try:
            dropped = lane.queue.drop_oldest(messages, size_bytes)
        except StorageDamaged as error:
            lane.queue.losses.isolate(error)
            dropped = messages_before - lane.queue.depth
        except Unavailable as error:
            self._cannot_read(queue, lane, error)
            dropped = messages_before - lane.queue.depth
        for room in rooms[queue]:
            room.take(lane.queue.depth - messages_before, lane.queue.size_bytes - bytes_before)
        self._without_room += dropped
        self._hold_behind(queue, lane, on_disk_before)
        return dropped

    def _look_at_disk(self, now_s: float) -> None:
        if now_s - self._disk_checked_s >= TICK_S:
            self._disk_checked_s = now_s
            self._free_bytes = self._engine.free_bytes()

    # --- inside: lanes ---

    def _open_lanes(self) -> None:
        """Open what is configured and what is there; what waits for others is kept, and named (P7)."""
        for name in sorted({*self._configured, *self._numbers.names()}):
            if lane_of_queue(name) is not None or session_of_queue(name) is not None:
                self._open_lane(name)
        for name, lane in self._bridge_lanes.items():
            if lane.bridge not in self._limits and lane.queue.depth:
                log.warning("queue.unserved", extra={"queue": name, "messages": lane.queue.depth})

    def _open_lane(self, name: str) -> _Lane:
        place = lane_of_queue(name)
        limits = self._limits.get(place.bridge, _UNLIMITED) if place is not None else self._session_limits
        number = self._numbers.number(name)
        row_damaged = False
        try:
            queue = Queue(
                self._engine,
                name,
                number,
                first_seq=self._first_seq,
                volatile_max_bytes=limits.volatile_max_bytes,
                tail_known=self._engine.missing.tails.get(number, 0) if self._engine.missing is not None else 0,
                cache_bytes=CACHE_BYTES if place is not None else 0,
                on_change=lambda: self._changed.add(name),
                mark_holds=self._persistence.sync == "full",
                retained=place is not None and self._retention.wants(place.bridge),
            )
            if place is not None:
                self._events.begin_ledger(name, queue.ledger_opened)
        except StorageDamaged as error:
            log.critical("queue.row_damaged", extra={"queue": name, "error": str(error), "kept": self._engine.keep_evidence()})
            nothing = LaneRow(head=0, tail=0, handed=0, trimmed=0)
            queue = Queue(self._engine, name, number, nothing, volatile_max_bytes=limits.volatile_max_bytes)
            row_damaged = True
        lane = _Lane(
            queue=queue,
            limits=limits,
            peer=peer_of(name),
            bridge=place.bridge if place is not None else "",
            number=place.number if place is not None else 0,
            row_damaged=row_damaged,
        )
        self._lanes[name] = lane
        if place is not None:
            self._bridge_lanes[name] = lane
        return lane

    def _queue_that_stands(self, name: str) -> Queue | None:
        """The queue of a bridge's lane, if it is known where it stands."""
        lane = self._bridge_lanes.get(name)
        return None if lane is None or lane.row_damaged else lane.queue

    def _trim(self, lane: _Lane, *, idle: bool) -> None:
        deleted = lane.queue.trim(self._write, idle=idle)
        if deleted is None:
            return
        start, stop = lane.trimmed_from or deleted[0], deleted[1]
        if idle and lane.peak_bytes >= COMPACT_BYTES:  # a long backlog is gone: give the disk back
            self._write.on_commit(lambda: self._engine.compact("msg", start, stop))
            lane.peak_bytes, start = 0, b""
        lane.trimmed_from = start

    def _guarded(self, name: str, lane: _Lane, action: Any) -> None:
        """Do ``action`` on a queue; what is damaged is taken out of it. One that cannot be read for now is tried again, alone."""
        try:
            for _ in range(ISOLATED_MAX):
                try:
                    action()
                    return
                except StorageDamaged as error:
                    lane.queue.losses.isolate(error)
            self._ready.add(name)
        except ConfigError as error:
            self._stop(name, lane, error)
        except Unavailable as error:
            self._ready.add(name)
            self._cannot_read(name, lane, error)

    def _stop(self, name: str, lane: _Lane, error: ConfigError) -> None:
        lane.damaged = True
        log.error("queue.stopped", extra={"queue": name, "error": str(error)})

    def _cannot_read(self, name: str, lane: _Lane, error: Unavailable) -> None:
        if lane.unreadable is None:
            lane.retry_delay_s = RETRY_FIRST_S
            log.error("queue.unreadable", extra={"queue": name, "error": str(error)})
        elif self._now_s >= lane.retry_s:
            lane.retry_delay_s = min(lane.retry_delay_s * 2, RETRY_MAX_S)
        lane.unreadable = error
        lane.retry_s = self._now_s + lane.retry_delay_s

    def _can_read(self, name: str, lane: _Lane) -> None:
        if lane.unreadable is not None:
            lane.unreadable = None
            log.info("queue.readable", extra={"queue": name})

    def _tell_losses(self, changed: Iterable[str]) -> None:
        """Tell of what was found to be lost, once it is on record."""
        for name in changed:
            lane = self._lanes.get(name)
            if lane is None:
                continue
            for loss in lane.queue.losses.take():
                lane.losses += 1
                facts = {"queue": name, "first_seq": loss.start, "last_seq": loss.stop - 1, "messages": loss.messages}
                kept = self._engine.keep_evidence() if loss.unreadable else self._quarantine.keep(name, loss)
                log.critical("queue.messages_damaged", extra={**facts, "error": loss.error, "kept": kept})
                if lane.open and loss.session_forgotten:  # the remote is told to forget what it holds of them
                    self._have_reopened(name, lane)

    # --- for commands ---

    @property
    def events(self) -> EventLog:
        """What happened to the node."""
        return self._events

    @property
    def lanes(self) -> Mapping[str, _Lane]:
        """Every queue of a bridge, configured or not."""
        return self._bridge_lanes

    @property
    def burials(self) -> Burials:
        """The dead-letter queues."""
        return self._burials

    @property
    def open_write(self) -> Write:
        """What the next commit makes durable."""
        return self._write

    def rooms(self, now_s: float, wanted: list[str]) -> dict[str, list[Room]]:
        """For each queue the room of its bridge and of the node; ``wanted`` ones are made if need be."""
        return self._rooms(now_s, wanted)

    def commit_now(self, now_s: float, wall_ms: int) -> bool:
        """Commit the open write, synced; whether the disk took it. If not, it is committed when it does."""
        self._sync_what_sessions_changed()
        self._needs_sync = True
        self._commit_write(now_s, wall_ms)
        return self._retry_s is None

    def disk_refuses(self, now_s: float, error: Unavailable) -> None:
        """The disk refused to be read: wait, and open the engine again."""
        self._disk_refuses(now_s, error)

    @property
    def sessions(self) -> Sessions:
        """What is on record of sessions."""
        return self._sessions

    @property
    def local_sessions(self) -> LocalSessions:
        """Who ends them."""
        return self._local

    def session_queue(self, name: str) -> tuple[Queue, bool] | None:
        """The queue of a session, and whether it is damaged; None if it is not there."""
        lane = self._lanes.get(name)
        return None if lane is None else (lane.queue, lane.damaged or lane.row_damaged)

    def belongs_to_a_lane(self, name: str) -> bool:
        """Whether ``name`` is a lane's queue or Connection."""
        return name in self._bridge_lanes or any(
            name == connection_name(lane.bridge, lane.number) for lane in self._bridge_lanes.values()
        )

    def appended(self, name: str) -> None:
        """Something was put back into queue ``name`` and is committed."""
        self._ready.add(name)

    def purged(self, name: str, *, whole: bool) -> None:
        """Queue ``name`` was purged: hand out what comes now; where the ``whole`` queue went, once its lane is opened anew.

        An opening that is under way is that: nothing was handed out in it, and ``LaneOpened`` tells of the queue as it is now.
        """
        lane = self._lanes[name]
        lane.damaged = False
        self._ready.add(name)
        if whole:
            self._can_read(name, lane)  # nothing is left to be read
        if whole and not lane.opening:
            lane.fenced = True
            lane.settles.clear()
            self._have_reopened(name, lane)

    # --- for sessions ---

    def make_queue(self, session: str) -> str:
        """A new, empty queue for ``session``, committed with the open write; its name."""
        life = 0 if self._engine.durable else self._epoch << 32  # numbers begin again, names do not
        name = self._numbers.new(lambda number: session_queue_name(life + number, session), self._write)
        self._open_lane(name)
        return name

    def remove_queue(self, name: str) -> int:
        """The queue goes with the open write; how many messages were in it."""
        lane = self._lanes.pop(name, None)
        if lane is None:
            return 0
        self._owing.discard(name)
        self._ready.discard(name)
        number = self._numbers.forget(name, self._write)
        self._write.delete("meta", lane_key(number))
        start, stop = chunk_key(number, 0), chunk_key(number + 1, 0)
        self._write.delete_range("msg", start, stop)
        if max(lane.peak_bytes, lane.queue.size_bytes) >= COMPACT_BYTES:  # give the disk back
            self._write.on_commit(lambda: self._engine.compact("msg", start, stop))
        return lane.queue.depth

    def put(self, name: str, batch: Batch) -> None:
        """Append ``batch``, of QoS 1 and 2, to the queue with the open write, if the queue is there and has room."""
        lane = self._lanes.get(name)
        if lane is None or lane.row_damaged:
            return
        size_bytes = batch.size_bytes()
        room = Room.of(self._session_limits, lane.queue.depth, lane.queue.size_bytes, disk_full=False)
        if room.fits(len(batch), size_bytes):
            lane.queue.append(batch.encode(), len(batch), size_bytes, 0, self._write)
            self._write.on_commit(partial(self._ready.add, name))
        else:
            lane.queue.refuse_into("dropped:overflow", len(batch))

    # --- figures ---

    def status(self, wall_ms: int) -> dict[str, Any]:
        """Figures for ``bascule status``."""
        held_back = self._senders.held_back()
        queues = {
            name: {**self._lane_status(name, lane, wall_ms), "held_back": held_back[name]}
            for name, lane in self._bridge_lanes.items()
        }
        low = self._disk_is_low()
        trouble = self._refusal or next((lane.unreadable for lane in self._lanes.values() if lane.unreadable is not None), None)
        return {
            "queues": queues,
            "dead_letters": self._burials.figures(),
            "sessions": self._session_figures(),
            "mode": self._persistence.mode,
            "disk_free_bytes": self._free_bytes,
            "events": self._events.figures(),
            "commits": self._commits,
            "damaged_files": self._engine.kept,
            **({"state": "disk_low" if low else "running"} if trouble is None else refusal_facts(trouble)),
        }

    def _rules_of(self, bridge: str) -> tuple[RuleSettings, ...]:
        return next((own.local_subscriptions for own in self._settings.bridges if own.name == bridge), ())

    def _session_figures(self) -> dict[str, Any]:
        """All sessions together, since the queues of those that have ended are gone."""
        ledgers = [lane.queue.ledger for lane in self._lanes.values() if not lane.bridge]
        messages, size_bytes = self._sessions_used
        return {
            **self._local.figures(),
            "depth": messages,
            "bytes": size_bytes,
            "dropped": sum(sum(ledger.dropped.values()) for ledger in ledgers),
            "refused": sum(ledger.refused for ledger in ledgers),
        }

    def _lane_status(self, name: str, lane: _Lane, wall_ms: int) -> dict[str, Any]:
        queue, ledger = lane.queue, lane.queue.ledger
        oldest: list[int | None] = [None]
        if not lane.damaged and lane.unreadable is None and self._retry_s is None:
            self._guarded(name, lane, lambda: oldest.__setitem__(0, queue.oldest_ms()))
        return {
            "depth": queue.depth,
            "bytes": queue.size_bytes,
            "oldest_age_s": max(0.0, (wall_ms - oldest[0]) / 1000) if oldest[0] is not None else None,
            "in_flight": queue.in_flight,
            "accepted": ledger.accepted,
            "delivered": ledger.delivered,
            "expired": ledger.expired,
            "dropped": dict(ledger.dropped),
            "dead_lettered": sum(ledger.dead.values()),
            "redelivered": ledger.redelivered,
            "refused": ledger.refused,
            "waits_for_lanes": self._lane_changes.waits_for(lane),
            "former_rules": former_rules(queue, self._rules_of(lane.bridge)),
            "ledger_closes": ledger.closes(queue.depth),
            "retained": {"messages": queue.trimming.retained(queue.head), "bytes": queue.trimming.size_bytes},
            "damaged": {
                "stopped": lane.damaged or lane.row_damaged,
                "places": lane.losses,
                "messages": ledger.dropped.get("damaged", 0),
            },
        }
