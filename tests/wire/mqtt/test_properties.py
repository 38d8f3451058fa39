"""Properties, typed and as raw bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.mqtt.strategies import properties, texts
from wire.errors import PeerViolation
from wire.mqtt.properties import KINDS, NO_PROPERTIES, Place, Properties, decode_properties, encode_properties
from wire.mqtt.publish_properties import (
    append_user_properties,
    message_expiry_s,
    topic_alias,
    validate_publish_properties,
    with_message_expiry,
    without_connection_properties,
)

PLACES = st.sampled_from([place for place in Place if place.name])
RAW = properties(Place.PUBLISH).map(encode_properties)


def decoded(raw: bytes) -> Properties:
    return decode_properties(raw, Place.PUBLISH)


def test_there_are_27_properties() -> None:
    assert len(KINDS) == 27


@given(st.data())
def test_properties_decode_to_what_was_encoded_in_every_place(data: st.DataObject) -> None:
    place = data.draw(PLACES)
    value = data.draw(properties(place))
    assert decode_properties(encode_properties(value), place) == value


@pytest.mark.parametrize("identifier", sorted(KINDS))
def test_a_property_is_refused_where_it_has_no_place(identifier: int) -> None:
    kind = KINDS[identifier]
    raw = bytes((identifier,)) + b"\x00\x01a\x00\x01a"
    for place in Place:
        if not kind.places & place:
            with pytest.raises(PeerViolation) as caught:
                decode_properties(raw, place)
            assert caught.value.reason_code == 0x81


@given(RAW)
def test_raw_properties_read_as_the_typed_ones(raw: bytes) -> None:
    typed, view = decoded(raw), validate_publish_properties(raw)
    assert view.topic_alias == topic_alias(raw) == typed.topic_alias
    assert view.message_expiry_interval == message_expiry_s(raw) == typed.message_expiry_interval
    assert view.subscription_identifiers == typed.subscription_identifiers
    assert view.forwardable == without_connection_properties(raw)
    assert decoded(view.forwardable) == replace(typed, topic_alias=None, subscription_identifiers=())


@given(RAW, st.integers(0, 0xFFFF_FFFF))
def test_the_message_expiry_is_rewritten_and_nothing_else(raw: bytes, expiry_s: int) -> None:
    assert decoded(with_message_expiry(raw, expiry_s)) == replace(decoded(raw), message_expiry_interval=expiry_s)


@given(RAW, st.lists(st.tuples(texts, texts), max_size=3).map(tuple))
def test_user_properties_are_added_behind_the_ones_there_are(raw: bytes, added: tuple[tuple[str, str], ...]) -> None:
    before = decoded(raw)
    assert decoded(append_user_properties(raw, added)) == replace(before, user_properties=before.user_properties + added)


@given(st.binary(max_size=30))
def test_raw_and_typed_properties_agree_on_what_is_malformed(raw: bytes) -> None:
    def reason(validate: Callable[[bytes], object]) -> int | None:
        try:
            validate(raw)
        except PeerViolation as error:
            return error.reason_code
        return None

    assert reason(validate_publish_properties) == reason(decoded)


def test_an_identifier_inside_a_value_is_not_taken_for_a_property() -> None:
    raw = encode_properties(Properties(correlation_data=b"\x02\x00\x00\x00\x09\x23\x00\x01"))
    assert message_expiry_s(raw) is None
    assert topic_alias(raw) is None
    assert with_message_expiry(raw, 5) == b"\x02\x00\x00\x00\x05" + raw


def test_no_properties_are_no_bytes() -> None:
    assert encode_properties(NO_PROPERTIES) == encode_properties(Properties()) == b""
    assert decode_properties(b"", Place.CONNECT) is NO_PROPERTIES
