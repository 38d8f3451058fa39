"""What a bridge says of itself at its remote, beside its messages: a word when it is connected, and a Will. Pure.

The Will goes with CONNECT. The remote publishes it however the connection ends: a bridge that leaves by choice ends an MQTT 5
connection with the reason code for that [MQTT5-3.14.2.1], and an MQTT 3.1.1 connection without DISCONNECT [MQTT-3.1.2-8]. The
word is a PUBLISH with a packet identifier of its own, above those of messages and of SUBSCRIBE. It is in no queue and no ledger:
each connection says it anew. With ``link_state`` both tell whether the link stands, as Mosquitto's bridges do; ``remote.will``
and ``remote.birth`` have them say what an operator wants.

exchange.announced-in-window [P2, MQTT]: a word of QoS 1 takes one place of the remote's Receive Maximum; a remote that allows one
    message in flight gets it at QoS 0 [MQTT-3.3.4-9]. So does one of MQTT 3.1.1 that may hold QoS 2 messages of an earlier
    connection: Mosquitto 2.0 answers what is too many with PUBACK and throws it away. A remote without RETAIN, or without QoS 1,
    gets it so [MQTT-3.2.2-11, MQTT-3.2.2-14].
"""

from __future__ import annotations

from dataclasses import dataclass

from wire.config_settings import AnnouncementSettings, BridgeSettings, WillSettings
from wire.exchange.packet_identifiers import ANNOUNCED_ID
from wire.frames.names import LaneLabel
from wire.mqtt.codec import encode
from wire.mqtt.packets import MQTT_5_0, Disconnect, Publish
from wire.mqtt.properties import NO_PROPERTIES, Properties
from wire.mqtt.reason_codes import ReasonCode
from wire.routing.link_states import DOWN, UP, link_state_topic


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcement:
    """One message of a bridge about itself. properties: for MQTT 5. delay_s: of a Will."""

    topic: str
    payload: bytes
    qos: int = 1
    retain: bool = True
    properties: Properties = NO_PROPERTIES
    delay_s: int = 0

    def encode(self, level: int, *, maximum_qos: int, retain_available: bool) -> bytes:
        """The PUBLISH of it, as far as the remote allows (exchange.announced-in-window)."""
        qos = min(self.qos, maximum_qos, 1)
        return encode(
            Publish(
                topic=self.topic,
                payload=self.payload,
                qos=qos,
                retain=self.retain and retain_available,
                packet_id=ANNOUNCED_ID if qos else 0,
                properties=self.properties if level == MQTT_5_0 else NO_PROPERTIES,
            ),
            level,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcements:
    """The announcements of one lane. will: with CONNECT; connected: when it is."""

    will: Announcement | None = None
    connected: Announcement | None = None

    @property
    def in_flight_max(self) -> int:
        """How many places of the remote's Receive Maximum are kept for the word."""
        return int(self.connected is not None)

    def farewell(self, level: int) -> bytes:
        """The last packet of a connection that ends by choice, so that the remote publishes the Will, if there is one."""
        if self.will is None:
            return encode(Disconnect(), level)
        return encode(Disconnect(reason_code=ReasonCode.DISCONNECT_WITH_WILL_MESSAGE), level) if level == MQTT_5_0 else b""


def announcements_of(bridge: BridgeSettings, lane: LaneLabel) -> Announcements:
    """What the ``lane`` of ``bridge`` says at the remote; the first one speaks for all."""
    if lane != 0:
        return Announcements()
    topic, remote = link_state_topic(bridge), bridge.remote
    if topic is not None and bridge.link_state is not None and bridge.link_state.remote:
        return Announcements(will=Announcement(topic=topic, payload=DOWN), connected=Announcement(topic=topic, payload=UP))
    return Announcements(will=_announcement(remote.will), connected=_announcement(remote.birth))


def _announcement(said: AnnouncementSettings | None) -> Announcement | None:
    if said is None:
        return None
    return Announcement(
        topic=said.topic,
        payload=said.payload.encode(),
        qos=said.qos,
        retain=said.retain,
        properties=Properties(
            content_type=said.content_type, message_expiry_interval=said.expiry_s, user_properties=said.user_properties
        ),
        delay_s=said.delay_s if isinstance(said, WillSettings) else 0,
    )
