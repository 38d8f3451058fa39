"""The marks of what is handed out: shared, taken back in any order, and never counted twice."""

from __future__ import annotations

from array import array

from storage.queue.chunk import Left
from storage.queue.hand_out_cursor import SHARED_ROWS_MAX, InFlight
from tests.storage.building import RecordingEngine, batch
from tests.storage.queues import append, chunk, open_queue


def test_neighbours_share_a_mark_up_to_a_limit() -> None:
    in_flight = InFlight()
    for seq in range(2 * SHARED_ROWS_MAX):
        in_flight.add(chunk(seq, 1), seq, seq + 1, None, 1)
    assert len(in_flight) == 2
    assert (in_flight.messages, in_flight.size_bytes) == (2 * SHARED_ROWS_MAX, 20 * SHARED_ROWS_MAX)


def test_bytes_are_given_back_when_all_of_a_mark_is_settled() -> None:
    in_flight = InFlight()
    in_flight.add(chunk(0, 10), 0, 10, None, 10)
    in_flight.add_qos0(chunk(10, 4), 10, 14, array("I", [0, 3]), 2, bytes_before=100)
    assert in_flight.settle(4, 10) == (6, 0, 0)
    assert in_flight.size_bytes == 100
    assert in_flight.settle(0, 4) == (4, 0, 0)
    assert in_flight.size_bytes == 0
    assert in_flight.settle(10, 13) == (0, 1, 0), "its second row is number 13"
    assert in_flight.settle(13, 20) == (0, 1, 40)
    assert in_flight.messages == in_flight.stored == in_flight.qos0 == 0


def test_the_age_of_what_is_in_flight_is_that_of_its_first_message_and_not_of_one_that_has_left() -> None:
    """In a flow of lone messages thousands share a mark, one after the other."""
    engine = RecordingEngine()
    queue = open_queue(engine)
    append(engine, queue, *(batch([b"m"], accepted_ms=1000 + seq) for seq in range(20)))
    queue.hand_out(20, 1 << 30)
    ages = []
    for seq in range(20):
        ages.append(queue.oldest_ms())
        queue.settle("delivered", ((seq, seq + 1),))

    assert ages == [*range(1000, 1020)]
    assert queue.oldest_ms() is None


def test_what_leaves_is_put_down_with_the_time_of_the_chunk_that_it_came_from() -> None:
    in_flight = InFlight()
    for seq, accepted_ms in ((0, 10), (2, 10), (4, 20), (6, 30)):
        of = chunk(seq, 2)
        of.accepted_ms = accepted_ms
        in_flight.add(of, seq, seq + 2, None, 2)
    assert len(in_flight) == 1, "they share a mark"
    left: Left = []

    in_flight.settle(1, 7, left)
    in_flight.settle(7, 8, left)
    in_flight.settle(0, 1)

    assert left == [(10, 3), (20, 2), (30, 1), (30, 1)]


def test_rows_of_a_chunk_with_gaps_leave_with_its_time() -> None:
    in_flight = InFlight()
    in_flight.add(chunk(0, 9, offsets=array("I", [0, 4, 8])), 0, 9, array("I", [0, 4, 8]), 3)
    left: Left = []

    in_flight.settle(0, 8, left)

    assert left == [(1000, 2)]


def test_what_is_below_the_head_is_forgotten_and_the_first_mark_tells_what_is_still_needed() -> None:
    in_flight = InFlight()
    in_flight.add(chunk(0, 5), 0, 5, None, 5)
    in_flight.add_qos0(chunk(5, 2), 5, 7, None, 2, bytes_before=50)
    in_flight.forget_below(4)
    assert len(in_flight) == 2
    in_flight.settle(0, 5)
    in_flight.forget_below(5)
    assert in_flight.first is not None
    assert (in_flight.first.floor, in_flight.first.bytes_before) == (5, 50)
    assert [kept.first_seq for kept in in_flight.qos0_chunks()] == [5]
    in_flight.clear()
    assert len(in_flight) == in_flight.messages == in_flight.size_bytes == 0
