"""Retained messages: 3.3.1.3, 3.8.3.1."""

from __future__ import annotations

import time

import pytest

from tests.conformance.conftest import Join
from tests.conformance.statements import clause, deviates
from tests.support.mqtt_packets import CONTENT_TYPE, MESSAGE_EXPIRY, PUBACK, PUBLISH, SUBACK, USER_PROPERTY, subscribe_bytes
from tests.support.waiting import wait_until

AS_PUBLISHED, IF_NEW, NEVER = 0x08, 0x10, 0x20
QOS = pytest.mark.parametrize("qos", [0, 1, 2])


@clause(v311="MQTT-3.3.1-5 MQTT-3.3.1-6 MQTT-3.3.1-7 MQTT-3.3.1-8", v5="MQTT-3.3.1-5 MQTT-3.3.1-9")
@QOS
def test_the_last_retained_message_comes_with_a_new_subscription(join: Join, version: int, topic: str, qos: int) -> None:
    publisher, subscriber = join(version), join(version)
    publisher.deliver(topic, b"old", 1, retain=True)
    publisher.deliver(topic, b"new", qos, retain=True)
    publisher.drain()
    publisher.deliver(f"{topic}/other", b"other", 1, retain=True)
    subscriber.subscribe(topic, qos=2)
    message = subscriber.receive()
    assert (message.topic, message.payload, message.qos, message.retain) == (topic, b"new", qos, True)
    assert not message.dup


@clause(v311="MQTT-3.3.1-6", v5="MQTT-3.3.1-9")
def test_each_matching_topic_sends_its_retained_message(join: Join, version: int, topic: str) -> None:
    publisher, subscriber = join(version), join(version)
    names = ["a", "b", "b/c", "b/c/d", "e"]
    for name in names:
        publisher.deliver(f"{topic}/{name}", name.encode(), 1, retain=True)
    publisher.deliver(topic, b"parent", 1, retain=True)
    subscriber.subscribe(f"{topic}/#", qos=1)
    found = [subscriber.receive() for _ in range(6)]
    assert {message.payload for message in found} == {b"parent", *(name.encode() for name in names)}
    assert all(message.retain for message in found)
    other = join(version)
    other.subscribe(f"{topic}/+", qos=0)
    assert {other.receive().payload for _ in range(3)} == {b"a", b"b", b"e"}
    assert other.drain() == []


@clause(v311="MQTT-3.3.1-9", v5="MQTT-3.3.1-12")
@QOS
def test_an_established_subscription_gets_retain_0(join: Join, version: int, topic: str, qos: int) -> None:
    publisher, subscriber = join(version), join(version)
    subscriber.subscribe(topic, qos=2)
    publisher.deliver(topic, b"x", qos, retain=True)
    assert not subscriber.receive().retain


@clause(v5="MQTT-3.3.1-13")
@QOS
def test_retain_as_published_keeps_the_flag(join: Join, version: int, topic: str, qos: int) -> None:
    publisher, subscriber = join(version), join(version)
    subscriber.subscribe(topic, qos=2, options=AS_PUBLISHED)
    publisher.deliver(topic, b"1", qos, retain=True)
    publisher.deliver(topic, b"2", qos, retain=False)
    assert [subscriber.receive().retain for _ in range(2)] == [True, False]


@clause(v311="MQTT-3.3.1-10 MQTT-3.3.1-11", v5="MQTT-3.3.1-6 MQTT-3.3.1-7")
@QOS
def test_an_empty_retained_message_is_delivered_and_clears_the_topic(join: Join, version: int, topic: str, qos: int) -> None:
    publisher, subscriber, late = join(version), join(version), join(version)
    subscriber.subscribe(topic, qos=2)
    publisher.deliver(topic, b"kept", 1, retain=True)
    publisher.deliver(topic, b"", qos, retain=True)
    publisher.deliver(topic, b"end", qos)
    assert [(message.payload, message.retain) for message in subscriber.receive_until(b"end")] == [(b"kept", False), (b"", False)]
    late.subscribe(topic, qos=2)
    publisher.deliver(topic, b"end", qos)
    assert late.receive_until(b"end") == []


@clause(v311="MQTT-3.3.1-12", v5="MQTT-3.3.1-8")
@pytest.mark.parametrize("payload", [b"plain", b""])
def test_a_message_without_retain_changes_nothing_that_is_kept(join: Join, version: int, topic: str, payload: bytes) -> None:
    publisher, fresh, subscriber = join(version), join(version), join(version)
    publisher.deliver(topic, b"kept", 1, retain=True)
    publisher.deliver(topic, payload, 1)
    publisher.deliver(f"{topic}/never", payload, 1)
    subscriber.subscribe(topic, qos=1)
    assert subscriber.receive().payload == b"kept"
    fresh.subscribe(f"{topic}/never", qos=1)
    publisher.deliver(f"{topic}/never", b"end", 1)
    assert fresh.receive_until(b"end") == []


@clause(v311="MQTT-3.8.4-3 MQTT-3.3.1-6", v5="MQTT-3.8.4-4 MQTT-3.3.1-9")
def test_subscribing_again_sends_retained_messages_again(join: Join, version: int, topic: str) -> None:
    client = join(version)
    client.deliver(topic, b"kept", 1, retain=True)
    for _ in range(3):
        client.subscribe(topic)
        message = client.receive()
        assert (message.payload, message.retain) == (b"kept", True)


@clause(v5="MQTT-3.3.1-10")
def test_retain_handling_1_sends_with_a_new_subscription_only(join: Join, version: int, topic: str) -> None:
    client = join(version)
    client.deliver(topic, b"kept", 1, retain=True)
    client.subscribe(topic, options=IF_NEW)
    assert client.receive().payload == b"kept"
    client.subscribe(topic, options=IF_NEW)
    client.deliver(topic, b"end")
    assert client.receive_until(b"end") == []
    client.unsubscribe(topic)
    client.subscribe(topic, options=IF_NEW)
    assert client.receive().payload == b"kept"


@clause(v5="MQTT-3.3.1-11")
def test_retain_handling_2_sends_none(join: Join, version: int, topic: str) -> None:
    client = join(version)
    client.deliver(topic, b"kept", 1, retain=True)
    client.subscribe(topic, options=NEVER)
    client.deliver(topic, b"end")
    assert client.receive_until(b"end") == []


@clause(v5="MQTT-3.3.2-17 MQTT-3.3.2-20 MQTT-3.3.1-5")
def test_a_retained_message_keeps_its_properties(join: Join, version: int, topic: str) -> None:
    client = join(version)
    client.deliver(
        topic, b"kept", 1, retain=True, properties=[(CONTENT_TYPE, "x"), (USER_PROPERTY, ("b", "1")), (USER_PROPERTY, ("a", "2"))]
    )
    client.subscribe(topic)
    message = client.receive()
    assert message.property(CONTENT_TYPE) == "x"
    assert message.all(USER_PROPERTY) == [("b", "1"), ("a", "2")]


@clause(v5="MQTT-3.3.2-5 MQTT-3.3.2-6")
def test_a_retained_message_expires(join: Join, version: int, topic: str) -> None:
    client, late = join(version), join(version)
    client.deliver(f"{topic}/short", b"short", 1, retain=True, properties=[(MESSAGE_EXPIRY, 1)])
    client.deliver(f"{topic}/long", b"long", 1, retain=True, properties=[(MESSAGE_EXPIRY, 1000)])
    begin_s = time.monotonic()
    wait_until(lambda: time.monotonic() > begin_s + 2.2, 5.0, "the expiry passes")
    late.subscribe(f"{topic}/+", qos=1)
    message = late.receive()
    assert message.payload == b"long"
    assert 980 <= message.number(MESSAGE_EXPIRY, 0) <= 999
    client.deliver(f"{topic}/end", b"end", 1)
    assert late.receive_until(b"end") == []


@deviates("mosquitto", "2.0.11 sends retained messages to shared subscriptions")
@clause(v5="MQTT-3.3.1-9")
def test_a_shared_subscription_gets_no_retained_messages(join: Join, version: int, topic: str) -> None:
    client = join(version)
    client.deliver(topic, b"kept", 1, retain=True)
    client.subscribe(f"$share/group/{topic}", qos=1)
    client.deliver(topic, b"end", 1)
    assert client.receive_until(b"end") == []


@clause(v311="MQTT-3.3.1-6 MQTT-3.8.4-1", v5="MQTT-3.3.1-9 MQTT-3.8.4-1")
def test_a_kept_session_gets_retained_messages_that_it_has_not_acknowledged_again(join: Join, version: int, topic: str) -> None:
    client = join(version, topic, expiry_s=1000)
    client.deliver(topic, b"kept", 1, retain=True)
    client.send(subscribe_bytes(version, 9, [(topic, 1)]))
    first = [client.read(), client.read()]
    assert {one.kind for one in first} == {SUBACK, PUBLISH}
    sent = next(one for one in first if one.kind == PUBLISH)
    client.vanish()
    client = join(version, topic, clean=False, expiry_s=1000)
    again = client.expect(PUBLISH)
    assert (again.payload, again.packet_id, again.dup, again.retain) == (b"kept", sent.packet_id, True, True)
    client.acknowledge(PUBACK, again.packet_id)
