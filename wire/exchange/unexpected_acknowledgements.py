"""Meaning of an acknowledgement that its identifier does not wait for: early, once more, late, or of another kind. Pure.

No clause makes an error of one that changes nothing, and to break the connection off for it has the peer send it again on the
next. So all of them are counted, and one table says what follows, for remotes and for local clients, at either protocol level.

exchange.unexpected-changes-nothing [P2, alive]: an acknowledgement of what is settled, was never sent, or is not sent again yet on
    this connection settles nothing. A message that is sent again is owed its own [MQTT-4.4.0-1]. A PUBREC that is repeated, or of
    nothing known, has a PUBREL more [MQTT-4.3.3-4], at most ``PUBRELS_MORE`` for each identifier and connection. A peer that
    answers PUBREL with PUBREC would go on for ever.
exchange.other-kind-has-message [P2, P6, alive]: a PUBACK for a QoS 2 PUBLISH, or a PUBREC for a QoS 1 PUBLISH, says that the peer
    has the message: it is settled as delivered at least once. RabbitMQ 3.10 answers QoS 2 so. If the right answer has not come
    within the stall timeout, and another one came for the same message, that one stands for it: it settles the message, or ends its
    exchange as a refusal does.
"""

from __future__ import annotations

from collections import Counter
from enum import Enum

from wire.exchange.lane_messages import LaneMessages, Standing
from wire.exchange.packet_identifiers import PUBACK, PUBCOMP, PUBREC
from wire.exchange.refusal_policy import FAILURE

PUBRELS_MORE = 8
_REFUSAL = 0  # a PUBACK or PUBREC with a reason code of failure


class Meaning(Enum):
    """The consequence, beside that it is counted. HAS_IT, REFUSES: its exchange is over now; RELEASE: a PUBREL is wanted.

    HAS_IT_LATER, REFUSES_LATER: it is over if the right answer does not come (exchange.other-kind-has-message).
    """

    HAS_IT = "the peer has the message"
    REFUSES = "the peer refuses the message"
    RELEASE = "the peer waits for a PUBREL"
    HAS_IT_LATER = "maybe the peer has the message"
    REFUSES_LATER = "maybe the peer will never answer"
    NOTHING = "nothing"


_NOTHING, _LATER = Meaning.NOTHING, Meaning.HAS_IT_LATER
_TABLE: dict[Standing, dict[int, Meaning]] = {
    Standing.PUBACK_OWED: {PUBREC: Meaning.HAS_IT, _REFUSAL: Meaning.REFUSES, PUBCOMP: Meaning.REFUSES_LATER},
    Standing.PUBREC_OWED: {PUBACK: Meaning.HAS_IT, _REFUSAL: Meaning.REFUSES, PUBCOMP: Meaning.REFUSES_LATER},
    Standing.RECEIVED: {PUBACK: _LATER, PUBREC: _NOTHING, _REFUSAL: _LATER, PUBCOMP: _LATER},
    Standing.PUBCOMP_OWED: {PUBACK: _LATER, PUBREC: Meaning.RELEASE, _REFUSAL: _LATER},
    Standing.NOT_SENT_HERE: {PUBACK: _LATER, PUBREC: _LATER, _REFUSAL: Meaning.REFUSES_LATER, PUBCOMP: _LATER},
    Standing.NONE: {PUBACK: _NOTHING, PUBREC: Meaning.RELEASE, _REFUSAL: _NOTHING, PUBCOMP: _NOTHING},
}


class UnexpectedAcknowledgements:
    """Those of one lane."""

    def __init__(self, messages: LaneMessages) -> None:
        self._messages = messages
        self._later: dict[int, Meaning] = {}  # messages of the live connection for which a wrong answer may have to stand
        self._released: Counter[int] = Counter()  # by identifier: the PUBRELs that it had more

    def on_connected(self) -> None:
        """A connection is up."""
        self._later.clear()
        self._released.clear()

    def meaning(self, first_byte: int, packet_id: int, reason_code: int) -> tuple[Meaning, Standing, int]:
        """The meaning of the acknowledgement, and its message: its sequence, -1 for none."""
        seq = self._messages.seq_of(packet_id)
        standing = Standing.NONE if seq is None else self._messages.standing(seq)
        refuses = reason_code >= FAILURE and first_byte != PUBCOMP
        meaning = _TABLE[standing][_REFUSAL if refuses else first_byte]
        if meaning is Meaning.RELEASE:
            if not packet_id or self._released[packet_id] >= PUBRELS_MORE:  # exchange.unexpected-changes-nothing
                meaning = _NOTHING if standing is Standing.NONE else _LATER
            self._released[packet_id] += 1
        if seq is None:
            return meaning, standing, -1
        if meaning in (Meaning.HAS_IT_LATER, Meaning.REFUSES_LATER):
            self._later[seq] = meaning
        return meaning, standing, seq

    def take_later(self) -> dict[int, Meaning]:
        """The messages of the live connection for which a wrong answer has to stand, now that the right one does not come."""
        later, self._later = self._later, {}
        return later
