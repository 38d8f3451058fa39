"""Merges of tables: due by what is dead in them, by the room on the disk, by how many there are; and not in vain."""

from __future__ import annotations

from storage.engine.dead_bytes import LOOKS, TABLES, DeadBytes, are_small

MB = 1 << 20


def test_a_merge_is_due_by_what_is_dead_and_not_again_in_vain() -> None:
    of = DeadBytes()
    assert not of.begin_merge(103 * MB, 100 * MB, pressed=True), "too little"
    assert not of.begin_merge(156 * MB, 100 * MB, pressed=False), "a quarter may be dead, and some more"
    assert of.begin_merge(157 * MB, 100 * MB, pressed=False)
    assert not of.begin_merge(157 * MB, 100 * MB, pressed=False), "it gave nothing back"
    assert not of.begin_merge(157 * MB, 100 * MB, pressed=True), "and will not, however little room there is"
    assert of.begin_merge(157 * MB, 95 * MB, pressed=True), "more has died"
    assert of.begin_merge(120 * MB, 80 * MB, pressed=True), "it gave something back, so it goes on"
    assert not of.begin_merge(81 * MB, 80 * MB, pressed=True)
    assert of.begin_merge(84 * MB, 80 * MB, pressed=True), "what could not be given back once is forgotten when it is gone"


def test_what_died_while_a_merge_ran_is_not_taken_for_what_it_could_not_give_back() -> None:
    of = DeadBytes()
    assert of.begin_merge(200 * MB, 190 * MB, pressed=True)
    assert of.begin_merge(198 * MB, 20 * MB, pressed=True), "a session ended"
    assert not of.begin_merge(198 * MB, 20 * MB, pressed=True)
    of = DeadBytes()
    assert of.begin_merge(200 * MB, 150 * MB, pressed=True)
    assert not of.begin_merge(260 * MB, 210 * MB, pressed=True), "what came in meanwhile is no gain, and no loss"
    assert of.begin_merge(260 * MB, 200 * MB, pressed=True)


def test_what_a_merge_gave_back_in_vain_is_tried_again_after_a_while() -> None:
    of = DeadBytes()
    looks = [of.begin_merge(100 * MB, 0, pressed=True) for _ in range(2 * LOOKS)]

    assert [number for number, due in enumerate(looks) if due] == [0, LOOKS + 1]


def test_more_may_be_kept_than_the_tables_take() -> None:
    """They are compressed, and what is new is in memory and the log."""
    of = DeadBytes()

    assert not of.begin_merge(10 * MB, 100 * MB, pressed=True)
    assert not of.begin_merge(10 * MB, 7 * MB, pressed=True)
    assert of.begin_merge(10 * MB, 0, pressed=True)


def test_tables_are_too_many_beside_what_they_hold() -> None:
    assert not are_small(TABLES, 0)
    assert are_small(TABLES + 1, 0)
    assert not are_small(TABLES + 100, 100 * MB)
    assert are_small(TABLES + 101, 100 * MB)
