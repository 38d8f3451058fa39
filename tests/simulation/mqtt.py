"""MQTT 3.1.1 and 5.0 as the models speak it: of each packet what they need. ``mqtt_packets`` reads, writes and judges it."""

from __future__ import annotations

from dataclasses import dataclass

from tests.simulation.options import Told, opened, told_by
from tests.support import mqtt_packets
from tests.support.mqtt_packets import CONNACK, PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL, RECEIVE_MAXIMUM, SESSION_EXPIRY, Sender

LEVEL_5 = 5  # the protocol level of MQTT 5.0

_ACK_NAMES = {PUBACK: "PUBACK", PUBREC: "PUBREC", PUBREL: "PUBREL", PUBCOMP: "PUBCOMP"}
_SESSION_EXPIRY_S = 90_000  # longer than the wall clock jumps


class Malformed(Exception):
    """Bytes that are no packet, or one that must not be sent."""


@dataclass(frozen=True, slots=True)
class Publish:
    """One PUBLISH; packet_id is 0 at QoS 0. payload: as it was published, without an envelope."""

    topic: str
    payload: bytes
    qos: int
    packet_id: int
    dup: bool = False
    retain: bool = False
    told: Told | None = None  # of its acceptance

    @property
    def announces(self) -> bool:
        """Whether it is a bridge's word about itself."""
        return self.topic.startswith("$SYS/")


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
    """One filter of a SUBSCRIBE; at level 4 the last three are 0."""

    topic_filter: str
    qos: int
    retain_as_published: bool
    retain_handling: int
    no_local: bool


Packet = Publish | Ack | Connack | Other


class PacketReader:
    """Packets out of the byte stream of ``sender``; each with the position in the stream where it ends."""

    def __init__(self, sender: Sender, level: int) -> None:
        self._reader = mqtt_packets.PacketReader(sender)
        self._sender = sender
        self._level = level

    def feed(self, data: bytes) -> list[tuple[int, Packet]]:
        """Take more bytes; the packets that are whole now.

        Raises:
            Malformed: one of them breaks a rule that every packet of its kind must keep.
        """
        self._reader.feed(data)
        packets: list[tuple[int, Packet]] = []
        try:
            while (raw := self._reader.next_raw()) is not None:
                packets.append((self._reader.taken_bytes, self._reduced(*raw)))
        except AssertionError as error:
            raise Malformed(str(error)) from error
        return packets

    def _reduced(self, head: int, body: bytes) -> Packet:
        packet = mqtt_packets.judge(self._level, head, body, self._sender)
        if packet.kind == PUBLISH:
            payload, told = opened(packet.payload)
            told = told or told_by(packet.user_properties)
            return Publish(packet.topic, payload, packet.qos, packet.packet_id, packet.dup, packet.retain, told)
        if packet.kind in _ACK_NAMES:
            return Ack(packet.kind, packet.packet_id, packet.reason_code)
        if packet.kind == CONNACK:
            return Connack(packet.session_present, packet.reason_code, packet.number(RECEIVE_MAXIMUM, 65_535))
        return Other(packet.kind, body)


def connect(client_id: str, level: int, *, clean: bool, keep_alive_s: int, receive_maximum: int = 65_535) -> bytes:
    """CONNECT; at level 5 the session outlives the connection by a day and an hour."""
    properties = [(SESSION_EXPIRY, _SESSION_EXPIRY_S)]
    if receive_maximum < 65_535:
        properties.append((RECEIVE_MAXIMUM, receive_maximum))
    return mqtt_packets.connect_bytes(level, client_id, clean=clean, keep_alive_s=keep_alive_s, properties=properties)


def publish(packet: Publish, level: int) -> bytes:
    """PUBLISH without properties."""
    return mqtt_packets.publish_bytes(
        level, packet.topic, packet.payload, packet.qos, packet.packet_id, retain=packet.retain, dup=packet.dup
    )


def ack(kind: int, packet_id: int, reason: int = 0) -> bytes:
    """PUBACK, PUBREC, PUBREL or PUBCOMP."""
    return mqtt_packets.acknowledge_bytes(kind, packet_id, reason or None)


def subscriptions_of(body: bytes, level: int) -> tuple[int, list[Subscription]]:
    """The packet identifier and the filters of a SUBSCRIBE that was read."""
    packet = mqtt_packets.judge(level, mqtt_packets.SUBSCRIBE << 4 | 2, body, Sender.CLIENT)
    subscriptions = [
        Subscription(name, options & 3, bool(options & 8), options >> 4 & 3, bool(options & 4)) for name, options in packet.filters
    ]
    return packet.packet_id, subscriptions


def unsuback(packet_id: int, level: int) -> bytes:
    """UNSUBACK of one filter."""
    body = packet_id.to_bytes(2, "big") + (bytes(2) if level == LEVEL_5 else b"")
    return mqtt_packets.packet_bytes(mqtt_packets.UNSUBACK, 0, body)
