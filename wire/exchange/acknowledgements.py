"""A peer's answers to PUBLISHes and PUBRELs: PUBACK, PUBREC and PUBCOMP, read in bursts, and what follows from each. Pure.

``wire/exchange/unexpected_acknowledgements.py`` handles an identifier that waits for another answer or for none.

exchange.refusal-ends-exchange [P2, P6]: a refused message is settled, or kept and sent as new [MQTT-4.4.0-2], by policy; either way
    its exchange has ended.
exchange.settled-by-last-answer [P2]: a message is settled by the last answer of its peer, PUBACK or PUBCOMP, and not before.
"""

from __future__ import annotations

from collections.abc import Callable

from wire.errors import PeerViolation
from wire.exchange.lane_messages import LaneMessages, Standing
from wire.exchange.packet_identifiers import PUBACK, PUBCOMP, PUBREC, PUBREL, matching, seq_of
from wire.exchange.publish_gate import PublishGate
from wire.exchange.quarantine import QOS_2, WITHOUT, Quarantine
from wire.exchange.refusal_policy import FAILURE, WRONGLY_ACKNOWLEDGED, Refusals
from wire.exchange.unexpected_acknowledgements import Meaning, UnexpectedAcknowledgements
from wire.ranges import RangeSet

_LEVEL_5 = 5
_NOT_FOUND = b"\x92"
# Acknowledgements that come in bursts: plain, and with the reason codes Success and No matching subscribers.
_BURST_TAILS = {0x00: b"\x00", 0x10: b"\x10"}
_COMPARED_MAX = 1024  # so many are made to be compared with, and for nothing where the first is another


Check = Callable[[bytes, int, int], bool]  # buffer, position, level


class Acknowledgements:
    """Those to one lane's exchange. level: the protocol level of the live connection.

    check: looks closer at an acknowledgement that is none of a burst as expected; whether it is all there. Raises PeerViolation.
    The counts are those of ``ExchangeFigures``; ``unexpected`` that of unexpected acknowledgements.
    """

    def __init__(
        self, check: Check | None, messages: LaneMessages, suspects: Quarantine, refusals: Refusals, publishing: PublishGate
    ) -> None:
        self.level = 4
        self.acknowledged = self.refused = self.retried = self.unexpected = self.acknowledged_as_qos1 = 0
        self._check = check
        self._messages = messages
        self._in_flight = messages.in_flight
        self._held = messages.held
        self._suspects = suspects
        self._refusals = refusals
        self._publishing = publishing
        self._unexpected = UnexpectedAcknowledgements(messages)
        self._before = 0
        self._expected: dict[int, Callable[[int], None]] = {}

    def on_connected(self, level: int) -> None:
        """A connection is up at that protocol level."""
        self.level = level
        self._before = self.acknowledged
        self._unexpected.on_connected()

    @property
    def any_on_this_connection(self) -> bool:
        """Whether any came on the live connection."""
        return self.acknowledged > self._before

    @property
    def releases_alone(self) -> bool:
        """Whether a PUBREL leaves alone, as long as nothing is answered (exchange.closed-on-release-has-it)."""
        return self._suspects.barren and not self.any_on_this_connection

    # --- the bytes ---

    def on_received(self, buffer: bytes, position: int) -> int:
        """Take the acknowledgements in ``buffer`` from ``position`` on; the position after the last whole one of the run.

        Raises:
            PeerViolation: an acknowledgement is malformed.
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
            if waiting.starts and (length == 2 or (length == 3 and size - position >= 5 and self.level == _LEVEL_5)):
                first, stop = waiting.starts[0], waiting.stops[0]
                tail = b"" if length == 2 else _BURST_TAILS.get(buffer[position + 4])
                if tail is not None:
                    most = stop - first
                    if most > _COMPARED_MAX:
                        most = _COMPARED_MAX
                    matched = matching(buffer, position, first_byte, tail, first, most)
                    if matched:
                        waiting.take_first(matched)
                        self.on_accepted(first_byte, first, first + matched)
                        position += matched * (2 + length)
                        continue
            end = self._single(buffer, position, waiting)
            if end is None:
                break
            position = end
        return position

    def _single(self, buffer: bytes, position: int, waiting: RangeSet) -> int | None:
        """Take the one acknowledgement at ``position``; the position after it, None if it is not all there."""
        if self._check is not None and not self._check(buffer, position, self.level):
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
            self._act_on_unexpected(first_byte, packet_id, reason_code)
        else:
            waiting.discard(seq, seq + 1)
            if reason_code < FAILURE or first_byte == PUBCOMP:
                self.on_accepted(first_byte, seq, seq + 1)
            else:
                self.on_refused(seq, reason_code, qos2=first_byte == PUBREC)
        return end

    # --- what follows ---

    def on_accepted(self, first_byte: int, start: int, stop: int, *, qos2: bool = False) -> None:
        """PUBACKs, PUBRECs or PUBCOMPs came for ``[start, stop)``, which wait for them no more. qos2: PUBACKs for QoS 2."""
        self.acknowledged += stop - start
        if first_byte != PUBCOMP:
            if self._refusals.hold.growing:
                self._refusals.hold.on_accepted()
            if self._suspects.active:
                self._suspects.on_answered(start, stop)
        self._messages.on_accepted(first_byte, start, stop, qos2=qos2 or first_byte == PUBCOMP)

    def on_refused(self, seq: int, reason_code: int, *, qos2: bool) -> None:
        """A reason code of 0x80 or above ends the exchange of that message [MQTT-4.3.2-2, MQTT-4.3.3-4];
        exchange.refusal-ends-exchange.
        """
        refusals = self._refusals
        self.acknowledged += 1
        self.refused += 1
        refusals.count(reason_code)
        if self._suspects.active:
            self._suspects.on_answered(seq, seq + 1, accepted=False)
        self._publishing.on_answer(reason_code)
        outcome = refusals.policy.outcome(reason_code)
        self._messages.on_refused(seq, outcome, qos2=qos2)
        if outcome is None:
            self.retried += 1
            refusals.hold.on_refused(reason_code)

    def expect(self, packet_id: int, hears: Callable[[int], None]) -> None:
        """A PUBLISH of QoS 1 that is no message of a queue has left on this connection: ``hears`` is to be told the reason code."""
        self._expected[packet_id] = hears

    def on_unexpected(self) -> None:
        """An acknowledgement came that answers nothing which may be answered."""
        self.unexpected += 1

    def _act_on_unexpected(self, first_byte: int, packet_id: int, reason_code: int) -> None:
        """An acknowledgement that its identifier does not wait for."""
        if packet_id in self._expected and first_byte == PUBACK:
            self._expected.pop(packet_id)(reason_code)
            return
        self.on_unexpected()
        meaning, standing, seq = self._unexpected.meaning(first_byte, packet_id, reason_code)
        if meaning is Meaning.HAS_IT:
            self._settle_had(first_byte, packet_id, seq)
        elif meaning is Meaning.REFUSES:
            self._messages.take_out(seq)
            self.on_refused(seq, reason_code, qos2=standing is Standing.PUBREC_OWED)
        elif meaning is Meaning.RELEASE:
            self._reply_pubrel(packet_id, known=standing is not Standing.NONE)

    def _settle_had(self, first_byte: int, packet_id: int, seq: int) -> None:
        """A message of another QoS has come to the peer (exchange.other-kind-has-message).

        A peer that answers QoS 2 with PUBACK has no QoS 2, so what follows leaves as if it had said so.
        """
        qos2 = first_byte == PUBACK
        self._messages.take_out(seq)
        self.on_accepted(PUBACK, seq, seq + 1, qos2=qos2)
        if qos2:
            self.acknowledged_as_qos1 += 1
            if self._publishing.style.maximum_qos > 1:
                self._publishing.learn(WITHOUT[QOS_2])
        else:
            self._reply_pubrel(packet_id, known=True)

    def _reply_pubrel(self, packet_id: int, *, known: bool) -> None:
        """MQTT 3.1.1 has no reason code for an unknown PUBREC, and its peer waits for an answer as well. Source: MQTT-4.3.3-4."""
        fields = packet_id.to_bytes(2, "big")
        self._held.reply(
            bytes((PUBREL, 2)) + fields if known or self.level < _LEVEL_5 else bytes((PUBREL, 3)) + fields + _NOT_FOUND
        )

    def on_stalled(self) -> None:
        """The live connection is given up because an answer does not come: wrong ones that did stand for it
        (exchange.other-kind-has-message).
        """
        for seq, meaning in self._unexpected.take_later().items():
            if seq in self._held.awaited:
                self._held.awaited.discard(seq, seq + 1)
                self.on_accepted(PUBCOMP, seq, seq + 1)
            elif (qos2 := seq in self._in_flight.pubrec) or seq in self._in_flight.puback:
                self._messages.take_out(seq)
                if meaning is Meaning.HAS_IT_LATER:
                    self.on_accepted(PUBACK, seq, seq + 1, qos2=qos2)
                else:
                    self.on_refused(seq, WRONGLY_ACKNOWLEDGED, qos2=qos2)
