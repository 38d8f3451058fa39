"""What local clients subscribe to: it goes on record with a session that lasts, and retained messages come with it.

store.told-after-commit: a SUBACK is sent after the commit of what it tells of, where that outlives the connection.
"""

from __future__ import annotations

from storage.store.lane import Effects
from storage.store.next_commit import NextCommit
from storage.store.retained_messages import RetainedMessages
from storage.store.session_queues import SessionQueues
from storage.store.session_rows import Session, Sessions
from wire.exchange.subscriber_copies import as_granted
from wire.frames.batch import QOS_MASK, Batch
from wire.frames.local_sessions import Retained, SubscriptionsAdd, SubscriptionsDrop, SubscriptionsKept
from wire.frames.names import LISTENER


class SessionSubscriptions:
    """Adds and drops subscriptions of ``sessions``; what it returns may be sent once the next commit is made."""

    def __init__(self, sessions: Sessions, retained: RetainedMessages, queues: SessionQueues, next_commit: NextCommit) -> None:
        self.sessions = sessions
        self._retained = retained
        self._queues = queues
        self._next = next_commit

    def add(self, frame: SubscriptionsAdd, wall_ms: int) -> Effects:
        """Put them on record, and deliver what is retained for them.

        Raises:
            Unavailable: a retained message cannot be read; nothing has changed.
        """
        session = self._session_of(frame)
        is_new = session is None or session.request < (frame.epoch, frame.request)
        retained = [
            (options & QOS_MASK, identifier, batch)
            for topic_filter, options, identifier, wanted in frame.filters
            if wanted and is_new
            for batch in self._retained.matching(topic_filter, wall_ms)
        ]
        if session is not None:
            for topic_filter, options, identifier, _ in frame.filters:
                session.subscriptions[topic_filter] = (options, identifier)
            session.request = (frame.epoch, frame.request)
            self._changed(session)
        answers: Effects = []
        for qos, identifier, batch in retained:
            live = batch if session is None else self._queue(session, qos, identifier, batch)
            if len(live):
                answer = Retained(
                    epoch=frame.epoch,
                    request=frame.request,
                    source=frame.source,
                    qos=qos,
                    identifier=identifier,
                    bodies=(live.encode(),),
                )
                answers.append((LISTENER, answer))
        return [*answers, _kept(frame)]

    def drop(self, frame: SubscriptionsDrop) -> Effects:
        """Take them off the record."""
        session = self._session_of(frame)
        if session is not None:
            for topic_filter in frame.filters:
                session.subscriptions.pop(topic_filter, None)
            self._changed(session)
        return [_kept(frame)]

    def _queue(self, session: Session, qos: int, identifier: int, batch: Batch) -> Batch:
        """Put what lasts of a retained ``batch`` into the session's queue; the rest, which is sent live."""
        kept = [row for row, flags in enumerate(batch.flags) if flags & QOS_MASK and qos]
        if kept:
            identifiers = (identifier,) if identifier else ()
            granted = as_granted(batch, kept, qos=qos, retain_as_published=True, identifiers=identifiers)
            self._queues.put(session.queue, granted)
        return batch.select([row for row, flags in enumerate(batch.flags) if not (flags & QOS_MASK and qos)])

    def _session_of(self, frame: SubscriptionsAdd | SubscriptionsDrop) -> Session | None:
        """The kept session that is meant; None for a live one, and for one that has ended meanwhile."""
        session = self.sessions.get(frame.session) if frame.queue else None
        return session if session is not None and session.queue == frame.queue else None

    def _changed(self, session: Session) -> None:
        self.sessions.keep(session)
        self._next.promise()


def _kept(frame: SubscriptionsAdd | SubscriptionsDrop) -> tuple[str, SubscriptionsKept]:
    return LISTENER, SubscriptionsKept(epoch=frame.epoch, request=frame.request, source=frame.source)
