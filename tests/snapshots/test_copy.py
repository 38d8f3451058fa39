"""Copies of snapshots: cut anywhere they go on, damage is not passed on, and what is there is not copied again."""

from __future__ import annotations

import errno
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.snapshots.manifest import find_snapshots, read_manifest, verify
from storage.snapshots.snapshot_copy import copy_snapshot, prune_target
from storage.snapshots.snapshot_folder import alone
from tests.faults.test_commit_held_back import fill, small_disk
from tests.snapshots.made import Box
from wire.errors import DiskFull, StorageDamaged, Unavailable

__all__ = ["small_disk"]  # a fixture


MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # syncs take their time elsewhere


class Cut(BaseException):
    """The process is gone."""


class Knife:
    """Ends the copy right before its n-th change below a folder: an opened file, a link, a rename, a removal."""

    CHANGES = ("open", "os.rename", "os.link", "os.mkdir", "os.remove", "os.rmdir")

    def __init__(self) -> None:
        self._folder = ""
        self._left = 0
        sys.addaudithook(self._hook)  # for as long as this process lives

    @contextmanager
    def cuts(self, folder: Path, after: int) -> Iterator[None]:
        """It ends so within."""
        self._folder, self._left = str(folder), after
        try:
            yield
        finally:
            self._folder = ""

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self._folder or event not in self.CHANGES or not any(str(each).startswith(self._folder) for each in arguments[:2]):
            return
        if self._left == 0:
            raise Cut
        self._left -= 1


KNIFE = Knife()


def whole(target: Path) -> list[str]:
    """The snapshots in ``target`` that are taken for whole; each of them is."""
    found = [each for each in find_snapshots(target) if not each.half_made] if target.exists() and any(target.iterdir()) else []
    for each in found:
        assert each.manifest is not None
        assert verify(each.path) == []
    return [each.path.name for each in found]


@settings(max_examples=40, deadline=None)
@given(cuts=st.lists(st.tuples(st.integers(0, 60), st.integers(0, 4000)), min_size=1, max_size=6), newer=st.booleans())
def test_a_copy_that_is_cut_anywhere_goes_on(cuts: list[tuple[int, int]], newer: bool) -> None:
    """snapshots.copy-is-whole: each time some of what was written last is lost; sometimes a newer snapshot is made meanwhile, and
    the old one goes.
    """
    with tempfile.TemporaryDirectory(dir=MEMORY) as name:
        box, target = Box(Path(name) / "box"), Path(name) / "target"
        for _ in range(6):
            box.table()
        copy_snapshot(box.make(), target)
        for _ in range(3):
            box.table()
        source = box.make()
        made = set(box.snapshots.names())
        for after, kept_bytes in cuts:
            try:
                with KNIFE.cuts(target, after):
                    copy_snapshot(source, target)
            except Cut:
                newest = max(target.glob("*.part/store/*"), key=lambda path: path.stat().st_mtime_ns, default=None)
                if newest is not None and newest.stat().st_nlink == 1:
                    os.truncate(newest, min(kept_bytes, newest.stat().st_size))
            assert set(whole(target)) <= made
            if newer:
                box.table()
                source = box.make()
                made.add(source.name)
                box.snapshots.prune(keep=1, max_bytes=None, enough_free=lambda: True)
                newer = False
        copied = copy_snapshot(source, target)
        assert source.name in whole(target)
        assert copied.already_there or copied.copied_bytes + copied.kept_bytes == read_manifest(source).size_bytes
        assert not list(target.glob("*.part"))


def test_what_was_copied_before_the_cut_is_not_copied_again(tmp_path: Path) -> None:
    box, target = Box(tmp_path / "box"), tmp_path / "target"
    for _ in range(8):
        box.table()
    source = box.make()

    def stop(done: int, _total: int) -> None:
        if done >= 12_000:
            raise Cut

    with pytest.raises(Cut):
        copy_snapshot(source, target, on_progress=stop)
    assert whole(target) == []
    assert copy_snapshot(source, target).kept_bytes >= 12_000
    assert whole(target) == [source.name]
    assert copy_snapshot(source, target).already_there


def test_a_later_snapshot_shares_its_files_with_the_one_before(tmp_path: Path) -> None:
    box, target = Box(tmp_path / "box"), tmp_path / "target"
    for _ in range(8):
        box.table()
    copy_snapshot(box.make(), target)
    new = box.table()
    source = box.make()
    copied = copy_snapshot(source, target)
    assert copied.kept_bytes == 8 * 3000 + len("MANIFEST-1\n"), "CURRENT is the same, too"
    assert (copied.path / "store" / new.name).stat().st_nlink == 1
    assert len(whole(target)) == 2


def test_files_of_a_half_made_copy_whose_snapshot_is_gone_are_used(tmp_path: Path) -> None:
    box, target = Box(tmp_path / "box"), tmp_path / "target"
    for _ in range(8):
        box.table()
    source = box.make()
    with pytest.raises(Cut), KNIFE.cuts(target, 12):
        copy_snapshot(source, target)
    box.snapshots.remove(source.name)
    later = box.make()
    assert copy_snapshot(later, target).kept_bytes > 0
    assert [path.name for path in target.iterdir()] == [later.name]


@pytest.mark.parametrize("code", [errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.EXDEV])
def test_where_links_cannot_be_made_files_are_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    box, target = Box(tmp_path / "box"), tmp_path / "target"
    for _ in range(3):
        box.table()
    copy_snapshot(box.make(), target)
    source = box.make()

    def link(*_arguments: object, **_keys: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "link", link)
    assert copy_snapshot(source, target).copied_bytes == read_manifest(source).size_bytes
    assert len(whole(target)) == 2


def test_damage_is_not_passed_on(tmp_path: Path) -> None:
    """snapshots.copy-is-whole"""
    box, target = Box(tmp_path / "box"), tmp_path / "target"
    table = box.table()
    source = box.make()
    content = bytearray(table.read_bytes())
    content[7] ^= 1
    table.write_bytes(content)
    with pytest.raises(StorageDamaged, match=table.name):
        copy_snapshot(source, target)
    assert whole(target) == []


def test_a_second_copy_of_the_same_snapshot_is_refused(tmp_path: Path) -> None:
    """snapshots.copy-is-whole"""
    box, target = Box(tmp_path / "box"), tmp_path / "target"
    box.table()
    source = box.make()
    part = target / f"{source.name}.part"
    part.mkdir(parents=True)
    with alone(part), pytest.raises(Unavailable, match="another copy"):
        copy_snapshot(source, target)
    copy_snapshot(source, target)
    assert whole(target) == [source.name]


@pytest.mark.process
def test_a_target_that_is_full_is_named_and_the_copy_goes_on_when_there_is_room(tmp_path: Path, small_disk: Path) -> None:
    box, target = Box(tmp_path / "box"), small_disk / "snapshots"
    for _ in range(4):
        box.table(200_000)
    source = box.make()
    filler = fill(small_disk, leave_bytes=500_000)
    with pytest.raises(DiskFull, match=f"{target} cannot be written: no space left on device; make room"):
        copy_snapshot(source, target)
    assert whole(target) == []
    filler.unlink()
    assert copy_snapshot(source, target).kept_bytes >= 200_000
    assert whole(target) == [source.name]


def test_a_target_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    box = Box(tmp_path / "box")
    box.table()
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(Unavailable, match=r"file/below cannot be written: .*file: .*; a file has the name of a folder"):
        copy_snapshot(box.make(), tmp_path / "file" / "below")


def test_old_copies_of_the_node_go_and_those_of_others_stay(tmp_path: Path) -> None:
    target = tmp_path / "target"
    edge, mill = Box(tmp_path / "edge", "edge"), Box(tmp_path / "mill", "mill")
    for box in (edge, mill):
        box.table()
        for _ in range(4):
            copy_snapshot(box.make(), target)
    assert prune_target(target, "edge", 2, edge.at_ms) == edge.snapshots.names()[:2]
    assert whole(target) == edge.snapshots.names()[2:] + mill.snapshots.names()
    edge.at_ms -= 86_400_000  # the clock is set back
    newest = copy_snapshot(edge.make(), target).path.name
    assert prune_target(target, "edge", 2, edge.at_ms) == edge.snapshots.names()[2:3]
    assert whole(target) == sorted([edge.snapshots.names()[3], newest]) + mill.snapshots.names()
