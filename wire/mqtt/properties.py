"""The 27 properties of MQTT 5.0, typed: which there are, where each may stand, what it may say, and their bytes.

``Properties`` is for packets handled one by one. Properties of a PUBLISH on the path of a message are read and changed as raw bytes
in ``publish_properties.py``. Source: MQTT 5.0 section 2.2.2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from enum import IntFlag
from typing import Any, NamedTuple, NoReturn

from wire.errors import PeerViolation
from wire.mqtt.primitives import PrimitiveReader, encode_binary, encode_string, encode_variable_byte_integer
from wire.mqtt.reason_codes import ReasonCode, malformed, protocol_error
from wire.mqtt.topics import topic_fault


class Place(IntFlag):
    """The places where a property may stand: the packets, and the Will inside CONNECT."""

    CONNECT = 1 << 1
    CONNACK = 1 << 2
    PUBLISH = 1 << 3
    PUBACK = 1 << 4
    PUBREC = 1 << 5
    PUBREL = 1 << 6
    PUBCOMP = 1 << 7
    SUBSCRIBE = 1 << 8
    SUBACK = 1 << 9
    UNSUBSCRIBE = 1 << 10
    UNSUBACK = 1 << 11
    DISCONNECT = 1 << 14
    AUTH = 1 << 15
    WILL = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Properties:
    """The properties of one packet; None (or empty) is absent. User properties keep their order and may repeat.

    Intervals are in seconds, sizes in bytes. ``subscription_identifiers`` has at most one entry in a SUBSCRIBE.
    """

    payload_format_indicator: int | None = None
    message_expiry_interval: int | None = None
    content_type: str | None = None
    response_topic: str | None = None
    correlation_data: bytes | None = None
    subscription_identifiers: tuple[int, ...] = ()
    session_expiry_interval: int | None = None
    assigned_client_identifier: str | None = None
    server_keep_alive: int | None = None
    authentication_method: str | None = None
    authentication_data: bytes | None = None
    request_problem_information: int | None = None
    will_delay_interval: int | None = None
    request_response_information: int | None = None
    response_information: str | None = None
    server_reference: str | None = None
    reason_string: str | None = None
    receive_maximum: int | None = None
    topic_alias_maximum: int | None = None
    topic_alias: int | None = None
    maximum_qos: int | None = None
    retain_available: int | None = None
    user_properties: tuple[tuple[str, str], ...] = ()
    maximum_packet_size: int | None = None
    wildcard_subscription_available: int | None = None
    subscription_identifier_available: int | None = None
    shared_subscription_available: int | None = None


NO_PROPERTIES = Properties()


class _Form(NamedTuple):
    """How a value is written and read."""

    encode: Callable[[Any], bytes]
    read: Callable[[PrimitiveReader], Any]


_BYTE = _Form(lambda value: value.to_bytes(1, "big"), lambda reader: reader.integer(1))
_TWO_BYTES = _Form(lambda value: value.to_bytes(2, "big"), lambda reader: reader.integer(2))
_FOUR_BYTES = _Form(lambda value: value.to_bytes(4, "big"), lambda reader: reader.integer(4))
_VARIABLE = _Form(encode_variable_byte_integer, PrimitiveReader.variable_byte_integer)
_BINARY = _Form(encode_binary, PrimitiveReader.binary)
_STRING = _Form(encode_string, PrimitiveReader.string)
_PAIR = _Form(
    lambda pair: encode_string(pair[0]) + encode_string(pair[1]),
    lambda reader: (reader.string(), reader.string()),  # MQTT-1.5.7-1
)

_MESSAGE = Place.PUBLISH | Place.WILL
_SETUP = Place.CONNECT | Place.CONNACK
_ACKNOWLEDGEMENTS = Place.PUBACK | Place.PUBREC | Place.PUBREL | Place.PUBCOMP | Place.SUBACK | Place.UNSUBACK
_EVERYWHERE = ~Place(0)


class PropertyKind(NamedTuple):
    """One row of the table of properties (MQTT 5.0 section 2.2.2.2)."""

    identifier: int
    name: str
    form: _Form
    places: Place


_KINDS = (
    PropertyKind(0x01, "payload_format_indicator", _BYTE, _MESSAGE),
    PropertyKind(0x02, "message_expiry_interval", _FOUR_BYTES, _MESSAGE),
    PropertyKind(0x03, "content_type", _STRING, _MESSAGE),
    PropertyKind(0x08, "response_topic", _STRING, _MESSAGE),
    PropertyKind(0x09, "correlation_data", _BINARY, _MESSAGE),
    PropertyKind(0x0B, "subscription_identifiers", _VARIABLE, Place.PUBLISH | Place.SUBSCRIBE),
    PropertyKind(0x11, "session_expiry_interval", _FOUR_BYTES, _SETUP | Place.DISCONNECT),
    PropertyKind(0x12, "assigned_client_identifier", _STRING, Place.CONNACK),
    PropertyKind(0x13, "server_keep_alive", _TWO_BYTES, Place.CONNACK),
    PropertyKind(0x15, "authentication_method", _STRING, _SETUP | Place.AUTH),
    PropertyKind(0x16, "authentication_data", _BINARY, _SETUP | Place.AUTH),
    PropertyKind(0x17, "request_problem_information", _BYTE, Place.CONNECT),
    PropertyKind(0x18, "will_delay_interval", _FOUR_BYTES, Place.WILL),
    PropertyKind(0x19, "request_response_information", _BYTE, Place.CONNECT),
    PropertyKind(0x1A, "response_information", _STRING, Place.CONNACK),
    PropertyKind(0x1C, "server_reference", _STRING, Place.CONNACK | Place.DISCONNECT),
    PropertyKind(0x1F, "reason_string", _STRING, _ACKNOWLEDGEMENTS | Place.CONNACK | Place.DISCONNECT | Place.AUTH),
    PropertyKind(0x21, "receive_maximum", _TWO_BYTES, _SETUP),
    PropertyKind(0x22, "topic_alias_maximum", _TWO_BYTES, _SETUP),
    PropertyKind(0x23, "topic_alias", _TWO_BYTES, Place.PUBLISH),
    PropertyKind(0x24, "maximum_qos", _BYTE, Place.CONNACK),
    PropertyKind(0x25, "retain_available", _BYTE, Place.CONNACK),
    PropertyKind(0x26, "user_properties", _PAIR, _EVERYWHERE),
    PropertyKind(0x27, "maximum_packet_size", _FOUR_BYTES, _SETUP),
    PropertyKind(0x28, "wildcard_subscription_available", _BYTE, Place.CONNACK),
    PropertyKind(0x29, "subscription_identifier_available", _BYTE, Place.CONNACK),
    PropertyKind(0x2A, "shared_subscription_available", _BYTE, Place.CONNACK),
)
KINDS = {kind.identifier: kind for kind in _KINDS}
_REPEATED = ("subscription_identifiers", "user_properties")
USER_PROPERTIES_MAX = 1_000  # of one packet that is no PUBLISH, or of a local client's: each is looked at by itself

_NOT_ZERO = {
    "subscription_identifiers": "MQTT-3.8.2.1.2 subscription identifier 0",
    "receive_maximum": "MQTT-3.1.2.11.3 receive maximum 0",
    "maximum_packet_size": "MQTT-3.1.2.11.4 maximum packet size 0",
}

assert {kind.name for kind in _KINDS} == {field.name for field in fields(Properties)}


def encode_properties(properties: Properties) -> bytes:
    """The bytes of ``properties`` without their length prefix, in the order of the identifiers."""
    if properties is NO_PROPERTIES:
        return b""
    parts: list[bytes] = []
    for identifier, name, form, _ in _KINDS:
        value = getattr(properties, name)
        if value is None:
            continue
        for item in value if name in _REPEATED else (value,):
            parts += (bytes((identifier,)), form.encode(item))
    return b"".join(parts)


def decode_properties(raw: bytes, place: Place) -> Properties:
    """The properties in ``raw``, which has no length prefix and stands in ``place``.

    Raises:
        PeerViolation: one is unknown, misplaced, repeated, cut short, or says what it must not.
    """
    if not raw:
        return NO_PROPERTIES
    found: dict[str, Any] = {}
    reader = PrimitiveReader(raw)
    while reader.left:
        identifier = reader.variable_byte_integer()
        kind = KINDS.get(identifier)
        if kind is None or not kind.places & place:
            malformed("MQTT-2.2.2.2 property not allowed here", identifier=identifier, place=place.name)
        value = kind.form.read(reader)
        check_value(kind, value)
        if kind.name == "user_properties" or (kind.name == "subscription_identifiers" and place is Place.PUBLISH):
            values = found.setdefault(kind.name, [])
            values.append(value)
            if len(values) > USER_PROPERTIES_MAX and place is not Place.PUBLISH:
                too_many_user_properties()
        elif kind.name in found:
            protocol_error("MQTT-2.2.2.2 property given twice", property=kind.name)
        else:
            found[kind.name] = [value] if kind.name in _REPEATED else value
    for name in _REPEATED:
        if name in found:
            found[name] = tuple(found[name])
    if "authentication_data" in found and "authentication_method" not in found:
        protocol_error("MQTT-3.1.2.11.10 authentication data without a method")
    return Properties(**found)


def too_many_user_properties() -> NoReturn:
    """Refuse a packet for them (0x97)."""
    raise PeerViolation(
        "MQTT-2.2.2.2 more user properties than are taken",
        reason_code=ReasonCode.QUOTA_EXCEEDED,
        user_properties_max=USER_PROPERTIES_MAX,
    )


def check_value(kind: PropertyKind, value: object) -> None:
    """Raises PeerViolation if a property of ``kind`` must not have ``value``."""
    name = kind.name
    if kind.form is _BYTE:
        if value not in (0, 1):
            protocol_error("MQTT-2.2.2.2 property that is neither 0 nor 1", property=name, value=value)
    elif value == 0 and name in _NOT_ZERO:
        protocol_error(_NOT_ZERO[name])
    elif value == 0 and name == "topic_alias":
        raise PeerViolation("MQTT-3.3.2-8 topic alias 0", reason_code=ReasonCode.TOPIC_ALIAS_INVALID)
    elif name == "response_topic":
        assert isinstance(value, str)
        if topic_fault(value) is not None:
            protocol_error("MQTT-3.3.2-14 response topic that is not a topic name")
