"""Message expiry: rows that are too old are found, and the others count down."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.frames.test_batch import rows_of
from wire.frames.batch import Batch, from_rows
from wire.mqtt.message_expiry import aged, aged_properties, expired_rows, expiry_only, waited_s, without_rows
from wire.mqtt.properties import Place, Properties, decode_properties, encode_properties
from wire.mqtt.publish_properties import message_expiry_s

ACCEPTED_MS = 1_000_000


def batch_of(*expiries_s: int | None) -> Batch:
    """One row for each; None: no properties at all."""
    batch = from_rows([(b"t", 1, bytes([row])) for row in range(len(expiries_s))], accepted_ms=ACCEPTED_MS)
    batch.properties = {
        row: encode_properties(Properties(content_type="x", message_expiry_interval=expiry_s))
        for row, expiry_s in enumerate(expiries_s)
        if expiry_s is not None
    }
    return batch


@pytest.mark.parametrize(("waited_ms", "expired"), [(0, []), (4_999, []), (5_000, [2]), (60_000, [0, 2]), (10**9, [0, 2])])
def test_mqtt_3_3_2_5_what_has_waited_as_long_as_its_interval_is_expired(waited_ms: int, expired: list[int]) -> None:
    batch = batch_of(60, None, 5, 4_294_967_295)
    assert expired_rows(batch, ACCEPTED_MS + waited_ms) == expired
    left = without_rows(batch, expired)
    assert [payload[0] for _, _, payload in rows_of(left)] == [row for row in range(4) if row not in expired]
    assert (left is batch) == (not expired)


def test_mqtt_3_3_2_6_the_interval_is_lowered_by_the_whole_seconds_that_were_waited() -> None:
    batch = batch_of(60, None, 5)
    later = aged_properties(batch, ACCEPTED_MS + 3_999)
    assert {row: message_expiry_s(raw) for row, raw in later.items()} == {0: 57, 2: 2}
    assert {decode_properties(raw, Place.PUBLISH).content_type for raw in later.values()} == {"x"}
    assert batch.properties[0] == encode_properties(Properties(content_type="x", message_expiry_interval=60))


def test_what_did_not_wait_a_second_or_has_no_interval_is_left_as_it_is() -> None:
    batch = batch_of(60)
    assert aged_properties(batch, ACCEPTED_MS + 999) is batch.properties
    bare = encode_properties(Properties(content_type="x"))
    assert aged(bare, 100) is bare


def test_nothing_but_the_intervals_is_kept_for_a_remote_that_takes_no_properties() -> None:
    batch = batch_of(60, None, 5)
    batch.properties[1] = encode_properties(Properties(content_type="x"))
    expected = {row: encode_properties(Properties(message_expiry_interval=expiry_s)) for row, expiry_s in ((0, 60), (2, 5))}
    assert expiry_only(batch) == expected


def test_a_clock_that_went_back_makes_nothing_older_or_younger() -> None:
    batch = batch_of(60)
    assert waited_s(ACCEPTED_MS, ACCEPTED_MS - 50_000) == 0
    assert expired_rows(batch, ACCEPTED_MS - 50_000) == []
    assert aged_properties(batch, ACCEPTED_MS - 50_000) is batch.properties


@given(st.lists(st.none() | st.integers(0, 20), max_size=10), st.integers(0, 25_000))
def test_each_row_is_either_expired_or_has_the_rest_of_its_time(expiries_s: list[int | None], waited_ms: int) -> None:
    batch = batch_of(*expiries_s)
    now_ms = ACCEPTED_MS + waited_ms
    expired, later = expired_rows(batch, now_ms), aged_properties(batch, now_ms)
    for row, expiry_s in enumerate(expiries_s):
        if expiry_s is not None:
            left = expiry_s - waited_ms // 1000
            assert (row in expired) == (left <= 0)
            assert message_expiry_s(later[row]) == (max(1, left) if expiry_s else 0), "0 is no expiry at all for Mosquitto"
        else:
            assert row not in expired
            assert row not in later
