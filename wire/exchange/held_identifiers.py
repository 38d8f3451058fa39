"""QoS 2 packet identifiers that the remote holds, or may hold, until its PUBCOMP. Pure.

exchange.release-after-record [P2, P3]: PUBREL leaves only after the PUBREC was committed. Under
    exchange.abandoned-identifier-released no PUBREC came.
exchange.no-publish-after-pubrec [P2, MQTT]: after a PUBREC no PUBLISH of that message leaves again in that session [MQTT-4.3.3-6].
exchange.pubrels-in-pubrec-order [P4, MQTT]: PUBRELs leave in the order in which their PUBRECs came [MQTT-4.6.0-4], also on a
    resumed session and after a crash. That differs from the order of the sequences where a refused message was tried again.
exchange.abandoned-identifier-released [P2]: a message that left at QoS 2 and is owed a PUBREC may be given up, or leave at a lower
    QoS because the remote takes no QoS 2 any more. Its packet identifier may stay held at the remote, and would make of a later
    message a repeat [MQTT-4.3.3-10]. One PUBREL releases it behind the next PUBREC, which shows that the remote knows QoS 2;
    before that some remotes close the connection on one. A lower QoS that the remote has not answered when the connection ends
    releases nothing: that message may leave at QoS 2 next.
"""

from __future__ import annotations

from wire.exchange.packet_identifiers import PACKET_IDS, PUBREL, acks
from wire.ranges import ArrivalSet, Ranges, RangeSet


class HeldIdentifiers:
    """Those of one lane, by the sequences that they belong to.

    releasing: PUBREC came, and that is not committed yet. due: it is, and no PUBREL was sent on this connection. awaited: PUBCOMP
    is owed; whoever reads those takes them out. untold: those of ``releasing`` that the store was not told of. unanswered: to be
    sent again, and a PUBREC is owed. abandoned: that is owed no more (exchange.abandoned-identifier-released). replies: PUBRELs
    that leave behind what leaves next.
    """

    def __init__(self) -> None:
        self.releasing = RangeSet()
        self.due = RangeSet()
        self.awaited = RangeSet()
        self.unanswered = RangeSet()
        self.untold = RangeSet()
        self.replies: list[bytes] = []
        self.abandoned = RangeSet()
        self.pubrels_sent = 0
        self._order = ArrivalSet()  # the first three as their PUBRECs came (exchange.pubrels-in-pubrec-order)
        self.told: list[tuple[int, Ranges]] = []  # and the others, by the ``Settle`` that told them

    @property
    def unsettled(self) -> tuple[RangeSet, ...]:
        """The sets that have what is on its way from PUBREC to PUBCOMP."""
        return self.releasing, self.due, self.awaited

    @property
    def at_rest(self) -> bool:
        """Whether there are none."""
        return not (any(self.unsettled) or self.unanswered or self.abandoned or self.replies)

    @property
    def between_connections(self) -> int:
        """How many of them the next connection begins with."""
        return self.releasing.count() + self.due.count()

    def open(self, released: Ranges) -> None:
        """Forget everything; ``released`` is on record, in the order of the PUBRECs."""
        self.awaited.clear()
        self.replies.clear()
        self.on_lost()
        for start, stop in released:
            self.due.add(start, stop)
            self._order.add(start, stop)

    # --- from PUBREC to PUBCOMP ---

    def pubrec(self, start: int, stop: int) -> None:
        """PUBRECs came for ``[start, stop)``."""
        self.releasing.add(start, stop)
        self.untold.add(start, stop)
        self._order.add(start, stop)
        if self.abandoned:
            self.abandoned.discard(0, max(0, stop - PACKET_IDS))  # later messages have their identifiers
            self.replies += [acks(PUBREL, seq, 1) for start, stop in self.abandoned for seq in range(start, stop)]
            self.abandoned.clear()

    def report_released(self, number: int) -> Ranges:
        """The releases that the store is told of with ``Settle`` ``number``, in the order of the PUBRECs."""
        if not self.untold:
            return ()
        released = self._in_order(self.untold)
        self.untold.clear()
        self.told.append((number, released))
        return released

    def report_again(self) -> None:
        """The store is new, and the connection goes on."""
        self.told.clear()
        for start, stop in self.releasing:
            self.untold.add(start, stop)

    def on_committed(self, number: int) -> None:
        """Every ``Settle`` up to ``number`` is committed (exchange.release-after-record)."""
        while self.told and self.told[0][0] <= number:
            self.on_record(self.told.pop(0)[1])

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

    def pubcomp(self, start: int, stop: int) -> None:
        """PUBCOMPs came for ``[start, stop)``, which are awaited no more."""
        self._order.discard(start, stop)

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

    # --- exchanges that do not go on ---

    def sent_again(self, start: int, stop: int, qos: int) -> None:
        """``[start, stop)`` was PUBLISHed again, at ``qos``."""
        if qos == 2:
            self.abandoned.discard(start, stop)
            self.unanswered.discard(start, stop)
        elif self.unanswered:
            self.abandon(start, stop)

    def abandon(self, start: int, stop: int) -> None:
        """No PUBREC is owed for ``[start, stop)`` any more (exchange.abandoned-identifier-released)."""
        for begin, end in ArrivalSet(((start, stop),)).within(self.unanswered):
            self.abandoned.add(begin, end)
        self.unanswered.discard(start, stop)

    # --- connections and sessions ---

    def on_disconnected(self, pubrec: RangeSet, puback: RangeSet) -> None:
        """The connection is gone: what was awaited is due again. pubrec, puback: what is owed one, and may go at QoS 2 next."""
        for start, stop in (*pubrec, *(ArrivalSet(puback).within(self.abandoned) if self.abandoned else ())):
            self.unanswered.add(start, stop)
            self.abandoned.discard(start, stop)
        for start, stop in self.awaited:
            self.due.add(start, stop)
        self.awaited.clear()
        self.replies.clear()

    def on_lost(self) -> RangeSet:
        """The remote holds nothing any more: what had its PUBREC."""
        released = self.taken()
        for held in (self.releasing, self.due, self.unanswered, self.abandoned, self.untold):
            held.clear()
        self._order.clear()
        self.told.clear()
        return released

    def on_resumed(self, released: Ranges, sent: Ranges, sent_stop: int) -> None:
        """The session was left before: it has ``released``, and ``sent`` without PUBREC; those below ``sent_stop`` go again."""
        for start, stop in sent:
            self.unanswered.add(start, min(stop, sent_stop))
        for start, stop in released:
            self.pubrec(start, stop)

    def taken(self) -> RangeSet:
        """The messages that had their PUBREC."""
        return RangeSet((*self.releasing, *self.due))

    def released_in_order(self) -> Ranges:
        """The same, in the order of the PUBRECs."""
        return self._in_order(self.taken())
