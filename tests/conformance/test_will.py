"""The Will: 3.1.2.5 and following, 3.1.3.2, 3.14."""

from __future__ import annotations

import time

import pytest

from tests.conformance.conftest import Join
from tests.conformance.statements import clause, deviates
from tests.support.mqtt_packets import (
    CONTENT_TYPE,
    CORRELATION_DATA,
    DISCONNECT,
    PAYLOAD_FORMAT,
    RESPONSE_TOPIC,
    USER_PROPERTY,
    WILL_DELAY,
    Properties,
    Will,
    packet_bytes,
)
from tests.support.waiting import wait_until

LONG_S = 1000
QOS = pytest.mark.parametrize("qos", [0, 1, 2])


@clause(v311="MQTT-3.1.2-8 MQTT-3.1.2-14", v5="MQTT-3.1.2-7 MQTT-3.1.2-8 MQTT-3.1.2-12")
@pytest.mark.parametrize("end", ["reset", "close", "malformed", "take-over"])
@QOS
def test_a_will_is_published_when_the_connection_ends_without_disconnect(
    join: Join, version: int, topic: str, end: str, qos: int
) -> None:
    watcher = join(version)
    watcher.subscribe(f"{topic}/will", qos=2)
    client = join(version, topic, will=Will(topic=f"{topic}/will", payload=b"gone", qos=qos))
    if end == "reset":
        client.vanish()
    elif end == "close":
        client.close()
    elif end == "malformed":
        client.send(packet_bytes(15, 15, b"\xff"))
        client.rest()
    else:
        join(version, topic)
    message = watcher.receive()
    assert (message.topic, message.payload, message.qos, message.retain) == (f"{topic}/will", b"gone", qos, False)


@clause(v311="MQTT-3.1.2-8 MQTT-3.1.2-10 MQTT-3.14.4-3", v5="MQTT-3.1.2-8 MQTT-3.1.2-10 MQTT-3.14.4-3")
def test_disconnect_deletes_the_will(join: Join, version: int, topic: str) -> None:
    watcher = join(version)
    watcher.subscribe(topic)
    join(version, will=Will(topic=topic)).disconnect()
    watcher.deliver(topic, b"end")
    assert watcher.receive_until(b"end") == []


@clause(v311="MQTT-3.14.4-3", v5="MQTT-3.14.4-3")
def test_disconnect_and_a_packet_behind_it(join: Join, version: int, topic: str) -> None:
    """Packets that a Client sends behind its DISCONNECT are not looked at."""
    watcher = join(version)
    watcher.subscribe(topic)
    client = join(version, will=Will(topic=topic))
    client.send(packet_bytes(DISCONNECT, 0, b""), b"\xff\xff\xff\xff\xff")
    assert client.rest() == []
    watcher.deliver(topic, b"end")
    assert watcher.receive_until(b"end") == []


@clause(v311="MQTT-3.1.2-10", v5="MQTT-3.1.2-10")
def test_a_will_is_published_once(join: Join, version: int, topic: str) -> None:
    """A session that is resumed without a Will has none."""
    watcher = join(version)
    watcher.subscribe(f"{topic}/will", qos=1)
    join(version, topic, expiry_s=LONG_S, will=Will(topic=f"{topic}/will", qos=1)).vanish()
    assert watcher.receive().payload == b"will"
    join(version, topic, clean=False, expiry_s=LONG_S).vanish()
    assert join(version, topic, clean=False, expiry_s=LONG_S).connack.session_present
    watcher.deliver(f"{topic}/will", b"end", 1)
    assert watcher.receive_until(b"end") == []


@clause(v311="MQTT-3.1.2-16 MQTT-3.1.2-17", v5="MQTT-3.1.2-14 MQTT-3.1.2-15")
@pytest.mark.parametrize("retain", [False, True])
@pytest.mark.parametrize("qos", [0, 1])
def test_a_will_is_retained_if_it_says_so(join: Join, version: int, topic: str, retain: bool, qos: int) -> None:
    watcher = join(version)
    watcher.subscribe(topic, qos=1)
    join(version, will=Will(topic=topic, retain=retain, qos=qos)).vanish()
    assert not watcher.receive().retain, "an established subscription"
    late = join(version)
    late.subscribe(topic, qos=1)
    late.deliver(topic, b"end", qos)
    assert [(message.payload, message.retain) for message in late.receive_until(b"end")] == ([(b"will", True)] if retain else [])


@clause(v311="MQTT-3.1.2-8", v5="MQTT-3.1.2-7")
@pytest.mark.parametrize("size", [0, 60_000])
def test_a_will_may_be_empty_or_long(join: Join, version: int, topic: str, size: int) -> None:
    watcher = join(version)
    watcher.subscribe(topic)
    join(version, will=Will(topic=topic, payload=b"w" * size)).vanish()
    assert watcher.receive().payload == b"w" * size


@clause(v311="MQTT-3.1.2-8", v5="MQTT-3.1.2-8")
@pytest.mark.parametrize("qos", [0, 1])
def test_a_will_goes_to_absent_sessions(join: Join, version: int, topic: str, qos: int) -> None:
    absent = join(version, topic, expiry_s=LONG_S)
    absent.subscribe(f"{topic}/will", qos=1)
    absent.disconnect()
    watcher = join(version)
    watcher.subscribe(f"{topic}/will", qos=1)
    join(version, will=Will(topic=f"{topic}/will", qos=qos)).vanish()
    watcher.receive()
    watcher.deliver(f"{topic}/will", b"end", 1)
    absent = join(version, topic, clean=False, expiry_s=LONG_S)
    assert [one.payload for one in absent.receive_until(b"end")] == ([b"will"] if qos else [])


# --- MQTT 5.0 ---


@deviates("mosquitto", "2.0.11 publishes the Will with reason code 0x04 only", "12[89]-")
@clause(v5="MQTT-3.1.2-8 MQTT-3.14.2-1")
@pytest.mark.parametrize("code", [0x04, 0x80, 0x81])
def test_disconnect_with_another_reason_than_0_publishes_the_will(join: Join, version: int, topic: str, code: int) -> None:
    watcher = join(version)
    watcher.subscribe(topic)
    join(version, will=Will(topic=topic)).disconnect(code)
    assert watcher.receive().payload == b"will"


@clause(v5="MQTT-3.1.3-10 MQTT-3.1.2-8")
def test_a_will_carries_its_properties_in_order(join: Join, version: int, topic: str) -> None:
    watcher = join(version)
    watcher.subscribe(topic)
    properties: Properties = [
        (WILL_DELAY, 0),
        (PAYLOAD_FORMAT, 1),
        (CONTENT_TYPE, "text/plain"),
        (RESPONSE_TOPIC, "here"),
        (CORRELATION_DATA, b"\x01"),
        (USER_PROPERTY, ("z", "1")),
        (USER_PROPERTY, ("a", "2")),
        (USER_PROPERTY, ("z", "1")),
    ]
    join(version, will=Will(topic=topic, properties=properties)).vanish()
    message = watcher.receive()
    assert [entry for entry in message.properties if entry[0] != USER_PROPERTY] == properties[1:5]
    assert message.all(USER_PROPERTY) == [("z", "1"), ("a", "2"), ("z", "1")]


@clause(v5="MQTT-3.1.3-9 MQTT-3.1.2-8")
def test_a_delayed_will_is_cancelled_by_the_session_that_comes_back(join: Join, version: int, topic: str) -> None:
    watcher = join(version)
    watcher.subscribe(topic)
    will = Will(topic=topic, properties=[(WILL_DELAY, 3)])
    client = join(version, f"{topic}-b", expiry_s=LONG_S, will=will)
    client.vanish()
    client = join(version, f"{topic}-b", clean=False, expiry_s=LONG_S)
    begin_s = time.monotonic()
    wait_until(lambda: time.monotonic() > begin_s + 4.0, 60.0, "the delay passes")
    watcher.deliver(topic, b"end")
    assert watcher.receive_until(b"end") == []


@deviates("mosquitto", "2.0.11 waits longer than the session lasts", "1000-0-")
@clause(v5="MQTT-3.1.2-8")
@pytest.mark.parametrize(("delay_s", "expiry_s"), [(2, LONG_S), (LONG_S, 2), (LONG_S, 0)])
def test_a_will_waits_for_its_delay_or_the_end_of_the_session(
    join: Join, version: int, topic: str, delay_s: int, expiry_s: int
) -> None:
    watcher = join(version)
    watcher.subscribe(topic)
    absent = join(version, expiry_s=expiry_s, will=Will(topic=topic, properties=[(WILL_DELAY, delay_s)]))
    begin_s = time.monotonic()
    absent.vanish()
    if expiry_s:
        watcher.deliver(topic, b"before")
        assert watcher.receive().payload == b"before"
    assert watcher.receive().payload == b"will"
    assert expiry_s == 0 or time.monotonic() - begin_s > 1.0


@deviates("mosquitto", "2.0.11 forgets a delayed Will with its session")
@clause(v5="MQTT-3.1.2-8 MQTT-3.1.2-4")
def test_a_clean_start_ends_the_session_and_so_publishes_a_delayed_will(join: Join, version: int, topic: str) -> None:
    watcher = join(version)
    watcher.subscribe(topic)
    will = Will(topic=topic, properties=[(WILL_DELAY, LONG_S)])
    join(version, f"{topic}-b", expiry_s=LONG_S, will=will).vanish()
    join(version, f"{topic}-b", clean=True)
    assert watcher.receive().payload == b"will"
