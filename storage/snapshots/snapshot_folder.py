"""The folder of a node's snapshots: half-made ones become whole, old ones go, and what they take of the disk is known.

Everything here reads and writes files and may block: the supervisor calls it in a thread. Nobody else writes below the folder.

snapshots.named-when-whole [reports]: a folder with a snapshot's name has every file that its manifest names, synced: it gets the
    name last, by a rename. A half-made snapshot goes at the next start; a snapshot that is removed is half made first. One that is
    being copied, or read under ``held``, is not removed.
snapshots.read-by-owner-only [access]: nobody but the node's user reads them: folders are 0700, files 0600.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from storage import files
from storage.snapshots.manifest import (
    FORMAT,
    MANIFEST_NAME,
    PART_PREFIX,
    STORE_NAME,
    FileFacts,
    Manifest,
    age_key,
    is_half_made,
    node_of,
    read_manifest,
    sha256_of,
    snapshot_id,
)
from wire.errors import BasculeError, Unavailable
from wire.status.node_status import SnapshotFigures

FOLDER_NAME = "snapshots"
SHIPPED_NAME = ".shipped"

WORTH_BYTES = 1 << 20  # snapshots that take less than this give back nothing worth it

_BLOCK_BYTES = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The disk space of the snapshots: ``size_bytes`` of all their files, and of that ``own_bytes`` that the live store does not
    share."""

    count: int = 0
    size_bytes: int = 0
    own_bytes: int = 0


class SnapshotFolder:
    """The snapshots below ``path``, of the store in the folder ``store``.

    The oldest is the one that was made first. After a clock was set back, that is not the one with the earliest time.
    """

    def __init__(self, path: Path, store: Path, wall_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000) -> None:
        self.path = path
        self._store = store
        self._wall_ms = wall_ms

    @classmethod
    def of_data_dir(cls, data_dir: Path | str) -> Self:
        """That of the node whose data are in ``data_dir``."""
        return cls(Path(data_dir) / FOLDER_NAME, Path(data_dir) / "store")

    # --- making ---

    def begin(self, node: str, at_ms: int, number: int) -> Path:
        """The folder for a half-made snapshot; the checkpoint goes to ``store`` in it.

        Raises:
            OSError: it cannot be made.
            Unavailable: files of the store cannot be linked there: all would be copied, and the store would stand still meanwhile.
        """
        files.make_folder(self.path)
        self.path.chmod(0o700)
        part = self.path / f"{PART_PREFIX}{snapshot_id(node, at_ms, number)}"
        part.mkdir(mode=0o700)
        self._try_link(part)
        return part

    def _try_link(self, part: Path) -> None:
        linked = part / "link"
        try:
            os.link(self._store / "CURRENT", linked)
            linked.unlink()
        except OSError as error:
            if error.errno not in (errno.EXDEV, errno.EPERM, errno.EOPNOTSUPP):
                raise
            what = "the folder of snapshots must be on the store's file system, which must have hard links; to copies elsewhere"
            raise Unavailable(what, path=str(self.path), error=error.strerror) from error

    def finish(self, part: Path, fields: Mapping[str, Any]) -> Manifest:
        """Make the checkpoint in ``part`` a snapshot. fields: the manifest's, without ``id`` and ``files``.

        Raises:
            OSError, Unavailable: it stays half made.
        """
        name = snapshot_id(fields["node"], fields["at_ms"], fields["epoch"])
        known = self._known_files()
        entries = [self._entry(path, part, known) for path in sorted((part / STORE_NAME).rglob("*")) if not path.is_dir()]
        listed = [{"name": entry.name, "bytes": entry.size_bytes, "sha256": entry.sha256} for entry in entries]
        manifest = Manifest.of_fields({**fields, "format": FORMAT, "id": name, "files": listed})
        for folder in (*(path for path in part.rglob("*") if path.is_dir()), part):
            folder.chmod(0o700)
            files.sync(folder)
        files.write(part / MANIFEST_NAME, manifest.to_json())
        whole = self.path / name
        if whole.exists():
            raise Unavailable("a snapshot of that name is there already", path=str(whole))
        files.rename(part, whole)
        return manifest

    def discard(self, part: Path) -> None:
        """Remove what is half made.

        Raises:
            OSError: some of it is still there; ``clean`` tries again.
        """
        files.discard(part)

    def clean(self, *, keep: Path | None = None) -> list[str]:
        """Remove everything that is half made, left by a former life, but for ``keep``, which is being made; the names.

        Raises:
            OSError: some of it is still there.
        """
        if not self.path.exists():
            return []
        left = [path for path in self.path.iterdir() if is_half_made(path.name) and path.is_dir() and path != keep]
        for path in left:
            files.discard(path)
        return sorted(path.name for path in left)

    # --- what is there ---

    def names(self) -> list[str]:
        """The snapshots, the oldest first; whether they are sound is not looked at."""
        if not self.path.exists():
            return []
        names = [path.name for path in self.path.iterdir() if not is_half_made(path.name) and node_of(path.name) is not None]
        now_ms = self._wall_ms()
        return sorted(names, key=lambda name: age_key(name, now_ms))

    def manifests(self) -> Iterator[tuple[Path, Manifest]]:
        """Those that have a sound manifest, the oldest first."""
        for name in self.names():
            try:
                yield self.path / name, read_manifest(self.path / name)
            except (BasculeError, OSError):
                continue  # ``verify`` names it; it counts and goes like the others

    def shipped(self) -> set[str]:
        """The snapshots that are noted as shipped."""
        try:
            return set((self.path / SHIPPED_NAME).read_text().split())
        except FileNotFoundError:
            return set()

    def note_shipped(self, names: set[str]) -> None:
        """Note what is shipped; of snapshots that are gone nothing is kept.

        Raises:
            OSError: it cannot be noted.
        """
        files.write(self.path / SHIPPED_NAME, "".join(f"{name}\n" for name in self.names() if name in names).encode())

    def usage(self) -> Usage:
        """Their disk space. Files that several share count once."""
        names = self.names()
        seen = _inodes(self.path / name for name in names)
        live = _inodes([self._store])
        own_bytes = sum(size_bytes for inode, size_bytes in seen.items() if inode not in live)
        return Usage(count=len(names), size_bytes=sum(seen.values()), own_bytes=own_bytes)

    # --- the end of old ones ---

    def prune(self, *, keep: int, max_bytes: int | None, enough_free: Callable[[], bool]) -> list[tuple[str, str]]:
        """Remove the oldest while there are too many or they take too much; the newest stays as long as ``enough_free`` holds.

        Returns the names, and for each which limit it was: ``keep``, ``max_bytes`` or ``min_free_disk``.

        Raises:
            OSError: one cannot be removed.
        """
        removed = []
        names = self.names()
        for name in names:
            usage, newest = self.usage(), name == names[-1]
            if usage.count > keep and not newest:
                reason = "keep"
            elif max_bytes is not None and usage.own_bytes > max_bytes and not newest:
                reason = "max_bytes"
            elif usage.own_bytes >= WORTH_BYTES and not enough_free():
                reason = "min_free_disk"
            else:
                break
            if self.remove(name):
                removed.append((name, reason))
        return removed

    def remove(self, name: str) -> bool:
        """Remove the snapshot, unless it is ``held`` (snapshots.named-when-whole); whether it is gone.

        Raises:
            OSError: it is half removed; ``clean`` goes on.
        """
        part = self.path / f"{PART_PREFIX}{name}"
        with _locked(self.path / name, fcntl.LOCK_EX) as alone:
            if not alone:
                return False
            files.rename(self.path / name, part)
        files.discard(part)
        return True

    # --- inside ---

    def _known_files(self) -> dict[tuple[int, int], FileFacts]:
        """The files of the newest snapshot by device and inode: RocksDB never changes a table, so their checksums hold."""
        known: dict[tuple[int, int], FileFacts] = {}
        for name in reversed(self.names()):
            try:
                for entry in read_manifest(self.path / name).files:
                    status = (self.path / name / entry.name).stat()
                    if status.st_size == entry.size_bytes:
                        known[status.st_dev, status.st_ino] = entry
            except (BasculeError, OSError):
                known.clear()
                continue
            break
        return known

    @staticmethod
    def _entry(path: Path, part: Path, known: Mapping[tuple[int, int], FileFacts]) -> FileFacts:
        status = path.stat()
        path.chmod(0o600)
        earlier = known.get((status.st_dev, status.st_ino)) if status.st_nlink > 1 else None
        if earlier is not None and earlier.size_bytes == status.st_size:
            sha256 = earlier.sha256
        else:
            files.sync(path)
            sha256 = sha256_of(path)
        return FileFacts(name=path.relative_to(part).as_posix(), size_bytes=status.st_size, sha256=sha256)


@contextmanager
def held(snapshot: Path) -> Iterator[None]:
    """Nobody removes ``snapshot`` meanwhile (snapshots.named-when-whole); ends with the process at the latest.

    Raises:
        OSError: it is not there.
        Unavailable: it is being removed.
    """
    with _locked(snapshot, fcntl.LOCK_SH) as locked:
        if not locked or not (snapshot / MANIFEST_NAME).exists():
            raise Unavailable("the snapshot is being removed", path=str(snapshot))
        yield


@contextmanager
def alone(folder: Path) -> Iterator[bool]:
    """Whether nobody else works in ``folder``; nobody else does then, meanwhile.

    Raises:
        OSError: it is not there, or cannot be locked.
    """
    with _locked(folder, fcntl.LOCK_EX) as locked:
        yield locked


@contextmanager
def _locked(folder: Path, how: int) -> Iterator[bool]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, how | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)


def _inodes(folders: Iterable[Path]) -> dict[tuple[int, int], int]:
    """The files below ``folders`` by device and inode, and the space that each takes. Snapshots that go meanwhile are left out."""
    found: dict[tuple[int, int], int] = {}
    for folder in folders:
        for above, _, names in os.walk(folder):
            for name in names:
                try:
                    status = os.lstat(os.path.join(above, name))
                except FileNotFoundError:
                    continue
                found[status.st_dev, status.st_ino] = status.st_blocks * _BLOCK_BYTES
    return found


def figures_of(manifest: Manifest, path: Path, *, took_s: float | None = None, pause_ms: float | None = None) -> SnapshotFigures:
    """The snapshot at ``path``, for the status."""
    return SnapshotFigures(
        id=manifest.id,
        path=str(path),
        at_ms=manifest.at_ms,
        bytes=manifest.size_bytes,
        messages=sum(queue.depth for queue in manifest.queues),
        took_s=took_s,
        pause_ms=pause_ms,
    )
