"""4.8.2 shared subscriptions, MQTT 5.0."""

from __future__ import annotations

import pytest

from tests.conformance.conftest import Join
from tests.conformance.statements import clause, deviates
from tests.support.mqtt_client import MqttClient
from tests.support.mqtt_packets import PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL, SUBSCRIPTION_IDENTIFIER, subscribe_bytes

BAD = (0x81, 0x82, 0x8F)
LONG_S = 1000


@deviates("mosquitto", "2.0.11 takes these", r"share(//a|/g|/g/|/\+/a)\]$")
@pytest.mark.parametrize(
    "topic_filter", ["$share//a", "$share/g", "$share/g/", "$share/g+/a", "$share/g#/a", "$share/+/a", "$share/#/a"]
)
@clause(v5="MQTT-4.8.2-1 MQTT-4.8.2-2")
def test_a_share_name_or_filter_that_cannot_be_is_refused(join: Join, version: int, topic_filter: str) -> None:
    client = join(version)
    client.send(subscribe_bytes(version, 1, [(topic_filter, 0)]), b"\xc0\x00")
    try:
        answer = client.read()
    except ConnectionError:
        return
    assert answer.reason_code in (*BAD, 0x80, 0x9E)


@pytest.mark.parametrize("qos", [0, 1, 2])
@clause(v5="MQTT-4.8.2-1 MQTT-4.5.0-1")
def test_one_of_a_group_gets_each_message(join: Join, version: int, topic: str, qos: int) -> None:
    """Two groups and one who is in none; within a group every message goes to one member."""
    publisher, alone = join(version), join(version)
    groups = [[join(version) for _ in range(2)] for _ in range(2)]
    for name, group in zip("ab", groups, strict=True):
        for member in group:
            member.subscribe(f"$share/{name}/{topic}/+", qos=2)
    alone.subscribe(f"{topic}/+", qos=2)
    for number in range(10):
        publisher.deliver(f"{topic}/a", b"%d" % number, qos)
    everything = [b"%d" % number for number in range(10)]
    assert [alone.receive().payload for _ in range(10)] == everything
    for group in groups:
        received: list[bytes] = []
        for member in group:
            member.subscribe(f"{topic}/end", qos=2)
        publisher.deliver(f"{topic}/end", b"end", qos)
        for member in group:
            received += [message.payload for message in member.receive_until(b"end")]
        assert sorted(one for one in received if one != b"end") == sorted(everything)


@clause(v5="MQTT-4.8.2-3")
def test_each_member_gets_its_own_qos(join: Join, version: int, topic: str) -> None:
    publisher = join(version)
    members = {granted: join(version) for granted in (0, 1, 2)}
    for granted, member in members.items():
        assert member.subscribe(f"$share/g/{topic}", qos=granted).reason_codes == (granted,)
    for number in range(12):
        publisher.deliver(topic, b"%d" % number, 2)
    count = 0
    for granted, member in members.items():
        for message in _all_of(member):
            assert message == granted
            count += 1
    assert count == 12


def _all_of(member: MqttClient) -> list[int]:
    """The QoS of everything until a message that it sends itself."""
    member.subscribe(f"end/{id(member)}", qos=2)
    member.deliver(f"end/{id(member)}", b"end", 0)
    return [message.qos for message in member.receive_until(b"end")]


@pytest.mark.parametrize("cut_behind", ["PUBLISH", "PUBREC"])
@clause(v5="MQTT-4.8.2-4")
def test_a_qos_2_message_in_flight_is_finished_with_the_same_member(join: Join, version: int, topic: str, cut_behind: str) -> None:
    publisher, member = join(version), join(version, topic, expiry_s=LONG_S)
    member.subscribe(f"$share/g/{topic}", qos=2)
    publisher.deliver(topic, b"one", 2)
    sent = member.expect(PUBLISH)
    if cut_behind == "PUBREC":
        member.acknowledge(PUBREC, sent.packet_id)
        member.expect(PUBREL, sent.packet_id)
    other = join(version)
    other.subscribe(f"$share/g/{topic}", qos=2)
    member.vanish()
    member = join(version, topic, clean=False, expiry_s=LONG_S)
    if cut_behind == "PUBLISH":
        again = member.expect(PUBLISH)
        assert (again.packet_id, again.dup, again.payload) == (sent.packet_id, True, b"one")
        member.complete(again)
    else:
        member.expect(PUBREL, sent.packet_id)
        member.acknowledge(PUBCOMP, sent.packet_id)
    assert member.drain() == []
    assert other.drain() == []


@clause(v5="MQTT-4.8.2-5")
def test_a_qos_2_message_in_flight_ends_with_its_session(join: Join, version: int, topic: str) -> None:
    publisher, member = join(version), join(version, topic, expiry_s=LONG_S)
    member.subscribe(f"$share/g/{topic}", qos=2)
    publisher.deliver(topic, b"one", 2)
    member.expect(PUBLISH)
    other = join(version)
    other.subscribe(f"$share/g/{topic}", qos=2)
    member.vanish()
    join(version, topic, clean=True).disconnect()
    publisher.deliver(topic, b"end", 2)
    assert other.receive_until(b"end") == []


@pytest.mark.parametrize("kind", [PUBACK, PUBREC])
@clause(v5="MQTT-4.8.2-6")
def test_a_message_that_a_member_refuses_goes_to_no_other(join: Join, version: int, topic: str, kind: int) -> None:
    qos = 1 if kind == PUBACK else 2
    publisher, member = join(version), join(version)
    member.subscribe(f"$share/g/{topic}", qos=qos)
    publisher.deliver(topic, b"unwanted", qos)
    sent = member.expect(PUBLISH)
    other = join(version)
    other.subscribe(f"$share/g/{topic}", qos=qos)
    member.acknowledge(kind, sent.packet_id, 0x80)
    member.drain()
    member.disconnect()
    publisher.deliver(topic, b"end", qos)
    assert other.receive_until(b"end") == []


@clause(v5="MQTT-4.8.2-1 MQTT-3.10.4-1")
def test_unsubscribe_leaves_the_group(join: Join, version: int, topic: str) -> None:
    publisher, leaver, stayer = join(version), join(version), join(version)
    for member in (leaver, stayer):
        member.subscribe(f"$share/g/{topic}")
    assert leaver.unsubscribe(f"$share/other/{topic}", f"$share/g/{topic}").reason_codes == (0x11, 0)
    for number in range(6):
        publisher.deliver(topic, b"%d" % number)
    publisher.deliver(topic, b"end")
    assert len(stayer.receive_until(b"end")) == 6
    assert leaver.drain() == []


@clause(v5="MQTT-3.3.4-3")
def test_a_shared_subscription_has_its_identifier(join: Join, version: int, topic: str) -> None:
    client = join(version)
    client.subscribe(f"$share/g/{topic}", properties=[(SUBSCRIPTION_IDENTIFIER, 77)])
    client.deliver(topic, b"x")
    assert client.receive().all(SUBSCRIPTION_IDENTIFIER) == [77]
