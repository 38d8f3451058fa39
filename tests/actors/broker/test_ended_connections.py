"""Connections that have ended are known by their sessions' names, within bounds."""

from __future__ import annotations

from array import array

from actors.broker.ended_connections import CONNECTIONS_MAX, NAMES_BYTES_MAX, EndedConnections


def test_the_number_of_a_connection_that_has_ended_is_taken_for_its_session() -> None:
    ended = EndedConnections()
    living = array("I", [1, 2])
    assert ended.named(living) is living
    ended.add(3, "c")
    ended.add(3, "c")
    assert ended.named(living) is living
    assert ended.named(array("I", [1, 3, 3])) == [1, "c", "c"]
    assert ended.named(["will", 3]) == ["will", "c"]


def test_the_last_ones_are_kept_within_bounds_in_count_and_bytes() -> None:
    ended = EndedConnections()
    last = range(3, CONNECTIONS_MAX + 3)
    for number in range(1, last.stop):
        ended.add(number, "c")
    assert ended.named(range(1, last.stop)) == [1, 2, *["c"] * len(last)]
    name = "x" * (NAMES_BYTES_MAX // 10)
    for number in range(10_000, 10_020):
        ended.add(number, name)
    assert ended.named([last[-1], *range(10_000, 10_020)]) == [last[-1], *range(10_000, 10_010), *[name] * 10]
    ended.add(1, "c")
    assert ended.named([10_010, 1]) == [name, "c"]
