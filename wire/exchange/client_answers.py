"""How the acknowledgements of a local client are taken: one that acknowledges what is unknown is not thrown out for it. Pure."""

from __future__ import annotations

from wire.exchange.acknowledgements import AnswerRules
from wire.exchange.packet_identifiers import PUBREC, PUBREL
from wire.mqtt.codec import decode, split
from wire.mqtt.publish_stream import PACKET_BYTES_LIMIT


def whole(buffer: bytes, position: int, level: int) -> bool:
    """What is not a burst as expected is looked at as strictly as any packet of a client; whether it is all there.

    Raises:
        PeerViolation: it is malformed.
    """
    if buffer[position + 1] != 2 or not any(buffer[position + 2 : position + 4]):
        packet = split(buffer, position, PACKET_BYTES_LIMIT)
        if packet is None:
            return False
        decode(packet[0], buffer[packet[1] : packet[2]], level)
    return True


def pubrel_for_unknown(first_byte: int, packet_id: int) -> bytes:
    """MQTT 3.1.1 has no reason code for an unknown PUBREC, and its client waits for an answer as well."""
    return bytes((PUBREL, 2)) + packet_id.to_bytes(2, "big") if first_byte == PUBREC else b""


CLIENT_RULES = AnswerRules(check=whole, unknown=pubrel_for_unknown)
