"""Packets to bytes and back, one by one: the fixed header. Bodies: ``encoder.py``, ``decoder.py``.

Many PUBLISHes at once: in by ``publish_batch_parser.py``, out by ``qos0_publish_encoder.py``.
"""

from __future__ import annotations

from wire.errors import PeerViolation
from wire.mqtt.decoder import DECODERS, decode_publish
from wire.mqtt.encoder import ENCODERS
from wire.mqtt.packets import MQTT_3_1_1, MQTT_5_0, Connack, Packet
from wire.mqtt.primitives import PrimitiveReader, encode_variable_byte_integer, read_variable_byte_integer
from wire.mqtt.reason_codes import ConnectReturnCode, ReasonCode, UnsupportedProtocol, malformed

_PUBLISH = 0x3
_AUTH = 0xF
_RESERVED_FLAGS = {0x6: 2, 0x8: 2, 0xA: 2}  # the low half of the first byte of PUBREL, SUBSCRIBE, UNSUBSCRIBE


def encode(packet: Packet, level: int) -> bytes:
    """The bytes of ``packet`` at protocol ``level`` 4 or 5. A CONNECT goes by its own level."""
    first_byte, body = ENCODERS[type(packet)](packet, level)
    return bytes((first_byte,)) + encode_variable_byte_integer(len(body)) + body


def encode_refusal(error: UnsupportedProtocol) -> bytes:
    """The CONNACK for a CONNECT of a protocol that is not spoken here, in the form that its sender reads [MQTT-3.1.2-2].

    That is MQTT 5's only where the level is 5: of any other, known or not, a client reads a return code, and may ask for less.
    """
    if error.level == MQTT_5_0:
        return encode(Connack(session_present=False, reason_code=ReasonCode.UNSUPPORTED_PROTOCOL_VERSION), MQTT_5_0)
    refusal = Connack(session_present=False, reason_code=ConnectReturnCode.UNACCEPTABLE_PROTOCOL_VERSION)
    return encode(refusal, MQTT_3_1_1)


def split(buffer: bytes, position: int, packet_max_bytes: int) -> tuple[int, int, int] | None:
    """(first byte, start of the body, end of the body) of the packet at ``position``; None if it is not all there yet.

    Raises:
        PeerViolation: the remaining length is malformed (MQTT-1.5.5-1), or the packet, fixed header included, is larger than
            ``packet_max_bytes`` (0x95): known before the rest of it has come.
    """
    if position >= len(buffer):
        return None
    read = read_variable_byte_integer(buffer, position + 1, len(buffer))
    if read is None:
        return None
    length, start = read
    end = start + length
    if end - position > packet_max_bytes:
        raise PeerViolation(
            "MQTT-3.1.2-24 packet larger than the maximum packet size",
            reason_code=ReasonCode.PACKET_TOO_LARGE,
            packet_bytes=end - position,
        )
    return (buffer[position], start, end) if end <= len(buffer) else None


def missing_bytes(buffer: bytes, position: int) -> int:
    """How many bytes the packet at ``position``, of which ``split`` has said that it is not all there, lacks at least."""
    read = read_variable_byte_integer(buffer, position + 1, len(buffer))
    return 1 if read is None else read[1] + read[0] - len(buffer)


def decode(first_byte: int, body: bytes, level: int) -> Packet:
    """The packet of ``first_byte`` and ``body`` at protocol ``level`` 4 or 5. A CONNECT goes by its own level.

    Raises:
        UnsupportedProtocol: a CONNECT of another protocol or level.
        PeerViolation: the packet is malformed or says what it must not.
    """
    kind = first_byte >> 4
    reader = PrimitiveReader(body)
    if kind == _PUBLISH:
        return decode_publish(first_byte, reader, level)
    if kind == 0 or (kind == _AUTH and level < MQTT_5_0):
        malformed("MQTT-2.1.2 packet of a reserved type", type=kind)
    if first_byte & 0x0F != _RESERVED_FLAGS.get(kind, 0):
        malformed("MQTT-2.1.3-1 reserved flags of the first byte", type=kind, flags=first_byte & 0x0F)
    packet = DECODERS[kind](reader, level)
    reader.finish()
    return packet
