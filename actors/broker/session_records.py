"""The Listener's knowledge of the sessions on record: when nobody need be asked, and when nobody may.

Pure. The record itself is the store's (``storage/store/local_sessions.py``).

No session is looked up, and no Will is published, before it is known what an earlier life of the Listener has left
(broker.looked-up-after-commits).

broker.end-told-until-committed [P3]: what a connection's end has changed of its session is told again to each new store, until one
    has committed it.

No session is looked up while an operator ends it. A client that connects meanwhile gets a new one, and the Will of the old one is
out first (broker.looked-up-after-commits).
"""

from __future__ import annotations

from actors.broker.filter_bytes import FilterBytes
from wire.frames.intake import SessionClose


class SessionRecords:
    """By client identifier.

    known: the store has said what an earlier life of the Listener has left. filters: what they take.
    """

    def __init__(self) -> None:
        self.known = False
        self.filters = FilterBytes()
        self._lasting: dict[str, int] = {}  # what may be on record of sessions that last -> the connection that asked last, or 0
        self._left: dict[str, int] = {}  # who went without an answer -> the connection, until its end is committed
        self._closing: dict[int, SessionClose] = {}  # by connection; not known to be committed
        self._ending: set[str] = set()

    # --- what an earlier life has left ---

    def restart(self) -> None:
        """The store's report on it was incomplete, and a new one is complete."""
        assert not self.known
        self._lasting.clear()

    def found(self, session: str) -> None:
        """The store has a session that lasts."""
        self._lasting[session] = 0

    def all_found(self) -> None:
        """That was all."""
        self.known = True

    # --- questions ---

    def keeps_nothing(self, session: str, expiry_s: int) -> bool:
        """Whether nothing of it but for a Will is or will be on record, and nothing of one before it.

        expiry_s: how long it outlives its connection.
        """
        return self.known and not expiry_s and session not in self._lasting and session not in self._ending

    def is_ending(self, session: str) -> bool:
        """Whether an operator ends it (broker.looked-up-after-commits)."""
        return session in self._ending

    def awaits_end(self, session: str) -> bool:
        """Whether somebody asked for it and went without an answer, and the store has not committed that."""
        return session in self._left

    @property
    def uncommitted_ends(self) -> list[SessionClose]:
        """How connections have ended that the store may not have on record (broker.end-told-until-committed)."""
        return list(self._closing.values())

    # --- what happens ---

    def on_asked(self, session: str, source: int, expiry_s: int) -> None:
        """Connection ``source`` asks the store for it."""
        if expiry_s or session in self._lasting:
            self._lasting[session] = source

    def on_refused(self, session: str) -> None:
        """The store does not open it: what was on record is still there."""
        if session in self._lasting:
            self._lasting[session] = 0

    def on_opened(self, session: str, source: int, *, lasts: bool) -> None:
        """The store has opened it for connection ``source``."""
        if not lasts:
            self._lasts_no_more(session, source)

    def ends(self, close: SessionClose, *, answered: bool) -> None:
        """The store is told how a connection has ended. answered: what became of its session when it came is known."""
        if not answered:
            self._left[close.session] = close.source
            self.on_refused(close.session)
        self._closing[close.source] = close

    def end_committed(self, source: int) -> None:
        """The store has on record how connection ``source`` has ended."""
        close = self._closing.pop(source, None)
        if close is None:
            return
        if self._left.get(close.session) == source:
            del self._left[close.session]
        if not close.expiry_s:
            self._lasts_no_more(close.session, source)

    def on_gone(self, session: str) -> None:
        """It has ended, and nobody is connected to it."""
        self._lasting.pop(session, None)
        self.filters.has(session)

    def hold(self, session: str) -> None:
        """It is being ended: who comes under its identifier waits for that (broker.looked-up-after-commits)."""
        self._ending.add(session)

    def release(self, session: str) -> None:
        """It has ended, or will not end."""
        self._ending.discard(session)

    def _lasts_no_more(self, session: str, source: int) -> None:
        """Nothing that lasts is on record of ``session`` any more, unless another connection than ``source`` has asked since."""
        if self._lasting.get(session) == source:
            del self._lasting[session]
