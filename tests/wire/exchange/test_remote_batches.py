"""Owed: which messages a refusal of rows means, when some of what came was left out of the batch."""

from __future__ import annotations

from array import array

from wire.exchange.receiver import AnswerBurst
from wire.exchange.remote_batches import Owed
from wire.frames.batch import from_rows, pack_column


def u16(*numbers: int) -> bytes:
    return pack_column(array("H", numbers))


def test_refused_rows_of_the_batch_are_told_as_what_came() -> None:
    """Rows 0 to 3 came, 1 was left out: rows 0, 1, 2 of the batch are 0, 2, 3."""
    came = from_rows([(b"t", 1, b"a"), (b"t", 0, b"b"), (b"t", 0, b"c"), (b"t", 2, b"d")], accepted_ms=7)
    burst = AnswerBurst([b"\x00\x05"], [b"\x00\x09"], [], frozenset())
    owed = Owed(
        source=3,
        burst=burst,
        came=came,
        sources=pack_column(array("I", [3] * 4)),
        received={"s": (u16(9), u16(3))},
        rows=[0, 2, 3],
        again=(),
    )
    held = owed.held(u16(0, 2))
    assert [(each.message.payload, each.message.packet_id, each.since_ms) for each in held] == [
        (b"a", b"\x00\x05", 7),
        (b"d", b"\x00\x09", 7),
    ]
    assert (owed.qos0(u16(0, 2)), owed.qos0(u16(1, 2))) == (0, 1)
    again = Owed(source=3, burst=burst, came=came, sources=b"", received={}, rows=None, again=tuple(held))
    assert again.held(u16(1)) == held[1:]
