"""The hop count survives other properties and is replaced, not repeated."""

from __future__ import annotations

from wire.mqtt.properties import Properties, encode_properties
from wire.routing.hop_count import hops_of, hops_property, without_hops


def test_no_property_is_no_hop() -> None:
    assert hops_of(b"") == 0
    assert hops_of(encode_properties(Properties(content_type="bascule-hops", user_properties=(("a", "b"),)))) == 0


def test_the_count_is_read_among_other_properties_and_taken_out() -> None:
    before = encode_properties(Properties(message_expiry_interval=9, correlation_data=b"\x26\x00"))
    behind = encode_properties(Properties(user_properties=(("a", "b"),)))
    raw = before + hops_property(3) + behind
    assert hops_of(raw) == 3
    assert without_hops(raw) == before + behind


def test_a_value_that_only_looks_like_the_property_is_left_alone() -> None:
    raw = encode_properties(Properties(correlation_data=hops_property(7)))
    assert hops_of(raw) == 0
    assert without_hops(raw) == raw


def test_nonsense_counts_as_no_hop() -> None:
    assert hops_of(encode_properties(Properties(user_properties=(("bascule-hops", "many"),)))) == 0
