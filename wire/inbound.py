"""The receiver's half of QoS 1 and 2 for one client, local or remote, between its packets and the store's commits. Pure.

I1  an answer (PUBACK, PUBREC, PUBCOMP) leaves only in the burst of a batch that is committed [MQTT-4.3.2-4, MQTT-4.3.3-8].
I2  answers of a kind leave in the order in which their packets came [MQTT-4.6.0-2, -3].
I3  a PUBLISH at QoS 2 whose identifier is received and not released is answered again and not taken again [MQTT-4.3.3-10].
I4  an identifier that was loaded from the record of a remote's session, and whose first PUBLISH on this connection has no DUP, is
    of a session that the remote has lost: the PUBLISH is new [MQTT-3.3.1-1].
I5  the receive maximum is of the connection: what was received on an earlier one counts only if it is sent again (MQTT 5, section
    4.9).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from wire.errors import PeerViolation

QUOTA_EXCEEDED = 0x97
PACKET_IDENTIFIER_NOT_FOUND = 0x92
RECEIVE_MAXIMUM_EXCEEDED = 0x93

_PUBACK = b"\x40\x02"
_PUBREC = b"\x50\x02"
_PUBCOMP = b"\x70\x02"


@dataclass(frozen=True, slots=True)
class AnswerBurst:
    """What is owed to one client when a batch is committed: packet identifiers as two bytes each, in order of arrival."""

    pubacks: list[bytes]
    pubrecs: list[bytes]
    pubcomps: list[bytes]
    unknown_pubcomps: frozenset[bytes]

    def encode(self) -> bytes:
        """All answers as packets, for a batch of which nothing was refused."""
        parts: list[bytes] = []
        for head, ids in ((_PUBACK, self.pubacks), (_PUBREC, self.pubrecs)):
            if ids:
                parts += (head, head.join(ids))
        if self.pubcomps and not self.unknown_pubcomps:
            parts += (_PUBCOMP, _PUBCOMP.join(self.pubcomps))
        else:
            parts += [_answer(0x70, packet_id, self._pubcomp_reason(packet_id)) for packet_id in self.pubcomps]
        return b"".join(parts)

    def encode_refusing(self, refused: Mapping[bytes, int]) -> bytes:
        """The same where the messages under ``refused`` identifiers get that reason code instead (MQTT 5 only)."""
        parts = [_answer(0x40, packet_id, refused.get(packet_id, 0)) for packet_id in self.pubacks]
        parts += [_answer(0x50, packet_id, refused.get(packet_id, 0)) for packet_id in self.pubrecs]
        parts += [_answer(0x70, packet_id, self._pubcomp_reason(packet_id)) for packet_id in self.pubcomps]
        return b"".join(parts)

    def without(self, withheld: frozenset[bytes]) -> AnswerBurst:
        """The burst without the answers under ``withheld`` identifiers: their messages will be offered to the store again."""
        return AnswerBurst(
            pubacks=[packet_id for packet_id in self.pubacks if packet_id not in withheld],
            pubrecs=[packet_id for packet_id in self.pubrecs if packet_id not in withheld],
            pubcomps=self.pubcomps,
            unknown_pubcomps=self.unknown_pubcomps,
        )

    def _pubcomp_reason(self, packet_id: bytes) -> int:
        return PACKET_IDENTIFIER_NOT_FOUND if packet_id in self.unknown_pubcomps else 0


def _answer(first_byte: int, packet_id: bytes, reason_code: int) -> bytes:
    if reason_code:
        return bytes((first_byte, 3)) + packet_id + bytes((reason_code,))
    return bytes((first_byte, 2)) + packet_id


class InboundFlow:
    """One client's exchange as the parser of PUBLISH runs fills it; ``number`` is the source number of its rows."""

    __slots__ = (
        "aliases",
        "carried",
        "level",
        "number",
        "of_remote",
        "puback_ids",
        "pubcomp_ids",
        "pubrec_ids",
        "receive_maximum",
        "received",
        "released_ids",
        "session",
        "topic_alias_maximum",
        "unacknowledged",
        "unknown_pubrel_ids",
    )

    def __init__(
        self, *, number: int, session: str, level: int, receive_maximum: int, topic_alias_maximum: int, of_remote: bool = False
    ) -> None:
        self.number = number
        self.session = session
        self.level = level
        self.receive_maximum = receive_maximum
        self.topic_alias_maximum = topic_alias_maximum
        self.of_remote = of_remote
        self.aliases: dict[int, bytes] = {}
        self.received: set[int] = set()
        self.carried: set[int] = set()
        self.puback_ids: list[bytes] = []
        self.pubrec_ids: list[bytes] = []
        self.pubcomp_ids: list[bytes] = []
        self.released_ids: list[int] = []
        self.unknown_pubrel_ids: set[bytes] = set()
        self.unacknowledged = 0

    def carry(self, packet_ids: Iterable[int]) -> None:
        """Go on with the identifiers on record for the session (I4, I5)."""
        self.received.update(packet_ids)
        self.carried.update(self.received)

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
            self.unknown_pubrel_ids.add(encoded)
        self.pubcomp_ids.append(encoded)

    def check_quota(self) -> None:
        """Hold the client to the receive maximum it was told.

        Raises:
            PeerViolation: more unanswered PUBLISH packets than that are on their way (MQTT 5, section 3.3.4-9).
        """
        if self.level != 5:
            return
        received_here = len(self.received) - len(self.carried)  # I5
        if self.unacknowledged + len(self.puback_ids) + received_here > self.receive_maximum:
            raise PeerViolation(
                "MQTT-3.3.4-9 receive maximum exceeded",
                reason_code=RECEIVE_MAXIMUM_EXCEEDED,
                receive_maximum=self.receive_maximum,
            )

    def seal(self) -> tuple[AnswerBurst, list[int]] | None:
        """What the batch that closes now owes this client, and the identifiers it released; None for nothing."""
        if not (self.puback_ids or self.pubrec_ids or self.pubcomp_ids):
            return None
        burst = AnswerBurst(self.puback_ids, self.pubrec_ids, self.pubcomp_ids, frozenset(self.unknown_pubrel_ids))
        released = self.released_ids
        self.unacknowledged += len(self.puback_ids)
        self.puback_ids, self.pubrec_ids, self.pubcomp_ids, self.released_ids = [], [], [], []
        if self.unknown_pubrel_ids:
            self.unknown_pubrel_ids = set()
        return burst, released

    def answered(self, burst: AnswerBurst) -> None:
        """The answers of ``burst`` have left."""
        self.unacknowledged -= len(burst.pubacks)
