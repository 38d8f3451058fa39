"""The folder of a node's snapshots: what is half made goes, old ones go, what is held stays, and space is counted once."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.snapshots import snapshot_folder
from storage.snapshots.manifest import FileFacts, age_key, find_snapshots, read_manifest, sha256_of, snapshot_id, verify
from storage.snapshots.snapshot_folder import held
from supervisor.snapshots.snapshot_schedule import MARGIN_BYTES, SnapshotSpace, next_s
from tests.snapshots.made import Box
from tests.support.settings import bridge, limits, node
from wire.errors import Unavailable

DAY_MS = 86_400_000


def always() -> bool:
    return True


def test_files_that_the_last_snapshot_has_are_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table never changes: its checksum is known by device, inode and size."""
    box = Box(tmp_path)
    for _ in range(5):
        box.table()
    box.make()
    new = box.table()
    read = []

    def counting(path: Path) -> str:
        read.append(path.name)
        return sha256_of(path)

    monkeypatch.setattr(snapshot_folder, "sha256_of", counting)
    made = box.make()
    assert sorted(read) == sorted([new.name, "CURRENT", "MANIFEST-1"])
    assert verify(made) == []


def test_a_file_of_the_same_name_that_is_another_one_is_read(tmp_path: Path) -> None:
    box = Box(tmp_path)
    table = box.table()
    box.make()
    table.unlink()
    table.write_bytes(b"z" * 3000)
    made = box.make()
    assert verify(made) == []
    assert FileFacts(name=f"store/{table.name}", size_bytes=3000, sha256=sha256_of(table)) in read_manifest(made).files


def test_what_is_half_made_goes_and_what_is_being_made_stays(tmp_path: Path) -> None:
    """snapshots.named-when-whole"""
    box = Box(tmp_path)
    box.table()
    made = box.make()
    left = box.snapshots.begin("edge", 1, 1)
    (left / "store.tmp").mkdir()
    (left / "store.tmp" / "000001.sst").write_bytes(b"half")
    current = box.snapshots.begin("edge", 2, 2)

    assert box.snapshots.clean(keep=current) == [left.name]
    assert current.exists()
    assert box.snapshots.clean() == [current.name]
    assert [found.path for found in find_snapshots(box.snapshots.path)] == [made]


def test_the_oldest_go_first_and_the_newest_stays(tmp_path: Path) -> None:
    box = Box(tmp_path)
    box.table()
    names = [box.make().name for _ in range(5)]
    assert box.snapshots.prune(keep=3, max_bytes=None, enough_free=always) == [(name, "keep") for name in names[:2]]
    assert box.snapshots.prune(keep=1, max_bytes=0, enough_free=always) == [(name, "keep") for name in names[2:4]]
    assert box.snapshots.prune(keep=1, max_bytes=0, enough_free=always) == []
    assert box.snapshots.names() == names[4:]


def test_what_is_made_after_the_clock_was_set_back_is_the_newest(tmp_path: Path) -> None:
    box = Box(tmp_path)
    box.table()
    before = [box.make().name for _ in range(3)]
    box.at_ms -= DAY_MS
    after = [box.make().name for _ in range(2)]
    assert box.snapshots.names() == before + after
    assert [path.name for path, _ in box.snapshots.manifests()] == before + after
    assert box.snapshots.prune(keep=2, max_bytes=None, enough_free=always) == [(name, "keep") for name in before]
    assert box.snapshots.names() == after


def test_a_later_life_of_the_store_is_newer_whatever_its_clock_says() -> None:
    first, second = snapshot_id("edge", 5 * DAY_MS, 9), snapshot_id("edge", 4 * DAY_MS, 10)
    assert sorted([second, first], key=lambda name: age_key(name, 6 * DAY_MS)) == [first, second]


def test_what_the_store_shares_takes_no_room_until_the_store_lets_go_of_it(tmp_path: Path) -> None:
    box = Box(tmp_path)
    tables = [box.table(100_000) for _ in range(3)]
    for _ in range(4):
        box.make()
    shared = box.snapshots.usage()
    assert 300_000 <= shared.size_bytes < 450_000, "each file counts once, however many snapshots have it"
    assert shared.own_bytes < 100_000
    assert box.snapshots.prune(keep=10, max_bytes=150_000, enough_free=always) == []
    tables[0].unlink()
    tables[1].unlink()
    assert 200_000 <= box.snapshots.usage().own_bytes < 300_000
    removed = box.snapshots.prune(keep=10, max_bytes=150_000, enough_free=always)
    assert [reason for _, reason in removed] == ["max_bytes"] * 3, "the newest one stays, too large or not"


def test_all_go_before_the_disk_is_full(tmp_path: Path) -> None:
    box = Box(tmp_path)
    tables = [box.table(2_000_000) for _ in range(2)]
    names = [box.make().name for _ in range(2)]
    assert box.snapshots.prune(keep=9, max_bytes=None, enough_free=lambda: False) == [], "the store has all of it: nothing is won"
    tables[0].unlink()
    removed = box.snapshots.prune(keep=9, max_bytes=None, enough_free=lambda: len(box.snapshots.names()) < 2)
    assert removed == [(names[0], "min_free_disk")]
    removed = box.snapshots.prune(keep=9, max_bytes=None, enough_free=lambda: False)
    assert removed == [(names[1], "min_free_disk")]


def test_a_snapshot_that_is_held_is_not_removed(tmp_path: Path) -> None:
    """snapshots.named-when-whole"""
    box = Box(tmp_path)
    box.table()
    first, second = box.make(), box.make()
    with held(first), held(first):
        assert box.snapshots.prune(keep=1, max_bytes=None, enough_free=always) == []
        assert verify(first) == []
    assert box.snapshots.prune(keep=1, max_bytes=None, enough_free=always) == [(first.name, "keep")]
    with pytest.raises(OSError, match=first.name), held(first):
        pass
    with held(second):
        pass


def test_a_snapshot_of_the_same_name_is_not_replaced(tmp_path: Path) -> None:
    box = Box(tmp_path)
    box.table()
    made = box.make()
    box.at_ms -= 1000
    with pytest.raises(Unavailable, match="of that name"):
        box.make()
    assert verify(made) == []


@given(st.floats(1, 1e6), st.integers(-(10**10), 10**10), st.floats(0, 1e6))
def test_the_next_one_is_due_within_the_period_however_the_clock_jumps(every_s: float, ago_ms: int, now_s: float) -> None:
    at_s = next_s(every_s, 10**12 - ago_ms, now_s, 10**12)
    assert now_s <= at_s <= now_s + every_s
    if 0 <= ago_ms <= every_s * 1000:
        assert at_s == pytest.approx(now_s + every_s - ago_ms / 1000)
    assert next_s(every_s, None, now_s, 10**12) == now_s


def test_snapshots_leave_more_room_than_intake_wants() -> None:
    assert SnapshotSpace.of(node()).wanted_bytes == MARGIN_BYTES
    greedy = bridge(limits=limits(min_free_disk_bytes=10 << 30))
    assert SnapshotSpace.of(node(greedy)).wanted_bytes == 11 << 30
