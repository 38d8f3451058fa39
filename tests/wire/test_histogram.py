"""Counts between bounds, as ``status`` gives them."""

from __future__ import annotations

from wire.status.histogram import Histogram, HistogramFigures


def test_each_value_counts_once_and_one_that_equals_a_bound_below_it() -> None:
    histogram = Histogram((1, 2, 5))

    for value in (0.5, 1, 1.5, 5, 6):
        histogram.add(value)

    assert histogram.figures() == HistogramFigures(bounds=(1, 2, 5), counts=(2, 1, 1, 1), sum=14.0)


def test_many_of_one_value_are_counted_at_once() -> None:
    histogram = Histogram((0.1, 1))

    histogram.add(0.25, 4)

    assert histogram.figures() == HistogramFigures(bounds=(0.1, 1), counts=(0, 4, 0), sum=1.0)


def test_what_was_told_does_not_change_with_what_comes() -> None:
    histogram = Histogram((1,))
    told = histogram.figures()

    histogram.add(1)

    assert told.counts == (0, 0)


def test_they_add_up_and_the_last_bound_is_infinity() -> None:
    figures = HistogramFigures(bounds=(0.1, 1), counts=(2, 1, 3), sum=9.5)

    assert figures.cumulative() == [(0.1, 2), (1, 3), (float("inf"), 6)]
