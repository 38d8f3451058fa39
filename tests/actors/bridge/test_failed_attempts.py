"""Which failed attempts become events: the first of a cause, and ever fewer."""

from __future__ import annotations

from actors.bridge.failed_attempts import CAUSE_MAX, FailedAttempts

DAY_S = 86_400


def test_the_first_is_told_at_once_and_each_row_stands_for_all_since_the_one_before() -> None:
    failed = FailedAttempts()

    counts = [failed.on_failed("tcp: refused", now_s) for now_s in (0.0, 1.0, 3.0, 59.0, 61.0, 62.0)]

    assert counts == [1, 0, 0, 0, 4, 0]
    assert failed.total == 6


def test_a_link_that_is_down_for_a_week_is_told_once_an_hour_and_no_attempt_goes_uncounted() -> None:
    failed = FailedAttempts()

    told = [count for now_s in range(0, 7 * DAY_S, 30) if (count := failed.on_failed("name: unknown", float(now_s)))]

    assert len(told) <= 7 * 24 + 8
    assert failed.total - 120 <= sum(told) <= failed.total


def test_another_cause_is_told_soon_and_two_that_take_turns_are_bounded() -> None:
    failed = FailedAttempts()
    assert failed.on_failed("tcp: refused", 0.0) == 1
    assert failed.on_failed("tls: certificate has expired", 12.0) == 1

    told = [failed.on_failed(("one", "other")[second % 2], float(second)) for second in range(13, 113)]

    assert sum(1 for count in told if count) <= 10


def test_success_begins_anew_and_says_how_many_had_failed() -> None:
    failed = FailedAttempts()
    for now_s in (0.0, 1.0, 2.0):
        failed.on_failed("tcp: refused", now_s)

    assert failed.on_connected() == 3
    assert failed.on_connected() == 0
    assert failed.on_failed("tcp: refused", 20.0) == 1, "after a connection it is news again"


def test_a_link_that_flaps_within_seconds_is_not_told_each_time() -> None:
    failed = FailedAttempts()
    told = 0
    for second in range(100):
        told += failed.on_failed("tcp: refused", float(second)) > 0
        failed.on_connected()

    assert told == 10


def test_causes_that_differ_behind_what_is_kept_are_the_same() -> None:
    failed = FailedAttempts()
    long = "x" * CAUSE_MAX

    assert failed.on_failed(f"{long} 1", 0.0) == 1
    assert failed.on_failed(f"{long} 2", 30.0) == 0
