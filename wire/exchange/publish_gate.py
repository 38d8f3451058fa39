"""Which of the messages that are due are PUBLISHed now, and in which bytes. Pure.

exchange.publish-in-order [P4]: PUBLISHes leave in the order of their sequences. The first that may not leave holds back all behind
    it. So does one that was refused and is to be tried again; what was in flight behind that one is ahead of it then.
exchange.expired-not-sent [P6, MQTT]: a message whose Message Expiry Interval has passed when it could leave is settled as expired
    [MQTT-3.3.2-5], and so is one that is older than the lane allows. Neither is if it may have been sent before. Any other leaves
    with what is left of its time [MQTT-3.3.2-6]. Before a session is on record nothing was sent.

While the lane finishes with its remote nothing leaves for the first time, and what may have been sent goes on
(exchange.failback-when-finished).
"""

from __future__ import annotations

from wire.exchange.lane_messages import LaneMessages
from wire.exchange.publish_encoder import HeadCache, PublishSegment, Run, Style
from wire.exchange.quarantine import QOS_2, WITHOUT, Quarantine
from wire.exchange.quarantine_class import MessageClass
from wire.exchange.refusal_policy import TOO_LARGE, Refusals
from wire.exchange.remote_limits import NO_LIMITS, RemoteLimits
from wire.exchange.send_rate import SendRate
from wire.frames.batch import QOS_MASK, RETAIN
from wire.mqtt.aliases import OutgoingAliases
from wire.status.outcomes import DELIVERED


class PublishGate:
    """One lane's.

    style: how the remote wants its PUBLISHes. limits: what it takes. learnt: what of that was seen of it, and not said by it. rate:
    how fast they may leave; None: as fast as it takes them.
    The counts are those of ``ExchangeFigures``.
    """

    def __init__(self, messages: LaneMessages, suspects: Quarantine, refusals: Refusals) -> None:
        self.style = Style(4, 2, True)
        self.published = self.redelivered = self.qos_lowered = self.retain_stripped = 0
        self.expired = self.too_large = self.closed_on = 0
        self.rate: SendRate | None = None
        self._finishing = False  # nothing new is to leave (exchange.failback-when-finished)
        self.learnt = self._stated = self.limits = NO_LIMITS
        self._traits = 0  # what a message may have of ``WITHOUT`` for this remote
        self._heads = HeadCache(4)
        self._wall_ms = 0  # when what leaves leaves
        self._messages = messages
        self._handed_out = messages.handed_out
        self._due = messages.due
        self._in_flight = messages.in_flight
        self._record = messages.record
        self._suspects = suspects
        self._refusals = refusals

    def finish(self, finishing: bool) -> None:
        """PUBLISH nothing that the remote cannot have, until told otherwise (exchange.failback-when-finished)."""
        self._finishing = finishing

    def limit_rate(self, rate: SendRate | None) -> None:
        """PUBLISHes leave no faster from now on (exchange.rate-kept)."""
        self.rate = rate

    def on_answer(self, reason_code: object) -> None:
        """The remote has refused something, or us, with ``reason_code`` (exchange.rate-yields)."""
        if self.rate is not None:
            self.rate.on_answer(reason_code)

    def on_connected(self, level: int, stated: RemoteLimits, learnt: RemoteLimits, aliases: OutgoingAliases | None) -> None:
        """A connection is up, at that protocol level: the remote has ``stated`` what it takes, the rest was ``learnt`` before."""
        self._heads = HeadCache(level, aliases)
        self._stated, self.learnt = stated, learnt
        self.learn(learnt)

    def learn(self, found: RemoteLimits) -> None:
        """The remote has shown that it takes no more than ``found``: that holds for what leaves from now on."""
        self.learnt = self.learnt.joined(found)
        self.limits = limits = self._stated.joined(self.learnt)
        self.style = _style(self._heads.level, limits)
        self._traits = (QOS_2 if limits.maximum_qos == 2 else 0) | (RETAIN if limits.retain_available else 0)
        self._heads.limit(limits.packet_max_bytes)

    def take_lessons(self) -> None:
        """Results of the search are known from now on (exchange.lowered-before-given-up)."""
        for found in self._suspects.take_lessons():
            self.learn(found)

    def publish(self, bytes_max: int, wall_ms: int, parts: list[bytes]) -> None:
        """Add the PUBLISHes that may leave now to ``parts``, about ``bytes_max`` bytes at most; they count as sent.

        wall_ms: UTC epoch.
        """
        self._wall_ms = wall_ms
        if self._suspects.lessons:
            self.take_lessons()
        if self._suspects.active:
            self._publish_carefully(bytes_max, parts)
        else:
            self._publish(bytes_max, parts)

    def _publish_carefully(self, bytes_max: int, parts: list[bytes]) -> None:
        """While a culprit is looked for (exchange.given-up-only-when-proven), suspects go when another message was accepted, or if
        there is none.
        """
        if self._suspects.accepted_another and not self._in_flight.messages:
            self._resume_quarantined()
        published = self.published
        self._publish(bytes_max, parts)
        unused = not self._in_flight.messages and self.published == published and not self._record.expiring
        unused = unused and not (self.rate is not None and self.rate.waits)
        if self._suspects.quarantining and unused:
            self._resume_quarantined()
            self._publish(bytes_max, parts)
        self._suspects.on_over(self._messages.settled_below())

    def _resume_quarantined(self) -> None:
        if self._suspects.quarantining:
            self._suspects.taken_back()
            self._messages.look_again()

    def _publish(self, bytes_max: int, parts: list[bytes]) -> None:
        waiting = self._handed_out.waiting
        while bytes_max > 0 and waiting:
            segment = waiting[0]
            if segment.expires:
                segment.age(self._wall_ms)
            runs = len(segment.runs)
            while bytes_max > 0 and segment.run < runs:
                sent = self._publish_run(segment, bytes_max, parts)
                if sent is None:
                    bytes_max = 0
                    break
                bytes_max -= sent
            if segment.run == runs:
                self._handed_out.keep_first()

    def _publish_run(self, segment: PublishSegment, bytes_max: int, parts: list[bytes]) -> int | None:
        """Add PUBLISHes of the current run to ``parts``; the bytes they take, or None when the next one has to wait."""
        due, style, suspects = self._due, self.style, self._suspects
        run = segment.runs[segment.run]
        seq = segment.next_seq
        start, stop, again = due.next(seq, run.first_seq + run.stop - run.start)
        if start > seq:
            self._handed_out.move_over(segment, start - seq)
        if start == stop:
            return 0
        if suspects.active and (without := suspects.without(start)):
            style = _style(style.level, self.limits.joined(WITHOUT[without]))
        qos = run.flags & QOS_MASK
        if qos > style.maximum_qos:
            qos = style.maximum_qos
        rows = 1 if stop - start == 1 else segment.rows_within(stop - start, bytes_max)
        limits = self.limits
        if limits.refused or (limits.packet_max_bytes is not None and segment.may_exceed(limits.packet_max_bytes)):
            rows = self._rows_taken(segment, run, start, rows)
            if not rows:
                return 0
        if self._finishing and not again and start >= due.dup_below:
            return None  # exchange.failback-when-finished
        free = self._messages.room(start, qos)
        if rows > free:
            rows = free
        if suspects.active:
            rows = self._rows_alone(run, start, rows, qos)  # exchange.given-up-only-when-proven
        room = None if self.rate is None or rows <= 0 else self.rate.room(segment.accepted_ms, self._wall_ms)
        if room is not None:
            rows = min(segment.rows_within(rows, room[1]), room[0])  # exchange.rate-kept
        if rows <= 0:
            return None  # exchange.publish-in-order
        if not again:
            if segment.expires:
                rows = self._rows_in_time(segment, run, start, rows)
                if not rows:
                    return 0
            if self._record.expiring.starts:
                return None  # exchange.expiry-committed-first
        dup = start < due.dup_below and due.has_dup(start)
        publishes = segment.publishes(rows, start, dup, style, self._heads)
        parts += publishes
        if room is not None and self.rate is not None:
            self.rate.take(rows, sum(map(len, publishes)))
        if suspects.active:
            self._on_quarantined_sent(segment, run, start, rows, qos)
        self._on_sent(run, style, qos, start, start + rows, again)
        size = segment.ends[segment.row + rows] - segment.ends[segment.row] + 16 * rows
        self._handed_out.move_over(segment, rows)
        return size

    def _rows_alone(self, run: Run, start: int, rows: int, qos: int) -> int:
        """How many of the next ``rows`` rows may leave while a culprit is looked for."""
        traits = run.flags & self._traits
        if not self._suspects.may_leave(start, traits, self._in_flight.messages):
            return 0
        return min(rows, 1) if qos and self._suspects.goes_alone(start, traits) else rows

    def _on_quarantined_sent(self, segment: PublishSegment, run: Run, start: int, rows: int, qos: int) -> None:
        suspects, traits = self._suspects, run.flags & self._traits
        of = None
        if qos and suspects.goes_alone(start, traits):
            of = MessageClass.of(*segment.describe(start, self.style))
        suspects.on_left(start, qos, traits, suspects.without(start), of)
        if not qos:
            suspects.on_settled(start, start + rows)

    def _on_sent(self, run: Run, style: Style, qos: int, start: int, stop: int, again: bool) -> None:
        """Account for the PUBLISHes of ``[start, stop)``."""
        rows = stop - start
        self.published += rows
        if self._messages.on_sent(start, stop, qos, again=again):  # once more, with DUP or as new
            self.redelivered += rows
        if run.flags & RETAIN and not style.retain_available:
            self.retain_stripped += rows
        if qos < run.flags & QOS_MASK:
            self.qos_lowered += rows
            if not qos:  # real QoS 0 was settled by the Forwarder
                self._record.settle(DELIVERED, start, stop)

    # --- what never leaves ---

    def _rows_taken(self, segment: PublishSegment, run: Run, seq: int, rows: int) -> int:
        """How many of the next ``rows`` rows the remote takes; a first one that it does not is settled [MQTT-3.1.2-24]."""
        size_max, refused = self.limits.packet_max_bytes, self.limits.refused
        for row in range(segment.row, segment.row + rows):
            too_large = size_max is not None and segment.packet_bytes(row, run.flags, self.style) > size_max
            if too_large or (refused and self._is_refused(segment.describe(seq + row - segment.row, self.style))):
                if row > segment.row:
                    return row - segment.row
                if self._due.may_expire(seq) and not segment.alike_in_time(1)[1]:
                    return 1  # it expires
                self._give_up(run, seq, too_large=too_large)
                self._handed_out.move_over(segment, 1)
                return 0
        return rows

    def _is_refused(self, message: tuple[str, int]) -> bool:
        """Whether the remote closes the connection on such messages (exchange.class-covers-convicted-only)."""
        one = MessageClass.of(*message)
        return any(refused.covers(one) for refused in self.limits.refused)

    def _give_up(self, run: Run, seq: int, *, too_large: bool) -> None:
        policy = self._refusals.policy
        self._suspects.on_settled(seq, seq + 1)
        outcome = policy.too_large if too_large else policy.closed
        assert outcome is not None, "learnt where nothing is given up"
        if too_large:
            self.too_large += 1
            self._refusals.count(TOO_LARGE)
        else:
            self.closed_on += 1
        self._messages.give_up(seq, outcome if run.flags & QOS_MASK else None)

    def _rows_in_time(self, segment: PublishSegment, run: Run, seq: int, rows: int) -> int:
        """How many of the next ``rows`` rows may leave; if the first ones have expired, those are settled
        (exchange.expired-not-sent).
        """
        if seq < self._due.seen_through_below:
            return min(rows, self._due.seen_through_below - seq)
        alike, in_time = segment.alike_in_time(rows)
        if in_time:
            return alike
        if run.flags & QOS_MASK:
            self._expire()
        else:
            self.expired += alike  # QoS 0 was settled by the Forwarder
        self._due.left_out(seq + alike)
        self._handed_out.move_over(segment, alike)
        return 0

    def _expire(self) -> None:
        """Settle all that has expired and was never sent, however far behind it stands, so that it waits for one commit
        (exchange.expiry-committed-first).
        """
        for segment in self._handed_out.waiting:
            if not segment.expires:
                continue
            segment.age(self._wall_ms)
            for found, stop in segment.expired():
                for start, end in self._due.to_expire(found, stop):
                    self.expired += end - start
                    self._record.expire(start, end)
        self._record.on_expired()


def _style(level: int, limits: RemoteLimits) -> Style:
    return Style(level, limits.maximum_qos, limits.retain_available)
