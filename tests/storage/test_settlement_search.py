"""The settlements that matter to some sequences are found by a few looks, in any order of settling, and around what is damaged."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from storage.queue.history import Settlement, rows_about, rows_below
from wire.ranges import RangeSet
from wire.status.outcomes import REDELIVERED

FIRST = 5  # the number of the first row that is kept


def rows_of(commits: list[tuple[int, list[tuple[int, int]], bool]]) -> list[Settlement]:
    """The writes of a queue: each commit appends, settles ranges (of tenths of the queue), and may count sendings."""
    head = tail = 0
    settled = RangeSet()
    rows: list[Settlement] = []
    for appended, wanted, redelivered in commits:
        tail += appended
        before, length = head, tail - head
        left = [
            gap for low, high in wanted for gap in settled.missing(head + low * length // 10, head + min(high, 10) * length // 10)
        ]
        done = RangeSet(left).ranges()
        for start, stop in done:
            settled.add(start, stop)
        head = settled.advance(head)
        reach = settled.ranges()[-1][1] if settled else head
        outcomes = [("delivered", done)] if done else []
        if redelivered and length:
            outcomes.append((REDELIVERED, ((before, tail),)))
        if outcomes:
            rows.append(Settlement(0, "x", tuple(outcomes), before, reach))
    return rows


def settles(row: Settlement, start: int, stop: int) -> bool:
    return any(low < stop and start < high for outcome, ranges in row.outcomes if outcome != REDELIVERED for low, high in ranges)


class Rows:
    """Rows that are looked up, some of which cannot be read."""

    def __init__(self, rows: list[Settlement], unreadable: frozenset[int]) -> None:
        self._rows = rows
        self._unreadable = unreadable
        self.looks = 0

    def row_from(self, low: int, high: int) -> tuple[int, Settlement] | None:
        self.looks += 1
        assert FIRST <= low < high <= FIRST + len(self._rows)
        places = (number for number in range(low, high) if number not in self._unreadable)
        return next(((number, self._rows[number - FIRST]) for number in places), None)


COMMITS = st.lists(
    st.tuples(st.integers(0, 20), st.lists(st.tuples(st.integers(0, 9), st.integers(0, 14)), max_size=3), st.booleans()),
    max_size=40,
)


@settings(max_examples=300, deadline=None)
@given(
    commits=COMMITS,
    unreadable=st.frozensets(st.integers(FIRST, FIRST + 40), max_size=8),
    start=st.integers(0, 300),
    count=st.integers(1, 100),
)
def test_no_row_that_matters_is_left_out(
    commits: list[tuple[int, list[tuple[int, int]], bool]], unreadable: frozenset[int], start: int, count: int
) -> None:
    """queue.history-without-gap"""
    rows = rows_of(commits)
    numbers = FIRST, FIRST + len(rows)
    found = Rows(rows, unreadable)

    low, high = rows_about(numbers, start, start + count, found.row_from)

    assert numbers[0] <= low <= high <= numbers[1]
    assert found.looks <= 2 * (len(rows).bit_length() + 1)
    matter = {number for number, row in enumerate(rows, FIRST) if settles(row, start, start + count)}
    assert matter <= set(range(low, high)), "those that cannot be read included: they are to be told of"
    if not unreadable:
        near = [number for number, row in enumerate(rows, FIRST) if row.reach > start and row.head < start + count]
        assert list(range(low, high)) == near, "and no other is read"
    above = {number for number, row in enumerate(rows, FIRST) if settles(row, start, 1 << 62)}
    assert above <= set(range(rows_below(numbers, start, found.row_from), numbers[1]))


def test_what_settles_in_order_is_found_exactly() -> None:
    """queue.history-without-gap"""
    rows = [Settlement(0, "x", (("delivered", ((at, at + 10),)),), at, at + 10) for at in range(0, 100_000, 10)]
    found = Rows(rows, frozenset())

    low, high = rows_about((FIRST, FIRST + len(rows)), 5000, 5100, found.row_from)

    assert (low - FIRST, high - FIRST) == (500, 510)
    assert found.looks <= 30


def test_rows_of_before_are_left_out_where_a_later_one_tells_that_they_do_not_matter() -> None:
    rows = [Settlement(0, "x", (("delivered", ((at, at + 1),)),), at, at + 1) for at in range(100)]
    rows[:40] = [replace(row, head=-1, reach=-1) for row in rows[:40]]
    found = Rows(rows, frozenset())
    numbers = FIRST, FIRST + len(rows)

    assert rows_about(numbers, 60, 70, found.row_from) == (FIRST + 60, FIRST + 70)
    assert rows_about(numbers, 0, 10, found.row_from) == (FIRST, FIRST + 40), "they are one to it"
    assert rows_below(numbers, 30, found.row_from) == FIRST
