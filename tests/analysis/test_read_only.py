"""A snapshot is never written to: it is read from a mount that refuses writes, by users who may only read, and as it was made."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from analysis.export import export
from analysis.tables.reader import Problem, plan, read, read_table
from analysis.tables.schemas import TABLES
from storage.snapshots.manifest import find_snapshots, verify
from tests.analysis.rows import rows_of, table
from tests.analysis.test_damage import copied
from wire.errors import StorageDamaged, Unavailable

NOBODY = 65534


def state(snapshot: Path) -> dict[str, tuple[int, ...]]:
    """Of each file and folder the times, the inode and the size, and of files the bytes."""
    found: dict[str, tuple[int, ...]] = {}
    for path in (snapshot, *snapshot.rglob("*")):
        status = path.stat()
        content = int.from_bytes(hashlib.sha256(path.read_bytes()).digest(), "big") if path.is_file() else 0
        found[str(path.relative_to(snapshot))] = status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_size, content
    return found


def test_reading_leaves_every_file_as_it_was(middle: Path, tmp_path: Path) -> None:
    before = state(middle)

    for name in TABLES:
        rows_of(read_table(find_snapshots(middle), name))
    export(find_snapshots(middle), tmp_path)
    assert verify(middle) == []

    assert state(middle) == before


def test_nothing_is_left_in_the_temporary_folder(middle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    broken = copied(middle, tmp_path / "broken")
    (broken / "store" / "CURRENT").write_bytes(b"nothing\n")

    table(middle, "queues")
    with pytest.raises(StorageDamaged):
        table(broken, "queues")

    assert list((tmp_path / "temporary").iterdir()) == []


@pytest.fixture
def mounted(middle: Path, tmp_path: Path) -> Iterator[Path]:
    """The snapshot, mounted once more so that nothing can be written there."""
    place = tmp_path / "mounted"
    place.mkdir()
    if shutil.which("mount") is None or subprocess.run(["mount", "--bind", middle, place], capture_output=True).returncode:
        pytest.skip("nothing can be mounted here")
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", place], check=True)
        yield place
    finally:
        subprocess.run(["umount", place], check=True)


@pytest.mark.process
def test_a_read_only_mount_is_read(middle: Path, mounted: Path) -> None:
    with pytest.raises(OSError, match="Read-only file system"):
        (mounted / "store" / "probe").touch()

    for name in ("messages", "queues", "settlements", "events"):
        assert table(mounted, name) == table(middle, name)
    assert table(mounted, "damage") == []


@contextmanager
def as_nobody() -> Iterator[None]:
    """Within it this process is another user's, who owns nothing."""
    if os.geteuid():
        pytest.skip("only root may become another user")
    os.setegid(NOBODY)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


@pytest.fixture
def readable() -> Iterator[Path]:
    """A folder that all users may look into; those of pytest are for their owner."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


def test_another_user_who_may_only_read_reads_it(middle: Path, readable: Path) -> None:
    snapshot = copied(middle, readable / "in")
    for path in (readable / "in", *(readable / "in").rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o444)
    expected = table(snapshot, "messages")

    with as_nobody():
        assert not os.access(snapshot / "store", os.W_OK, effective_ids=True)
        found = table(snapshot, "messages")

    assert found == expected


def test_what_another_user_may_not_read_is_named_and_left_out(middle: Path, readable: Path) -> None:
    """A folder that cannot be looked into is named as well: it may be a snapshot. A cache of the disk's own is not one."""
    closed, files_closed, sound = (copied(middle, readable / name) for name in ("a", "b", "c"))
    for path in readable.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o444)
    (files_closed / "store" / "CURRENT").chmod(0)
    closed.chmod(0)
    (readable / "lost+found").mkdir(mode=0o700)
    expected = table(sound, "messages")
    problems: list[Problem] = []

    with as_nobody():
        found = rows_of(read_table(find_snapshots(readable), "messages", damaged="skip", on_problem=problems.append))

    assert found == expected
    assert {problem.path for problem in problems} == {str(closed), str(files_closed)}


def test_one_that_goes_after_the_planning_is_named_and_left_out(middle: Path, tmp_path: Path) -> None:
    """Of many, in one split; not if it is to be an error, which says which."""
    many = [copied(middle, tmp_path / f"box-{number}") for number in range(5)]
    found = [each for path in many for each in find_snapshots(path)]
    (split,) = plan(found, "queues")
    gone, emptied = many[1], many[3]
    shutil.rmtree(gone)
    shutil.rmtree(emptied / "store")
    problems: list[Problem] = []

    rows = rows_of(read(split, ["queue"], damaged="skip", on_problem=problems.append))

    assert len(rows) == 3 * len(table(middle, "queues"))
    assert {problem.path for problem in problems} == {str(gone), str(emptied)}
    with pytest.raises(Unavailable, match=r"it has no manifest .*box-1"):
        rows_of(read(split, ["queue"]))
    with pytest.raises(Unavailable, match="it has no manifest"):
        rows_of(read(split, ["queue"], damaged="skip", whole=True))
    named = {row["path"]: row["why"] for row in rows_of(read(plan(found, "damage")[0]))}
    assert set(named) == {str(gone), str(emptied)}
