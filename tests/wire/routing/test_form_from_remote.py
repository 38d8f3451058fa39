"""Batches from a remote as this node takes them (routing.hops-bounded, routing.qos-as-ruled, routing.too-large-not-taken), row
by row.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.wire.rules import bridge_of, rule
from wire.config_settings import LoopPreventionSettings, RuleSettings
from wire.frames.batch import RETAIN, Batch, from_rows
from wire.mqtt.publish_properties import append_user_properties
from wire.mqtt.topics import TopicLimits
from wire.routing.form_from_remote import LocalForm
from wire.routing.hop_count import hops_of, hops_property

SET = replace(rule(1, "cmd/+/set", excludes=("cmd/x/set",), destination="set/{2}", max_qos=1), preserve_retain=False)
ALL = rule(2, "cmd/#", destination="cloud/{2-#}")


def form(*rules: RuleSettings, loop_prevention: bool = True, max_hops: int = 2) -> LocalForm:
    bridge = bridge_of("cloud", rule(1, "#", destination="never"))
    hops = LoopPreventionSettings(enabled=loop_prevention, max_hops=max_hops)
    return LocalForm(replace(bridge, remote_subscriptions=rules or (SET, ALL), loop_prevention=hops))


def seen(batch: Batch) -> list[tuple[bytes, int, bytes]]:
    return [
        (batch.topics[index], flags, payload)
        for index, flags, payload in zip(batch.topic_of, batch.flags, batch.rows_payloads(), strict=True)
    ]


def test_the_first_rule_in_file_order_takes_a_topic() -> None:
    came = from_rows([(b"cmd/a/set", 2 | RETAIN, b"0"), (b"cmd/x/set", 2 | RETAIN, b"1"), (b"cmd/b/set", 0, b"2")])
    batch = form().transform(came)
    assert seen(batch) == [(b"set/a", 1, b"0"), (b"cloud/x/set", 2 | RETAIN, b"1"), (b"set/b", 0, b"2")]
    assert {hops_of(raw) for raw in batch.properties.values()} == {1}
    assert sorted(batch.properties) == [0, 1, 2]


def test_what_no_rule_has_is_left_out_and_named() -> None:
    local = form()
    batch = local.transform(from_rows([(b"a", 1, b"0"), (b"cmd/a/set", 1, b"1"), (b"a", 1, b"2")]))
    assert seen(batch) == [(b"set/a", 1, b"1")]
    assert (local.unmatched, local.unmatched_topics, sorted(batch.properties)) == (2, {b"a"}, [0])


def test_a_message_crosses_max_hops_bridges_and_no_more() -> None:
    came = from_rows([(b"cmd/a", 1, b"0"), (b"cmd/a", 1, b"1"), (b"cmd/a", 1, b"2")])
    other = append_user_properties(b"", [("k", "v")])
    came.properties = {0: hops_property(1) + other, 1: hops_property(2)}
    local = form()
    batch = local.transform(came)
    assert [payload for _, _, payload in seen(batch)] == [b"0", b"2"]
    assert local.looped == 1
    assert batch.properties == {0: other + hops_property(2), 1: hops_property(1)}


def test_without_loop_prevention_nothing_is_added_or_left_out() -> None:
    came = from_rows([(b"cmd/a", 1, b"0"), (b"cmd/a", 1, b"1")])
    came.properties = {1: hops_property(9)}
    batch = form(loop_prevention=False).transform(came)
    assert len(batch) == 2
    assert batch.properties == {1: hops_property(9)}


@pytest.mark.parametrize("loop_prevention", [True, False])
def test_user_properties_follow_those_that_came(loop_prevention: bool) -> None:
    marks = replace(rule(3, "#"), user_properties=(("site", "edge"),))
    came = from_rows([(b"a", 1, b"0"), (b"a", 1, b"1")])
    came.properties = {1: append_user_properties(b"", [("k", "v")])}
    batch = form(marks, loop_prevention=loop_prevention).transform(came)
    own = append_user_properties(b"", [("site", "edge")]) + (hops_property(1) if loop_prevention else b"")
    assert batch.properties == {0: own, 1: came.properties[1] + own}


def test_a_topic_without_a_destination_stays_and_is_named() -> None:
    local = form(rule(4, "#", destination="{2}"))
    batch = local.transform(from_rows([(b"a", 0, b"")]))
    assert (batch.topics, local.unmapped_topics, local.unmatched) == ([b"a"], {b"a"}, 0)


def test_an_empty_batch_stays_empty() -> None:
    batch = form().transform(from_rows([]))
    assert len(batch) == 0


def test_what_has_a_topic_that_a_client_may_not_have_is_left_out_and_named() -> None:
    """routing.too-large-not-taken"""
    bridge = replace(bridge_of("cloud"), remote_subscriptions=(ALL,))
    local = LocalForm(bridge, topic_limits=TopicLimits(levels_max=4, max_bytes=8))
    topics = [b"cmd/a", b"cmd/a/b/c", b"cmd/a/bc", b"cmd/a/bcd", b"cmd/\xc3\xa9/"]
    batch = local.transform(from_rows([(topic, 1, b"x") for topic in (*topics, topics[1])]))
    assert len(batch) == 3
    assert (local.too_large, local.too_large_topics, local.unmatched) == (3, {topics[1], topics[3]}, 0)


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_what_is_larger_than_a_client_may_send_is_left_out_and_named(qos: int) -> None:
    topic = b"cmd/big"
    largest = 300 - 1 - 2 - 2 - len(topic) - (2 if qos else 0)
    bridge = replace(bridge_of("cloud"), remote_subscriptions=(SET, ALL))
    local = LocalForm(bridge, packet_max_bytes=300)
    came = from_rows([(topic, qos, b"x" * largest), (topic, qos, b"x" * (largest + 1)), (b"cmd/a", qos, b"1"), (b"a", qos, b"2")])
    batch = local.transform(came)
    assert [topic for topic, _, _ in seen(batch)] == [b"cloud/big", b"cloud/a"]
    assert (local.too_large, local.too_large_topics, local.unmatched) == (1, {topic}, 1)
