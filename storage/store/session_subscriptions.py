"""Subscriptions of local clients: each goes on record with a session that lasts, and with it that retained messages are owed.

store.answer-after-commit: a SUBACK is sent after the commit of what it tells of, where that outlives the connection.
"""

from __future__ import annotations

from storage.store.lane import Effects
from storage.store.next_commit import NextCommit
from storage.store.retained_pieces import RetainedPieces
from storage.store.session_rows import Session, Sessions
from wire.frames.batch import QOS_MASK
from wire.frames.local_sessions import SubscriptionsAdd, SubscriptionsDrop, SubscriptionsKept
from wire.frames.names import LISTENER


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
            request = frame.epoch, frame.request
            is_new = session.request < request
            session.request = max(session.request, request)
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
