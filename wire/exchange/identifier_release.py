"""Has a remote release packet identifiers, before anything is PUBLISHed in a session that was left and is resumed. Pure.

Identifiers that the session holds for messages that have left the queue since would make repeats of later messages [MQTT-4.3.3-10].

A PUBREL for each identifier goes on each connection until all have their PUBCOMP, whatever reason code that has: 0x92 is as good
(exchange.left-identifiers-released). They go in the order in which they were given, that of the PUBRECs [MQTT-4.6.0-4]
(exchange.pubrels-in-pubrec-order).
"""

from __future__ import annotations

from collections.abc import Callable

from wire.exchange.packet_identifiers import PUBACK, PUBCOMP, PUBREC, PUBREL, acks, packet_id_of
from wire.mqtt.codec import decode, split
from wire.mqtt.packets import Puback, Pubcomp, Pubrec
from wire.ranges import Ranges

_ACKNOWLEDGEMENT_BYTES_MAX = 70_000  # with a reason string; none was asked for


class IdentifierRelease:
    """One connection's. ``held``: the sequences whose identifiers the remote may hold, in their order."""

    def __init__(self, held: Ranges, *, level: int, unexpected: Callable[[], None]) -> None:
        """unexpected: counts an acknowledgement that nothing waits for."""
        self._level = level
        self._on_unexpected = unexpected
        self._said_again: set[int] = set()
        self._due = [acks(PUBREL, seq, 1) for start, stop in held for seq in range(start, stop)]
        self._awaited = {packet_id_of(seq): None for start, stop in held for seq in range(start, stop)}  # in their order

    @property
    def done(self) -> bool:
        """Whether the remote holds none of them any more."""
        return not self._awaited

    @property
    def owed(self) -> int | None:
        """The identifier of the oldest PUBCOMP that is owed; None before its PUBREL has left."""
        return None if self._due else next(iter(self._awaited), None)

    def pump(self) -> bytes:
        """The bytes to write; they count as sent."""
        due, self._due = self._due, []
        return b"".join(due)

    def on_received(self, buffer: bytes, position: int) -> int:
        """Take the acknowledgements in ``buffer`` from ``position`` on, until all is done; the position after the last.

        Raises:
            PeerViolation: one is malformed.
        """
        while not self.done and position < len(buffer) and buffer[position] in (PUBACK, PUBREC, PUBCOMP):
            packet = split(buffer, position, _ACKNOWLEDGEMENT_BYTES_MAX)
            if packet is None:
                break
            first_byte, start, position = packet
            match decode(first_byte, buffer[start:position], self._level):
                case Pubcomp(packet_id=packet_id):
                    self._awaited.pop(packet_id, None)
                case Puback(packet_id=packet_id):  # whose message had QoS 1, so it holds nothing under it
                    self._on_unexpected()
                    self._awaited.pop(packet_id, None)
                case Pubrec(packet_id=packet_id):  # of any other it may be that its PUBLISH goes again
                    self._on_unexpected()
                    if packet_id in self._said_again:  # exchange.unexpected-changes-nothing
                        self._awaited.pop(packet_id, None)
                    elif packet_id in self._awaited:
                        self._said_again.add(packet_id)
                        self._due.append(bytes((PUBREL, 2)) + packet_id.to_bytes(2, "big"))
        return position
