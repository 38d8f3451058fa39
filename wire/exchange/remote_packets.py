"""Packets of a remote broker besides acknowledgements of our PUBLISHes. Pure.

A session that somebody else made under our client identifier may still hold subscriptions. Their PUBLISHes are acknowledged and
thrown away, so that the exchange goes on. With remote subscriptions, ``wire/exchange/remote_inbox.py`` takes them in.
"""

from __future__ import annotations

from typing import NamedTuple

from wire.errors import PeerViolation
from wire.mqtt.codec import decode, encode
from wire.mqtt.packets import MQTT_5_0, Auth, Connack
from wire.mqtt.primitives import read_variable_byte_integer
from wire.mqtt.properties import Place, Properties, decode_properties
from wire.mqtt.reason_codes import ConnectReturnCode, ReasonCode, reason_name

PINGREQ = b"\xc0\x00"
PINGRESP = 0xD0
CONNACK = 0x20
DISCONNECT = 0xE0
AUTH = 0xF0
PUBLISH = 0x30

PUBREL = 0x62
SUBACK = 0x90
UNSUBACK = 0xB0

_PUBACK, _PUBREC, _PUBCOMP = 0x40, 0x50, 0x70

_RE_AUTHENTICATE = 0x19

SAID_MAX = 500  # characters of a text of the remote's that are kept

_REASON_CODES = {
    ConnectReturnCode.ACCEPTED: ReasonCode.SUCCESS,
    ConnectReturnCode.UNACCEPTABLE_PROTOCOL_VERSION: ReasonCode.UNSUPPORTED_PROTOCOL_VERSION,
    ConnectReturnCode.IDENTIFIER_REJECTED: ReasonCode.CLIENT_IDENTIFIER_NOT_VALID,
    ConnectReturnCode.SERVER_UNAVAILABLE: ReasonCode.SERVER_UNAVAILABLE,
    ConnectReturnCode.BAD_USER_NAME_OR_PASSWORD: ReasonCode.BAD_USER_NAME_OR_PASSWORD,
    ConnectReturnCode.NOT_AUTHORIZED: ReasonCode.NOT_AUTHORIZED,
}
_REFUSES_THE_LEVEL = bytes((0, ConnectReturnCode.UNACCEPTABLE_PROTOCOL_VERSION))


class RemotePacket(NamedTuple):
    """One whole packet; ``end`` is the position after it."""

    first_byte: int
    body: bytes
    end: int


class RemoteDisconnect(NamedTuple):
    """The contents of the remote's DISCONNECT; empty strings where it says nothing."""

    reason_code: int
    reason_string: str = ""
    server_reference: str = ""

    @property
    def name(self) -> str:
        """The reason for people, such as ``session taken over``."""
        return reason_name(self.reason_code) if self.reason_code else "normal disconnection"


def may_answer_connect(first_byte: int, level: int) -> bool:
    """Whether a packet that begins so may be the first that the remote sends. Source: MQTT-3.2.0-1, MQTT 5.0 section 3.14."""
    return first_byte == CONNACK or (first_byte == DISCONNECT and level == MQTT_5_0)


def connack(body: bytes, level: int) -> Connack:
    """The CONNACK of ``body``; its reason code is that of MQTT 5 at either level.

    Raises:
        PeerViolation: it is malformed.
    """
    if body == _REFUSES_THE_LEVEL:
        level = 4  # so says a remote that does not know MQTT 5 [MQTT-3.1.2-2 (3.1.1)]
    packet = decode(CONNACK, body, level)
    assert isinstance(packet, Connack)
    if level != MQTT_5_0:
        return Connack(session_present=packet.session_present, reason_code=_REASON_CODES[ConnectReturnCode(packet.reason_code)])
    return packet


def read_disconnect(packet: RemotePacket) -> RemoteDisconnect:
    """The contents of the DISCONNECT ``packet``, its texts cut; malformed parts are left out. Source: MQTT 5.0 section 3.14.2."""
    body = packet.body
    reason_code = body[0] if body else 0
    found = read_variable_byte_integer(body, 1, len(body)) if len(body) > 1 else None
    if found is None:
        return RemoteDisconnect(reason_code)
    length, start = found
    try:
        properties = decode_properties(body[start : start + length], Place.DISCONNECT)
    except PeerViolation:
        return RemoteDisconnect(reason_code)
    return RemoteDisconnect(
        reason_code, (properties.reason_string or "")[:SAID_MAX], (properties.server_reference or "")[:SAID_MAX]
    )


def reauthenticate(method: str, data: bytes) -> bytes:
    """The AUTH by which a client renews its authentication on a connection. Source: MQTT 5.0 section 4.12.1."""
    properties = Properties(authentication_method=method, authentication_data=data)
    return encode(Auth(reason_code=_RE_AUTHENTICATE, properties=properties), MQTT_5_0)


def read_auth(packet: RemotePacket) -> int:
    """The reason code of the AUTH ``packet``.

    Raises:
        PeerViolation: it is malformed.
    """
    read = decode(AUTH, packet.body, MQTT_5_0)
    assert isinstance(read, Auth)
    return read.reason_code


def next_packet(buffer: bytes, position: int, *, bytes_max: int, publish_bytes_max: int) -> RemotePacket | None:
    """The packet that begins at ``position``; None if it is not all there.

    Raises:
        PeerViolation: its length is malformed, or larger than ``bytes_max``; that of a PUBLISH than ``publish_bytes_max``.
    """
    size = len(buffer)
    if size - position < 2:
        return None
    found = read_variable_byte_integer(buffer, position + 1, size)
    if found is None:
        return None
    length, start = found
    if length > (publish_bytes_max if buffer[position] & 0xF0 == PUBLISH else bytes_max):
        raise PeerViolation("MQTT-3.1.2-24 packet larger than allowed", reason_code=0x95, length=length)
    if start + length > size:
        return None
    return RemotePacket(buffer[position], buffer[start : start + length], start + length)


def is_publish(packet: RemotePacket) -> bool:
    """Whether it is a PUBLISH, or the PUBREL of one."""
    return packet.first_byte & 0xF0 == PUBLISH or packet.first_byte == PUBREL


def acknowledge(packet: RemotePacket) -> bytes:
    """The packet that completes the exchange of a PUBLISH or PUBREL; empty at QoS 0. Source: MQTT-4.3.2-4, MQTT-4.3.3-8,
    MQTT-4.3.3-11.

    Raises:
        PeerViolation: it is malformed.
    """
    body = packet.body
    if packet.first_byte == PUBREL:
        if len(body) < 2:
            raise PeerViolation("MQTT-2.1.4 PUBREL without a packet identifier", reason_code=0x81)
        return bytes((_PUBCOMP, 2)) + body[:2]
    qos = packet.first_byte >> 1 & 3
    if qos == 3:
        raise PeerViolation("MQTT-3.3.1-4 PUBLISH with QoS 3", reason_code=0x81)
    if qos == 0:
        return b""
    start = 2 + int.from_bytes(body[:2], "big")
    packet_id = body[start : start + 2]
    if len(packet_id) < 2 or packet_id == b"\x00\x00":
        raise PeerViolation("MQTT-2.2.1-4 PUBLISH without a packet identifier", reason_code=0x81)
    return bytes((_PUBACK if qos == 1 else _PUBREC, 2)) + packet_id
