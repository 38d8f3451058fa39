"""The packets that follow the sequences, where the identifiers come round as anywhere else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.exchange.packet_identifiers import PACKET_IDS, PUBACK, PUBREC, acks, id_fields, matching, packet_id_of, seq_of

FIRST = st.one_of(st.integers(0, 3 * PACKET_IDS), st.integers(PACKET_IDS - 70, PACKET_IDS + 5))
COUNT = st.integers(0, 200)


def packets(first_byte: int, tail: bytes, seqs: range) -> list[bytes]:
    return [bytes([first_byte, 2 + len(tail)]) + packet_id_of(seq).to_bytes(2, "big") + tail for seq in seqs]


@given(first=FIRST, count=COUNT)
def test_fields_and_packets_are_those_of_the_sequences(first: int, count: int) -> None:
    seqs = range(first, first + count)
    assert id_fields(first, count) == [packet_id_of(seq).to_bytes(2, "big") for seq in seqs]
    assert acks(PUBREC, first, count) == b"".join(packets(PUBREC, b"", seqs))


@given(first=FIRST, count=COUNT, wrong=COUNT, tail=st.sampled_from([b"", b"\x10", b"\x00\x00"]), before=st.binary(max_size=3))
def test_as_many_packets_match_as_are_as_expected(first: int, count: int, wrong: int, tail: bytes, before: bytes) -> None:
    found = packets(PUBACK, tail, range(first, first + count))
    if wrong < count:
        found[wrong] = packets(PUBACK, tail, range(first + wrong + 1, first + wrong + 2))[0]
    buffer = before + b"".join(found)
    for asked in (count, count + 1, count // 2):
        assert matching(buffer, len(before), PUBACK, tail, first, asked) == min(count, wrong, asked)


@pytest.mark.parametrize("start", [0, 1, PACKET_IDS - 1])
def test_a_whole_round_is_one_piece(start: int) -> None:
    whole = acks(PUBACK, start, PACKET_IDS)
    assert len(whole) == 4 * PACKET_IDS
    assert matching(whole, 0, PUBACK, b"", start, PACKET_IDS) == PACKET_IDS
    fields = id_fields(start, PACKET_IDS)
    assert (len(set(fields)), fields[0]) == (PACKET_IDS, packet_id_of(start).to_bytes(2, "big"))


def test_an_identifier_tells_its_sequence() -> None:
    for seq in (0, 1, PACKET_IDS - 1, PACKET_IDS, 5 * PACKET_IDS + 7):
        for below in (0, 1, PACKET_IDS - 1):
            low = max(0, seq - below)
            assert seq_of(packet_id_of(seq), low) == seq
    assert seq_of(0, 0) is None
    assert seq_of(PACKET_IDS + 1, 0) is None
