"""The receiver's half of QoS 1 and 2 for one client, local or remote, between its packets and the store's commits. Pure.

exchange.answer-after-commit [P1, MQTT]: an answer (PUBACK, PUBREC, PUBCOMP) leaves only in the burst of a batch that is committed
    [MQTT-4.3.2-4, MQTT-4.3.3-8].
exchange.answers-in-order [P1, MQTT]: answers of a kind leave in the order in which their packets came [MQTT-4.6.0-2, -3].
exchange.repeat-not-taken-again [P2, MQTT]: a PUBLISH at QoS 2 whose identifier is received and not released is answered again and
    not taken again, whatever its DUP says [MQTT-4.3.3-10].

The receive maximum is counted for each connection: what was received on an earlier one counts only if it is sent again
(exchange.receive-maximum-kept; MQTT 5, section 4.9).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from wire.errors import PeerViolation
from wire.frozen_records import record

NOT_AUTHORIZED = 0x87
QUOTA_EXCEEDED = 0x97
PACKET_IDENTIFIER_NOT_FOUND = 0x92
RECEIVE_MAXIMUM_EXCEEDED = 0x93

_PUBACK = b"\x40\x02"
_PUBREC = b"\x50\x02"
_PUBCOMP = b"\x70\x02"


@dataclass(slots=True)
class Forbidden:
    """PUBLISHes that are owed an answer and have no row, because the client may not make them, or because there is no room:
    position in the list -> reason code.

    At level 4 the code is 0: MQTT 3.1.1 has no way to say no, and asks for the normal answer [MQTT-3.3.5-2].
    """

    pubacks: dict[int, int] = field(default_factory=dict)
    pubrecs: dict[int, int] = field(default_factory=dict)


@record
class AnswerBurst:
    """The answers due to one client when a batch is committed: packet identifiers as two bytes each, in order of arrival."""

    pubacks: list[bytes]
    pubrecs: list[bytes]
    pubcomps: list[bytes]
    unknown_pubcomps: frozenset[bytes]
    forbidden: Forbidden | None = None

    @property
    def packets(self) -> int:
        """How many answers these are."""
        if not (self.pubrecs or self.pubcomps):
            return len(self.pubacks)
        return len(self.pubacks) + len(self.pubrecs) + len(self.pubcomps)

    def encode(self) -> bytes:
        """All answers as packets."""
        parts: list[bytes] = []
        if self.forbidden is not None:
            parts += _answers(0x40, self.pubacks, self.forbidden.pubacks)
            parts += _answers(0x50, self.pubrecs, self.forbidden.pubrecs)
        else:
            for head, ids in ((_PUBACK, self.pubacks), (_PUBREC, self.pubrecs)):
                if ids:
                    parts += (head, head.join(ids))
        if self.pubcomps and not self.unknown_pubcomps:
            parts += (_PUBCOMP, _PUBCOMP.join(self.pubcomps))
        elif self.pubcomps:
            parts += [_answer(0x70, packet_id, self._pubcomp_reason(packet_id)) for packet_id in self.pubcomps]
        return b"".join(parts)

    def _pubcomp_reason(self, packet_id: bytes) -> int:
        return PACKET_IDENTIFIER_NOT_FOUND if packet_id in self.unknown_pubcomps else 0


def _answers(first_byte: int, ids: list[bytes], forbidden: Mapping[int, int]) -> list[bytes]:
    return [_answer(first_byte, packet_id, forbidden.get(at, 0)) for at, packet_id in enumerate(ids)]


def _answer(first_byte: int, packet_id: bytes, reason_code: int) -> bytes:
    if reason_code:
        return bytes((first_byte, 3)) + packet_id + bytes((reason_code,))
    return bytes((first_byte, 2)) + packet_id


_NONE: set[int] = set()  # of all that have none: an empty set takes 216 bytes. Nothing is put into it


class ReceiverHalf:
    """One client's exchange as the parser of PUBLISH runs fills it; ``number`` is the source number of its rows.

    published: whether anything was taken of it. may_publish: asked about each topic, where not everything is allowed.
    """

    __slots__ = (
        "aliases",
        "carried",
        "forbidden",
        "forbidden_publishes",
        "level",
        "may_publish",
        "number",
        "puback_ids",
        "pubcomp_ids",
        "published",
        "pubrec_ids",
        "receive_maximum",
        "received",
        "released_ids",
        "session",
        "topic_alias_maximum",
        "unacknowledged",
        "unknown_pubrel_ids",
    )

    def __init__(self, *, number: int, session: str, level: int, receive_maximum: int, topic_alias_maximum: int) -> None:
        self.number = number
        self.session = session
        self.level = level
        self.receive_maximum = receive_maximum
        self.topic_alias_maximum = topic_alias_maximum
        self.aliases: dict[int, bytes] = {}
        self.received: set[int] = set()
        self.carried: set[int] = _NONE
        self.puback_ids: list[bytes] = []
        self.pubrec_ids: list[bytes] = []
        self.pubcomp_ids: list[bytes] = []
        self.released_ids: list[int] = []
        self.unknown_pubrel_ids: set[bytes] | tuple[()] = ()
        self.unacknowledged = 0
        self.published = False
        self.may_publish: Callable[[bytes], bool] | None = None
        self.forbidden: Forbidden | None = None
        self.forbidden_publishes = 0  # in all; none of them has a row

    def ask_about_topics(self, may_publish: Callable[[bytes], bool] | None) -> None:
        """``may_publish`` is asked about each topic; None: everything is allowed."""
        self.may_publish = may_publish

    def carry(self, packet_ids: Iterable[int]) -> None:
        """Go on with the identifiers on record for the session (exchange.receive-maximum-kept)."""
        self.received.update(packet_ids)
        self.carried = set(self.received) or _NONE

    def pubrel(self, packet_id: int) -> None:
        """The sender released ``packet_id``: forget it with the next commit, then answer PUBCOMP [MQTT-4.3.3-11].

        An unknown identifier is answered too, in MQTT 5 with reason code 0x92 (section 3.7.2.1).
        """
        encoded = packet_id.to_bytes(2, "big")
        self.carried.discard(packet_id)
        if packet_id in self.received:
            self.received.discard(packet_id)
            self.released_ids.append(packet_id)
        elif self.level == 5:
            self.unknown_pubrel_ids = self.unknown_pubrel_ids or set()
            self.unknown_pubrel_ids.add(encoded)
        self.pubcomp_ids.append(encoded)

    def forbid(self, qos: int, packet_id: bytes) -> None:
        """Owe a PUBLISH that the client may not make its answer, in its place among the others, and take nothing of it.

        MQTT 5 is told 0x87; its QoS 2 exchange ends with that [MQTT-4.3.3-4]. A QoS 2 message that was accepted before and comes
        again is answered as it was then (exchange.repeat-not-taken-again).
        """
        self._not_taken(qos, packet_id, NOT_AUTHORIZED if self.level == 5 else 0)

    def refuse(self, qos: int, packet_id: bytes) -> None:
        """The same of a PUBLISH of an MQTT 5 client for which there is no room: it is told 0x97."""
        self._not_taken(qos, packet_id, QUOTA_EXCEEDED)

    def _not_taken(self, qos: int, packet_id: bytes, code: int) -> None:
        self.forbidden_publishes += 1
        if qos and self.forbidden is None:
            self.forbidden = Forbidden()
        if qos == 1:
            assert self.forbidden is not None
            self.forbidden.pubacks[len(self.puback_ids)] = code
            self.puback_ids.append(packet_id)
        elif qos == 2:
            assert self.forbidden is not None
            if int.from_bytes(packet_id, "big") not in self.received:
                self.forbidden.pubrecs[len(self.pubrec_ids)] = code
            self.pubrec_ids.append(packet_id)

    def check_quota(self) -> None:
        """Hold the client to the receive maximum it was told.

        Raises:
            PeerViolation: more unanswered PUBLISH packets than that are on their way (MQTT 5, section 3.3.4-9).
        """
        if self.level != 5:
            return
        received_here = len(self.received) - len(self.carried)  # exchange.receive-maximum-kept
        if self.unacknowledged + len(self.puback_ids) + received_here > self.receive_maximum:
            raise PeerViolation(
                "MQTT-3.3.4-9 receive maximum exceeded",
                reason_code=RECEIVE_MAXIMUM_EXCEEDED,
                receive_maximum=self.receive_maximum,
            )

    def seal(self) -> tuple[AnswerBurst, list[int]] | None:
        """The answers that the batch which closes now has due for this client, and the identifiers it released; None for none."""
        if not (self.puback_ids or self.pubrec_ids or self.pubcomp_ids):
            return None
        burst = AnswerBurst(self.puback_ids, self.pubrec_ids, self.pubcomp_ids, frozenset(self.unknown_pubrel_ids), self.forbidden)
        self.forbidden = None
        released = self.released_ids
        self.unacknowledged += len(self.puback_ids)
        self.puback_ids, self.pubrec_ids, self.pubcomp_ids, self.released_ids = [], [], [], []
        self.unknown_pubrel_ids = ()
        return burst, released

    def on_answered(self, burst: AnswerBurst) -> None:
        """The answers of ``burst`` have left."""
        self.unacknowledged -= len(burst.pubacks)
