"""The counts of a queue: what was accepted is in it or has ended, whatever happens."""

from __future__ import annotations

from storage.queue.ledger import Ledger
from storage.queue.ledger_balance import Balance


class Told:
    times = 0

    def __call__(self) -> None:
        self.times += 1


def test_what_is_accepted_waits_until_it_ends() -> None:
    """queue.ledger-adds-up"""
    balance = Balance(Ledger(), 0, Told())

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
    balance = Balance(Ledger(accepted=10, delivered=3), 5, Told())

    assert balance.ledger.dropped == {"restart": 2}
    assert balance.ledger.closes(balance.depth)


def test_the_row_is_to_be_written_where_a_count_changes_and_only_there() -> None:
    told = Told()
    balance = Balance(Ledger(), 0, told)
    balance.count("delivered", 0)
    balance.end("delivered", 0)
    assert told.times == 0

    balance.accept(1, 0)
    balance.end("delivered", 1)
    balance.refuse(1)
    assert told.times == 3


def test_an_empty_queue_puts_right_what_was_counted_too_little_or_too_much_as_damaged() -> None:
    for wrong, damaged in ((2, 5), (-1, 2)):
        balance = Balance(Ledger(accepted=10, delivered=7 - wrong, dropped={"damaged": 3}), wrong, Told())
        assert balance.put_right() == wrong
        assert (balance.stored, balance.ledger.dropped) == (0, {"damaged": damaged})
        assert balance.ledger.closes(0)
