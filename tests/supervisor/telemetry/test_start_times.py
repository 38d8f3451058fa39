"""Since when a counter counts."""

from __future__ import annotations

from supervisor.telemetry.start_times import StartTimes


def test_the_first_value_of_a_series_begins_at_its_own_time_and_later_ones_with_it() -> None:
    starts = StartTimes()
    starts.begin(10)
    assert starts.of("a", 5.0) == 10
    starts.begin(20)
    assert (starts.of("a", 5.0), starts.of("b", 0.0)) == (10, 20)
    starts.begin(30)
    assert (starts.of("a", 7.0), starts.of("b", 9.0)) == (10, 20)


def test_a_value_that_is_less_has_begun_anew_since_the_one_before() -> None:
    starts = StartTimes()
    for now_ns, value in ((10, 5.0), (20, 6.0), (30, 1.0), (40, 2.0)):
        starts.begin(now_ns)
        began = starts.of("a", value)
    assert began == 20


def test_a_series_that_was_gone_begins_anew() -> None:
    starts = StartTimes()
    starts.begin(10)
    starts.of("a", 5.0)
    starts.begin(20)
    starts.begin(30)
    assert starts.of("a", 5.0) == 30


def test_all_begin_anew_when_the_clock_was_set_back() -> None:
    starts = StartTimes()
    starts.begin(1000)
    starts.of("a", 5.0)
    starts.begin(500)
    assert starts.of("a", 4.0) == 500
