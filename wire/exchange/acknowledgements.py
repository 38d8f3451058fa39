"""What a peer answers to PUBLISHes and PUBRELs: PUBACK, PUBREC and PUBCOMP, read in bursts, and what follows from each. Pure.

exchange.refusal-ends-exchange [P2, P6]: a refused message is settled, or kept and sent as new [MQTT-4.4.0-2], by policy; either way
    its exchange has ended.
exchange.settled-by-last-answer [P2]: a message is settled by the last answer of its peer, PUBACK or PUBCOMP, and not before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from wire.errors import PeerViolation
from wire.exchange.held_identifiers import HeldIdentifiers
from wire.exchange.in_flight import InFlight
from wire.exchange.lane_record import LaneRecord
from wire.exchange.outcomes import DELIVERED, Counts
from wire.exchange.packet_identifiers import PUBACK, PUBCOMP, PUBREC, PUBREL, acks, matching, seq_of
from wire.exchange.refusal_policy import FAILURE, Refusals
from wire.exchange.suspected_messages import Suspects
from wire.exchange.what_may_be_sent import PublishDue
from wire.ranges import RangeSet, lowest

_LEVEL_5 = 5
_NOT_FOUND = b"\x92"
# Acknowledgements that come in bursts: plain, and with the reason codes Success and No matching subscribers.
_BURST_TAILS = {b"\x02": b"", b"\x03\x00": b"\x00", b"\x03\x10": b"\x10"}
_COMPARED_MAX = 1024  # so many are made to be compared with, and for nothing where the first is another


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRules:
    """How answers are taken that are none of a burst as expected; as a bridge takes those of its remote, if nothing else is said.

    check: looks closer at the answer at a position of a buffer, at a protocol level; whether it is all there. Raises PeerViolation.
    unknown: what is said to a PUBACK or PUBREC (its first byte and packet identifier) that nothing waits for; without it the
    exchange is broken off, unless that identifier was used before.
    """

    check: Callable[[bytes, int, int], bool] | None = None
    unknown: Callable[[int, int], bytes] | None = None


REMOTE_RULES = AnswerRules()


class Answers:
    """Those to one lane's exchange. level: the protocol level of the live connection. before: how many came before it."""

    def __init__(
        self,
        rules: AnswerRules,
        *,
        due: PublishDue,
        in_flight: InFlight,
        held: HeldIdentifiers,
        record: LaneRecord,
        suspects: Suspects,
        refusals: Refusals,
        counts: Counts,
    ) -> None:
        self.level = 4
        self._rules = rules
        self._due = due
        self._in_flight = in_flight
        self._held = held
        self._record = record
        self._suspects = suspects
        self._refusals = refusals
        self._counts = counts
        self._before = 0

    def connected(self, level: int) -> None:
        """A connection is up at that protocol level."""
        self.level = level
        self._before = self._counts.acknowledged

    @property
    def any_on_this_connection(self) -> bool:
        """Whether any came on the live connection."""
        return self._counts.acknowledged > self._before

    # --- the bytes ---

    def received(self, buffer: bytes, position: int) -> int:
        """Take the acknowledgements in ``buffer`` from ``position`` on; the position after the last whole one of the run.

        Raises:
            PeerViolation: an acknowledgement is malformed, or nothing waits for it under that packet identifier.
        Source: MQTT-4.3.2-3, MQTT-4.3.3-4 to -6.
        """
        size = len(buffer)
        while size - position >= 4:
            first_byte = buffer[position]
            if first_byte == PUBACK:
                waiting = self._in_flight.puback
            elif first_byte == PUBREC:
                waiting = self._in_flight.pubrec
            elif first_byte == PUBCOMP:
                waiting = self._held.awaited
            else:
                break
            length = buffer[position + 1]
            first = waiting.first()
            if first is not None and (length == 2 or (length == 3 and size - position >= 5 and self.level == _LEVEL_5)):
                tail = _BURST_TAILS.get(bytes((2,)) if length == 2 else bytes((3, buffer[position + 4])))
                if tail is not None:
                    matched = matching(buffer, position, first_byte, tail, first[0], min(first[1] - first[0], _COMPARED_MAX))
                    if matched:
                        waiting.take_first(matched)
                        self.accepted(first_byte, first[0], first[0] + matched)
                        position += matched * (2 + length)
                        continue
            end = self._single(buffer, position, waiting)
            if end is None:
                break
            position = end
        return position

    def _single(self, buffer: bytes, position: int, waiting: RangeSet) -> int | None:
        """Take the one acknowledgement at ``position``; the position after it, None if it is not all there."""
        if self._rules.check is not None and not self._rules.check(buffer, position, self.level):
            return None
        first_byte, length = buffer[position], buffer[position + 1]
        if length & 0x80:  # the only long field is a reason string
            second = buffer[position + 2]
            if second & 0x80:
                raise PeerViolation("MQTT-3.1.2-25 acknowledgement larger than ever asked for", reason_code=0x95)
            length, body = length & 0x7F | second << 7, position + 3
        else:
            body = position + 2
        if length < 2 or (self.level < _LEVEL_5 and length != 2):
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
                self.accepted(first_byte, seq, seq + 1)
            else:
                self.refused(first_byte, seq, reason_code)
        return end

    # --- what follows ---

    def accepted(self, first_byte: int, start: int, stop: int) -> None:
        """PUBACKs, PUBRECs or PUBCOMPs came for ``[start, stop)``, which wait for them no more."""
        count = stop - start
        self._counts.acknowledged += count
        if first_byte != PUBCOMP:
            if self._refusals.hold.growing:
                self._refusals.hold.accepted()
            if self._suspects.active:
                self._suspects.answered(start, stop)
        if first_byte == PUBREC:
            self._held.pubrec(start, stop)
        elif first_byte == PUBCOMP:
            self._in_flight.ended(count, qos2=True)
            for outcome, begin, end in self._held.pubcomp(start, stop):
                self._record.settle(outcome, begin, end)
        else:
            self._in_flight.ended(count, qos2=False)
            self._record.settle(DELIVERED, start, stop)

    def refused(self, first_byte: int, seq: int, reason_code: int) -> None:
        """A reason code of 0x80 or above ends the exchange of that message [MQTT-4.3.2-2, MQTT-4.3.3-4];
        exchange.refusal-ends-exchange.
        """
        counts, refusals = self._counts, self._refusals
        counts.acknowledged += 1
        counts.refused += 1
        refusals.count(reason_code)
        self._in_flight.ended(1, qos2=first_byte == PUBREC)
        if self._suspects.active:
            self._suspects.answered(seq, seq + 1, accepted=False)
        outcome = refusals.policy.outcome(reason_code)
        if outcome is not None:
            self._record.settle(outcome, seq, seq + 1)
            return
        counts.retried += 1
        self._due.is_refused(seq)
        refusals.hold.refused(reason_code)

    def _unexpected(self, first_byte: int, packet_id: int, reason_code: int) -> None:
        """An acknowledgement that nothing waits for.

        A second PUBREC has its PUBREL again, or with the first one after the commit (exchange.release-after-record). What completes
        nothing known breaks nothing: a PUBCOMP is ignored, and MQTT 5.0 answers a PUBREC with PUBREL 0x92. One of the wrong kind
        breaks the exchange.

        Source: MQTT-4.3.3-4.
        """
        unanswered = (self._in_flight.puback, self._in_flight.pubrec)
        holders = (*unanswered, *self._held.unsettled)
        low = lowest(holders)
        seq = seq_of(packet_id, low) if low is not None else None
        takes = first_byte == PUBREC and reason_code < FAILURE
        if seq is not None and any(seq in holder for holder in holders):
            if not takes or any(seq in holder for holder in unanswered):
                _break_off("acknowledgement of the wrong kind", first_byte, packet_id)
            if seq in self._held.awaited:
                self._held.reply(acks(PUBREL, seq, 1))
        elif first_byte == PUBREC and self.level == _LEVEL_5:
            if takes:
                self._held.reply(bytes((PUBREL, 3)) + packet_id.to_bytes(2, "big") + _NOT_FOUND)
        elif first_byte != PUBCOMP:
            self._unknown(first_byte, packet_id)

    def _unknown(self, first_byte: int, packet_id: int) -> None:
        """An acknowledgement under an identifier that is not in use, for which MQTT 5.0 has no answer."""
        if self._rules.unknown is not None:
            pubrel = self._rules.unknown(first_byte, packet_id)
            if pubrel:
                self._held.reply(pubrel)
            return
        past = seq_of(packet_id, self._due.first_seq)
        if self.level == _LEVEL_5 or past is None or past >= self._due.sent_stop:
            _break_off("acknowledgement of something never sent", first_byte, packet_id)


def _break_off(message: str, first_byte: int, packet_id: int) -> NoReturn:
    clause = "MQTT-4.3.2-3" if first_byte == PUBACK else "MQTT-4.3.3-4"
    raise PeerViolation(f"{clause} {message}", first_byte=first_byte, packet_id=packet_id)
