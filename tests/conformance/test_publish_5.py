"""3.3 PUBLISH, what only MQTT 5.0 has: properties, aliases, refusals by acknowledgement."""

from __future__ import annotations

import time

import pytest

from tests.conformance.conftest import Join
from tests.conformance.statements import clause, deviates
from tests.support.mqtt_packets import (
    ALIAS_MAXIMUM,
    CONTENT_TYPE,
    CORRELATION_DATA,
    MESSAGE_EXPIRY,
    PAYLOAD_FORMAT,
    PUBACK,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    PUBREL,
    RESPONSE_TOPIC,
    TOPIC_ALIAS,
    USER_PROPERTY,
    Properties,
    publish_bytes,
)
from tests.support.waiting import wait_until

BAD, TOPIC_INVALID, ALIAS_INVALID = (0x81, 0x82), 0x90, 0x94
PASSED_ON: Properties = [
    (PAYLOAD_FORMAT, 1),
    (CONTENT_TYPE, "text/plain; Ä"),
    (RESPONSE_TOPIC, "answer/here"),
    (CORRELATION_DATA, b"\x00\xff\x01"),
    (USER_PROPERTY, ("b", "1")),
    (USER_PROPERTY, ("a", "")),
    (USER_PROPERTY, ("b", "1")),
    (USER_PROPERTY, ("", "ü")),
]


@pytest.mark.parametrize("qos", [0, 1, 2])
@clause(v5="MQTT-3.3.2-4 MQTT-3.3.2-15 MQTT-3.3.2-16 MQTT-3.3.2-17 MQTT-3.3.2-18 MQTT-3.3.2-20")
def test_properties_are_passed_on_unaltered_and_in_order(join: Join, version: int, topic: str, qos: int) -> None:
    publisher, subscriber = join(version), join(version)
    subscriber.subscribe(topic, qos=2)
    publisher.deliver(topic, "größer".encode(), qos, properties=PASSED_ON)
    message = subscriber.receive()
    for identifier in (PAYLOAD_FORMAT, CONTENT_TYPE, RESPONSE_TOPIC, CORRELATION_DATA):
        assert message.all(identifier) == [value for known, value in PASSED_ON if known == identifier]
    assert message.all(USER_PROPERTY) == [("b", "1"), ("a", ""), ("b", "1"), ("", "ü")]
    assert message.property(MESSAGE_EXPIRY) is None


@pytest.mark.parametrize("qos", [0, 1])
@clause(v5="MQTT-3.3.2-4")
def test_an_mqtt_311_subscriber_gets_the_message_without_properties(join: Join, version: int, topic: str, qos: int) -> None:
    publisher, subscriber = join(version), join(4)
    subscriber.subscribe(topic, qos=2)
    publisher.deliver(topic, b"plain", qos, properties=PASSED_ON)
    assert subscriber.receive().payload == b"plain"


def _pass(period_s: float) -> None:
    begin_s = time.monotonic()
    wait_until(lambda: time.monotonic() > begin_s + period_s, period_s + 5.0, "time passes")


@clause(v5="MQTT-3.3.2-5 MQTT-3.3.2-6")
def test_a_message_expires_while_it_waits_and_else_says_what_is_left(join: Join, version: int, topic: str) -> None:
    publisher, subscriber = join(version), join(version, topic, expiry_s=100)
    subscriber.subscribe(topic, qos=1)
    subscriber.disconnect()
    for payload, expiry_s in ((b"fleeting", 1), (b"lasting", 1000)):
        publisher.deliver(topic, payload, 1, properties=[(MESSAGE_EXPIRY, expiry_s)])
    _pass(2.1)
    publisher.deliver(topic, b"fresh", 1, properties=[(MESSAGE_EXPIRY, 1000)])
    subscriber = join(version, topic, clean=False, expiry_s=100)
    messages = subscriber.receive_until(b"fresh")
    assert [message.payload for message in messages] == [b"lasting"]
    assert 980 <= messages[0].number(MESSAGE_EXPIRY, 0) <= 999


@clause(v5="MQTT-3.3.2-6")
def test_a_message_that_does_not_wait_keeps_its_expiry(join: Join, version: int, topic: str) -> None:
    publisher, subscriber = join(version), join(version)
    subscriber.subscribe(topic)
    publisher.deliver(topic, b"x", properties=[(MESSAGE_EXPIRY, 500)])
    assert 490 <= subscriber.receive().number(MESSAGE_EXPIRY, 0) <= 500


@clause(v5="MQTT-3.3.2-7")
def test_a_topic_alias_ends_with_its_connection(join: Join, version: int, topic: str) -> None:
    client = join(version, topic, expiry_s=100)
    client.deliver(topic, b"", properties=[(TOPIC_ALIAS, 1)])
    client.disconnect()
    client = join(version, topic, clean=False, expiry_s=100)
    client.send(publish_bytes(version, "", b"", properties=[(TOPIC_ALIAS, 1)]))
    client.expect_end(*BAD, ALIAS_INVALID, TOPIC_INVALID)


@clause(v5="MQTT-3.2.2-17 MQTT-3.3.2-9")
def test_a_topic_alias_over_the_maximum_ends_the_connection(join: Join, version: int, topic: str) -> None:
    client = join(version)
    alias = client.connack.number(ALIAS_MAXIMUM, 0) + 1
    assert alias < 65_536, "a maximum that a test can go beyond"
    client.send(publish_bytes(version, topic, b"", properties=[(TOPIC_ALIAS, alias)]))
    client.expect_end(ALIAS_INVALID, *BAD)


@pytest.mark.parametrize("qos", [0, 1, 2])
@clause(v5="MQTT-3.3.2-12")
def test_every_alias_up_to_the_maximum_is_taken(join: Join, version: int, topic: str, qos: int) -> None:
    publisher, subscriber = join(version), join(version)
    maximum = publisher.connack.number(ALIAS_MAXIMUM, 0)
    assert maximum > 0
    subscriber.subscribe(f"{topic}/+", qos=2)
    for alias in {1, maximum}:
        publisher.deliver(f"{topic}/{alias}", b"named", qos, properties=[(TOPIC_ALIAS, alias)])
        publisher.deliver("", b"alias", qos, properties=[(TOPIC_ALIAS, alias)])
        publisher.deliver(f"{topic}/new", b"named", qos, properties=[(TOPIC_ALIAS, alias)])
        publisher.deliver("", b"alias", qos, properties=[(TOPIC_ALIAS, alias)])
        assert [subscriber.receive().topic for _ in range(4)] == [f"{topic}/{alias}"] * 2 + [f"{topic}/new"] * 2


@clause(v5="MQTT-4.3.3-4 MQTT-4.4.0-2")
@pytest.mark.parametrize(("qos", "answer"), [(1, PUBACK), (2, PUBREC)])
def test_an_answer_of_failure_ends_the_exchange(join: Join, version: int, topic: str, qos: int, answer: int) -> None:
    """No PUBREL, and nothing again in the next connection."""
    publisher, subscriber = join(version), join(version, topic, expiry_s=100)
    subscriber.subscribe(topic, qos=qos)
    publisher.deliver(topic, b"unwanted", qos)
    subscriber.acknowledge(answer, subscriber.expect(PUBLISH).packet_id, 0x83)
    assert subscriber.drain() == []
    subscriber.disconnect()
    subscriber = join(version, topic, clean=False, expiry_s=100)
    publisher.deliver(topic, b"wanted", qos)
    assert subscriber.receive_until(b"wanted") == []


@deviates("mosquitto", "2.0.11 drops a message in flight when it expires")
@clause(v5="MQTT-4.3.3-13 MQTT-4.3.3-7")
def test_an_exchange_is_finished_though_its_message_expired(join: Join, version: int, topic: str) -> None:
    """As receiver: a PUBREL behind the expiry gets its PUBCOMP. As sender: what was sent once is sent again, expired or not."""
    publisher, subscriber = join(version), join(version, topic, expiry_s=100)
    subscriber.subscribe(topic, qos=2)
    expiry: Properties = [(MESSAGE_EXPIRY, 1)]
    publisher.deliver(topic, b"short", 2, properties=expiry)
    sent = subscriber.expect(PUBLISH)
    subscriber.vanish()
    publisher.send(publish_bytes(version, topic, b"other", 2, 9, properties=expiry))
    publisher.expect(PUBREC, 9, 0)
    _pass(2.1)
    publisher.acknowledge(PUBREL, 9)
    publisher.expect(PUBCOMP, 9, 0)
    subscriber = join(version, topic, clean=False, expiry_s=100)
    again = subscriber.expect(PUBLISH)
    assert (again.packet_id, again.dup, again.payload) == (sent.packet_id, True, b"short")
    subscriber.complete(again)


@clause(v5="MQTT-3.4.2-1 MQTT-3.5.2-1")
@pytest.mark.parametrize("qos", [1, 2])
def test_a_message_without_subscribers_is_acknowledged(join: Join, version: int, topic: str, qos: int) -> None:
    answer = join(version).deliver(topic, b"", qos)
    assert answer is not None
    assert answer.reason_code in (0x00, 0x10)
