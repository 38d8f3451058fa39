"""Promises of the router (routing.first-rule-wins, routing.topic-keeps-lane, routing.qos-as-ruled)."""

from __future__ import annotations

from dataclasses import replace
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.naive_topics import FILTERS, TOPICS, naive_match
from tests.wire.rules import bridge_of, rule
from wire.frames.batch import PASSED, RAISED, RETAIN, UNPROMISED, applied_qos_table, raised_rows
from wire.routing.bridge_rules import BridgeRoute, BridgeRules
from wire.routing.message_route import MessageRoute


def test_the_first_rule_that_has_the_topic_takes_it_and_a_bridge_takes_it_once() -> None:
    """routing.first-rule-wins"""
    router = BridgeRules(
        [
            bridge_of("one", rule(11, "a/#", excludes=("a/secret/#",)), rule(12, "a/secret/shown", "a/#"), rule(13, "#")),
            bridge_of("two", rule(21, "+/x"), rule(22, "a/x")),
        ]
    )

    def taken(topic: bytes) -> list[tuple[str, str]]:
        return [(route.queue, MessageRoute.decode(route.message_route).rule) for route in router.route(topic)]

    assert taken(b"a/x") == [("bridge:one:0", "rule-11"), ("bridge:two:0", "rule-21")]
    assert taken(b"a/secret/shown") == [("bridge:one:0", "rule-12")]
    assert taken(b"b/x") == [("bridge:one:0", "rule-13"), ("bridge:two:0", "rule-21")]
    assert taken(b"$SYS/x") == []


@given(st.data())
def test_holds_for_any_rules(data: st.DataObject) -> None:
    """routing.first-rule-wins"""
    few = st.lists(FILTERS, max_size=2).map(tuple)
    settings = []
    for name in ("one", "two"):
        drawn = data.draw(st.lists(st.tuples(few, few), max_size=4))
        rules = [rule(number, *filters, excludes=excludes) for number, (filters, excludes) in enumerate(drawn)]
        settings.append(bridge_of(name, *rules))
    router = BridgeRules(settings)
    for topic in data.draw(st.lists(TOPICS, min_size=1, max_size=5)):
        expected = []
        for bridge in settings:
            for one in bridge.local_subscriptions:
                wanted = any(naive_match(topic_filter, topic) for topic_filter in one.filters)
                if wanted and not any(naive_match(topic_filter, topic) for topic_filter in one.excludes):
                    expected.append((f"bridge:{bridge.name}:0", MessageRoute.of(one).encode()))
                    break
        assert [(route.queue, route.message_route) for route in router.route(topic.encode())] == expected


def test_a_topic_keeps_its_lane_and_topics_spread() -> None:
    """routing.topic-keeps-lane"""
    router = BridgeRules([bridge_of("one", rule(1, "#"), lanes=4)])
    topics = [f"t/{number}".encode() for number in range(200)]
    for topic in topics:
        assert [route.queue for route in router.route(topic)] == [f"bridge:one:{crc32(topic) % 4}"]
    assert len({router.route(topic)[0].queue for topic in topics}) == 4


@pytest.mark.parametrize("persist", [True, False])
@pytest.mark.parametrize("max_qos", [0, 1, 2])
@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("retain", [0, RETAIN])
@pytest.mark.parametrize("passed", [0, PASSED])
def test_the_applied_qos(persist: bool, max_qos: int, qos: int, retain: int, passed: int) -> None:
    """routing.qos-as-ruled"""
    (route,) = BridgeRules([bridge_of("one", rule(1, "#", max_qos=max_qos), persist=persist)]).route(b"t")
    applied = bytes((qos | retain | passed,)).translate(route.flags_table)
    assert applied == bytes(((min(qos, max_qos) if persist else 0) | retain,))


@pytest.mark.parametrize(("min_qos", "max_qos"), [(0, 2), (1, 1), (1, 2), (2, 2)])
def test_a_rule_raises_what_comes_with_less_and_marks_it(min_qos: int, max_qos: int) -> None:
    """routing.qos-as-ruled: what comes at QoS 0 is marked apart, since nobody was promised anything."""
    (route,) = BridgeRules([bridge_of("one", replace(rule(1, "#", max_qos=max_qos), min_qos=min_qos))]).route(b"t")
    for qos in range(3):
        marks = 0 if qos >= min_qos else RAISED if qos else RAISED | UNPROMISED
        applied = bytes((qos | RETAIN | PASSED,)).translate(route.flags_table)
        assert applied == bytes((max(min(qos, max_qos), min_qos) | RETAIN | marks,))
        assert raised_rows(applied) == (int(qos < min_qos), int(qos == 0 < min_qos))


def test_what_came_from_a_remote_does_not_go_back_to_it() -> None:
    router = BridgeRules([bridge_of("one", rule(1, "#"), lanes=3), bridge_of("two", rule(2, "#"), loop_prevention=False)])

    def bridges(origin: str | None = None) -> list[str]:
        return [route.queue.split(":")[1] for route in router.route(b"t", origin)]

    assert [bridges(), bridges("one"), bridges("two"), bridges()] == [["one", "two"], ["two"], ["one", "two"], ["one", "two"]]


def test_the_cache_stays_bounded_and_answers_the_same() -> None:
    router = BridgeRules([bridge_of("one", rule(1, "a/+"))], cache_topics_max=3)
    for _ in range(2):
        for number in range(10):
            assert router.route(b"a/%d" % number) == (
                BridgeRoute("bridge:one:0", MessageRoute.of(rule(1, "a/+")).encode(), applied_qos_table(2)),
            )
            assert len(router._routes) <= 3
