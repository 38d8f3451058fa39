"""QoS 2 packet identifiers that the remote holds, or may hold, until its PUBCOMP. Pure.

exchange.release-after-record [P2, P3]: PUBREL leaves only after the PUBREC was committed. exchange.held-identifier-released and
    exchange.lowered-identifier-released have PUBRELs of what no PUBREC came for.
exchange.no-publish-after-pubrec [P2, MQTT]: after a PUBREC no PUBLISH of that message leaves again in that session [MQTT-4.3.3-6].
exchange.pubrels-in-pubrec-order [P4, MQTT]: PUBRELs leave in the order in which their PUBRECs came [MQTT-4.6.0-4], also on a
    resumed session and after a crash. That differs from the order of the sequences where a refused message was tried again.
exchange.held-identifier-released [P2]: what is given up while the remote may hold its packet identifier is settled at the PUBCOMP
    of a PUBREL, which goes on each connection of that session until then. An identifier that is held for ever would make of a later
    message a repeat [MQTT-4.3.3-10]. A crash before the PUBCOMP forgets that the message was given up; it is queued again, and its
    identifier is taken.
exchange.lowered-identifier-released [P2]: what left at QoS 2 and is owed a PUBREC goes at a lower QoS to a remote that takes no
    QoS 2 any more, and may arrive twice. Its identifier may stay held there. A PUBREL lets go of it once a PUBREC shows that the
    remote knows QoS 2 again; before that some remotes close the connection on one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from wire.exchange.outcomes import DELIVERED
from wire.exchange.packet_identifiers import PACKET_IDS, PUBREL, acks
from wire.ranges import ArrivalSet, Ranges, RangeSet


class HeldIdentifiers:
    """Those of one lane, by the sequences that they belong to.

    releasing: PUBREC came, and that is not committed yet. due: it is, and no PUBREL was sent on this connection. awaited: PUBCOMP
    is owed; whoever reads those takes them out. untold: those of ``releasing`` that the store was not told of. unanswered: to be
    sent again, and a PUBREC is owed. lowered: left at a lower QoS since, and held perhaps
    (exchange.lowered-identifier-released). replies: PUBRELs that leave behind what leaves next.
    """

    def __init__(self) -> None:
        self.releasing = RangeSet()
        self.due = RangeSet()
        self.awaited = RangeSet()
        self.unanswered = RangeSet()
        self.untold = RangeSet()
        self.replies: list[bytes] = []
        self.lowered = RangeSet()
        self.pubrels_sent = 0
        self._order = ArrivalSet()  # the first three as their PUBRECs came (exchange.pubrels-in-pubrec-order)
        self._told: deque[tuple[int, Ranges]] = deque()  # and the others, by the ``Settle`` that told them
        self._given_up: dict[int, str] = {}  # with the outcome, once PUBCOMP comes (exchange.held-identifier-released)

    @property
    def unsettled(self) -> tuple[RangeSet, ...]:
        """The sets that have what is on its way from PUBREC to PUBCOMP."""
        return self.releasing, self.due, self.awaited

    @property
    def releases(self) -> bool:
        """Whether there is something to tell the store now: while what was told is not committed, more of it gathers."""
        return bool(self.untold) and not self._told

    @property
    def between_connections(self) -> int:
        """How many of them the next connection begins with."""
        return self.releasing.count() + self.due.count()

    def open(self, released: Ranges) -> None:
        """Forget everything; ``released`` is on record, in the order of the PUBRECs."""
        for held in (self.releasing, self.due, self.awaited, self.unanswered, self.lowered, self.untold):
            held.clear()
        self._order.clear()
        self._told.clear()
        self._given_up = {}
        self.replies.clear()
        self._is_due(released)

    def _is_due(self, released: Iterable[tuple[int, int]]) -> None:
        for start, stop in released:
            self.due.add(start, stop)
            self._order.add(start, stop)

    # --- from PUBREC to PUBCOMP ---

    def pubrec(self, start: int, stop: int) -> None:
        """PUBRECs came for ``[start, stop)``."""
        self.releasing.add(start, stop)
        self.untold.add(start, stop)
        self._order.add(start, stop)
        if self.lowered:
            self.let_go(self.lowered.ranges())
            self.lowered.clear()

    def tell(self, number: int) -> Ranges:
        """What the store is told of with ``Settle`` ``number``, in the order of the PUBRECs."""
        if not self.untold:
            return ()
        released = self._in_order(self.untold)
        self.untold.clear()
        self._told.append((number, released))
        return released

    def tell_again(self) -> None:
        """The store is new, and the connection goes on."""
        self._told.clear()
        for start, stop in self.releasing:
            self.untold.add(start, stop)

    def committed(self, number: int) -> None:
        """Every ``Settle`` up to ``number`` is committed (exchange.release-after-record)."""
        while self._told and self._told[0][0] <= number:
            self.on_record(self._told.popleft()[1])

    def on_record(self, released: Ranges) -> None:
        """The PUBRECs of ``released`` are committed."""
        for start, stop in released:
            self.releasing.discard(start, stop)
            self.due.add(start, stop)

    def pubrels(self, parts: list[bytes], *, first_only: bool = False) -> None:
        """Add the PUBRELs that are due to ``parts`` (exchange.pubrels-in-pubrec-order)."""
        due = self._in_order(self.due)
        if first_only:
            due = ((due[0][0], due[0][0] + 1),)
        for start, stop in due:
            for begin in range(start, stop, PACKET_IDS):
                parts.append(acks(PUBREL, begin, min(stop, begin + PACKET_IDS) - begin))
            self.awaited.add(start, stop)
            self.pubrels_sent += stop - start
            self.due.discard(start, stop)

    def pubcomp(self, start: int, stop: int) -> list[tuple[str, int, int]]:
        """PUBCOMPs came for ``[start, stop)``, which are awaited no more: what is settled now, by outcome."""
        self._order.discard(start, stop)
        if not self._given_up:
            return [(DELIVERED, start, stop)]
        return [(self._given_up.pop(seq, DELIVERED), seq, seq + 1) for seq in range(start, stop)]

    def _in_order(self, released: RangeSet) -> Ranges:
        return released.ranges() if self._order.rising else self._order.within(released)

    # --- PUBRELs that answer ---

    def reply(self, pubrel: bytes) -> None:
        """Send ``pubrel`` behind what leaves next, on this connection only."""
        self.replies.append(pubrel)

    def take_replies(self, parts: list[bytes]) -> None:
        """Add those to ``parts``."""
        parts.extend(self.replies)
        self.pubrels_sent += len(self.replies)
        self.replies.clear()

    def let_go(self, ranges: Ranges) -> None:
        """The messages of ``ranges`` are lost and may have been sent before: have the peer let go of their identifiers.

        One that it holds would make it take a later message for a repeat [MQTT-4.3.3-10].
        """
        for start, stop in ranges:
            self.replies += [acks(PUBREL, seq, 1) for seq in range(start, stop)]

    # --- PUBRELs of what no PUBREC came for ---

    def sent_again(self, start: int, stop: int, qos: int) -> None:
        """``[start, stop)`` was PUBLISHed again, at ``qos``."""
        if qos == 2:
            self.lowered.discard(start, stop)
        else:
            for begin, end in ArrivalSet(((start, stop),)).within(self.unanswered):
                self.lowered.add(begin, end)
        self.unanswered.discard(start, stop)

    def give_up(self, seq: int, outcome: str) -> bool:
        """Settle ``seq`` as ``outcome``, at its PUBCOMP; False if the remote cannot hold it (exchange.held-identifier-released)."""
        if seq not in self.unanswered:
            return False
        self.due.add(seq, seq + 1)
        self._will_be(seq, outcome)
        return True

    def give_up_at_once(self, seq: int, outcome: str) -> None:
        """The same, whatever is known of ``seq``, with the PUBREL behind what leaves now."""
        self.awaited.add(seq, seq + 1)
        self.reply(acks(PUBREL, seq, 1))
        self._will_be(seq, outcome)

    def _will_be(self, seq: int, outcome: str) -> None:
        self.unanswered.discard(seq, seq + 1)
        self._order.add(seq, seq + 1)
        self._given_up[seq] = outcome

    # --- connections and sessions ---

    def disconnected(self, unanswered: RangeSet) -> None:
        """The connection is gone: what was awaited is due again. unanswered: what is owed a PUBREC."""
        for start, stop in unanswered:
            self.unanswered.add(start, stop)
        for start, stop in self.awaited:
            self.due.add(start, stop)
        self.awaited.clear()
        self.replies.clear()

    def lost(self) -> tuple[RangeSet, dict[int, str]]:
        """The remote holds nothing any more: what had its PUBREC, and what was given up, with the outcome."""
        released, given_up = self.taken(), self._given_up
        for held in (self.releasing, self.due, self.unanswered, self.lowered, self.untold):
            held.clear()
        self._order.clear()
        self._told.clear()
        self._given_up = {}
        return released, given_up

    def resumed(self, released: Ranges, sent: Ranges, sent_stop: int) -> None:
        """The session was left before: it has ``released``, and ``sent`` without PUBREC; those below ``sent_stop`` go again."""
        for start, stop in sent:
            self.unanswered.add(start, min(stop, sent_stop))
        for start, stop in released:
            self.pubrec(start, stop)

    def taken(self) -> RangeSet:
        """What had its PUBREC and was not given up."""
        released = RangeSet((*self.releasing, *self.due))
        for seq in self._given_up:
            released.discard(seq, seq + 1)
        return released

    def released_in_order(self) -> Ranges:
        """What had its PUBREC, in that order."""
        return self._in_order(RangeSet((*self.releasing, *self.due)))
