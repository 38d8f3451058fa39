"""Topic aliases towards a peer: a peer that keeps the specification's books understands every packet."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.mqtt.aliases import ALIASES_MAX, OutgoingAliases
from wire.mqtt.properties import Place, Properties, decode_properties, encode_properties
from wire.mqtt.publish_properties import topic_alias, with_topic_alias


def test_mqtt_3_3_2_8_the_first_use_sends_topic_and_alias_and_later_ones_the_alias_alone() -> None:
    aliases = OutgoingAliases(10)
    assert aliases.use(b"plant/1") == (b"plant/1", 1)
    assert aliases.use(b"plant/2") == (b"plant/2", 2)
    assert aliases.use(b"plant/1") == (b"", 1)
    assert aliases.use(b"plant/2") == (b"", 2)


def test_mqtt_3_1_2_27_there_are_no_aliases_where_the_maximum_is_0() -> None:
    aliases = OutgoingAliases(0)
    assert [aliases.use(b"plant/1") for _ in range(2)] == [(b"plant/1", 0)] * 2


def test_the_least_recently_used_topic_loses_its_alias() -> None:
    aliases = OutgoingAliases(2)
    for topic in (b"plant/1", b"plant/2", b"plant/1"):
        aliases.use(topic)
    assert aliases.use(b"plant/3") == (b"plant/3", 2)
    assert aliases.use(b"plant/1") == (b"", 1)
    assert aliases.use(b"plant/2") == (b"plant/2", 2)


def test_a_topic_shorter_than_the_property_gets_no_alias() -> None:
    aliases = OutgoingAliases(5)
    assert [aliases.use(b"abc") for _ in range(2)] == [(b"abc", 0)] * 2
    assert aliases.use(b"abcd") == (b"abcd", 1)


def test_what_one_client_costs_is_bounded() -> None:
    aliases = OutgoingAliases(65_535)
    assert max(aliases.use(b"plant/%d" % number)[1] for number in range(2 * ALIASES_MAX)) == ALIASES_MAX
    assert len(aliases._aliases) == ALIASES_MAX


_TOPICS = st.sampled_from([b"plant/%d" % number for number in range(6)])


@given(st.integers(0, 7), st.lists(st.tuples(_TOPICS, st.booleans())))
def test_a1_and_a2_a_peer_reads_the_topic_that_was_meant(maximum: int, packets: list[tuple[bytes, bool]]) -> None:
    """Packets that are withdrawn never arrive."""
    aliases, known = OutgoingAliases(maximum), dict[int, bytes]()
    for meant, sent in packets:
        topic, alias = aliases.use(meant)
        assert 0 <= alias <= maximum
        if not sent:
            aliases.withdraw(meant)
            continue
        if alias and topic:
            known[alias] = topic
        assert (topic or known[alias]) == meant
    assert len(aliases._aliases) <= maximum


@pytest.mark.parametrize("alias", [1, 256, 65_535])
def test_the_property_is_put_beside_the_others(alias: int) -> None:
    raw = with_topic_alias(encode_properties(Properties(content_type="t")), alias)
    assert topic_alias(raw) == alias
    assert decode_properties(raw, Place.PUBLISH) == Properties(content_type="t", topic_alias=alias)
