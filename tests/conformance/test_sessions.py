"""4.1 session state, 4.4 delivery retry, clean session and clean start, session present, session expiry."""

from __future__ import annotations

import time

import pytest

from tests.conformance.conftest import Dial, Join
from tests.conformance.statements import clause
from tests.support.mqtt_packets import CONNACK, PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL, connect_bytes, publish_bytes
from tests.support.mqtt_packets import SESSION_EXPIRY as EXPIRY
from tests.support.waiting import wait_until

LONG_S = 1000


@clause(
    v311="MQTT-3.1.2-4 MQTT-3.2.2-2 MQTT-3.2.2-3 MQTT-3.1.4-3 MQTT-3.1.3-2",
    v5="MQTT-3.1.2-5 MQTT-3.1.2-6 MQTT-3.1.2-23 MQTT-3.1.4-4 MQTT-3.2.2-3 MQTT-3.1.3-2",
)
@pytest.mark.parametrize("end", ["disconnect", "vanish", "take-over"])
def test_a_kept_session_is_resumed(join: Join, version: int, topic: str, end: str) -> None:
    client = join(version, topic, clean=False, expiry_s=LONG_S)
    assert not client.connack.session_present
    client.subscribe(topic, qos=1)
    if end == "disconnect":
        client.disconnect()
    elif end == "vanish":
        client.vanish()
    client = join(version, topic, clean=False, expiry_s=LONG_S)
    assert client.connack.session_present
    client.deliver(topic, b"still subscribed")
    assert client.receive().payload == b"still subscribed"


@clause(v311="MQTT-3.1.2-5 MQTT-4.1.0-1 MQTT-4.5.0-1", v5="MQTT-3.1.2-23 MQTT-4.1.0-1 MQTT-4.5.0-1")
def test_qos_1_and_2_messages_wait_for_an_absent_client_in_order(join: Join, version: int, topic: str) -> None:
    client, publisher = join(version, topic, expiry_s=LONG_S), join(version)
    client.subscribe(f"{topic}/#", qos=2)
    client.disconnect()
    for number in range(12):
        publisher.deliver(f"{topic}/a", b"%d" % number, 1 + number % 2)
    client = join(version, topic, clean=False, expiry_s=LONG_S)
    messages = [client.receive() for _ in range(12)]
    for qos in (1, 2):
        assert [message.payload for message in messages if message.qos == qos] == [b"%d" % n for n in range(qos - 1, 12, 2)]
    assert not any(message.dup for message in messages)


@clause(v311="MQTT-3.1.2-6 MQTT-3.2.2-1 MQTT-3.2.2-3", v5="MQTT-3.1.2-4 MQTT-3.2.2-2 MQTT-3.1.4-4")
def test_a_clean_start_forgets_everything(join: Join, version: int, topic: str) -> None:
    """Subscriptions, queued messages, what is in flight, received QoS 2 identifiers."""
    old, publisher = join(version, topic, expiry_s=LONG_S), join(version)
    old.subscribe(topic, qos=2)
    publisher.deliver(topic, b"in flight", 2)
    old.expect(PUBLISH)
    old.send(publish_bytes(version, topic, b"unreleased", 2, 500))
    while old.read().kind != PUBREC:
        pass
    old.vanish()
    publisher.deliver(topic, b"queued", 1)

    new = join(version, topic, clean=True, expiry_s=LONG_S)
    assert not new.connack.session_present
    assert new.drain() == []
    publisher.deliver(topic, b"not subscribed", 1)
    new.subscribe(topic, qos=1)
    new.send(publish_bytes(version, topic, b"new", 2, 500))
    new.acknowledge(PUBREL, 500)
    found = [new.read() for _ in range(3)]
    assert sorted(one.kind for one in found) == [PUBLISH, PUBREC, PUBCOMP]
    assert [one.payload for one in found if one.kind == PUBLISH] == [b"new"]


@clause(v311="MQTT-3.1.2-6 MQTT-3.2.2-3", v5="MQTT-4.1.0-2 MQTT-3.2.2-3")
def test_a_session_that_is_not_kept_ends_with_its_connection(join: Join, version: int, topic: str) -> None:
    client = join(version, topic, clean=True)
    client.subscribe(topic, qos=1)
    client.disconnect()
    join(version).deliver(topic, b"nobody", 1)
    client = join(version, topic, clean=False, expiry_s=LONG_S)
    assert not client.connack.session_present
    assert client.drain() == []


@clause(v5="MQTT-4.1.0-2 MQTT-3.1.2-23")
@pytest.mark.parametrize("by", ["connect", "disconnect"])
def test_a_session_ends_when_its_expiry_has_passed_and_not_before(join: Join, version: int, topic: str, by: str) -> None:
    """The expiry of DISCONNECT replaces that of CONNECT."""
    client = join(version, topic, expiry_s=3 if by == "connect" else LONG_S)
    client.subscribe(topic, qos=1)
    client.disconnect() if by == "connect" else client.disconnect(0, [(EXPIRY, 3)])
    client = join(version, topic, clean=False, expiry_s=1)
    assert client.connack.session_present
    client.disconnect()
    begin_s = time.monotonic()
    wait_until(lambda: time.monotonic() > begin_s + 2.5, 5.0, "the expiry passes")
    assert not join(version, topic, clean=False).connack.session_present


@clause(v5="MQTT-4.1.0-2")
def test_disconnect_may_end_a_kept_session_at_once(join: Join, version: int, topic: str) -> None:
    client = join(version, topic, expiry_s=LONG_S)
    client.disconnect(0, [(EXPIRY, 0)])
    assert not join(version, topic, clean=False).connack.session_present


@clause(v5="MQTT-4.13.1-1")
def test_disconnect_may_not_keep_a_session_that_was_not_to_be_kept(join: Join, version: int, topic: str) -> None:
    client = join(version, topic)
    client.send(b"\xe0\x07\x00\x05\x11\x00\x00\x00\x0a")
    client.expect_end(0x82)
    assert not join(version, topic, clean=False).connack.session_present


@clause(v5="MQTT-4.1.0-1")
def test_a_session_lives_as_long_as_its_connection_whatever_its_expiry(join: Join, version: int, topic: str) -> None:
    client, publisher = join(version, topic, expiry_s=1), join(version)
    client.subscribe(topic, qos=1)
    begin_s = time.monotonic()
    wait_until(lambda: time.monotonic() > begin_s + 1.5, 5.0, "the expiry would have passed")
    publisher.deliver(topic, b"here", 1)
    assert client.receive().payload == b"here"


@clause(v311="MQTT-4.1.0-2", v5="MQTT-4.1.0-1")
def test_a_session_that_is_not_kept_lasts_through_its_connection(join: Join, version: int, topic: str) -> None:
    client, publisher = join(version), join(version)
    client.subscribe(topic, qos=2)
    for number in range(5):
        publisher.deliver(topic, b"%d" % number, 2)
        assert client.receive().payload == b"%d" % number


@clause(v311="MQTT-4.4.0-1 MQTT-3.3.1-1 MQTT-2.3.1-4", v5="MQTT-4.4.0-1 MQTT-3.3.1-1")
def test_what_was_in_flight_comes_again_in_order_with_its_identifiers(join: Join, version: int, topic: str) -> None:
    client, publisher = join(version, topic, expiry_s=LONG_S), join(version)
    client.subscribe(topic, qos=2)
    for number in range(8):
        publisher.deliver(topic, b"%d" % number, 1 + number % 2)
    first = [client.expect(PUBLISH) for _ in range(8)]
    assert not any(message.dup for message in first)
    client.acknowledge(PUBACK, next(message.packet_id for message in first if message.payload == b"2"))
    released = next(message.packet_id for message in first if message.payload == b"1")
    client.acknowledge(PUBREC, released)
    client.expect(PUBREL, released)
    client.vanish()

    client = join(version, topic, clean=False, expiry_s=LONG_S)
    again = [client.read() for _ in range(7)]
    assert [one.packet_id for one in again if one.kind == PUBREL] == [released]
    repeated = [one for one in again if one.kind == PUBLISH]
    assert all(one.dup for one in repeated)
    assert [(one.payload, one.packet_id) for one in repeated] == [
        (one.payload, one.packet_id) for one in first if one.payload not in (b"1", b"2")
    ]
    assert client.drain() == []


@clause(v311="MQTT-4.3.3-2 MQTT-4.1.0-1", v5="MQTT-4.3.3-10 MQTT-4.1.0-1")
def test_a_received_qos_2_identifier_outlives_the_connection(join: Join, version: int, topic: str) -> None:
    watcher, publisher = join(version), join(version, topic, expiry_s=LONG_S)
    watcher.subscribe(topic, qos=2)
    publisher.send(publish_bytes(version, topic, b"once", 2, 9))
    publisher.expect(PUBREC, 9, 0)
    publisher.vanish()
    publisher = join(version, topic, clean=False, expiry_s=LONG_S)
    publisher.send(publish_bytes(version, topic, b"once", 2, 9, dup=True))
    publisher.expect(PUBREC, 9, 0)
    publisher.acknowledge(PUBREL, 9)
    publisher.expect(PUBCOMP, 9, 0)
    publisher.deliver(topic, b"end", 2)
    assert [message.payload for message in watcher.receive_until(b"end")] == [b"once"]


@clause(v311="MQTT-3.1.2-7", v5="MQTT-4.1.0-2")
def test_retained_messages_outlive_the_session_of_their_publisher(join: Join, version: int, topic: str) -> None:
    publisher = join(version, topic, clean=True)
    publisher.deliver(topic, b"kept", 1, retain=True)
    publisher.disconnect()
    join(version, topic, clean=True).disconnect()
    reader = join(version)
    reader.subscribe(topic)
    assert reader.receive().payload == b"kept"


@clause(v311="MQTT-3.1.4-2", v5="MQTT-3.1.4-3 MQTT-3.2.2-3")
def test_a_take_over_hands_the_session_on(dial: Dial, join: Join, version: int, topic: str) -> None:
    old, publisher = join(version, topic, expiry_s=LONG_S), join(version)
    old.subscribe(topic, qos=1)
    publisher.deliver(topic, b"in flight", 1)
    sent = old.expect(PUBLISH)
    new = dial(version)
    new.send(connect_bytes(version, topic, clean=False, properties=[(EXPIRY, LONG_S)]))
    assert new.expect(CONNACK, reason_code=0).session_present
    again = new.expect(PUBLISH)
    assert (again.packet_id, again.dup, again.payload) == (sent.packet_id, True, b"in flight")
    old.expect_end(0x8E)


@clause(v311="MQTT-3.1.2-4", v5="MQTT-3.1.2-5")
def test_a_session_passes_from_one_version_to_the_other(join: Join, version: int, topic: str) -> None:
    """Not said by either, but a Client that is renewed needs it."""
    old = join(9 - version, topic, clean=False, expiry_s=LONG_S)
    old.subscribe(topic, qos=1)
    old.disconnect()
    publisher = join(version)
    publisher.deliver(topic, b"queued", 1)
    new = join(version, topic, clean=False, expiry_s=LONG_S)
    assert new.connack.session_present
    assert new.receive().payload == b"queued"
