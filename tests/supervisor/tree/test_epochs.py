"""tree.epochs-only-rise: epochs only ever go up, over restarts, crashes, power cuts and the loss of their file."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from supervisor.tree.epochs import BLOCK, FILE_NAME, Epochs
from wire.errors import StorageDamaged

NOW_S = 1_800_000_000.0


def take(epochs: Epochs, count: int) -> list[int]:
    return [epochs.next() for _ in range(count)]


@pytest.mark.parametrize("counts", [*itertools.product((0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK), repeat=2)])
def test_epochs_go_up_over_crashes_whatever_the_clock_says(tmp_path: Path, counts: tuple[int, int]) -> None:
    """tree.epochs-only-rise"""
    given: list[int] = []
    for count, wall_s in zip((*counts, 5), (NOW_S, 0.0, NOW_S - 1e6), strict=True):
        given += take(Epochs(tmp_path, wall_s), count)  # nothing is closed: each run ends like a crash
    assert given == sorted(set(given))


def test_a_lost_file_is_made_up_for_by_the_clock(tmp_path: Path) -> None:
    """tree.epochs-only-rise"""
    last = take(Epochs(tmp_path, NOW_S), 3 * BLOCK)[-1]
    (tmp_path / FILE_NAME).unlink()
    assert Epochs(tmp_path, NOW_S + 3600).next() > last


def test_a_fresh_folder_needs_no_clock(tmp_path: Path) -> None:
    (tmp_path / "lock").touch()
    (tmp_path / "run").mkdir()
    assert Epochs(tmp_path, 5.0).next() >= 1


def test_a_lost_file_is_refused_without_a_clock(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    with pytest.raises(StorageDamaged, match="set the clock"):
        Epochs(tmp_path, 5.0)


@pytest.mark.parametrize("position", range(12))
def test_a_damaged_file_is_refused_by_name_and_kept(tmp_path: Path, position: int) -> None:
    Epochs(tmp_path, NOW_S)
    path = tmp_path / FILE_NAME
    damaged = bytearray(path.read_bytes())
    damaged[position] ^= 0x01
    path.write_bytes(damaged)
    with pytest.raises(StorageDamaged) as refused:
        Epochs(tmp_path, NOW_S)
    assert str(path) in str(refused.value)
    assert path.read_bytes() == damaged


@pytest.mark.parametrize("content", [b"", b"\n", b"12", b"1800000000", b"1800000000 "])
def test_a_cut_off_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE_NAME).write_bytes(content)
    with pytest.raises(StorageDamaged):
        Epochs(tmp_path, NOW_S)


def test_a_block_is_on_disk_before_its_first_epoch_is_given(tmp_path: Path) -> None:
    epochs = Epochs(tmp_path, NOW_S)
    for _ in range(2 * BLOCK + 1):
        epoch = epochs.next()
        assert int((tmp_path / FILE_NAME).read_text().split()[0]) > epoch
