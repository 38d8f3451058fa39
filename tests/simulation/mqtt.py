"""MQTT 3.1.1 and 5.0 as the models speak it: written for the tests from the standard, and independent of ``wire/mqtt``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

CONNECT, CONNACK, PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP = 1, 2, 3, 4, 5, 6, 7
SUBSCRIBE, SUBACK, UNSUBSCRIBE, UNSUBACK, PINGREQ, PINGRESP, DISCONNECT, AUTH = 8, 9, 10, 11, 12, 13, 14, 15
LEVEL_5 = 5  # the protocol level of MQTT 5.0

_ACK_NAMES = {PUBACK: "PUBACK", PUBREC: "PUBREC", PUBREL: "PUBREL", PUBCOMP: "PUBCOMP"}


class Malformed(Exception):
    """Bytes that are no packet."""


@dataclass(frozen=True, slots=True)
class Publish:
    """One PUBLISH; packet_id is 0 at QoS 0."""

    topic: str
    payload: bytes
    qos: int
    packet_id: int
    dup: bool = False
    retain: bool = False


@dataclass(frozen=True, slots=True)
class Ack:
    """PUBACK, PUBREC, PUBREL or PUBCOMP."""

    kind: int
    packet_id: int
    reason: int = 0

    def __str__(self) -> str:
        return f"{_ACK_NAMES.get(self.kind, 'PINGRESP')} {self.packet_id}" + (f" 0x{self.reason:02x}" if self.reason else "")


@dataclass(frozen=True, slots=True)
class Connack:
    """The answer to CONNECT."""

    present: bool
    reason: int
    receive_maximum: int


@dataclass(frozen=True, slots=True)
class Other:
    """Any other packet: its type and what is in it."""

    kind: int
    body: bytes


@dataclass(frozen=True, slots=True)
class Subscription:
    """One filter of a SUBSCRIBE; at level 4 the last two are 0."""

    topic_filter: str
    qos: int
    retain_as_published: bool
    retain_handling: int


Packet = Publish | Ack | Connack | Other


class PacketReader:
    """Packets out of a byte stream; each with the position in the stream where it ends."""

    def __init__(self, level: int) -> None:
        self.level = level
        self._buffer = b""
        self._position = 0

    def feed(self, data: bytes) -> list[tuple[int, Packet]]:
        """Take more bytes; the packets that are whole now."""
        buffer = self._buffer + data
        packets: list[tuple[int, Packet]] = []
        start = 0
        while True:
            found = _frame(buffer, start)
            if found is None:
                break
            body_at, end = found
            packets.append((self._position + end, _parse(buffer[start], buffer[body_at:end], self.level)))
            start = end
        self._position += start
        self._buffer = buffer[start:]
        return packets


def _frame(buffer: bytes, start: int) -> tuple[int, int] | None:
    length = shift = 0
    position = start + 1
    while position < len(buffer):
        byte = buffer[position]
        position += 1
        length |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return (position, position + length) if position + length <= len(buffer) else None
        if shift > 21:
            raise Malformed("remaining length of more than four bytes")
    return None


def _parse(first: int, body: bytes, level: int) -> Packet:
    kind, flags = first >> 4, first & 0x0F
    if kind == PUBLISH:
        return _parse_publish(flags, body, level)
    if kind in _ACK_NAMES:
        if flags != (2 if kind == PUBREL else 0):
            raise Malformed(f"flags {flags} in {_ACK_NAMES[kind]}")
        if len(body) < 2 or (level < 5 and len(body) != 2):
            raise Malformed(f"{_ACK_NAMES[kind]} of {len(body)} bytes")
        return Ack(kind, body[0] << 8 | body[1], body[2] if len(body) > 2 else 0)
    if kind == CONNACK:
        return Connack(bool(body[0] & 1), body[1], _receive_maximum(body[2:]) if level == 5 else 65_535)
    return Other(kind, body)


def _parse_publish(flags: int, body: bytes, level: int) -> Publish:
    qos = flags >> 1 & 3
    if qos == 3 or (qos == 0 and flags & 8):
        raise Malformed(f"PUBLISH with flags {flags}")
    size = body[0] << 8 | body[1]
    position = 2 + size
    topic = body[2:position].decode()
    packet_id = 0
    if qos:
        packet_id = body[position] << 8 | body[position + 1]
        position += 2
        if not packet_id:
            raise Malformed("packet identifier 0")
    if level == 5:
        length = shift = 0
        while True:
            byte = body[position]
            position += 1
            length |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                break
        position += length
    return Publish(topic, body[position:], qos, packet_id, bool(flags & 8), bool(flags & 1))


_PROPERTY_BYTES = {0x11: 4, 0x21: 2, 0x22: 2, 0x24: 1, 0x25: 1, 0x27: 4, 0x28: 1, 0x29: 1, 0x2A: 1, 0x13: 2}


def _receive_maximum(properties: bytes) -> int:
    end, position = properties[0] + 1, 1
    while position < end:
        name = properties[position]
        position += 1
        if name in _PROPERTY_BYTES:
            size = _PROPERTY_BYTES[name]
            if name == 0x21:
                return int.from_bytes(properties[position : position + size], "big")
            position += size
        else:  # text
            position += 2 + int.from_bytes(properties[position : position + 2], "big")
    return 65_535


def _packet(first: int, body: bytes) -> bytes:
    length, encoded = len(body), b""
    while True:
        byte, length = length & 0x7F, length >> 7
        encoded += bytes((byte | (0x80 if length else 0),))
        if not length:
            return bytes((first,)) + encoded + body


def _text(value: str) -> bytes:
    data = value.encode()
    return len(data).to_bytes(2, "big") + data


def connect(client_id: str, level: int, *, clean: bool, keep_alive_s: int, receive_maximum: int = 65_535) -> bytes:
    """CONNECT; at level 5 the session outlives the connection by a day and an hour."""
    body = b"\x00\x04MQTT" + bytes((level, 2 if clean else 0)) + keep_alive_s.to_bytes(2, "big")
    if level == 5:
        properties = b"\x11" + (90_000).to_bytes(4, "big")  # longer than the wall clock jumps
        if receive_maximum < 65_535:
            properties += b"\x21" + receive_maximum.to_bytes(2, "big")
        body += bytes((len(properties),)) + properties
    return _packet(0x10, body + _text(client_id))


def publish(packet: Publish, level: int) -> bytes:
    """PUBLISH without properties."""
    body = _text(packet.topic)
    if packet.qos:
        body += packet.packet_id.to_bytes(2, "big")
    if level == 5:
        body += b"\x00"
    return _packet(0x30 | packet.dup << 3 | packet.qos << 1 | packet.retain, body + packet.payload)


def ack(kind: int, packet_id: int, reason: int = 0) -> bytes:
    """PUBACK, PUBREC, PUBREL or PUBCOMP."""
    first = kind << 4 | (2 if kind == PUBREL else 0)
    return _packet(first, packet_id.to_bytes(2, "big") + (bytes((reason,)) if reason else b""))


def subscribe(packet_id: int, filters: Iterable[tuple[str, int]], level: int) -> bytes:
    """SUBSCRIBE to filters, each with its QoS."""
    body = b"".join(_text(topic_filter) + bytes((qos,)) for topic_filter, qos in filters)
    return _packet(SUBSCRIBE << 4 | 2, packet_id.to_bytes(2, "big") + (b"\x00" if level == 5 else b"") + body)


def unsubscribe(packet_id: int, filters: Iterable[str], level: int) -> bytes:
    """UNSUBSCRIBE from filters."""
    body = b"".join(_text(topic_filter) for topic_filter in filters)
    return _packet(UNSUBSCRIBE << 4 | 2, packet_id.to_bytes(2, "big") + (b"\x00" if level == 5 else b"") + body)


def parse_subscribe(body: bytes, level: int) -> tuple[int, list[Subscription]]:
    """The packet identifier and the filters of a SUBSCRIBE; properties of fewer than 128 bytes are passed over."""
    position = 2 + (1 + body[2] if level == 5 else 0)
    subscriptions = []
    while position < len(body):
        end = position + 2 + int.from_bytes(body[position : position + 2], "big")
        options = body[end]
        if options & (0xC0 if level == 5 else 0xFC) or options & 3 == 3 or options >> 4 & 3 == 3:
            raise Malformed(f"SUBSCRIBE with options 0x{options:02x}")
        topic_filter = body[position + 2 : end].decode()
        subscriptions.append(Subscription(topic_filter, options & 3, bool(options & 8), options >> 4 & 3))
        position = end + 1
    return body[0] << 8 | body[1], subscriptions


def suback(packet_id: int, codes: list[int], level: int) -> bytes:
    """SUBACK without properties."""
    return _packet(SUBACK << 4, packet_id.to_bytes(2, "big") + (b"\x00" if level == 5 else b"") + bytes(codes))


def plain(kind: int) -> bytes:
    """PINGREQ, PINGRESP or a plain DISCONNECT."""
    return bytes((kind << 4, 0))
