"""What comes in from senders: it waits for the end of the turn, is decided on in its order, and goes into the next commit.

Each numbered batch is taken once, and answered when it is on record. The rules of a link are ``receiving_link``'s, those of limits
``full_queue_refusal``'s; what sessions want takes its place between the batches, and is ``local_sessions``'.

store.answer-after-commit: ``Committed`` is returned after the commit it tells of, unless ``acknowledge`` is ``fast`` (P1).
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from storage.queue.full_queue_refusal import Admission, Room, admit_all, admit_rows, fits
from storage.store.disk_trouble import Disk
from storage.store.event_log import EventLog
from storage.store.followed_messages import FollowedMessages
from storage.store.lanes import Lanes
from storage.store.local_sessions import LocalSessions, SessionFrame
from storage.store.next_commit import NextCommit
from storage.store.receiving_link import Senders, Verdict
from storage.store.remote_sessions import RemoteSessions
from storage.store.retained_pieces import RetainedPieces
from storage.store.room_left import Rooms
from storage.store.session_queues import SessionQueues
from storage.store.session_rows import Sessions
from wire.frames.base import Effects
from wire.frames.batch import pack_column, unpack_column
from wire.frames.intake import Append, Committed, SessionClose, SessionOpen, SessionsWanted, SourceResumed
from wire.frames.local_sessions import SubscriptionsAdd, SubscriptionsDrop
from wire.frames.names import LISTENER, RETAINED, session_of_queue

_Ordered = Append | SourceResumed | SessionFrame  # what takes effect in the order in which it came


class Intake:
    """Takes frames, and puts into the next commit what there is room for.

    waiting: what is not decided on. repeats: the senders of which something came again that is on record. followed: the messages
    that an operator wants to see.
    """

    def __init__(
        self,
        senders: Senders,
        lanes: Lanes,
        rooms: Rooms,
        disk: Disk,
        next_commit: NextCommit,
        sessions: Sessions,
        session_queues: SessionQueues,
        local_sessions: LocalSessions,
        remote_sessions: RemoteSessions,
        pieces: RetainedPieces,
        events: EventLog,
        *,
        epoch: int,
    ) -> None:
        """epoch: of the store, which its answers name."""
        self._senders = senders
        self._lanes = lanes
        self._lane_changes = lanes.changes
        self._rooms = rooms
        self._disk = disk
        self._next = next_commit
        self._sessions = sessions
        self._session_queues = session_queues
        self._local_sessions = local_sessions
        self._remote_sessions = remote_sessions
        self._pieces = pieces
        self._events = events
        self.followed = FollowedMessages(lanes)
        self._epoch = epoch
        self.waiting: list[_Ordered] = []
        self._without_room = 0  # messages refused or dropped, because of this Append
        self._acks: dict[str, Committed] = {}
        self.repeats: set[str] = set()

    # --- frames ---

    def append(self, frame: Append) -> None:
        """Take a batch, if it is the next one of its sender; a repeat is answered again."""
        match self._senders.judge(frame.sender, frame.epoch, frame.number):
            case Verdict.NEXT:
                self.waiting.append(frame)
            case Verdict.REPEAT:
                sender = self._senders.get(frame.sender)
                if sender is not None and frame.number <= sender.committed:  # if not, the commit to come answers it
                    self.repeats.add(frame.sender)
            case Verdict.GAP | Verdict.FENCED:
                pass  # the sender sends again what is missing; one that is gone has no say

    def receive(self, frame: SourceResumed | SessionFrame) -> None:
        """Take what is to take effect between the batches."""
        match frame:
            case SessionOpen() | SessionClose():
                # A batch of the sender's former life may still be on its way: not after this.
                if self._senders.begin(frame.sender, frame.epoch).epoch == frame.epoch:
                    self.waiting.append(frame)
            case SessionsWanted():
                if self._senders.begin(LISTENER, frame.epoch).epoch == frame.epoch:
                    self.waiting.append(frame)
            case SubscriptionsAdd() | SubscriptionsDrop() | SourceResumed():
                self.waiting.append(frame)

    # --- a turn ---

    def admit(self, now_s: float, wall_ms: int) -> bool:
        """Put what waits into the next commit, as far as there is room; False if the disk refuses, so that some goes on waiting."""
        if self._disk.retry_s is not None:
            return False
        waiting, self.waiting = self.waiting, []
        for frame in waiting:
            match frame:
                case Append():
                    if self._senders.is_fenced(frame.sender, frame.epoch):
                        continue  # since it came: what its sender's stalled sources were is forgotten with that life
                    if frame.lanes != self._lane_changes.routed_by:
                        self._lane_changes.route(frame.lanes)
                    queued, retained = self._told_apart(frame)
                    holds = self._rooms.hold(queued, now_s)
                    rooms = self._rooms.measured if holds else self._rooms.measure(now_s, [part[0] for part in queued.parts])
                    too_large = self._admit(queued, retained, rooms, holds or fits(queued, rooms), now_s)
                    if self._without_room:
                        self._tell_overflow(queued, too_large, rooms, now_s, wall_ms)
                case SessionOpen() if not self._remote_sessions.knows(frame.session):
                    pass  # its lane has another session by now
                case SourceResumed():
                    self._count_refused(dict.fromkeys(self._senders.source_resumed(frame), frame.given_up))
                case _:
                    self._local_sessions.receive(frame, wall_ms)
        return True

    def take_acks(self) -> Effects:
        """The acknowledgements of what was admitted."""
        acks, self._acks = self._acks, {}
        return list(acks.items())

    def answer_repeats(self) -> Effects:
        """The acknowledgements of what came again, though it is on record."""
        effects: Effects = []
        for name in self.repeats:
            sender = self._senders.get(name)
            if sender is not None:
                refused = self._senders.refused(name, sender.epoch)
                committed = Committed(sender=name, epoch=sender.epoch, store=self._epoch, number=sender.committed, refused=refused)
                effects.append((name, committed))
        self.repeats.clear()
        return effects

    # --- inside: one batch ---

    def _told_apart(self, frame: Append) -> tuple[Append, tuple[bytes, bytes] | None]:
        """``frame`` with the parts that go into a queue that is there; and the rows and the body that are to be retained."""
        if len(frame.parts) == 1 and frame.parts[0][0] in self._lanes.all:
            return frame, None
        places, retained = [], None
        for place, (queue, _, _, _, rows) in enumerate(frame.parts):
            if queue == RETAINED:
                retained = rows, frame.bodies[place]
            elif queue in self._lanes.all or session_of_queue(queue) is None:
                places.append(place)
        if len(places) == len(frame.parts):
            return frame, None
        parts, bodies = tuple(frame.parts[place] for place in places), tuple(frame.bodies[place] for place in places)
        return replace(frame, parts=parts, bodies=bodies), retained

    def _admit(
        self, frame: Append, retained: tuple[bytes, bytes] | None, rooms: Mapping[str, list[Room]], all_fits: bool, now_s: float
    ) -> Mapping[str, int]:
        """Put what there is room for into the open write; for each queue, the bytes of the largest row that can never come in."""
        sender = self._senders.get(frame.sender)
        any_stalled = sender is not None and sender.epoch == frame.epoch and bool(sender.stalled)
        if all_fits and not any_stalled:
            admission = admit_all(frame, rooms)
        else:
            admission = admit_rows(
                frame,
                rooms,
                self._senders.stalled(frame.sender, frame.epoch),
                lambda queue, messages, size_bytes: self._drop_oldest(queue, messages, size_bytes, rooms, now_s),
            )
        if self.followed.all:
            self.followed.admitted(frame, admission, now_s)
        self._append(admission)
        self._next.messages += len(frame.refusable) - len(admission.refused)
        if frame.received or frame.released:
            self._receive_ids(frame, admission)
        if retained is not None:
            rows_column, body = retained
            refused = set(admission.refused)
            rows = unpack_column("H", rows_column) if rows_column else range(len(frame.refusable))
            self._pieces.retained.change(
                body, {at for at, row in enumerate(rows) if row in refused} if refused else (), self._next.write
            )
            self._next.survive()
        if frame.wills:
            self._local_sessions.wills.sent(frame.wills, (frame.epoch, frame.number), admission.refused)
        self._next.awaited = True
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

    def _drop_oldest(self, queue: str, messages: int, size_bytes: int, rooms: Mapping[str, list[Room]], now_s: float) -> int:
        dropped, dropped_bytes = self._lanes.drop_oldest(queue, messages, size_bytes, now_s)
        for room in rooms[queue]:
            room.take(-dropped, -dropped_bytes)
        self._without_room += dropped
        return dropped

    def _append(self, admission: Admission) -> None:
        write = self._next.write
        messages = size_bytes = 0  # that go to sessions
        for part in admission.parts:
            lane = self._lanes.all[part.queue]
            if part.dropped:
                lane.queue.refuse_into("dropped:overflow", part.dropped)
                self._without_room += part.dropped
            if part.count:
                if part.queue in self._pieces.queues:
                    self._pieces.precede(part.queue, part.body)
                lane.queue.append(part.body, part.count, part.size_bytes, part.qos0, write)
                write.on_commit(partial(self._lanes.ready.add, part.queue))
                if not lane.bridge:
                    messages, size_bytes = messages + part.count, size_bytes + part.size_bytes
                if part.qos0 < part.count or not self._lanes.durable:
                    self._next.survive()
        if messages:
            self._session_queues.added(messages, size_bytes)

    def _receive_ids(self, frame: Append, admission: Admission) -> None:
        refused = set(admission.refused)
        for session, (ids, rows) in frame.received.items():
            packet_ids = unpack_column("H", ids)
            if refused:
                of_rows = unpack_column("H", rows)
                accepted = [packet_id for packet_id, row in zip(packet_ids, of_rows, strict=True) if row not in refused]
            else:
                accepted = list(packet_ids)
            if accepted and self._remote_sessions.knows(session):
                self._sessions.receive(session, accepted)
                self._next.survive()
        for session, ids in frame.released.items():
            self._sessions.release(session, unpack_column("H", ids))
            self._next.survive()

    def _count_refused(self, refused: Mapping[str, int]) -> None:
        """Count at each queue what was refused for good; it is on record with the next commit, synced if anything else of it is."""
        for name, messages in refused.items():
            lane = self._lanes.all.get(name)
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
            for bridge, room in zip((self._lanes.all[queue].bridge, ""), rooms[queue], strict=True):
                if not room.fits(1, largest) and (bridge or room is rooms[queue][1]):
                    full[bridge] = "min_free_disk" if room.disk_full else room.overflow
        for bridge, policy in full.items():
            self._events.overflowed(bridge, policy, messages, now_s, wall_ms)
