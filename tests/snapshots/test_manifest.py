"""Manifests: what is read is what was written, or an error that says why not; snapshots are found where they are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.snapshots.manifest import (
    Manifest,
    ManifestDamaged,
    ManifestNewer,
    NoManifest,
    find_snapshots,
    node_of,
    read_manifest,
    snapshot_id,
    verify,
)
from storage.snapshots.snapshot_copy import copy_snapshot
from tests.snapshots.made import Box, manifest


def test_a_manifest_comes_back_as_it_was_written() -> None:
    assert Manifest.from_json(manifest().to_json()) == manifest()


def test_the_bytes_of_format_1_are_pinned() -> None:
    assert json.loads(manifest().to_json())["check"] == "b7b9b1c43c83393247d85d338355787c58518f1751a1efe096164a4aa2b88642"


@given(st.data())
def test_no_changed_byte_goes_unnoticed(data: st.DataObject) -> None:
    """A manifest with one changed byte is refused, or it says the same."""
    text = bytearray(manifest().to_json())
    place = data.draw(st.integers(0, len(text) - 1))
    text[place] ^= data.draw(st.integers(1, 255))
    try:
        read = Manifest.from_json(bytes(text))
    except (ManifestDamaged, ManifestNewer):
        return
    assert read == manifest()


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b'{"format":"1"}', b"[" * 100_000, b"\xff", manifest().to_json()[:-30]])
def test_what_is_no_manifest_is_refused(text: bytes) -> None:
    with pytest.raises(ManifestDamaged):
        Manifest.from_json(text)


def test_a_newer_format_is_told_apart_from_damage() -> None:
    with pytest.raises(ManifestNewer, match="newer version"):
        Manifest.from_json(b'{"format":2}')


@pytest.mark.parametrize("name", ["../store", "/etc/passwd", "store/../../x", ""])
def test_a_file_outside_the_snapshot_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="not a file of a snapshot"):
        manifest(files=[{"name": name, "bytes": 1, "sha256": "0" * 64}])


@given(st.text("aZ09_-", min_size=1, max_size=64), st.integers(0, 4_000_000_000_000), st.integers(0, 1 << 40))
def test_the_node_is_known_by_the_name(node: str, at_ms: int, epoch: int) -> None:
    assert node_of(snapshot_id(node, at_ms, epoch)) == node


def test_the_names_of_a_node_sort_by_time() -> None:
    times = [0, 999, 1000, 1_699_999_999_999, 1_700_000_000_000]
    names = [snapshot_id("edge", at_ms, 5) for at_ms in times]
    assert names == sorted(names)


def test_damage_to_any_file_is_named(tmp_path: Path) -> None:
    box = Box(tmp_path)
    tables = [box.table() for _ in range(3)]
    made = box.make()
    assert verify(made) == []
    for path in tables:
        path.unlink()  # the links in the snapshot stay
    first, second, third = (made / "store" / path.name for path in tables)
    first.write_bytes(first.read_bytes()[:-1])
    second.unlink()
    content = bytearray(third.read_bytes())
    content[1500] ^= 1
    third.write_bytes(content)
    (made / "store" / "extra").write_bytes(b"")

    faults = {fault.name: fault.problem for fault in verify(made)}
    assert faults == {
        f"store/{first.name}": "has 2999 bytes instead of 3000",
        f"store/{second.name}": "is missing",
        f"store/{third.name}": "is damaged: its SHA-256 is another one",
        "store/extra": "is not of the snapshot",
    }
    assert {fault.name for fault in verify(made, files=False)} == set(faults) - {f"store/{third.name}"}


def test_snapshots_are_found_one_by_one_in_folders_and_by_globs(tmp_path: Path) -> None:
    boxes = [Box(tmp_path / node, node) for node in ("edge", "mill")]
    share = tmp_path / "share"
    for box in boxes:
        box.table()
        for _ in range(2):
            copy_snapshot(box.make(), share)
    made = sorted(path.name for path in share.iterdir())
    assert len(made) == 4

    assert [found.path.name for found in find_snapshots(share)] == made
    assert [found.path.name for found in find_snapshots(tmp_path / "share" / made[0])] == made[:1]
    assert [found.path.name for found in find_snapshots(f"{share}/mill-*")] == made[2:]
    assert len(find_snapshots(tmp_path / "edge")) == 2, "a data folder has them in a folder"
    assert len(find_snapshots(f"{tmp_path}/*/snapshots")) == 4
    with pytest.raises(NoManifest, match="no snapshot at"):
        find_snapshots(tmp_path / "edge" / "store")
    with pytest.raises(NoManifest, match="no snapshot at"):
        find_snapshots(f"{tmp_path}/nowhere-*")


def test_half_made_damaged_and_newer_ones_are_found_with_their_problem(tmp_path: Path) -> None:
    box = Box(tmp_path)
    box.table()
    made = [box.make() for _ in range(4)]
    (made[0] / "manifest.json").unlink()
    made[1].rename(made[1].with_name(f".part-{made[1].name}"))
    (made[2] / "manifest.json").write_bytes(b'{"format":9}')

    found = find_snapshots(box.snapshots.path)
    assert [each.half_made for each in found] == [True, True, False, False]
    assert [each.newer for each in found] == [False, False, True, False]
    assert [bool(each.problem) for each in found] == [True, True, True, False]
    assert found[3].manifest == read_manifest(made[3])
