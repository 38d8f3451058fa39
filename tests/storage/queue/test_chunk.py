"""A chunk says what was put into it, or that it is damaged."""

from __future__ import annotations

from array import array

import pytest

from storage.queue.chunk import Chunk
from tests.storage.building import QUEUE
from wire.errors import ConfigError, StorageDamaged


@pytest.mark.parametrize("offsets", [None, array("I", [1, 3])])
def test_a_chunk_is_itself_again_and_any_flipped_bit_is_noticed(offsets: array[int] | None) -> None:
    chunk = Chunk(
        first_seq=7,
        span=4,
        count=4 if offsets is None else 2,
        qos0=1,
        bytes_before=9,
        size_bytes=5,
        accepted_ms=123,
        offsets=offsets,
        body=b"the body",
    )
    value = chunk.encode()
    again = Chunk.decode(value, queue=QUEUE, seq=7)

    assert all(getattr(again, name) == getattr(chunk, name) for name in Chunk.__slots__)
    for at in range(len(value)):
        torn = bytearray(value)
        torn[at] ^= 0x10
        with pytest.raises(StorageDamaged):
            Chunk.decode(bytes(torn), queue=QUEUE, seq=7)
    for length in range(len(value)):
        with pytest.raises(StorageDamaged):
            Chunk.decode(value[:length], queue=QUEUE, seq=7)


def test_a_chunk_of_a_newer_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storage.queue.chunk.CHUNK_VERSION", 2)
    value = Chunk(
        first_seq=0, span=1, count=1, qos0=0, bytes_before=0, size_bytes=1, accepted_ms=0, offsets=None, body=b""
    ).encode()
    monkeypatch.undo()

    with pytest.raises(ConfigError, match="newer"):
        Chunk.decode(value, queue=QUEUE, seq=0)
