"""QoS 2 identifiers of a remote's session under which nothing of what is on its way is on record. Pure.

exchange.dropped-row-is-no-repeat [P2]: a message that is dropped before it was sent to the store, or was not even taken, comes
    again with DUP and is no repeat. Its identifier may still be on record, of a session that the remote has lost
    (exchange.stale-identifier-is-new). What was sent to the store and refused there, the store has forgotten
    (``storage/store/store.py``).
"""

from __future__ import annotations

from collections.abc import Iterable

from wire.errors import PeerViolation
from wire.exchange.receiver import ReceiverHalf
from wire.frames.batch import unpack_column
from wire.mqtt.codec import split
from wire.mqtt.publish_stream import DUP, qos2_packet_id


class NotRecorded:
    """Those of one session: whatever is on record under them is of others."""

    def __init__(self) -> None:
        self._packet_ids: set[int] = set()

    def clear(self) -> None:
        """Another session is used."""
        self._packet_ids.clear()

    def on_record(self, received: bytes) -> Iterable[int]:
        """Those of ``received`` (u16 column), which are on record, that are of messages that were sent to the store."""
        return (packet_id for packet_id in unpack_column("H", received) if packet_id not in self._packet_ids)

    def dropped(self, packet_ids: Iterable[int]) -> None:
        """Messages under these were dropped before they were sent."""
        self._packet_ids.update(packet_ids)

    def committed(self, received: bytes) -> None:
        """Messages under these (u16 column) are on record now."""
        if self._packet_ids:
            self._packet_ids.difference_update(unpack_column("H", received))

    def left_out(self, buffer: bytes, first_byte: int, start: int, flow: ReceiverHalf | None) -> None:
        """A packet was left out: a PUBLISH without DUP is new, whatever its identifier is on record for
        (exchange.stale-identifier-is-new).

        flow: the connection's, if what is on record has been told already.
        """
        packet_id = qos2_packet_id(buffer, first_byte, start)
        if packet_id is not None and not first_byte & DUP:
            if flow is None:
                self._packet_ids.add(packet_id)
            elif packet_id in flow.carried:
                flow.carried.discard(packet_id)
                self._packet_ids.add(packet_id)

    def untaken(self, buffer: bytes, packet_max_bytes: int, flow: ReceiverHalf | None) -> None:
        """The same of all packets in ``buffer``, which nobody has looked at."""
        position = 0
        try:
            while (packet := split(buffer, position, packet_max_bytes)) is not None:
                self.left_out(buffer, packet[0], packet[1], flow)
                position = packet[2]
        except PeerViolation:
            pass  # it has no more packets
