"""QoS 2 messages that no queue had room for, and that connected clients have had live, when their publisher comes back. Pure.

A publisher at MQTT 3.1.1 cannot be told that a message is refused; when its connection ends meanwhile it sends it again. For those
who have had it live it is the same message (P2), so it is marked like one that is offered again.
"""

from __future__ import annotations

from wire.batch import OFFERED
from wire.mqtt.codec import split
from wire.mqtt.publish_stream import DUP, PACKET_BYTES_LIMIT, BatchBuilder, qos2_packet_id


class OfferedBefore:
    """Packet identifiers by the queue of the session that they were used in, which no other session ever has."""

    def __init__(self) -> None:
        self._ids: dict[str, set[int]] = {}

    def __contains__(self, queue: str) -> bool:
        return queue in self._ids

    def note(self, queue: str, packet_id: int) -> None:
        """A message of this session was refused, and its connection has ended."""
        self._ids.setdefault(queue, set()).add(packet_id)

    def forget(self, queue: str) -> None:
        """The session has ended."""
        self._ids.pop(queue, None)

    def mark(self, queue: str, session: str, packets: bytes, builder: BatchBuilder) -> None:
        """Mark those of ``packets``, which ``builder`` has just taken, that come again, as DUP tells [MQTT-3.3.1-1]."""
        ids = self._ids[queue]
        rows = dict(zip(*builder.received_rows.get(session, ((), ())), strict=True))
        position = 0
        while (packet := split(packets, position, PACKET_BYTES_LIMIT)) is not None:
            first_byte, start, position = packet
            packet_id = qos2_packet_id(packets, first_byte, start)
            if packet_id in ids:
                ids.discard(packet_id)
                if first_byte & DUP and packet_id in rows:
                    builder.flags[rows[packet_id]] |= OFFERED
        if not ids:
            del self._ids[queue]
