"""Chapter 1 and 2: strings, numbers, flags, packet identifiers, properties."""

from __future__ import annotations

import pytest

from tests.conformance.conftest import Join
from tests.conformance.statements import clause
from tests.support.mqtt_packets import (
    PUBACK,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    PUBREL,
    SUBACK,
    SUBSCRIBE,
    UNSUBACK,
    packet_bytes,
    publish_bytes,
    subscribe_bytes,
    unsubscribe_bytes,
)


@clause(v311="MQTT-1.5.3-3", v5="MQTT-1.5.4-3")
def test_a_byte_order_mark_is_a_character_of_its_own(join: Join, version: int, topic: str) -> None:
    client = join(version)
    client.subscribe(f"\ufeff{topic}", topic)
    client.deliver(f"\ufeff{topic}", b"marked")
    client.deliver(topic, b"plain")
    assert [(message.topic, message.payload) for message in (client.receive(), client.receive())] == [
        (f"\ufeff{topic}", b"marked"),
        (topic, b"plain"),
    ]


@clause(v311="MQTT-2.3.1-4 MQTT-2.3.1-1", v5="MQTT-2.2.1-4 MQTT-4.3.2-1 MQTT-4.3.3-1")
def test_the_identifiers_of_what_is_in_flight_differ_and_are_not_0(join: Join, version: int, topic: str) -> None:
    publisher, subscriber = join(version), join(version)
    subscriber.subscribe(topic, qos=2)
    for number in range(10):
        publisher.deliver(topic, b"%d" % number, 1 + number % 2)
    flying = [subscriber.expect(PUBLISH) for _ in range(10)]
    assert len({message.packet_id for message in flying}) == 10
    assert 0 not in {message.packet_id for message in flying}


@clause(v311="MQTT-2.3.1-5", v5="MQTT-2.2.1-2")
def test_qos_0_has_no_packet_identifier(join: Join, version: int, topic: str) -> None:
    """Each byte of what comes is told."""
    publisher, subscriber = join(version), join(version)
    subscriber.subscribe(topic, qos=2)
    publisher.deliver(topic, b"payload")
    message = subscriber.expect(PUBLISH)
    assert (message.qos, message.payload, message.properties) == (0, b"payload", [])


@pytest.mark.parametrize("packet_id", [1, 255, 256, 65_535])
@clause(v311="MQTT-2.3.1-6 MQTT-2.3.1-7 MQTT-3.8.4-2 MQTT-3.10.4-4", v5="MQTT-2.2.1-5 MQTT-2.2.1-6 MQTT-3.8.4-2 MQTT-3.10.4-5")
def test_an_answer_has_the_identifier_of_what_it_answers(join: Join, version: int, topic: str, packet_id: int) -> None:
    client = join(version)
    client.send(publish_bytes(version, topic, b"", 1, packet_id))
    client.expect(PUBACK, packet_id)
    client.send(publish_bytes(version, topic, b"", 2, packet_id))
    client.expect(PUBREC, packet_id)
    client.acknowledge(PUBREL, packet_id)
    client.expect(PUBCOMP, packet_id)
    client.send(subscribe_bytes(version, packet_id, [(topic, 0)]))
    client.expect(SUBACK, packet_id)
    client.send(unsubscribe_bytes(version, packet_id, [topic]))
    client.expect(UNSUBACK, packet_id)


@clause(v5="MQTT-2.2.2-1")
def test_a_packet_without_properties_says_so(join: Join, version: int, topic: str) -> None:
    """No client of ours reads what lacks its Property Length; here are the bytes of a PUBLISH, and a packet of ours without."""
    client = join(version)
    client.subscribe(topic)
    client.deliver(topic, b"x")
    assert client.expect(PUBLISH).properties == []
    client.send(packet_bytes(SUBSCRIBE, 2, b"\0\7\0\1a\0"))  # as in 3.1.1: "\0" is the Property Length, and the rest no filter
    client.expect_end(0x81, 0x82, 0x8F)
