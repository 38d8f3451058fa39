"""The batch keeps its columns through encoding, selection and joining."""

from __future__ import annotations

from array import array

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.errors import UnknownFrame
from wire.frames.batch import (
    BATCH_VERSION,
    HEAD_BYTES,
    RETAIN,
    Batch,
    concat,
    from_rows,
    head_of,
    pack_column,
    route_columns,
    unpack_column,
)

ROW = st.tuples(st.sampled_from([b"a", b"a/b", b"plant/1/x"]), st.sampled_from([0, 1, 2, 1 | RETAIN]), st.binary(max_size=40))
ROWS = st.lists(ROW, max_size=30)


def rows_of(batch: Batch) -> list[tuple[bytes, int, bytes]]:
    return [
        (batch.topics[index], flags, payload)
        for index, flags, payload in zip(batch.topic_of, batch.flags, batch.rows_payloads(), strict=True)
    ]


@given(ROWS, st.integers(0, 2**40))
def test_a_batch_comes_back_from_its_bytes(rows: list[tuple[bytes, int, bytes]], accepted_ms: int) -> None:
    batch = from_rows(rows, accepted_ms=accepted_ms)
    batch.properties = dict.fromkeys(range(0, len(rows), 3), b"\x01\x01")
    batch.routes, batch.route_of = route_columns([b"w%d" % (index % 2) for index in range(len(batch.topics))])
    batch.topic_properties = [b"\x26"] * len(batch.topics)
    assert Batch.decode(batch.encode()) == batch


@given(ROWS, st.data())
def test_selected_rows_are_those_rows_with_their_properties(rows: list[tuple[bytes, int, bytes]], data: st.DataObject) -> None:
    batch = from_rows(rows)
    batch.properties = {row: bytes([row]) for row in range(0, len(rows), 2)}
    chosen = data.draw(st.lists(st.sampled_from(range(len(rows))), unique=True)) if rows else []
    part = batch.select(chosen)
    assert rows_of(part) == [rows[row] for row in chosen]
    assert part.properties == {new: bytes([old]) for new, old in enumerate(chosen) if old % 2 == 0}


@given(ROWS)
def test_the_size_counts_payloads_topics_and_properties(rows: list[tuple[bytes, int, bytes]]) -> None:
    batch = from_rows(rows)
    batch.properties = dict.fromkeys(range(len(rows)), b"123")
    assert batch.size_bytes() == sum(len(topic) + len(payload) + 3 for topic, _, payload in rows)


def test_the_bytes_of_a_batch_are_pinned() -> None:
    batch = from_rows([(b"a/b", 1, b"xy")], accepted_ms=5)
    assert batch.encode().hex() == "9b01059091c403612f6290c4020000c40101c40402000000c40278798090"
    batch.routes, batch.route_of = [b"w"], [0]
    assert batch.encode().hex() == "9b010591c4017791c403612f629100c4020000c40101c40402000000c40278798090"


def test_a_batch_of_a_newer_version_is_refused() -> None:
    newer = msgpack.unpackb(from_rows([]).encode())
    newer[0] = BATCH_VERSION + 1
    with pytest.raises(UnknownFrame):
        Batch.decode(msgpack.packb(newer))


@given(st.lists(st.integers(0, 65535)))
def test_columns_are_little_endian(values: list[int]) -> None:
    column = array("H", values)
    assert pack_column(column) == b"".join(value.to_bytes(2, "little") for value in values)
    assert unpack_column("H", pack_column(column)) == column


@given(st.lists(st.binary(min_size=1, max_size=HEAD_BYTES), max_size=5, unique=True), st.integers(0, 2**40))
def test_the_head_of_a_batch_is_read_from_its_bytes_however_long_it_is(routes: list[bytes], accepted_ms: int) -> None:
    batch = from_rows([(b"t", 1, b"x" * 100)], accepted_ms=accepted_ms)
    batch.routes = routes
    assert head_of(batch.encode()) == (accepted_ms, routes)


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x9b\x63\x00\x90", b"\x9b\x01\xa1x\x90", b"\x9b\x01\x00\x05", b"\x9b\x01"])
def test_the_head_of_what_is_no_batch_is_refused(data: bytes) -> None:
    with pytest.raises(UnknownFrame):
        head_of(data)


@given(st.lists(st.sampled_from([b"", b"1", b"2", b"3"]), max_size=6))
def test_each_topic_has_the_way_that_it_was_given(of_topics: list[bytes]) -> None:
    batch = from_rows([(b"t%d" % number, 1, b"") for number in range(len(of_topics))])
    batch.routes, batch.route_of = route_columns(of_topics)
    assert batch.routes_of_topics() == of_topics
    assert sorted(batch.routes) == sorted(set(of_topics) - {b""})


def test_joined_batches_are_their_rows_one_after_the_other() -> None:
    first = from_rows([(b"a", 1, b"1"), (b"b", 2, b"2")], accepted_ms=5)
    second = from_rows([(b"b", 5, b"3"), (b"c", 0, b"")], accepted_ms=4)
    first.routes, first.route_of = route_columns([b"7", b"8"])
    second.routes, second.route_of = route_columns([b"9", b"7"])
    second.properties[1] = b"p"

    joined = concat([first, second])

    routes = joined.routes_of_topics()
    rows = [(joined.topics[topic], routes[topic]) for topic in joined.topic_of]
    assert rows == [(b"a", b"7"), (b"b", b"8"), (b"b", b"9"), (b"c", b"7")]
    assert (joined.rows_payloads(), joined.flags, joined.properties) == ([b"1", b"2", b"3", b""], b"\x01\x02\x05\x00", {3: b"p"})
    assert head_of(joined.encode()) == (4, [b"7", b"8", b"9"])
