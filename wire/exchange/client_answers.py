"""How the acknowledgements of a local client are read: as strictly as any packet of a client. Pure."""

from __future__ import annotations

from wire.mqtt.codec import decode, split
from wire.mqtt.publish_batch_parser import PACKET_BYTES_LIMIT


def whole(buffer: bytes, position: int, level: int) -> bool:
    """Whether the acknowledgement at ``position``, which is none of a burst as expected, is all there.

    Raises:
        PeerViolation: it is malformed.
    """
    if buffer[position + 1] != 2 or not any(buffer[position + 2 : position + 4]):
        packet = split(buffer, position, PACKET_BYTES_LIMIT)
        if packet is None:
            return False
        decode(packet[0], buffer[packet[1] : packet[2]], level)
    return True
