"""Every packet of MQTT 3.1.1 and 5.0 as a value. Their bytes are the business of ``codec.py``.

Properties and reason codes belong to MQTT 5.0; at level 4 they are not sent, and they decode to their defaults.
"""

from __future__ import annotations

from dataclasses import dataclass

from wire.mqtt.properties import NO_PROPERTIES, Properties
from wire.mqtt.reason_codes import ReasonCode

MQTT_3_1_1 = 4
MQTT_5_0 = 5
BRIDGE_BIT = 0x80  # of no specification: Mosquitto, NanoMQ and VerneMQ set it in the protocol level of their 3.1.1 bridges
SESSION_NEVER_EXPIRES_S = 0xFFFF_FFFF  # MQTT 5.0 section 3.1.2.11.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Will:
    """The message that the server publishes when the client is lost."""

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    properties: Properties = NO_PROPERTIES


@dataclass(frozen=True, slots=True, kw_only=True)
class Connect:
    """Client -> server: the first packet. ``level`` is 4 (MQTT 3.1.1) or 5; ``clean_start`` is Clean Session at level 4.

    bridge: an MQTT 3.1.1 client that says by ``BRIDGE_BIT`` of its level that it is another broker's bridge.
    """

    level: int
    client_id: str
    clean_start: bool
    keep_alive_s: int
    user_name: str | None = None
    password: bytes | None = None
    will: Will | None = None
    properties: Properties = NO_PROPERTIES
    bridge: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Connack:
    """Server -> client: the answer to CONNECT. ``reason_code`` is a ``ConnectReturnCode`` at level 4."""

    session_present: bool
    reason_code: int
    properties: Properties = NO_PROPERTIES


@dataclass(frozen=True, slots=True, kw_only=True)
class Publish:
    """Either way: a message. ``packet_id`` is 0 at QoS 0; an empty ``topic`` stands for a topic alias."""

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    dup: bool = False
    packet_id: int = 0
    properties: Properties = NO_PROPERTIES


@dataclass(frozen=True, slots=True, kw_only=True)
class _Acknowledgement:
    packet_id: int
    reason_code: int = ReasonCode.SUCCESS
    properties: Properties = NO_PROPERTIES


@dataclass(frozen=True, slots=True, kw_only=True)
class Puback(_Acknowledgement):
    """Either way: the QoS 1 PUBLISH ``packet_id`` is taken over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pubrec(_Acknowledgement):
    """Either way: the QoS 2 PUBLISH ``packet_id`` is taken over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pubrel(_Acknowledgement):
    """Either way: ``packet_id`` may be forgotten; the answer to PUBREC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pubcomp(_Acknowledgement):
    """Either way: ``packet_id`` is forgotten; the answer to PUBREL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """One topic filter of a SUBSCRIBE with its options; at level 4 only ``qos`` is sent. retain_handling: 0, 1 or 2."""

    topic_filter: str
    qos: int
    no_local: bool = False
    retain_as_published: bool = False
    retain_handling: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscribe:
    """Client -> server: wants messages of these filters."""

    packet_id: int
    subscriptions: tuple[Subscription, ...]
    properties: Properties = NO_PROPERTIES


@dataclass(frozen=True, slots=True, kw_only=True)
class Suback:
    """Server -> client: one reason code for each filter of SUBSCRIBE, in order."""

    packet_id: int
    reason_codes: tuple[int, ...]
    properties: Properties = NO_PROPERTIES


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsubscribe:
    """Client -> server: gives these filters up."""

    packet_id: int
    topic_filters: tuple[str, ...]
    properties: Properties = NO_PROPERTIES


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsuback:
    """Server -> client: one reason code for each filter of UNSUBSCRIBE, in order; none at level 4."""

    packet_id: int
    reason_codes: tuple[int, ...] = ()
    properties: Properties = NO_PROPERTIES


@dataclass(frozen=True, slots=True, kw_only=True)
class Pingreq:
    """Client -> server: are you there?"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pingresp:
    """Server -> client: yes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disconnect:
    """The last packet; at level 4 only a client sends it."""

    reason_code: int = ReasonCode.NORMAL_DISCONNECTION
    properties: Properties = NO_PROPERTIES


@dataclass(frozen=True, slots=True, kw_only=True)
class Auth:
    """Either way, level 5 only: one step of an authentication exchange."""

    reason_code: int = ReasonCode.SUCCESS
    properties: Properties = NO_PROPERTIES


Packet = (
    Connect
    | Connack
    | Publish
    | Puback
    | Pubrec
    | Pubrel
    | Pubcomp
    | Subscribe
    | Suback
    | Unsubscribe
    | Unsuback
    | Pingreq
    | Pingresp
    | Disconnect
    | Auth
)
