"""A record is split, lost in part, sent again and put together: it is the one that was sent, or none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.engine.engine import FAMILIES, Operation
from storage.replication.log import Entry
from storage.replication.records import (
    COMMIT,
    HEAD_BYTES,
    RENEWAL,
    TERM,
    Record,
    RecordAssembly,
    Term,
    decode_operations,
    encode_operations,
    split,
)
from wire.errors import ConfigError, StorageDamaged

KEYS = st.binary(max_size=12)
OPERATIONS: st.SearchStrategy[list[Operation]] = st.lists(
    st.tuples(st.sampled_from(("put", "delete", "delete_range")), st.sampled_from(FAMILIES), KEYS, st.binary(max_size=40)),
    max_size=6,
)
U32, U64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
RECORDS = st.builds(Record, st.sampled_from((COMMIT, TERM, RENEWAL)), U32, U64, U64, st.binary(max_size=300))
COMMITTED = Record(COMMIT, 3, 7, 9, bytes(range(100)))


def taken(messages: list[bytes], first: int = 1) -> list[Record]:
    """The records that come of ``messages``."""
    assembly = RecordAssembly()
    found = [assembly.take(Entry(first + place, message)) for place, message in enumerate(messages)]
    return [record for record in found if record is not None]


@given(OPERATIONS)
def test_a_commit_is_read_as_it_was_written(operations: list[Operation]) -> None:
    assert decode_operations(encode_operations(operations)) == operations


@given(st.lists(RECORDS, max_size=5), st.integers(HEAD_BYTES + 1, HEAD_BYTES + 80))
def test_records_that_are_split_come_together_in_order(records: list[Record], part_bytes: int) -> None:
    parts = [split(record, part_bytes) for record in records]

    assert all(len(message) <= part_bytes for messages in parts for message in messages)
    ends = [sum(map(len, parts[: place + 1])) for place in range(len(parts))]
    assert taken([message for messages in parts for message in messages]) == [
        record.at(end) for record, end in zip(records, ends, strict=True)
    ]


@given(st.lists(st.tuples(RECORDS, st.integers(0, 10)), max_size=5))
def test_of_records_that_were_cut_short_only_the_whole_ones_count(sent: list[tuple[Record, int]]) -> None:
    landed, whole = list[bytes](), list[Record]()
    for record, kept in sent:
        parts = split(record, HEAD_BYTES + 40)
        landed += parts[:kept]
        if kept >= len(parts):
            whole.append(record.at(len(landed)))

    assert taken(landed) == whole


@given(st.data())
def test_parts_in_any_order_make_no_record_that_nobody_sent(data: st.DataObject) -> None:
    """replication.record-of-its-own-parts: two sendings of one number, whose parts land as chance has it."""
    bodies = data.draw(st.lists(st.binary(min_size=41, max_size=120), min_size=2, max_size=3, unique=True))
    messages = [part for body in bodies for part in split(Record(COMMIT, 1, 2, 3, body), HEAD_BYTES + 40)]
    landed = data.draw(st.lists(st.sampled_from(messages), max_size=12))

    assert {record.body for record in taken(landed)} <= set(bodies)


def test_a_late_part_does_not_go_on_with_the_record_that_was_sent_instead() -> None:
    """replication.record-of-its-own-parts"""
    first, second = (split(Record(COMMIT, 1, 2, 3, letter * 80), HEAD_BYTES + 40) for letter in (b"a", b"b"))

    assert taken([second[0], first[1]]) == []
    assert [record.body for record in taken([second[0], first[1], *second])] == [b"b" * 80]


@given(st.integers(0, 10**6), st.integers(1, 255))
def test_a_message_with_a_changed_byte_is_no_record(place: int, change: int) -> None:
    (message,) = split(COMMITTED, 1000)
    changed = bytearray(message)
    changed[HEAD_BYTES + place % (len(message) - HEAD_BYTES)] ^= change

    with pytest.raises(StorageDamaged):
        taken([bytes(changed)])


@pytest.mark.parametrize("message", [b"", b"BR", b"XX" + bytes(100)], ids=["empty", "short", "of another"])
def test_what_is_not_ours_is_told(message: bytes) -> None:
    with pytest.raises(StorageDamaged):
        taken([message])


def test_a_record_of_another_version_is_refused() -> None:
    (message,) = split(COMMITTED, 1000)

    with pytest.raises(ConfigError) as refused:
        taken([message[:2] + b"\x02" + message[3:]])

    assert refused.value.fields["version"] == 2


@pytest.mark.parametrize("body", [b"\xc1", b"\x01", b"\x91\x94\x09\x00\xa1a\xa1b", b"\x91\x93\x00\x00\xa1a"])
def test_the_body_of_a_commit_that_is_none_is_damage(body: bytes) -> None:
    with pytest.raises(StorageDamaged):
        decode_operations(body)


def test_a_term_is_read_as_it_was_written() -> None:
    term = Term("log", "a", "node", "host:1883", 2.5, True)

    assert Term.decode(term.encode()) == term
    for damaged in (b"\xc1", b"\x93\x01\x02\x03", b"\x01"):
        with pytest.raises(StorageDamaged):
            Term.decode(damaged)
