"""Copies a snapshot to another folder, file by file, so that a copy that was cut short goes on where it was.

``<folder>/<id>.part`` becomes ``<folder>/<id>`` once every file is there and synced; the manifest is written last. Files that are
there already are not copied again: a file of the same part with the right size and checksum stays; a file that the newest earlier
snapshot of the node has under the same name, with the same checksum by its manifest, is linked, or copied where links cannot be
made; and so is one of an older part of the node, which goes afterwards.

snapshots.copy-is-whole [reports]: ``<folder>/<id>`` is whole, whenever and however a copy was cut. Two copies never work on the
    same part: the second one is refused. A copied file is read once, and its checksum compared with the manifest's while it is:
    damage is never passed on.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from storage import files
from storage.snapshots.manifest import (
    MANIFEST_NAME,
    PART_SUFFIX,
    READ_BYTES,
    FileFacts,
    Manifest,
    age_key,
    file_problem,
    is_half_made,
    node_of,
    read_manifest,
)
from storage.snapshots.snapshot_folder import alone, held
from wire.errors import BasculeError, StorageDamaged, Unavailable


@dataclass(slots=True)
class CopiedSnapshot:
    """The result of a copy: bytes written, bytes that were there, linked or left by an earlier attempt; where the snapshot is
    now."""

    path: Path
    copied_bytes: int = 0
    kept_bytes: int = 0
    already_there: bool = False


def copy_snapshot(source: Path, folder: Path, *, on_progress: Callable[[int, int], None] | None = None) -> CopiedSnapshot:
    """Copy the snapshot ``source`` into ``folder``, which is made if need be; a repetition goes on where the last one was cut.

    on_progress: told how many bytes of how many are there.

    Raises:
        Unavailable: the folder or the disk refuses, or another copy of it is under way. DiskFull: there is no room.
        StorageDamaged: the snapshot is damaged; ConfigError: a newer version made it.
    """
    try:
        with held(source):
            return _Copy(source, read_manifest(source), folder, on_progress).run()
    except OSError as error:
        raise files.unwritable(folder, error) from error


def prune_target(folder: Path, node: str, keep: int, now_ms: int) -> list[str]:
    """Remove the oldest copies of ``node``'s snapshots beyond ``keep``; their names. Those of other nodes are left alone.

    now_ms: the wall clock of the node, which may have been set back.

    Raises:
        OSError: one cannot be removed.
    """
    own = sorted((path for path, _ in _whole(folder, node)), key=lambda path: age_key(path.name, now_ms))
    removed = []
    for path in own[: max(0, len(own) - keep)]:
        part = path.with_name(path.name + PART_SUFFIX)
        with alone(path) as locked:
            if not locked:
                continue
            files.rename(path, part)  # half removed must never be taken for whole
        files.discard(part)
        removed.append(path.name)
    return removed


class _Copy:
    """One copy of one snapshot."""

    def __init__(self, source: Path, manifest: Manifest, folder: Path, on_progress: Callable[[int, int], None] | None) -> None:
        self._source = source
        self._manifest = manifest
        self._folder = folder
        self._part = folder / f"{manifest.id}{PART_SUFFIX}"
        self._whole = folder / manifest.id
        self._on_progress = on_progress
        self._links = True  # until the target says otherwise
        self._copied = CopiedSnapshot(self._whole)

    def run(self) -> CopiedSnapshot:
        _make(self._folder)
        if self._is_there():
            self._copied.already_there = True
            self._remove_older_parts()
            return self._copied
        _make(self._part)
        with alone(self._part) as locked:
            if not locked:
                raise Unavailable("another copy of the snapshot is under way", path=str(self._part))
            if self._part.exists():  # else the other copy has ended since
                self._fill()
            elif not self._is_there():
                raise Unavailable("another copy of the snapshot has failed meanwhile", path=str(self._part))
        return self._copied

    def _is_there(self) -> bool:
        if not self._whole.exists():
            return False
        there = read_manifest(self._whole)
        if there.files != self._manifest.files:
            raise Unavailable("another snapshot of that name is there", path=str(self._whole))
        return True

    def _fill(self) -> None:
        self._remove_foreign()
        earlier = self._earlier_files()
        done, total = 0, self._manifest.size_bytes
        for entry in self._manifest.files:
            self._bring(entry, earlier.get((entry.name, entry.sha256, entry.size_bytes)))
            done += entry.size_bytes
            if self._on_progress is not None:
                self._on_progress(done, total)
        for folder in (path for path in self._part.rglob("*") if path.is_dir()):
            files.sync(folder)
        files.write(self._part / MANIFEST_NAME, self._manifest.to_json())
        files.rename(self._part, self._whole)
        self._remove_older_parts()

    def _bring(self, entry: FileFacts, earlier: tuple[Path, bool] | None) -> None:
        """Have ``entry`` in the part. earlier: where the same file may be, and whether a whole snapshot vouches for it."""
        target = self._part / entry.name
        if not file_problem(target, entry, content=True):
            self._copied.kept_bytes += entry.size_bytes
            return
        _make(target.parent)
        target.unlink(missing_ok=True)
        if earlier is not None and self._link(earlier[0], target, entry, vouched=earlier[1]):
            self._copied.kept_bytes += entry.size_bytes
            return
        self._copy(self._source / entry.name, target, entry)
        self._copied.copied_bytes += entry.size_bytes

    def _link(self, earlier: Path, target: Path, entry: FileFacts, *, vouched: bool) -> bool:
        if not self._links or file_problem(earlier, entry, content=not vouched):
            return False
        try:
            os.link(earlier, target)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
                raise
            self._links = error.errno == errno.EMLINK  # that file has links enough; or else this file system has none
            return False
        return True

    @staticmethod
    def _copy(source: Path, target: Path, entry: FileFacts) -> None:
        digest, size_bytes = hashlib.sha256(), 0
        with source.open("rb", buffering=0) as reading, files.replacing(target) as writing:
            while part := reading.read(READ_BYTES):
                digest.update(part)
                size_bytes += len(part)
                writing.write(part)
            if size_bytes != entry.size_bytes or digest.hexdigest() != entry.sha256:
                raise StorageDamaged("a file of the snapshot is damaged, so the snapshot is not copied", path=str(source))

    def _remove_foreign(self) -> None:
        """Files in the part that are not of the snapshot, such as one that a crash left under another name."""
        stated = {entry.name for entry in self._manifest.files}
        for path in [path for path in self._part.rglob("*") if not path.is_dir() or path.is_symlink()]:
            if path.is_symlink() or path.relative_to(self._part).as_posix() not in stated:
                path.unlink()

    def _earlier_files(self) -> dict[tuple[str, str, int], tuple[Path, bool]]:
        """Files that may be linked, by name, checksum and size; where each is, and whether a whole snapshot vouches for it."""
        earlier: dict[tuple[str, str, int], tuple[Path, bool]] = {}
        mine = {entry.name: entry for entry in self._manifest.files}
        for part in self._older_parts():
            for name, entry in mine.items():
                if (part / name).exists():
                    earlier[name, entry.sha256, entry.size_bytes] = part / name, False
        for path, manifest in _whole(self._folder, self._manifest.node)[-1:]:
            for entry in manifest.files:
                earlier[entry.name, entry.sha256, entry.size_bytes] = path / entry.name, True
        return earlier

    def _older_parts(self) -> Iterator[Path]:
        """Half-made copies of the node's snapshots from earlier attempts; this one takes their place."""
        for path in sorted(self._folder.iterdir()):
            bare = path.name.removesuffix(PART_SUFFIX)
            if bare != path.name and bare < self._manifest.id and node_of(bare) == self._manifest.node:
                yield path

    def _remove_older_parts(self) -> None:
        for part in self._older_parts():
            with contextlib.suppress(OSError), alone(part) as locked:
                if locked:
                    files.discard(part)


def _whole(folder: Path, node: str) -> list[tuple[Path, Manifest]]:
    """The snapshots of ``node`` in ``folder`` that have a sound manifest, the oldest first."""
    found = []
    for path in folder.iterdir():
        if is_half_made(path.name) or node_of(path.name) != node:
            continue
        with contextlib.suppress(BasculeError, OSError):
            found.append((path, read_manifest(path)))
    return sorted(found, key=lambda each: (each[1].at_ms, each[0].name))


def _make(folder: Path) -> None:
    """The folder exists; if it is new, it is its owner's only, and synced."""
    if not folder.is_dir():
        files.make_folder(folder)
