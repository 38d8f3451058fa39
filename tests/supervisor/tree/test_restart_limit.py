"""Restart decisions: delays, escalation and what is never restarted (tree.too-many-restarts-escalate)."""

from __future__ import annotations

import pytest

from supervisor.tree.restart_limit import ChildRestarts, Decision, Escalate, FailedLanes, GiveUp, Restart, RestartWindow, Verdict
from tests.support.settings import BACKOFF
from wire.backoff import Backoff
from wire.status.states import ChildState


def restarts(restarts_max: int = 100) -> ChildRestarts:
    return ChildRestarts(RestartWindow(restarts_max, 60.0), Backoff(BACKOFF, lambda: 0.0))


def crash(child: ChildRestarts, now_s: float, exit_status: int = -9) -> Decision:
    """A life that lasts a hundredth of a second."""
    child.on_started(now_s - 0.01)
    return child.on_ended(exit_status, now_s)


def test_a_window_allows_its_restarts_and_no_more() -> None:
    window = RestartWindow(3, 10.0)
    assert [window.judge(now_s) for now_s in (0.0, 1.0, 2.0)] == [Verdict.RESTART] * 3
    assert window.judge(3.0) is Verdict.ESCALATE


def test_a_window_forgets_what_is_older_than_its_period() -> None:
    window = RestartWindow(3, 10.0)
    assert [window.judge(now_s) for now_s in (0.0, 1.0, 2.0, 10.5, 11.5, 12.5)] == [Verdict.RESTART] * 6


def test_no_restart_is_allowed_with_a_window_of_none() -> None:
    assert RestartWindow(0, 10.0).judge(0.0) is Verdict.ESCALATE


def test_the_first_restart_is_immediate_and_the_next_wait_longer() -> None:
    """tree.too-many-restarts-escalate"""
    child = restarts()
    assert [crash(child, float(now_s)) for now_s in range(5)] == [
        Restart(0.0),
        Restart(0.05),
        Restart(0.1),
        Restart(0.2),
        Restart(0.2),
    ]


def test_a_stable_life_starts_the_delays_anew() -> None:
    """tree.too-many-restarts-escalate"""
    child = restarts()
    assert [crash(child, 1.0), crash(child, 2.0)] == [Restart(0.0), Restart(0.05)]
    child.on_started(3.0)
    assert child.on_ended(70, 3.0 + BACKOFF.stable_s) == Restart(0.0)
    assert crash(child, 20.0) == Restart(0.05)


def test_too_many_crashes_escalate() -> None:
    """tree.too-many-restarts-escalate"""
    child = restarts(restarts_max=2)
    assert [type(crash(child, now_s)) for now_s in (1.0, 2.0, 3.0)] == [Restart, Restart, Escalate]


def test_what_is_the_worlds_fault_never_escalates() -> None:
    """tree.too-many-restarts-escalate"""
    child = restarts(restarts_max=0)
    assert [crash(child, float(now_s), 75) for now_s in range(4)] == [Restart(0.05), Restart(0.1), Restart(0.2), Restart(0.2)]
    assert crash(child, 5.0, 70) == Escalate()


@pytest.mark.parametrize(("exit_status", "state"), [(65, ChildState.DAMAGED), (78, ChildState.MISCONFIGURED)])
def test_damage_and_wrong_configuration_are_not_restarted(exit_status: int, state: ChildState) -> None:
    """tree.too-many-restarts-escalate"""
    assert crash(restarts(), 1.0, exit_status) == GiveUp(state)


def test_an_end_in_good_order_that_nobody_ordered_is_a_crash() -> None:
    assert crash(restarts(restarts_max=0), 1.0, 0) == Escalate()


def test_a_lane_that_fails_twice_within_a_minute_has_failed_once_too_often() -> None:
    lanes = FailedLanes()
    assert [lanes.failed("bridge:a:0", at_s) for at_s in (0.0, 61.0, 122.0, 181.0)] == [False, False, False, True]
    assert not lanes.failed("bridge:b:0", 181.0)
