"""Topic names and filters."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from wire.errors import PeerViolation
from wire.mqtt.topics import (
    SharedFilter,
    check_filter,
    check_topic,
    covers,
    filter_fault,
    is_shared,
    matches,
    overlap,
    parse_shared,
    topic_fault,
)


@pytest.mark.parametrize("topic", ["a", "/", "//", "a/b", " ", "$SYS/x", "ä/日本", "x" * 65_535])
def test_good_topic_names(topic: str) -> None:
    assert topic_fault(topic) is None
    assert check_topic(topic.encode()) == topic


@pytest.mark.parametrize(
    ("topic", "clause"),
    [
        (b"", "MQTT-4.7.3-1"),
        (b"a/+", "MQTT-3.3.2-2"),
        (b"#", "MQTT-3.3.2-2"),
        (b"a\0", "MQTT-1.5.4-2"),
        (b"\xff", "MQTT-1.5.4-1"),
        (b"x" * 65_536, "MQTT-4.7.3-3"),
    ],
)
def test_bad_topic_names(topic: bytes, clause: str) -> None:
    with pytest.raises(PeerViolation) as caught:
        check_topic(topic)
    assert caught.value.message.startswith(clause)
    assert caught.value.reason_code == 0x81


@pytest.mark.parametrize("topic_filter", ["#", "+", "/", "+/+", "a/#", "/#", "+/#", "a/+/b", "$share/g/#", "$share/g//"])
def test_good_topic_filters(topic_filter: str) -> None:
    assert filter_fault(topic_filter) is None
    check_filter(topic_filter)


@pytest.mark.parametrize(
    ("topic_filter", "clause"),
    [
        ("", "MQTT-4.7.3-1"),
        ("a\0", "MQTT-4.7.3-2"),
        ("x" * 65_536, "MQTT-4.7.3-3"),
        ("#/", "MQTT-4.7.1-1"),
        ("a#", "MQTT-4.7.1-1"),
        ("##", "MQTT-4.7.1-1"),
        ("a+", "MQTT-4.7.1-2"),
        ("++", "MQTT-4.7.1-2"),
        ("$share//a", "MQTT-4.8.2-1"),
        ("$share/g", "MQTT-4.8.2-2"),
        ("$share/g/", "MQTT-4.8.2-2"),
        ("$share/+/a", "MQTT-4.8.2-2"),
        ("$share/g/a#", "MQTT-4.7.1-1"),
    ],
)
def test_bad_topic_filters(topic_filter: str, clause: str) -> None:
    fault = filter_fault(topic_filter)
    assert fault is not None
    assert fault.startswith(clause)
    with pytest.raises(PeerViolation):
        check_filter(topic_filter)


def test_a_shared_subscription_is_taken_apart() -> None:
    assert parse_shared("$share/g/a/#") == SharedFilter("g", "a/#")
    assert is_shared("$share/g/a/#")
    assert parse_shared("a/#") is None
    assert not is_shared("$shared/g")


@pytest.mark.parametrize(
    ("topic_filter", "topic", "expected"),
    [
        ("sport/tennis/player1/#", "sport/tennis/player1", True),
        ("sport/tennis/player1/#", "sport/tennis/player1/score/wimbledon", True),
        ("sport/#", "sport", True),
        ("sport/#", "sports", False),
        ("sport/tennis/+", "sport/tennis/player1/ranking", False),
        ("sport/+", "sport", False),
        ("sport/+", "sport/", True),
        ("+/+", "/finance", True),
        ("/+", "/finance", True),
        ("+", "/finance", False),
        ("#", "$SYS/x", False),
        ("+/monitor/Clients", "$SYS/monitor/Clients", False),
        ("$SYS/#", "$SYS/", True),
        ("$SYS/monitor/+", "$SYS/monitor/Clients", True),
    ],
)
def test_the_examples_of_the_specification(topic_filter: str, topic: str, expected: bool) -> None:
    assert matches(topic_filter, topic) is expected


_levels = st.lists(st.sampled_from(["a", "b", "", "$s", "+"]), min_size=1, max_size=3)
_filters = st.tuples(_levels, st.booleans()).map(lambda one: "/".join([*one[0], *(["#"] if one[1] else [])]))
_ALL_TOPICS = ["/".join(levels) for depth in range(1, 5) for levels in product(("a", "b", "", "$s", "z"), repeat=depth)]


@given(_filters, _filters)
def test_covering_and_overlapping_are_what_matching_says(one: str, other: str) -> None:
    assume(one)
    assume(other)
    of_one = {topic for topic in _ALL_TOPICS if matches(one, topic)}
    of_other = {topic for topic in _ALL_TOPICS if matches(other, topic)}
    assert covers(one, other) == (of_other <= of_one)
    assert overlap(one, other) == bool(of_one & of_other) == overlap(other, one)
