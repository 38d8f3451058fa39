"""Which messages of a lane are due to be PUBLISHed: for the first time, once more, or later. Pure.

Messages that wait for an answer are the business of ``wire/exchange/in_flight.py``, those that had their PUBREC that of
``wire/exchange/held_identifiers.py``. Whether a message that is due may leave now is decided in ``wire/exchange/publish_gate.py``.

exchange.nothing-twice-live [P2, P3, MQTT]: nothing is sent twice on one live connection [MQTT-4.4.0-1], though the store is a new
    one, which is told again what may not be on record; save as a new PUBLISH what the remote refused and policy retries
    (exchange.refusal-ends-exchange), and PUBREL to a second PUBREC [MQTT-4.3.3-4].
"""

from __future__ import annotations

from collections.abc import Iterable

from wire.exchange.packet_identifiers import PACKET_IDS
from wire.frames.lanes import LaneOpened
from wire.ranges import Ranges, RangeSet

_NO_LIMIT = 1 << 64  # above every sequence: those of an in-memory queue begin at the store's epoch << 32


class DueMessages:
    """One lane's.

    again: sent before, unsettled, due again: on this connection, or since it was held back. refused: refused for now, due again
    when the hold is over. aside: suspected, and due again once another message was accepted (exchange.given-up-only-when-proven).
    first_seq: where the lane began. sent_stop: every message below was sent at least once since then, or never will be. dup_below:
    what the session may have had. seen_through_below: what may have been sent before the lane was opened does not expire
    (exchange.expired-not-sent).
    """

    def __init__(self) -> None:
        self.again = RangeSet()
        self.refused = RangeSet()
        self.aside = RangeSet()
        self.first_seq = self.sent_stop = self.dup_below = self.seen_through_below = 0
        self._as_new = RangeSet()  # those of ``again`` that were refused: they leave without DUP
        self._barred = RangeSet()  # never sent here, and settled, or released when the lane was opened: no PUBLISH

    @property
    def unsettled(self) -> tuple[RangeSet, ...]:
        """The sets that have what was sent, is not settled, and waits for no answer."""
        return self.again, self.refused, self.aside

    @property
    def refused_messages(self) -> int:
        """How many messages were refused and are to be sent anew."""
        return self.refused.count() + self._as_new.count()

    @property
    def at_rest(self) -> bool:
        """Whether nothing is due, and nothing is known of what may follow."""
        ahead = self._barred.next_range(self.sent_stop) if self._barred else None
        return ahead is None and self.dup_below <= self.sent_stop and not any(self.unsettled)

    def open(self, lane: LaneOpened) -> None:
        """Forget everything and begin where the store says the lane stands."""
        for due in (*self.unsettled, self._as_new, self._barred):
            due.clear()
        self.first_seq = self.sent_stop = lane.head
        self.dup_below = lane.dup_below
        # Nothing leaves before the session is on record (exchange.session-on-record-first). One that was forgotten because of
        # damage is ended at the remote.
        self.seen_through_below = lane.dup_below if lane.session or lane.released else 0
        for start, stop in (*lane.settled, *lane.released):
            self._barred.add(start, stop)

    # --- what leaves ---

    def next(self, seq: int, stop: int) -> tuple[int, int, bool]:
        """The next sequences of ``[seq, stop)`` that are due, all with DUP or none; and whether they were sent before.

        Empty at the first that is to be looked at after those that are not due.
        """
        if seq < self.sent_stop:
            stop = min(stop, self.sent_stop)
            found = self.again.next_range(seq)
            if found is None or found[0] >= stop:
                return stop, stop, True
            return found[0], self._alike(found[0], min(found[1], stop)), True
        if self._barred.starts:
            found = self._barred.next_range(seq)
            if found is not None and found[0] == seq:
                seq = min(found[1], stop)
                found = self._barred.next_range(seq)
            if found is not None:
                stop = max(seq, min(stop, found[0]))
        if seq < self.dup_below < stop:
            stop = self.dup_below
        return seq, stop, False

    def _alike(self, start: int, stop: int) -> int:
        """How far the sequences from ``start`` on, at most to ``stop``, were all refused or none of them."""
        new = self._as_new.next_range(start) if self._as_new else None
        if new is None or new[0] >= stop:
            return stop
        return new[0] if new[0] > start else min(new[1], stop)

    def has_dup(self, seq: int) -> bool:
        """Whether ``seq``, which is due, leaves with DUP."""
        return seq < self.dup_below and not (self._as_new and seq in self._as_new)

    def on_sent(self, start: int, stop: int, *, again: bool) -> None:
        """``[start, stop)`` has left; again: not for the first time."""
        if again:
            self.again.discard(start, stop)
            self._as_new.discard(start, stop)
        else:
            self.sent_stop = stop

    def left_out(self, stop: int) -> None:
        """Everything below ``stop`` that has not left never will."""
        self.sent_stop = stop
        self._barred.discard(self.first_seq, stop)

    def to_expire(self, start: int, stop: int) -> list[tuple[int, int]]:
        """Those of ``[start, stop)`` that are to be settled once they are too old; they are not due any more."""
        found = self._barred.missing(max(start, self.sent_stop, self.seen_through_below), stop)
        for begin, end in found:
            self._barred.add(begin, end)
        return found

    def may_expire(self, seq: int) -> bool:
        """Whether ``seq`` was never sent, as far as anybody knows."""
        return seq >= max(self.sent_stop, self.seen_through_below)

    def given_up(self, seq: int) -> None:
        """``seq`` is not to be sent any more."""
        self.again.discard(seq, seq + 1)
        self._as_new.discard(seq, seq + 1)
        self.sent_stop = max(self.sent_stop, seq + 1)

    # --- what waits ---

    def on_refused(self, seq: int) -> None:
        """The remote has refused ``seq`` for now."""
        self.refused.add(seq, seq + 1)

    def take_up_refused(self) -> bool:
        """Messages that were refused for now are due again, as new; whether there were any."""
        if not self.refused:
            return False
        for start, stop in self.refused:
            self.again.add(start, stop)
            self._as_new.add(start, stop)
        self.refused.clear()
        return True

    def quarantine(self, seqs: Iterable[int]) -> None:
        """These wait until another message was accepted (exchange.given-up-only-when-proven)."""
        for seq in seqs:
            self.again.discard(seq, seq + 1)
            self.aside.add(seq, seq + 1)

    def take_back(self) -> None:
        """Messages that were set aside are due again."""
        for start, stop in self.aside:
            self.again.add(start, stop)
        self.aside.clear()

    # --- connections and sessions ---

    def on_disconnected(self, *unanswered: RangeSet) -> None:
        """The connection is gone: what was not answered on it is due again, with DUP."""
        self.dup_below = max(self.dup_below, self.sent_stop)
        for sent in unanswered:
            for start, stop in sent:
                self.again.add(start, stop)
        self.take_back()

    def new_session(self) -> None:
        """The next connection's session had nothing [MQTT-3.3.1-1]."""
        self.dup_below = 0
        self._as_new.clear()

    def republish(self, start: int, stop: int) -> None:
        """``[start, stop)`` is due as new: a session that is lost had released it."""
        self._barred.discard(start, stop)
        self.again.add(start, min(stop, self.sent_stop))

    def on_resumed(self, sent_below: int, released: Ranges) -> None:
        """The session was left before; all below ``sent_below`` may have been sent in it, and what is ``released`` is not due."""
        self.dup_below = sent_below
        self.seen_through_below = max(self.seen_through_below, sent_below)
        for start, stop in released:
            self.again.discard(start, stop)
            self._barred.add(start, stop)

    def not_released(self) -> RangeSet:
        """All that may have to be sent again in another session and has had no PUBREC, and all behind it."""
        return RangeSet((*self.again, *self.refused, *self.aside, *self._barred.missing(self.sent_stop, _NO_LIMIT)))

    def may_have_been_sent(self, seq: int) -> bool:
        """Whether an earlier life may have sent ``seq``, which is not settled, and this one has not."""
        return self.sent_stop <= seq < self.dup_below and seq not in self._barred

    @property
    def sent_before(self) -> list[tuple[int, int]]:
        """Messages that an earlier life may have sent in the session and this one has not."""
        return self._barred.missing(self.sent_stop, self.dup_below)

    @property
    def held_before(self) -> list[tuple[int, int]]:
        """Of that, what the remote may still hold at QoS 2."""
        return self._barred.missing(self.sent_stop, min(self.dup_below, self.first_seq + PACKET_IDS))
