"""What was learnt of a remote's addresses: for how long it holds, and what of it is on record."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.support.settings import bridge
from wire.clock_steps import CLOCK
from wire.exchange.learnt_limits import HOLDS_S, LearntLimits
from wire.exchange.message_class import MessageClass
from wire.exchange.remote_limits import NO_LIMITS, REFUSED_MAX, RemoteLimits

NOW_MS = 1_800_000_000_000
DAY_MS = HOLDS_S * 1000
PLACE = "broker:1883"
LESSON = RemoteLimits(maximum_qos=1, refused=(MessageClass(("a",), packet_bytes=1000),))


def learnt() -> LearntLimits:
    limits = LearntLimits(bridge("cloud"))
    limits.open(())
    limits.learnt(PLACE, LESSON, NOW_MS)
    return limits


@pytest.fixture
def _steady() -> Iterator[None]:
    """The steps of the clock are the test's own."""
    steps, CLOCK.steps = CLOCK.steps, []
    yield
    CLOCK.steps = steps


def test_it_holds_for_a_day_and_over_a_restart() -> None:
    rows = learnt().rows()
    later = LearntLimits(bridge("cloud"))
    later.open(rows)

    assert later.of(PLACE, NOW_MS + DAY_MS - 1) == LESSON
    assert not later.changed, "it is on record"
    assert later.of(PLACE, NOW_MS + DAY_MS) == NO_LIMITS
    assert later.changed
    assert later.rows() == ()


@pytest.mark.usefixtures("_steady")
@pytest.mark.parametrize(("step_ms", "longer_ms"), [(-3_600_000, 3_600_000), (2 * DAY_MS, 0)])
def test_a_step_of_the_clock_does_not_end_it_and_prolongs_it_by_no_more_than_the_step(step_ms: int, longer_ms: int) -> None:
    limits = learnt()
    CLOCK.stepped(NOW_MS + 60_000, NOW_MS + 60_000 + step_ms)

    assert limits.of(PLACE, NOW_MS + 61_000 + step_ms) == LESSON
    assert limits.of(PLACE, NOW_MS + DAY_MS + step_ms + longer_ms) == NO_LIMITS


def test_of_a_bridge_that_is_configured_otherwise_nothing_is_taken() -> None:
    other = LearntLimits(bridge("cloud", remote=replace(bridge("cloud").remote, client_id="another")))
    other.open(learnt().rows())

    assert other.of(PLACE, NOW_MS) == NO_LIMITS
    assert (other.changed, other.rows()) == (True, ()), "the record is put right"


def test_a_store_that_died_with_a_lesson_is_told_it_again() -> None:
    limits = learnt()
    rows = limits.rows()
    assert not limits.changed

    limits.open(())
    assert (limits.changed, limits.rows()) == (True, rows)
    limits.open(rows)
    assert not limits.changed


def test_what_an_operator_has_had_forgotten_does_not_come_back_with_a_store_that_died_meanwhile() -> None:
    limits = learnt()
    rows = limits.rows()
    limits.forget()
    assert limits.rows() == ()

    limits.open(rows)

    assert limits.of(PLACE, NOW_MS) == NO_LIMITS
    assert (limits.changed, limits.rows()) == (True, ())


def test_of_classes_that_are_refused_the_newest_are_remembered() -> None:
    limits = NO_LIMITS
    for number in range(2 * REFUSED_MAX):
        limits = limits.joined(RemoteLimits(refused=(MessageClass((str(number),)),)))

    assert limits.refused == tuple(MessageClass((str(number),)) for number in range(REFUSED_MAX, 2 * REFUSED_MAX))
    assert limits.joined(limits) == limits
