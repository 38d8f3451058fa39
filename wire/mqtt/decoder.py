"""Packet bodies to packets, strictly: what breaks a rule that the packet alone can break raises ``PeerViolation``.

The entry is ``codec.decode``. Rules that depend on who sent it, on the session or on the order of packets are the caller's to
judge: CONNECT first and once, a subscription identifier from a client, topic aliases, an empty client identifier.
"""

from __future__ import annotations

from collections.abc import Callable

from wire.errors import PeerViolation
from wire.mqtt.packets import (
    BRIDGE_BIT,
    MQTT_3_1_1,
    MQTT_5_0,
    Auth,
    Connack,
    Connect,
    Disconnect,
    Packet,
    Pingreq,
    Pingresp,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    Subscription,
    Unsuback,
    Unsubscribe,
    Will,
)
from wire.mqtt.primitives import PrimitiveReader
from wire.mqtt.properties import NO_PROPERTIES, Place, Properties, decode_properties
from wire.mqtt.reason_codes import (
    AUTH_CODES,
    CONNACK_CODES,
    DISCONNECT_CODES,
    PUBACK_CODES,
    PUBREL_CODES,
    SUBACK_CODES,
    SUBACK_CODES_3_1_1,
    UNSUBACK_CODES,
    ConnectReturnCode,
    ReasonCode,
    UnsupportedProtocol,
    malformed,
    protocol_error,
)
from wire.mqtt.topics import check_filter, check_topic, is_shared

FILTERS_MAX = 10_000  # of one SUBSCRIBE or UNSUBSCRIBE: each is looked at by itself


def _check_count(count: int) -> None:
    if count > FILTERS_MAX:
        raise PeerViolation(
            "MQTT-3.8.3 more topic filters than are taken", reason_code=ReasonCode.QUOTA_EXCEEDED, filters_max=FILTERS_MAX
        )


def _properties(reader: PrimitiveReader, level: int, place: Place) -> Properties:
    if level < MQTT_5_0:
        return NO_PROPERTIES
    return decode_properties(reader.take(reader.variable_byte_integer()), place)


def _packet_id(reader: PrimitiveReader) -> int:
    packet_id = reader.integer(2)
    if packet_id == 0:
        protocol_error("MQTT-2.2.1-3 packet identifier 0")
    return packet_id


def _reason_code(reader: PrimitiveReader, allowed: frozenset[int], clause: str) -> ReasonCode:
    code = reader.integer(1)
    if code not in allowed:
        protocol_error(f"{clause} reason code not allowed here", code=code)
    return ReasonCode(code)


def _connect(reader: PrimitiveReader, _level: int) -> Connect:
    name = reader.binary()
    level = reader.integer(1)
    if name != b"MQTT":
        raise UnsupportedProtocol("MQTT-3.1.2-1 protocol name that is not MQTT", level=level)
    if bridge := level == MQTT_3_1_1 | BRIDGE_BIT:
        level = MQTT_3_1_1
    if level not in (MQTT_3_1_1, MQTT_5_0):
        raise UnsupportedProtocol("MQTT-3.1.2-2 protocol level that is not spoken here", level=level)
    flags = reader.integer(1)
    _check_connect_flags(flags, level)
    keep_alive_s = reader.integer(2)
    properties = _properties(reader, level, Place.CONNECT)
    client_id = reader.string()
    return Connect(
        level=level,
        client_id=client_id,
        clean_start=bool(flags & 0x02),
        keep_alive_s=keep_alive_s,
        properties=properties,
        will=_will(reader, flags, level) if flags & 0x04 else None,
        user_name=reader.string() if flags & 0x80 else None,
        password=reader.binary() if flags & 0x40 else None,
        bridge=bridge,
    )


def _check_connect_flags(flags: int, level: int) -> None:
    if flags & 0x01:
        malformed("MQTT-3.1.2-3 reserved flag of CONNECT")
    if flags & 0x18 == 0x18:
        malformed("MQTT-3.1.2-12 Will QoS 3")
    if not flags & 0x04 and flags & 0x18:
        malformed("MQTT-3.1.2-11 Will QoS without a Will")
    if not flags & 0x04 and flags & 0x20:
        malformed("MQTT-3.1.2-13 Will Retain without a Will")
    if level < MQTT_5_0 and flags & 0xC0 == 0x40:
        malformed("MQTT-3.1.2-22 (3.1.1) password without a user name")


def _will(reader: PrimitiveReader, flags: int, level: int) -> Will:
    return Will(
        properties=_properties(reader, level, Place.WILL),
        topic=check_topic(reader.binary()),
        payload=reader.binary(),
        qos=flags >> 3 & 3,
        retain=bool(flags & 0x20),
    )


def _connack(reader: PrimitiveReader, level: int) -> Connack:
    flags = reader.integer(1)
    if flags & 0xFE:
        malformed("MQTT-3.2.2-1 reserved flags of CONNACK")
    reason_code: int
    if level >= MQTT_5_0:
        reason_code = _reason_code(reader, CONNACK_CODES, "MQTT-3.2.2-8")
    else:
        reason_code = reader.integer(1)
        if reason_code > ConnectReturnCode.NOT_AUTHORIZED:
            protocol_error("MQTT-3.2.2-6 (3.1.1) reserved return code", code=reason_code)
        reason_code = ConnectReturnCode(reason_code)
    if flags and reason_code:
        protocol_error("MQTT-3.2.2-6 session present in a refusal")
    return Connack(session_present=bool(flags), reason_code=reason_code, properties=_properties(reader, level, Place.CONNACK))


def decode_publish(first_byte: int, reader: PrimitiveReader, level: int) -> Publish:
    qos, dup = first_byte >> 1 & 3, bool(first_byte & 0x08)
    if qos == 3:
        malformed("MQTT-3.3.1-4 QoS 3")
    if dup and not qos:
        malformed("MQTT-3.3.1-2 DUP at QoS 0")
    topic = reader.binary()
    packet_id = _packet_id(reader) if qos else 0
    properties = _properties(reader, level, Place.PUBLISH)
    if not topic and properties.topic_alias is not None:
        name = ""
    elif not topic and level >= MQTT_5_0:
        protocol_error("MQTT-3.3.2.1 empty topic name without a topic alias")
    else:
        name = check_topic(topic)
    return Publish(
        topic=name,
        payload=reader.rest(),
        qos=qos,
        retain=bool(first_byte & 1),
        dup=dup,
        packet_id=packet_id,
        properties=properties,
    )


def _acknowledgement(
    cls: type[Puback] | type[Pubrec] | type[Pubrel] | type[Pubcomp], allowed: frozenset[int], clause: str, place: Place
) -> Callable[[PrimitiveReader, int], Packet]:
    def decode_one(reader: PrimitiveReader, level: int) -> Packet:
        packet_id = _packet_id(reader)
        if level < MQTT_5_0 or not reader.left:
            return cls(packet_id=packet_id)
        reason_code = _reason_code(reader, allowed, clause)
        properties = _properties(reader, level, place) if reader.left else NO_PROPERTIES
        return cls(packet_id=packet_id, reason_code=reason_code, properties=properties)

    return decode_one


def _subscribe(reader: PrimitiveReader, level: int) -> Subscribe:
    packet_id = _packet_id(reader)
    properties = _properties(reader, level, Place.SUBSCRIBE)
    subscriptions = []
    while reader.left:
        subscriptions.append(_subscription(reader, level))
        _check_count(len(subscriptions))
    if not subscriptions:
        protocol_error("MQTT-3.8.3-2 SUBSCRIBE without a topic filter")
    return Subscribe(packet_id=packet_id, properties=properties, subscriptions=tuple(subscriptions))


def _subscription(reader: PrimitiveReader, level: int) -> Subscription:
    topic_filter = reader.string()
    check_filter(topic_filter)
    options = reader.integer(1)
    if options & (0xC0 if level >= MQTT_5_0 else 0xFC):
        malformed("MQTT-3.8.3-5 reserved bits of the subscription options")
    if options & 3 == 3:
        protocol_error("MQTT-3.8.3.1 subscription at QoS 3")
    if options & 0x30 == 0x30:
        protocol_error("MQTT-3.8.3.1 retain handling 3")
    no_local = bool(options & 0x04)
    if no_local and is_shared(topic_filter):
        protocol_error("MQTT-3.8.3-4 No Local on a shared subscription")
    return Subscription(
        topic_filter=topic_filter,
        qos=options & 3,
        no_local=no_local,
        retain_as_published=bool(options & 0x08),
        retain_handling=options >> 4,
    )


def _reason_codes(reader: PrimitiveReader, allowed: frozenset[int], clause: str) -> tuple[ReasonCode, ...]:
    codes = []
    while reader.left:
        codes.append(_reason_code(reader, allowed, clause))
    if not codes:
        protocol_error(f"{clause} no reason code")
    return tuple(codes)


def _suback(reader: PrimitiveReader, level: int) -> Suback:
    allowed = SUBACK_CODES if level >= MQTT_5_0 else SUBACK_CODES_3_1_1
    return Suback(
        packet_id=_packet_id(reader),
        properties=_properties(reader, level, Place.SUBACK),
        reason_codes=_reason_codes(reader, allowed, "MQTT-3.9.3-2"),
    )


def _unsubscribe(reader: PrimitiveReader, level: int) -> Unsubscribe:
    packet_id = _packet_id(reader)
    properties = _properties(reader, level, Place.UNSUBSCRIBE)
    filters = []
    while reader.left:
        filters.append(reader.string())
        check_filter(filters[-1])
        _check_count(len(filters))
    if not filters:
        protocol_error("MQTT-3.10.3-2 UNSUBSCRIBE without a topic filter")
    return Unsubscribe(packet_id=packet_id, properties=properties, topic_filters=tuple(filters))


def _unsuback(reader: PrimitiveReader, level: int) -> Unsuback:
    packet_id = _packet_id(reader)
    if level < MQTT_5_0:
        return Unsuback(packet_id=packet_id)
    return Unsuback(
        packet_id=packet_id,
        properties=_properties(reader, level, Place.UNSUBACK),
        reason_codes=_reason_codes(reader, UNSUBACK_CODES, "MQTT-3.11.3-2"),
    )


def _pingreq(_reader: PrimitiveReader, _level: int) -> Pingreq:
    return Pingreq()


def _pingresp(_reader: PrimitiveReader, _level: int) -> Pingresp:
    return Pingresp()


def _disconnect(reader: PrimitiveReader, level: int) -> Disconnect:
    if level < MQTT_5_0 or not reader.left:
        return Disconnect()
    reason_code = _reason_code(reader, DISCONNECT_CODES, "MQTT-3.14.2-1")
    properties = _properties(reader, level, Place.DISCONNECT) if reader.left else NO_PROPERTIES
    return Disconnect(reason_code=reason_code, properties=properties)


def _auth(reader: PrimitiveReader, level: int) -> Auth:
    if not reader.left:
        return Auth()
    reason_code = _reason_code(reader, AUTH_CODES, "MQTT-3.15.2-1")
    properties = _properties(reader, level, Place.AUTH) if reader.left else NO_PROPERTIES
    return Auth(reason_code=reason_code, properties=properties)


DECODERS: dict[int, Callable[[PrimitiveReader, int], Packet]] = {
    0x1: _connect,
    0x2: _connack,
    0x4: _acknowledgement(Puback, PUBACK_CODES, "MQTT-3.4.2-1", Place.PUBACK),
    0x5: _acknowledgement(Pubrec, PUBACK_CODES, "MQTT-3.5.2-1", Place.PUBREC),
    0x6: _acknowledgement(Pubrel, PUBREL_CODES, "MQTT-3.6.2-1", Place.PUBREL),
    0x7: _acknowledgement(Pubcomp, PUBREL_CODES, "MQTT-3.7.2-1", Place.PUBCOMP),
    0x8: _subscribe,
    0x9: _suback,
    0xA: _unsubscribe,
    0xB: _unsuback,
    0xC: _pingreq,
    0xD: _pingresp,
    0xE: _disconnect,
    0xF: _auth,
}
