"""Sessions of local clients in the store: they begin, go on and end, with their queues, subscriptions and Wills.


It changes memory and the next commit; after that, what ``committed`` has may be sent.

An answer to a client (CONNACK, SUBACK) is committed first, if it outlives the connection (store.answer-after-commit).

store.session-goes-with-its-queue [P2, P3]: a session and its queue end in one commit; a later session of the same name has another
    queue. A queue with messages of a shared subscription goes on without a session, until they are with other members
    (``ended_queues``). A session that an operator ends goes in one commit with its queue, its subscriptions and the event; its Will
    is due at once.

A session does not end before its Will is out (store.will-kept-until-published).

store.repeated-opening-same-answer [P3, MQTT]: an opening that is asked for again, because its answer was lost with a store, gets
    the answer that it had: a session that it has itself begun was not there before [MQTT-3.2.2-2, MQTT-3.2.2-4]. A session that
    ends with its connection is not there for the next one [MQTT-3.1.2-6].
store.session-is-its-users [access]: what lasts of a session is its user's: nobody else opens it, not with a clean start either, nor
    ends its Will's delay by that.

The last word of a connection is kept by the Listener until it is committed here: it is sent again to a new store
(broker.end-told-until-committed).

store.shared-out [P5, access]: no user, no address of clients without a user, and no bridge has more than its share of
    ``sessions_max``, ``retained_max_messages`` and ``retained_max_bytes``, a restart later neither. Whose session is there stays;
    the last publisher to a topic has its message in his share.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from storage.engine.engine import Write
from storage.engine.queue_numbers import QueueNumbers
from storage.store.ended_queues import EndedQueues
from storage.store.lanes import Lanes
from storage.store.next_commit import NextCommit
from storage.store.retained_pieces import RetainedPieces
from storage.store.session_queues import SessionQueues
from storage.store.session_rows import Opening, Session, Sessions, is_remote, queue_of_session, sessions_of
from wire.config_settings import SettingsNow
from wire.exchange.wills import size_bytes
from wire.figure import joined
from wire.frames.batch import QOS_MASK
from wire.frames.frame import Effects, Frame
from wire.frames.intake import SessionClose, SessionClosed, SessionGone, SessionOpen, SessionOpened, SessionsKnown, SessionsWanted
from wire.frames.names import DISTRIBUTOR, LISTENER
from wire.frames.subscriptions import RetainedWanted, SubscriptionsAdd, SubscriptionsDrop, SubscriptionsKept
from wire.limit_shares import Shares
from wire.status.store import SessionFigures

log = logging.getLogger("bascule")

KNOWN_BYTES = 1 << 18  # of what a ``SessionsKnown`` has; a session is not cut
KNOWN_BESIDE_BYTES = 50  # about what is beside each name and each topic filter
_OPERATOR = "operator"  # why a session has ended
SessionFrame = SessionOpen | SessionClose | SessionsWanted | SubscriptionsAdd | SubscriptionsDrop


class LocalSessions:
    """Takes the frames that are about sessions, and has all that is kept of them.

    rows: of sessions here and at remotes. queues, pieces, ended: of local sessions. answers: what ``committed`` has.
    """

    def __init__(
        self, settings: SettingsNow, numbers: QueueNumbers, lanes: Lanes, next_commit: NextCommit, sessions: Sessions, *, epoch: int
    ) -> None:
        """epoch: of the store.

        Raises:
            StorageDamaged, Unavailable: what is on record cannot be read.
        """
        engine = next_commit.engine
        self.rows, self.write_rows = sessions, sessions.write_rows
        self.queues = SessionQueues(engine, lanes, numbers, next_commit, epoch=epoch)
        self.pieces = RetainedPieces(engine, settings, sessions, self.queues, next_commit)
        self.ended = EndedQueues(sessions, self.queues, self.pieces, next_commit, lanes.read)
        self._queue_of_lane = lanes.queue_that_stands
        self._subscriptions = SessionSubscriptions(sessions, self.pieces, next_commit)
        self._next = next_commit
        self._settings = settings
        self._epoch = epoch
        self.settings_changed()
        self._listener_epoch = max((session.connected[0] for session in sessions if session.connected), default=0)
        self._shares = Shares()
        for session in sessions:
            if session.queue:
                self._shares.add(session.owner, 1)
        self.answers: list[tuple[str, Frame]] = []
        self._expired = 0
        self._ended = self._purged = 0

    def settings_changed(self) -> None:
        """The limit of how long they last may be lower than when they began; rules may bring what is retained."""
        self.pieces.settings_changed()
        for session in self.rows:
            if not is_remote(session.name):
                session.limit(self._settings.now.sessions.expiry_max_s)

    # --- frames ---

    @property
    def applies(self) -> dict[type[Frame], Callable[[Any], None]]:
        """The receiver of each frame that need not wait for the batches before it."""
        return {RetainedWanted: self.pieces.asked.append}

    def knows(self, name: str) -> bool:
        """Whether the session is a local client's, or one that its lane knows (store.row-of-known-session-only)."""
        if not is_remote(name):
            return True
        queue = self._queue_of_lane(queue_of_session(name))
        return queue is not None and name in sessions_of(queue)

    def receive(self, frame: SessionFrame, wall_ms: int) -> None:
        """Act on one frame; its answer may be sent once the open write is committed."""
        match frame:
            case SessionOpen():
                if frame.sender == LISTENER:
                    self._listener_lives(frame.epoch, wall_ms)
                self._open(frame, wall_ms)
            case SessionClose():
                self._close(frame)
                self.answers.append((LISTENER, SessionClosed(epoch=frame.epoch, source=frame.source)))
            case SessionsWanted():
                self._listener_lives(frame.epoch, wall_ms)
                self.answers.extend((DISTRIBUTOR, known) for known in self._known(frame.epoch))
            case SubscriptionsAdd() | SubscriptionsDrop() if frame.epoch < self._listener_epoch:
                pass  # late from a dead life: the next one was told what is kept, without this, and its client is not there
            case SubscriptionsAdd():
                self.answers += self._subscriptions.add(frame)
            case SubscriptionsDrop():
                self.answers += self._subscriptions.drop(frame)

    def collect(self, now_s: float, wall_ms: int) -> Effects:
        """Put a piece of what sessions are owed into the next commit; what the Listener has asked for."""
        effects = self.pieces.serve(now_s, wall_ms) if self.pieces.busy else []
        if self.ended.ready:
            self.ended.serve(now_s)
        return effects

    def committed(self, *_time: float) -> Effects:
        """Answers that may be sent, where all is on record."""
        if self._next.awaited:
            return []
        answers, self.answers = self.answers, []
        return answers

    def tick(self, write: Write, now_s: float, wall_ms: int) -> None:
        """What time brings: sessions end whose time is up. Call it about once a second."""
        self.pieces.tick(write, now_s, wall_ms)
        for session in self.rows:
            if session.connected is None:
                self._end_if_expired(session, wall_ms)
        self.ended.tick()
        self.queues.count()

    def _end_if_expired(self, session: Session, wall_ms: int) -> bool:
        """End ``session`` if its time is up; whether it was."""
        if not (session.expiry_s or session.queue) or not session.ended(wall_ms):
            return False
        self._expired += 1
        gone = SessionGone(session=session.name, queue=session.queue)
        self._end(session, "expired")
        self.answers.append((LISTENER, gone))
        return True

    def end(self, session: Session, wall_ms: int, *, drops_will: bool) -> int:
        """End ``session`` by an operator's order, with the open write (store.session-goes-with-its-queue); how many messages went
        with its queue.

        A Will that is to be published stays on record until it is out (store.will-kept-until-published).
        """
        gone = SessionGone(session=session.name, queue=session.queue, drops_will=drops_will)
        self._ended += 1
        before = self._purged
        if drops_will or session.will is None:
            self._end(session, _OPERATOR)
        else:
            if session.connected is not None:
                session.leave(wall_ms)
            session.limit(0)
            self.rows.empty(session)
            self._remove_queue(session, _OPERATOR)
            self._on_changed(session)
        self.answers.append((LISTENER, gone))
        return self._purged - before

    def figures(self) -> SessionFigures:
        """Figures for ``status``, with those of their queues."""
        return joined(
            SessionFigures,
            self.queues.figures(),
            kept=self.kept,
            connected=sum(1 for session in self.rows if session.queue and session.connected is not None),
            expired=self._expired,
            ended=self._ended,
            purged=self._purged,
            damaged_rows=self.rows.damaged,
            retained=self.pieces.figures(),
        )

    @property
    def kept(self) -> int:
        """Sessions of clients that are on record."""
        return self._shares.total

    # --- inside ---

    def _listener_lives(self, epoch: int, wall_ms: int) -> None:
        """Connections of older lives of the Listener are gone, since now."""
        if epoch <= self._listener_epoch:
            return
        self._listener_epoch = epoch
        for session in self.rows:
            if session.connected is not None and session.connected[0] < epoch:
                self._disconnect(session, wall_ms)

    def _open(self, frame: SessionOpen, wall_ms: int) -> None:
        session = self.rows.get(frame.session)
        if session is not None and frame.sender == LISTENER and self._end_if_expired(session, wall_ms):
            session = None
        opening = (frame.sender, frame.epoch, frame.request)
        present, refused = False, ""
        if session is not None and self._is_anothers(session, frame):
            session, refused = None, "user"
        elif frame.resumes:
            present = session is not None and session.connected == (frame.epoch, frame.source)
            session = session if present else None
        elif session is not None and session.opening == opening:
            present = session.found  # store.repeated-opening-same-answer
        else:
            present = session is not None and session.expiry_s > 0 and not frame.clean
            if session is not None and not present and session.lasting:
                self._end(session, "clean start" if frame.clean else "its connection ended")
                session = None
            makes_queue = frame.sender == LISTENER and bool(frame.expiry_s) and (session is None or not session.queue)
            if makes_queue:
                most, percent = self._settings.now.sessions.sessions_max, self._settings.now.sessions.user_share_percent
                refused = self._shares.broken(frame.owner, 1, "sessions_max", most, percent)  # store.shared-out
            session = None if refused else self._begin(frame, opening, present, makes_queue=makes_queue)
        if session is not None:
            self._note_filters(session, frame.filters, frame.given_up)
        self.answers.append(
            (
                frame.sender,
                SessionOpened(
                    sender=frame.sender,
                    epoch=frame.epoch,
                    store=self._epoch,
                    request=frame.request,
                    session=frame.session,
                    present=present and not refused,
                    received=session.received_column() if session is not None else b"",
                    queue=session.queue if session is not None else "",
                    subscriptions=_subscriptions(session) if session is not None else (),
                    refused=refused,
                ),
            )
        )

    def _is_anothers(self, session: Session, frame: SessionOpen) -> bool:
        """Whether something lasts of the session that is another user's (store.session-is-its-users)."""
        mine = session.user is None or session.user == frame.user or not self._settings.now.authenticates_users
        return not mine and session.lasting and frame.sender == LISTENER

    def _begin(self, frame: SessionOpen, opening: Opening, present: bool, *, makes_queue: bool) -> Session:
        """The session begins or goes on."""
        session = self.rows.get(frame.session) or Session(frame.session)
        changes = session.lasting or bool(frame.expiry_s) or frame.will is not None
        if frame.sender != LISTENER and present and session.expiry_s == frame.expiry_s:
            return session  # a remote's: who is connected to it is not kept here
        session.begin(opening, found=present, expiry_s=frame.expiry_s, user=frame.user, listener=frame.listener)
        if frame.sender == LISTENER:
            session.connect((frame.epoch, frame.source))
        if makes_queue:
            session.take_queue(self.queues.make(frame.session), frame.owner)
            self._shares.add(session.owner, 1)
        if changes:
            self._on_changed(session)
            self.rows.put_will(session, frame.will)
        return session

    def _note_filters(self, session: Session, filters: Iterable[str], given_up: Sequence[str]) -> None:
        """Filters that a lane subscribes to at its remote; each stays noted, to be given up there once the configuration has it no
        more, until nothing more is to come by it."""
        new = [topic_filter for topic_filter in filters if topic_filter not in session.subscriptions]
        for topic_filter in new:
            self.rows.subscribe(session, topic_filter, 0, 0)
        self.rows.unsubscribe(session, given_up)
        if new or given_up:
            self._on_changed(session)

    def _close(self, frame: SessionClose) -> None:
        session = self.rows.get(frame.session)
        if session is None or session.connected != (frame.epoch, frame.source):
            return
        session.expire_after(min(frame.expiry_s, self._settings.now.sessions.expiry_max_s))
        if not frame.keep_will:
            self.rows.put_will(session, None)
        self._disconnect(session, frame.wall_ms)

    def _disconnect(self, session: Session, wall_ms: int) -> None:
        session.leave(wall_ms)
        self._on_changed(session)
        if not session.expiry_s and session.queue:
            self._remove_queue(session, "disconnected")
        if not session.expiry_s:
            self.rows.empty(session)

    def _end(self, session: Session, why: str) -> None:
        """The session ends with the open write, and everything of it (store.session-goes-with-its-queue)."""
        self._remove_queue(session, why)
        self.rows.forget(session.name)
        self._next.promise()

    def _remove_queue(self, session: Session, why: str) -> None:
        if session.queue:
            self.answers.append((DISTRIBUTOR, SessionGone(session=session.name, queue=session.queue)))
            self.pieces.end_all(session.queue)
            waited = self.ended.end(session.queue)
            log.info("session.ended", extra={"client_id": session.name, "why": why, "waited": waited})
            session.lose_queue()
            self._shares.add(session.owner, -1)
            if why == _OPERATOR:
                self._purged += waited

    def _on_changed(self, session: Session) -> None:
        self.rows.keep(session)
        self._next.promise()

    def _known(self, epoch: int) -> Iterator[SessionsKnown]:
        """The kept sessions, in frames that end with what goes beyond ``KNOWN_BYTES``."""
        rows: list[tuple[Any, ...]] = []
        size = 0

        def known(*, last: bool) -> SessionsKnown:
            return SessionsKnown(epoch=epoch, store=self._epoch, sessions=tuple(rows), last=last)

        for session in self.rows:
            if session.queue or (session.will is not None and session.connected is None):
                user = session.user if self._settings.now.authenticates_users else None
                due_ms = session.will_due_ms if session.will else 0
                fields = _subscriptions(session), session.will, due_ms, user, session.listener, session.owner
                rows.append((session.name, session.queue, *fields))
            size += _known_bytes(session)
            if size >= KNOWN_BYTES:
                yield known(last=False)
                rows, size = [], 0
        yield known(last=True)


def _known_bytes(session: Session) -> int:
    """About what a ``SessionsKnown`` has of it."""
    names = [session.name, session.queue, *session.subscriptions]
    return sum(map(len, names)) + KNOWN_BESIDE_BYTES * len(names) + (0 if session.will is None else size_bytes(session.will))


def _subscriptions(session: Session) -> tuple[tuple[str, int, int], ...]:
    return tuple((topic_filter, *options) for topic_filter, options in session.subscriptions.items())


class SessionSubscriptions:
    """Adds and drops subscriptions of ``sessions``; what it returns may be sent once the next commit is made."""

    def __init__(self, sessions: Sessions, pieces: RetainedPieces, next_commit: NextCommit) -> None:
        self.sessions = sessions
        self._pieces = pieces
        self._next = next_commit

    def add(self, frame: SubscriptionsAdd) -> Effects:
        """Put those on record that are new or others now, and what is retained for them on its way into the session's queue."""
        session = self._session_of(frame)
        if session is not None:
            is_new = session.subscribe((frame.epoch, frame.request))
            for topic_filter, options, identifier, wanted in frame.filters:
                begins = wanted and is_new and bool(options & QOS_MASK)
                if begins or session.subscriptions.get(topic_filter) != (options, identifier):
                    self.sessions.subscribe(session, topic_filter, options, identifier)
                    self._next.promise()
                if begins:
                    self._pieces.begin(session.queue, topic_filter)
                elif not options & QOS_MASK:
                    self._pieces.end(session.queue, topic_filter)
        return [_kept(frame)]

    def drop(self, frame: SubscriptionsDrop) -> Effects:
        """Take them off the record."""
        session = self._session_of(frame)
        if session is not None:
            self.sessions.unsubscribe(session, frame.filters)
            for topic_filter in frame.filters:
                self._pieces.end(session.queue, topic_filter)
            self._next.promise()
        return [_kept(frame)]

    def _session_of(self, frame: SubscriptionsAdd | SubscriptionsDrop) -> Session | None:
        """The kept session that is meant; None for a live one, and for one that has ended meanwhile."""
        session = self.sessions.get(frame.session) if frame.queue else None
        return session if session is not None and session.queue == frame.queue else None


def _kept(frame: SubscriptionsAdd | SubscriptionsDrop) -> tuple[str, SubscriptionsKept]:
    return LISTENER, SubscriptionsKept(epoch=frame.epoch, request=frame.request, source=frame.source)
