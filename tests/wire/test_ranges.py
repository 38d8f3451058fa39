"""RangeSet against a plain set of numbers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wire.ranges import WAVES_MAX, ArrivalSet, RangeSet, lowest, ranges_of

SEQS = st.integers(min_value=0, max_value=40)
STEPS = st.lists(st.tuples(st.sampled_from(["add", "discard", "advance"]), SEQS, SEQS), max_size=30)


@given(STEPS)
def test_a_range_set_holds_what_a_set_of_numbers_would(steps: list[tuple[str, int, int]]) -> None:
    ranges, model = RangeSet(), set[int]()
    for verb, start, stop in steps:
        if verb == "add":
            assert ranges.add(start, stop) == len(set(range(start, stop)) - model)
            model |= set(range(start, stop))
        elif verb == "discard":
            ranges.discard(start, stop)
            model -= set(range(start, stop))
        else:
            low = start
            while low in model:
                low += 1
            assert ranges.advance(start) == low
            model = {seq for seq in model if seq > low}
        assert ranges.ranges() == ranges_of(sorted(model))
        assert ranges.count() == len(model)
        assert bool(ranges) == bool(model)
        assert [seq for seq in range(42) if seq in ranges] == sorted(model)
        assert ranges.covers(start, stop) == model.issuperset(range(start, stop))
        assert ranges.missing(start, stop) == list(ranges_of(sorted(set(range(start, stop)) - model)))
        assert ranges.first() == (ranges.ranges()[0] if model else None)


def test_ranges_of_equal_neighbours_counts_each_once() -> None:
    assert ranges_of([1, 1, 2, 2, 5, 5]) == ((1, 3), (5, 6))
    assert ranges_of([]) == ()


@given(STEPS)
def test_an_arrival_set_holds_what_a_list_in_the_order_of_arrival_would(steps: list[tuple[str, int, int]]) -> None:
    ranges, model = ArrivalSet(), list[int]()
    for verb, start, stop in steps:
        model = [seq for seq in model if not start <= seq < stop]
        if verb == "add":
            ranges.add(start, stop)
            model += range(start, stop)
        else:
            ranges.discard(start, stop)
        assert [seq for low, high in ranges.ranges() for seq in range(low, high)] == model
        assert bool(ranges) == bool(model)
        assert [seq for seq in range(42) if seq in ranges] == sorted(model)
        again = ArrivalSet(ranges.ranges()).ranges()
        assert [seq for low, high in again for seq in range(low, high)] == model
        some = RangeSet(((start, stop), (30, 35)))
        assert [seq for low, high in ranges.within(some) for seq in range(low, high)] == [seq for seq in model if seq in some]
        if ranges.rising:
            assert model == sorted(model)


def test_an_arrival_set_keeps_all_but_not_the_order_of_what_falls_too_often() -> None:
    ranges = ArrivalSet((seq, seq + 1) for seq in range(1000, 0, -1))
    assert ranges.ranges()[: WAVES_MAX - 1] == tuple((seq, seq + 1) for seq in range(1000, 1001 - WAVES_MAX, -1))
    assert sorted(ranges.ranges()) == ([(1, 1002 - WAVES_MAX), *((seq, seq + 1) for seq in range(1002 - WAVES_MAX, 1001))])


def test_the_lowest_of_several_sets() -> None:
    assert lowest([RangeSet([(7, 9)]), RangeSet(), RangeSet([(5, 6), (90, 91)])]) == 5
    assert lowest([RangeSet(), RangeSet()]) is None
