"""The exchange of a bridge's lane: an ``SenderHalf``, and the sessions that the lane has at other addresses. Pure.

exchange.left-session-resumed [P2]: a session that was left is resumed, so that what its remote has kept for us comes; any other
    that is present is ended. A session that is present and not known, at another address than that of a session on record, in use
    or left, may be one of ours, since both addresses may lead to one broker. No session is then taken for one that was left: one
    broker behind two addresses is met as if sessions could not be told apart, and they cannot.
exchange.left-identifiers-released [P2]: in a session that was left, what is unsettled still goes again as exchange.resumed-in-order
    says. Of what has been settled since, the remote first releases the packet identifiers
    (``wire/exchange/identifier_release.py``); before that nothing is PUBLISHed, and the session is not on record. So it does
    of what was sent by a life that a restored store knows nothing of. No PUBREL leaves before the session that came after is on
    record: what was settled as it began would go again after a crash, as a new message to this remote.
exchange.left-session-on-record [P2, P3, P5]: a session that is left goes on record as left by the commit that has its successor on
    record. It stays there until it is the session on record itself, or its remote has lost it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from wire.exchange.former_sessions import LeftRows, LeftSession, LeftSessions, left_rows
from wire.exchange.identifier_release import IdentifierRelease
from wire.exchange.remote_limits import NO_LIMITS, RemoteLimits
from wire.exchange.sender import SenderHalf
from wire.frames.lanes import LaneOpened
from wire.ranges import Ranges, RangeSet
from wire.status.bridges import ExchangeFigures


class LaneSender:
    """One lane's exchange; without ``keep`` it does what its ``SenderHalf`` does."""

    def __init__(self, **settings: Any) -> None:
        self.exchange = SenderHalf(**settings)
        self._left = LeftSessions()
        self._release: IdentifierRelease | None = None
        self._enter_then: Callable[[], None] | None = None
        self._resumed: LeftSession | None = None  # what the live connection's session was on record as
        self._entered: LeftSession | None = None  # what the session of now was left as, when it was taken up
        self._begun: set[str] = set()  # sessions that began, and were left before they were on record: nothing was done in them
        self._indistinct = False  # exchange.left-session-resumed

    def keep(self, sessions: Iterable[str]) -> None:
        """The lane takes what its remote publishes: each of these ``sessions`` is resumed after it was left."""
        self._left.keep(sessions)

    def open(self, lane: LaneOpened) -> None:
        """As ``SenderHalf.open``."""
        self.exchange.open(lane)
        self._release = self._resumed = self._entered = None
        self._begun.clear()
        self._left.open(left_rows(lane.left))

    @property
    def counts(self) -> ExchangeFigures:
        """As ``SenderHalf.counts``."""
        return self.exchange.counts

    @property
    def left(self) -> LeftRows:
        """The sessions at other addresses, as they go on record with the session of this one."""
        return self._left.rows()

    @property
    def session_known(self) -> bool:
        """Whether what came in this connection's session is on record under its number, or will be: it was left, or it is used."""
        return self._resumed is not None or self.exchange.on_record

    @property
    def session_number(self) -> int:
        """The number of this connection's session."""
        return self.exchange.record.generation if self._resumed is None else self._resumed.generation

    # --- connections ---

    def knows(self, session: str, session_present: bool) -> bool:
        """As ``SenderHalf.knows``, of this session and of those that were left."""
        return self.exchange.knows(session, session_present) or self._left.get(session) is not None

    def ends(self, session: str) -> None:
        """That one is present, not known, and to be ended by a clean start."""
        self._indistinct = session not in self._begun

    def on_connected(
        self,
        *,
        session: str,
        session_present: bool,
        level: int,
        limits: RemoteLimits = NO_LIMITS,
        learnt: RemoteLimits = NO_LIMITS,
        entered: Callable[[], None] = lambda: None,
        **figures: Any,
    ) -> None:
        """A connection is up, as for any flow; nothing is PUBLISHed before exchange.left-identifiers-released is done, and
        ``entered`` is called then.

        A remote whose Maximum QoS is below 2 is sent no PUBREL for what may have been sent: it may know none.
        """
        left = self._left.get(session) if session_present and session != self.exchange.record.session else None
        self._resumed = left
        enter = partial(self._enter, left, session, session_present, entered, level=level, limits=limits, learnt=learnt, **figures)
        held = self.settled_since(left) if left is not None and limits.joined(learnt).maximum_qos == 2 else ()
        if held:
            self._release = IdentifierRelease(held, level=level, unexpected=self.exchange.answers.on_unexpected)
            self._enter_then = enter
        else:
            enter()

    def settled_since(self, left: LeftSession) -> Ranges:
        """Of what the session may hold, what is not sent again in it, in order."""
        known = left.on_record
        goes_again = RangeSet(self.exchange.stays_due((*known.released, *known.sent)))
        return tuple(part for start, stop in (*left.released, *left.sent) for part in goes_again.missing(start, stop))

    def _enter(
        self, left: LeftSession | None, session: str, session_present: bool, entered: Callable[[], None], **facts: Any
    ) -> None:
        """Nothing is in the way of using ``session``: leave the one before, if it is another."""
        record = self.exchange.record
        goes_on = session_present and session == record.session
        number = left.generation if left is not None else self._left.next_number(record.generation)
        if not goes_on:
            self._leave(session)
            self._entered = left
        self._indistinct = False
        self.exchange.on_connected(session=session, session_present=goes_on, left=left and left.on_record, **facts)
        if self._left.kept and not goes_on:
            record.number_session(number)
        entered()

    def _leave(self, session: str) -> None:
        """Another session than the one of now is used next: ``session``."""
        exchange, record = self.exchange, self.exchange.record
        if self._indistinct:
            self._left.open(())
        elif record.session and session != record.session:
            if record.recorded:
                left = LeftSession(record.session, record.generation, exchange.due.dup_below, *exchange.may_be_held())
                self._left.leave(left)
            elif self._entered is not None:  # nothing was sent in it
                self._left.leave(self._entered)
            else:
                self._begun.add(record.session)
        self._left.drop(session)
        self._begun.discard(session)

    def on_stalled(self) -> None:
        """As ``SenderHalf.on_stalled``."""
        if self._release is None:
            self.exchange.on_stalled()

    def on_disconnected(self, *, by_remote: bool = False) -> None:
        """As ``SenderHalf.on_disconnected``."""
        self._resumed = None
        if self._release is None:
            self.exchange.on_disconnected(by_remote=by_remote)
        else:
            self._release = self._enter_then = None
            self.exchange.finish(False)

    @property
    def unfinished(self) -> bool:
        """As in ``SenderHalf``; what is to be released is unfinished as well."""
        return self._release is not None or self.exchange.unfinished

    @property
    def owed(self) -> tuple[object, ...]:
        """As in ``SenderHalf``."""
        return self.exchange.owed if self._release is None else (None, None, self._release.owed)

    # --- out and in ---

    def pump(self, bytes_max: int, now_s: float, wall_ms: int = 0) -> bytes:
        """As ``SenderHalf.pump``."""
        if self._release is None:
            return self.exchange.pump(bytes_max, now_s, wall_ms)
        record = self.exchange.record
        return self._release.pump() if record.recorded else b""  # exchange.left-identifiers-released

    def on_received(self, buffer: bytes, position: int = 0) -> int:
        """As ``SenderHalf.on_received``."""
        if self._release is not None:
            position = self._release.on_received(buffer, position)
            if not self._release.done:
                return position
            assert self._enter_then is not None
            enter, self._release, self._enter_then = self._enter_then, None, None
            enter()
        return self.exchange.on_received(buffer, position)
