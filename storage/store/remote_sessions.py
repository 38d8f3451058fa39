"""Which sessions at remotes are on record: those of each lane, one for each of its addresses at most.

Everything received in one of them, QoS 2 identifiers and filters, is a row of its own (``session_rows``), named by client
identifier, address and number. The lane's row says which there are: the one that is used and those that were left
(``wire/exchange/left_sessions.py``).

store.row-of-known-session-only [P2]: a row is there only for a session that its lane knows. Late messages of a session that the
    remote has lost are dropped.
"""

from __future__ import annotations

from collections.abc import Callable

from storage.queue.queue import Queue
from storage.store.session_rows import Session, Sessions, is_remote
from wire.frames.names import (
    connection_name,
    connection_of_session,
    lane_of_actor,
    lane_of_queue,
    queue_name,
    remote_session_name,
)


class RemoteSessions:
    """The rows of remotes' sessions. ``queue_of``: a lane's queue by its name, None where it is not known where it stands."""

    def __init__(self, sessions: Sessions, queue_of: Callable[[str], Queue | None]) -> None:
        self._sessions = sessions
        self._queue_of = queue_of

    def knows(self, name: str) -> bool:
        """Whether the session is a local client's, or one that its lane knows (store.row-of-known-session-only)."""
        if not is_remote(name):
            return True
        queue = self._queue(name)
        return queue is not None and name in _names(queue)

    def received(self, queue: Queue) -> bool:
        """Whether there is anything on record of what came from the remote to that lane, at any address."""
        rows = map(self._sessions.get, _names(queue))
        return any(row is not None and (row.subscriptions or row.received) for row in rows)

    def record(self, queue: Queue) -> None:
        """The lane's sessions are others now: forget the rows of the rest."""
        kept = _names(queue)
        for session in self._remotes():
            if session.name not in kept and self._queue(session.name) is queue:
                self._sessions.forget(session.name)

    def _remotes(self) -> list[Session]:
        return [session for session in self._sessions if is_remote(session.name)]

    def _queue(self, name: str) -> Queue | None:
        place = lane_of_actor(connection_of_session(name))
        return None if place is None else self._queue_of(queue_name(*place))


def _names(queue: Queue) -> set[str]:
    """The rows of the sessions that a lane knows."""
    place = lane_of_queue(queue.name)
    if place is None:
        return set()
    known = [(left.session, left.generation) for left in queue.sent.left]
    if queue.sent.session:
        known.append((queue.sent.session, queue.sent.generation))
    return {remote_session_name(connection_name(*place), *each) for each in known}
