"""Work of a process for a packet: the lines that are executed are counted, and in proportion to its bytes.

A count, not a time: a quadratic parse or match shows at any load of the machine.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from tests.support.mqtt_packets import (
    SUBACK,
    UNSUBSCRIBE,
    USER_PROPERTY,
    Properties,
    encode_properties,
    packet_bytes,
    publish_bytes,
    string,
    subscribe_bytes,
)
from wire.mqtt.codec import decode, split
from wire.routing.retained_topics import RetainedTopics
from wire.routing.topic_filter_tree import TopicTree

FEW, MANY = 100, 800
LINES_A_BYTE = 20


def work(what: Callable[[], object]) -> int:
    """How many lines of Python ``what`` executes."""
    lines = 0

    def count(_frame: FrameType, event: str, _arg: object) -> Any:
        nonlocal lines
        lines += event == "line"
        return count

    former = sys.gettrace()
    sys.settrace(count)
    try:
        what()
    finally:
        sys.settrace(former)
    return lines


def decoded(packet: bytes) -> object:
    found = split(packet, 0, len(packet))
    assert found is not None
    first, start, end = found
    return decode(first, packet[start:end], 5)


def users(count: int) -> Properties:
    return [(USER_PROPERTY, (f"n{number}", "v")) for number in range(count)]


PACKETS: dict[str, Callable[[int], bytes]] = {
    "SUBSCRIBE": lambda count: subscribe_bytes(5, 1, [(f"a/{number}/#", 1) for number in range(count)]),
    "SUBSCRIBE of one deep filter": lambda count: subscribe_bytes(5, 1, [("+/" * count + "#", 1)]),
    "UNSUBSCRIBE": lambda count: packet_bytes(
        UNSUBSCRIBE, 2, b"\0\1" + encode_properties([]) + b"".join(string(f"a/{number}/#") for number in range(count))
    ),
    "SUBACK": lambda count: packet_bytes(SUBACK, 0, b"\0\1" + encode_properties([]) + b"\x80" * count),
    "PUBLISH with user properties": lambda count: publish_bytes(5, "t", b"", 1, 1, properties=users(count)),
    "PUBLISH to a deep topic": lambda count: publish_bytes(5, "a/" * count + "a", b"", 1, 1),
}


@pytest.mark.parametrize("name", PACKETS)
def test_a_packet_is_read_in_proportion_to_its_bytes(name: str) -> None:
    few, many = PACKETS[name](FEW), PACKETS[name](MANY)
    decoded(few)  # what is done once is done
    small, large = work(lambda: decoded(few)), work(lambda: decoded(many))
    assert large <= LINES_A_BYTE * len(many) + 200
    assert large <= small * len(many) / len(few) * 1.3 + 200, (small, large)


@pytest.mark.parametrize("filters", [["+/" * 9 + "#"], ["#", "a/#", "+/#", "a/a/#"]], ids=["deep", "wide"])
def test_a_topic_is_matched_in_proportion_to_its_levels(filters: list[str]) -> None:
    """Filters that cannot match are not looked at, whatever others there are."""

    def lines(levels: int, others: int) -> int:
        tree: TopicTree[str] = TopicTree()
        for topic_filter in [*filters, *(f"b/{number}/+" for number in range(others))]:
            tree.add(topic_filter, topic_filter)
        topic = b"/".join([b"a"] * levels)
        assert len(tree.match(topic)) == len(filters)
        return work(lambda: tree.match(topic))

    assert lines(MANY, FEW) <= lines(FEW, FEW) * MANY / FEW * 1.3 + 200
    assert lines(FEW, MANY) <= lines(FEW, FEW) * 1.1


def test_retained_topics_are_walked_in_proportion_to_those_that_match() -> None:
    def lines(matching: int, others: int) -> int:
        topics = RetainedTopics()
        for number in range(matching):
            topics.add(f"a/{number:05}/x".encode())
        for number in range(others):
            topics.add(f"b/{number:05}/x".encode())
        return work(lambda: list(topics.walk("a/+/x")))

    assert lines(MANY, FEW) <= lines(FEW, FEW) * MANY / FEW * 1.3 + 200
    assert lines(FEW, MANY) <= lines(FEW, FEW) * 1.1 + 50
