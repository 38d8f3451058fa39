"""Copies that come by several ways are taken once; what is alike and genuine, as often as one way brings it."""

from __future__ import annotations

from wire.routing.ring_filter import RingFilter

ON, OFF = 1, 2
WINDOW_S = 10.0


def test_each_way_brings_as_many_as_there_are() -> None:
    """routing.ring-copies-left-out: two genuine ones are told from two copies by the way that they come."""
    ring = RingFilter(WINDOW_S, 100)
    assert ring.copies([ON, ON, OFF], ["a", "b", "b"], 0.0) == {1}
    assert ring.copies([ON, ON], ["b", "a"], 1.0) == {1}, "the second one of both"
    assert ring.copies([ON], ["c"], 2.0) == {0}


def test_what_a_client_publishes_is_taken_and_comes_back_as_a_copy() -> None:
    ring = RingFilter(WINDOW_S, 100)
    assert ring.copies([ON, ON], [None, None], 0.0) == set()
    assert ring.copies([ON, ON, ON], ["a", "b", "a"], 1.0) == {0, 1, 2}
    assert ring.copies([ON], ["a"], 2.0) == set(), "and the third was somebody else's"


def test_after_the_window_an_equal_message_is_another_one() -> None:
    ring = RingFilter(WINDOW_S, 100)
    assert ring.copies([ON], ["a"], 0.0) == set()
    assert ring.copies([ON], ["b"], WINDOW_S - 0.1) == {0}
    assert ring.copies([ON], ["b"], WINDOW_S + 0.1) == set()
    assert ring.copies([ON], ["b"], 3 * WINDOW_S) == set()


def test_of_more_than_are_remembered_the_oldest_are_forgotten() -> None:
    ring = RingFilter(WINDOW_S, 2)
    assert ring.copies([ON, *range(10, 13)], ["a"] * 4, 0.0) == set()
    assert ring.copies([12, ON], ["b"] * 2, 1.0) == {0}
