"""4.9 flow control, MQTT 5.0."""

from __future__ import annotations

import pytest

from tests.conformance.brokers import Broker
from tests.conformance.conftest import Join
from tests.conformance.statements import clause, deviates
from tests.support.mqtt_packets import (
    PUBACK,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    PUBREL,
    RECEIVE_MAXIMUM,
    SUBACK,
    publish_bytes,
    subscribe_bytes,
)

EXCEEDED = 0x93


@deviates("mosquitto", "2.0.11 lets more out than the receive maximum once the queue moves", "-3]")
@pytest.mark.parametrize("maximum", [1, 3])
@pytest.mark.parametrize("qos", [1, 2])
@clause(v5="MQTT-3.3.4-9 MQTT-4.9.0-1 MQTT-4.9.0-2")
def test_no_more_than_the_receive_maximum_is_in_flight(join: Join, version: int, topic: str, maximum: int, qos: int) -> None:
    """Each acknowledgement lets exactly one more out; PUBREC does not."""
    publisher, subscriber = join(version), join(version, properties=[(RECEIVE_MAXIMUM, maximum)])
    subscriber.subscribe(topic, qos=2)
    for number in range(8):
        publisher.deliver(topic, b"%d" % number, qos)
    flying = [subscriber.expect(PUBLISH) for _ in range(maximum)]
    assert subscriber.drain() == []
    for number in range(maximum, 8):
        oldest = flying.pop(0)
        if qos == 2:
            subscriber.acknowledge(PUBREC, oldest.packet_id)
            subscriber.expect(PUBREL, oldest.packet_id)
            assert subscriber.drain() == [], "PUBREC gives no room"
        subscriber.acknowledge(PUBACK if qos == 1 else PUBCOMP, oldest.packet_id)
        flying.append(subscriber.expect(PUBLISH))
        assert flying[-1].payload == b"%d" % number
        assert subscriber.drain() == []


@clause(v5="MQTT-3.3.4-9 MQTT-4.9.0-1")
def test_a_pubrec_of_failure_gives_room(join: Join, version: int, topic: str) -> None:
    publisher, subscriber = join(version), join(version, properties=[(RECEIVE_MAXIMUM, 1)])
    subscriber.subscribe(topic, qos=2)
    publisher.deliver(topic, b"1", 2)
    publisher.deliver(topic, b"2", 2)
    subscriber.acknowledge(PUBREC, subscriber.expect(PUBLISH).packet_id, 0x80)
    assert subscriber.expect(PUBLISH).payload == b"2"


@clause(v5="MQTT-3.3.4-10 MQTT-4.9.0-3")
def test_with_no_room_left_everything_else_goes_on(join: Join, version: int, topic: str) -> None:
    """QoS 0, SUBSCRIBE, PINGREQ, and the client's own PUBLISH packets."""
    publisher, subscriber = join(version), join(version, properties=[(RECEIVE_MAXIMUM, 1)])
    subscriber.subscribe(topic, qos=1)
    for _ in range(3):
        publisher.deliver(topic, b"x", 1)
    subscriber.expect(PUBLISH)
    publisher.deliver(topic, b"free", 0)
    assert subscriber.expect(PUBLISH).payload == b"free"
    assert subscriber.drain() == []
    subscriber.send(subscribe_bytes(version, 9, [(f"{topic}/b", 2)]))
    subscriber.expect(SUBACK, 9)
    assert subscriber.deliver(f"{topic}/c", b"", 1) is not None
    assert subscriber.deliver(f"{topic}/c", b"", 2) is not None


@deviates("mosquitto", "2.0.11 sends all of it again at once")
@clause(v5="MQTT-3.3.4-9")
def test_the_receive_maximum_counts_for_what_is_sent_again(join: Join, version: int, topic: str) -> None:
    publisher, subscriber = join(version), join(version, topic, expiry_s=1000)
    subscriber.subscribe(topic, qos=1)
    for number in range(4):
        publisher.deliver(topic, b"%d" % number, 1)
    first = [subscriber.expect(PUBLISH) for _ in range(4)]
    subscriber.vanish()
    subscriber = join(version, topic, clean=False, expiry_s=1000, properties=[(RECEIVE_MAXIMUM, 2)])
    again = [subscriber.expect(PUBLISH) for _ in range(2)]
    assert subscriber.drain() == []
    for message in again:
        subscriber.acknowledge(PUBACK, message.packet_id)
    again += [subscriber.expect(PUBLISH) for _ in range(2)]
    assert [(one.packet_id, one.dup) for one in again] == [(one.packet_id, True) for one in first]


@deviates("mosquitto", "2.0.11 takes more than it said")
@clause(v5="MQTT-3.3.4-7")
def test_a_client_that_exceeds_the_servers_receive_maximum_is_disconnected(
    join: Join, version: int, limited: Broker, topic: str
) -> None:
    """QoS 2 and no PUBREL. Up to the maximum everything is taken."""
    client = join(version, port=limited.port)
    maximum = client.connack.number(RECEIVE_MAXIMUM, 65_535)
    assert maximum == 5
    for packet_id in range(1, maximum + 1):
        client.send(publish_bytes(version, topic, b"", 2, packet_id))
        client.expect(PUBREC, packet_id)
    assert client.drain() == []
    client.send(publish_bytes(version, topic, b"", 2, maximum + 1))
    client.expect_end(EXCEEDED)
