"""Lessons about a remote's addresses, and for how long they hold."""

from __future__ import annotations

from wire.exchange.learnt_limits import HOLDS_S, LearntLimits
from wire.exchange.quarantine_class import MessageClass
from wire.exchange.remote_limits import NO_LIMITS, REFUSED_MAX, RemoteLimits

LESSON = RemoteLimits(maximum_qos=1, refused=(MessageClass(("a",), packet_bytes=1000),))


def test_it_holds_for_a_day_at_its_address_or_until_an_operator_has_it_forgotten() -> None:
    limits = LearntLimits()
    limits.on_learnt("broker:1883", LESSON, 5.0)

    assert limits.of("broker:1883", 4.0 + HOLDS_S) == LESSON
    assert limits.of("another:1883", 5.0) == NO_LIMITS
    assert limits.of("broker:1883", 5.0 + HOLDS_S) == NO_LIMITS
    limits.forget()
    assert limits.of("broker:1883", 5.0) == NO_LIMITS


def test_of_classes_that_are_refused_the_newest_are_remembered() -> None:
    limits = NO_LIMITS
    for number in range(2 * REFUSED_MAX):
        limits = limits.joined(RemoteLimits(refused=(MessageClass((str(number),)),)))

    assert limits.refused == tuple(MessageClass((str(number),)) for number in range(REFUSED_MAX, 2 * REFUSED_MAX))
    assert limits.joined(limits) == limits
