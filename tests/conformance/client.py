"""A client that judges: each packet of the broker is taken apart by hand and held against the rules that every packet must keep.

It shares no code with the product. Nothing is sent that a test did not ask for; ``tests/support/mqtt_client.py`` lends the encoding
of numbers, strings and properties.
"""

from __future__ import annotations

import socket
import struct
import time
from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from tests.support import waiting
from tests.support.mqtt_client import Properties, Value, encode_properties, string, variable

CONNECT, CONNACK, PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP = range(1, 8)
SUBSCRIBE, SUBACK, UNSUBSCRIBE, UNSUBACK, PINGREQ, PINGRESP, DISCONNECT, AUTH = range(8, 16)

PAYLOAD_FORMAT, MESSAGE_EXPIRY, CONTENT_TYPE, RESPONSE_TOPIC, CORRELATION_DATA, SUBSCRIPTION_ID = 0x01, 0x02, 0x03, 0x08, 0x09, 0x0B
SESSION_EXPIRY, ASSIGNED_CLIENT_ID, SERVER_KEEP_ALIVE, AUTH_METHOD, AUTH_DATA = 0x11, 0x12, 0x13, 0x15, 0x16
REQUEST_PROBLEM, WILL_DELAY, REQUEST_RESPONSE, RESPONSE_INFORMATION, REASON_STRING = 0x17, 0x18, 0x19, 0x1A, 0x1F
RECEIVE_MAXIMUM, ALIAS_MAXIMUM, TOPIC_ALIAS, MAXIMUM_QOS, RETAIN_AVAILABLE, USER_PROPERTY = 0x21, 0x22, 0x23, 0x24, 0x25, 0x26
MAXIMUM_PACKET_SIZE = 0x27

PATIENCE_S = waiting.PATIENCE_S

_SIZES = {0x01: 1, 0x17: 1, 0x19: 1, 0x24: 1, 0x25: 1, 0x28: 1, 0x29: 1, 0x2A: 1, 0x13: 2, 0x21: 2, 0x22: 2, 0x23: 2}
_SIZES |= {0x02: 4, 0x11: 4, 0x18: 4, 0x27: 4}
_TEXTS, _BINARY = {0x03, 0x08, 0x12, 0x15, 0x1A, 0x1C, 0x1F}, {0x09, 0x16}
# What a Server may put into each packet; 3.14.2-2: no Session Expiry Interval in its DISCONNECT.
_ALLOWED: dict[int, set[int]] = {
    CONNACK: {0x11, 0x12, 0x13, 0x15, 0x16, 0x1A, 0x1C, 0x1F, 0x21, 0x22, 0x24, 0x25, 0x26, 0x27, 0x28, 0x29, 0x2A},
    PUBLISH: {0x01, 0x02, 0x03, 0x08, 0x09, 0x0B, 0x23, 0x26},
    DISCONNECT: {0x1C, 0x1F, 0x26},
    AUTH: {0x15, 0x16, 0x1F, 0x26},
} | {kind: {0x1F, 0x26} for kind in (PUBACK, PUBREC, PUBREL, PUBCOMP, SUBACK, UNSUBACK)}
_ACKNOWLEDGED = {0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99}
_REASONS = {
    CONNACK: {0, *range(0x80, 0x8B), 0x8C, 0x90, 0x95, 0x97, 0x99, 0x9A, 0x9B, 0x9C, 0x9D, 0x9F},
    PUBACK: _ACKNOWLEDGED,
    PUBREC: _ACKNOWLEDGED,
    PUBREL: {0x00, 0x92},
    PUBCOMP: {0x00, 0x92},
    SUBACK: {0, 1, 2, 0x80, 0x83, 0x87, 0x8F, 0x91, 0x97, 0x9E, 0xA1, 0xA2},
    UNSUBACK: {0x00, 0x11, 0x80, 0x83, 0x87, 0x8F, 0x91},
    DISCONNECT: {0, 0x80, 0x81, 0x82, 0x83, 0x87, 0x89, 0x8B, 0x8D, 0x8E, 0x8F, 0x90, *range(0x93, 0xA3)},
    AUTH: {0x00, 0x18},
}
_CODES_311 = {CONNACK: set(range(6)), SUBACK: {0, 1, 2, 0x80}}


class Ended(ConnectionError):
    """The broker closed the connection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Packet:
    """A packet of the broker; fields that its kind does not have keep their defaults."""

    kind: int
    flags: int = 0
    packet_id: int = 0
    codes: tuple[int, ...] = (0,)
    session_present: bool = False
    topic: str = ""
    payload: bytes = b""
    properties: Properties = field(default_factory=list)

    @property
    def code(self) -> int:
        """The only or first reason code."""
        return self.codes[0]

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

    def all(self, identifier: int) -> list[Value]:
        """The values of property ``identifier``, in order."""
        return [value for known, value in self.properties if known == identifier]

    def get(self, identifier: int) -> Value | None:
        """The first value of property ``identifier``, or None."""
        return next(iter(self.all(identifier)), None)

    def number(self, identifier: int, default: int) -> int:
        """The number in property ``identifier``."""
        value = self.get(identifier)
        assert value is None or isinstance(value, int)
        return default if value is None else value


class _Body:
    """Reads a packet's body; whatever is not as the specification says is an AssertionError."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, count: int) -> bytes:
        assert self._at + count <= len(self._data), f"a packet is shorter than it says: {self._data!r}"
        self._at += count
        return self._data[self._at - count : self._at]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def text(self) -> str:
        read = self.take(self.number(2)).decode()  # strict: no surrogates [MQTT-1.5.3-1] [MQTT-1.5.4-1]
        assert "\0" not in read, "MQTT-1.5.3-2, MQTT-1.5.4-2"
        return read

    def variable(self) -> int:
        start, value = self._at, 0
        for shift in (0, 7, 14, 21):
            byte = self.number(1)
            value |= (byte & 127) << shift
            if byte < 128:
                assert self._at - start == len(variable(value)), "MQTT-1.5.5-1: a Variable Byte Integer is as short as can be"
                return value
        raise AssertionError("a Variable Byte Integer has at most four bytes")

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def properties(self, kind: int) -> Properties:
        inner = _Body(self.take(self.variable()))
        found: Properties = []
        while inner.left:
            identifier = inner.number(1)
            assert identifier in _ALLOWED[kind], f"property {identifier:#x} in a packet of kind {kind}"
            assert identifier in (USER_PROPERTY, SUBSCRIPTION_ID) or all(known != identifier for known, _ in found), "once only"
            if identifier in _SIZES:
                found.append((identifier, inner.number(_SIZES[identifier])))
            elif identifier == SUBSCRIPTION_ID:
                found.append((identifier, inner.variable()))
            elif identifier == USER_PROPERTY:
                found.append((identifier, (inner.text(), inner.text())))
            elif identifier in _BINARY:
                found.append((identifier, inner.take(inner.number(2))))
            else:
                found.append((identifier, inner.text()))
        return found


def judge(version: int, head: int, data: bytes) -> Packet:
    """Take a broker's packet apart and hold it against the rules for every packet of its kind."""
    kind, flags, body, five = head >> 4, head & 15, _Body(data), version == 5
    assert kind not in (0, CONNECT, SUBSCRIBE, UNSUBSCRIBE, PINGREQ), f"a Server does not send packets of kind {kind}"
    assert five or kind not in (DISCONNECT, AUTH), f"a Server does not send kind {kind} in MQTT 3.1.1"
    packet_id, present, topic, payload = 0, False, "", b""
    codes: tuple[int, ...] = (0,)
    properties: Properties = []
    if kind == PUBLISH:
        assert flags >> 1 & 3 != 3, "MQTT-3.3.1-4"
        assert flags & 6 or not flags & 8, "MQTT-3.3.1-2"
        topic = body.text()
        assert "+" not in topic, "MQTT-3.3.2-2"
        assert "#" not in topic, "MQTT-3.3.2-2"
        packet_id = body.number(2) if flags & 6 else 0
        assert packet_id or not flags & 6, "MQTT-2.3.1-1, MQTT-2.2.1-4"
        properties = body.properties(kind) if five else []
        assert topic or any(identifier == TOPIC_ALIAS for identifier, _ in properties), "MQTT-4.7.3-1"
        payload = body.take(body.left)
    else:
        assert flags == (2 if kind == PUBREL else 0), f"MQTT-2.2.2-1, MQTT-2.1.3-1: flags {flags} of kind {kind}"
    if kind == CONNACK:
        acknowledge = body.number(1)
        assert acknowledge < 2, "MQTT-3.2.2-1"
        present, codes = bool(acknowledge), (body.number(1),)
        properties = body.properties(kind) if five else []
        assert not (present and codes[0]), "MQTT-3.2.2-4, MQTT-3.2.2-6"
    elif kind in (PUBACK, PUBREC, PUBREL, PUBCOMP):
        packet_id = body.number(2)
        if five and body.left:
            codes = (body.number(1),)
            properties = body.properties(kind) if body.left else []
    elif kind in (SUBACK, UNSUBACK):
        packet_id = body.number(2)
        properties = body.properties(kind) if five else []
        codes = tuple(body.take(body.left))
    elif kind in (DISCONNECT, AUTH) and body.left:
        codes = (body.number(1),)
        properties = body.properties(kind) if body.left else []
    assert not body.left, f"{body.left} bytes too many in a packet of kind {kind}"
    legal = (_REASONS if five else _CODES_311).get(kind)
    assert legal is None or set(codes) <= legal, f"reason codes {codes} in a packet of kind {kind}"
    return Packet(
        kind=kind,
        flags=flags,
        packet_id=packet_id,
        codes=codes,
        session_present=present,
        topic=topic,
        payload=payload,
        properties=properties,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Will:
    """What a CONNECT says of its Will."""

    topic: str
    payload: bytes = b"will"
    qos: int = 0
    retain: bool = False
    properties: Properties = field(default_factory=list)


def packet(kind: int, flags: int, body: bytes) -> bytes:
    """A packet."""
    return bytes([kind << 4 | flags]) + variable(len(body)) + body


def connect_bytes(
    version: int,
    client_id: str | bytes,
    *,
    clean: bool = True,
    keep_alive_s: int = 0,
    will: Will | None = None,
    username: str | bytes | None = None,
    password: bytes | None = None,
    properties: Properties = [],  # noqa: B006
    flags: int | None = None,
) -> bytes:
    """A CONNECT; ``flags`` replaces the right Connect Flags."""
    right = 2 * clean | 0x80 * (username is not None) | 0x40 * (password is not None)
    if will is not None:
        right |= 4 | will.qos << 3 | 0x20 * will.retain
    body = string("MQTT") + bytes((version, right if flags is None else flags)) + struct.pack("!H", keep_alive_s)
    body += encode_properties(properties) if version == 5 else b""
    body += string(client_id)
    if will is not None:
        body += encode_properties(will.properties) if version == 5 else b""
        body += string(will.topic) + string(will.payload)
    for word in (username, password):
        body += b"" if word is None else string(word)
    return packet(CONNECT, 0, body)


def publish_bytes(
    version: int,
    topic: str | bytes,
    payload: bytes,
    qos: int = 0,
    packet_id: int = 0,
    *,
    retain: bool = False,
    dup: bool = False,
    properties: Properties = [],  # noqa: B006
) -> bytes:
    """A PUBLISH."""
    body = string(topic) + (struct.pack("!H", packet_id) if qos else b"")
    body += encode_properties(properties) if version == 5 else b""
    return packet(PUBLISH, 8 * dup | qos << 1 | retain, body + payload)


def subscribe_bytes(
    version: int,
    packet_id: int,
    filters: Iterable[tuple[str | bytes, int]],
    properties: Properties = [],  # noqa: B006
) -> bytes:
    """A SUBSCRIBE of (filter, options byte) pairs."""
    body = struct.pack("!H", packet_id) + (encode_properties(properties) if version == 5 else b"")
    return packet(SUBSCRIBE, 2, body + b"".join(string(one) + bytes((options,)) for one, options in filters))


def unsubscribe_bytes(version: int, packet_id: int, filters: Iterable[str | bytes]) -> bytes:
    """An UNSUBSCRIBE."""
    return packet(UNSUBSCRIBE, 2, struct.pack("!H", packet_id) + b"\0" * (version == 5) + b"".join(map(string, filters)))


class Client:
    """One connection, made at once; CONNECT is the caller's."""

    def __init__(self, port: int, version: int) -> None:
        self.version = version
        self.maximum_packet_size = 0xFFFFFFFF
        self.connack: Packet = Packet(kind=CONNACK)
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = bytearray()
        self._held: deque[Packet] = deque()  # came between the packets of an exchange
        self._next_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # --- sending ---

    def send(self, *packets: bytes) -> None:
        """All of it in one write."""
        self._socket.settimeout(PATIENCE_S)
        self._socket.sendall(b"".join(packets))

    def ack(self, kind: int, packet_id: int, code: int | None = None) -> None:
        """PUBACK, PUBREC, PUBREL or PUBCOMP."""
        self.send(packet(kind, 2 * (kind == PUBREL), struct.pack("!H", packet_id) + (b"" if code is None else bytes((code,)))))

    def disconnect(self, code: int | None = None, properties: Properties | None = None) -> None:
        """DISCONNECT, and wait until the broker closes, so that it knows before the next step."""
        body = b"" if code is None else bytes((code,)) + (b"" if properties is None else encode_properties(properties))
        self.send(packet(DISCONNECT, 0, body))
        self._socket.shutdown(socket.SHUT_WR)
        self.rest()

    def close(self) -> None:
        """Close without a word."""
        self._socket.close()

    def vanish(self) -> None:
        """End the connection as a network failure does: with a reset."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()

    # --- receiving ---

    def read(self, deadline_s: float | None = None) -> Packet:
        """The next packet.

        Raises:
            TimeoutError: there was none within ``deadline_s``.
            Ended: the broker closed the connection.
        """
        return self._held.popleft() if self._held else self._read_on(deadline_s)

    def _read_on(self, deadline_s: float | None = None) -> Packet:
        end_s = time.monotonic() + (PATIENCE_S if deadline_s is None else deadline_s)
        while (found := self._next()) is None:
            self._socket.settimeout(max(0.001, end_s - time.monotonic()))
            try:
                data = self._socket.recv(65_536)
            except ConnectionResetError:
                data = b""
            if not data:
                raise Ended("closed by the broker")
            self._received += data
        return found

    def expect(self, kind: int, packet_id: int | None = None, code: int | None = None) -> Packet:
        """The next packet, which must be of ``kind`` (and carry that packet identifier and reason code)."""
        found = self.read()
        assert found.kind == kind, f"expected kind {kind}, got {found}"
        assert packet_id is None or found.packet_id == packet_id, f"expected packet identifier {packet_id}, got {found}"
        assert code is None or found.code == code, f"expected reason code {code:#x}, got {found}"
        return found

    def rest(self) -> list[Packet]:
        """All packets until the broker closes, which it must."""
        found = []
        try:
            while True:
                found.append(self.read())
        except Ended:
            return found

    def ends_in_order(self) -> bool:
        """Whether the connection ends now, and is not reset."""
        self._socket.settimeout(PATIENCE_S)
        return not self._received and self._socket.recv(1) == b""

    def rest_of_bytes(self) -> bytes:
        """All bytes until the broker closes, whatever they mean."""
        self._socket.settimeout(PATIENCE_S)
        try:
            while data := self._socket.recv(65_536):
                self._received += data
        except ConnectionResetError:
            pass
        return bytes(self._received)

    def expect_end(self, *codes: int) -> int | None:
        """The broker closes now; MQTT 5: after a DISCONNECT with one of ``codes`` or without. That code."""
        found = self.rest()
        assert len(found) <= 1, f"expected the end, got {found}"
        for last in found:
            assert last.kind == DISCONNECT, f"expected the end, got {last}"
            assert last.code in codes, f"expected one of {[hex(code) for code in codes]}, got {last}"
        return found[0].code if found else None

    def expect_refusal(self, *codes: int) -> int | None:
        """The broker closes now, after a CONNACK with one of ``codes`` or without. That code."""
        found = self.rest()
        assert len(found) <= 1, f"expected a refusal, got {found}"
        for last in found:
            assert last.kind == CONNACK, f"expected a refusal, got {last}"
            assert last.code in codes, f"expected one of {[hex(code) for code in codes]}, got {last}"
        return found[0].code if found else None

    # --- exchanges ---

    def answer(self, kind: int, packet_id: int, code: int | None = None) -> Packet:
        """The next packet that is no PUBLISH, which must be this; PUBLISH packets before it are held for ``read``."""
        while (found := self._read_on()).kind == PUBLISH:
            self._held.append(found)
        assert (found.kind, found.packet_id) == (kind, packet_id), f"expected kind {kind} of {packet_id}, got {found}"
        assert code is None or found.code == code, f"expected reason code {code:#x}, got {found}"
        return found

    def take_id(self) -> int:
        """A packet identifier that was not used yet."""
        self._next_id = self._next_id % 65_535 + 1
        return self._next_id

    def ping(self) -> list[Packet]:
        """PINGREQ; what came before the PINGRESP."""
        self.send(b"\xc0\x00")
        before = []
        while (found := self.read()).kind != PINGRESP:
            before.append(found)
        return before

    def subscribe(self, *filters: str, qos: int = 0, options: int = 0, properties: Properties = []) -> Packet:  # noqa: B006
        """SUBSCRIBE; the SUBACK."""
        packet_id = self.take_id()
        self.send(subscribe_bytes(self.version, packet_id, [(one, qos | options) for one in filters], properties))
        return self.answer(SUBACK, packet_id)

    def unsubscribe(self, *filters: str) -> Packet:
        """UNSUBSCRIBE; the UNSUBACK."""
        packet_id = self.take_id()
        self.send(unsubscribe_bytes(self.version, packet_id, filters))
        return self.answer(UNSUBACK, packet_id)

    def publish(
        self,
        topic: str,
        payload: bytes,
        qos: int = 0,
        *,
        retain: bool = False,
        properties: Properties = [],  # noqa: B006
    ) -> Packet | None:
        """PUBLISH and the whole exchange of its QoS; its PUBACK or PUBREC."""
        packet_id = self.take_id() if qos else 0
        self.send(publish_bytes(self.version, topic, payload, qos, packet_id, retain=retain, properties=properties))
        if qos == 0:
            return None
        first = self.answer(PUBACK if qos == 1 else PUBREC, packet_id)
        if qos == 2 and first.code < 0x80:
            self.ack(PUBREL, packet_id)
            self.answer(PUBCOMP, packet_id, 0)
        return first

    def complete(self, message: Packet) -> None:
        """Finish the exchange of a PUBLISH that came."""
        if message.qos == 1:
            self.ack(PUBACK, message.packet_id)
        elif message.qos == 2:
            self.ack(PUBREC, message.packet_id)
            self.answer(PUBREL, message.packet_id, 0)
            self.ack(PUBCOMP, message.packet_id)

    def receive(self) -> Packet:
        """The next packet, which is a PUBLISH; its exchange is finished."""
        message = self.expect(PUBLISH)
        self.complete(message)
        return message

    def receive_until(self, payload: bytes) -> list[Packet]:
        """All messages up to the one with ``payload``, which is not among them; their exchanges are finished."""
        found: list[Packet] = []
        while (message := self.receive()).payload != payload:
            found.append(message)
        return found

    # --- inside ---

    def _next(self) -> Packet | None:
        length = 0
        for at in range(1, min(5, len(self._received))):
            byte = self._received[at]
            length |= (byte & 127) << 7 * (at - 1)
            if byte < 128:
                assert at == len(variable(length)), "a Remaining Length is as short as can be"
                end = at + 1 + length
                if end > len(self._received):
                    return None
                assert end <= self.maximum_packet_size, f"MQTT-3.1.2-24: a packet of {end} bytes"
                data = bytes(self._received[at + 1 : end])
                found = judge(self.version, self._received[0], data)
                del self._received[:end]
                return found
        return None


def codes(message: Packet | None) -> Collection[int]:
    """The reason codes of an answer that must be there."""
    assert message is not None
    return message.codes
