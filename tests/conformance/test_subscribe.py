"""3.8 SUBSCRIBE, 3.9 SUBACK, 3.10 UNSUBSCRIBE, 3.11 UNSUBACK."""

from __future__ import annotations

import pytest

from tests.conformance.conftest import Join
from tests.conformance.statements import clause, deviates
from tests.support.mqtt_packets import (
    PUBACK,
    PUBLISH,
    PUBREC,
    SUBACK,
    SUBSCRIPTION_IDENTIFIER,
    UNSUBACK,
    subscribe_bytes,
    unsubscribe_bytes,
)

NO_LOCAL = 4


@clause(
    v311="MQTT-3.8.4-1 MQTT-3.8.4-4 MQTT-3.8.4-5 MQTT-3.9.3-1 MQTT-3.9.3-2 MQTT-3.8.3-2",
    v5="MQTT-3.8.4-1 MQTT-3.8.4-5 MQTT-3.8.4-6 MQTT-3.8.4-7 MQTT-3.9.3-1 MQTT-3.9.3-2 MQTT-3.2.2-10",
)
def test_one_suback_has_a_code_for_each_filter_in_order(join: Join, version: int, topic: str) -> None:
    client = join(version)
    asked = [2, 0, 1, 1, 0, 2]
    filters = [f"{topic}/a", f"{topic}/+", f"{topic}/#", f"{topic}/b", f"{topic}/c/#", f"{topic}/+/d"]
    client.send(subscribe_bytes(version, 9, zip(filters, asked, strict=True)))
    assert client.expect(SUBACK, 9).reason_codes == tuple(asked)


@clause(v311="MQTT-3.8.4-4", v5="MQTT-3.8.4-5")
def test_each_filter_of_a_subscribe_counts(join: Join, version: int, topic: str) -> None:
    client = join(version)
    client.subscribe(f"{topic}/a", f"{topic}/b", f"{topic}/c")
    for name in "cab":
        client.deliver(f"{topic}/{name}", name.encode())
    assert [client.receive().payload for _ in range(3)] == [b"c", b"a", b"b"]


@clause(v311="MQTT-3.8.4-3", v5="MQTT-3.8.4-3")
def test_the_same_filter_again_replaces_the_subscription(join: Join, version: int, topic: str) -> None:
    client, publisher = join(version), join(version)
    client.subscribe(topic, qos=2)
    client.subscribe(topic, qos=0)
    publisher.deliver(topic, b"one copy", 1)
    publisher.deliver(topic, b"end", 1)
    assert [(message.payload, message.qos) for message in (client.receive(), client.receive())] == [(b"one copy", 0), (b"end", 0)]
    client.subscribe(topic, qos=1)
    publisher.deliver(topic, b"raised", 1)
    assert client.receive().qos == 1


@clause(v311="MQTT-3.8.4-3", v5="MQTT-3.8.4-4")
def test_replacing_a_subscription_loses_nothing(join: Join, version: int, topic: str) -> None:
    client, publisher = join(version), join(version)
    client.subscribe(topic, qos=1)
    for number in range(20):
        publisher.deliver(topic, b"%d" % number, 1)
        client.send(subscribe_bytes(version, 1000 + number, [(topic, 1)]))
    seen: list[bytes] = []
    subacks = 0
    while len(seen) < 20 or subacks < 20:
        found = client.read()
        if found.kind == SUBACK:
            subacks += 1
        else:
            seen.append(found.payload)
            client.acknowledge(PUBACK, found.packet_id)
    assert seen == [b"%d" % number for number in range(20)]


@deviates("mosquitto", "2.0.11 sends the one copy at the QoS of whichever subscription it meets first", always=False)
@clause(v311="MQTT-3.3.5-1", v5="MQTT-3.3.4-2")
def test_overlapping_subscriptions_give_the_highest_qos(join: Join, version: int, topic: str) -> None:
    """Copies for each subscription are allowed; one of them has the highest QoS."""
    client, publisher = join(version), join(version)
    client.subscribe(f"{topic}/#", qos=0)
    client.subscribe(f"{topic}/+", qos=2)
    client.subscribe(f"{topic}/a", qos=1)
    publisher.deliver(f"{topic}/a", b"x", 2)
    publisher.deliver(f"{topic}/a", b"end", 2)
    copies = client.receive_until(b"end")
    assert max(message.qos for message in copies) == 2
    assert len(copies) <= 3


@clause(v311="MQTT-3.10.4-1 MQTT-3.10.4-2", v5="MQTT-3.10.4-1 MQTT-3.10.4-2 MQTT-3.11.3-2")
def test_unsubscribe_takes_away_exactly_that_filter(join: Join, version: int, topic: str) -> None:
    client, publisher = join(version), join(version)
    client.subscribe(f"{topic}/a", f"{topic}/b", f"{topic}/+/c")
    client.unsubscribe(f"{topic}/+", f"{topic}/#", f"{topic}/A", f"{topic}/x/c")  # match or resemble, but are not the same
    client.unsubscribe(f"{topic}/a")
    for name in ("a", "b", "x/c", "a"):
        publisher.deliver(f"{topic}/{name}", b"")
    publisher.deliver(f"{topic}/b", b"end")
    assert [message.topic for message in client.receive_until(b"end")] == [f"{topic}/b", f"{topic}/x/c"]


@clause(
    v311="MQTT-3.10.4-4 MQTT-3.10.4-5 MQTT-3.10.4-6", v5="MQTT-3.10.4-4 MQTT-3.10.4-5 MQTT-3.10.4-6 MQTT-3.11.3-1 MQTT-3.11.3-2"
)
def test_one_unsuback_answers_all_filters(join: Join, version: int, topic: str) -> None:
    client = join(version)
    client.subscribe(f"{topic}/a", f"{topic}/b")
    client.send(unsubscribe_bytes(version, 9, [f"{topic}/never", f"{topic}/b", f"{topic}/a", f"{topic}/a"]))
    answer = client.expect(UNSUBACK, 9)
    assert answer.reason_codes == ((0x11, 0, 0, 0x11) if version == 5 else ())


@clause(v311="MQTT-3.10.4-3", v5="MQTT-3.10.4-3")
def test_what_is_in_flight_is_finished_behind_unsubscribe(join: Join, version: int, topic: str) -> None:
    client, publisher = join(version), join(version)
    client.subscribe(topic, qos=2)
    publisher.deliver(topic, b"started", 2)
    started = client.expect(PUBLISH)
    client.unsubscribe(topic)
    publisher.deliver(topic, b"later", 2)
    client.acknowledge(PUBREC, started.packet_id)
    assert client.read().packet_id == started.packet_id
    client.acknowledge(7, started.packet_id)
    client.subscribe(topic, qos=2)
    publisher.deliver(topic, b"end", 2)
    assert client.receive_until(b"end") == []


@clause(v5="MQTT-3.8.3-3")
@pytest.mark.parametrize("qos", [0, 1])
def test_no_local_keeps_ones_own_messages_away(join: Join, version: int, topic: str, qos: int) -> None:
    client, other = join(version), join(version)
    client.subscribe(topic, qos=qos, options=NO_LOCAL)
    client.deliver(topic, b"own", qos)
    other.deliver(topic, b"theirs", qos)
    assert client.receive_until(b"theirs") == []


@clause(v5="MQTT-3.3.4-3 MQTT-3.3.4-4 MQTT-3.3.4-5")
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_messages_carry_the_identifiers_of_their_subscriptions(join: Join, version: int, topic: str, qos: int) -> None:
    """In one copy or several: all identifiers, each once, and none for a subscription without."""
    client, publisher = join(version), join(version)
    client.subscribe(f"{topic}/a", qos=qos, properties=[(SUBSCRIPTION_IDENTIFIER, 1)])
    client.subscribe(f"{topic}/+", qos=qos, properties=[(SUBSCRIPTION_IDENTIFIER, 268_435_455)])
    client.subscribe(f"{topic}/#", qos=qos)
    client.subscribe(f"{topic}/b", qos=qos, properties=[(SUBSCRIPTION_IDENTIFIER, 128)])
    publisher.deliver(f"{topic}/a", b"x", qos)
    publisher.deliver(f"{topic}/c/d", b"end", qos)
    copies: list[object] = []
    while (message := client.receive()).payload != b"end":
        copies += message.all(SUBSCRIPTION_IDENTIFIER)
    assert sorted(map(str, copies)) == ["1", "268435455"]
    assert message.all(SUBSCRIPTION_IDENTIFIER) == []


@clause(v5="MQTT-3.3.4-3 MQTT-3.8.4-3")
def test_a_subscription_identifier_is_replaced_with_its_subscription(join: Join, version: int, topic: str) -> None:
    client = join(version)
    for properties in ([(SUBSCRIPTION_IDENTIFIER, 1)], [(SUBSCRIPTION_IDENTIFIER, 2)], []):
        client.subscribe(topic, properties=[*properties])
        client.deliver(topic, b"x")
        assert client.receive().all(SUBSCRIPTION_IDENTIFIER) == [value for _, value in properties]
