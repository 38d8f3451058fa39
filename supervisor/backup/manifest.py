"""The index of a backup: ``backup.json``, written last.

A backup is a folder ``<snapshot>.backup`` with ``snapshot/<snapshot>``, as ``bascule snapshot`` makes it, ``configuration/`` and
``backup.json``. A folder ``.part`` is half made. Format 1, one JSON object:

``format, node, at_ms (UTC epoch), version, snapshot, epoch (none above was given), paused (bridges)``; ``configuration``, the main
file first: the ``path`` that each had, ``below`` the folder of the main one or null, ``stored`` below ``configuration/`` or null
where it was left out, ``secret``, ``bytes``, ``sha256``; ``check``, the SHA-256 of the object without it, written with sorted keys
and without spaces.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from actors.system.plain_file import read_plain
from storage.safe_file_names import is_plain_name, is_plain_path
from storage.snapshots.manifest import Fault, FileFacts, file_problem, verify
from wire.errors import ConfigError, StorageDamaged, Unavailable
from wire.typed_values import build

FORMAT = 1
MANIFEST_MAX_BYTES = 16 << 20
MANIFEST_NAME = "backup.json"
SNAPSHOT_NAME = "snapshot"
CONFIGURATION_NAME = "configuration"
SUFFIX = ".backup"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigurationFile:
    """One file of the configuration; ``stored`` is None where it was left out, because it is secret or could not be read."""

    path: str
    below: str | None
    stored: str | None
    secret: bool
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupManifest:
    """One backup, as its manifest has it."""

    node: str
    at_ms: int
    version: str
    snapshot: str
    epoch: int
    paused: tuple[str, ...]
    configuration: tuple[ConfigurationFile, ...]

    def to_json(self) -> bytes:
        """The manifest's file."""
        fields = {"format": FORMAT, **asdict(self)}
        return json.dumps({**fields, "check": _check(fields)}, indent=1, sort_keys=True).encode() + b"\n"

    @property
    def main(self) -> ConfigurationFile:
        """The configuration's main file."""
        return self.configuration[0]


def read_backup(folder: Path) -> BackupManifest:
    """The backup in ``folder``; what it says is checked, and not what it holds.

    Raises:
        Unavailable: there is none, or a half-made one. StorageDamaged: its manifest is damaged.
        ConfigError: a newer version made it.
    """
    try:
        fields = json.loads(read_plain(folder / MANIFEST_NAME, MANIFEST_MAX_BYTES))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise Unavailable(f"{folder} is no backup, or a half-made one: it has no {MANIFEST_NAME}") from error
    except (OSError, ValueError, RecursionError) as error:
        raise StorageDamaged(f"{folder / MANIFEST_NAME} cannot be read", error=str(error)) from error
    if isinstance(fields, dict) and isinstance(fields.get("format"), int) and fields["format"] > FORMAT:
        raise ConfigError("a newer version of Bascule made the backup", format=fields["format"], known=FORMAT)
    try:
        check = fields.pop("check")
        if check != _check(fields) or fields.pop("format") != FORMAT:
            raise ValueError("its checksum is another")
        backup: BackupManifest = build(BackupManifest, fields)
        _refuse_names(backup)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StorageDamaged(f"{folder / MANIFEST_NAME} is damaged", error=str(error)) from error
    return backup


def _refuse_names(backup: BackupManifest) -> None:
    """A manifest has no key: whoever holds the backup may have written it. So no name leads out of the folder that it is meant for.

    Raises:
        ValueError: one does, or there is no main file.
    """
    stored = [file.stored for file in backup.configuration if file.stored is not None]
    for name in (backup.snapshot, *backup.paused, *stored):
        if not is_plain_name(name):
            raise ValueError(f"{name!r:.60} is no name of a file")
    for name in [file.below for file in backup.configuration if file.below is not None]:
        if not is_plain_path(name):
            raise ValueError(f"{name!r:.60} does not lie below a folder")
    if not backup.configuration:
        raise ValueError("it has no configuration")


def faults(folder: Path, backup: BackupManifest) -> list[Fault]:
    """Differences between ``folder`` and all that ``backup`` should hold; every byte is read.

    Raises:
        StorageDamaged, ConfigError, Unavailable: its snapshot's manifest cannot be used.
        OSError: something cannot be read.
    """
    found = verify(folder / SNAPSHOT_NAME / backup.snapshot)
    for file in backup.configuration:
        if file.stored is None:
            continue
        entry = FileFacts(name=f"{CONFIGURATION_NAME}/{file.stored}", size_bytes=file.bytes, sha256=file.sha256)
        if file_problem(folder / entry.name, entry, content=True):
            found.append(Fault(name=entry.name, problem="is not what was written"))
    return found


def _check(fields: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
