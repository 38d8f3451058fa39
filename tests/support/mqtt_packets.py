"""MQTT 3.1.1 and 5.0 as the tests write and read it: bytes of packets, and the judge of every packet that comes in.

It shares no code with the product, so that it can judge it. ``judge`` takes a packet apart by hand and holds it against the rules
that every packet of its kind must keep, as a Client or as a Server sends it. A broken one is an AssertionError.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum

CONNECT, CONNACK, PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP = range(1, 8)
SUBSCRIBE, SUBACK, UNSUBSCRIBE, UNSUBACK, PINGREQ, PINGRESP, DISCONNECT, AUTH = range(8, 16)

PAYLOAD_FORMAT, MESSAGE_EXPIRY, CONTENT_TYPE, RESPONSE_TOPIC, CORRELATION_DATA = 0x01, 0x02, 0x03, 0x08, 0x09
SUBSCRIPTION_IDENTIFIER, SESSION_EXPIRY, ASSIGNED_CLIENT_ID, SERVER_KEEP_ALIVE, AUTH_METHOD = 0x0B, 0x11, 0x12, 0x13, 0x15
AUTH_DATA, REQUEST_PROBLEM, WILL_DELAY, REQUEST_RESPONSE, RESPONSE_INFORMATION = 0x16, 0x17, 0x18, 0x19, 0x1A
SERVER_REFERENCE, REASON_STRING, RECEIVE_MAXIMUM, ALIAS_MAXIMUM, TOPIC_ALIAS, MAXIMUM_QOS = 0x1C, 0x1F, 0x21, 0x22, 0x23, 0x24
RETAIN_AVAILABLE, USER_PROPERTY, MAXIMUM_PACKET_SIZE = 0x25, 0x26, 0x27
WILDCARDS_AVAILABLE, IDENTIFIERS_AVAILABLE, SHARED_AVAILABLE = 0x28, 0x29, 0x2A

Value = int | bytes | str | tuple[str, str]
Properties = list[tuple[int, Value]]


class Sender(Enum):
    """The sender of the packet."""

    CLIENT = "Client"
    SERVER = "Server"


_FLAGS = {PAYLOAD_FORMAT, REQUEST_PROBLEM, REQUEST_RESPONSE, MAXIMUM_QOS, RETAIN_AVAILABLE}
_FLAGS |= {WILDCARDS_AVAILABLE, IDENTIFIERS_AVAILABLE, SHARED_AVAILABLE}
_SIZES = dict.fromkeys(_FLAGS, 1) | dict.fromkeys((SERVER_KEEP_ALIVE, RECEIVE_MAXIMUM, ALIAS_MAXIMUM, TOPIC_ALIAS), 2)
_SIZES |= dict.fromkeys((MESSAGE_EXPIRY, SESSION_EXPIRY, WILL_DELAY, MAXIMUM_PACKET_SIZE), 4)
_BINARY = {CORRELATION_DATA, AUTH_DATA}
_NOT_ZERO = {SUBSCRIPTION_IDENTIFIER, RECEIVE_MAXIMUM, TOPIC_ALIAS, MAXIMUM_PACKET_SIZE}

# Properties that may be in each packet; those that come with a message are an application's.
_MESSAGE = {PAYLOAD_FORMAT, MESSAGE_EXPIRY, CONTENT_TYPE, RESPONSE_TOPIC, CORRELATION_DATA, USER_PROPERTY}
_WILL = 0  # stands for the kind where there are the properties of a Will
_OF_BOTH: dict[int, set[int]] = {
    AUTH: {AUTH_METHOD, AUTH_DATA, REASON_STRING, USER_PROPERTY},
} | {kind: {REASON_STRING, USER_PROPERTY} for kind in (PUBACK, PUBREC, PUBREL, PUBCOMP)}
_ALLOWED: dict[Sender, dict[int, set[int]]] = {
    Sender.SERVER: _OF_BOTH
    | {
        CONNACK: {
            *(
                SESSION_EXPIRY,
                ASSIGNED_CLIENT_ID,
                SERVER_KEEP_ALIVE,
                AUTH_METHOD,
                AUTH_DATA,
                RESPONSE_INFORMATION,
                SERVER_REFERENCE,
            ),
            *(REASON_STRING, RECEIVE_MAXIMUM, ALIAS_MAXIMUM, MAXIMUM_QOS, RETAIN_AVAILABLE, USER_PROPERTY, MAXIMUM_PACKET_SIZE),
            *(WILDCARDS_AVAILABLE, IDENTIFIERS_AVAILABLE, SHARED_AVAILABLE),
        },
        PUBLISH: _MESSAGE | {SUBSCRIPTION_IDENTIFIER, TOPIC_ALIAS},
        SUBACK: {REASON_STRING, USER_PROPERTY},
        UNSUBACK: {REASON_STRING, USER_PROPERTY},
        DISCONNECT: {SERVER_REFERENCE, REASON_STRING, USER_PROPERTY},  # no Session Expiry Interval: MQTT-3.14.2-2
    },
    Sender.CLIENT: _OF_BOTH
    | {
        CONNECT: {
            *(SESSION_EXPIRY, AUTH_METHOD, AUTH_DATA, REQUEST_PROBLEM, REQUEST_RESPONSE, RECEIVE_MAXIMUM, ALIAS_MAXIMUM),
            *(USER_PROPERTY, MAXIMUM_PACKET_SIZE),
        },
        _WILL: _MESSAGE | {WILL_DELAY},
        PUBLISH: _MESSAGE | {TOPIC_ALIAS},  # no Subscription Identifier: MQTT-3.3.4-6
        SUBSCRIBE: {SUBSCRIPTION_IDENTIFIER, USER_PROPERTY},
        UNSUBSCRIBE: {USER_PROPERTY},
        DISCONNECT: {SESSION_EXPIRY, REASON_STRING, USER_PROPERTY},
    },
}
_TAKEN = {0x00, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99}
_ENDED = {0x00, 0x92}
_REASONS: dict[Sender, dict[int, set[int]]] = {
    Sender.SERVER: {
        CONNACK: {0, *range(0x80, 0x8B), 0x8C, 0x90, 0x95, 0x97, 0x99, 0x9A, 0x9B, 0x9C, 0x9D, 0x9F},
        PUBACK: _TAKEN | {0x10},
        PUBREC: _TAKEN | {0x10},
        PUBREL: _ENDED,
        PUBCOMP: _ENDED,
        SUBACK: {0, 1, 2, 0x80, 0x83, 0x87, 0x8F, 0x91, 0x97, 0x9E, 0xA1, 0xA2},
        UNSUBACK: {0x00, 0x11, 0x80, 0x83, 0x87, 0x8F, 0x91},
        DISCONNECT: {0, 0x80, 0x81, 0x82, 0x83, 0x87, 0x89, 0x8B, 0x8D, 0x8E, 0x8F, 0x90, *range(0x93, 0xA3)},
        AUTH: {0x00, 0x18},
    },
    Sender.CLIENT: {
        PUBACK: _TAKEN,
        PUBREC: _TAKEN,
        PUBREL: _ENDED,
        PUBCOMP: _ENDED,
        DISCONNECT: {0, 0x04, 0x80, 0x81, 0x82, 0x83, 0x90, *range(0x93, 0x9A)},
        AUTH: {0x18, 0x19},
    },
}
_CODES_311 = {CONNACK: set(range(6)), SUBACK: {0, 1, 2, 0x80}}
_ACKNOWLEDGEMENTS = {PUBACK, PUBREC, PUBREL, PUBCOMP}
_KINDS = {
    Sender.SERVER: {CONNACK, PUBLISH, *_ACKNOWLEDGEMENTS, SUBACK, UNSUBACK, PINGRESP, DISCONNECT, AUTH},
    Sender.CLIENT: {CONNECT, PUBLISH, *_ACKNOWLEDGEMENTS, SUBSCRIBE, UNSUBSCRIBE, PINGREQ, DISCONNECT, AUTH},
}
_KINDS_311 = {Sender.SERVER: _KINDS[Sender.SERVER] - {DISCONNECT, AUTH}, Sender.CLIENT: _KINDS[Sender.CLIENT] - {AUTH}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Will:
    """The Will of a CONNECT."""

    topic: str
    payload: bytes = b"will"
    qos: int = 0
    retain: bool = False
    properties: Properties = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Connect:
    """Fields that only a CONNECT has. clean: Clean Session of MQTT 3.1.1, Clean Start of MQTT 5.0.

    bridge: its protocol level has the bit by which Mosquitto's bridges of 3.1.1 say that they are bridges.
    """

    version: int
    clean: bool
    keep_alive_s: int
    client_id: str
    will: Will | None
    username: str | None
    password: bytes | None
    bridge: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Packet:
    """A packet; fields that its kind does not have keep their defaults.

    filters: of SUBSCRIBE and UNSUBSCRIBE, with the byte of options (0 in an UNSUBSCRIBE).
    """

    kind: int
    flags: int = 0
    packet_id: int = 0
    reason_codes: tuple[int, ...] = (0,)
    session_present: bool = False
    topic: str = ""
    payload: bytes = b""
    properties: Properties = field(default_factory=list)
    filters: tuple[tuple[str, int], ...] = ()
    connect: Connect | None = None

    @property
    def reason_code(self) -> int:
        """The only or first reason code (3.1.1: return code); 0 where the packet has none."""
        return self.reason_codes[0] if self.reason_codes else 0

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
        return [value for value in self.all(USER_PROPERTY) if isinstance(value, tuple)]

    def all(self, identifier: int) -> list[Value]:
        """The values of property ``identifier``, in order."""
        return [value for known, value in self.properties if known == identifier]

    def property(self, identifier: int) -> Value | None:
        """The first value of property ``identifier``, or None."""
        return next((value for known, value in self.properties if known == identifier), None)

    def number(self, identifier: int, default: int) -> int:
        """The number in property ``identifier``."""
        value = self.property(identifier)
        assert value is None or isinstance(value, int)
        return default if value is None else value


# --- writing ---


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


def encode_properties(properties: Sequence[tuple[int, Value]]) -> bytes:
    """Properties with their length prefix."""
    out = bytearray()
    for identifier, value in properties:
        out.append(identifier)
        if isinstance(value, int):
            out += variable(value) if identifier == SUBSCRIPTION_IDENTIFIER else value.to_bytes(_SIZES.get(identifier, 4), "big")
        elif isinstance(value, tuple):
            out += string(value[0]) + string(value[1])
        else:
            out += string(value)
    return variable(len(out)) + bytes(out)


def packet_bytes(kind: int, flags: int = 0, body: bytes = b"") -> bytes:
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
    password: str | bytes | None = None,
    properties: Sequence[tuple[int, Value]] = (),
    flags: int | None = None,
) -> bytes:
    """A CONNECT; ``flags`` replaces the right Connect Flags."""
    right = 2 * clean | 0x80 * (username is not None) | 0x40 * (password is not None)
    if will is not None:
        right |= 4 | will.qos << 3 | 0x20 * will.retain
    body = string("MQTT") + bytes((version, right if flags is None else flags)) + struct.pack("!H", keep_alive_s)
    body += _properties(version, properties) + string(client_id)
    if will is not None:
        body += _properties(version, will.properties) + string(will.topic) + string(will.payload)
    for word in (username, password):
        body += b"" if word is None else string(word)
    return packet_bytes(CONNECT, 0, body)


def connack_bytes(
    version: int, *, session_present: bool = False, reason_code: int = 0, properties: Sequence[tuple[int, Value]] = ()
) -> bytes:
    """A CONNACK."""
    return packet_bytes(CONNACK, 0, bytes((session_present, reason_code)) + _properties(version, properties))


def publish_bytes(
    version: int,
    topic: str | bytes,
    payload: bytes | str,
    qos: int = 0,
    packet_id: int = 0,
    *,
    retain: bool = False,
    dup: bool = False,
    properties: Sequence[tuple[int, Value]] = (),
) -> bytes:
    """A PUBLISH."""
    body = string(topic) + (struct.pack("!H", packet_id) if qos else b"") + _properties(version, properties)
    return packet_bytes(PUBLISH, 8 * dup | qos << 1 | retain, body + (payload.encode() if isinstance(payload, str) else payload))


def acknowledge_bytes(kind: int, packet_id: int, reason_code: int | None = None) -> bytes:
    """A PUBACK, PUBREC, PUBREL or PUBCOMP."""
    reason = b"" if reason_code is None else bytes((reason_code,))
    return packet_bytes(kind, 2 * (kind == PUBREL), struct.pack("!H", packet_id) + reason)


def subscribe_bytes(
    version: int,
    packet_id: int,
    filters: Iterable[tuple[str | bytes, int]],
    properties: Sequence[tuple[int, Value]] = (),
) -> bytes:
    """A SUBSCRIBE of (filter, options byte) pairs."""
    body = struct.pack("!H", packet_id) + _properties(version, properties)
    return packet_bytes(SUBSCRIBE, 2, body + b"".join(string(one) + bytes((options,)) for one, options in filters))


def suback_bytes(version: int, packet_id: int, reason_codes: Iterable[int]) -> bytes:
    """A SUBACK."""
    return packet_bytes(SUBACK, 0, struct.pack("!H", packet_id) + _properties(version, ()) + bytes(reason_codes))


def unsubscribe_bytes(version: int, packet_id: int, filters: Iterable[str | bytes]) -> bytes:
    """An UNSUBSCRIBE."""
    return packet_bytes(UNSUBSCRIBE, 2, struct.pack("!H", packet_id) + _properties(version, ()) + b"".join(map(string, filters)))


def _properties(version: int, properties: Sequence[tuple[int, Value]]) -> bytes:
    return encode_properties(properties) if version == 5 else b""


# --- reading ---


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

    def binary(self) -> bytes:
        return self.take(self.number(2))

    def text(self) -> str:
        try:
            read = self.binary().decode()  # strict: no surrogates [MQTT-1.5.3-1] [MQTT-1.5.4-1]
        except UnicodeDecodeError as error:
            raise AssertionError(f"MQTT-1.5.3-1, MQTT-1.5.4-1: {error}") from error
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

    def properties(self, allowed: set[int]) -> Properties:
        inner = _Body(self.take(self.variable()))
        found: Properties = []
        while inner.left:
            identifier = inner.number(1)
            assert identifier in allowed, f"property {identifier:#x}, where only {sorted(map(hex, allowed))} may be"
            again = any(known == identifier for known, _ in found)
            often = identifier == USER_PROPERTY or (identifier == SUBSCRIPTION_IDENTIFIER and TOPIC_ALIAS in allowed)  # in PUBLISH
            assert often or not again, f"property {identifier:#x} twice"
            value = inner._value(identifier)
            assert value or identifier not in _NOT_ZERO, f"property {identifier:#x} is 0"
            assert identifier not in _FLAGS or value in (0, 1), f"property {identifier:#x} is {value!r}"
            assert identifier != RESPONSE_TOPIC or not (isinstance(value, str) and set(value) & {"+", "#"}), "MQTT-3.3.2-14"
            found.append((identifier, value))
        known = {identifier for identifier, _ in found}
        assert AUTH_DATA not in known or AUTH_METHOD in known, "authentication data without a method"
        return found

    def _value(self, identifier: int) -> Value:
        if identifier in _SIZES:
            return self.number(_SIZES[identifier])
        if identifier == SUBSCRIPTION_IDENTIFIER:
            return self.variable()
        if identifier == USER_PROPERTY:
            return self.text(), self.text()
        return self.binary() if identifier in _BINARY else self.text()


def judge(version: int, head: int, data: bytes, sender: Sender = Sender.SERVER) -> Packet:
    """Take a packet apart and hold it against the rules for every packet of its kind that ``sender`` may send.

    version: 4 (3.1.1) or 5; a CONNECT brings its own.
    """
    kind, flags, body = head >> 4, head & 15, _Body(data)
    kinds = (_KINDS if version == 5 or kind == CONNECT else _KINDS_311)[sender]
    assert kind in kinds, f"a {sender.value} does not send packets of kind {kind} with version {version}"
    if kind == PUBLISH:
        found = _publish(version, flags, body, sender)
    else:
        wanted = 2 if kind in (PUBREL, SUBSCRIBE, UNSUBSCRIBE) else 0
        assert flags == wanted, f"MQTT-2.2.2-1, MQTT-2.1.3-1: flags {flags} of kind {kind}"
        if kind == CONNECT:
            found = _connect(body)
        elif kind in (SUBSCRIBE, UNSUBSCRIBE):
            found = _filters(version, kind, body)
        else:
            found = _answer(version, kind, flags, body, sender)
    assert not body.left, f"{body.left} bytes too many in a packet of kind {kind}"
    return found


def _publish(version: int, flags: int, body: _Body, sender: Sender) -> Packet:
    assert flags >> 1 & 3 != 3, "MQTT-3.3.1-4"
    assert flags & 6 or not flags & 8, "MQTT-3.3.1-2"
    topic = body.text()
    assert "+" not in topic, "MQTT-3.3.2-2"
    assert "#" not in topic, "MQTT-3.3.2-2"
    packet_id = body.number(2) if flags & 6 else 0
    assert packet_id or not flags & 6, "MQTT-2.3.1-1, MQTT-2.2.1-4"
    properties = body.properties(_ALLOWED[sender][PUBLISH]) if version == 5 else []
    assert topic or any(identifier == TOPIC_ALIAS for identifier, _ in properties), "MQTT-4.7.3-1"
    payload = body.take(body.left)
    return Packet(kind=PUBLISH, flags=flags, packet_id=packet_id, topic=topic, payload=payload, properties=properties)


def _answer(version: int, kind: int, flags: int, body: _Body, sender: Sender) -> Packet:
    """Every kind but PUBLISH, CONNECT, SUBSCRIBE and UNSUBSCRIBE."""
    five, packet_id, present = version == 5, 0, False
    codes: tuple[int, ...] = (0,)
    properties: Properties = []
    allowed = _ALLOWED[sender].get(kind, set())
    if kind == CONNACK:
        acknowledge = body.number(1)
        assert acknowledge < 2, "MQTT-3.2.2-1"
        present, codes = bool(acknowledge), (body.number(1),)
        five = five and bool(body.left)  # a broker that knows no MQTT 5.0 says so in its own version
        assert five or version != 5 or codes == (1,), "MQTT5-3.2.2"
        properties = body.properties(allowed) if five else []
        assert not (present and codes[0]), "MQTT-3.2.2-4, MQTT-3.2.2-6"
    elif kind in (PUBACK, PUBREC, PUBREL, PUBCOMP, SUBACK, UNSUBACK):
        packet_id = body.number(2)
        assert packet_id, "MQTT-2.3.1-1, MQTT-2.2.1-3: no packet had that identifier"
    if kind in (SUBACK, UNSUBACK):
        properties = body.properties(allowed) if five else []
        codes = tuple(body.take(body.left))
        assert bool(codes) == (kind == SUBACK or five), f"MQTT-3.8.4-6, MQTT-3.11.3-1: {len(codes)} reason codes in kind {kind}"
    elif kind in (*_ACKNOWLEDGEMENTS, DISCONNECT, AUTH) and five and body.left:
        codes = (body.number(1),)
        properties = body.properties(allowed) if body.left else []
    legal = _REASONS[sender].get(kind) if five else _CODES_311.get(kind)
    assert legal is None or set(codes) <= legal, f"reason codes {codes} in a packet of kind {kind}"
    return Packet(kind=kind, flags=flags, packet_id=packet_id, reason_codes=codes, session_present=present, properties=properties)


def _filters(version: int, kind: int, body: _Body) -> Packet:
    packet_id = body.number(2)
    assert packet_id, "MQTT-2.3.1-1, MQTT-2.2.1-3"
    properties = body.properties(_ALLOWED[Sender.CLIENT][kind]) if version == 5 else []
    filters = []
    while body.left:
        topic_filter, options = body.text(), body.number(1) if kind == SUBSCRIBE else 0
        assert _is_filter(topic_filter), f"{topic_filter!r}: MQTT-4.7.1-2, MQTT-4.7.1-3, MQTT-4.7.3-1, MQTT-4.8.2-1, MQTT-4.8.2-2"
        assert options & 3 != 3, "MQTT-3.8.3-4: QoS 3"
        assert not options & (0xC0 if version == 5 else 0xFC), "MQTT-3-8.3-4, MQTT-3.8.3-5: reserved bits"
        assert options >> 4 & 3 != 3, "Retain Handling 3"
        assert not (topic_filter.startswith("$share/") and options & 4), "MQTT-3.8.3-4: No Local on a Shared Subscription"
        filters.append((topic_filter, options))
    assert filters, "MQTT-3.8.3-3, MQTT-3.10.3-2: without a filter"
    return Packet(kind=kind, flags=2, packet_id=packet_id, properties=properties, filters=tuple(filters))


def _is_filter(topic_filter: str) -> bool:
    if topic_filter.startswith("$share/"):
        _, name, topic_filter = (*topic_filter.split("/", 2), "")[:3]
        if not name or set(name) & {"+", "#"}:
            return False
    levels = topic_filter.split("/")
    alone = all(level in ("+", "#") or not set(level) & {"+", "#"} for level in levels)
    return bool(topic_filter) and alone and "#" not in levels[:-1]


_BRIDGE = 0x80


def _connect(body: _Body) -> Packet:
    assert body.text() == "MQTT", "MQTT-3.1.2-1"
    version, flags, keep_alive_s = body.number(1), body.number(1), body.number(2)
    assert version in (4, 4 | _BRIDGE, 5), f"MQTT-3.1.2-2: protocol version {version}"
    version, bridge = version & ~_BRIDGE, bool(version & _BRIDGE)
    five, allowed = version == 5, _ALLOWED[Sender.CLIENT]
    assert not flags & 1, "MQTT-3.1.2-3: the reserved flag"
    assert flags & 4 or not flags & 0x38, "MQTT-3.1.2-11, MQTT-3.1.2-13, MQTT-3.1.2-15: of a Will that is not there"
    assert flags >> 3 & 3 != 3, "MQTT-3.1.2-14, MQTT-3.1.2-12: QoS 3 of a Will"
    assert five or flags & 0x80 or not flags & 0x40, "MQTT-3.1.2-22: a password without a user name"
    properties = body.properties(allowed[CONNECT]) if five else []
    client_id = body.text()
    assert five or client_id or flags & 2, "MQTT-3.1.3-7"
    will = None
    if flags & 4:
        of_will = body.properties(allowed[_WILL]) if five else []
        topic, payload = body.text(), body.binary()
        assert topic, "MQTT-4.7.3-1"
        assert not set(topic) & {"+", "#"}, "MQTT-3.3.2-2, of a Will"
        will = Will(topic=topic, payload=payload, qos=flags >> 3 & 3, retain=bool(flags & 0x20), properties=of_will)
    connect = Connect(
        version=version,
        clean=bool(flags & 2),
        keep_alive_s=keep_alive_s,
        client_id=client_id,
        will=will,
        username=body.text() if flags & 0x80 else None,
        password=body.binary() if flags & 0x40 else None,
        bridge=bridge,
    )
    return Packet(kind=CONNECT, properties=properties, connect=connect)


def missing(data: bytes | bytearray) -> int:
    """How many bytes of its packet surely follow the beginning ``data``; 0 or less: it is whole, and so much is behind it."""
    length = 0
    for at in range(1, min(5, len(data))):
        length |= (data[at] & 127) << 7 * (at - 1)
        if data[at] < 128:
            assert at == len(variable(length)), "a Remaining Length is as short as can be"
            return at + 1 + length - len(data)
    assert len(data) < 5, f"a Remaining Length of more than four bytes: {bytes(data[:5])!r}"
    return max(1, 2 - len(data))


class PacketReader:
    """Packets out of the bytes that ``sender`` sends on one connection, each judged.

    version: replaced by that of a CONNECT. maximum_packet_size: bytes that a packet may have.
    """

    def __init__(self, sender: Sender, version: int = 4) -> None:
        self.version = version
        self.maximum_packet_size = 0xFFFFFFFF
        self.data = bytearray()  # that came and was not taken
        self.taken_bytes = 0
        self._sender = sender

    def feed(self, data: bytes) -> None:
        """More bytes came."""
        self.data += data

    def next(self) -> Packet | None:
        """The next packet if it is whole."""
        raw = self.next_raw()
        if raw is None:
            return None
        found = judge(self.version, *raw, self._sender)
        if found.connect is not None:
            self.version = found.connect.version
        return found

    def next_raw(self) -> tuple[int, bytes] | None:
        """The first byte and the body of the next packet if it is whole; only its length is judged."""
        behind = -missing(self.data)
        if behind < 0:
            return None
        end = len(self.data) - behind
        assert end <= self.maximum_packet_size, f"MQTT-3.1.2-24: a packet of {end} bytes"
        begin = 2
        while self.data[begin - 1] & 128:
            begin += 1
        raw = self.data[0], bytes(self.data[begin:end])
        del self.data[:end]
        self.taken_bytes += end
        return raw

    def all(self) -> list[Packet]:
        """Every packet that is whole."""
        return list(iter(self.next, None))


class Conversation:
    """One connection as a ``Proxy`` sees it pass: each way by itself, at the protocol version of its CONNECT."""

    def __init__(self) -> None:
        self._up, self._down = PacketReader(Sender.CLIENT), PacketReader(Sender.SERVER)

    def passed_up(self, data: bytes) -> list[Packet]:
        """The packets of the client that ``data`` completes."""
        self._up.feed(data)
        found = self._up.all()
        self._down.version = self._up.version
        return found

    def came_down(self, data: bytes) -> list[Packet]:
        """The packets of the server that ``data`` completes."""
        self._down.feed(data)
        return self._down.all()
