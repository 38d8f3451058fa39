"""The MQTT packets in the bytes of one connection, each way by itself, as a ``Proxy`` sees them pass."""

from __future__ import annotations

from tests.support.mqtt_client import CONNECT, Packet, decode


class Conversation:
    """One connection. Its protocol level is that of its CONNECT."""

    def __init__(self) -> None:
        self._version = 4
        self._up, self._down = bytearray(), bytearray()

    def passed_up(self, data: bytes) -> list[Packet]:
        """The packets of the client that ``data`` completes."""
        self._up += data
        return self._packets(self._up)

    def came_down(self, data: bytes) -> list[Packet]:
        """The packets of the server that ``data`` completes."""
        self._down += data
        return self._packets(self._down)

    def _packets(self, data: bytearray) -> list[Packet]:
        """Take the whole packets off the beginning of ``data``."""
        found = []
        while (frame := _frame(data)) is not None:
            body, end = frame
            if data[0] >> 4 == CONNECT:
                self._version = data[body + 6]
                found.append(Packet(kind=CONNECT, flags=0))
            else:
                found.append(decode(self._version, data[0], bytes(data[body:end])))
            del data[:end]
        return found


def _frame(data: bytearray) -> tuple[int, int] | None:
    """Where the body of the first packet of ``data`` begins and ends, None if it is not all there."""
    length = 0
    for at in range(1, min(5, len(data))):
        length |= (data[at] & 127) << 7 * (at - 1)
        if data[at] < 128:
            end = at + 1 + length
            return (at + 1, end) if end <= len(data) else None
    return None
