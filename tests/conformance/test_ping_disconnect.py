"""3.12 PINGREQ, 3.13 PINGRESP, 3.14 DISCONNECT, 4.8 and 4.13 errors, 4.2 network connections."""

from __future__ import annotations

from tests.conformance.conftest import Dial, Join
from tests.conformance.statements import clause, deviates
from tests.support.mqtt_packets import DISCONNECT, PINGRESP, Will, connect_bytes, packet_bytes, publish_bytes

BAD = (0x81, 0x82)


@clause(v311="MQTT-3.12.4-1", v5="MQTT-3.12.4-1")
def test_each_pingreq_gets_a_pingresp(join: Join, version: int) -> None:
    client = join(version)
    client.send(b"\xc0\x00" * 5)
    assert [client.read().kind for _ in range(5)] == [PINGRESP] * 5


@clause(v311="MQTT-3.14.4-1", v5="MQTT-3.14.4-1 MQTT-3.14.4-2")
def test_behind_disconnect_the_server_closes_without_a_word(join: Join, version: int) -> None:
    client = join(version)
    client.send(packet_bytes(DISCONNECT))
    assert client.rest() == []


@clause(v311="MQTT-3.14.4-2", v5="MQTT-3.14.4-1")
def test_behind_disconnect_nothing_is_taken(join: Join, version: int, topic: str) -> None:
    watcher, client = join(version), join(version)
    watcher.subscribe(topic)
    client.send(publish_bytes(version, topic, b"before"), packet_bytes(DISCONNECT), publish_bytes(version, topic, b"behind"))
    client.rest()
    assert watcher.receive().payload == b"before"
    watcher.deliver(topic, b"end")
    assert watcher.receive_until(b"end") == []


@clause(v5="MQTT-3.14.2-2 MQTT-3.14.4-1 MQTT-3.14.4-2 MQTT-4.13.2-1 MQTT-4.13.1-1")
def test_a_server_sends_nothing_behind_its_disconnect_and_closes(join: Join, version: int, topic: str) -> None:
    """And no Session Expiry Interval in it, which MqttClient.read would not take."""
    client, publisher = join(version), join(version)
    client.subscribe(topic)
    client.send(packet_bytes(1, 0, b""))
    for _ in range(20):
        publisher.deliver(topic, b"x")
    kinds = [one.kind for one in client.rest()]
    assert DISCONNECT not in kinds[:-1]


@deviates("mosquitto", "2.0.11 closes at once, and who still sends is reset", always=False)
@clause(v5="MQTT-4.13.1-1")
def test_a_client_that_still_sends_is_told_why_it_is_ended(join: Join, version: int, topic: str) -> None:
    """It can send all of it, and then read: its connection is not reset before."""
    client = join(version)
    client.send(packet_bytes(1, 0, b""), *(publish_bytes(version, topic, bytes(50_000)) for _ in range(60)))
    last = client.read()
    assert last.kind == DISCONNECT
    assert last.reason_code in BAD
    assert client.ends_in_order()


@clause(v311="MQTT-4.8.0-1", v5="MQTT-4.13.1-1")
def test_an_error_of_one_client_concerns_no_other(join: Join, version: int, topic: str) -> None:
    bad, good = join(version), join(version)
    good.subscribe(topic)
    bad.send(b"\xff\xff\xff\xff\xff\xff")
    bad.expect_end(*BAD)
    good.deliver(topic, b"served")
    assert good.receive().payload == b"served"


@clause(v311="MQTT-7.1.1-1 MQTT-7.0.0-2", v5="MQTT-4.2.0-1")
def test_packets_come_as_a_stream_in_pieces_of_any_size(dial: Dial, version: int, topic: str) -> None:
    client = dial(version)
    for byte in connect_bytes(version, topic):
        client.send(bytes((byte,)))
    client.expect(2, reason_code=0)
    client.subscribe(topic)
    whole = b"".join(publish_bytes(version, topic, b"%d" % number) for number in range(10)) + b"\xc0\x00"
    for at in range(0, len(whole), 3):
        client.send(whole[at : at + 3])
    payloads = [one.payload for one in (client.read() for _ in range(11)) if one.kind == 3]
    assert payloads == [b"%d" % number for number in range(10)]


@clause(v311="MQTT-3.14.1-1", v5="MQTT-3.14.1-1")
def test_a_disconnect_with_flags_leaves_the_will(join: Join, version: int, topic: str) -> None:
    """It is malformed, so it is no DISCONNECT that deletes a Will."""
    watcher = join(version)
    watcher.subscribe(topic)
    client = join(version, will=Will(topic=topic))
    client.send(packet_bytes(DISCONNECT, 1, b""))
    client.expect_end(*BAD)
    assert watcher.receive().payload == b"will"
