"""A raw, synchronous MQTT client for 3.1.1 and 5.0 on a plain socket, or over TLS.

It shares no code with the product, so that it can judge it. Every step is the caller's: nothing is acknowledged, resent or
reconnected by itself. ``Publisher`` and ``Subscriber`` build on it.
"""

from __future__ import annotations

import socket
import ssl
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from tests.support.waiting import PATIENCE_S

CONNECT, CONNACK, PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP = range(1, 8)
SUBSCRIBE, SUBACK, UNSUBSCRIBE, UNSUBACK, PINGREQ, PINGRESP, DISCONNECT, AUTH = range(8, 16)

PAYLOAD_FORMAT, MESSAGE_EXPIRY, CONTENT_TYPE, RESPONSE_TOPIC, CORRELATION_DATA = 0x01, 0x02, 0x03, 0x08, 0x09
SESSION_EXPIRY, RECEIVE_MAXIMUM, TOPIC_ALIAS, USER_PROPERTY = 0x11, 0x21, 0x23, 0x26
SUBSCRIPTION_IDENTIFIER, ASSIGNED_CLIENT_ID, WILL_DELAY, MAXIMUM_PACKET_SIZE = 0x0B, 0x12, 0x18, 0x27
_BYTES_1, _BYTES_2, _BYTES_4 = {0x01, 0x17, 0x19, 0x24, 0x25, 0x28, 0x29, 0x2A}, {0x13, 0x21, 0x22, 0x23}, {0x02, 0x11, 0x18, 0x27}

Value = int | bytes | str | tuple[str, str]
Properties = list[tuple[int, Value]]


class Closed(ConnectionError):
    """The peer closed the connection."""


def variable(number: int) -> bytes:
    """A variable byte integer."""
    out = bytearray()
    while True:
        number, low = divmod(number, 128)
        out.append(low | (128 if number else 0))
        if not number:
            return bytes(out)


def string(text: str | bytes) -> bytes:
    """A length-prefixed string."""
    raw = text.encode() if isinstance(text, str) else text
    return struct.pack("!H", len(raw)) + raw


def encode_properties(properties: Properties) -> bytes:
    """Properties with their length prefix."""
    out = bytearray()
    for identifier, value in properties:
        out.append(identifier)
        if isinstance(value, int) and identifier == 0x0B:
            out += variable(value)
        elif isinstance(value, int):
            size = 1 if identifier in _BYTES_1 else 2 if identifier in _BYTES_2 else 4
            out += value.to_bytes(size, "big")
        elif isinstance(value, tuple):
            out += string(value[0]) + string(value[1])
        else:
            out += string(value)
    return variable(len(out)) + bytes(out)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, count: int) -> bytes:
        assert self._at + count <= len(self._data), "the packet is shorter than it says"
        self._at += count
        return self._data[self._at - count : self._at]

    def number(self, count: int) -> int:
        return int.from_bytes(self.take(count), "big")

    def string(self) -> bytes:
        return self.take(self.number(2))

    def variable(self) -> int:
        value = shift = 0
        while True:
            byte = self.number(1)
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def rest(self) -> bytes:
        return self.take(len(self._data) - self._at)

    def more(self) -> bool:
        return self._at < len(self._data)

    def properties(self) -> Properties:
        inner = _Reader(self.take(self.variable()))
        found: Properties = []
        while inner.more():
            identifier = inner.number(1)
            if identifier in _BYTES_1 | _BYTES_2 | _BYTES_4:
                found.append((identifier, inner.number(1 if identifier in _BYTES_1 else 2 if identifier in _BYTES_2 else 4)))
            elif identifier == 0x0B:
                found.append((identifier, inner.variable()))
            elif identifier == USER_PROPERTY:
                found.append((identifier, (inner.string().decode(), inner.string().decode())))
            elif identifier in (CORRELATION_DATA, 0x16):
                found.append((identifier, inner.string()))
            else:
                found.append((identifier, inner.string().decode()))
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Packet:
    """A packet that came in; fields that its kind does not have keep their defaults."""

    kind: int
    flags: int
    packet_id: int = 0
    reason_codes: tuple[int, ...] = (0,)
    session_present: bool = False
    topic: str = ""
    payload: bytes = b""
    properties: Properties = field(default_factory=list)

    @property
    def reason_code(self) -> int:
        """The only or first reason code (3.1.1: return code)."""
        return self.reason_codes[0]

    @property
    def qos(self) -> int:
        """QoS of a PUBLISH."""
        return self.flags >> 1 & 3

    @property
    def dup(self) -> bool:
        """DUP of a PUBLISH."""
        return bool(self.flags & 8)

    @property
    def retain(self) -> bool:
        """RETAIN of a PUBLISH."""
        return bool(self.flags & 1)

    @property
    def user_properties(self) -> list[tuple[str, str]]:
        """The user properties, in order."""
        return [value for identifier, value in self.properties if identifier == USER_PROPERTY and isinstance(value, tuple)]

    def property(self, identifier: int) -> Value | None:
        """The first property ``identifier``, or None."""
        return next((value for known, value in self.properties if known == identifier), None)


def decode(version: int, head: int, body: bytes) -> Packet:
    """The packet with first byte ``head`` and ``body`` under protocol ``version`` (4 or 5)."""
    kind, flags, reader = head >> 4, head & 15, _Reader(body)
    five = version == 5
    if kind == CONNACK:
        present, code = reader.number(1), reader.number(1)
        properties = reader.properties() if five else []
        return Packet(kind=kind, flags=flags, session_present=bool(present), reason_codes=(code,), properties=properties)
    if kind == PUBLISH:
        topic = reader.string().decode()
        packet_id = reader.number(2) if flags >> 1 & 3 else 0
        properties = reader.properties() if five else []
        return Packet(kind=kind, flags=flags, packet_id=packet_id, topic=topic, properties=properties, payload=reader.rest())
    if kind in (PUBACK, PUBREC, PUBREL, PUBCOMP):
        packet_id = reader.number(2)
        code = reader.number(1) if reader.more() else 0
        return Packet(kind=kind, flags=flags, packet_id=packet_id, reason_codes=(code,))
    if kind in (SUBACK, UNSUBACK):
        packet_id = reader.number(2)
        properties = reader.properties() if five else []
        return Packet(kind=kind, flags=flags, packet_id=packet_id, reason_codes=tuple(reader.rest()) or (0,), properties=properties)
    if kind == DISCONNECT and five and body:
        return Packet(kind=kind, flags=flags, reason_codes=(reader.number(1),))
    return Packet(kind=kind, flags=flags)


@dataclass(frozen=True, slots=True, kw_only=True)
class Will:
    """The Will of a CONNECT."""

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    delay_s: int = 0


class MqttClient:
    """One connection. ``version`` is 4 (3.1.1) or 5; ``clean`` is clean session or clean start."""

    def __init__(
        self,
        port: int,
        client_id: str = "test",
        *,
        version: int = 4,
        clean: bool = True,
        session_expiry_s: int = 0,
        username: str | None = None,
        password: str | None = None,
        keep_alive_s: int = 0,
        will: Will | None = None,
        properties: Properties | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.version = version
        self._tls = tls
        self._port = port
        self._client_id = client_id
        self._clean = clean
        self._session_expiry_s = session_expiry_s
        self._username = username
        self._password = password
        self._keep_alive_s = keep_alive_s
        self._will = will
        self._properties = properties or []
        self._socket: socket.socket | None = None
        self._received = bytearray()
        self._next_id = 0

    def __enter__(self) -> Self:
        self.connect()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def connect(self, deadline_s: float = PATIENCE_S) -> Packet:
        """Open the connection, send CONNECT, and return the CONNACK; the caller looks at its reason code."""
        self.connect_without_waiting(deadline_s)
        return self.expect(CONNACK, deadline_s=deadline_s)

    def connect_without_waiting(self, deadline_s: float = PATIENCE_S) -> None:
        """Open the connection and send CONNECT."""
        self.close()
        self._received.clear()
        self._socket = socket.create_connection(("127.0.0.1", self._port), timeout=deadline_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._tls is not None:
            self._socket = self._tls.wrap_socket(self._socket, server_hostname="localhost")
        flags = (
            (2 if self._clean else 0) | (0x80 if self._username is not None else 0) | (0x40 if self._password is not None else 0)
        )
        will = self._will
        if will is not None:
            flags |= 0x04 | will.qos << 3 | (0x20 if will.retain else 0)
        body = string("MQTT") + bytes([self.version, flags]) + struct.pack("!H", self._keep_alive_s)
        if self.version == 5:
            body += encode_properties([(SESSION_EXPIRY, self._session_expiry_s), *self._properties])
        body += string(self._client_id)
        if will is not None:
            if self.version == 5:
                body += encode_properties([(WILL_DELAY, will.delay_s)] if will.delay_s else [])
            body += string(will.topic) + string(will.payload)
        for text in (self._username, self._password):
            if text is not None:
                body += string(text)
        self.send(CONNECT, 0, body)

    def send(self, kind: int, flags: int, body: bytes) -> None:
        """Send one packet as given."""
        self.send_raw(bytes([kind << 4 | flags]) + variable(len(body)) + body)

    def send_raw(self, data: bytes) -> None:
        """Send bytes as given."""
        if self._socket is None:
            raise Closed("not connected")
        self._socket.settimeout(PATIENCE_S)
        self._socket.sendall(data)

    def publish(
        self,
        topic: str,
        payload: bytes | str,
        *,
        qos: int = 0,
        packet_id: int | None = None,
        retain: bool = False,
        dup: bool = False,
        properties: Properties | None = None,
    ) -> int:
        """Send a PUBLISH, do not wait, and return its packet identifier (0 at QoS 0)."""
        self.send_raw(self.encode_publish(topic, payload, qos, packet_id, retain, dup, properties))
        return self._next_id if packet_id is None and qos else packet_id or 0

    def encode_publish(
        self,
        topic: str,
        payload: bytes | str,
        qos: int,
        packet_id: int | None = None,
        retain: bool = False,
        dup: bool = False,
        properties: Properties | None = None,
    ) -> bytes:
        """The bytes of a PUBLISH; without ``packet_id`` the next free one is taken."""
        body = string(topic)
        if qos:
            if packet_id is None:
                self._next_id = self._next_id % 65_535 + 1
                packet_id = self._next_id
            body += struct.pack("!H", packet_id)
        if self.version == 5:
            body += encode_properties(properties or [])
        body += payload.encode() if isinstance(payload, str) else payload
        return bytes([PUBLISH << 4 | (8 if dup else 0) | qos << 1 | retain]) + variable(len(body)) + body

    def publish_burst(self, topic: str, payloads: Sequence[str], qos: int) -> None:
        """Publish ``payloads`` at QoS 1 or 2 in one burst, and return when the node has acknowledged all."""
        self.send_raw(b"".join(self.encode_publish(topic, payload, qos) for payload in payloads))
        for _ in payloads:
            packet = self.expect(PUBACK if qos == 1 else PUBREC)
            if qos == 2:
                self.acknowledge(PUBREL, packet.packet_id)
        for _ in payloads if qos == 2 else ():
            self.expect(PUBCOMP)

    def acknowledge(self, kind: int, packet_id: int, reason_code: int = 0) -> None:
        """Send a PUBACK, PUBREC, PUBREL or PUBCOMP."""
        body = struct.pack("!H", packet_id) + (bytes([reason_code]) if reason_code else b"")
        self.send(kind, 2 if kind == PUBREL else 0, body)

    def subscribe(self, *filters: str, qos: int = 0, options: int = 0, packet_id: int = 65_000, identifier: int = 0) -> Packet:
        """SUBSCRIBE to ``filters`` and return the SUBACK; ``options`` are further bits of MQTT 5 (0x08: retain as published)."""
        body = struct.pack("!H", packet_id)
        if self.version == 5:
            of_all = bytes([0x0B]) + variable(identifier) if identifier else b""
            body += variable(len(of_all)) + of_all
        for topic_filter in filters:
            body += string(topic_filter) + bytes([qos | options])
        self.send(SUBSCRIBE, 2, body)
        return self.expect(SUBACK, packet_id=packet_id)

    def unsubscribe(self, *filters: str, packet_id: int = 64_999) -> Packet:
        """UNSUBSCRIBE from ``filters`` and return the UNSUBACK."""
        body = struct.pack("!H", packet_id) + (b"\x00" if self.version == 5 else b"")
        self.send(UNSUBSCRIBE, 2, body + b"".join(map(string, filters)))
        return self.expect(UNSUBACK, packet_id=packet_id)

    def read(self, deadline_s: float = PATIENCE_S) -> Packet:
        """The next packet.

        Raises:
            TimeoutError: there was none within ``deadline_s``.
            Closed: the peer closed the connection.
        """
        end_s = time.monotonic() + deadline_s
        while (packet := self._next_packet()) is None:
            if self._socket is None:
                raise Closed("not connected")
            self._socket.settimeout(max(0.001, end_s - time.monotonic()))
            data = self._socket.recv(65_536)
            if not data:
                raise Closed("closed by the peer")
            self._received += data
        return packet

    def expect(self, kind: int, *, packet_id: int | None = None, deadline_s: float = PATIENCE_S) -> Packet:
        """The next packet, which must be of ``kind`` (and carry ``packet_id``)."""
        packet = self.read(deadline_s)
        assert packet.kind == kind, f"expected a packet of kind {kind}, got {packet}"
        assert packet_id is None or packet.packet_id == packet_id, f"expected packet identifier {packet_id}, got {packet}"
        return packet

    def is_silent_for(self, period_s: float) -> bool:
        """Whether no packet comes within ``period_s``; one that comes is gone."""
        try:
            self.read(period_s)
        except TimeoutError:
            return True
        return False

    def ping(self) -> None:
        """PINGREQ, PINGRESP: the peer has read everything before it."""
        self.send(PINGREQ, 0, b"")
        self.expect(PINGRESP)

    def disconnect(self) -> None:
        """DISCONNECT and close."""
        self.send(DISCONNECT, 0, b"")
        self.close()

    def close(self) -> None:
        """Close the socket without a word."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _next_packet(self) -> Packet | None:
        length = shift = 0
        for at in range(1, min(5, len(self._received))):
            byte = self._received[at]
            length |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                end = at + 1 + length
                if end > len(self._received):
                    return None
                packet = decode(self.version, self._received[0], bytes(self._received[at + 1 : end]))
                del self._received[:end]
                return packet
        return None
