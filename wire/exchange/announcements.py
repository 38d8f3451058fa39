"""What a bridge says of itself at its remote, beside its messages: a Will, a word when it is connected, one before it leaves. Pure.

The Will goes with CONNECT, so the remote publishes it when the connection ends without DISCONNECT [MQTT-3.1.2-8]. The two words
are PUBLISHes with packet identifiers of their own, above those of messages and of SUBSCRIBE. They are in no queue and no ledger:
each connection says them anew. With ``link_state`` all three tell whether the link stands, as Mosquitto's bridges do;
``remote.will`` and ``remote.birth`` have them say what an operator wants.

exchange.announced-in-window [P2, MQTT]: a word of QoS 1 takes one place of the remote's Receive Maximum; a remote that allows one
    message in flight gets it at QoS 0 [MQTT-3.3.4-9]. A remote without RETAIN, or without QoS 1, gets it so [MQTT-3.2.2-11,
    MQTT-3.2.2-14].
"""

from __future__ import annotations

from dataclasses import dataclass

from wire.config_settings import AnnouncementSettings, BridgeSettings, WillSettings
from wire.frames.names import LaneLabel
from wire.mqtt.codec import encode
from wire.mqtt.packets import MQTT_5_0, Publish
from wire.mqtt.properties import NO_PROPERTIES, Properties
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

    def encode(self, packet_id: int, level: int, *, maximum_qos: int, retain_available: bool, receive_maximum: int) -> bytes:
        """The PUBLISH of it, as far as the remote allows (exchange.announced-in-window)."""
        qos = min(self.qos, maximum_qos, receive_maximum - 1, 1)
        return encode(
            Publish(
                topic=self.topic,
                payload=self.payload,
                qos=qos,
                retain=self.retain and retain_available,
                packet_id=packet_id if qos else 0,
                properties=self.properties if level == MQTT_5_0 else NO_PROPERTIES,
            ),
            level,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcements:
    """The announcements of one lane. will: with CONNECT; connected: when it is; leaving: before DISCONNECT."""

    will: Announcement | None = None
    connected: Announcement | None = None
    leaving: Announcement | None = None

    @property
    def in_flight_max(self) -> int:
        """How many places of the remote's Receive Maximum the words take."""
        return int(self.connected is not None or self.leaving is not None)


NOTHING_ANNOUNCED = Announcements()


def announcements_of(bridge: BridgeSettings, lane: LaneLabel) -> Announcements:
    """What the ``lane`` of ``bridge`` says at the remote; the first one speaks for all."""
    if lane != 0:
        return NOTHING_ANNOUNCED
    topic, remote = link_state_topic(bridge), bridge.remote
    if topic is not None and bridge.link_state is not None and bridge.link_state.remote:
        down = Announcement(topic=topic, payload=DOWN)
        return Announcements(will=down, connected=Announcement(topic=topic, payload=UP), leaving=down)
    if remote.will is None and remote.birth is None:
        return NOTHING_ANNOUNCED
    will = _announcement(remote.will)
    return Announcements(will=will, connected=_announcement(remote.birth), leaving=will)


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
