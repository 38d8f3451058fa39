"""The marks of what is handed out: shared, taken back in any order, and never counted twice."""

from __future__ import annotations

from array import array

from storage.chunk import Chunk
from storage.flights import FLIGHT_ROWS_MAX, Flights


def chunk(first_seq: int, count: int, *, bytes_before: int = 0) -> Chunk:
    return Chunk(
        first_seq=first_seq,
        span=count,
        count=count,
        qos0=0,
        bytes_before=bytes_before,
        size_bytes=10 * count,
        accepted_ms=1000,
        offsets=None,
        body=b"",
    )


def test_neighbours_share_a_mark_up_to_a_limit() -> None:
    flights = Flights()
    for seq in range(2 * FLIGHT_ROWS_MAX):
        flights.leave(chunk(seq, 1), seq, seq + 1, None, 1)
    assert len(flights) == 2
    assert (flights.messages, flights.size_bytes) == (2 * FLIGHT_ROWS_MAX, 20 * FLIGHT_ROWS_MAX)


def test_bytes_are_given_back_when_all_of_a_mark_has_landed() -> None:
    flights = Flights()
    flights.leave(chunk(0, 10), 0, 10, None, 10)
    flights.leave_apart(chunk(10, 4), 10, 14, array("I", [0, 3]), 2, bytes_before=100)
    assert flights.land(4, 10) == (6, 0, 0)
    assert flights.size_bytes == 100
    assert flights.land(0, 4) == (4, 0, 0)
    assert flights.size_bytes == 0
    assert flights.land(10, 13) == (0, 1, 0), "its second row is number 13"
    assert flights.land(13, 20) == (0, 1, 40)
    assert flights.messages == flights.durable == flights.volatile == 0


def test_what_is_below_the_head_is_forgotten_and_the_first_mark_tells_what_is_still_needed() -> None:
    flights = Flights()
    flights.leave(chunk(0, 5), 0, 5, None, 5)
    flights.leave_apart(chunk(5, 2), 5, 7, None, 2, bytes_before=50)
    flights.forget_below(4)
    assert len(flights) == 2
    flights.land(0, 5)
    flights.forget_below(5)
    assert flights.first is not None
    assert (flights.first.floor, flights.first.bytes_before) == (5, 50)
    assert [kept.first_seq for kept in flights.chunks_apart()] == [5]
    flights.clear()
    assert len(flights) == flights.messages == flights.size_bytes == 0
