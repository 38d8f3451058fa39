"""The sender's half of QoS 0, 1 and 2 towards one remote broker, for one lane. Pure: no socket, time or random source.

It decides what may leave, when, under which packet identifier, and what became of it. The Connection brings hand-outs, the facts
of each CONNACK and the bytes that came, writes what ``pump`` gives and sends what ``facts`` says. Packets that are not
acknowledgements are the Connection's.

F1  at most ``receive_maximum`` QoS 1 and 2 messages are unsettled on the live connection [MQTT-4.9.0-2].
F2  at level 4 at most ``qos2_maximum`` of them are QoS 2, each counted from PUBLISH to PUBCOMP; at that many no QoS 1 leaves
    either. At level 5 one slot is kept free of QoS 2: Mosquitto 2.0 counts what it holds of an earlier connection against the
    receive maximum of the next, and would refuse for ever what has to go again before that.
F3  what is unsettled spans at most 65,000 sequences, and so does what is not known to be settled on record: no packet identifier is
    given twice, not even after a crash that forgets that the first message was settled.
F4  PUBREL leaves only after the PUBREC was committed; after a PUBREC no PUBLISH leaves again in that session. F13 and F14 have
    PUBRELs of what no PUBREC came for.
F5  nothing is sent twice on one live connection [MQTT-4.4.0-1], save as a new PUBLISH what the remote refused and policy retries,
    and PUBREL to a second PUBREC [MQTT-4.3.3-4].
F6  on a resumed session all that is unsettled goes again in the original order, with its identifier, PUBLISH with DUP or PUBREL.
F7  nothing leaves on a new session before its record is committed; what an older one released is settled or sent as new.
F8  PUBLISHes leave in the order of their sequences; the first that may not leave holds back all behind it, and so does one that
    was refused and is to be tried again, until it may. What was in flight behind that one is ahead of it then.
F9  a refused message is settled, or kept and sent as new [MQTT-4.4.0-2], by policy; either way its exchange has ended.
F10 PUBRELs leave in the order in which their PUBRECs came [MQTT-4.6.0-4], also on a resumed session and after a crash. What was
    refused and tried again has its PUBREC after others of higher sequences.
F11 a message whose Message Expiry Interval has passed when it could leave is settled as expired [MQTT-3.3.2-5], and so is one that
    is older than the lane allows, unless it may have been sent before; any other leaves with what is left of its time
    [MQTT-3.3.2-6]. Before a session is on record nothing was sent.
F12 a message for which the remote closes its connections is found as ``wire/suspects.py`` says, and settled by policy once it is
    proven. While it is looked for, others may be ahead of it. What was released is never given up.
F13 what is given up while the remote may hold its packet identifier is settled at the PUBCOMP of a PUBREL, which goes on each
    connection of that session until then: held for ever, the identifier would make of a later message a repeat [MQTT-4.3.3-10]. A
    crash before it forgets that the message was given up, and neither the message nor that its identifier is taken.
F14 what left at QoS 2 and is owed a PUBREC goes to a remote that takes no QoS 2 any more only after the PUBCOMP of a PUBREL, for
    the same reason; nothing is PUBLISHed before (F8). It may arrive twice then: a PUBCOMP does not tell whether the remote had it.
F15 nothing is PUBLISHed behind a QoS 1 or 2 message that has expired before that is committed: a crash would bring it back as one
    that may have been sent, behind what has left. All that has expired by then waits for the same commit.
F16 while the lane finishes with its remote (``finish``) nothing leaves for the first time, and what may have been sent goes on.
"""

from __future__ import annotations

from array import array
from collections import deque
from dataclasses import dataclass
from typing import NoReturn

from wire.backoff import Backoff
from wire.batch import QOS_MASK, RETAIN, Batch
from wire.errors import PeerViolation
from wire.frames import HandOut, LaneOpened, Ranges
from wire.left_sessions import LeftSession
from wire.mqtt.aliases import OutgoingAliases
from wire.ranges import ArrivalSet, RangeSet, lowest
from wire.refusal_policy import FAILURE, TOO_LARGE, HoldBack, RefusalPolicy
from wire.segments import Columns, HeadCache, Run, Segment, Style
from wire.sequences import (
    PACKET_IDS,
    PUBACK,
    PUBCOMP,
    PUBREC,
    PUBREL,
    ack_slice,
    matching,
    seq_of,
)
from wire.suspects import Suspects

DELIVERED = "delivered"
REDELIVERED = "redelivered"
EXPIRED = "expired"

_LEVEL_5 = 5
_NOT_FOUND = b"\x92"
_KEPT_MIN = 256
_NO_LIMIT = 1 << 64  # above every sequence: those of an in-memory queue begin at the store's epoch << 32
# Acknowledgements that come in bursts: plain, and with the reason codes Success and No matching subscribers.
_BURST_TAILS = {b"\x02": b"", b"\x03\x00": b"\x00", b"\x03\x10": b"\x10"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What became of messages since the last time, as ``Settle`` carries it."""

    settled: tuple[tuple[str, Ranges], ...]
    released: Ranges
    session: str | None
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Blamed:
    """A message for which the remote seems to close its connections: its topic there, the size of its PUBLISH, and how often."""

    seq: int
    topic: str
    packet_bytes: int
    closed: int
    proofs: int


@dataclass(slots=True)
class Counts:
    """Counters since the flow was made."""

    published: int = 0
    acknowledged: int = 0
    redelivered: int = 0
    qos_lowered: int = 0
    retain_stripped: int = 0
    expired: int = 0
    too_large: int = 0
    refused: int = 0
    retried: int = 0
    closed_on: int = 0
    sessions_lost: int = 0
    assumed_delivered: int = 0
    republished: int = 0


class OutboundFlow:
    """One lane's exchange.

    qos2_maximum: None for a peer to which F2 need not apply. republish: whether released messages are sent anew when the remote has
    lost the session. policy: what is done with refused messages. backoff: how long the lane is held back when some of those are to
    be tried again. max_age_s: how old a message that was never sent may become (F11).
    """

    def __init__(
        self,
        *,
        receive_maximum: int,
        qos2_maximum: int | None,
        republish: bool,
        policy: RefusalPolicy,
        backoff: Backoff,
        max_age_s: float | None = None,
    ) -> None:
        self._receive_maximum_set = receive_maximum
        self._qos2_maximum_set = qos2_maximum
        self._republish = republish
        self._policy = policy
        self._hold = HoldBack(backoff)
        self._max_age_ms = None if max_age_s is None else max_age_s * 1000
        self.counts = Counts()
        self.pubrels_sent = 0
        self._refusals: dict[int, int] = {}
        self._suspects = Suspects(sets_aside=policy.closed is not None)
        self._convicted: list[Blamed] = []
        self._answers_before = 0  # acknowledgements before this connection
        self._style = Style(4, 2, True)
        self._heads = HeadCache(4)
        self._packet_max: int | None = None
        self._clear()

    def _clear(self) -> None:
        self.live = False
        self._finishing = False
        self._kept: deque[Segment] = deque()  # looked at on this connection, not all settled
        self._waiting: deque[Segment] = deque()  # the first may be looked at in part
        self._offered_stop = 0
        self._sent_stop = 0  # every row below was sent at least once, or never will be
        self._dup_below = 0
        self._seen_through_below = 0  # what may have been sent before the lane was opened does not expire (F11)
        self._wall_ms = 0  # when what ``pump`` gives leaves
        self._barred = RangeSet()  # never sent here, and settled, or released when the lane was opened: no PUBLISH
        self._expiring = RangeSet()  # expired, and that is not committed (F15)
        self._expiry_new = False  # some of it was not told yet
        self._expiry_number: int | None = None  # all of it was, by this Settle
        self._again = RangeSet()  # sent before, unsettled, due again: on this connection, or since it was held back
        self._retry = RangeSet()  # refused for now: due again when the hold is over
        self._as_new = RangeSet()  # those of _again that were refused: they leave without DUP
        self._aside = RangeSet()  # suspected, and due again once another message was accepted (F12)
        self._sent_as_2 = RangeSet()  # those due again of which a PUBREC is owed: the remote may hold their identifiers
        self._freeing = RangeSet()  # those of them that wait for PUBCOMP, and all PUBLISHes for them (F14)
        self._let_go: dict[int, str] = {}  # given up, and the remote may hold the identifier: the outcome, once PUBCOMP comes (F13)
        self._suspects.clear()
        self._await_puback = RangeSet()
        self._await_pubrec = RangeSet()
        self._releasing = RangeSet()  # PUBREC came, not committed yet
        self._release_due = RangeSet()  # committed, PUBREL not sent on this connection yet
        self._await_pubcomp = RangeSet()
        self._pubrecs = ArrivalSet()  # the last three as their PUBRECs came (F10)
        self._unsettled = (
            self._await_puback,
            self._await_pubrec,
            self._releasing,
            self._release_due,
            self._await_pubcomp,
            self._again,
            self._retry,
            self._aside,
        )
        self._kept_max = _KEPT_MIN
        self._commits: deque[tuple[int, Ranges]] = deque()
        self._recorded = 0  # everything below is settled on record, or was never sent (F3)
        self._record_due = False  # a message waits for that
        self._records: deque[tuple[int, int]] = deque()  # Settle with that number -> where _recorded is once it is committed
        self._released_new = RangeSet()
        self._settled: dict[str, RangeSet] = {}
        self._replies: list[bytes] = []
        self._hold.clear()
        self._in_flight = 0
        self._in_flight_2 = 0
        self._window = 0
        self._window_2 = 0
        self.session = ""
        self.generation = 0
        self._record_new = False
        self._record_number: int | None = None
        # What has left the hand-outs, of those in hand: the base of further credit. Neither falls before the lane is opened anew.
        self.passed_messages = 0
        self.passed_bytes = 0
        self._first_seq = 0

    # --- the lane ---

    def open(self, lane: LaneOpened) -> None:
        """Forget everything and begin where the store says the lane stands."""
        self._clear()
        self._first_seq = self._sent_stop = self._offered_stop = self._recorded = lane.head
        self._dup_below = lane.dup_below
        # Nothing leaves before the session is on record (F7). One that was forgotten because of damage is ended at the remote.
        self._seen_through_below = lane.dup_below if lane.session or lane.released else 0
        self._barred = RangeSet((*lane.settled, *lane.released))
        for start, stop in lane.released:
            self._release_due.add(start, stop)
            self._pubrecs.add(start, stop)
        self._in_flight = self._in_flight_2 = self._release_due.count()
        self.session = lane.session
        self.generation = lane.generation

    def carry_on(self, lane: LaneOpened) -> int:
        """The lane was opened anew and the connection goes on: tell again what may not be on record. What follows begins there.

        What was offered and has not left is forgotten; it will be offered again.
        """
        self._waiting.clear()
        self._kept.clear()
        self._offered_stop = max(self._sent_stop, lane.head)
        if lane.head < self._sent_stop or lane.released:  # of those none need have been sent as PUBLISH on this connection
            known = RangeSet(lane.settled)
            for start, stop in (each for unsettled in (*self._unsettled, self._expiring) for each in unsettled):
                known.add(start, stop)
            for low, high in ((lane.head, self._sent_stop), *lane.released):
                for start, stop in known.missing(low, high) if low < high else ():
                    self._settle(DELIVERED, start, stop)
        self._commits.clear()
        self._records.clear()  # what was to be on record with them is told again above, and asked for again (F3)
        self._recorded = max(self._recorded, min(lane.head, self._sent_stop))
        for start, stop in self._releasing:
            self._released_new.add(start, stop)
        for start, stop in self._expiring:
            self._settle(EXPIRED, start, stop)
            self._expiry_new, self._expiry_number = True, None
        if self._record_number is not None or not lane.session:
            self._record_number, self._record_new = None, True
        return self._offered_stop

    def release_lost(self, ranges: Ranges) -> None:
        """The messages of ``ranges`` are lost and may have been sent before: have the peer let go of their identifiers.

        A QoS 2 identifier that it holds would make it take a later message for a repeat [MQTT-4.3.3-10].
        """
        for start, stop in ranges:
            self._replies += [ack_slice(PUBREL, seq, 1) for seq in range(start, stop)]

    def offer(self, frame: HandOut) -> None:
        """Take messages to send; they follow those of earlier hand-outs."""
        self.offer_segment(Segment.of(frame, self._max_age_ms))

    def offer_batch(self, batch: Batch, first_seq: int, offsets: array[int] | None, size_bytes: int) -> None:
        """The same for messages ``first_seq + offset`` that are no frame; offsets None: 0, 1, 2, ..."""
        self.offer_segment(Segment(Columns(batch, offsets), first_seq, size_bytes, self._max_age_ms))

    def offer_segment(self, segment: Segment) -> None:
        """The same for those that are a segment."""
        assert segment.first_seq >= self._offered_stop, "handed out twice, or out of order"
        self._offered_stop = segment.stop_seq
        self._waiting.append(segment)

    @property
    def waits(self) -> bool:
        """Whether there are messages that were offered and have not been looked at on this connection."""
        return bool(self._waiting)

    @property
    def unsent(self) -> int:
        """How many messages were offered and never left."""
        return max(0, self._offered_stop - self._sent_stop)

    @property
    def in_flight_qos2(self) -> int:
        """How many of them are QoS 2."""
        return self._in_flight_2

    @property
    def window(self) -> int:
        """How many QoS 1 and 2 messages may be unsettled on the live connection (F1)."""
        return self._window

    @property
    def in_flight(self) -> int:
        """QoS 1 and 2 messages that are unsettled on the live connection."""
        return self._in_flight

    @property
    def unsettled(self) -> int:
        """QoS 1 and 2 messages that were sent, on this connection or one before it, and wait for an answer."""
        refused = self._retry.count() + self._as_new.count()
        return sum(unsettled.count() for unsettled in self._unsettled) - refused

    @property
    def unfinished(self) -> bool:
        """Whether the session on record may hold something of what is not settled: with another it would be lost or come twice."""
        sent_before = self._barred.missing(self._sent_stop, self._dup_below)
        return bool(self.session) and (self.unsettled > 0 or bool(sent_before))

    def may_be_held(self) -> tuple[Ranges, Ranges]:
        """What the session on record may hold at QoS 2: what had its PUBREC, in that order, and what may have been sent without."""
        sent = RangeSet(self._sent_as_2)
        for start, stop in self._barred.missing(self._sent_stop, min(self._dup_below, self._first_seq + PACKET_IDS)):
            sent.add(start, stop)
        return self._as_they_came(RangeSet((*self._releasing, *self._release_due))), sent.ranges()

    def stays_due(self, ranges: Ranges) -> Ranges:
        """Those of ``ranges`` that another session is sent: they are not settled, and not settled by leaving this one."""
        due = RangeSet((*self._again, *self._retry, *self._aside, *self._barred.missing(self._sent_stop, _NO_LIMIT)))
        if self._republish:
            for start, stop in (*self._releasing, *self._release_due):
                due.add(start, stop)
            for seq in self._let_go:
                due.discard(seq, seq + 1)
        return ArrivalSet(ranges).within(due)

    def finish(self, finishing: bool) -> None:
        """PUBLISH nothing that the remote cannot have (F16), until it is told otherwise or the connection is gone."""
        self._finishing = finishing

    @property
    def owed(self) -> tuple[object, ...]:
        """The oldest PUBACK, PUBREC and PUBCOMP that the remote owes, None for none; each differs once that one came."""
        waiting = (self._await_puback, self._await_pubrec, self._await_pubcomp)
        return tuple(None if (first := of.first()) is None else (first[0], self.counts.retried) for of in waiting)

    @property
    def identifiers_used_up(self) -> bool:
        """Whether what waits has no packet identifier before the peer has acknowledged the oldest that it owes (F3)."""
        owed = [first[0] for of in (self._await_puback, self._await_pubrec, self._await_pubcomp) if (first := of.first())]
        return bool(owed and self._waiting) and self._waiting[0].next_seq >= min(owed) + PACKET_IDS

    @property
    def refused_with(self) -> int:
        """The reason code for which PUBLISHes are held back; 0 while they are not."""
        return self._hold.reason_code

    @property
    def held_until_s(self) -> float | None:
        """Until when they are, once ``pump`` has said so; then it is to be called again."""
        return self._hold.until_s

    def take_refusals(self) -> dict[int, int]:
        """Reason code -> messages refused since the last call, those too large for the remote included."""
        refusals, self._refusals = self._refusals, {}
        return refusals

    # --- connections ---

    def knows(self, session: str, session_present: bool) -> bool:
        """Whether a CONNACK with ``session_present`` fits the session on record; if not, close and connect with a clean start."""
        return not session_present or session == self.session

    def connected(
        self,
        *,
        session: str,
        session_present: bool,
        level: int,
        receive_maximum: int = 65_535,
        maximum_qos: int = 2,
        retain_available: bool = True,
        maximum_packet_size: int | None = None,
        aliases: OutgoingAliases | None = None,
        left: LeftSession | None = None,
    ) -> None:
        """A connection is up; the figures are those of its CONNACK. Call ``knows`` first. aliases: its own, if the peer takes any.

        left: the session is as good as new, save that what is unsettled of this may have been sent in it.

        Source: MQTT-3.2.2-2, MQTT 5.0 sections 3.2.2.3 and 4.4.
        """
        assert not self.live, "connected twice"
        assert self.knows(session, session_present), "a session without a record must not be resumed"
        self._style = Style(level, maximum_qos, retain_available)
        self._heads = HeadCache(level, aliases, maximum_packet_size)
        self._packet_max = maximum_packet_size
        self._window = min(self._receive_maximum_set, receive_maximum)
        if self._qos2_maximum_set is None:
            self._window_2 = self._window
        else:
            self._window_2 = self._qos2_maximum_set if level < _LEVEL_5 else max(1, self._window - 1)
        if not session_present:
            lost = session == self.session or self.unfinished or not self.session  # one that was finished was left
            self._dup_below = 0  # to this session everything is new [MQTT-3.3.1-1]
            if self.session or self._release_due.count():  # forgotten because of damage, it is lost as well
                self.counts.sessions_lost += lost
                self._session_lost()
            self.session = session
            self._record_new = True
            self._sent_as_2.clear()
        if left is not None:
            self._take_up(left)
        if maximum_qos < 2:
            self._free_identifiers()
        self._in_flight = self._in_flight_2 = self._releasing.count() + self._release_due.count()
        self._answers_before = self.counts.acknowledged
        if self._suspects.connected():
            for seq in self._suspects.found:
                self._again.discard(seq, seq + 1)
                self._aside.add(seq, seq + 1)
        self.live = True

    def _take_up(self, left: LeftSession) -> None:
        """Go on with what is unsettled of a session that was left: its PUBLISH goes again, or its PUBREL (F6)."""
        self._dup_below = left.sent_below
        self._seen_through_below = max(self._seen_through_below, left.sent_below)
        for start, stop in self.stays_due(left.sent):
            self._sent_as_2.add(start, min(stop, self._sent_stop))
        for start, stop in self.stays_due(left.released):  # they were to be sent anew in another session
            self._again.discard(start, stop)
            self._barred.add(start, stop)
            for released in (self._releasing, self._released_new, self._pubrecs):
                released.add(start, stop)

    def _free_identifiers(self) -> None:
        """What goes again at a lower QoS goes once the remote has let go of its identifier (F14)."""
        for start, stop in self._sent_as_2:
            self._freeing.add(start, stop)
            self._release_due.add(start, stop)
            self._pubrecs.add(start, stop)

    def _session_lost(self) -> None:
        """The remote forgot everything: unreleased messages go as new, released ones as configured."""
        self.generation += 1
        released = RangeSet((*self._releasing, *self._release_due))
        for unsettled in (self._releasing, self._release_due, self._released_new):
            unsettled.clear()
        self._pubrecs.clear()
        self._commits.clear()
        self._hold.clear()  # it was the other session's
        self._take_up_refused()
        self._as_new.clear()  # everything is new
        for seq, outcome in self._let_go.items():
            released.discard(seq, seq + 1)
            self._settle(outcome, seq, seq + 1)
        self._let_go.clear()
        for start, stop in released:
            if self._republish:
                self.counts.republished += stop - start
                self._barred.discard(start, stop)
                self._again.add(start, min(stop, self._sent_stop))
            else:
                self.counts.assumed_delivered += stop - start
                self._settle(DELIVERED, start, stop)

    def disconnected(self, *, by_remote: bool = False) -> None:
        """The connection is gone: what it left unsettled is due again on the next one. by_remote: the remote has closed it."""
        self.live = self._finishing = False
        convicted = self._suspects.closed(
            by_remote=by_remote,
            unanswered=bool(self._await_puback or self._await_pubrec or self._await_pubcomp),
            answers=self.counts.acknowledged > self._answers_before,
            sent_stop=self._sent_stop,
        )
        self._dup_below = max(self._dup_below, self._sent_stop)
        for start, stop in self._await_pubrec:
            self._sent_as_2.add(start, stop)
        for unsettled in (self._await_puback, self._await_pubrec):
            for start, stop in unsettled:
                self._again.add(start, stop)
            unsettled.clear()
        for start, stop in self._await_pubcomp:
            self._release_due.add(start, stop)
        self._await_pubcomp.clear()
        for start, stop in self._freeing:  # the next connection may take QoS 2 again
            self._release_due.discard(start, stop)
            self._pubrecs.discard(start, stop)
        self._freeing.clear()
        for start, stop in self._aside:
            self._again.add(start, stop)
        self._aside.clear()
        if convicted is not None:
            self._give_up(convicted)
        self._replies.clear()
        self._in_flight = self._in_flight_2 = self._releasing.count() + self._release_due.count()
        self._drop_settled()
        self._rewind()

    def _give_up(self, seq: int) -> None:
        """Settle a message for which the remote closes its connections (F12)."""
        assert self._policy.closed is not None, "convicted, and to be tried for ever"
        self._convicted.append(self._blamed(seq))
        del self._suspects.found[seq]
        self.counts.closed_on += 1
        self._again.discard(seq, seq + 1)
        self._as_new.discard(seq, seq + 1)
        if seq in self._sent_as_2:
            self._release_due.add(seq, seq + 1)
            self._will_let_go(seq, self._policy.closed)
        else:
            self._settle(self._policy.closed, seq, seq + 1)

    def _will_let_go(self, seq: int, outcome: str) -> None:
        """Settle ``seq``, of which no PUBREC came, as ``outcome`` at the PUBCOMP of a PUBREL that goes until then (F13)."""
        self._sent_as_2.discard(seq, seq + 1)
        self._pubrecs.add(seq, seq + 1)
        self._let_go[seq] = outcome

    def _blamed(self, seq: int) -> Blamed:
        segment = next(each for each in (*self._kept, *self._waiting) if each.first_seq <= seq < each.stop_seq)
        topic, packet_bytes = segment.describe(seq, self._style)
        suspect = self._suspects.found[seq]
        return Blamed(seq=seq, topic=topic, packet_bytes=packet_bytes, closed=suspect.closed, proofs=suspect.proofs)

    @property
    def suspects(self) -> list[Blamed]:
        """The messages for which the remote seems to close its connections."""
        return [self._blamed(seq) for seq in self._suspects.found]

    @property
    def wants_another(self) -> bool:
        """Whether the next connection, soon, is to show what else the remote takes, or this one has shown it (F12)."""
        return self._suspects.wants_another or bool(self._suspects.found and self._suspects.accepted_another)

    def take_convicted(self) -> list[Blamed]:
        """Those that were given up for it since the last call."""
        convicted, self._convicted = self._convicted, []
        return convicted

    def _rewind(self) -> None:
        """Look at all that is kept again, from the first row on."""
        self._thin_out()
        if self._waiting:
            self._waiting[0].rewind()
        while self._kept:
            segment = self._kept.pop()
            segment.rewind()
            self._waiting.appendleft(segment)

    def _take_up_refused(self) -> None:
        """What was refused for now is due again, as new."""
        if self._retry:
            for start, stop in self._retry:
                self._again.add(start, stop)
                self._as_new.add(start, stop)
            self._retry.clear()
            self._rewind()

    # --- out ---

    @property
    def on_record(self) -> bool:
        """Whether the session of the live connection is on record, so that it may be used (F7)."""
        return self.live and self.recorded

    @property
    def recorded(self) -> bool:
        """Whether the session of now is on record, so that it is the session on record."""
        return not self._record_new and self._record_number is None

    @property
    def sent_below(self) -> int:
        """No message from this sequence on was sent since the lane was opened."""
        return self._sent_stop

    def pump(self, bytes_max: int, now_s: float, wall_ms: int = 0) -> bytes:
        """The next burst to write, about ``bytes_max`` at most; empty when nothing may leave. It counts as sent.

        wall_ms: UTC epoch, for message expiry; without it nothing ages.
        """
        self._wall_ms = wall_ms
        if not self.on_record:
            return b""  # F7
        parts: list[bytes] = []
        if self._release_due:
            self._send_pubrels(parts)
        if not self._freeing and (not self._hold.reason_code or self._hold_over(now_s)):  # F14, F8
            if self._suspects.active:
                self._publish_carefully(bytes_max, parts)
            else:
                self._publish(bytes_max, parts)
        if self._replies:
            parts.extend(self._replies)
            self.pubrels_sent += len(self._replies)
            self._replies.clear()
        if not self._in_flight:
            self._drop_settled()
        return b"".join(parts)

    def _send_pubrels(self, parts: list[bytes]) -> None:
        """Add the PUBRELs that are due to ``parts`` (F4, F10)."""
        for start, stop in self._as_they_came(self._release_due):
            for begin in range(start, stop, PACKET_IDS):
                parts.append(ack_slice(PUBREL, begin, min(stop, begin + PACKET_IDS) - begin))
            self._await_pubcomp.add(start, stop)
            self.pubrels_sent += stop - start
        self._release_due.clear()

    def _hold_over(self, now_s: float) -> bool:
        """Whether what was refused for now may be sent again, and all that waits behind it."""
        if not self._hold.over(now_s):
            return False
        self._take_up_refused()
        return True

    def _publish_carefully(self, bytes_max: int, parts: list[bytes]) -> None:
        """``_publish`` while a culprit is looked for (F12): suspects go when another message was accepted, or if there is none."""
        if self._suspects.accepted_another and not self._in_flight:
            self._take_suspects_back()
        published = self.counts.published
        self._publish(bytes_max, parts)
        if self._suspects.aside and not self._in_flight and self.counts.published == published and not self._expiring:
            self._take_suspects_back()
            self._publish(bytes_max, parts)
        self._suspects.over(self._settled_below())

    def _take_suspects_back(self) -> None:
        if self._suspects.aside:
            self._suspects.taken_back()
            for start, stop in self._aside:
                self._again.add(start, stop)
            self._aside.clear()
            self._rewind()

    def _publish(self, bytes_max: int, parts: list[bytes]) -> None:
        """Add PUBLISHes to ``parts``, about ``bytes_max`` bytes at most."""
        while bytes_max > 0 and self._waiting:
            segment = self._waiting[0]
            if segment.expires:
                segment.age(self._wall_ms)
            while bytes_max > 0 and not segment.finished():
                sent = self._pump_run(segment, bytes_max, parts)
                if sent is None:
                    bytes_max = 0
                    break
                bytes_max -= sent
            if segment.finished():
                self._kept.append(self._waiting.popleft())

    def _pump_run(self, segment: Segment, bytes_max: int, parts: list[bytes]) -> int | None:
        """Add PUBLISHes of the current run to ``parts``; the bytes they take, or None when the next one has to wait."""
        run = segment.runs[segment.run]
        seq = segment.next_seq
        start, stop, again = self._due(seq, run)
        if start > seq:
            self._pass(segment, start - seq)
        if start == stop:
            return 0
        qos = min(run.flags & QOS_MASK, self._style.maximum_qos)
        rows = segment.rows_within(stop - start, bytes_max)
        if self._packet_max is not None and segment.may_exceed(self._packet_max):
            rows = self._rows_not_too_large(segment, run, start, rows)
            if not rows:
                return 0
        if self._finishing and not again and start >= self._dup_below:
            return None  # F16
        low = self._low()
        if low is None:
            low = start
        rows = min(rows, low + PACKET_IDS - start)  # F3; QoS 0 too, so that what is kept has a limit
        if qos:
            rows = min(rows, self._window - self._in_flight, self._identifiers_from(start, low))  # F1, F3
            if self._in_flight_2 >= self._window_2:
                return None  # F2: Mosquitto 2.0 then refuses a QoS 1 PUBLISH too
        if qos == 2:
            rows = min(rows, self._window_2 - self._in_flight_2)  # F2
        if self._suspects.active:
            if not self._suspects.may_leave(start, self._in_flight):
                return None  # F12
            if qos and self._suspects.goes_alone(start):
                rows = min(rows, 1)
        if rows <= 0:
            return None  # F8
        if not again:
            if segment.expires:
                rows = self._rows_in_time(segment, run, start, rows)
                if not rows:
                    return 0
            if self._expiring:
                return None  # F15
        dup = start < self._dup_below and not (self._as_new and start in self._as_new)
        parts.extend(segment.publishes(rows, start, dup, self._style, self._heads))
        self._sent(run, qos, start, start + rows, again)
        if self._suspects.active:
            self._suspects.left(start, qos)
            if not qos:
                self._suspects.settled(start, start + rows)
        size = segment.ends[segment.row + rows] - segment.ends[segment.row] + 16 * rows
        self._pass(segment, rows)
        return size

    def _due(self, seq: int, run: Run) -> tuple[int, int, bool]:
        """The next sequences of ``run`` from ``seq`` on that are due, all with DUP or none; and whether they were sent before."""
        run_stop = run.first_seq + run.stop - run.start
        if seq < self._sent_stop:
            stop = min(run_stop, self._sent_stop)
            found = self._again.next_range(seq)
            if found is None or found[0] >= stop:
                return stop, stop, True
            return found[0], self._alike(found[0], min(found[1], stop)), True
        stop = run_stop
        if self._barred:
            found = self._barred.next_range(seq)
            if found is not None and found[0] == seq:
                seq = min(found[1], stop)
                found = self._barred.next_range(seq)
            if found is not None:
                stop = max(seq, min(stop, found[0]))
        if seq < self._dup_below < stop:
            stop = self._dup_below
        return seq, stop, False

    def _alike(self, start: int, stop: int) -> int:
        """How far the sequences from ``start`` on, at most to ``stop``, were all refused or none of them."""
        new = self._as_new.next_range(start) if self._as_new else None
        if new is None or new[0] >= stop:
            return stop
        return new[0] if new[0] > start else min(new[1], stop)

    def _sent(self, run: Run, qos: int, start: int, stop: int, again: bool) -> None:
        """Account for the PUBLISHes of ``[start, stop)``."""
        rows = stop - start
        counts = self.counts
        counts.published += rows
        if again:
            self._again.discard(start, stop)
            self._as_new.discard(start, stop)
            self._sent_as_2.discard(start, stop)
        else:
            self._sent_stop = stop
        if qos < run.flags & QOS_MASK:
            counts.qos_lowered += rows
        if run.flags & RETAIN and not self._style.retain_available:
            counts.retain_stripped += rows
        if qos == 0:
            if run.flags & QOS_MASK:  # lowered here; real QoS 0 was settled by the Forwarder
                self._settle(DELIVERED, start, stop)
            return
        if again or start < self._dup_below:  # sent once more, with DUP or as new
            counts.redelivered += rows
            self._settle(REDELIVERED, start, stop)
        self._in_flight += rows
        if qos == 1:
            self._await_puback.add(start, stop)
        else:
            self._in_flight_2 += rows
            self._await_pubrec.add(start, stop)

    def _rows_not_too_large(self, segment: Segment, run: Run, seq: int, rows: int) -> int:
        """How many of the next ``rows`` rows the remote takes; a first one that is too large is settled [MQTT-3.1.2-24]."""
        assert self._packet_max is not None
        for row in range(segment.row, segment.row + rows):
            if segment.packet_bytes(row, run.flags, self._style) > self._packet_max:
                if row > segment.row:
                    return row - segment.row
                if seq >= max(self._sent_stop, self._seen_through_below) and not segment.alike_in_time(1)[1]:
                    return 1  # it expires
                self._give_up_too_large(run, seq)
                self._pass(segment, 1)
                return 0
        return rows

    def _rows_in_time(self, segment: Segment, run: Run, seq: int, rows: int) -> int:
        """How many of the next ``rows`` rows may leave; if the first ones have expired, those are settled (F11)."""
        if seq < self._seen_through_below:
            return min(rows, self._seen_through_below - seq)
        alike, in_time = segment.alike_in_time(rows)
        if in_time:
            return alike
        if run.flags & QOS_MASK:
            self._expire()
        else:
            self.counts.expired += alike  # QoS 0 was settled by the Forwarder
        self._sent_stop = seq + alike
        self._barred.discard(self._first_seq, self._sent_stop)
        self._pass(segment, alike)
        return 0

    def _expire(self) -> None:
        """Settle all that has expired and was never sent, however far behind it stands, so that it waits for one commit (F15)."""
        low = max(self._sent_stop, self._seen_through_below)
        for segment in self._waiting:
            if not segment.expires:
                continue
            segment.age(self._wall_ms)
            for found, stop in segment.expired():
                for start, end in self._barred.missing(max(found, low), stop):
                    self.counts.expired += end - start
                    self._settle(EXPIRED, start, end)
                    self._expiring.add(start, end)
                    self._barred.add(start, end)
        self._expiry_new, self._expiry_number = True, None

    def _give_up_too_large(self, run: Run, seq: int) -> None:
        self.counts.too_large += 1
        self._suspects.settled(seq, seq + 1)
        self._count_refusal(TOO_LARGE)
        qos = run.flags & QOS_MASK
        may_be_held = qos == 2 and self._may_be_held(seq)
        self._again.discard(seq, seq + 1)
        self._as_new.discard(seq, seq + 1)
        self._sent_stop = max(self._sent_stop, seq + 1)
        if may_be_held:  # the remote took more then
            self._in_flight += 1
            self._in_flight_2 += 1
            self._await_pubcomp.add(seq, seq + 1)
            self._replies.append(ack_slice(PUBREL, seq, 1))
            self._will_let_go(seq, self._policy.too_large)
        elif qos:
            self._settle(self._policy.too_large, seq, seq + 1)

    def _may_be_held(self, seq: int) -> bool:
        """Whether the remote may hold the identifier of ``seq``, a QoS 2 message that has not left on this connection.

        Nothing tells at which QoS an earlier life has sent. A remote that takes no QoS 2 may know no PUBREL either, and is not
        asked to release what it was perhaps never sent.
        """
        if seq < self._sent_stop:
            return seq in self._sent_as_2
        return self._style.maximum_qos == 2 and seq < min(self._dup_below, self._first_seq + PACKET_IDS)

    def _pass(self, segment: Segment, rows: int) -> None:
        """Move over ``rows`` rows; those passed for the first time make room for others."""
        segment.advance(rows)
        messages, size_bytes = segment.newly_passed()
        self.passed_messages += messages
        self.passed_bytes += size_bytes

    # --- in ---

    def received(self, buffer: bytes, position: int = 0) -> int:
        """Take the acknowledgements in ``buffer`` from ``position`` on; the position after the last whole one of the run.

        Raises:
            PeerViolation: an acknowledgement is malformed, or nothing waits for it under that packet identifier.
        Source: MQTT-4.3.2-3, MQTT-4.3.3-4 to -6.
        """
        size = len(buffer)
        while size - position >= 4:
            first_byte = buffer[position]
            if first_byte == PUBACK:
                waiting = self._await_puback
            elif first_byte == PUBREC:
                waiting = self._await_pubrec
            elif first_byte == PUBCOMP:
                waiting = self._await_pubcomp
            else:
                break
            length = buffer[position + 1]
            first = waiting.first()
            if first is not None and (length == 2 or (length == 3 and size - position >= 5 and self._style.level == _LEVEL_5)):
                tail = _BURST_TAILS.get(bytes((2,)) if length == 2 else bytes((3, buffer[position + 4])))
                if tail is not None:
                    matched = matching(buffer, position, first_byte, tail, first[0], min(first[1] - first[0], PACKET_IDS))
                    if matched:
                        waiting.take_first(matched)
                        self._acknowledged(first_byte, first[0], first[0] + matched)
                        position += matched * (2 + length)
                        continue
            end = self._single(buffer, position, waiting)
            if end is None:
                break
            position = end
        self._drop_settled()
        return position

    def _single(self, buffer: bytes, position: int, waiting: RangeSet) -> int | None:
        """Take the one acknowledgement at ``position``; the position after it, None if it is not all there."""
        first_byte, length = buffer[position], buffer[position + 1]
        if length & 0x80:  # the only long field is a reason string
            second = buffer[position + 2]
            if second & 0x80:
                raise PeerViolation("MQTT-3.1.2-25 acknowledgement larger than ever asked for", reason_code=0x95)
            length, body = length & 0x7F | second << 7, position + 3
        else:
            body = position + 2
        if length < 2 or (self._style.level < _LEVEL_5 and length != 2):
            raise PeerViolation("MQTT-2.1.4 acknowledgement with a wrong length", reason_code=0x81, length=length)
        end = body + length
        if end > len(buffer):
            return None
        packet_id = buffer[body] << 8 | buffer[body + 1]
        reason_code = buffer[body + 2] if length > 2 else 0
        low = waiting.first()
        seq = seq_of(packet_id, low[0]) if low is not None else None
        if seq is None or seq not in waiting:
            self._unexpected(first_byte, packet_id, reason_code)
        else:
            waiting.discard(seq, seq + 1)
            if reason_code < FAILURE or first_byte == PUBCOMP:
                self._acknowledged(first_byte, seq, seq + 1)
            else:
                self._refused(first_byte, seq, reason_code)
        return end

    def _acknowledged(self, first_byte: int, start: int, stop: int) -> None:
        count = stop - start
        self.counts.acknowledged += count
        if first_byte != PUBCOMP:
            if self._hold.growing:
                self._hold.accepted()
            if self._suspects.active:
                self._suspects.answered(start, stop)
        if first_byte == PUBREC:
            self._releasing.add(start, stop)
            self._released_new.add(start, stop)
            self._pubrecs.add(start, stop)
            return
        self._in_flight -= count
        if first_byte == PUBCOMP:
            self._in_flight_2 -= count
            self._pubrecs.discard(start, stop)
            if self._let_go or self._freeing:
                self._let_go_of(start, stop)
                return
        self._settle(DELIVERED, start, stop)

    def _let_go_of(self, start: int, stop: int) -> None:
        """PUBCOMPs came for ``[start, stop)``, of which some may have been given up (F13) or go at a lower QoS now (F14)."""
        for seq in range(start, stop):
            if seq in self._freeing:
                self._freeing.discard(seq, seq + 1)
                self._sent_as_2.discard(seq, seq + 1)
            else:
                self._settle(self._let_go.pop(seq, DELIVERED), seq, seq + 1)

    def _refused(self, first_byte: int, seq: int, reason_code: int) -> None:
        """A reason code of 0x80 or above ends the exchange of that message [MQTT-4.3.2-2, MQTT-4.3.3-4]; F9."""
        self.counts.acknowledged += 1
        self.counts.refused += 1
        self._count_refusal(reason_code)
        self._in_flight -= 1
        if self._suspects.active:
            self._suspects.answered(seq, seq + 1, accepted=False)
        if first_byte == PUBREC:
            self._in_flight_2 -= 1
        outcome = self._policy.outcome(reason_code)
        if outcome is not None:
            self._settle(outcome, seq, seq + 1)
            return
        self.counts.retried += 1
        self._retry.add(seq, seq + 1)
        self._hold.refused(reason_code)

    def _count_refusal(self, reason_code: int) -> None:
        self._refusals[reason_code] = self._refusals.get(reason_code, 0) + 1

    def _unexpected(self, first_byte: int, packet_id: int, reason_code: int) -> None:
        """An acknowledgement that nothing waits for.

        A second PUBREC has its PUBREL again, or with the first one after the commit (F4). What completes nothing known breaks
        nothing: a PUBCOMP is ignored, and MQTT 5.0 answers a PUBREC with PUBREL 0x92. One of the wrong kind breaks the exchange.

        Source: MQTT-4.3.3-4.
        """
        holders = (self._await_puback, self._await_pubrec, self._releasing, self._release_due, self._await_pubcomp)
        lows = [first[0] for first in (holder.first() for holder in holders) if first is not None]
        seq = seq_of(packet_id, min(lows)) if lows else None
        holder = next((holder for holder in holders if seq is not None and seq in holder), None)
        takes = first_byte == PUBREC and reason_code < FAILURE
        if seq is not None and holder is not None:
            if not takes or holder in (self._await_puback, self._await_pubrec):
                self._violation("acknowledgement of the wrong kind", first_byte, packet_id)
            if holder is self._await_pubcomp:
                self._replies.append(ack_slice(PUBREL, seq, 1))
        elif first_byte == PUBREC and self._style.level == _LEVEL_5:
            if takes:
                self._replies.append(bytes((PUBREL, 3)) + packet_id.to_bytes(2, "big") + _NOT_FOUND)
        elif first_byte != PUBCOMP:
            self._unknown(first_byte, packet_id)

    def _unknown(self, first_byte: int, packet_id: int) -> None:
        """An acknowledgement under an identifier that is not in use, for which MQTT 5.0 has no answer."""
        past = seq_of(packet_id, self._first_seq)
        if self._style.level == _LEVEL_5 or past is None or past >= self._sent_stop:
            self._violation("acknowledgement of something never sent", first_byte, packet_id)

    def _violation(self, message: str, first_byte: int, packet_id: int) -> NoReturn:
        clause = "MQTT-4.3.2-3" if first_byte == PUBACK else "MQTT-4.3.3-4"
        raise PeerViolation(f"{clause} {message}", first_byte=first_byte, packet_id=packet_id)

    # --- facts ---

    @property
    def urgent(self) -> bool:
        """Whether something waits for the commit of what ``facts`` has."""
        return self._record_new or self._expiry_new or bool(self._released_new) or self._wants_record()

    @property
    def settled_messages(self) -> int:
        """How many messages ``facts`` would settle."""
        return sum(settled.count() for outcome, settled in self._settled.items() if outcome != REDELIVERED)

    def facts(self, number: int) -> Facts | None:
        """What became of messages since the last time, to be sent as ``Settle`` ``number``; None if nothing did."""
        wants_record = self._wants_record()
        if not (self._settled or self._released_new or self._record_new or wants_record):
            return None
        released = self._as_they_came(self._released_new)
        if released:
            self._released_new.clear()
            self._commits.append((number, released))
        session = None
        if self._record_new:
            self._record_new = False
            self._record_number = number
            session = self.session
        elif wants_record or self._expiry_new:
            session = self.session  # told again, it changes nothing, and is answered when all that was settled is on record
        if self._expiry_new:
            self._expiry_new, self._expiry_number = False, number
        if session is not None or released:
            self._records.append((number, self._settled_below()))
        settled = tuple((outcome, ranges.ranges()) for outcome, ranges in self._settled.items())
        self._settled = {}
        return Facts(settled=settled, released=released, session=session, generation=self.generation)

    def committed(self, number: int) -> None:
        """Every ``Settle`` up to ``number`` is committed: what they released may be PUBRELed, a new session may be used.

        So may what stands behind messages that have expired.
        """
        while self._commits and self._commits[0][0] <= number:
            for start, stop in self._commits.popleft()[1]:
                self._releasing.discard(start, stop)
                self._release_due.add(start, stop)
        if self._record_number is not None and self._record_number <= number:
            self._record_number = None
        if self._expiry_number is not None and self._expiry_number <= number:
            self._expiry_number = None
            self._expiring.clear()
        while self._records and self._records[0][0] <= number:
            self._recorded = self._records.popleft()[1]

    # --- inside ---

    def _as_they_came(self, released: RangeSet) -> Ranges:
        return released.ranges() if self._pubrecs.rising else self._pubrecs.within(released)

    def _settle(self, outcome: str, start: int, stop: int) -> None:
        settled = self._settled.get(outcome)
        if settled is None:
            settled = self._settled[outcome] = RangeSet()
        settled.add(start, stop)

    def _low(self) -> int | None:
        """The lowest sequence that the remote may hold something of."""
        return lowest(self._unsettled)

    def _settled_below(self) -> int:
        """Everything below was sent and is settled."""
        low = self._low()
        return self._sent_stop if low is None else min(low, self._sent_stop)

    def _identifiers_from(self, seq: int, low: int) -> int:
        """How many sequences from ``seq`` on have packet identifiers that no message can have again after a crash (F3)."""
        if self._recorded >= self._sent_stop:  # all that was sent is settled on record
            self._recorded = max(self._recorded, min(seq, low))
        self._record_due = seq >= self._recorded + PACKET_IDS
        return self._recorded + PACKET_IDS - seq

    def _wants_record(self) -> bool:
        """Whether what is settled is to be on record, before packet identifiers run out (F3)."""
        behind = self._sent_stop - self._recorded > PACKET_IDS // 2
        if not (behind or self._record_due):
            return False
        gained = self._settled_below() - (self._records[-1][1] if self._records else self._recorded)
        return gained > (0 if self._record_due else PACKET_IDS // 4)

    def _drop_settled(self) -> None:
        """Let go of segments of which everything is settled."""
        if self._kept:
            low = self._low()
            while self._kept and (low is None or self._kept[0].stop_seq <= low):
                self._kept.popleft()
            if len(self._kept) > self._kept_max:
                self._thin_out()

    def _thin_out(self) -> None:
        """Let go of settled segments behind one that is not, which may be tried again for long."""
        self._kept = deque(
            segment
            for segment in self._kept
            if any((found := of.next_range(segment.first_seq)) and found[0] < segment.stop_seq for of in self._unsettled)
        )
        self._kept_max = max(_KEPT_MIN, 2 * len(self._kept))
