"""Promises of the router (routing.first-rule-wins, routing.topic-keeps-lane, routing.qos-as-ruled)."""

from __future__ import annotations

from dataclasses import replace
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.naive_topics import FILTERS, TOPICS, naive_match
from tests.wire.rules import bridge_of, rule
from wire.config_settings import ClassSettings, LimitSettings, RateSettings
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


def test_a_topic_takes_the_lane_of_the_class_of_its_rule() -> None:
    """routing.topic-keeps-lane: only those of no class are spread, and loop prevention keeps them out of all lanes."""
    rules = (
        rule(1, "alarm/#", priority="urgent"),
        rule(2, "alarm/test", priority="bulk"),
        rule(3, "log", priority="bulk"),
        rule(4, "#"),
    )
    router = BridgeRules([bridge_of("one", *rules, lanes=3)])
    topics = b"alarm/test", b"alarm/fire", b"log", b"t"

    taken = [[(route.queue, route.room) for route in router.route(topic)] for topic in topics]

    lanes = "urgent", "urgent", "bulk", crc32(b"t") % 3
    assert taken == [[(f"bridge:one:{lane}", "one")] for lane in lanes]
    assert [router.route(topic, "one") for topic in topics] == [()] * 4


def test_a_class_with_limits_of_its_own_has_room_of_its_own() -> None:
    own = ClassSettings(name="bulk", limits=LimitSettings(max_messages=5))
    bridge = replace(bridge_of("one", rule(1, "log", priority="bulk"), rule(2, "#")), classes=(own, ClassSettings(name="urgent")))

    assert [route.room for topic in (b"log", b"t") for route in BridgeRules([bridge]).route(topic)] == ["one:bulk", "one"]
    assert bridge.limits_of("bulk") == ("one:bulk", own.limits)
    assert [bridge.limits_of(lane) for lane in (0, "live", "urgent", "of none")] == [("one", bridge.limits)] * 4


@pytest.mark.parametrize(("per", "shares"), [("bridge", (4, 4, 1, 4)), ("class", (3, 3, 1, 1)), ("lane", (1, 1, 1, 1))])
def test_the_rate_of_a_bridge_is_shared_by_lanes_without_one_of_their_class(per: str, shares: tuple[int, ...]) -> None:
    """Two lanes of normal messages, the one beside a backlog, and a class with the bridge's rate; bulk has its own."""
    rules = rule(1, "a", priority="urgent"), rule(2, "b", priority="bulk"), rule(3, "#")
    own, of_bridge = RateSettings(messages_per_s=1), RateSettings(messages_per_s=100, per=per)
    settings = replace(
        bridge_of("one", *rules, lanes=2), rate=of_bridge, classes=(ClassSettings(name="bulk", rate=own),), backlog="live-first"
    )

    assert settings.lane_labels == (0, 1, "urgent", "bulk", "live")
    lanes = (0, "live", "bulk", "urgent")
    assert [settings.rate_of(lane) for lane in lanes] == [
        (own if lane == "bulk" else of_bridge, share) for lane, share in zip(lanes, shares, strict=True)
    ]
    assert settings.rate_of("of none")[1] == shares[3], "a class that is configured no more goes on"


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
                BridgeRoute("bridge:one:0", "one", MessageRoute.of(rule(1, "a/+")).encode(), applied_qos_table(2)),
            )
            assert len(router._routes) <= 3
