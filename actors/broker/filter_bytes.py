"""Size of the topic filters of all sessions, of those that are connected and those that wait for their client. Pure.

broker.filters-bounded [P5, access]: one client's topic filters take at most ``subscriptions_max_bytes``, those of all sessions
    ``filters_max_bytes``, and those of one user, or of one address without users, its share of that. A session that would have more
    is refused the filter, and keeps its others.
"""

from __future__ import annotations

from collections.abc import Iterable

from wire.config_settings import NodeSettings
from wire.limit_shares import Shares

LEVEL_BYTES = 300  # about what a level of a filter takes in memory beside its text


def size_bytes(topic_filter: str) -> int:
    """The bytes that a filter counts for."""
    return len(topic_filter.encode()) + LEVEL_BYTES * (topic_filter.count("/") + 1)


class FilterBytes:
    """By client identifier. shares: of all together."""

    def __init__(self) -> None:
        self.shares = Shares()
        self._of: dict[str, tuple[str, int]] = {}  # in whose share, and the bytes; not of sessions without filters

    def has(self, session: str, owner: str = "", filters: Iterable[str] = ()) -> None:
        """The session has these and no others, in the share of ``owner``."""
        self._add(session, owner, sum(map(size_bytes, filters)) - self._of.get(session, ("", 0))[1])

    def add(self, session: str, owner: str, topic_filter: str) -> None:
        """It has one more."""
        self._add(session, owner, size_bytes(topic_filter))

    def drop(self, session: str, owner: str, topic_filter: str) -> None:
        """It has one less."""
        self._add(session, owner, -size_bytes(topic_filter))

    def only(self, sessions: Iterable[str]) -> None:
        """Of no others is anything known."""
        for session in self._of.keys() - sessions:
            self.has(session)

    def refusal(self, session: str, owner: str, topic_filter: str, settings: NodeSettings) -> str:
        """Which limit keeps the session from one more, empty for none (broker.filters-bounded)."""
        size, kept = size_bytes(topic_filter), settings.sessions
        if self._of.get(session, ("", 0))[1] + size > settings.clients.subscriptions_max_bytes:
            return "subscriptions_max_bytes"
        return self.shares.broken(owner, size, "filters_max_bytes", kept.filters_max_bytes, kept.user_share_percent)

    def _add(self, session: str, owner: str, more: int) -> None:
        former, size = self._of.pop(session, ("", 0))
        self.shares.add(former, -size)
        self.shares.add(owner, size + more)
        if size + more:
            self._of[session] = owner, size + more
