"""A batch leaves at once, or a moment after the last one where something came while that was being committed."""

from __future__ import annotations

import pytest

from actors.broker.batch_pace import REST_S, RESTING_CLIENTS_MIN, RESTING_ROWS_MAX, Pace
from wire.frames.sending_link import OVERLAPPING_ROWS_MIN

GATHER_S = 0.25


def test_the_first_batch_is_due_at_once() -> None:
    assert Pace(lambda: GATHER_S).due_s == float("-inf")


def test_where_nothing_came_meanwhile_the_next_is_due_at_once() -> None:
    pace = Pace(lambda: GATHER_S)
    for now_s in (10.0, 10.01, 10.02):
        pace.on_sent(now_s)
        assert pace.due_s == float("-inf")
        pace.on_committed(waiting=False)
        assert not pace.busy
        assert pace.due_s == float("-inf")


def test_what_came_meanwhile_is_due_a_moment_after_the_last_batch_left() -> None:
    pace = Pace(lambda: GATHER_S)
    pace.on_sent(10.0)
    pace.on_sent(11.0)
    pace.on_committed(waiting=True)
    assert pace.busy
    assert pace.due_s == 11.0 + GATHER_S


def test_it_is_so_until_nothing_comes_during_a_commit() -> None:
    pace = Pace(lambda: GATHER_S)
    pace.on_sent(10.0)
    pace.on_committed(waiting=True)
    pace.on_sent(11.0)
    assert pace.busy, "the batch that gathered is under way"
    assert pace.due_s == 11.0 + GATHER_S
    pace.on_committed(waiting=True)
    assert pace.due_s == 11.0 + GATHER_S
    pace.on_sent(12.0)
    pace.on_committed(waiting=False)
    assert not pace.busy
    assert pace.due_s == float("-inf")


def test_it_is_off_at_no_time_at_all() -> None:
    pace = Pace(lambda: 0.0)
    pace.on_sent(10.0)
    pace.on_committed(waiting=True)
    assert not pace.busy
    assert pace.due_s == float("-inf")


# --- what has gathered ---


def busy_pace(sent_s: float = 10.0) -> Pace:
    pace = Pace(lambda: GATHER_S)
    pace.on_sent(sent_s)
    pace.on_committed(waiting=True)
    return pace


def test_a_batch_has_gathered_when_it_is_due_or_large_or_full() -> None:
    pace = busy_pace()
    assert not pace.has_gathered(10.0, OVERLAPPING_ROWS_MIN - 1, full=False)
    assert pace.has_gathered(10.0, OVERLAPPING_ROWS_MIN, full=False)
    assert pace.has_gathered(10.0, 1, full=True)
    assert pace.has_gathered(10.0 + GATHER_S, 0, full=False)


# --- rests ---


def test_publishers_rest_until_the_batch_that_gathers_is_due() -> None:
    assert busy_pace().rest_until_s(10.0, outstanding=False, rows=1, publishers=0) == 10.0 + GATHER_S


@pytest.mark.parametrize(
    ("pace", "rows", "publishers", "rests"),
    [
        (Pace(lambda: GATHER_S), 1, RESTING_CLIENTS_MIN, True),
        (Pace(lambda: GATHER_S), 1, RESTING_CLIENTS_MIN - 1, False),
        (Pace(lambda: GATHER_S), RESTING_ROWS_MAX, RESTING_CLIENTS_MIN, False),
        (busy_pace(), RESTING_ROWS_MAX - 1, 0, True),
        (busy_pace(), RESTING_ROWS_MAX, 0, False),
    ],
)
def test_while_a_batch_is_committed_publishers_rest_if_little_comes_of_many(
    pace: Pace, rows: int, publishers: int, rests: bool
) -> None:
    until_s = pace.rest_until_s(20.0, outstanding=True, rows=rows, publishers=publishers)
    assert until_s == (20.0 + REST_S if rests else None)
