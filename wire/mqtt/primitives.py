"""The data types of MQTT: integers, variable byte integers, strings, binary data. Source: MQTT 5.0 section 1.5."""

from __future__ import annotations

from wire.mqtt.reason_codes import malformed

VARIABLE_BYTE_INTEGER_MAX = 268_435_455
BINARY_MAX_BYTES = 65_535


def encode_variable_byte_integer(value: int) -> bytes:
    """``value`` in the fewest bytes, one to four (MQTT-1.5.5-1)."""
    assert 0 <= value <= VARIABLE_BYTE_INTEGER_MAX, value
    if value < 0x80:
        return bytes((value,))
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def read_variable_byte_integer(buffer: bytes, position: int, end: int) -> tuple[int, int] | None:
    """The integer at ``position`` and the position after it; None if it goes on behind ``end``.

    Raises:
        PeerViolation: it has more than four bytes, or more than it needs (MQTT-1.5.5-1).
    """
    value = shift = 0
    while position < end:
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if byte == 0 and shift:
                malformed("MQTT-1.5.5-1 variable byte integer in more bytes than it needs")
            return value, position
        shift += 7
        if shift == 28:
            malformed("MQTT-1.5.5 variable byte integer of more than four bytes")
    return None


def encode_binary(data: bytes) -> bytes:
    """``data`` behind its length (u16)."""
    assert len(data) <= BINARY_MAX_BYTES, len(data)
    return len(data).to_bytes(2, "big") + data


def encode_string(text: str) -> bytes:
    """``text`` as UTF-8 behind its length in bytes (u16)."""
    return encode_binary(text.encode())


def decode_string(data: bytes) -> str:
    """The text of a UTF-8 encoded string, without its length.

    Raises:
        PeerViolation: it is not well-formed (MQTT-1.5.4-1) or has U+0000 in it (MQTT-1.5.4-2).
    """
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        malformed("MQTT-1.5.4-1 ill-formed UTF-8 in a string", offset=error.start)
    if "\0" in text:
        malformed("MQTT-1.5.4-2 U+0000 in a string")
    return text


class PrimitiveReader:
    """Reads fields from ``buffer`` in order; a field that goes on behind the end is malformed."""

    __slots__ = ("_buffer", "position")

    def __init__(self, buffer: bytes) -> None:
        self._buffer = buffer
        self.position = 0

    @property
    def left(self) -> int:
        """How many bytes have not been read."""
        return len(self._buffer) - self.position

    def take(self, count: int) -> bytes:
        """The next ``count`` bytes as they are."""
        start, end = self.position, self.position + count
        if end > len(self._buffer):
            malformed("MQTT-2.1.4 a field goes on behind the end of the packet")
        self.position = end
        return self._buffer[start:end]

    def integer(self, width_bytes: int) -> int:
        """An unsigned integer, big endian."""
        return int.from_bytes(self.take(width_bytes), "big")

    def variable_byte_integer(self) -> int:
        read = read_variable_byte_integer(self._buffer, self.position, len(self._buffer))
        if read is None:
            malformed("MQTT-2.1.4 a variable byte integer goes on behind the end of the packet")
        value, self.position = read
        return value

    def binary(self) -> bytes:
        """Binary data behind its length (u16)."""
        return self.take(self.integer(2))

    def string(self) -> str:
        """A UTF-8 encoded string (MQTT-1.5.4-1, MQTT-1.5.4-2)."""
        return decode_string(self.binary())

    def rest(self) -> bytes:
        """Everything that has not been read."""
        return self.take(self.left)

    def finish(self) -> None:
        """Refuse bytes behind the last field."""
        if self.left:
            malformed("MQTT-2.1.4 bytes behind the last field of the packet", count=self.left)
