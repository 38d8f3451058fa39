"""Who sends to the store: a frame waits for the end of the turn, is decided on in its order, and goes into the next commit.

Each numbered batch is taken once, and answered when it is on record. The rules of a link are ``receiving_link``'s, those of limits
``admission``'s; how much local clients may publish is ``client_room``'s. What sessions want takes its place between the batches,
and is ``local_sessions``'.

store.answer-after-commit: ``Committed`` is returned after the commit it tells of, unless ``acknowledge`` is ``fast`` (P1).
store.taken-is-kept [P2]: a batch of local clients is taken as it comes, whatever has become of the room since. One from a remote
    that does not fit waits, with all that its sender has sent behind it, unanswered; nothing of it is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from storage.queue.admission import AdmissionRoom, Admitted, admit_all, admit_rows, fits
from storage.queue.thinned_topics import Sifted
from storage.store.client_room import ClientRoom, Overflowed, Rooms
from storage.store.lanes import Lanes
from storage.store.local_sessions import LocalSessions, SessionFrame
from storage.store.next_commit import NextCommit
from storage.store.receiving_link import ReceivingLinks, Verdict
from wire.config_settings import SettingsNow
from wire.durability import Durabilities, Durability
from wire.frames.batch import unpack_column
from wire.frames.frame import Effects, Frame
from wire.frames.intake import Append, Committed, CommitWanted, RoomWanted, SenderResumes, SessionClose, SessionOpen, SessionsWanted
from wire.frames.names import LISTENER, RETAINED, session_of_queue
from wire.frames.subscriptions import SubscriptionsAdd, SubscriptionsDrop
from wire.status.loss_reasons import Loss

_Ordered = Append | SessionFrame  # what takes effect in the order in which it came


class Links:
    """Takes frames, and puts into the next commit what there is room for.

    senders: how far each has come. room: how much local clients may publish. waiting: what is not decided on. late: batches from
    remotes for which there is no room yet. repeats: the senders of which something came again that is on record.
    """

    def __init__(
        self,
        lanes: Lanes,
        sessions: LocalSessions,
        next_commit: NextCommit,
        settings: SettingsNow,
        overflowed: Overflowed,
        *,
        epoch: int,
    ) -> None:
        """overflowed: is told that a bridge, or the node, is full, and by which policy. epoch: of the store, which its answers
        name.

        Raises:
            StorageDamaged, Unavailable: what is on record of the senders cannot be read.
        """
        engine = next_commit.engine
        lenient = not engine.durable or _may_forget(next_commit.durabilities, settings.now.number)
        self.senders = ReceivingLinks(engine, lenient=lenient)
        rooms = Rooms(lanes, lambda: (sessions.queues.messages, sessions.queues.size_bytes), next_commit.disk, settings)
        self.room = ClientRoom(rooms, settings, overflowed=overflowed, epoch=epoch)
        self.write_rows = self.senders.write_rows
        self._lanes = lanes
        self._rooms = rooms
        self._next = next_commit
        self._sessions = sessions
        self._epoch = epoch
        self.waiting: list[_Ordered] = []
        self.late: list[Append] = []
        self._dropped = 0  # messages, because of this Append
        self._acks: dict[str, Committed] = {}  # that wait for their commit
        self._early: dict[str, Committed] = {}  # that do not
        self.repeats: set[str] = set()

    # --- frames ---

    @property
    def applies(self) -> dict[type[Frame], Callable[[Any], None]]:
        """The receiver of each frame."""
        return {
            Append: self._on_append,
            CommitWanted: self._on_commit_wanted,
            RoomWanted: self.room.on_asked,
            SenderResumes: self._on_resumed,
            SessionOpen: self._on_connection,
            SessionClose: self._on_connection,
            SessionsWanted: self._on_wanted,
            SubscriptionsAdd: self._on_subscriptions,
            SubscriptionsDrop: self._on_subscriptions,
        }

    def _on_append(self, frame: Append) -> None:
        """Take a batch, if it is the next one of its sender; a repeat is answered again."""
        match self.senders.judge(frame.sender, frame.epoch, frame.number):
            case Verdict.NEXT:
                self.waiting.append(frame)
            case Verdict.REPEAT:
                sender = self.senders.get(frame.sender)
                if sender is not None and frame.number <= sender.committed:  # if not, the commit to come answers it
                    self.repeats.add(frame.sender)
            case Verdict.GAP | Verdict.FENCED:
                pass  # the sender sends again what is missing; one that is gone has no say

    def _on_commit_wanted(self, _frame: CommitWanted) -> None:
        self._next.time.want(0.0)

    def _on_resumed(self, frame: SenderResumes) -> None:
        self.senders.resume(frame.sender, frame.epoch, frame.number)
        if frame.sender == LISTENER:
            self.room.resumes(frame.epoch)

    def _on_connection(self, frame: SessionOpen | SessionClose) -> None:
        # A batch of the sender's former life may still be on its way: not after this.
        if self.senders.begin(frame.sender, frame.epoch).epoch == frame.epoch:
            self.waiting.append(frame)

    def _on_wanted(self, frame: SessionsWanted) -> None:
        if self.senders.begin(LISTENER, frame.epoch).epoch == frame.epoch:
            self.waiting.append(frame)

    def _on_subscriptions(self, frame: SubscriptionsAdd | SubscriptionsDrop) -> None:
        self.waiting.append(frame)

    # --- a turn ---

    def collect(self, now_s: float, wall_ms: int) -> Effects:
        """Put what waits into the next commit, as far as there is room; acknowledgements, where they need not wait for it."""
        if not (self.waiting or self.late) or self._next.disk.retry_s is not None:
            return []
        waiting, self.waiting = self.waiting, []
        late, self.late = self.late, []
        behind = {frame.sender for frame in late} if late else set()
        for frame in waiting:
            match frame:
                case Append():
                    if frame.sender in behind or not self._admit(frame, now_s, wall_ms):
                        behind.add(frame.sender)
                        late.append(frame)
                case SessionOpen() if not self._sessions.knows(frame.session):
                    pass  # its lane has another session by now
                case _:
                    self._sessions.receive(frame, wall_ms)
        still = set()
        for append in late:
            if append.sender in still or not self._admit(append, now_s, wall_ms):
                still.add(append.sender)
                self.late.append(append)
            else:
                self._next.time.take(append)
        if not self._early:
            return []
        self._next.engine.check_files()
        early, self._early = self._early, {}
        return list(early.items())

    def committed(self, *_time: float) -> Effects:
        """Acknowledgements that may be sent: of all that is on record, and again of what came again."""
        effects = [] if self._next.awaited or not self._acks else self._take_acks()
        if self.repeats:
            effects += self._answer_repeats()
        return effects

    def settings_changed(self) -> None:
        """Limits are others now."""
        self.room.settings_changed()

    def _take_acks(self) -> Effects:
        acks, self._acks = self._acks, {}
        return list(acks.items())

    def _answer_repeats(self) -> Effects:
        effects: Effects = []
        for name in sorted(self.repeats):
            sender = self.senders.get(name)
            if sender is not None:
                effects.append((name, Committed(sender=name, epoch=sender.epoch, store=self._epoch, number=sender.committed)))
        self.repeats.clear()
        return effects

    # --- inside: one batch ---

    def _admit(self, frame: Append, now_s: float, wall_ms: int) -> bool:
        """Put ``frame`` into the open write; False if it is to wait."""
        if self.senders.is_fenced(frame.sender, frame.epoch):
            return True  # since it came: its sender has begun a new life
        if frame.lanes != self._lanes.changes.routed_by:
            self._lanes.thinned.release_all()
            self._lanes.changes.route(frame.lanes)
        queued, retained = frame, None
        if len(frame.parts) != 1 or frame.parts[0][0] not in self._lanes.all:
            queued, retained = self._split_off(frame)
        sifted: Mapping[str, Sifted] = {}
        if frame.thinned or self._lanes.thinned.queues:
            queued, sifted = self._lanes.thinned.sift(queued)
        if self._lanes.live.backlogs:
            queued = self._lanes.live.divert(queued)
        holds = self._rooms.hold(queued, now_s)
        rooms = self._rooms.measured if holds else self._rooms.measure(now_s, [part[0] for part in queued.parts])
        held = {}
        if frame.sender != LISTENER:
            if self.room.wait_for_room(queued, rooms):
                return False
        elif self.room.offers:
            self.room.heeded(frame)
        if self.room.offers:
            held = self.room.held_ready()
        if (holds or fits(queued, rooms)) and not (held and _has_unpromised(queued)):
            admitted = admit_all(queued, rooms)
        else:
            admitted = admit_rows(
                queued,
                rooms,
                self._lanes.overflow_of,
                held,
                lambda queue, messages, size_bytes: self._drop_oldest(queue, messages, size_bytes, rooms, now_s),
            )
        if self._lanes.followed.all:
            self._lanes.followed.on_admitted(queued, admitted, now_s)
        if sifted:
            self._lanes.thinned.take(sifted)
            self._rooms.forget()
        durabilities = self._next.time.durabilities
        plain = not durabilities.differ and frame.durability == durabilities.own
        wanted = durabilities.own if plain else self._wanted(frame)
        survives = self._append(admitted) or (durabilities.differ and any(each.left_out for each in sifted.values()))
        self._next.take(queued.rows, survives=survives and wanted.synced)
        self.room.on_admitted(queued, rooms)
        self._take(queued, retained, wanted)
        if self._dropped:
            self._report_overflow(admitted, queued, rooms, now_s, wall_ms)
        return True

    def _split_off(self, frame: Append) -> tuple[Append, tuple[bytes, bytes] | None]:
        """``frame`` with the parts that go into a queue that is there; and the rows and the body that are to be retained."""
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

    def _wanted(self, frame: Append) -> Durability:
        """How strongly ``frame`` is kept: as it was routed, whatever is configured since."""
        wanted = Durability(*frame.durability)
        if self._next.time.durabilities.differ:
            self._next.time.want(wanted.flush_period_s)
        return wanted

    def _take(self, frame: Append, retained: tuple[bytes, bytes] | None, wanted: Durability) -> None:
        """Everything of the batch but its messages: its number, identifiers, Wills, what is retained, what was refused.

        An answer that need not wait for its commit waits nevertheless behind one of the same sender that has to.
        """
        self.senders.on_admitted(frame.sender, frame.number)
        if frame.received or frame.released:
            self._change_identifiers(frame, synced=wanted.synced)
        if retained is not None:
            self._sessions.pieces.retained.change(retained[1], self._next.write)
            self._next.survive(synced=wanted.synced)
        for name, _ in frame.wills:
            session = self._sessions.rows.get(name)
            if session is not None:
                self._sessions.rows.put_will(session, None)  # store.will-kept-until-published
        if frame.refused:
            for name, messages in frame.refused.items():
                lane = self._lanes.all.get(name)
                if lane is not None:
                    lane.queue.count_refused(messages)
        early = wanted.fast and frame.sender not in self._acks
        acks = self._early if early else self._acks
        acks[frame.sender] = Committed(sender=frame.sender, epoch=frame.epoch, store=self._epoch, number=frame.number)

    def _drop_oldest(
        self, queue: str, messages: int, size_bytes: int, rooms: Mapping[str, list[AdmissionRoom]], now_s: float
    ) -> int:
        dropped, dropped_bytes = self._lanes.drop_oldest(queue, messages, size_bytes, now_s)
        for room in rooms[queue]:
            room.take(-dropped, -dropped_bytes)
        self._dropped += dropped
        return dropped

    def _append(self, admitted: Sequence[Admitted]) -> bool:
        """Put what is admitted into its queues; whether any of it is to survive the loss of power."""
        write, survives = self._next.write, False
        messages = size_bytes = 0  # that go to sessions
        for part in admitted:
            lane = self._lanes.all[part.queue]
            if part.dropped:
                lane.queue.refuse_into(Loss.OVERFLOW.dropped, part.dropped)
                self._dropped += part.dropped
            if part.refused:
                lane.queue.count_refused(part.refused)
                self._dropped += part.refused
            if part.count:
                if part.queue in self._sessions.pieces.queues:
                    self._sessions.pieces.precede(part.queue, part.body)
                lane.queue.append(part.body, part.count, part.size_bytes, part.qos0, write)
                if part.raised:
                    lane.queue.count_raised(part.raised)
                write.on_commit(partial(self._lanes.ready.setdefault, part.queue))
                if not lane.bridge:
                    messages, size_bytes = messages + part.count, size_bytes + part.size_bytes
                survives = survives or part.qos0 < part.count or not self._lanes.durable
        if messages:
            self._sessions.queues.on_added(messages, size_bytes)
        return survives

    def _change_identifiers(self, frame: Append, *, synced: bool) -> None:
        for session, ids in frame.received.items():
            if self._sessions.knows(session):
                self._sessions.rows.receive(session, unpack_column("H", ids))
                self._next.survive(synced=synced)
        for session, ids in frame.released.items():
            self._sessions.rows.release(session, unpack_column("H", ids))
            self._next.survive(synced=synced)

    def _report_overflow(
        self, admitted: Sequence[Admitted], frame: Append, rooms: Mapping[str, Sequence[AdmissionRoom]], now_s: float, wall_ms: int
    ) -> None:
        """Some messages were dropped, because of ``frame``: which limits were reached?"""
        messages, self._dropped = self._dropped, 0
        full: dict[str, str] = {}
        for (queue, count, size_bytes, _, _), part in zip(frame.parts, admitted, strict=True):
            largest = max(size_bytes // max(1, count), part.too_large)
            for name, room in zip((self._lanes.all[queue].room, ""), rooms[queue], strict=True):
                if not room.fits(1, largest) and (name or room is rooms[queue][1]):
                    full[name] = "min_free_disk" if room.disk_full else room.overflow
        for name, policy in full.items():
            self.room.overflowed(name, policy, messages, now_s, wall_ms)


def _has_unpromised(frame: Append) -> bool:
    """Whether something of ``frame`` may be dropped for want of room: what came at QoS 0, or goes to sessions."""
    return bool(frame.raised) or any(qos0 or session_of_queue(queue) is not None for queue, _, _, qos0, _ in frame.parts)


def _may_forget(durabilities: Durabilities, number: int) -> bool:
    """Whether what was answered can be lost without a mark that tells: where any is synced, commits that are not leave none.

    A former life in this run of the node may have had other settings, where they have changed.
    """
    return durabilities.any_fast or durabilities.any_synced or number > 1
