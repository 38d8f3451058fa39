"""Topic aliases towards a peer: a peer that keeps the specification's books understands every packet."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.mqtt.aliases import ALIASES_MAX, Names, OutgoingAliases
from wire.mqtt.properties import Place, Properties, decode_properties, encode_properties
from wire.mqtt.publish_properties import topic_alias, with_topic_alias


def test_mqtt_3_3_2_8_the_first_use_sends_topic_and_alias_and_later_ones_the_alias_alone() -> None:
    aliases = OutgoingAliases(10)
    (first,) = aliases.plan([b"plant/1"])
    (second,) = aliases.plan([b"plant/2"])
    assert {first, second} <= set(range(1, 11))
    assert first != second
    assert aliases.plan([b"plant/2", b"plant/1"]) == (-second, -first)


def test_mqtt_3_1_2_27_there_are_no_aliases_where_the_maximum_is_0() -> None:
    """mqtt.alias-given-first"""
    aliases = OutgoingAliases(0)
    assert [aliases.plan([b"plant/1"]) for _ in range(2)] == [(0,)] * 2


def test_a_topic_that_is_sent_goes_on_to_have_its_alias_when_others_come_by() -> None:
    aliases = OutgoingAliases(1)
    assert aliases.plan([b"plant/1"]) == (1,)
    for number in range(10):
        assert aliases.plan([b"other/%d" % number]) == (0,)
        assert aliases.plan([b"plant/1"]) == (-1,)


def test_a_topic_that_is_sent_no_more_loses_its_alias() -> None:
    aliases = OutgoingAliases(1)
    assert aliases.plan([b"plant/1"]) == (1,)
    assert [aliases.plan([b"plant/2"]) for _ in range(3)] == [(0,), (1,), (-1,)]


def test_a_topic_of_the_same_burst_keeps_its_alias() -> None:
    aliases = OutgoingAliases(1)
    assert aliases.plan([b"plant/1"]) == (1,)
    assert [aliases.plan([b"plant/2", b"plant/1"]) for _ in range(3)] == [(0, -1)] * 3


def test_clients_that_get_the_same_topics_come_to_the_same_plan_whatever_they_had_first() -> None:
    topics = [b"plant/%d" % number for number in (1, 2, 7)]
    one, other = OutgoingAliases(256), OutgoingAliases(256)
    for topic in topics:
        one.plan([topic])
    for topic in reversed(topics):
        other.plan([topic])
    assert one.plan(topics) == other.plan(topics)


def test_a_topic_shorter_than_the_property_gets_no_alias() -> None:
    aliases = OutgoingAliases(1)
    assert [aliases.plan([b"abc"]) for _ in range(2)] == [(0,)] * 2
    assert aliases.plan([b"abcd"]) == (1,)


def test_what_one_client_costs_is_bounded() -> None:
    aliases = OutgoingAliases(65_535)
    given = [aliases.plan([b"plant/%d" % number])[0] for number in range(2 * ALIASES_MAX)]
    assert max(given) == ALIASES_MAX
    assert len(aliases._aliases) == len(aliases._topics) == ALIASES_MAX


_BURST = st.lists(st.integers(0, 6), min_size=1, max_size=8)


@given(st.integers(0, 7), st.lists(_BURST))
def test_a_peer_reads_the_topic_that_was_meant(maximum: int, bursts: list[list[int]]) -> None:
    """mqtt.alias-given-first: each burst is some packets of several topics, in any order."""
    topics = [b"plant/%d" % number for number in range(7)]
    aliases, known = OutgoingAliases(maximum), dict[bytes, bytes]()
    for burst in bursts:
        indexes = list(dict.fromkeys(burst))
        plan = aliases.plan([topics[index] for index in indexes])
        assert all(abs(alias) <= maximum for alias in plan)
        names = Names(topics, indexes, plan)
        for index in burst:
            field, alias = names.take(index)
            assert len(field) == 2 + int.from_bytes(field[:2], "big")
            if alias and field[2:]:
                known[alias] = field[2:]
            assert (field[2:] or known[alias]) == topics[index]
    assert len(aliases._aliases) <= maximum


@pytest.mark.parametrize("alias", [1, 256, 65_535])
def test_the_property_is_put_beside_the_others(alias: int) -> None:
    raw = with_topic_alias(encode_properties(Properties(content_type="t")), alias)
    assert topic_alias(raw) == alias
    assert decode_properties(raw, Place.PUBLISH) == Properties(content_type="t", topic_alias=alias)
