"""Notes of what was dealt: the newest first, and no more of them than is allowed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from actors.broker.shared_subscription_repeats import DealtBefore, key_of


@given(st.lists(st.tuples(st.integers(0, 2), st.none() | st.booleans()), max_size=40))
def test_what_was_noted_last_is_taken_first(steps: list[tuple[int, bool | None]]) -> None:
    """None: it is taken."""
    before = DealtBefore()
    piles: list[list[bool]] = [[], [], []]
    for key, had in steps:
        if had is None:
            assert before.take(key) == (piles[key].pop() if piles[key] else None)
        else:
            before.note(key, had=had)
            piles[key].append(had)
        assert bool(before) == any(piles)


def test_the_oldest_notes_are_forgotten_and_the_newest_never() -> None:
    before = DealtBefore(notes_max=4)
    for key in range(10):
        before.note(key, had=True)
    assert [key for key in range(10) if before.take(key) is not None] == [4, 5, 6, 7, 8, 9]
    for _ in range(10):
        before.note(1, had=True)
    assert 4 <= sum(before.take(1) is not None for _ in range(10)) <= 8


def test_a_message_is_known_by_its_group_publisher_topic_and_payload() -> None:
    keys = [
        (group, by, topic, payload)
        for group in (("g", "t"), ("h", "t"))
        for by in (1, "1")
        for topic in (b"a", b"b")
        for payload in (b"a", b"b")
    ]
    assert len({key_of(*key) for key in keys}) == len(keys)
    assert [key_of(*key) for key in keys] == [key_of(*key) for key in keys]
