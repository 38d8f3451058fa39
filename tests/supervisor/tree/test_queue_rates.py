"""Rates of queues: over a window, from any moments, without a word where nothing is known."""

from __future__ import annotations

import pytest

from supervisor.tree.status_figures import WINDOW_S, FigureRates, Rates
from wire.figure import of_map
from wire.status.bridges import QueueFigures


def counted(accepted: int, delivered: int) -> dict[str, QueueFigures]:
    return {"q": of_map(QueueFigures, {"accepted": accepted, "delivered": delivered})}


def test_nothing_is_known_before_a_second_has_passed() -> None:
    meter = FigureRates()

    assert meter.rates("q") == Rates(None, None)
    meter.note(10.0, counted(0, 0))
    meter.note(10.5, counted(50, 20))
    assert meter.rates("q") == Rates(None, None)
    meter.note(12.0, counted(100, 50))
    assert meter.rates("q") == Rates(50.0, 25.0, 25.0)


def test_a_rate_is_over_the_window_and_forgets_what_was_before() -> None:
    meter = FigureRates()
    for second in range(0, 61, 5):
        meter.note(second, counted(10 * min(second, 30), 0))

    assert meter.rates("q") == Rates(0.0, 0.0)
    meter.note(61.0, counted(300 + 110, 11))
    assert meter.rates("q") == Rates(10.0, 1.0, 1.0)
    assert WINDOW_S == 10.0


def test_the_best_rate_is_remembered_while_nothing_leaves() -> None:
    meter = FigureRates()
    for second in range(61):
        meter.note(second, counted(100 * second, 40 * min(second, 20)))

    rates = meter.rates("q")
    assert rates == Rates(100.0, 0.0, 40.0)
    assert (rates.drain_s(900), rates.drain_at_best_s(900)) == (None, None)
    assert Rates(10.0, 0.0, 40.0).drain_at_best_s(900) == 30.0


def test_moments_that_are_close_together_do_not_push_the_first_out() -> None:
    meter = FigureRates()
    meter.note(0.0, counted(0, 0))
    for count in range(1, 1000):
        meter.note(2.0 + count / 1000, counted(count, count))

    assert meter.rates("q") == Rates(333.1, 333.1, 333.1)


def test_a_queue_that_counts_anew_or_is_gone_begins_again() -> None:
    meter = FigureRates()
    meter.note(0.0, counted(100, 100))
    meter.note(5.0, counted(3, 3))
    assert meter.rates("q") == Rates(None, None)
    meter.note(7.0, {})
    meter.note(9.0, counted(5, 5))
    assert meter.rates("q") == Rates(None, None)


@pytest.mark.parametrize(
    ("rates", "depth", "drain_s"),
    [
        (Rates(), 5, None),
        (Rates(), None, None),
        (Rates(), 0, 0.0),
        (Rates(1.0, 1.0), 5, None),
        (Rates(3.0, 1.0), 5, None),
        (Rates(1.0, 3.0), 5, 2.5),
        (Rates(1.0, 3.0), None, None),
    ],
)
def test_a_queue_drains_when_more_leaves_than_comes(rates: Rates, depth: int | None, drain_s: float | None) -> None:
    assert rates.drain_s(depth) == drain_s
