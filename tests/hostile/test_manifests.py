"""A backup or a snapshot that somebody else has written: it is refused, or it stays in the folder that it is restored to.

A manifest's checksum has no key, so each of these has the right one.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from storage.snapshots.manifest import MANIFEST_NAME, Manifest, read_manifest, verify
from storage.snapshots.snapshot_copy import copy_snapshot
from supervisor.backup import restore_backup
from supervisor.backup.manifest import MANIFEST_NAME as BACKUP_NAME
from tests.supervisor.backup.test_backup import Saved, save
from wire.errors import BasculeError

Fields = dict[str, Any]

HOSTILE_NAMES = (
    "../x",
    "../../x",
    "/tmp/x",
    "a/../../x",
    "..",
    ".",
    "",
    "a//b",
    "./a",
    "a/",
    "a\0b",
    "\ud800",
    "x" * 256,
    "x/" * 3000 + "x",
)
HOSTILE_VALUES: tuple[Any, ...] = (*HOSTILE_NAMES, None, True, -1, 0, 1 << 70, 1e400, float("nan"), 1.5, "0", "\x1b[2J")
HOSTILE_VALUES += ([], [[]], {}, {"": None}, [1e400], ["../x"])


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Saved:
    return save(tmp_path_factory.mktemp("saved"), secrets=True)


def written(fields: Fields) -> bytes:
    """The manifest of ``fields``, with the checksum that it should have."""
    fields = {name: value for name, value in fields.items() if name != "check"}
    plain = json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()
    return json.dumps({**fields, "check": hashlib.sha256(plain).hexdigest()}).encode()


def places_in(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to each value in ``value``, which is of JSON."""
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places_in(item, (*path, key))


def changed(fields: Fields, path: tuple[Any, ...], change: Callable[[Any, Any], None]) -> Fields:
    copy: Fields = json.loads(json.dumps(fields))
    holder: Any = copy
    for key in path[:-1]:
        holder = holder[key]
    change(holder, path[-1])
    return copy


def mutations(fields: Fields, count: int) -> Iterator[Fields]:
    """``count`` manifests in which one to three values are hostile, missing or of another place; each run has the same."""
    dice = random.Random(1)
    for _ in range(count):
        mutated = fields
        for _ in range(dice.randint(1, 3)):
            path = dice.choice([path for path in places_in(mutated) if path[0] not in ("check", "format")])
            value = dice.choice(HOSTILE_VALUES)
            if dice.random() < 0.1:
                mutated = changed(mutated, path, lambda holder, key: holder.pop(key))
            else:
                mutated = changed(mutated, path, lambda holder, key: holder.__setitem__(key, value))  # noqa: B023
        yield mutated


def everything_in(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def how_many(request: pytest.FixtureRequest) -> int:
    return 50_000 if request.config.getoption("--soak") else 1_000


def test_mutated_manifests_of_backups_raise_nothing_but_our_errors(
    saved: Saved, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """An accepted backup is restored below its target, and nowhere else."""
    folder = tmp_path / "around" / saved.made.path.name
    shutil.copytree(saved.made.path, folder)
    fields = json.loads((folder / BACKUP_NAME).read_bytes())
    before, accepted = everything_in(tmp_path), 0
    for mutated in mutations(fields, how_many(request)):
        (folder / BACKUP_NAME).write_bytes(written(mutated))
        try:
            checked = restore_backup.check_backup(folder)
            target = tmp_path / "target" / "below"
            target.mkdir(parents=True)
            restore_backup.write_configuration(checked, target / "edge.yaml")
            if accepted % 50 == 0:
                restore_backup.restore(checked, target / "data", replace=False)
        except BasculeError:
            pass
        else:
            accepted += 1
        outside = {name for name in everything_in(tmp_path) - before if not f"{name}/".startswith(("target/", "target/below/"))}
        assert not outside, mutated
        shutil.rmtree(tmp_path / "target", ignore_errors=True)
    assert accepted, "some change nothing that matters"


def test_mutated_manifests_of_snapshots_raise_nothing_but_our_errors(
    saved: Saved, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    snapshot = next((saved.made.path / "snapshot").iterdir())
    fields = json.loads((snapshot / MANIFEST_NAME).read_bytes())
    accepted = 0
    for mutated in mutations(fields, how_many(request)):
        try:
            manifest = Manifest.from_json(written(mutated))
        except BasculeError:
            continue
        accepted += 1
        assert Manifest.from_json(manifest.to_json()) == manifest
    assert accepted


@pytest.mark.parametrize("name", HOSTILE_NAMES)
@pytest.mark.parametrize("place", [("snapshot",), ("paused", 0), ("configuration", 1, "stored"), ("configuration", 1, "below")])
def test_no_name_in_a_backup_leads_out_of_it(saved: Saved, tmp_path: Path, place: tuple[Any, ...], name: str) -> None:
    folder = tmp_path / saved.made.path.name
    shutil.copytree(saved.made.path, folder)
    fields = changed(json.loads((folder / BACKUP_NAME).read_bytes()), place, lambda holder, key: holder.__setitem__(key, name))
    (folder / BACKUP_NAME).write_bytes(written(fields))

    with pytest.raises(BasculeError):
        restore_backup.check_backup(folder)


def test_no_name_of_a_snapshot_leads_out_of_the_folder_that_it_is_copied_to(saved: Saved, tmp_path: Path) -> None:
    snapshot = tmp_path / "source"
    shutil.copytree(next((saved.made.path / "snapshot").iterdir()), snapshot)
    fields = json.loads((snapshot / MANIFEST_NAME).read_bytes())
    before = everything_in(tmp_path)
    for name in (*HOSTILE_NAMES, "edge", "edge-20270101T000000000Z-1/../../x", "../edge-20270101T000000000Z-1"):
        (snapshot / MANIFEST_NAME).write_bytes(written({**fields, "id": name}))

        with pytest.raises(BasculeError):
            copy_snapshot(snapshot, tmp_path / "copies" / "deep")

        assert everything_in(tmp_path) - before <= {"copies", "copies/deep"}


def test_a_link_or_a_pipe_in_place_of_a_file_is_a_fault(saved: Saved, tmp_path: Path) -> None:
    replacements: tuple[Callable[[Path], None], ...] = (lambda path: path.symlink_to("/etc/passwd"), os.mkfifo)
    for number, replace in enumerate(replacements):
        snapshot = tmp_path / str(number)
        shutil.copytree(next((saved.made.path / "snapshot").iterdir()), snapshot)
        entry = max(read_manifest(snapshot).files, key=lambda file: file.size_bytes)
        (snapshot / entry.name).unlink()
        replace(snapshot / entry.name)

        assert [fault.problem for fault in verify(snapshot) if fault.name == entry.name] == ["is no file, or reached by a link"]

    snapshot, aside = tmp_path / "folder", tmp_path / "aside"
    shutil.copytree(next((saved.made.path / "snapshot").iterdir()), snapshot)
    (snapshot / "store").rename(aside)
    (snapshot / "store").symlink_to(aside)
    assert {fault.problem for fault in verify(snapshot)} == {"is no file, or reached by a link"}


def test_a_configuration_is_not_written_through_a_link(saved: Saved, tmp_path: Path) -> None:
    checked = restore_backup.check_backup(saved.made.path)
    target, elsewhere = tmp_path / "target", tmp_path / "elsewhere"
    target.mkdir()
    elsewhere.mkdir()
    (target / "bridges.d").symlink_to(elsewhere)

    with pytest.raises(BasculeError, match="by a link"):
        restore_backup.write_configuration(checked, target / "edge.yaml")

    assert everything_in(elsewhere) == set()
    assert everything_in(target) == {"bridges.d"}
