"""Backoff: bounds, jitter, and when the series starts anew (wire.flapping-keeps-backing-off)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wire.backoff import Backoff
from wire.config_settings import BackoffSettings

DEFAULT = BackoffSettings(initial_s=1.0, max_s=120.0, factor=2.0, jitter=0.25, stable_s=10.0)


def least() -> float:
    return 0.0


def test_delays_double_up_to_the_longest() -> None:
    backoff = Backoff(DEFAULT, least)
    assert [backoff.next_delay_s() for _ in range(9)] == [1, 2, 4, 8, 16, 32, 64, 120, 120]
    assert backoff.attempt == 9


def test_jitter_adds_up_to_a_quarter() -> None:
    first = [Backoff(DEFAULT, lambda value=value: value).next_delay_s() for value in (0.0, 0.5, 0.999_999)]  # type: ignore[misc]
    assert first[:2] == [1.0, 1.125]
    assert 1.2499 < first[2] <= 1.25


def test_jitter_adds_to_the_longest_delay_too() -> None:
    longest = BackoffSettings(initial_s=120.0, max_s=120.0, factor=2.0, jitter=0.25, stable_s=10.0)
    assert Backoff(longest, least).next_delay_s() == 120.0
    assert 149.99 < Backoff(longest, lambda: 0.999_999).next_delay_s() <= 150.0


@given(
    values=st.lists(st.floats(0.0, 1.0, exclude_max=True), min_size=1, max_size=400),
    factor=st.floats(1.0, 100.0),
    jitter=st.floats(0.0, 1.0),
    initial_s=st.floats(0.001, 10.0),
    max_s=st.floats(10.0, 1000.0),
)
def test_a_delay_is_within_the_jitter_of_its_nominal(
    values: list[float], factor: float, jitter: float, initial_s: float, max_s: float
) -> None:
    """wire.flapping-keeps-backing-off"""
    given_values = iter(values)
    settings = BackoffSettings(initial_s=initial_s, max_s=max_s, factor=factor, jitter=jitter, stable_s=1.0)
    backoff = Backoff(settings, lambda: next(given_values))
    nominal_s = initial_s
    for _ in values:
        delay_s = backoff.next_delay_s()
        assert nominal_s <= delay_s <= nominal_s * (1 + jitter) + 1e-9
        assert delay_s <= max_s * (1 + jitter) + 1e-9
        nominal_s = min(nominal_s * factor, max_s)


def test_a_stable_connection_starts_the_series_anew() -> None:
    """wire.flapping-keeps-backing-off"""
    backoff = Backoff(DEFAULT, least)
    assert [backoff.next_delay_s() for _ in range(3)] == [1, 2, 4]
    backoff.on_connected(100.0)
    assert backoff.on_lost(110.0)
    assert backoff.attempt == 0
    assert backoff.next_delay_s() == 1


def test_a_short_connection_lets_the_series_go_on() -> None:
    """wire.flapping-keeps-backing-off"""
    backoff = Backoff(DEFAULT, least)
    assert [backoff.next_delay_s() for _ in range(3)] == [1, 2, 4]
    backoff.on_connected(100.0)
    assert not backoff.on_lost(109.9)
    assert backoff.next_delay_s() == 8


def test_one_connection_resets_once() -> None:
    """wire.flapping-keeps-backing-off"""
    backoff = Backoff(DEFAULT, least)
    backoff.on_connected(0.0)
    assert backoff.on_lost(50.0)
    assert [backoff.next_delay_s(), backoff.next_delay_s()] == [1, 2]
    assert not backoff.on_lost(500.0), "a failed attempt after it was never connected"
    assert backoff.next_delay_s() == 4


def test_an_initial_delay_above_the_longest_is_cut() -> None:
    settings = BackoffSettings(initial_s=5.0, max_s=2.0, factor=2.0, jitter=0.0, stable_s=1.0)
    assert Backoff(settings, least).next_delay_s() == 2.0
