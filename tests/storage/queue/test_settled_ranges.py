"""Departures from a queue: in any order, once, noted where a history is kept; and counted: what came is in it or has ended."""

from __future__ import annotations

from array import array

from storage.engine.engine import Write
from storage.queue.history import QueueHistory, Settlement
from storage.queue.ledger import HistoryRow, Ledger
from storage.queue.settled_ranges import Settled
from tests.storage.building import RecordingEngine
from tests.storage.queues import chunk, new_row
from wire.frames.frame import Ranges
from wire.ranges import RangeSet


def settled(tail: int, history: QueueHistory | None = None) -> Settled:
    return Settled(new_row(tail=tail), history, lambda: None)


def noted(tail: int) -> tuple[Settled, QueueHistory]:
    history = QueueHistory(RecordingEngine(), "q", 1, HistoryRow(begins=0), 0)
    return settled(tail, history), history


def notes(history: QueueHistory) -> dict[tuple[str, str], Ranges]:
    """The notes since the last call."""
    write = Write()
    history.write(write, 1000, 0, 0)
    rows = [Settlement.decode(value) for _, _, _, value in write.ops]
    return {(row.by, outcome): ranges for row in rows for outcome, ranges in row.outcomes}


def test_the_head_moves_over_what_left_in_any_order_and_tells_of_it() -> None:
    queue = settled(20)

    assert queue.leave("store", "delivered", 5, 8) == ((5, 8),)
    assert (queue.advance(), queue.head) == (False, 0)
    assert queue.leave("store", "delivered", 0, 10) == [(0, 5), (8, 10)]
    assert (queue.advance(), queue.head, queue.above.ranges()) == (True, 10, ())
    assert queue.leave("store", "delivered", 10, 12) == ((10, 12),)

    assert (queue.advance(), queue.advance(), queue.head, queue.above.ranges()) == (True, False, 12, ())


def test_what_leaves_is_noted_once() -> None:
    """queue.history-without-gap"""
    queue, history = noted(20)

    queue.leave("a", "delivered", 2, 5)
    queue.leave("b", "expired", 0, 7)
    queue.leave("b", "expired", 0, 7)

    assert notes(history) == {("a", "delivered"): ((2, 5),), ("b", "expired"): ((0, 2), (5, 7))}


def test_what_lies_between_was_qos_0_of_this_life_or_of_a_former_one_or_is_damaged() -> None:
    """queue.history-without-gap"""
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
    queue = settled(20)
    queue.leave("store", "delivered", 3, 5)

    queue.leave_all("operator", "dropped:purged", 20)

    assert (queue.head, queue.above.ranges(), queue.advance()) == (20, (), False)


# --- counts ---


class Told:
    times = 0

    def __call__(self) -> None:
        self.times += 1


def counts(ledger: Ledger, stored: int) -> Settled:
    return Settled(new_row(ledger=ledger, depth=stored), None, lambda: None)


def test_what_is_accepted_waits_until_it_ends() -> None:
    """queue.ledger-adds-up"""
    balance = counts(Ledger(), 0)

    balance.accept(5, 2)
    balance.end("delivered", 2)
    balance.end("dropped:qos0_memory", 0, 1)
    balance.refuse_into("dropped:overflow", 4)
    balance.refuse(9)

    assert (balance.depth, balance.stored, balance.qos0) == (4, 3, 1)
    assert balance.ledger == Ledger(accepted=11, delivered=2, dropped={"qos0_memory": 1, "overflow": 4}, refused=9)
    assert balance.ledger.closes(balance.depth)
    assert balance.keep("dropped:purged", 1, 0) == 3
    assert balance.depth == 1
    assert balance.ledger.closes(balance.depth)


def test_what_a_row_does_not_have_any_more_went_with_the_memory_of_a_former_life() -> None:
    """queue.ledger-adds-up"""
    balance = counts(Ledger(accepted=10, delivered=3), 5)

    assert balance.ledger.dropped == {"restart": 2}
    assert balance.ledger.closes(balance.depth)


def test_the_row_is_to_be_written_where_a_count_changes_and_only_there() -> None:
    told = Told()
    balance = Settled(new_row(), None, told)
    balance.count("delivered", 0)
    balance.end("delivered", 0)
    assert told.times == 0

    balance.accept(1, 0)
    balance.end("delivered", 1)
    balance.refuse(1)
    assert told.times == 3


def test_an_empty_queue_puts_right_what_was_counted_too_little_or_too_much_as_damaged() -> None:
    for wrong, damaged in ((2, 5), (-1, 2)):
        balance = counts(Ledger(accepted=10, delivered=7 - wrong, dropped={"damaged": 3}), wrong)
        assert balance.put_right() == wrong
        assert (balance.stored, balance.ledger.dropped) == (0, {"damaged": damaged})
        assert balance.ledger.closes(0)
