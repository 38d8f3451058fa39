"""WaitingParcels: what waits for a client, and what has passed."""

from __future__ import annotations

from array import array

from wire.exchange.subscriber_copies import Parcel
from wire.exchange.waiting_parcels import WaitingParcels
from wire.frames.batch import from_rows


def parcel(count: int) -> Parcel:
    return Parcel(from_rows((b"t", 1, b"x") for _ in range(count)))


def test_what_is_taken_has_passed_and_no_longer_waits() -> None:
    waiting = WaitingParcels()
    waiting.add(parcel(2), 7, None, 20)
    waiting.add(parcel(3), 9, array("I", [0, 1, 4]), 30)
    assert (bool(waiting), waiting.messages, waiting.size_bytes) == (True, 5, 50)
    first = waiting.take()
    assert (first.first_seq, first.stop_seq, waiting.messages, waiting.size_bytes) == (7, 9, 3, 30)
    assert (waiting.passed_messages, waiting.passed_bytes) == (2, 20)
    assert waiting.take().stop_seq == 14
    waiting.left_out(1, 5)
    assert (bool(waiting), waiting.passed_messages, waiting.passed_bytes) == (False, 6, 55)
    waiting.clear()
    assert (waiting.passed_messages, waiting.passed_bytes) == (0, 0)
