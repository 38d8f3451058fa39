"""Owners of the client connections that ended last. Pure.

Messages of a connection may be routed after its end. No Local is about the client, whatever connection it has by then
[MQTT-3.8.3-3], so the number of one that has ended is taken for its session's name. Its retained messages count for its owner.
"""

from __future__ import annotations

from collections.abc import Sequence

from wire.routing.subscriber import Publisher

CONNECTIONS_MAX = 4_096  # more have hardly ended while a batch is on its way
NAMES_BYTES_MAX = 1 << 20


class EndedConnections:
    """The last ones, within bounds in count and bytes."""

    def __init__(self) -> None:
        self._sessions: dict[int, str] = {}
        self._owners: dict[int, str] = {}
        self._size = 0

    def add(self, source: int, session: str, owner: str = "") -> None:
        """Connection ``source`` of ``session``, which counted in the share of ``owner``, has ended."""
        if source in self._sessions:
            return
        self._sessions[source], self._owners[source] = session, owner
        self._size += len(session) + len(owner)
        while len(self._sessions) > CONNECTIONS_MAX or self._size > NAMES_BYTES_MAX:
            oldest = next(iter(self._sessions))
            self._size -= len(self._sessions.pop(oldest)) + len(self._owners.pop(oldest))

    def owner_of(self, source: int) -> str:
        """In whose share it counted; empty where that is not known any more."""
        return self._owners.get(source, "")

    def named(self, sources: Sequence[Publisher]) -> Sequence[Publisher]:
        """``sources`` with the session for each connection that has ended."""
        sessions = self._sessions
        if not sessions or sessions.keys().isdisjoint(sources):
            return sources
        return [source if isinstance(source, str) else sessions.get(source, source) for source in sources]
