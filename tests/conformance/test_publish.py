"""3.3 PUBLISH and its acknowledgements (3.4-3.7), and 4.3, the delivery protocols."""

from __future__ import annotations

import pytest

from tests.conformance.conftest import Join
from tests.conformance.statements import clause
from tests.support.mqtt_packets import PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL, publish_bytes

QOS = pytest.mark.parametrize("qos", [0, 1, 2])


@pytest.mark.parametrize("qos", [1, 2])
@clause(v311="MQTT-3.3.1-3", v5="MQTT-3.3.1-3")
def test_dup_of_a_publisher_is_not_passed_on(join: Join, version: int, topic: str, qos: int) -> None:
    publisher, subscriber = join(version), join(version)
    subscriber.subscribe(topic, qos=2)
    publisher.send(publish_bytes(version, topic, b"again", qos, 9, dup=True))
    publisher.expect(PUBACK if qos == 1 else PUBREC, 9)
    if qos == 2:
        publisher.acknowledge(PUBREL, 9)
    assert not subscriber.expect(PUBLISH).dup


@pytest.mark.parametrize("granted", [0, 1, 2])
@QOS
@clause(v311="MQTT-3.8.4-6 MQTT-3.3.2-3 MQTT-4.3.1-1 MQTT-3.3.4-1", v5="MQTT-3.8.4-8 MQTT-3.3.2-3 MQTT-4.3.1-1 MQTT-3.3.4-1")
def test_a_message_comes_at_the_lower_qos(join: Join, version: int, topic: str, qos: int, granted: int) -> None:
    publisher, subscriber = join(version), join(version)
    assert subscriber.subscribe(topic, qos=granted).reason_codes == (granted,)
    publisher.deliver(topic, b"payload", qos)
    message = subscriber.receive()
    assert (message.topic, message.payload, message.qos) == (topic, b"payload", min(qos, granted))
    assert not message.dup
    assert not message.retain


@clause(v311="MQTT-4.3.2-2 MQTT-3.3.4-1", v5="MQTT-4.3.2-4 MQTT-4.3.2-5 MQTT-3.4.2-1 MQTT-3.3.4-1")
def test_behind_its_puback_an_identifier_is_new_even_with_dup(join: Join, version: int, topic: str) -> None:
    client = join(version)
    client.subscribe(topic)
    for payload, dup in ((b"1", False), (b"2", True)):
        client.send(publish_bytes(version, topic, payload, 1, 7, dup=dup))
        found = [client.read(), client.read()]
        assert {one.kind for one in found} == {PUBACK, PUBLISH}
        assert [(one.packet_id, one.reason_code) for one in found if one.kind == PUBACK] == [(7, 0)]
        assert [one.payload for one in found if one.kind == PUBLISH] == [payload]


@clause(
    v311="MQTT-4.3.3-2 MQTT-3.3.4-1 MQTT-2.3.1-6",
    v5="MQTT-4.3.3-8 MQTT-4.3.3-10 MQTT-4.3.3-11 MQTT-4.3.3-12 MQTT-3.5.2-1 MQTT-3.7.2-1",
)
def test_a_repeated_qos_2_publish_is_delivered_once_until_pubrel(join: Join, version: int, topic: str) -> None:
    publisher, subscriber = join(version), join(version)
    subscriber.subscribe(topic, qos=2)
    for payload, dup in ((b"1", False), (b"1", True)):
        publisher.send(publish_bytes(version, topic, payload, 2, 7, dup=dup))
        publisher.expect(PUBREC, 7, 0)
    publisher.acknowledge(PUBREL, 7)
    publisher.expect(PUBCOMP, 7, 0)
    publisher.send(publish_bytes(version, topic, b"2", 2, 7, dup=True))
    publisher.expect(PUBREC, 7, 0)
    publisher.acknowledge(PUBREL, 7)
    publisher.expect(PUBCOMP, 7, 0)
    assert [subscriber.receive().payload for _ in range(2)] == [b"1", b"2"]


@clause(v311="MQTT-4.3.3-2", v5="MQTT-4.3.3-11 MQTT-3.7.2-1")
def test_pubrel_of_an_unknown_identifier_is_answered(join: Join, version: int) -> None:
    client = join(version)
    client.acknowledge(PUBREL, 4711)
    client.expect(PUBCOMP, 4711)


@clause(v311="MQTT-4.3.2-1", v5="MQTT-4.3.2-2 MQTT-4.3.2-3 MQTT-4.4.0-1")
def test_a_qos_1_message_is_sent_once_in_a_connection_and_is_in_flight_until_puback(join: Join, version: int, topic: str) -> None:
    publisher, subscriber = join(version), join(version, topic, expiry_s=100)
    subscriber.subscribe(topic, qos=1)
    publisher.deliver(topic, b"first", 1)
    first = subscriber.expect(PUBLISH)
    assert (first.qos, first.dup) == (1, False)
    publisher.deliver(topic, b"second", 1)
    second = subscriber.expect(PUBLISH)
    assert (second.payload, second.dup) == (b"second", False)
    subscriber.acknowledge(PUBACK, second.packet_id)
    assert subscriber.drain() == []
    subscriber.disconnect()
    subscriber = join(version, topic, expiry_s=100)
    again = subscriber.expect(PUBLISH)
    assert (again.payload, again.packet_id, again.dup) == (b"first", first.packet_id, True)
    subscriber.acknowledge(PUBACK, again.packet_id)
    assert subscriber.drain() == []


@clause(
    v311="MQTT-4.3.3-1",
    v5="MQTT-4.3.3-2 MQTT-4.3.3-3 MQTT-4.3.3-4 MQTT-4.3.3-5 MQTT-4.3.3-6 MQTT-3.6.2-1 MQTT-4.4.0-1",
)
def test_a_qos_2_message_goes_through_its_four_packets(join: Join, version: int, topic: str) -> None:
    """Cut behind PUBLISH: PUBLISH with DUP. Cut behind PUBREL: PUBREL, and PUBLISH never more. Behind PUBCOMP: nothing."""
    publisher, subscriber = join(version), join(version, topic, expiry_s=100)
    subscriber.subscribe(topic, qos=2)
    publisher.deliver(topic, b"once", 2)
    first = subscriber.expect(PUBLISH)
    assert (first.qos, first.dup) == (2, False)
    subscriber.vanish()

    subscriber = join(version, topic, expiry_s=100)
    again = subscriber.expect(PUBLISH)
    assert (again.payload, again.packet_id, again.dup) == (b"once", first.packet_id, True)
    subscriber.acknowledge(PUBREC, again.packet_id)
    subscriber.expect(PUBREL, again.packet_id, 0)
    subscriber.vanish()

    subscriber = join(version, topic, expiry_s=100)
    subscriber.expect(PUBREL, first.packet_id, 0)
    subscriber.acknowledge(PUBCOMP, first.packet_id)
    assert subscriber.drain() == []
    subscriber.disconnect()
    subscriber = join(version, topic, expiry_s=100)
    publisher.deliver(topic, b"next", 2)
    assert subscriber.receive().payload == b"next"


@pytest.mark.parametrize("expiry_s", [0, 100])
@clause(v311="MQTT-4.3.3-1", v5="MQTT-4.3.3-4")
def test_every_pubrec_has_a_pubrel_until_pubcomp(join: Join, version: int, topic: str, expiry_s: int) -> None:
    publisher, subscriber = join(version), join(version, topic, expiry_s=expiry_s)
    subscriber.subscribe(topic, qos=2)
    publisher.deliver(topic, b"once", 2)
    packet_id = subscriber.expect(PUBLISH).packet_id
    for _ in range(3):
        subscriber.acknowledge(PUBREC, packet_id)
        subscriber.expect(PUBREL, packet_id, 0)
    for _ in range(3):
        subscriber.acknowledge(PUBCOMP, packet_id)
    publisher.deliver(topic, b"next", 2)
    assert subscriber.receive().payload == b"next"
    assert subscriber.drain() == []


@QOS
@clause(v311="MQTT-4.6.0-5 MQTT-4.6.0-6", v5="MQTT-4.6.0-5 MQTT-4.6.0-6")
def test_messages_of_a_topic_and_qos_come_in_order(join: Join, version: int, topic: str, qos: int) -> None:
    publisher, subscriber = join(version), join(version)
    subscriber.subscribe(topic, qos=2)
    payloads = [b"%d" % number for number in range(100)]
    for at in range(0, 100, 10):
        publisher.send(*(publish_bytes(version, topic, payload, qos, 1 + int(payload)) for payload in payloads[at : at + 10]))
        for packet_id in range(at + 1, at + 11) if qos else ():
            publisher.expect(PUBACK if qos == 1 else PUBREC, packet_id)
        for packet_id in range(at + 1, at + 11) if qos == 2 else ():
            publisher.acknowledge(PUBREL, packet_id)
            publisher.expect(PUBCOMP, packet_id)
    received: list[bytes] = []
    while len(received) < 100:
        found = subscriber.read()
        if found.kind == PUBLISH:
            received.append(found.payload)
            if found.qos:
                subscriber.acknowledge(PUBACK if found.qos == 1 else PUBREC, found.packet_id)
        else:
            assert found.kind == PUBREL
            subscriber.acknowledge(PUBCOMP, found.packet_id)
    assert received == payloads


@clause(v311="MQTT-4.6.0-6", v5="MQTT-4.6.0-5")
def test_pubrels_come_in_the_order_of_the_pubrecs(join: Join, version: int, topic: str) -> None:
    publisher, subscriber = join(version), join(version)
    subscriber.subscribe(topic, qos=2)
    for number in range(4):
        publisher.deliver(topic, b"%d" % number, 2)
    flying = [subscriber.expect(PUBLISH).packet_id for _ in range(4)]
    order = [flying[2], flying[0], flying[3], flying[1]]
    for packet_id in order:
        subscriber.acknowledge(PUBREC, packet_id)
    assert [subscriber.expect(PUBREL).packet_id for _ in range(4)] == order


@QOS
@clause(v311="MQTT-4.5.0-1", v5="MQTT-4.5.0-1")
def test_every_matching_subscriber_gets_a_message(join: Join, version: int, topic: str, qos: int) -> None:
    subscribers = [join(version) for _ in range(3)] + [join(9 - version)]
    for subscriber, topic_filter in zip(subscribers, (topic, f"{topic}/#", f"+/{topic}/#", topic), strict=True):
        subscriber.subscribe(topic_filter, qos=2)
    publisher = join(version)
    publisher.deliver(topic, b"for three", qos)
    assert [subscribers[index].receive().payload for index in (0, 1, 3)] == [b"for three"] * 3
    publisher.deliver(f"x/{topic}/y", b"for one", qos)
    assert subscribers[2].receive().payload == b"for one"


@pytest.mark.parametrize("size", [0, 1, 127, 128, 16_384, 200_000])
@clause(v311="MQTT-3.3.4-1", v5="MQTT-3.3.4-1")
def test_payloads_of_any_length_arrive_whole(join: Join, version: int, topic: str, size: int) -> None:
    publisher, subscriber = join(version), join(version)
    subscriber.subscribe(topic, qos=1)
    payload = bytes(number % 251 for number in range(size))
    publisher.deliver(topic, payload, 1)
    assert subscriber.receive().payload == payload
