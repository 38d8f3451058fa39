"""Packets to their first byte and body; the entry is ``codec.encode``.

Values from a caller are our own: one that does not fit is a bug, and asserted. Fields that level 4 cannot carry are left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wire.mqtt.packets import (
    MQTT_5_0,
    Auth,
    Connack,
    Connect,
    Disconnect,
    Pingreq,
    Pingresp,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    Unsuback,
    Unsubscribe,
)
from wire.mqtt.primitives import encode_binary, encode_string, encode_variable_byte_integer
from wire.mqtt.properties import Properties, encode_properties


def _properties(properties: Properties, level: int) -> bytes:
    return encode_with_length(encode_properties(properties)) if level >= MQTT_5_0 else b""


def encode_with_length(raw: bytes) -> bytes:
    """``raw`` property bytes behind their length, a variable byte integer (MQTT-2.2.2-1)."""
    return encode_variable_byte_integer(len(raw)) + raw


def _packet_id(packet_id: int) -> bytes:
    assert 0 < packet_id <= 0xFFFF, packet_id
    return packet_id.to_bytes(2, "big")


def _connect(packet: Connect, _level: int) -> tuple[int, bytes]:
    will, level = packet.will, packet.level
    flags = packet.clean_start << 1 | (packet.password is not None) << 6 | (packet.user_name is not None) << 7
    payload = [encode_string(packet.client_id)]
    if will is not None:
        flags |= 0x04 | will.qos << 3 | will.retain << 5
        payload += (_properties(will.properties, level), encode_string(will.topic), encode_binary(will.payload))
    if packet.user_name is not None:
        payload.append(encode_string(packet.user_name))
    if packet.password is not None:
        payload.append(encode_binary(packet.password))
    head = b"\x00\x04MQTT" + bytes((level | packet.bridge << 7, flags)) + packet.keep_alive_s.to_bytes(2, "big")
    return 0x10, head + _properties(packet.properties, level) + b"".join(payload)


def _connack(packet: Connack, level: int) -> tuple[int, bytes]:
    return 0x20, bytes((packet.session_present, packet.reason_code)) + _properties(packet.properties, level)


def _publish(packet: Publish, level: int) -> tuple[int, bytes]:
    packet_id = _packet_id(packet.packet_id) if packet.qos else b""
    first_byte = 0x30 | packet.dup << 3 | packet.qos << 1 | packet.retain
    return first_byte, encode_string(packet.topic) + packet_id + _properties(packet.properties, level) + packet.payload


def _reason(reason_code: int, properties: Properties, level: int) -> bytes:
    """A reason code and properties, cut as short as the specification lets them be."""
    raw = encode_properties(properties) if level >= MQTT_5_0 else b""
    if raw:
        return bytes((reason_code,)) + encode_with_length(raw)
    return bytes((reason_code,)) if reason_code and level >= MQTT_5_0 else b""


def _acknowledgement(first_byte: int) -> Callable[[Any, int], tuple[int, bytes]]:
    def encode_one(packet: Puback | Pubrec | Pubrel | Pubcomp, level: int) -> tuple[int, bytes]:
        return first_byte, _packet_id(packet.packet_id) + _reason(packet.reason_code, packet.properties, level)

    return encode_one


def _subscribe(packet: Subscribe, level: int) -> tuple[int, bytes]:
    parts = [_packet_id(packet.packet_id), _properties(packet.properties, level)]
    for one in packet.subscriptions:
        options = one.qos
        if level >= MQTT_5_0:
            options |= one.no_local << 2 | one.retain_as_published << 3 | one.retain_handling << 4
        parts += (encode_string(one.topic_filter), bytes((options,)))
    return 0x82, b"".join(parts)


def _suback(packet: Suback, level: int) -> tuple[int, bytes]:
    return 0x90, _packet_id(packet.packet_id) + _properties(packet.properties, level) + bytes(packet.reason_codes)


def _unsubscribe(packet: Unsubscribe, level: int) -> tuple[int, bytes]:
    filters = b"".join(map(encode_string, packet.topic_filters))
    return 0xA2, _packet_id(packet.packet_id) + _properties(packet.properties, level) + filters


def _unsuback(packet: Unsuback, level: int) -> tuple[int, bytes]:
    codes = bytes(packet.reason_codes) if level >= MQTT_5_0 else b""
    return 0xB0, _packet_id(packet.packet_id) + _properties(packet.properties, level) + codes


def _pingreq(_packet: Pingreq, _level: int) -> tuple[int, bytes]:
    return 0xC0, b""


def _pingresp(_packet: Pingresp, _level: int) -> tuple[int, bytes]:
    return 0xD0, b""


def _disconnect(packet: Disconnect, level: int) -> tuple[int, bytes]:
    return 0xE0, _reason(packet.reason_code, packet.properties, level)


def _auth(packet: Auth, level: int) -> tuple[int, bytes]:
    assert level >= MQTT_5_0, "AUTH belongs to MQTT 5.0"
    return 0xF0, _reason(packet.reason_code, packet.properties, level)


ENCODERS: dict[type, Callable[[Any, int], tuple[int, bytes]]] = {
    Connect: _connect,
    Connack: _connack,
    Publish: _publish,
    Puback: _acknowledgement(0x40),
    Pubrec: _acknowledgement(0x50),
    Pubrel: _acknowledgement(0x62),
    Pubcomp: _acknowledgement(0x70),
    Subscribe: _subscribe,
    Suback: _suback,
    Unsubscribe: _unsubscribe,
    Unsuback: _unsuback,
    Pingreq: _pingreq,
    Pingresp: _pingresp,
    Disconnect: _disconnect,
    Auth: _auth,
}
