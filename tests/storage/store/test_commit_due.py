"""Due times of the open write: what is waited for in its turn or its flush period, settlements a moment later."""

from __future__ import annotations

import pytest

from storage.store.next_commit import LAZY_S, CommitTime
from tests.storage.building import append_frame, node, settle_frame
from wire.durability import Durabilities
from wire.frames.frame import Frame
from wire.frames.lanes import Credit

NEVER = float("inf")
SETTLES = settle_frame(1, 7, ("delivered", ((0, 1),)), ("dropped:refused_0x99", ((1, 2),)), ("redelivered", ((0, 2),)))
CREDIT = Credit(queue="bridge:cloud:0", epoch=7, messages=1, size_bytes=1)


def idle(flush_period_s: float = 0.0) -> CommitTime:
    """All is committed, at 10.0 s."""
    time = CommitTime(Durabilities(node(flush_period_s=flush_period_s)))
    time.on_committed(10.0, written=True)
    return time


@pytest.mark.parametrize(
    "frame",
    [
        append_frame(1, {}),
        settle_frame(1, 7, released=((0, 1),)),
        settle_frame(1, 7, session="edge@here"),
        settle_frame(1, 7, session=""),
        settle_frame(1, 7, ("delivered", ((0, 1),)), ("dead:remote_0x99", ((1, 2),))),
    ],
)
def test_what_somebody_waits_for_is_due_in_its_turn(frame: Frame) -> None:
    time = idle()
    time.take(SETTLES)
    time.take(frame)
    time.take(SETTLES)
    assert time.is_due(10.0)


def test_the_first_turn_of_a_life_commits() -> None:
    assert CommitTime(Durabilities(node())).is_due(0.0)


def test_settlements_and_credit_are_due_a_moment_after_they_were_put_off_first() -> None:
    time = idle()
    assert not time.is_due(1e9), "there is nothing"
    time.take(SETTLES)
    time.put_off(11.0)
    time.take(CREDIT)
    time.put_off(11.05)
    assert time.wakes_at_s(waited_for=False) == 11.0 + LAZY_S
    assert not time.is_due(11.0 + LAZY_S - 0.001)
    assert time.is_due(11.0 + LAZY_S)
    time.on_committed(11.0 + LAZY_S, written=True)
    assert not time.is_due(1e9)
    assert time.wakes_at_s(waited_for=False) == NEVER


def test_what_hurries_takes_them_along() -> None:
    time = idle()
    time.take(SETTLES)
    time.put_off(10.0)
    time.hurry()
    assert time.is_due(10.0)


def test_all_keep_to_the_flush_period() -> None:
    time = idle(5.0)
    time.take(SETTLES)
    time.put_off(11.0)
    assert time.wakes_at_s(waited_for=False) == 15.0
    assert not time.is_due(14.9)
    time.take(append_frame(1, {}))
    assert time.wakes_at_s(waited_for=True) == 15.0
    assert not time.is_due(14.9)
    assert time.is_due(15.0)
    time.on_committed(15.0, written=False)
    time.take(SETTLES)
    time.put_off(17.0)
    assert time.wakes_at_s(waited_for=False) == 17.0 + LAZY_S, "the last commit is long ago"
