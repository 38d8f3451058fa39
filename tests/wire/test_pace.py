"""A batch leaves at once, or a moment after the last one where something came while that was being committed."""

from __future__ import annotations

from wire.pace import Pace

GATHER_S = 0.25


def test_the_first_batch_is_due_at_once() -> None:
    assert Pace(GATHER_S).due_s == float("-inf")


def test_where_nothing_came_meanwhile_the_next_is_due_at_once() -> None:
    pace = Pace(GATHER_S)
    for now_s in (10.0, 10.01, 10.02):
        pace.sent(now_s)
        assert pace.due_s == float("-inf")
        pace.committed(waiting=False)
        assert not pace.busy
        assert pace.due_s == float("-inf")


def test_what_came_meanwhile_is_due_a_moment_after_the_last_batch_left() -> None:
    pace = Pace(GATHER_S)
    pace.sent(10.0)
    pace.sent(11.0)
    pace.committed(waiting=True)
    assert pace.busy
    assert pace.due_s == 11.0 + GATHER_S


def test_it_is_so_until_nothing_comes_during_a_commit() -> None:
    pace = Pace(GATHER_S)
    pace.sent(10.0)
    pace.committed(waiting=True)
    pace.sent(11.0)
    assert pace.busy, "the batch that gathered is under way"
    assert pace.due_s == 11.0 + GATHER_S
    pace.committed(waiting=True)
    assert pace.due_s == 11.0 + GATHER_S
    pace.sent(12.0)
    pace.committed(waiting=False)
    assert not pace.busy
    assert pace.due_s == float("-inf")


def test_it_is_off_at_no_time_at_all() -> None:
    pace = Pace(0.0)
    pace.sent(10.0)
    pace.committed(waiting=True)
    assert not pace.busy
    assert pace.due_s == float("-inf")
