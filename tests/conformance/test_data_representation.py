"""Chapter 1 and 2: strings, numbers, flags, packet identifiers, properties."""

from __future__ import annotations

import pytest

from tests.conformance.conftest import Dial, Join
from tests.conformance.statements import clause, deviates
from tests.support.mqtt_packets import (
    CONNECT,
    DISCONNECT,
    PUBACK,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    PUBREL,
    SUBACK,
    SUBSCRIBE,
    UNSUBACK,
    UNSUBSCRIBE,
    USER_PROPERTY,
    connect_bytes,
    packet_bytes,
    publish_bytes,
    subscribe_bytes,
    unsubscribe_bytes,
)

MALFORMED, PROTOCOL_ERROR, TOPIC_INVALID, FILTER_INVALID = 0x81, 0x82, 0x90, 0x8F
BAD = (MALFORMED, PROTOCOL_ERROR)
ILL_FORMED = {"no-utf-8": b"a\xff", "surrogate": b"a\xed\xa0\x80", "overlong": b"a\xc0\xaf", "cut": b"a\xe2\x82"}
NUL = b"a\x00b"


@pytest.mark.parametrize("text", ILL_FORMED.values(), ids=ILL_FORMED)
@clause(v311="MQTT-1.5.3-1 MQTT-3.3.2-1", v5="MQTT-1.5.4-1 MQTT-3.3.2-1")
def test_an_ill_formed_string_ends_the_connection(join: Join, version: int, text: bytes) -> None:
    client = join(version)
    client.send(publish_bytes(version, text, b""))
    client.expect_end(*BAD, TOPIC_INVALID)


@clause(v311="MQTT-1.5.3-2 MQTT-4.7.3-2", v5="MQTT-1.5.4-2 MQTT-4.7.3-2")
def test_a_null_character_ends_the_connection(join: Join, version: int) -> None:
    client = join(version)
    client.send(publish_bytes(version, NUL, b""))
    client.expect_end(*BAD, TOPIC_INVALID)


@clause(v311="MQTT-1.5.3-2 MQTT-4.7.3-2", v5="MQTT-1.5.4-2 MQTT-4.7.3-2")
def test_a_null_character_in_a_filter_is_refused(join: Join, version: int) -> None:
    client = join(version)
    client.send(subscribe_bytes(version, 1, [(NUL, 0)]))
    client.expect_end(*BAD, FILTER_INVALID)


@clause(v311="MQTT-1.5.3-3", v5="MQTT-1.5.4-3")
def test_a_byte_order_mark_is_a_character_of_its_own(join: Join, version: int, topic: str) -> None:
    client = join(version)
    client.subscribe(f"\ufeff{topic}", topic)
    client.deliver(f"\ufeff{topic}", b"marked")
    client.deliver(topic, b"plain")
    assert [(message.topic, message.payload) for message in (client.receive(), client.receive())] == [
        (f"\ufeff{topic}", b"marked"),
        (topic, b"plain"),
    ]


@clause(v5="MQTT-1.5.5-1")
def test_a_property_length_longer_than_need_be_is_malformed(join: Join, version: int) -> None:
    client = join(version)
    client.send(packet_bytes(PUBLISH, 0, b"\x00\x01a\x80\x00"))
    client.expect_end(*BAD)


@clause(v5="MQTT-1.5.5-1")
def test_a_variable_byte_integer_has_at_most_four_bytes(join: Join, version: int) -> None:
    client = join(version)
    client.send(b"\x30\xff\xff\xff\xff\x01")
    client.expect_end(*BAD)


@pytest.mark.parametrize("pair", [(b"a\xff", b"b"), (b"a", b"b\xff"), (b"\xed\xa0\x80", b"b"), (b"a", NUL)])
@clause(v5="MQTT-1.5.7-1")
def test_both_strings_of_a_pair_are_well_formed(join: Join, version: int, pair: tuple[bytes, bytes]) -> None:
    client = join(version)
    name, value = pair
    body = bytes((USER_PROPERTY, 0, len(name))) + name + bytes((0, len(value))) + value
    client.send(packet_bytes(PUBLISH, 0, b"\x00\x01a" + bytes((len(body),)) + body))
    client.expect_end(*BAD)


FLAGS = [(kind, flags) for kind in (PUBACK, PUBREC, PUBCOMP) for flags in (1, 2, 8)]
FLAGS += [(kind, flags) for kind in (PUBREL, SUBSCRIBE, UNSUBSCRIBE) for flags in (0, 3, 10)]
FLAGS += [(12, 1), (DISCONNECT, 1), (DISCONNECT, 4)]
BODIES = {SUBSCRIBE: (b"\0\1\0\1a\0", b"\0\1\0\0\1a\0"), UNSUBSCRIBE: (b"\0\1\0\1a", b"\0\1\0\0\1a")}


@deviates("mosquitto", "2.0.11 does not look at these flags of PUBACK, PUBREC, PUBCOMP and PINGREQ", r"-(4|5|7|12)-\d")
@pytest.mark.parametrize(("kind", "flags"), FLAGS)
@clause(
    v311="MQTT-2.2.2-1 MQTT-2.2.2-2 MQTT-3.6.1-1 MQTT-3.8.1-1 MQTT-3.10.1-1 MQTT-3.14.1-1 MQTT-4.8.0-1",
    v5="MQTT-2.1.3-1 MQTT-3.6.1-1 MQTT-3.8.1-1 MQTT-3.10.1-1 MQTT-3.14.1-1 MQTT-4.13.1-1",
)
def test_reserved_flags_end_the_connection(join: Join, version: int, kind: int, flags: int) -> None:
    client = join(version)
    client.send(packet_bytes(kind, flags, BODIES[kind][version == 5] if kind in BODIES else b"" if kind >= 12 else b"\0\1"))
    client.expect_end(*BAD)


@clause(v5="MQTT-3.15.1-1")
def test_reserved_flags_of_auth_end_the_connection(join: Join, version: int) -> None:
    client = join(version)
    client.send(packet_bytes(15, 1, b""))
    client.expect_end(*BAD)


@clause(v311="MQTT-2.2.2-2", v5="MQTT-2.1.3-1")
def test_reserved_flags_of_connect_end_the_connection(dial: Dial, version: int) -> None:
    client = dial(version)
    client.send(b"\x11" + connect_bytes(version, "a")[1:])
    client.expect_refusal(1, *BAD)


@deviates("mosquitto", "2.0.11 takes what only its own bridges should get", r"-(9|11|13)\]")
@pytest.mark.parametrize("kind", [0, CONNECT + 1, 9, 11, 13])
@clause(v311="MQTT-4.8.0-1", v5="MQTT-4.13.1-1")
def test_a_packet_that_no_client_sends_ends_the_connection(join: Join, version: int, kind: int) -> None:
    client = join(version)
    client.send(packet_bytes(kind, 0, b"" if kind in (0, 13) else b"\0\1\0\0"))
    client.expect_end(*BAD)


@clause(v311="MQTT-4.8.0-1", v5="MQTT-2.1.3-1 MQTT-4.13.1-1")
def test_auth_without_a_method_ends_the_connection(join: Join, version: int) -> None:
    client = join(version)
    client.send(packet_bytes(15, 0, b""))
    client.expect_end(*BAD)


@pytest.mark.parametrize("qos", [1, 2])
@clause(v311="MQTT-2.3.1-1", v5="MQTT-2.2.1-3")
def test_packet_identifier_0_of_a_publish_ends_the_connection(join: Join, version: int, topic: str, qos: int) -> None:
    client = join(version)
    client.send(publish_bytes(version, topic, b"", qos, 0))
    client.expect_end(*BAD)


@clause(v311="MQTT-2.3.1-1", v5="MQTT-2.2.1-3")
def test_packet_identifier_0_of_a_subscribe_ends_the_connection(join: Join, version: int, topic: str) -> None:
    client = join(version)
    client.send(subscribe_bytes(version, 0, [(topic, 0)]))
    client.expect_end(*BAD)


@clause(v311="MQTT-2.3.1-1", v5="MQTT-2.2.1-3")
def test_packet_identifier_0_of_an_unsubscribe_ends_the_connection(join: Join, version: int, topic: str) -> None:
    client = join(version)
    client.send(unsubscribe_bytes(version, 0, [topic]))
    client.expect_end(*BAD)


@clause(v311="MQTT-2.3.1-4 MQTT-2.3.1-1", v5="MQTT-2.2.1-4 MQTT-4.3.2-1 MQTT-4.3.3-1")
def test_the_identifiers_of_what_is_in_flight_differ_and_are_not_0(join: Join, version: int, topic: str) -> None:
    publisher, subscriber = join(version), join(version)
    subscriber.subscribe(topic, qos=2)
    for number in range(10):
        publisher.deliver(topic, b"%d" % number, 1 + number % 2)
    flying = [subscriber.expect(PUBLISH) for _ in range(10)]
    assert len({message.packet_id for message in flying}) == 10
    assert 0 not in {message.packet_id for message in flying}


@clause(v311="MQTT-2.3.1-5", v5="MQTT-2.2.1-2")
def test_qos_0_has_no_packet_identifier(join: Join, version: int, topic: str) -> None:
    """Each byte of what comes is told."""
    publisher, subscriber = join(version), join(version)
    subscriber.subscribe(topic, qos=2)
    publisher.deliver(topic, b"payload")
    message = subscriber.expect(PUBLISH)
    assert (message.qos, message.payload, message.properties) == (0, b"payload", [])


@pytest.mark.parametrize("packet_id", [1, 255, 256, 65_535])
@clause(v311="MQTT-2.3.1-6 MQTT-2.3.1-7 MQTT-3.8.4-2 MQTT-3.10.4-4", v5="MQTT-2.2.1-5 MQTT-2.2.1-6 MQTT-3.8.4-2 MQTT-3.10.4-5")
def test_an_answer_has_the_identifier_of_what_it_answers(join: Join, version: int, topic: str, packet_id: int) -> None:
    client = join(version)
    client.send(publish_bytes(version, topic, b"", 1, packet_id))
    client.expect(PUBACK, packet_id)
    client.send(publish_bytes(version, topic, b"", 2, packet_id))
    client.expect(PUBREC, packet_id)
    client.acknowledge(PUBREL, packet_id)
    client.expect(PUBCOMP, packet_id)
    client.send(subscribe_bytes(version, packet_id, [(topic, 0)]))
    client.expect(SUBACK, packet_id)
    client.send(unsubscribe_bytes(version, packet_id, [topic]))
    client.expect(UNSUBACK, packet_id)


@clause(v5="MQTT-2.2.2-1")
def test_a_packet_without_properties_says_so(join: Join, version: int, topic: str) -> None:
    """No client of ours reads what lacks its Property Length; here are the bytes of a PUBLISH, and a packet of ours without."""
    client = join(version)
    client.subscribe(topic)
    client.deliver(topic, b"x")
    assert client.expect(PUBLISH).properties == []
    client.send(packet_bytes(SUBSCRIBE, 2, b"\0\7\0\1a\0"))  # as in 3.1.1: "\0" is the Property Length, and the rest no filter
    client.expect_end(*BAD, FILTER_INVALID)


DUPLICATED = {
    "expiry": b"\x02\0\0\0\1\x02\0\0\0\2",
    "content-type": b"\x03\0\1a\x03\0\1a",
    "alias": b"\x23\0\1\x23\0\1",
    "format": b"\x01\1\x01\1",
}
MISPLACED = {"receive-maximum": b"\x21\0\1", "unknown": b"\x7e\0", "session-expiry": b"\x11\0\0\0\1", "reason": b"\x1f\0\1a"}


@pytest.mark.parametrize("properties", [*DUPLICATED.values(), *MISPLACED.values()], ids=[*DUPLICATED, *MISPLACED])
@clause(v5="MQTT-4.13.1-1")
def test_a_property_twice_or_out_of_place_ends_the_connection(join: Join, version: int, properties: bytes) -> None:
    client = join(version)
    client.send(packet_bytes(PUBLISH, 0, b"\x00\x01a" + bytes((len(properties),)) + properties))
    client.expect_end(*BAD)
