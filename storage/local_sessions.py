"""What the store does for local clients' sessions: they begin, go on and end, with their queues, subscriptions and Wills.

It changes memory and the open write; ``tier1`` commits, and then sends what ``take_answers`` has. Queues are ``tier1``'s as well:
it makes and removes them for whoever asks here.

S1  what a client is told (CONNACK, SUBACK) is committed first, where it outlives the connection.
S2  a session and its queue end in one commit; a later session of the same name has another queue.
S3  a Will stays on record until a batch with it is committed, or the client took it back [MQTT-3.1.2-8, MQTT-3.14.4-3].
S4  a session does not end before its Will is out.
S5  an opening that is asked for again, because its answer was lost with a store, gets the answer that it had: a session that it has
    itself begun was not there before [MQTT-3.2.2-2, MQTT-3.2.2-4].
S6  a session that ends with its connection is not there for the next one [MQTT-3.1.2-6].
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from storage.engine import Write
from storage.retained import RetainedMessages
from storage.sessions import Opening, Session, Sessions
from wire.batch import QOS_MASK, Batch
from wire.frames import (
    Frame,
    Retained,
    SessionClose,
    SessionGone,
    SessionOpen,
    SessionOpened,
    SessionsKnown,
    SessionsWanted,
    SubscriptionsAdd,
    SubscriptionsDrop,
    SubscriptionsKept,
)
from wire.mqtt.publish_properties import with_subscription_identifiers
from wire.names import DISTRIBUTOR, LISTENER
from wire.settings import SessionSettings

log = logging.getLogger("bascule")

KNOWN_PER_FRAME = 500
SessionFrame = SessionOpen | SessionClose | SessionsWanted | SubscriptionsAdd | SubscriptionsDrop


class Queues(Protocol):
    """``Tier1``, as far as sessions need it."""

    @property
    def open_write(self) -> Write: ...

    def make_queue(self, session: str) -> str:
        """A new, empty queue for ``session``, committed with the open write; its name."""

    def remove_queue(self, name: str) -> int:
        """The queue goes with the open write; how many messages were in it."""

    def put(self, name: str, batch: Batch) -> None:
        """Append ``batch`` to the queue with the open write, if the queue is there and has room."""


class LocalSessions:
    """Takes the frames that are about sessions. ``needs_sync`` says whether something changed that somebody is told of."""

    def __init__(self, sessions: Sessions, retained: RetainedMessages, queues: Queues, settings: SessionSettings) -> None:
        self._sessions = sessions
        self._retained = retained
        self._queues = queues
        self._settings = settings
        self._listener_epoch = max((session.connected[0] for session in sessions if session.connected), default=0)
        self._kept = sum(1 for session in sessions if session.queue)
        self._answers: list[tuple[str, Frame]] = []
        self._expired = 0
        self.needs_sync = False

    # --- frames ---

    def receive(self, frame: SessionFrame, wall_ms: int) -> None:
        """Act on one frame; its answer may be sent once the open write is committed.

        Raises:
            Unavailable: the disk refuses to be read; nothing has changed, so the frame may come again.
        """
        match frame:
            case SessionOpen():
                if frame.sender == LISTENER:
                    self._listener_lives(frame.epoch, wall_ms)
                self._open(frame)
            case SessionClose():
                self._close(frame)
            case SessionsWanted():
                if frame.asker == LISTENER:
                    self._listener_lives(frame.epoch, wall_ms)
                self._answers.extend((frame.asker, known) for known in self._known(frame.epoch))
            case SubscriptionsAdd():
                self._add(frame, wall_ms)
            case SubscriptionsDrop():
                self._drop(frame)

    def wills_sent(self, names: Iterable[str]) -> None:
        """The Wills of these sessions are in a batch of the open write (S3)."""
        for name in names:
            session = self._sessions.get(name)
            if session is not None and session.will is not None:
                session.will = None
                self._sessions.keep(session)

    def take_answers(self) -> list[tuple[str, Frame]]:
        """What may be sent, once the open write is committed."""
        answers, self._answers = self._answers, []
        return answers

    def tick(self, wall_ms: int) -> None:
        """End the sessions whose time is up."""
        for session in self._sessions:
            if (session.expiry_s or session.queue) and session.ended(wall_ms):
                self._expired += 1
                self._answers.extend(
                    (peer, SessionGone(session=session.name, queue=session.queue)) for peer in (DISTRIBUTOR, LISTENER)
                )
                self._end(session, "expired")

    def figures(self) -> dict[str, Any]:
        """Figures for ``status``."""
        connected = sum(1 for session in self._sessions if session.queue and session.connected is not None)
        return {"kept": self._kept, "connected": connected, "expired": self._expired, "retained": self._retained.figures()}

    @property
    def kept(self) -> int:
        """Sessions of clients that are on record."""
        return self._kept

    # --- inside ---

    def _listener_lives(self, epoch: int, wall_ms: int) -> None:
        """Connections of older lives of the Listener are gone, since now."""
        if epoch <= self._listener_epoch:
            return
        self._listener_epoch = epoch
        for session in self._sessions:
            if session.connected is not None and session.connected[0] < epoch:
                self._disconnect(session, wall_ms)

    def _open(self, frame: SessionOpen) -> None:
        session = self._sessions.get(frame.session)
        opening = (frame.sender, frame.epoch, frame.request)
        present = refused = False
        if frame.resumes:
            present = session is not None and session.connected == (frame.epoch, frame.source)
            session = session if present else None
        elif session is not None and session.opening == opening:
            present = session.found  # S5
        else:
            present = session is not None and session.expiry_s > 0 and not frame.clean
            if session is not None and not present and session.lasting:
                self._end(session, "clean start" if frame.clean else "its connection ended")
                session = None
            makes_queue = frame.sender == LISTENER and bool(frame.expiry_s) and (session is None or not session.queue)
            refused = makes_queue and self._kept >= self._settings.sessions_max
            session = None if refused else self._begin(frame, opening, present, makes_queue=makes_queue)
        self._answers.append(
            (
                frame.sender,
                SessionOpened(
                    sender=frame.sender,
                    epoch=frame.epoch,
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

    def _begin(self, frame: SessionOpen, opening: Opening, present: bool, *, makes_queue: bool) -> Session:
        """The session begins or goes on."""
        session = self._sessions.get(frame.session) or Session(frame.session)
        changes = session.lasting or bool(frame.expiry_s) or frame.will is not None
        if frame.sender != LISTENER and present and session.expiry_s == frame.expiry_s:
            return session  # a remote's: who is connected to it is not kept here
        session.opening, session.found = opening, present
        session.expiry_s = frame.expiry_s
        session.will = frame.will
        if frame.sender == LISTENER:
            session.connected = (frame.epoch, frame.source)
        if makes_queue:
            session.queue = self._queues.make_queue(frame.session)
            self._kept += 1
        if changes:
            self._changed(session)
        return session

    def _close(self, frame: SessionClose) -> None:
        session = self._sessions.get(frame.session)
        if session is None or session.connected != (frame.epoch, frame.source):
            return
        session.expiry_s = min(frame.expiry_s, self._settings.expiry_max_s)
        if not frame.keep_will:
            session.will = None
        self._disconnect(session, frame.wall_ms)

    def _disconnect(self, session: Session, wall_ms: int) -> None:
        session.connected = None
        session.since_ms = wall_ms
        self._changed(session)
        if not session.expiry_s and session.queue:
            self._remove_queue(session, "disconnected")
        if not session.expiry_s:
            session.subscriptions.clear()
            session.received.clear()

    def _end(self, session: Session, why: str) -> None:
        """The session ends with the open write, and everything of it (S2)."""
        self._remove_queue(session, why)
        self._sessions.forget(session.name)
        self.needs_sync = True

    def _remove_queue(self, session: Session, why: str) -> None:
        if session.queue:
            discarded = self._queues.remove_queue(session.queue)
            log.info("session.ended", extra={"client_id": session.name, "why": why, "discarded": discarded})
            session.queue = ""
            self._kept -= 1

    def _changed(self, session: Session) -> None:
        self._sessions.keep(session)
        self.needs_sync = True

    def _known(self, epoch: int) -> Iterator[SessionsKnown]:
        rows = [
            (session.name, session.queue, _subscriptions(session), session.will, session.will_due_ms if session.will else 0)
            for session in self._sessions
            if session.queue or (session.will is not None and session.connected is None)
        ]
        for start in range(0, max(1, len(rows)), KNOWN_PER_FRAME):
            some = tuple(rows[start : start + KNOWN_PER_FRAME])
            yield SessionsKnown(epoch=epoch, sessions=some, last=start + KNOWN_PER_FRAME >= len(rows))

    # --- subscriptions ---

    def _add(self, frame: SubscriptionsAdd, wall_ms: int) -> None:
        session = self._session_of(frame)
        is_new = session is None or session.request < (frame.epoch, frame.request)
        retained = [
            (options & QOS_MASK, identifier, batch)
            for topic_filter, options, identifier, wanted in frame.filters
            if wanted and is_new
            for batch in self._retained.matching(topic_filter, wall_ms, qos_max=options & QOS_MASK)
        ]
        if session is not None:
            for topic_filter, options, identifier, _ in frame.filters:
                session.subscriptions[topic_filter] = (options, identifier)
            session.request = (frame.epoch, frame.request)
            self._changed(session)
        self._answers.append((LISTENER, SubscriptionsKept(epoch=frame.epoch, request=frame.request, source=frame.source)))
        for qos, identifier, batch in retained:
            live = batch
            if session is not None:
                kept = [row for row, flags in enumerate(batch.flags) if flags & QOS_MASK]
                if kept:
                    self._queues.put(session.queue, with_identifier(batch.select(kept), identifier))
                live = batch.select([row for row, flags in enumerate(batch.flags) if not flags & QOS_MASK])
            if len(live):
                answer = Retained(epoch=frame.epoch, source=frame.source, qos=qos, identifier=identifier, bodies=(live.encode(),))
                self._answers.append((LISTENER, answer))

    def _session_of(self, frame: SubscriptionsAdd | SubscriptionsDrop) -> Session | None:
        """The kept session that is meant; None for a live one, and for one that has ended meanwhile."""
        session = self._sessions.get(frame.session) if frame.queue else None
        return session if session is not None and session.queue == frame.queue else None

    def _drop(self, frame: SubscriptionsDrop) -> None:
        session = self._session_of(frame)
        if session is not None:
            for topic_filter in frame.filters:
                session.subscriptions.pop(topic_filter, None)
            self._changed(session)
        self._answers.append((LISTENER, SubscriptionsKept(epoch=frame.epoch, request=frame.request, source=frame.source)))


def with_identifier(batch: Batch, identifier: int) -> Batch:
    """``batch`` with the subscription identifier on each row; itself for none [MQTT-3.3.4-3]."""
    if identifier:
        batch.properties = {
            row: with_subscription_identifiers(batch.properties.get(row, b""), (identifier,)) for row in range(len(batch))
        }
    return batch


def _subscriptions(session: Session) -> tuple[tuple[str, int, int], ...]:
    return tuple((topic_filter, *options) for topic_filter, options in session.subscriptions.items())
