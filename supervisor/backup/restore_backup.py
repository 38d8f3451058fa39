"""Makes a node's data folder of a backup. Everything is checked first, and nothing of a node that lives is touched.

While a folder ``restoring`` is in the data folder the restore is not done, and no node starts there; given again, it starts again.
Former contents of the data folder are kept beside it, never removed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from storage import files
from storage.engine.engine import RocksEngine
from storage.engine.store_identity import begin_store
from storage.safe_file_names import lies_below
from storage.snapshots.manifest import STORE_NAME, Manifest, read_manifest, sha256_of
from storage.snapshots.snapshot_copy import copy_snapshot
from storage.store.restored_rows import Restored, restart_exchanges
from supervisor.backup.manifest import CONFIGURATION_NAME, SNAPSHOT_NAME, BackupManifest, ConfigurationFile, faults, read_backup
from supervisor.lock import lock_data_dir, running_pid
from supervisor.tree.epochs import carry_on
from supervisor.tree.node import RESTORING_NAME
from supervisor.tree.pauses import Pauses
from wire.errors import ConfigError, StorageDamaged, Unavailable

_OF_NO_NODE = {"lock", "run", "lost+found"}  # what a data folder without a node's data may hold
# Rests of a restore that was cut short.
_OF_A_RESTORE = {"store", "epoch", "paused", "store.lock", "store.reserve", "store.identity"}


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedBackup:
    """A backup of which every byte was compared."""

    folder: Path
    backup: BackupManifest
    manifest: Manifest


def check_backup(folder: Path) -> CheckedBackup:
    """Read all of the backup in ``folder``.

    Raises:
        Unavailable: there is none, or it cannot be read. StorageDamaged: something is not what was written.
        ConfigError: a newer version made it.
    """
    backup = read_backup(folder)
    try:
        wrong = faults(folder, backup)
        manifest = read_manifest(folder / SNAPSHOT_NAME / backup.snapshot)
    except OSError as error:
        raise Unavailable(f"{error.filename or folder} cannot be read: {(error.strerror or str(error)).lower()}") from error
    if wrong:
        raise StorageDamaged(f"the backup is damaged: {wrong[0].name} {wrong[0].problem}", faults=len(wrong))
    return CheckedBackup(folder=folder, backup=backup, manifest=manifest)


# --- the configuration ---


def write_configuration(checked: CheckedBackup, config: Path) -> list[ConfigurationFile]:
    """Write the main file to ``config`` and what was below its folder below that of ``config``; those that were not written.

    Raises:
        Unavailable: another file is there already, or the disk refuses. Nothing that is there is changed.
    """
    placed = places(checked.backup, config)
    for file, target in placed:
        if not lies_below(target.parent, config.parent):
            raise Unavailable(f"{target} is reached by a link out of {config.parent}, and is not written")
        if target.exists() and (not target.is_file() or sha256_of(target) != file.sha256):
            raise Unavailable(f"{target} is there already, and differs from the backup's; move it away first")
    for file, target in placed:
        if not target.exists():
            content = (checked.folder / CONFIGURATION_NAME / str(file.stored)).read_bytes()
            try:
                files.make_folder(target.parent)
                files.write(target, content, for_group_of_folder=True)
            except OSError as error:
                raise files.unwritable(target, error) from error
    written = [file for file, _ in placed]
    return [file for file in checked.backup.configuration if file not in written]


def places(backup: BackupManifest, config: Path) -> list[tuple[ConfigurationFile, Path]]:
    """The files of the configuration that a restore writes where they are not, each with where, if the main one is ``config``."""
    main, *others = backup.configuration
    found = [(main, config), *((file, config.parent / file.below) for file in others if file.below is not None)]
    return [(file, target) for file, target in found if file.stored is not None]


# --- the data ---


def in_the_way(data_dir: Path) -> str:
    """Files in ``data_dir`` that a restore would not overwrite; empty if there are none.

    Raises:
        Unavailable: a node runs there.
    """
    if not data_dir.exists():
        return ""
    pid = running_pid(data_dir)
    if pid not in (None, os.getpid()):
        raise Unavailable(f"a node runs in {data_dir}, pid {pid}; stop it first")
    left = sorted(entry.name for entry in data_dir.iterdir() if entry.name not in _OF_NO_NODE)
    if (data_dir / RESTORING_NAME).exists() or not left:
        return ""
    return f"{data_dir} is not empty: {', '.join(left[:5])}{', ...' if len(left) > 5 else ''}"


def restore(
    checked: CheckedBackup, data_dir: Path, *, replace: bool, on_progress: Callable[[int, int], None] | None = None
) -> tuple[Restored, Path | None]:
    """Make ``data_dir`` of the backup; what was put right, and where what was there is now. ``replace``: what is there gives way.

    on_progress: told how many bytes of how many are there.

    Raises:
        Unavailable: a node runs there, something is in the way, or the disk refuses. DiskFull: there is no room.
        StorageDamaged: the copy of the store cannot be read.
    """
    try:
        with _alone(data_dir):
            kept = _moved_away(data_dir, replace=replace)
            if kept is None:
                return _fill(checked, data_dir, on_progress), None
        with _alone(data_dir):
            return _fill(checked, data_dir, on_progress), kept
    except OSError as error:
        refused = files.unwritable(data_dir, error)
        raise type(refused)(f"{refused}; give the restore again then") from error


@contextmanager
def _alone(data_dir: Path) -> Iterator[None]:
    """No node runs, or starts, in ``data_dir`` meanwhile."""
    files.make_folder(data_dir)
    lock = lock_data_dir(data_dir)
    try:
        yield
    finally:
        os.close(lock)


def _moved_away(data_dir: Path, *, replace: bool) -> Path | None:
    """Have nothing in ``data_dir``; where what was there is now."""
    if not (why := in_the_way(data_dir)):
        return None
    if not replace:
        raise Unavailable(f"{why}; --replace keeps that beside it")
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    kept = data_dir.with_name(f"{data_dir.name}.before-{stamp}")
    files.rename(data_dir, kept)
    return kept


def _fill(checked: CheckedBackup, data_dir: Path, on_progress: Callable[[int, int], None] | None) -> Restored:
    restoring = data_dir / RESTORING_NAME
    files.make_folder(restoring)
    for name in _OF_A_RESTORE:
        _discard(data_dir / name)
    for entry in restoring.iterdir():
        _discard(entry)
    backup = checked.backup
    copied = copy_snapshot(checked.folder / SNAPSHOT_NAME / backup.snapshot, restoring, on_progress=on_progress)
    engine = RocksEngine(copied.path / STORE_NAME)
    try:
        messages = sum(queue.depth for queue in checked.manifest.queues)
        restored = restart_exchanges(engine, wall_ms=time.time_ns() // 1_000_000, snapshot=backup.snapshot, messages=messages)
    finally:
        engine.close()
    carry_on(data_dir, backup.epoch)
    pauses = Pauses(data_dir)
    for bridge in backup.paused:
        pauses.pause(bridge)
    begin_store(data_dir / STORE_NAME, backup.node, time.time_ns() // 1_000_000)  # its identity is the one inside
    files.rename(copied.path / STORE_NAME, data_dir / STORE_NAME)
    files.discard(restoring)
    files.sync(data_dir)
    return restored


def _discard(path: Path) -> None:
    if path.is_dir():
        files.discard(path)
    else:
        files.remove(path)


def refuse_another(backup: BackupManifest, node: str) -> None:
    """A configuration of another node cannot go on with this one's queues.

    Raises:
        ConfigError: ``node`` is another.
    """
    if node != backup.node:
        raise ConfigError(f"the configuration is of node {node!r}, and the backup of {backup.node!r}")
