"""Logins that wait: addresses take turns, and the one that floods gives way."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from actors.access.login_queue import LoginQueue


def test_addresses_take_turns() -> None:
    """access.logins-take-turns"""
    queue: LoginQueue[str] = LoginQueue(10)
    for item in ("a1", "a2", "a3", "b1", "c1", "b2"):
        assert queue.add(item[0], item) is None
    assert [queue.take() for _ in range(7)] == ["a1", "b1", "c1", "a2", "b2", "a3", None]


def test_the_newest_of_the_address_with_the_most_gives_way() -> None:
    """access.logins-take-turns"""
    queue: LoginQueue[str] = LoginQueue(3)
    for item in ("a1", "a2", "a3"):
        queue.add("a", item)
    assert queue.add("b", "b1") == "a3"
    assert queue.add("a", "a4") == "a4", "who floods gives way itself"
    assert queue.add("b", "b2") == "b2", "of two with the same the one that comes"
    assert len(queue) == 3


@given(st.lists(st.sampled_from("abc-"), max_size=60))
def test_nothing_is_lost_and_nothing_comes_twice(steps: list[str]) -> None:
    queue: LoginQueue[int] = LoginQueue(5)
    added, gone = 0, []
    for step in steps:
        if step == "-":
            taken = queue.take()
            gone += [] if taken is None else [taken]
        else:
            gave_way = queue.add(step, added)
            added += 1
            gone += [] if gave_way is None else [gave_way]
        assert len(queue) == added - len(gone) <= 5
    while (taken := queue.take()) is not None:
        gone.append(taken)
    assert sorted(gone) == list(range(added))
