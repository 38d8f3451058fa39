"""One client's packets take effect in their order, whatever they are: 3.8.4, 3.10.4, 3.3.1.3 and the order of the stream, 4.2."""

from __future__ import annotations

import pytest

from tests.conformance.conftest import Join
from tests.conformance.statements import clause, deviates
from tests.support.mqtt_client import MqttClient
from tests.support.mqtt_packets import (
    PUBACK,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    PUBREL,
    SUBACK,
    UNSUBACK,
    Packet,
    publish_bytes,
    subscribe_bytes,
    unsubscribe_bytes,
)

QOS = pytest.mark.parametrize("qos", [0, 1, 2])
LATER = deviates("mosquitto", "2.0.11 delivers a message of QoS 2 at its PUBREL", r"(3\.1\.1|5\.0)-2(-|\])", always=False)
KEPT = pytest.mark.parametrize("expiry_s", [0, 100], ids=["live", "kept"])
OLD = pytest.mark.parametrize("old", [False, True], ids=["new", "replaced"])


def _messages(client: MqttClient, owed: set[int], end: str = "end") -> list[tuple[bytes, bool]]:
    """(payload, RETAIN) of all that comes in answer to what was sent; ``owed`` are the kinds of the answers that must come.

    end: a topic to which the client is subscribed; it may get what is retained behind what is live, but for one filter in order.
    """
    found: list[Packet] = []

    def read() -> Packet:
        one = client.read()
        if one.kind == PUBLISH:
            found.append(one)
            if one.qos:
                client.acknowledge(PUBACK if one.qos == 1 else PUBREC, one.packet_id)
        elif one.kind in (PUBREC, PUBREL):
            client.acknowledge(PUBREL if one.kind == PUBREC else PUBCOMP, one.packet_id)
        return one

    while owed:
        owed -= {read().kind}
    client.send(publish_bytes(client.version, end, b"end", 1, 77), publish_bytes(client.version, end, b"end at 0", 0))
    at_end = {(PUBLISH, b"end"), (PUBACK, b""), (PUBLISH, b"end at 0")}
    while at_end:
        one = read()
        at_end -= {(one.kind, one.payload)}
    return [(one.payload, one.retain) for one in found if one.topic != end]


def _answers(qos: int, *others: int) -> set[int]:
    return {*others, *([PUBACK] if qos == 1 else [PUBCOMP] if qos == 2 else [])}


@LATER
@OLD
@KEPT
@QOS
@clause(v311="MQTT-3.3.1-6 MQTT-3.3.1-8 MQTT-3.8.4-1", v5="MQTT-3.3.1-5 MQTT-3.3.1-9 MQTT-4.2.0-1")
def test_a_subscribe_behind_a_retained_publish_brings_it_once(
    join: Join, version: int, topic: str, qos: int, expiry_s: int, old: bool
) -> None:
    """As a retained message, and nothing of the one that it has replaced."""
    client, other = join(version, topic, clean=False, expiry_s=expiry_s), join(version)
    if old:
        other.deliver(topic, b"old", 1, retain=True)
    client.send(
        publish_bytes(version, topic, b"new", qos, 99, retain=True),
        subscribe_bytes(version, 98, [(f"{topic}/#", 2)]),
    )
    assert _messages(client, _answers(qos, SUBACK), f"{topic}/~") == [(b"new", True)]


@LATER
@KEPT
@QOS
@clause(v311="MQTT-3.8.4-1", v5="MQTT-3.8.4-1 MQTT-4.2.0-1")
def test_a_subscribe_between_two_publishes_brings_the_second(join: Join, version: int, topic: str, qos: int, expiry_s: int) -> None:
    client = join(version, topic, clean=False, expiry_s=expiry_s)
    for _ in range(20):
        client.send(
            publish_bytes(version, topic, b"before", qos, 97),
            subscribe_bytes(version, 98, [(f"{topic}/#", 2)]),
            publish_bytes(version, topic, b"behind", 0),
        )
        assert _messages(client, _answers(qos, SUBACK), f"{topic}/~") == [(b"behind", False)]
        client.unsubscribe(f"{topic}/#")


@LATER
@KEPT
@QOS
@clause(v311="MQTT-3.10.4-1 MQTT-3.10.4-2", v5="MQTT-3.10.4-2 MQTT-3.10.4-3 MQTT-4.2.0-1")
def test_a_publish_before_an_unsubscribe_comes_and_one_behind_it_does_not(
    join: Join, version: int, topic: str, qos: int, expiry_s: int
) -> None:
    client = join(version, topic, clean=False, expiry_s=expiry_s)
    client.subscribe("end", qos=1)
    for _ in range(20):
        client.subscribe(topic, qos=2)
        client.send(
            publish_bytes(version, topic, b"before", qos, 97),
            unsubscribe_bytes(version, 98, [topic]),
            publish_bytes(version, topic, b"behind", 0),
        )
        assert _messages(client, _answers(qos, UNSUBACK)) == [(b"before", False)]


@LATER
@QOS
@clause(v311="MQTT-3.8.4-1 MQTT-3.10.4-1", v5="MQTT-3.8.4-1 MQTT-3.10.4-2 MQTT-4.2.0-1")
def test_a_long_stream_of_all_of_them_keeps_its_order(join: Join, version: int, topic: str, qos: int) -> None:
    client = join(version)
    client.subscribe("end")
    stream: list[bytes] = []
    for number in range(40):
        stream.append(publish_bytes(version, topic, b"%d off" % number, qos, 1 + number))
        stream.append(subscribe_bytes(version, 1000 + number, [(topic, 0)]))
        stream.append(publish_bytes(version, topic, b"%d on" % number, qos, 101 + number))
        stream.append(unsubscribe_bytes(version, 2000 + number, [topic]))
    client.send(*stream, publish_bytes(version, "end", b"first end", qos, 3000))
    found: list[bytes] = []
    while not found or found[-1] != b"first end":
        one = client.read()
        if one.kind == PUBLISH:
            found.append(one.payload)
        elif one.kind == PUBREC:
            client.acknowledge(PUBREL, one.packet_id)
    assert found[:-1] == [b"%d on" % number for number in range(40)]
