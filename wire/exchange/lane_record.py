"""Reports of one lane to the store, and whether they are on record: what is settled or released, expired, and the session. Pure.

exchange.expiry-committed-first [P4]: nothing is PUBLISHed behind a QoS 1 or 2 message that has expired before that is committed. A
    crash would bring the message back as one that may have been sent, behind what has left. All that has expired by then waits for
    the same commit.
"""

from __future__ import annotations

from dataclasses import dataclass

from wire.exchange.held_identifiers import HeldIdentifiers
from wire.exchange.identifier_span import IdentifierSpan
from wire.frames.frame import Ranges
from wire.frames.lanes import LaneOpened
from wire.ranges import RangeSet
from wire.status.outcomes import DELIVERED, EXPIRED, REDELIVERED


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The outcomes since the last time, as ``Settle`` carries them."""

    settled: tuple[tuple[str, Ranges], ...]
    released: Ranges
    session: str | None
    generation: int


class LaneRecord:
    """One lane's. ``session`` and ``generation`` are those of now; ``expiring`` has what expired and is not committed.

    delivered: how many messages were settled as delivered, ever.
    """

    def __init__(self, held: HeldIdentifiers, span: IdentifierSpan) -> None:
        self.session = ""
        self.generation = 0
        self.expiring = RangeSet()
        self.delivered = 0
        self._held = held
        self._span = span
        self.settled_messages = 0  # that ``facts`` would settle
        self._settled: dict[str, RangeSet] = {}
        self._session_new = False
        self._session_number: int | None = None  # it was told, by this Settle
        self._expiry_new = False  # some of it was not told yet
        self._expiry_number: int | None = None  # all of it was, by this Settle

    def open(self, lane: LaneOpened) -> None:
        """Forget everything and begin where the store says the lane stands."""
        self.session = lane.session
        self.generation = lane.generation
        self.expiring.clear()
        self._settled, self.settled_messages = {}, 0
        self._session_new = self._expiry_new = False
        self._session_number = self._expiry_number = None

    def carry_on(self, lane: LaneOpened, sent_stop: int, unsettled: tuple[RangeSet, ...]) -> None:
        """The store is new, and the connection goes on: tell again what may not be on record of all that is not ``unsettled``."""
        if lane.head < sent_stop or lane.released:  # of those none need have been sent as PUBLISH on this connection
            known = RangeSet(lane.settled)
            for start, stop in (each for ranges in (*unsettled, self.expiring) for each in ranges):
                known.add(start, stop)
            for low, high in ((lane.head, sent_stop), *lane.released):
                for start, stop in known.missing(low, high) if low < high else ():
                    self.settle(DELIVERED, start, stop)
        for start, stop in self.expiring:
            self.settle(EXPIRED, start, stop)
            self._expiry_new, self._expiry_number = True, None
        if self._session_number is not None or not lane.session:
            self._session_number, self._session_new = None, True

    # --- what there is to tell ---

    def settle(self, outcome: str, start: int, stop: int) -> None:
        """``[start, stop)`` has come to its ``outcome``."""
        settled = self._settled.get(outcome)
        if settled is None:
            settled = self._settled[outcome] = RangeSet()
        new = settled.add(start, stop)
        if outcome != REDELIVERED:
            self.settled_messages += new
        if outcome == DELIVERED:
            self.delivered += new

    def expire(self, start: int, stop: int) -> None:
        """``[start, stop)``, which was never sent, has expired (exchange.expiry-committed-first)."""
        self.settle(EXPIRED, start, stop)
        self.expiring.add(start, stop)

    def on_expired(self) -> None:
        """All that has expired by now is to be told, and waited for."""
        self._expiry_new, self._expiry_number = True, None

    def begin_session(self, session: str) -> None:
        """Messages from now on leave in ``session``, which is to be on record first (exchange.session-on-record-first)."""
        self.session = session
        self._session_new = True

    def lose_session(self) -> None:
        """The remote has lost the session of now, or it is left: what was released in it counts no more."""
        self.generation += 1

    def number_session(self, number: int) -> None:
        """The session of now, which is not on record, goes under that ``number``."""
        self.generation = number

    @property
    def recorded(self) -> bool:
        """Whether the session of now is on record, so that it is the session on record."""
        return not self._session_new and self._session_number is None

    @property
    def complete(self) -> bool:
        """Whether there is nothing to tell, and nothing waits for what was told."""
        return self.recorded and not self._settled and not self.expiring

    @property
    def settled_on_record(self) -> int:
        """Everything below is settled on record, or was never sent."""
        return self._span.recorded

    def on_recorded(self, seq: int) -> None:
        """Everything below ``seq`` is settled on record."""
        self._span.open(seq)

    @property
    def urgent(self) -> bool:
        """Whether something other than PUBRELs waits for the commit of what ``facts`` has."""
        return self._session_new or self._expiry_new or self._span.wants_record()

    @property
    def releases(self) -> bool:
        """Whether PUBRELs wait for the commit of what ``facts`` has, and for none before that: meanwhile more of it gathers."""
        held = self._held
        return bool(held.untold.starts) and not held.told

    # --- telling ---

    def facts(self, number: int) -> Facts | None:
        """The outcomes since the last time, to be sent as ``Settle`` ``number``; None if there are none."""
        wants_record = self._span.wants_record()
        if not (self._settled or self._session_new or wants_record or self._held.untold):
            return None
        released = self._held.report_released(number)
        session = None
        if self._session_new:
            self._session_new = False
            self._session_number = number
            session = self.session
        elif wants_record or self._expiry_new:
            session = self.session  # told again, it changes nothing, and is answered when all that was settled is on record
        if self._expiry_new:
            self._expiry_new, self._expiry_number = False, number
        if session is not None or released:
            self._span.on_reported(number)
        settled = tuple((outcome, ranges.ranges()) for outcome, ranges in self._settled.items())
        self._settled, self.settled_messages = {}, 0
        return Facts(settled=settled, released=released, session=session, generation=self.generation)

    def on_committed(self, number: int) -> None:
        """Every ``Settle`` up to ``number`` is committed: what they released may be PUBRELed, a new session may be used.

        So may what stands behind messages that have expired.
        """
        self._held.on_committed(number)
        if self._session_number is not None and self._session_number <= number:
            self._session_number = None
        if self._expiry_number is not None and self._expiry_number <= number:
            self._expiry_number = None
            self.expiring.clear()
        self._span.on_committed(number)
