"""A clock that steps at will, against a model that knows when each time was shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.clock_steps import SEEN_WITHIN_MS, STEP_MIN_MS, STEPS_MAX, ClockSteps

HOUR_MS = 3_600_000
BEGIN_MS = 1_800_000_000_000


class Machine:
    """A machine whose clocks a test moves: ``runs`` moves both, ``sets`` moves the wall clock alone."""

    def __init__(self) -> None:
        self.wall_ms, self.steady_ms = BEGIN_MS, 5_000
        self.clock = ClockSteps()
        self.look()

    def look(self) -> int:
        self.clock.read(self.wall_ms, self.steady_ms)
        return self.wall_ms

    def runs(self, for_ms: int) -> None:
        self.wall_ms += for_ms
        self.steady_ms += for_ms
        self.look()

    def sets(self, by_ms: int) -> None:
        self.wall_ms += by_ms
        self.look()

    def age(self, since_ms: int) -> int:
        return self.clock.elapsed_ms(since_ms, self.wall_ms)


def test_without_a_step_an_age_is_a_difference() -> None:
    machine = Machine()
    since_ms = machine.look()

    machine.runs(600_000)

    assert machine.age(since_ms) == 600_000
    assert machine.age(machine.wall_ms + 1) == 0
    assert machine.clock.steps == []


@pytest.mark.parametrize("by_ms", [HOUR_MS, -HOUR_MS, 56 * 365 * 24 * HOUR_MS, -56 * 365 * 24 * HOUR_MS])
def test_a_step_makes_nothing_older(by_ms: int) -> None:
    machine = Machine()
    since_ms = machine.look()
    machine.runs(40_000)

    machine.sets(by_ms)
    machine.runs(10_000)

    assert machine.age(since_ms) == 50_000
    assert machine.age(machine.wall_ms - 10_000) == 10_000


def test_small_steps_are_one_once_they_are_large() -> None:
    machine = Machine()
    since_ms = machine.look()

    for _ in range(10):
        machine.sets(STEP_MIN_MS // 4)

    assert len(machine.clock.steps) == 2
    assert machine.age(since_ms) <= STEP_MIN_MS


def test_a_time_that_a_step_left_out_counts_as_that_step() -> None:
    machine = Machine()
    machine.sets(HOUR_MS)
    machine.runs(1_000)
    machine.sets(HOUR_MS)
    machine.runs(7_000)

    assert machine.age(machine.wall_ms - 7_000 - HOUR_MS // 2) == 7_000


def test_a_clock_that_is_set_without_end_takes_no_more_memory() -> None:
    machine = Machine()
    for _ in range(10 * STEPS_MAX):
        machine.sets(HOUR_MS)

    assert len(machine.clock.steps) == STEPS_MAX


MOVES = st.lists(st.tuples(st.sampled_from(["run", "set"]), st.integers(-(10**9), 10**9)), max_size=STEPS_MAX)


@given(MOVES)
def test_nothing_is_older_than_the_time_that_has_passed(moves: list[tuple[str, int]]) -> None:
    """Nor younger by more than the clock was set back."""
    machine = Machine()
    stamps = [(machine.look(), machine.steady_ms)]
    set_back_ms, small_ms = 0, SEEN_WITHIN_MS
    for move, by_ms in moves:
        if move == "run":
            machine.runs(abs(by_ms))
        else:
            machine.sets(by_ms)
            set_back_ms += max(0, SEEN_WITHIN_MS - by_ms)
        small_ms += STEP_MIN_MS
        stamps.append((machine.wall_ms, machine.steady_ms))

    for wall_ms, steady_ms in stamps:
        passed_ms = machine.steady_ms - steady_ms
        assert passed_ms - set_back_ms - small_ms <= machine.age(wall_ms) <= passed_ms + small_ms, "wire.steps-age-nothing"
