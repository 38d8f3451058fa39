"""Backups are whole or refused, and a restore touches nothing of a node that lives, nor of one that was there before."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import pytest

from storage.engine.engine import RocksEngine
from storage.snapshots.manifest import STORE_NAME
from storage.snapshots.snapshot_folder import SnapshotFolder
from supervisor.backup import restore_backup
from supervisor.backup.make_backup import MadeBackup, make_backup
from supervisor.lock import lock_data_dir
from supervisor.tree.epochs import Epochs, carry_on
from supervisor.tree.node import RESTORING_NAME, _claim
from supervisor.tree.pauses import Pauses
from tests.storage.building import QUEUE, append_frame, batch, node
from tests.supervisor.settings import node_settings
from tests.support.present import present
from tests.support.stores import open_store
from wire.errors import ConfigError, StorageDamaged, Unavailable

EPOCH = 1_900_000_000


class Saved(NamedTuple):
    """A node's data folder and configuration, and the backup of it."""

    config: Path
    data_dir: Path
    made: MadeBackup


def write_files(folder: Path) -> Path:
    """A configuration that includes a file and names others, one of which is not there; its main file."""
    (folder / "bridges.d").mkdir(parents=True)
    config = folder / "edge.yaml"
    config.write_text("node: {name: edge, data_dir: data}\ninclude: [bridges.d/*.yaml]\naccess: {password_file: users}\n")
    bridge = "bridges: [{remote: {password_file: secret, username: '${file:name}', tls: {ca_file: /nowhere/ca.pem}}}]\n"
    (folder / "bridges.d" / "cloud.yaml").write_text(bridge)
    for name in ("users", "secret", "name"):
        (folder / name).write_text(f"the {name}\n")
    return config


@pytest.fixture
def saved(tmp_path: Path) -> Saved:
    return save(tmp_path)


def save(tmp_path: Path, *, secrets: bool = False) -> Saved:
    config, data_dir = write_files(tmp_path / "here"), tmp_path / "here" / "data"
    store = open_store(RocksEngine(data_dir / STORE_NAME), node(), 1)
    store.receive(append_frame(1, {QUEUE: (batch([b"a", b"b"]), None)}))
    store.commit(100.0, 5000)
    carry_on(data_dir, EPOCH)
    Pauses(data_dir).pause("cloud")
    folder = SnapshotFolder(data_dir / "snapshots", data_dir / STORE_NAME)
    part = folder.begin("edge", 5000, 1)
    standing = store.checkpoint(str(part / STORE_NAME), 100.0, 5000)
    limits = {"max_messages": None, "max_bytes": None, "min_free_disk_bytes": 0}
    manifest = folder.finish(part, {**standing.facts(), "node": "edge", "boot_id": "", "limits": limits})
    store.close()
    return Saved(config, data_dir, make_backup(config, data_dir, folder.path / manifest.id, tmp_path / "backups", secrets=secrets))


def depth(data_dir: Path) -> int:
    store = open_store(RocksEngine(data_dir / STORE_NAME), node(), 2)
    found = present(store.status(9000).queues[QUEUE].depth)
    store.close()
    return found


def test_a_backup_has_the_configuration_and_names_what_it_leaves_out(saved: Saved) -> None:
    stored = {file.below: file.stored for file in saved.made.backup.configuration if file.stored}
    assert sorted(filter(None, stored)) == ["bridges.d/cloud.yaml", "edge.yaml"]
    assert {Path(path).name: why.partition(";")[0] for path, why in saved.made.left_out} == {
        "users": "secret",
        "secret": "secret",
        "name": "secret",
        "ca.pem": "no such file or directory",
    }
    assert saved.made.backup.main.below == "edge.yaml"
    with pytest.raises(Unavailable, match="already"):
        make_backup(
            saved.config, saved.data_dir, next((saved.data_dir / "snapshots").glob("edge*")), saved.made.path.parent, secrets=False
        )


def test_secrets_are_taken_along_only_when_asked_for_and_are_their_owners(tmp_path: Path) -> None:
    made = save(tmp_path, secrets=True).made

    assert {file.below for file in made.backup.configuration if file.stored and file.secret} == {"users", "secret", "name"}
    assert {path.stat().st_mode & 0o077 for path in made.path.rglob("*")} == {0}


def test_a_damaged_byte_anywhere_is_found_before_anything_is_written(saved: Saved, tmp_path: Path) -> None:
    for path in [path for path in saved.made.path.rglob("*") if path.is_file() and path.stat().st_size]:
        content = path.read_bytes()
        path.write_bytes(bytes([content[0] ^ 1]) + content[1:])
        with pytest.raises((StorageDamaged, ConfigError)):
            restore_backup.check_backup(saved.made.path)
        path.write_bytes(content)

    restore_backup.check_backup(saved.made.path)
    (saved.made.path / "backup.json").unlink()
    with pytest.raises(Unavailable, match="no backup, or a half-made one"):
        restore_backup.check_backup(saved.made.path)


def test_a_restored_folder_has_the_queues_the_pauses_and_epochs_that_go_on(saved: Saved, tmp_path: Path) -> None:
    checked, data_dir = restore_backup.check_backup(saved.made.path), tmp_path / "there" / "data"

    restored, kept = restore_backup.restore(checked, data_dir, replace=False)

    assert (restored.queues, kept) == (1, None)
    assert depth(data_dir) == 2
    assert Pauses(data_dir).since_ms("cloud") is not None
    assert Epochs(data_dir, wall_s=5.0).next() >= EPOCH, "though the clock is wrong"
    assert not (data_dir / RESTORING_NAME).exists()


def test_a_node_that_lives_is_never_overwritten_and_one_that_was_there_is_kept(saved: Saved) -> None:
    checked = restore_backup.check_backup(saved.made.path)
    lock = lock_data_dir(saved.data_dir)
    with pytest.raises(Unavailable, match="another node runs"):
        restore_backup.restore(checked, saved.data_dir, replace=True)
    os.close(lock)
    with pytest.raises(Unavailable, match="is not empty: epoch, paused, snapshots, store"):
        restore_backup.restore(checked, saved.data_dir, replace=False)

    _, kept = restore_backup.restore(checked, saved.data_dir, replace=True)

    assert kept is not None
    assert (depth(kept), depth(saved.data_dir)) == (2, 2)


def test_no_node_starts_where_a_restore_was_cut_short_and_the_next_one_ends_it(
    saved: Saved, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked, data_dir = restore_backup.check_backup(saved.made.path), tmp_path / "there" / "data"

    def cut(*_: object, **__: object) -> None:
        raise OSError(5, "cut")

    for step in ("copy_snapshot", "restart_exchanges", "carry_on", "Pauses"):
        with monkeypatch.context() as patch:
            patch.setattr(restore_backup, step, cut)
            with pytest.raises(Unavailable, match="data cannot be written: cut; give the restore again"):
                restore_backup.restore(checked, data_dir, replace=False)
        with pytest.raises(ConfigError, match="cut short"):
            _claim(node_settings(data_dir.parent), frozenset())
    restore_backup.restore(checked, data_dir, replace=False)

    assert depth(data_dir) == 2


def test_the_configuration_is_written_where_there_is_none_and_nothing_is_overwritten(saved: Saved, tmp_path: Path) -> None:
    checked, config = restore_backup.check_backup(saved.made.path), tmp_path / "there" / "other.yaml"

    others = restore_backup.write_configuration(checked, config)
    assert {Path(file.path).name for file in others} == {"users", "secret", "ca.pem", "name"}
    assert config.read_text() == saved.config.read_text()
    assert (config.parent / "bridges.d" / "cloud.yaml").is_file()
    assert len(restore_backup.write_configuration(checked, config)) == 4, "what is there and the same stays"
    config.write_text("node: {}")
    with pytest.raises(Unavailable, match="differs"):
        restore_backup.write_configuration(checked, config)
    with pytest.raises(ConfigError, match="of node 'other', and the backup of 'edge'"):
        restore_backup.refuse_another(checked.backup, "other")
