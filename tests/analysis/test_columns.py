"""The columnar decoder against the store's own, chunk by chunk, over whatever chunks there may be."""

from __future__ import annotations

from array import array
from typing import Any
from zlib import crc32

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.tables.checkpoint_reader import Bulk
from analysis.tables.chunk_decoder import NONE, ChunkColumns, expiry_s
from analysis.tables.runs import numbered, painted
from storage.engine.keys import chunk_key
from storage.queue.chunk import HEADER_BYTES, Chunk, rows_of
from wire.errors import StorageDamaged
from wire.frames.batch import NO_ROUTE, Batch, route_columns
from wire.mqtt.publish_properties import message_expiry_s
from wire.ranges import RangeSet
from wire.routing.message_route import MessageRoute

EVERYTHING = RangeSet()
TOPICS = st.sampled_from([b"a", b"plant/1/state", "ünter/der/brücke".encode(), "\U0001f600/\uffff".encode(), b"/", b"x" * 300])
STRINGS = st.binary(max_size=300).map(lambda text: len(text).to_bytes(2, "big") + text)
PROPERTY = st.one_of(
    st.integers(0, 1).map(lambda value: bytes((0x01, value))),
    st.integers(0, 2**32 - 1).map(lambda value: b"\x02" + value.to_bytes(4, "big")),
    st.tuples(st.sampled_from([0x03, 0x08, 0x09]), STRINGS).map(lambda pair: bytes((pair[0],)) + pair[1]),
    st.sampled_from([b"\x0b\x01", b"\x0b\xff\x01", b"\x0b\xff\xff\x01", b"\x0b\xff\xff\xff\x7f"]),
    st.integers(1, 65_535).map(lambda value: b"\x23" + value.to_bytes(2, "big")),
    st.tuples(STRINGS, STRINGS).map(lambda pair: b"\x26" + pair[0] + pair[1]),
)
WAYS = st.sampled_from([b"", *(MessageRoute(name, "{#}", True, b"").encode() for name in "abc")])
PROPERTIES = st.lists(PROPERTY, max_size=5).map(b"".join)


@st.composite
def chunks(draw: st.DrawFn) -> list[Chunk]:
    """Chunks of one queue in order: dense and sparse ones, of one row or many, with properties and rules or without."""
    found: list[Chunk] = []
    seq, size_bytes = draw(st.integers(0, 1 << 40)), 0
    for _ in range(draw(st.integers(0, 6))):
        topics = draw(st.lists(TOPICS, min_size=1, max_size=4))
        count = draw(st.integers(1, 8))
        payloads = draw(st.lists(st.binary(max_size=20), min_size=count, max_size=count))
        of_topics = draw(st.one_of(st.just([]), st.lists(WAYS, min_size=len(topics), max_size=len(topics))))
        routes, route_of = route_columns(of_topics)
        body = Batch(
            accepted_ms=draw(st.integers(0, 1 << 42)),
            topics=topics,
            topic_of=array("H", draw(st.lists(st.integers(0, len(topics) - 1), min_size=count, max_size=count))),
            flags=bytes(draw(st.lists(st.integers(0, 31).filter(lambda flag: flag & 3 != 3), min_size=count, max_size=count))),
            lengths=array("I", map(len, payloads)),
            payloads=b"".join(payloads),
            routes=routes,
            route_of=route_of,
            properties=draw(st.dictionaries(st.integers(0, count - 1), PROPERTIES)),
            topic_properties=draw(st.one_of(st.just([]), st.lists(PROPERTIES, min_size=len(topics), max_size=len(topics)))),
        )
        offsets = None
        span = count
        if draw(st.booleans()):
            steps = draw(st.lists(st.integers(1, 5), min_size=count, max_size=count))
            offsets = array("I", np.cumsum(steps).tolist())
            span = offsets[-1] + draw(st.integers(1, 5))
        seq += draw(st.integers(0, 10))
        found.append(
            Chunk(
                first_seq=seq,
                span=span,
                count=count,
                qos0=0,
                bytes_before=size_bytes,
                size_bytes=body.size_bytes(),
                accepted_ms=body.accepted_ms,
                offsets=offsets,
                body=body.encode(),
            )
        )
        seq += span
        size_bytes += body.size_bytes()
    return found


def bulk_of(of: list[Chunk]) -> Bulk:
    return Bulk([chunk_key(3, chunk.first_seq) for chunk in of], [chunk.encode() for chunk in of])


def by_row(of: list[Chunk]) -> list[tuple[Any, ...]]:
    """The rows as the store's own decoder has them."""
    found = []
    for chunk in of:
        for message in rows_of(chunk, 0, 1 << 62, EVERYTHING):
            expiry = message_expiry_s(message.properties)
            found.append(
                (
                    message.seq,
                    message.topic,
                    message.route,
                    message.flags & 3,
                    bool(message.flags & 4),
                    message.accepted_ms,
                    NONE if expiry is None else message.accepted_ms + expiry * 1000,
                    len(message.payload),
                    message.payload,
                    len(message.properties),
                )
            )
    return found


def in_columns(bulk: Bulk, chosen: Any = None) -> list[tuple[Any, ...]]:
    rows = ChunkColumns(bulk).rows(chosen)
    ends = np.cumsum(rows.lengths)
    return list(
        zip(
            rows.seq.tolist(),
            [rows.topics[at] for at in rows.topic],
            [rows.routes[at].encode() if at != NO_ROUTE else b"" for at in rows.topic_routes[rows.topic]],
            rows.qos.tolist(),
            rows.retain.tolist(),
            rows.accepted_ms.tolist(),
            rows.expires_ms.tolist(),
            rows.lengths.tolist(),
            [rows.payloads[end - length : end] for end, length in zip(ends, rows.lengths, strict=True)],
            rows.properties_bytes.tolist(),
            strict=True,
        )
    )


@settings(max_examples=50, deadline=None)
@given(chunks())
def test_the_columns_are_what_the_rows_are(of: list[Chunk]) -> None:
    assert in_columns(bulk_of(of)) == by_row(of)


@settings(max_examples=50, deadline=None)
@given(chunks(), st.data())
def test_chunks_that_are_not_chosen_are_left_out(of: list[Chunk], data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.booleans(), min_size=len(of), max_size=len(of)))

    found = in_columns(bulk_of(of), np.array(chosen, np.bool_))

    assert found == by_row([chunk for chunk, wanted in zip(of, chosen, strict=True) if wanted])


@settings(max_examples=50, deadline=None)
@given(chunks().filter(bool), st.data())
def test_a_chunk_with_any_byte_changed_is_named_and_the_others_are_read(of: list[Chunk], data: st.DataObject) -> None:
    keys, values = bulk_of(of)
    which = data.draw(st.integers(0, len(of) - 1))
    at = data.draw(st.integers(0, len(values[which]) - 1))
    bit = data.draw(st.integers(0, 7))
    changed = bytearray(values[which])
    changed[at] ^= 1 << bit
    values[which] = bytes(changed)

    found = ChunkColumns(Bulk(keys, values))

    assert [bad.seq for bad in found.bad] == [of[which].first_seq]
    assert in_columns(Bulk(keys, values)) == by_row(of[:which] + of[which + 1 :])


@settings(max_examples=50, deadline=None)
@given(chunks().filter(bool), st.data())
def test_a_chunk_that_is_cut_short_is_named(of: list[Chunk], data: st.DataObject) -> None:
    keys, values = bulk_of(of)
    which = data.draw(st.integers(0, len(of) - 1))
    values[which] = values[which][: data.draw(st.integers(0, len(values[which]) - 1))]

    assert [bad.seq for bad in ChunkColumns(Bulk(keys, values)).bad] == [of[which].first_seq]


@settings(max_examples=50, deadline=None)
@given(chunks().filter(bool), st.data())
def test_a_sound_chunk_in_the_wrong_place_or_of_a_newer_version_is_named(of: list[Chunk], data: st.DataObject) -> None:
    keys, values = bulk_of(of)
    which = data.draw(st.integers(0, len(of) - 1))
    newer = data.draw(st.booleans())
    if newer:
        values[which] = resealed(bytes([2]) + values[which][1:])
    else:
        keys[which] = chunk_key(3, of[which].first_seq + 1)

    (bad,) = ChunkColumns(Bulk(keys, values)).bad

    assert bad.newer == newer
    assert ("newer version: 2" if newer else "not where it belongs") in bad.why


def test_a_batch_that_is_none_under_a_right_checksum_is_damage() -> None:
    for body in (
        b"",
        b"\xc1",
        Batch.decode(b"\x9b\x01\x00\x90\x90\x90\xc4\x00\xc4\x00\xc4\x00\xc4\x00\x80\x90").encode(),
        b"\x93\x01\x02\x03",
    ):
        chunk = Chunk(first_seq=5, span=1, count=1, qos0=0, bytes_before=0, size_bytes=0, accepted_ms=0, offsets=None, body=body)
        with pytest.raises(StorageDamaged):
            ChunkColumns(bulk_of([chunk])).rows()


def resealed(value: bytes) -> bytes:
    """``value`` with a right checksum."""
    head, rest = value[: HEADER_BYTES - 4], value[HEADER_BYTES:]
    return head + crc32(rest, crc32(head)).to_bytes(4, "little") + rest


@given(st.lists(PROPERTIES, max_size=20))
def test_the_expiry_of_many_is_what_it_is_one_by_one(properties: list[bytes]) -> None:
    expected = [message_expiry_s(each) for each in properties]

    assert expiry_s(properties).tolist() == [NONE if each is None else each for each in expected]


RANGES = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 15)).map(lambda pair: (pair[0], pair[0] + pair[1])), max_size=8)


@given(st.lists(st.tuples(RANGES, st.integers(1, 5)), max_size=4))
def test_runs_say_of_each_sequence_what_the_last_layer_over_it_says(layers: list[tuple[list[tuple[int, int]], int]]) -> None:
    expected = []
    for seq in range(80):
        values = [value for ranges, value in layers if any(start <= seq < stop for start, stop in ranges)]
        expected.append(values[-1] if values else 0)

    runs = painted(0, layers)

    assert runs.of(np.arange(80)).tolist() == expected
    starts, stops = np.array([3, 10, 0]), np.array([9, 11, 80])
    for start, stop, uniform in zip(starts, stops, runs.uniform(starts, stops), strict=True):
        assert uniform == -1 or set(expected[start:stop]) == {uniform}


@given(RANGES)
def test_a_sequence_has_the_number_of_the_first_range_that_has_it(ranges: list[tuple[int, int]]) -> None:
    expected = [next((at for at, (start, stop) in enumerate(ranges) if start <= seq < stop), -1) for seq in range(80)]
    starts, stops = (np.array([bounds[side] for bounds in ranges], np.int64) for side in (0, 1))

    assert numbered(starts, stops, -1).of(np.arange(80)).tolist() == expected
