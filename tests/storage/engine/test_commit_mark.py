"""The mark of how far commits went: of its two slots the newest whole one counts; what is owed is owed until it is on record."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from storage.engine.commit_mark import MARK_NAME, MARK_SLOT_BYTES, TAILS_MAX, CommitMark, Evidence


def read(folder: Path) -> tuple[Evidence | None, bool, bool]:
    """The contents of a mark, whether anything is owed, and whether a slot is damaged."""
    with closing(CommitMark(folder)) as mark:
        return mark.evidence, mark.owed, mark.damaged


def test_a_new_mark_says_nothing(tmp_path: Path) -> None:
    assert read(tmp_path) == (None, False, False)
    assert read(tmp_path) == (None, False, False)


def test_the_newest_write_counts_with_the_tails_of_all_before(tmp_path: Path) -> None:
    with closing(CommitMark(tmp_path)) as mark:
        mark.write(10, {1: 4}, synced=True)
        mark.write(20, {3: 9}, synced=False)
        mark.write(30, {1: 5}, synced=True)

    assert read(tmp_path) == (Evidence(30, True, {1: 5, 3: 9}), False, False)


@pytest.mark.parametrize("torn_bytes", [0, 1, 30])
def test_a_torn_write_leaves_the_one_before(tmp_path: Path, torn_bytes: int) -> None:
    with closing(CommitMark(tmp_path)) as mark:
        mark.write(10, {1: 4}, synced=True)
        mark.write(20, {1: 5}, synced=True)  # into the other slot, the first
    path = tmp_path / MARK_NAME
    content = bytearray(path.read_bytes())
    content[torn_bytes] ^= 1
    path.write_bytes(content)

    assert read(tmp_path) == (Evidence(10, True, {1: 4}), False, True)


def test_what_is_owed_is_owed_until_the_next_write(tmp_path: Path) -> None:
    with closing(CommitMark(tmp_path)) as mark:
        mark.write(10, {1: 4}, synced=True)
    with closing(CommitMark(tmp_path)) as mark:
        mark.owe()
    assert read(tmp_path) == (Evidence(10, True, {1: 4}), True, False)

    with closing(CommitMark(tmp_path)) as mark:
        mark.write(11, {}, synced=True)
    assert read(tmp_path) == (Evidence(11, True, {1: 4}), False, False)


@pytest.mark.parametrize("owed", [False, True])
def test_a_copy_has_the_tails_its_own_number_and_what_is_owed(tmp_path: Path, owed: bool) -> None:
    copied = tmp_path / "copy"
    copied.mkdir()
    with closing(CommitMark(tmp_path)) as mark:
        mark.write(10, {2: 7}, synced=False)
    with closing(CommitMark(tmp_path)) as mark:
        if owed:
            mark.owe()
        mark.copy_to(copied, 3)

    assert read(copied) == (Evidence(3, True, {2: 7}), owed, False)


def test_more_queues_than_fit_are_left_out_and_the_file_keeps_its_size(tmp_path: Path) -> None:
    with closing(CommitMark(tmp_path)) as mark:
        mark.write(10, {TAILS_MAX - 1: 1, TAILS_MAX: 2, TAILS_MAX + 1000: 3}, synced=True)

    assert read(tmp_path) == (Evidence(10, True, {TAILS_MAX - 1: 1}), False, False)
    assert (tmp_path / MARK_NAME).stat().st_size == 2 * MARK_SLOT_BYTES
