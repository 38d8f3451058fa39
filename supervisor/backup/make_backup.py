"""Makes a backup, whole or not at all: a copy of a snapshot, the configuration, and what else the data folder keeps."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from actors.system.plain_file import read_plain
from storage import files
from storage.snapshots.manifest import read_manifest
from storage.snapshots.snapshot_copy import copy_snapshot
from supervisor.backup.manifest import (
    CONFIGURATION_NAME,
    MANIFEST_NAME,
    SNAPSHOT_NAME,
    SUFFIX,
    BackupManifest,
    ConfigurationFile,
    faults,
)
from supervisor.config.named_files import NamedFile, named_files
from supervisor.tree.epochs import reserved_epoch
from supervisor.tree.pauses import paused_bridges
from supervisor.version import VERSION
from wire.errors import StorageDamaged, Unavailable

_FILE_MAX_BYTES = 16 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeBackup:
    """A backup that is whole: every file was read back. left_out: files of the configuration that are not in it, and why."""

    path: Path
    backup: BackupManifest
    left_out: tuple[tuple[str, str], ...]


def make_backup(
    config: Path,
    data_dir: Path,
    snapshot: Path,
    folder: Path,
    *,
    secrets: bool,
    on_progress: Callable[[int, int], None] | None = None,
) -> MadeBackup:
    """Make a backup of ``snapshot`` in ``folder``, which is made if need be; ``secrets``: with keys and passwords.

    on_progress: told how many bytes of how many are there.

    Raises:
        Unavailable: the folder or the disk refuses, or a backup of that name is there. DiskFull: there is no room.
        StorageDamaged: the snapshot is damaged, or what was written reads back otherwise.
        ConfigError: the configuration is not one YAML mapping.
    """
    manifest = read_manifest(snapshot)
    whole = folder / f"{manifest.id}{SUFFIX}"
    part = whole.with_name(whole.name + ".part")
    if whole.exists():
        raise Unavailable(f"there is a backup of that snapshot already: {whole}")
    try:
        files.make_folder(folder)
        files.discard(part)
        files.make_folder(part)
        copy_snapshot(snapshot, part / SNAPSHOT_NAME, on_progress=on_progress)
        configuration, left_out = _save(config.absolute(), part / CONFIGURATION_NAME, secrets=secrets)
        backup = BackupManifest(
            node=manifest.node,
            at_ms=manifest.at_ms,
            version=VERSION,
            snapshot=manifest.id,
            epoch=max(manifest.epoch, reserved_epoch(data_dir)),
            paused=paused_bridges(data_dir),
            configuration=configuration,
        )
        files.write(part / MANIFEST_NAME, backup.to_json())
        wrong = faults(part, backup)
        if wrong:
            raise StorageDamaged("the backup reads back otherwise than it was written", file=wrong[0].name)
        files.rename(part, whole)
    except OSError as error:
        raise files.unwritable(folder, error) from error
    return MadeBackup(path=whole, backup=backup, left_out=left_out)


def _save(config: Path, target: Path, *, secrets: bool) -> tuple[tuple[ConfigurationFile, ...], tuple[tuple[str, str], ...]]:
    """Copy the files of ``config`` below ``target``; what each is, and those that are left out with the reason."""
    files.make_folder(target)
    saved, left_out = [], []
    for number, named in enumerate(named_files(config)):
        content, why = None, "secret; --secrets takes it along"
        if secrets or not named.secret:
            content, why = _content(named)
        if content is None:
            left_out.append((str(named.path), why))
        saved.append(_stored(named, config.parent, target, number, content))
    return tuple(saved), tuple(left_out)


def _content(named: NamedFile) -> tuple[bytes | None, str]:
    try:
        content = read_plain(named.path, _FILE_MAX_BYTES)
    except OSError as error:
        return None, (error.strerror or str(error)).lower()
    return (content, "") if len(content) <= _FILE_MAX_BYTES else (None, "too large for a file of a configuration")


def _stored(named: NamedFile, folder: Path, target: Path, number: int, content: bytes | None) -> ConfigurationFile:
    below = named.path.relative_to(folder).as_posix() if named.path.is_relative_to(folder) else None
    stored = None
    if content is not None:
        stored = f"{number}-{named.path.name}"
        files.write(target / stored, content)
    return ConfigurationFile(
        path=str(named.path),
        below=below,
        stored=stored,
        secret=named.secret,
        bytes=len(content or b""),
        sha256=hashlib.sha256(content or b"").hexdigest(),
    )
