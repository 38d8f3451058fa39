"""What has left a queue: in any order, once, and noted where a history is kept."""

from __future__ import annotations

from array import array

from storage.engine.engine import Write
from storage.queue.history import QueueHistory, Settlement
from storage.queue.ledger import HistoryRow
from storage.queue.settled_ranges import Settled
from tests.storage.building import RecordingEngine
from tests.storage.queues import chunk, new_row
from wire.frames.base import Ranges
from wire.ranges import RangeSet


def settled(tail: int, history: QueueHistory | None = None, heads: list[int] | None = None) -> Settled:
    return Settled(new_row(tail=tail), history, lambda: None, () if heads is None else (heads.append,))


def noted(tail: int) -> tuple[Settled, QueueHistory]:
    history = QueueHistory(RecordingEngine(), "q", 1, HistoryRow(begins=0), 0)
    return settled(tail, history), history


def notes(history: QueueHistory) -> dict[tuple[str, str], Ranges]:
    """What was noted since the last call."""
    write = Write()
    history.write(write, 1000, 0, 0)
    rows = [Settlement.decode(value) for _, _, _, value in write.ops]
    return {(row.by, outcome): ranges for row in rows for outcome, ranges in row.outcomes}


def test_the_head_moves_over_what_left_in_any_order_and_tells_of_it() -> None:
    heads: list[int] = []
    queue = settled(20, heads=heads)

    assert queue.leave("store", "delivered", 5, 8) == ((5, 8),)
    queue.advance()
    assert (queue.head, heads) == (0, [])
    assert queue.leave("store", "delivered", 0, 10) == [(0, 5), (8, 10)]
    queue.advance()
    queue.advance()

    assert (queue.head, heads, queue.above.ranges()) == (10, [10], ())


def test_what_leaves_is_noted_once() -> None:
    """queue.history-notes-each-once"""
    queue, history = noted(20)

    queue.leave("a", "delivered", 2, 5)
    queue.leave("b", "expired", 0, 7)
    queue.leave("b", "expired", 0, 7)

    assert notes(history) == {("a", "delivered"): ((2, 5),), ("b", "expired"): ((0, 2), (5, 7))}


def test_what_lies_between_was_qos_0_of_this_life_or_of_a_former_one_or_is_damaged() -> None:
    """queue.history-notes-each-once"""
    queue, history = noted(6)  # what is below was there when the store was opened

    queue.leave_rows("a", "delivered", ((2, 9),), RangeSet(((3, 4), (8, 9))))
    assert notes(history) == {
        ("a", "delivered"): ((3, 4), (8, 9)),
        ("store", "dropped:restart"): ((2, 3), (4, 6)),
        ("store", "dropped:qos0_memory"): ((6, 8),),
    }
    queue.leave_empty(0, 12, ((10, 11),))
    assert notes(history) == {("store", "dropped:restart"): ((0, 2),), ("store", "dropped:qos0_memory"): ((9, 10), (11, 12))}
    assert queue.above.ranges() == ((0, 10), (11, 12))
    queue.leave_rows("a", "delivered", ((12, 15),), RangeSet(((12, 13),)), damaged=True)
    assert notes(history) == {("a", "delivered"): ((12, 13),), ("store", "dropped:damaged"): ((13, 15),)}


def test_rows_are_left_where_nothing_settled_them() -> None:
    queue = settled(20)
    queue.leave("store", "delivered", 3, 5)
    whole, sparse = chunk(0, 10), chunk(0, 10, offsets=array("I", [1, 4, 9]))

    assert (queue.rows_left(whole, 0), queue.rows_left(whole, 4, 7), queue.rows_left(whole, 8, 8)) == (8, 2, 0)
    assert (queue.rows_left(sparse, 0), queue.rows_left(sparse, 2)) == (2, 1)


def test_all_of_it_may_leave_at_once() -> None:
    heads: list[int] = []
    queue = settled(20, heads=heads)
    queue.leave("store", "delivered", 3, 5)

    queue.leave_all("operator", "dropped:purged", 20)

    assert (queue.head, queue.above.ranges(), heads) == (20, (), [])
