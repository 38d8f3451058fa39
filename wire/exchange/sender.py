"""The sender's half of QoS 0, 1 and 2 towards one peer, for one lane: its connections and sessions. Pure.

It decides what may leave, when, under which packet identifier, and what became of it. Its owner brings hand-outs, the facts of
each CONNACK and the bytes that came, writes what ``pump`` gives and sends what ``record.facts`` says. Packets that are no
acknowledgements are the owner's. The parts own what there is to know of a lane, and the rules exchange.receive-maximum-kept,
exchange.qos2-maximum-kept, exchange.identifier-never-twice, exchange.release-after-record, exchange.nothing-twice-live,
exchange.resumed-in-order, exchange.session-on-record-first, exchange.publish-in-order, exchange.refusal-ends-exchange,
exchange.pubrels-in-pubrec-order, exchange.expired-not-sent, exchange.given-up-only-when-proven,
exchange.abandoned-identifier-released, exchange.expiry-committed-first, exchange.failback-when-finished stand with them:

``messages`` how each message stands: ``due`` to be PUBLISHed (exchange.nothing-twice-live), ``in_flight`` in the windows
(exchange.receive-maximum-kept, exchange.qos2-maximum-kept), within the span of identifiers (exchange.identifier-never-twice),
``held`` from PUBREC to PUBCOMP (exchange.release-after-record, exchange.pubrels-in-pubrec-order,
exchange.abandoned-identifier-released), on ``record`` (exchange.expiry-committed-first); ``publishing`` what leaves
(exchange.publish-in-order, exchange.expired-not-sent, exchange.failback-when-finished), ``answers`` what comes back
(exchange.refusal-ends-exchange), ``closed_on`` what the remote seems to close for (exchange.given-up-only-when-proven).

exchange.resumed-in-order [P2, P4, P3]: on a resumed session all that is unsettled goes again in the original order, as a PUBLISH or
    as a PUBREL.
exchange.dup-on-repeats [P2, MQTT]: DUP is set on what an earlier connection of the session may have sent, and on nothing that
    leaves for the first time [MQTT-3.3.1-1].
exchange.resent-unchanged [P2, MQTT]: what goes again has its original packet identifier, topic, QoS and payload [MQTT-4.4.0-1].
exchange.session-on-record-first [P2, P3]: nothing leaves on a new session before its record is committed. Messages that an older
    session released are settled, or sent as new.
"""

from __future__ import annotations

from array import array

from wire.backoff import Backoff
from wire.exchange.acknowledgements import Acknowledgements, Check
from wire.exchange.former_sessions import LeftSession
from wire.exchange.lane_messages import LaneMessages, Standing
from wire.exchange.publish_encoder import Columns, PublishSegment
from wire.exchange.publish_gate import PublishGate
from wire.exchange.quarantine import Quarantine
from wire.exchange.quarantine_outcome import QuarantineEntry, QuarantineOutcome
from wire.exchange.refusal_policy import RefusalPolicy, Refusals
from wire.exchange.remote_limits import NO_LIMITS, RemoteLimits
from wire.frames.batch import Batch
from wire.frames.frame import Ranges
from wire.frames.lanes import HandOut, LaneOpened
from wire.mqtt.aliases import OutgoingAliases
from wire.ranges import lowest
from wire.status.bridges import ExchangeFigures

_STANDINGS = {
    Standing.PUBACK_OWED: (1, "sent"),
    Standing.PUBREC_OWED: (2, "sent"),
    Standing.PUBCOMP_OWED: (2, "released"),
    Standing.RECEIVED: (2, "released"),
    Standing.NOT_SENT_HERE: (0, "waiting"),
    Standing.NONE: (0, "ended"),
}


class SenderHalf:
    """One lane's exchange.

    qos2_maximum: as ``Qos2Window`` has it. republish: whether released messages are sent
    anew when the remote has lost the session. policy: what is done with refused messages. backoff: how long the lane is held back
    when some of those are to be tried again. max_age_s: how old a message that was never sent may become
    (exchange.expired-not-sent). check: as ``Acknowledgements`` has it.
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
        check: Check | None = None,
    ) -> None:
        self.live = False
        self.messages = messages = LaneMessages(receive_maximum=receive_maximum, qos2_maximum=qos2_maximum)
        self.in_flight, self.held, self.due = messages.in_flight, messages.held, messages.due
        self.handed_out, self.record = messages.handed_out, messages.record
        self.refusals = Refusals(policy, backoff)
        self._suspects = suspects = Quarantine(sets_aside=policy.closed is not None)
        self.closed_on = QuarantineOutcome(policy.closed, messages, suspects)
        self.publishing = PublishGate(messages, suspects, self.refusals)
        self.answers = Acknowledgements(check, messages, suspects, self.refusals, self.publishing)
        self._sessions_lost = self._republished = self._assumed_delivered = 0
        self._republish = republish
        self._max_age_ms = None if max_age_s is None else max_age_s * 1000

    # --- the lane ---

    def open(self, lane: LaneOpened) -> None:
        """Forget everything and begin where the store says the lane stands."""
        self.live = False
        self.publishing.finish(False)
        self.messages.open(lane)
        self.refusals.hold.clear()
        self._suspects.clear()

    def carry_on(self, lane: LaneOpened) -> int:
        """The lane was opened anew and the connection goes on: tell again what may not be on record. The next hand-outs begin
        there.

        Messages that were offered and have not left are forgotten; they will be offered again.
        """
        return self.messages.carry_on(lane)

    def hand_out(self, frame: HandOut) -> None:
        """Take messages to send; they follow those of earlier hand-outs."""
        self.handed_out.add(PublishSegment.of(frame, self._max_age_ms))

    def hand_out_batch(self, batch: Batch, first_seq: int, offsets: array[int] | None, size_bytes: int) -> None:
        """The same for messages ``first_seq + offset`` that are no frame; offsets None: 0, 1, 2, ..."""
        columns = Columns(batch, offsets, first_seq=first_seq)
        self.handed_out.add(PublishSegment(columns, first_seq, size_bytes, self._max_age_ms))

    @property
    def unsettled(self) -> int:
        """QoS 1 and 2 messages that were sent, on this connection or one before it, and wait for an answer."""
        return self.messages.unsettled

    def standing(self, seq: int) -> tuple[int, str]:
        """At which QoS ``seq`` is on its way, 0 if it is not; and how it stands: waiting, sent, released (PUBREC came) or ended."""
        if seq >= self.due.sent_stop:
            return 0, "waiting"
        return _STANDINGS[self.messages.standing(seq)]

    @property
    def owed(self) -> tuple[object, ...]:
        """The oldest PUBACK, PUBREC, PUBCOMP and PINGRESP that the remote owes, None for none; each differs once that one came."""
        waiting = (*self.in_flight.unsettled, self.held.awaited)
        oldest = (None if (first := of.first()) is None else (first[0], self.answers.retried) for of in waiting)
        return (*oldest, self._suspects.pings or None)

    @property
    def counts(self) -> ExchangeFigures:
        """The counts of all parts, for status."""
        out, answers, closed_on = self.publishing, self.answers, self.closed_on
        return ExchangeFigures(
            published=out.published,
            acknowledged=answers.acknowledged,
            redelivered=out.redelivered,
            qos_lowered=out.qos_lowered,
            retain_stripped=out.retain_stripped,
            expired=out.expired,
            too_large=out.too_large,
            refused=answers.refused,
            retried=answers.retried,
            closed_on=out.closed_on + closed_on.closed_on,
            sessions_lost=self._sessions_lost,
            assumed_delivered=self._assumed_delivered,
            republished=self._republished,
            unexpected_acknowledgements=answers.unexpected,
            acknowledged_as_qos1=answers.acknowledged_as_qos1,
            released_unanswered=closed_on.released_unanswered,
            rate_lowered=0 if out.rate is None else out.rate.lowered,
        )

    @property
    def quarantined(self) -> list[QuarantineEntry]:
        """The messages for which the remote seems to close its connections."""
        return self.closed_on.messages(self.publishing.style)

    # --- sessions ---

    @property
    def unfinished(self) -> bool:
        """Whether the session on record may hold something of what is not settled: with another it would be lost or come twice."""
        return bool(self.record.session) and (self.unsettled > 0 or bool(self.due.sent_before))

    def may_be_held(self) -> tuple[Ranges, Ranges]:
        """Messages that the session on record may hold at QoS 2: those that had their PUBREC, in that order, and those that may
        have been sent without."""
        return self.messages.may_be_held()

    def stays_due(self, ranges: Ranges) -> Ranges:
        """Those of ``ranges`` that another session is sent: they are not settled, and not settled by leaving this one."""
        return self.messages.stays_due(ranges, republish=self._republish)

    def finish(self, finishing: bool) -> None:
        """PUBLISH nothing that the remote cannot have (exchange.failback-when-finished), until it is told otherwise or the
        connection is gone.
        """
        self.publishing.finish(finishing)

    def knows(self, session: str, session_present: bool) -> bool:
        """Whether a CONNACK with ``session_present`` fits the session on record; if not, close and connect with a clean start."""
        return not session_present or session == self.record.session

    # --- connections ---

    def on_connected(
        self,
        *,
        session: str,
        session_present: bool,
        level: int,
        receive_maximum: int = 65_535,
        limits: RemoteLimits = NO_LIMITS,
        learnt: RemoteLimits = NO_LIMITS,
        aliases: OutgoingAliases | None = None,
        left: LeftSession | None = None,
    ) -> None:
        """A connection is up; the figures are those of its CONNACK. Call ``knows`` first. aliases: its own, if the peer takes any.

        learnt: what is known of this address besides. left: the session is as good as new, save that what is unsettled of this may
        have been sent in it.

        Source: MQTT-3.2.2-2, MQTT 5.0 sections 3.2.2.3 and 4.4.
        """
        assert not self.live, "connected twice"
        assert self.knows(session, session_present), "a session without a record must not be resumed"
        self.publishing.on_connected(level, limits, learnt, aliases)
        self.answers.on_connected(level)
        if not session_present:
            self._begin_session(session)
        if left is not None:
            released, sent = self.stays_due(left.released), self.stays_due(left.sent)
            self.messages.on_resumed(released, sent, left.sent_below)
        self.messages.on_connected(level, receive_maximum)
        self.due.quarantine(self._suspects.on_connected(session))
        self.live = True

    def _begin_session(self, session: str) -> None:
        known = bool(self.record.session)
        if known or self.held.between_connections:  # forgotten because of damage, it is lost as well
            lost = session == self.record.session or self.unfinished or not known  # one that was finished was left
            self._sessions_lost += lost
            self._on_session_lost()
        self.messages.begin_session(session)

    def _on_session_lost(self) -> None:
        """The remote forgot everything: unreleased messages go as new, released ones as configured."""
        released = self.messages.on_session_lost(republish=self._republish)
        self.refusals.hold.clear()  # it was the other session's
        if self._republish:
            self._republished += released
        else:
            self._assumed_delivered += released

    def on_stalled(self) -> None:
        """The live connection is about to be given up, because what the peer owes does not come."""
        self.answers.on_stalled()

    def on_disconnected(self, *, by_remote: bool = False) -> None:
        """The connection is gone: what it left unsettled is due again on the next one. by_remote: the remote has closed it."""
        self.live = False
        self.publishing.finish(False)
        released = lowest((self.held.awaited,)) if by_remote and self.answers.releases_alone else None
        waits = bool(self.in_flight.puback or self.in_flight.pubrec or self.held.awaited)
        answers, sent_stop = self.answers.any_on_this_connection, self.due.sent_stop
        convicted = self._suspects.on_closed(by_remote=by_remote, unanswered=waits, answers=answers, sent_stop=sent_stop)
        self.publishing.take_lessons()
        self.messages.on_disconnected()
        if convicted is not None:
            self.closed_on.give_up(convicted, self.publishing.style)
        self.closed_on.release(released)
        self.messages.begin_again()

    # --- out and in ---

    @property
    def on_record(self) -> bool:
        """Whether the session of the live connection is on record, so that it may be used (exchange.session-on-record-first)."""
        return self.live and self.record.recorded

    @property
    def with_remote(self) -> int:
        """For how many messages of the window the remote has something to do; for the others a commit has to come first."""
        return self.in_flight.messages - self.held.releasing.count()

    def pump(self, bytes_max: int, now_s: float, wall_ms: int = 0) -> bytes:
        """The next burst to write, about ``bytes_max`` at most; empty when nothing may leave. It counts as sent.

        wall_ms: UTC epoch, for message expiry; without it nothing ages.
        """
        if not (self.live and self.record.recorded):
            return b""  # exchange.session-on-record-first
        held, hold = self.held, self.refusals.hold
        parts: list[bytes] = []
        alone = self._suspects.barren and self.answers.releases_alone and any(held.unsettled)  # exchange.closed-on-release-has-it
        if alone and not self._suspects.heard:
            return self._suspects.ping()
        if held.due.starts and not (alone and held.awaited):
            held.pubrels(parts, first_only=alone)
        may_publish = not alone and (not hold.reason_code or self._poll_hold_over(now_s))  # exchange.publish-in-order
        if may_publish and (self.handed_out.waiting or self._suspects.active):
            if self.publishing.rate is not None:
                self.publishing.rate.refill(now_s)
            self.publishing.publish(bytes_max, wall_ms, parts)
        if held.replies:
            held.take_replies(parts)
        if not self.in_flight.messages:
            self.handed_out.drop_settled()
        return b"".join(parts)

    def _poll_hold_over(self, now_s: float) -> bool:
        """Whether what was refused for now may be sent again, and all that waits behind it."""
        if not self.refusals.hold.poll_over(now_s):
            return False
        self.messages.take_up_refused()
        return True

    def on_received(self, buffer: bytes, position: int = 0) -> int:
        """Take the acknowledgements in ``buffer`` from ``position`` on; the position after the last whole one of the run.

        Raises:
            PeerViolation: an acknowledgement is malformed.
        """
        position = self.answers.on_received(buffer, position)
        self.handed_out.drop_settled()
        return position
