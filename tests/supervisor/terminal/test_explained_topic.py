"""What is said of a topic is what routes it: the reasons are held against plain matching, the rest against the router."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.terminal.explained_topic import explain, nearly
from supervisor.terminal.explanation_text import explanation_lines
from tests.support.settings import node
from tests.wire.naive_topics import FILTERS, TOPICS, naive_match
from tests.wire.rules import bridge_of, rule
from wire.routing.bridge_rules import BridgeRules


@given(st.data())
def test_each_rule_says_what_it_does(data: st.DataObject) -> None:
    some, few = st.lists(FILTERS, min_size=1, max_size=2).map(tuple), st.lists(FILTERS, max_size=2).map(tuple)
    bridges = []
    for name in ("one", "two"):
        drawn = data.draw(st.lists(st.tuples(some, few), max_size=4))
        bridges.append(bridge_of(name, *(rule(n, *filters, excludes=out) for n, (filters, out) in enumerate(drawn)), lanes=3))
    topic = data.draw(TOPICS)
    told = explain(node(*bridges), topic, qos=1, retain=False, client=None)
    if told.refused is not None:
        assert told.bridges == ()
        return
    queues = [one.way.queue for one in told.bridges if one.way is not None]
    assert queues == [route.queue for route in BridgeRules(bridges).route(topic.encode())]
    for bridge, of_bridge in zip(bridges, told.bridges, strict=True):
        takers = [one.rule for one in of_bridge.rules if one.takes]
        assert takers == ([] if of_bridge.way is None else [of_bridge.way.rule])
        for one, said in zip(bridge.local_subscriptions, of_bridge.rules, strict=True):
            matching = [each for each in one.filters if naive_match(each, topic)]
            excluding = [each for each in one.excludes if naive_match(each, topic)]
            if not matching:
                assert not said.takes
                assert said.why in [nearly(each, topic) for each in one.filters]
            elif excluding:
                assert (said.takes, said.why) == (False, f"its exclude {excluding[0]} matches")
            else:
                assert said.why.startswith(f"its filter {matching[0]} matches")
                assert said.takes or "stands before it" in said.why


@pytest.mark.parametrize(
    ("topic_filter", "topic", "why"),
    [
        ("plant/+/alarm", "plant/1/temp", "plant/+/alarm has 'alarm' at level 3, the topic 'temp'"),
        ("Plant/#", "plant/1", "Plant/# has 'Plant' at level 1, the topic 'plant': upper and lower case differ"),
        ("plant/+", "plant/1/temp", "plant/+ ends at level 2, and the topic goes on"),
        ("plant/+/temp", "plant/1", "plant/+/temp asks for more levels than the topic has"),
        ("/plant/#", "plant/1", "/plant/# has '' at level 1, the topic 'plant'"),
        ("plant", "plant/", "plant ends at level 1, and the topic goes on"),
        ("#", "$x/1", "# begins with a wildcard, which is for no topic that begins with $"),
    ],
)
def test_a_filter_that_does_not_match_says_where_it_stops(topic_filter: str, topic: str, why: str) -> None:
    assert not naive_match(topic_filter, topic)
    assert nearly(topic_filter, topic) == why


def test_the_nearest_filter_is_told() -> None:
    told = explain(
        node(bridge_of("one", rule(1, "a/#", "plant/+/alarm", "plant/x/y"))),
        "plant/1/temp",
        qos=0,
        retain=False,
        client=None,
    )
    assert told.bridges[0].rules[0].why.startswith("plant/+/alarm ")


@pytest.mark.parametrize("provenance", ["none", "user-properties", "envelope"])
@pytest.mark.parametrize("protocol", [4, 5])
def test_what_the_rule_adds_is_told(provenance: str, protocol: int) -> None:
    adding = replace(rule(1, "#"), user_properties=(("site", "a"), ("site", "b")), provenance=provenance)
    one = bridge_of("one", adding)
    told = explain(node(replace(one, remote=replace(one.remote, protocol=protocol))), "a", qos=1, retain=True, client=None)
    way = told.bridges[0].way
    assert way is not None
    assert way.user_properties == ((("site", "a"), ("site", "b")) if protocol == 5 else ())
    assert way.provenance == provenance


@pytest.mark.parametrize(("retained", "words"), [("never", 0), ("send-once", 1), ("at-each-session", 1)])
def test_what_was_retained_before_is_told_where_the_rule_brings_it(retained: str, words: int) -> None:
    told = explain(node(bridge_of("one", replace(rule(1, "#"), retained=retained))), "a", qos=1, retain=False, client=None)
    way = told.bridges[0].way
    assert way is not None
    assert way.retained == retained
    assert sum("retained" in line and "cross" in line for line in explanation_lines(told)) == words


@pytest.mark.parametrize("topic", ["$SYS/broker/uptime", "a/" * 300 + "a", "x" * 5000])
def test_a_topic_that_no_client_may_publish_to_goes_nowhere(topic: str) -> None:
    told = explain(node(bridge_of("one", rule(1, "#", "$SYS/#"))), topic, qos=0, retain=True, client=None)
    assert (told.refused is not None, told.retained, told.bridges) == (True, False, ())
