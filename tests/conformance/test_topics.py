"""4.7 Topic Names and Topic Filters."""

from __future__ import annotations

import pytest

from tests.conformance.conftest import Join
from tests.conformance.statements import clause
from tests.support.mqtt_packets import publish_bytes, subscribe_bytes

MALFORMED, PROTOCOL_ERROR, FILTER_INVALID = 0x81, 0x82, 0x8F
BAD = (MALFORMED, PROTOCOL_ERROR, FILTER_INVALID)

MATCHES = {
    "#": ("", "/", "/a", "a", "a/b"),
    "+": ("", "a"),
    "/+": ("/a", "/"),
    "+/+": ("/a", "/", "a/b"),
    "a/#": ("a", "a/", "a/b", "a/b/c"),
    "a/+": ("a/", "a/b"),
    "a/+/c": ("a/b/c", "a//c"),
    "+/b/#": ("a/b", "a/b/c", "/b"),
    "A": ("A",),
    "a": ("a",),
    "a b": ("a b",),
    "/": ("/",),
    "a//c": ("a//c",),
    "é": ("é",),
    "e\u0301": ("e\u0301",),
    "a/$x": ("a/$x",),
}
NAMES = sorted({name for names in MATCHES.values() for name in names if name} | {"b", "aa", "ab/c", "a/bb/c/d"})


def _matches(topic_filter: str, name: str) -> bool:
    """4.7.1, level by level, written for this test."""
    levels, filters = name.split("/"), topic_filter.split("/")
    for at, wanted in enumerate(filters):
        if wanted == "#":
            return True
        if at >= len(levels) or wanted not in ("+", levels[at]):
            return False
    return len(levels) == len(filters)


@pytest.mark.parametrize("topic_filter", MATCHES)
@clause(v311="MQTT-4.7.1-2 MQTT-4.7.1-3 MQTT-4.7.3-4 MQTT-3.3.2-3", v5="MQTT-4.7.1-1 MQTT-4.7.1-2 MQTT-4.7.3-4 MQTT-3.3.2-3")
def test_a_filter_matches_as_it_should(join: Join, version: int, topic: str, topic_filter: str) -> None:
    """Below a level of its own, so that nobody else's messages match; upper and lower case and accents are not made the same."""
    client = join(version)
    client.subscribe(f"{topic}/{topic_filter}", f"end/{topic}")
    client.send(*(publish_bytes(version, f"{topic}/{name}", b"") for name in NAMES))
    client.deliver(f"end/{topic}", b"end")
    expected = [name for name in NAMES if _matches(topic_filter, name)]
    assert all(name in expected for name in MATCHES[topic_filter] if name)
    assert [message.topic.removeprefix(f"{topic}/") for message in client.receive_until(b"end")] == expected


@pytest.mark.parametrize("topic_filter", ["#", "+/monitor/#", "+/#", "+/+/+"])
@clause(v311="MQTT-4.7.2-1", v5="MQTT-4.7.2-1")
def test_a_wildcard_at_the_start_does_not_match_a_dollar(join: Join, version: int, topic: str, topic_filter: str) -> None:
    client, exact = join(version), join(version)
    name = f"$other/monitor/{topic}"
    exact.subscribe(name, "$other/#", f"$other/+/{topic}")
    client.subscribe(topic_filter, f"end/{topic}", qos=0, options=0x20 if version == 5 else 0)
    client.deliver(name, b"dollar")
    client.deliver(f"end/{topic}", b"end")
    assert not [message.topic for message in client.receive_until(b"end") if message.topic.startswith("$")]
    assert exact.receive().topic == name


WRONG = ["a#", "#a", "a/#/b", "#/a", "a/b#", "a+", "+a", "a/b+/c", "a/+b", "##", "++", "a/#/"]


@pytest.mark.parametrize("topic_filter", WRONG)
@clause(v311="MQTT-4.7.1-2 MQTT-4.7.1-3 MQTT-4.8.0-1", v5="MQTT-4.7.1-1 MQTT-4.7.1-2")
def test_a_wildcard_out_of_place_is_refused(join: Join, version: int, topic_filter: str) -> None:
    """By the end of the connection, or by the reason code of that filter alone."""
    client = join(version)
    client.send(subscribe_bytes(version, 1, [(topic_filter, 0)]), b"\xc0\x00")
    try:
        answer = client.read()
    except ConnectionError:
        return
    assert answer.reason_code in ((0x80,) if version == 4 else (*BAD, 0x80))


@clause(v311="MQTT-4.7.3-1", v5="MQTT-4.7.3-1")
def test_an_empty_filter_is_refused(join: Join, version: int) -> None:
    client = join(version)
    client.send(subscribe_bytes(version, 1, [("", 0)]))
    try:
        answer = client.read()
    except ConnectionError:
        return
    assert answer.reason_code in ((0x80,) if version == 4 else (*BAD, 0x80))


@clause(v311="MQTT-4.7.3-3", v5="MQTT-4.7.3-3")
def test_the_longest_topic_of_65535_bytes_is_taken(join: Join, version: int, topic: str) -> None:
    name = topic + "x" * (65_535 - len(topic))
    client = join(version)
    client.subscribe(name)
    client.deliver(name, b"long")
    assert client.receive().topic == name


@clause(v311="MQTT-4.7.3-3", v5="MQTT-4.7.3-3")
def test_a_topic_with_200_slashes_is_taken(join: Join, version: int, topic: str) -> None:
    """As many as Mosquitto takes, which allows no more."""
    name = topic + "/x" * (200 - topic.count("/"))
    client = join(version)
    assert client.subscribe(name).reason_codes == (0,)
    client.deliver(name, b"deep")
    assert client.receive().topic == name
