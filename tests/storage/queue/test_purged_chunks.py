"""Purged places of a queue: its chunks are rightly missing there, and its bytes count no more."""

from __future__ import annotations

from storage.queue.hand_out_cursor import Purged


def test_what_was_purged_is_known_until_the_head_has_passed_it() -> None:
    purged = Purged(((5, 8),))
    purged.add(10, 20, 300, 0)

    assert [purged.has_any(*span) for span in ((0, 5), (0, 6), (7, 9), (8, 10), (19, 30), (20, 30))] == [
        *(False, True, True, False, True, False)
    ]
    assert purged.row(6) == ((6, 8), (10, 20))
    assert purged.row(20) == ()


def test_bytes_count_above_the_cursor_and_not_for_what_a_former_life_purged() -> None:
    purged = Purged(((5, 8),))
    purged.add(10, 20, 300, 0)
    purged.add(30, 40, 50, 0)

    assert [purged.bytes_above(cursor) for cursor in (0, 19, 20, 40)] == [350, 350, 50, 0]
    purged.add(50, 60, 7, 45)
    assert purged.bytes_above(0) == 7, "what is below the head is forgotten"
    purged.clear()
    assert (purged.bytes_above(0), purged.row(0)) == (0, ())
