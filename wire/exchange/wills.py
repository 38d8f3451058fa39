"""Wills of clients that are gone, until they are published or the client comes back. Pure."""

from __future__ import annotations

from dataclasses import dataclass

Message = tuple[bytes, int, bytes, bytes, int]  # as in ``SessionOpen``: topic, flags, payload, properties, delay in seconds


@dataclass(frozen=True, slots=True)
class PendingWill:
    """A Will that is to be published at ``due_s``.

    source: the connection that left it, 0 for one of an earlier Listener. user: whose session it is; None: anybody's. listener:
    where its client came in, empty where that is not known. ended: its session has, so it is nobody's to take back.
    """

    message: Message
    due_s: float
    source: int
    user: str | None = None
    listener: str = ""
    ended: bool = False


def size_bytes(will: Message) -> int:
    """The size of a Will, about."""
    return len(will[0]) + len(will[2]) + len(will[3])


class PendingWills:
    """By session; a session has at most one [MQTT-3.1.2-8, MQTT-3.1.3-9]."""

    def __init__(self) -> None:
        self._pending: dict[str, PendingWill] = {}
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._pending)

    def add(self, session: str, will: PendingWill) -> None:
        """Publish ``will`` when it is due, unless it is taken before."""
        self._pop(session)
        self._pending[session] = will
        self.size_bytes += size_bytes(will.message)

    def size_of(self, session: str) -> int:
        """The bytes of the session's Will; 0 if none is pending."""
        pending = self._pending.get(session)
        return 0 if pending is None else size_bytes(pending.message)

    def take(self, session: str, user: str | None = None) -> PendingWill | None:
        """The session's Will, which is its taker's now; None if none is pending, or it is another user's."""
        pending = self._pending.get(session)
        if pending is None or (pending.user is not None and pending.user != user and not pending.ended):
            return None
        return self._pop(session)

    def take_ended(self, session: str) -> PendingWill | None:
        """The Will of a session that has ended, whoever's it was; None if none is pending."""
        return self._pop(session)

    def take_due(self, now_s: float) -> list[tuple[str, PendingWill]]:
        """The Wills that are due, in the order in which they became so."""
        due = sorted((will.due_s, session) for session, will in self._pending.items() if will.due_s <= now_s)
        return [(session, pending) for _, session in due if (pending := self._pop(session)) is not None]

    def _pop(self, session: str) -> PendingWill | None:
        pending = self._pending.pop(session, None)
        if pending is not None:
            self.size_bytes -= size_bytes(pending.message)
        return pending
