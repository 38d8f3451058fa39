"""The properties of a PUBLISH as raw bytes, without their length prefix: read and changed without being taken apart.

Forwarded properties must arrive unaltered, and user properties in their order (MQTT-3.3.2-4, -15, -16, -17, -20, 3.3.2-18), so the
bytes that came in are kept; only what belongs to one connection (topic alias, subscription identifiers) is cut out of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from wire.mqtt.primitives import PrimitiveReader, encode_string, encode_variable_byte_integer
from wire.mqtt.properties import KINDS, Place, check_value, too_many_user_properties
from wire.mqtt.reason_codes import malformed, protocol_error

_MESSAGE_EXPIRY_INTERVAL = 0x02
_SUBSCRIPTION_IDENTIFIER = 0x0B
_TOPIC_ALIAS = 0x23
_USER_PROPERTY = 0x26
_REPEATED = (_SUBSCRIPTION_IDENTIFIER, _USER_PROPERTY)
_OF_ONE_CONNECTION = (_SUBSCRIPTION_IDENTIFIER, _TOPIC_ALIAS)
_FIXED_BYTES = {0x01: 1, _MESSAGE_EXPIRY_INTERVAL: 4, _TOPIC_ALIAS: 2}


class PublishPropertiesView(NamedTuple):
    """The properties by which a receiver decides. forwardable: the raw bytes without topic alias and subscription identifiers."""

    topic_alias: int | None
    message_expiry_interval: int | None
    subscription_identifiers: tuple[int, ...]
    forwardable: bytes


def validate_publish_properties(raw: bytes, properties_max: int | None = None) -> PublishPropertiesView:
    """Check every property in ``raw`` and read those that matter on the way. More than ``properties_max`` are too many.

    Raises:
        PeerViolation: one is unknown, misplaced, repeated, cut short, or says what it must not; or there are too many.
    """
    reader = PrimitiveReader(raw)
    seen: dict[int, int] = {}
    subscription_identifiers: list[int] = []
    kept: list[bytes] = []
    while reader.left:
        start = reader.position
        identifier = reader.variable_byte_integer()
        kind = KINDS.get(identifier)
        if kind is None or not kind.places & Place.PUBLISH:
            malformed("MQTT-2.2.2.2 property not allowed here", identifier=identifier, place=Place.PUBLISH.name)
        value = kind.form.read(reader)
        check_value(kind, value)
        if identifier in seen and identifier not in _REPEATED:
            protocol_error("MQTT-2.2.2.2 property given twice", property=kind.name)
        seen[identifier] = value
        if identifier == _SUBSCRIPTION_IDENTIFIER:
            subscription_identifiers.append(value)
        if identifier not in _OF_ONE_CONNECTION:
            kept.append(raw[start : reader.position])
            if len(kept) == properties_max and reader.left:
                too_many_user_properties()
    return PublishPropertiesView(
        topic_alias=seen.get(_TOPIC_ALIAS),
        message_expiry_interval=seen.get(_MESSAGE_EXPIRY_INTERVAL),
        subscription_identifiers=tuple(subscription_identifiers),
        forwardable=b"".join(kept),
    )


def message_expiry_s(raw: bytes) -> int | None:
    """The message expiry interval in valid ``raw``, in seconds; None if the message does not expire."""
    position = _find(raw, _MESSAGE_EXPIRY_INTERVAL)
    return None if position < 0 else int.from_bytes(raw[position + 1 : position + 5], "big")


def topic_alias(raw: bytes) -> int | None:
    """The topic alias in valid ``raw``; None if there is none."""
    position = _find(raw, _TOPIC_ALIAS)
    return None if position < 0 else int.from_bytes(raw[position + 1 : position + 3], "big")


def without_connection_properties(raw: bytes) -> bytes:
    """Valid ``raw`` without topic alias and subscription identifiers, which belong to one connection."""
    kept: list[bytes] = []
    position = 0
    while position < len(raw):
        end = _end_of(raw, position)
        if raw[position] not in _OF_ONE_CONNECTION:
            kept.append(raw[position:end])
        position = end
    return b"".join(kept)


def with_message_expiry(raw: bytes, expiry_s: int) -> bytes:
    """Valid ``raw`` with its message expiry interval set to ``expiry_s`` seconds, in place or in front (MQTT-3.3.2-6)."""
    encoded = bytes((_MESSAGE_EXPIRY_INTERVAL,)) + expiry_s.to_bytes(4, "big")
    position = _find(raw, _MESSAGE_EXPIRY_INTERVAL)
    return encoded + raw if position < 0 else raw[:position] + encoded + raw[position + 5 :]


def with_topic_alias(raw: bytes, alias: int) -> bytes:
    """Valid ``raw``, which has no topic alias, with ``alias``, 1 to 65,535 [MQTT-3.3.2-8]."""
    return bytes((_TOPIC_ALIAS,)) + alias.to_bytes(2, "big") + raw


def append_user_properties(raw: bytes, user_properties: Iterable[tuple[str, str]]) -> bytes:
    """Valid ``raw`` with ``user_properties`` behind the ones it has, in order."""
    added = [bytes((_USER_PROPERTY,)) + encode_string(name) + encode_string(value) for name, value in user_properties]
    return raw + b"".join(added)


def with_subscription_identifiers(raw: bytes, identifiers: Iterable[int]) -> bytes:
    """Valid ``raw`` with subscription identifiers behind what it has, in order [MQTT-3.3.4-3, -4]."""
    return raw + b"".join(bytes((_SUBSCRIPTION_IDENTIFIER,)) + encode_variable_byte_integer(each) for each in identifiers)


def one_by_one(raw: bytes) -> Iterator[bytes]:
    """Each property in valid ``raw``, identifier and value, in order."""
    position = 0
    while position < len(raw):
        end = _end_of(raw, position)
        yield raw[position:end]
        position = end


def _find(raw: bytes, identifier: int) -> int:
    """The start of the property ``identifier`` in valid ``raw``; -1 if it is not there."""
    if identifier not in raw:  # most properties are told apart by this alone
        return -1
    position = 0
    while position < len(raw):
        if raw[position] == identifier:
            return position
        position = _end_of(raw, position)
    return -1


def _end_of(raw: bytes, position: int) -> int:
    """The end of the property that starts at ``position`` of valid ``raw``."""
    identifier = raw[position]
    position += 1
    width = _FIXED_BYTES.get(identifier)
    if width is not None:
        return position + width
    if identifier == _SUBSCRIPTION_IDENTIFIER:
        while raw[position] & 0x80:
            position += 1
        return position + 1
    for _ in range(2 if identifier == _USER_PROPERTY else 1):
        position += 2 + (raw[position] << 8 | raw[position + 1])
    return position
