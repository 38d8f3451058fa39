"""Both ends of an exchange at any QoS, for clients that do nothing by themselves."""

from __future__ import annotations

from collections import deque

from tests.support.mqtt_client import PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL, MqttClient, Packet


def take(client: MqttClient, count: int) -> list[Packet]:
    """The next ``count`` messages, each acknowledged to the end."""
    messages: list[Packet] = []
    released: deque[int] = deque()
    while len(messages) < count or released:
        packet = client.read()
        assert packet.kind in (PUBLISH, PUBREL), packet
        if packet.kind == PUBREL:
            assert packet.packet_id == released.popleft(), "PUBREL leaves in the order of PUBREC"
            client.acknowledge(PUBCOMP, packet.packet_id)
            continue
        messages.append(packet)
        if packet.qos == 1:
            client.acknowledge(PUBACK, packet.packet_id)
        elif packet.qos == 2:
            client.acknowledge(PUBREC, packet.packet_id)
            released.append(packet.packet_id)
    return messages


def take_one(client: MqttClient) -> Packet:
    """The next message, acknowledged to the end."""
    return take(client, 1)[0]


def publish(client: MqttClient, topic: str, *payloads: str, qos: int = 0, retain: bool = False) -> None:
    """Publish each of ``payloads``; on return the node has taken them all, for good where ``qos`` is 1 or 2."""
    for payload in payloads:
        packet_id = client.publish(topic, payload, qos=qos, retain=retain)
        if qos == 1:
            client.expect(PUBACK, packet_id=packet_id)
        elif qos == 2:
            client.expect(PUBREC, packet_id=packet_id)
            client.acknowledge(PUBREL, packet_id)
            client.expect(PUBCOMP, packet_id=packet_id)
    client.ping()


def publish_once(port: int, topic: str, *payloads: str, qos: int = 1, retain: bool = False) -> None:
    """The same from a connection of its own."""
    with MqttClient(port, "publisher") as client:
        publish(client, topic, *payloads, qos=qos, retain=retain)
        client.disconnect()
