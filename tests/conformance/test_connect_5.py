"""3.1 and 3.2, what only MQTT 5.0 has."""

from __future__ import annotations

import pytest

from tests.conformance.brokers import Broker
from tests.conformance.conftest import Dial, Join
from tests.conformance.statements import clause, deviates
from tests.support.mqtt_client import Closed
from tests.support.mqtt_packets import (
    ALIAS_MAXIMUM,
    ASSIGNED_CLIENT_ID,
    AUTH_METHOD,
    CONNACK,
    DISCONNECT,
    MAXIMUM_PACKET_SIZE,
    MAXIMUM_QOS,
    PUBLISH,
    REASON_STRING,
    RECEIVE_MAXIMUM,
    REQUEST_PROBLEM,
    REQUEST_RESPONSE,
    RESPONSE_INFORMATION,
    RETAIN_AVAILABLE,
    SERVER_KEEP_ALIVE,
    SESSION_EXPIRY,
    SUBACK,
    SUBSCRIBE,
    TOPIC_ALIAS,
    UNSUBACK,
    USER_PROPERTY,
    Properties,
    Will,
    connect_bytes,
    packet_bytes,
    publish_bytes,
    subscribe_bytes,
    unsubscribe_bytes,
)

BAD, TOO_LARGE = (0x81, 0x82), 0x95


@clause(v5="MQTT-3.1.2-1 MQTT-3.1.2-2")
def test_mqtt_5_is_served(join: Join, version: int) -> None:
    assert join(version).connack.reason_code == 0


@clause(v5="MQTT-3.1.3-6 MQTT-3.1.3-7 MQTT-3.2.2-16")
def test_an_assigned_client_identifier_is_told_is_new_and_works(join: Join, version: int) -> None:
    clients = [join(version, "", expiry_s=100) for _ in range(3)]
    names = [client.connack.property(ASSIGNED_CLIENT_ID) for client in clients]
    assert len(set(names)) == 3
    assert all(isinstance(name, str) and name for name in names)
    clients[0].disconnect()
    again = join(version, str(names[0]), expiry_s=100)
    assert again.connack.session_present
    assert again.connack.property(ASSIGNED_CLIENT_ID) is None, "only one that the Client did not send is told"


@clause(v5="MQTT-3.1.2-19")
def test_a_password_without_a_user_name_is_taken(dial: Dial, version: int) -> None:
    client = dial(version)
    client.send(connect_bytes(version, "password-alone", password=b"secret"))
    client.expect(CONNACK, reason_code=0)


@deviates("mosquitto", "2.0.11 keeps a message that it may not send in flight", r"\[[12]-")
@clause(v5="MQTT-3.1.2-24 MQTT-3.1.2-25")
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_what_is_larger_than_the_maximum_packet_size_is_passed_over(join: Join, version: int, topic: str, qos: int) -> None:
    """And the exchange goes on behind it: the receive maximum is 1, and a message that waited for its PUBACK would block it."""
    publisher = join(version)
    small = join(version, properties=[(MAXIMUM_PACKET_SIZE, 100), (RECEIVE_MAXIMUM, 1)])
    small.subscribe(topic, qos=qos)
    for payload in (b"1", b"x" * 200, b"2", b"y" * 200, b"3"):
        publisher.deliver(topic, payload, qos)
    assert [small.receive().payload for _ in range(3)] == [b"1", b"2", b"3"]


@deviates("mosquitto", "2.0.11 does not count the first byte of the packet")
@clause(v5="MQTT-3.1.2-24")
def test_a_packet_of_just_the_maximum_packet_size_is_sent(join: Join, version: int, topic: str) -> None:
    publisher, small = join(version), join(version, properties=[(MAXIMUM_PACKET_SIZE, 100)])
    small.subscribe(topic)
    head = len(publish_bytes(version, topic, b""))
    for size in (100 - head, 101 - head, 1):
        publisher.deliver(topic, b"z" * size)
    assert [len(small.receive().payload) for _ in range(2)] == [100 - head, 1]


@pytest.mark.parametrize("expiry_s", [0, 100], ids=["live", "kept"])
@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("maximum", [2, 65_535])
@clause(v5="MQTT-3.1.2-26 MQTT-3.3.2-8 MQTT-3.3.2-11 MQTT-3.3.2-7")
def test_topic_aliases_stay_within_the_maximum(join: Join, version: int, topic: str, qos: int, expiry_s: int, maximum: int) -> None:
    """Ten topics, three times: each PUBLISH means the right topic; and again on the next connection, where nothing is known."""
    publisher = join(version)
    for part in range(2):
        known: dict[int, str] = {}
        subscriber = join(version, topic, clean=not part, expiry_s=expiry_s, properties=[(ALIAS_MAXIMUM, maximum)])
        subscriber.subscribe(f"{topic}/+", qos=qos)
        for number in range(30):
            name = f"{topic}/{number % 10}"
            properties: Properties = [(USER_PROPERTY, ("n", str(number)))] if number % 4 == 0 else []
            publisher.deliver(name, name.encode() + b"-%d" % number, qos, properties=properties)
        for number in range(30):
            message = subscriber.expect(PUBLISH)
            alias = message.number(TOPIC_ALIAS, 0)
            assert message.property(TOPIC_ALIAS) != 0
            assert alias <= maximum
            if alias and message.topic:
                known[alias] = message.topic
            assert (message.topic or known[alias]) == f"{topic}/{number % 10}"
            assert message.payload == f"{topic}/{number % 10}-{number}".encode()
            assert message.property(USER_PROPERTY) == (("n", str(number)) if number % 4 == 0 else None)
            subscriber.complete(message)
        subscriber.disconnect()


@pytest.mark.parametrize("qos", [0, 1])
@clause(v5="MQTT-3.1.2-24 MQTT-3.1.2-26")
def test_a_message_that_is_too_large_gives_no_topic_alias(join: Join, version: int, topic: str, qos: int) -> None:
    publisher = join(version)
    subscriber = join(version, properties=[(ALIAS_MAXIMUM, 5), (MAXIMUM_PACKET_SIZE, 100)])
    subscriber.subscribe(topic, qos=qos)
    known: dict[int, str] = {}
    for payload in (b"x" * 100, b"1", b"y" * 100, b"2", b"3"):
        publisher.deliver(topic, payload, qos)
    for expected in (b"1", b"2", b"3"):
        message = subscriber.receive()
        alias = message.number(TOPIC_ALIAS, 0)
        if alias and message.topic:
            known[alias] = message.topic
        assert (message.topic or known[alias], message.payload) == (topic, expected)


@pytest.mark.parametrize("said", [[], [(ALIAS_MAXIMUM, 0)]], ids=["none", "zero"])
@clause(v5="MQTT-3.1.2-27")
def test_no_topic_alias_without_a_maximum(join: Join, version: int, topic: str, said: list[tuple[int, int]]) -> None:
    publisher, subscriber = join(version), join(version, properties=[*said])
    subscriber.subscribe(topic)
    for _ in range(3):
        publisher.deliver(topic, b"x")
    assert all(subscriber.receive().property(TOPIC_ALIAS) is None for _ in range(3))


@pytest.mark.parametrize("said", [[], [(REQUEST_RESPONSE, 0)]], ids=["none", "zero"])
@clause(v5="MQTT-3.1.2-28")
def test_no_response_information_unless_asked_for(join: Join, version: int, said: list[tuple[int, int]]) -> None:
    assert join(version, properties=[*said]).connack.property(RESPONSE_INFORMATION) is None


@deviates("mosquitto", "2.0 has no response information")
@clause(v5="MQTT-3.1.2-28")
def test_response_information_for_one_that_asks(join: Join, version: int, topic: str) -> None:
    """If the broker gives any, requests and responses can go by it."""
    asking, other = join(version, topic, properties=[(REQUEST_RESPONSE, 1)]), join(version)
    begins = asking.connack.property(RESPONSE_INFORMATION)
    assert begins == f"replies/{topic}"
    asking.subscribe(f"{begins}/#")
    other.deliver(f"{begins}/1", b"answer")
    assert asking.receive().payload == b"answer"


def _provoke(client_id: str, join: Join, said: list[tuple[int, int]]) -> None:
    """Answers with reason codes of failure of every kind that a client can have without the end of its connection."""
    client = join(5, client_id, properties=[*said])
    client.send(subscribe_bytes(5, 1, [("$share//x", 0)]))
    answer = client.read()
    answers = [answer]
    if answer.kind == SUBACK:
        client.send(unsubscribe_bytes(5, 2, ["never/subscribed"]))
        answers.append(client.expect(UNSUBACK, reason_code=0x11))
        client.acknowledge(6, 77)  # PUBREL of an unknown identifier
        answers.append(client.expect(7, 77))
    for one in answers:
        if one.kind != DISCONNECT:
            assert not one.all(USER_PROPERTY) or not said, one
            assert one.property(REASON_STRING) is None or not said, one


@clause(v5="MQTT-3.1.2-29")
def test_no_reason_strings_when_they_are_not_wanted(join: Join, version: int, topic: str) -> None:
    _provoke(topic, join, [(REQUEST_PROBLEM, 0)])


@pytest.mark.parametrize("size", [4, 24, 30, 40])
@clause(
    v5="MQTT-3.9.2-1 MQTT-3.9.2-2 MQTT-3.11.2-1 MQTT-3.11.2-2 MQTT-3.7.2-2 MQTT-3.7.2-3 MQTT-3.6.2-2 MQTT-3.6.2-3 MQTT-3.14.2-3"
    " MQTT-3.14.2-4 MQTT-3.4.2-2 MQTT-3.4.2-3 MQTT-3.5.2-2 MQTT-3.5.2-3 MQTT-3.2.2-19 MQTT-3.2.2-20"
)
def test_no_answer_is_larger_than_the_maximum_packet_size(dial: Dial, version: int, topic: str, size: int) -> None:
    """MqttClient.read measures each packet. A CONNACK that does not fit cannot be sent, so the client is refused."""
    client = dial(version)
    client.maximum_packet_size = size
    client.send(connect_bytes(version, topic, properties=[(MAXIMUM_PACKET_SIZE, size)]))
    try:
        answer = client.expect(CONNACK)
    except (Closed, ConnectionResetError):
        assert size == 4, "there is room to say why"
        return
    if answer.reason_code == TOO_LARGE:
        assert size < 40, "a CONNACK with what a Server must say is not as large as that"
        assert client.rest() == []
        return
    client.send(publish_bytes(version, topic, b"", 1, 1))
    client.expect(4, 1)
    client.send(publish_bytes(version, topic, b"", 2, 2))
    client.expect(5, 2)
    client.acknowledge(6, 2)
    client.expect(7, 2)
    client.acknowledge(6, 77)
    client.expect(7, 77)
    client.subscribe(topic, qos=2)
    client.deliver(topic, b"", 2)
    client.receive()
    client.unsubscribe("never/subscribed")
    client.send(packet_bytes(SUBSCRIBE, 0, b"\0\1\0\0\1a\0"))
    client.expect_end(*BAD)


@pytest.mark.parametrize("size", [13, 15, 16, 23])
@clause(v5="MQTT-3.1.2-24 MQTT-3.1.4-5")
def test_a_client_that_takes_small_packets_only_is_served(join: Join, version: int, topic: str, size: int) -> None:
    """CONNACK need not repeat defaults, and a client that has not been told a Topic Alias Maximum gives no alias."""
    small, publisher = join(version, keep_alive_s=60, properties=[(MAXIMUM_PACKET_SIZE, size)]), join(version)
    assert small.connack.property(RETAIN_AVAILABLE) is None
    small.subscribe(topic, qos=1)
    publisher.deliver(topic, b"x" * size, 1)
    publisher.deliver(topic, b"y", 1)
    assert small.receive().payload == b"y"
    small.deliver(topic, b"", 2)


@clause(v5="MQTT-3.1.4-5")
def test_a_server_that_can_all_says_nothing_less(join: Join, version: int, topic: str) -> None:
    client = join(version, will=Will(topic=topic, qos=2, retain=True))
    assert client.connack.number(MAXIMUM_QOS, 2) == 2
    assert client.connack.number(RETAIN_AVAILABLE, 1) == 1
    assert all(client.connack.number(identifier, 1) == 1 for identifier in (0x28, 0x29, 0x2A))


@clause(v5="MQTT-3.2.2-22")
def test_a_keep_alive_within_bounds_is_the_clients(join: Join, version: int) -> None:
    assert join(version, keep_alive_s=20).connack.property(SERVER_KEEP_ALIVE) in (None, 20)


@clause(v5="MQTT-3.2.2-22")
def test_a_server_keep_alive_is_told_where_the_clients_is_too_long(join: Join, version: int, limited: Broker) -> None:
    assert join(version, port=limited.port, keep_alive_s=1000).connack.property(SERVER_KEEP_ALIVE) == 30
    assert join(version, port=limited.port, keep_alive_s=10).connack.property(SERVER_KEEP_ALIVE) in (None, 10)


@clause(v5="MQTT-3.2.2-15")
def test_a_packet_over_the_servers_maximum_ends_the_connection(join: Join, version: int, limited: Broker, topic: str) -> None:
    client = join(version, port=limited.port)
    assert client.connack.property(MAXIMUM_PACKET_SIZE) == 1024
    client.deliver(topic, b"x" * 900, 1)
    client.send(publish_bytes(version, topic, b"x" * 1100, 1, 9))
    client.expect_end(0x95)


@clause(v5="MQTT-3.1.4-2 MQTT-4.12.0-1 MQTT-4.12.0-4 MQTT-3.2.2-7 MQTT-3.2.2-8")
def test_an_authentication_method_that_is_not_known_is_refused(dial: Dial, version: int) -> None:
    client = dial(version)
    client.send(connect_bytes(version, "a", properties=[(AUTH_METHOD, "SCRAM-SHA-1")]))
    assert client.expect_refusal(0x8C, 0x87) is not None


@clause(v5="MQTT-4.12.0-6")
def test_without_an_authentication_method_there_is_none_in_connack(join: Join, version: int) -> None:
    connack = join(version).connack
    assert connack.property(AUTH_METHOD) is None
    assert connack.property(0x16) is None


@clause(v5="MQTT-3.1.2-23")
def test_a_session_expiry_that_is_not_the_clients_is_told(join: Join, version: int, topic: str) -> None:
    """Without a word in CONNACK the Client's own counts."""
    client = join(version, topic, expiry_s=0xFFFFFFFF)
    assert client.connack.number(SESSION_EXPIRY, 0xFFFFFFFF) > 0
    client.disconnect()
    assert join(version, topic, clean=False).connack.session_present
