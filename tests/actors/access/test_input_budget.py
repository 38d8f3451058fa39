"""The input that clients have sent and that is not taken has one limit for all."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from actors.access.input_budget import InputBudget


def test_who_holds_most_goes_first() -> None:
    """access.input-bounded"""
    budget = InputBudget(100)
    assert not budget.hold(1, 40)
    assert not budget.hold(2, 60)
    assert budget.over() is None
    assert budget.hold(3, 50)
    assert budget.over() == 2
    assert not budget.hold(2, 0)
    assert budget.over() is None
    assert budget.held_bytes == 90


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 60))))
def test_the_sum_is_that_of_those_who_are_left(steps: list[tuple[int, int]]) -> None:
    """access.input-bounded"""
    budget, held = InputBudget(100), dict[int, int]()
    for number, size_bytes in steps:
        held[number] = size_bytes
        assert budget.hold(number, size_bytes) == (sum(held.values()) > 100)
        while (largest := budget.over()) is not None:
            assert held[largest] == max(held.values())
            held[largest] = 0
            budget.hold(largest, 0)
        assert budget.held_bytes == sum(held.values()) <= 100
