"""The store's folder across openings: what is kept of damage, and how a store that was rebuilt takes the place of the damaged one.

Before a store is opened it is looked at, by reading alone (``engine``). So nothing has to be put back: no image is made, and none
can be taken for the store. A loss of power leaves either the old store in its place or a whole new one.

    <store>/SPARE             a copy of the MANIFEST, which cannot be rebuilt from anything else
    <store>.part              a new store that is being made of what can be read of a damaged one; it counts once it holds ``WHOLE``
    <store>.damaged-<time>    the files as they were when damage was found; for the operator to look at and to delete

Only files here; what opens them is the business of ``engine``, how far commits went that of ``commit_mark``.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
import shutil
import struct
import time
from pathlib import Path
from zlib import crc32

from storage import files
from storage.engine.commit_mark import MARK_NAME
from wire.errors import StorageDamaged, Unavailable

log = logging.getLogger("bascule")

SPARE_NAME = "SPARE"
PROBE_NAME = "PROBE"  # a file that comes and goes: whether the disk takes anything
WHOLE_NAME = "WHOLE"
DAMAGED_KEPT_MAX = 3
_SPARE = struct.Struct("<28sI")  # the MANIFEST's name, and the CRC-32 of the copy
_CURRENT = re.compile(rb"MANIFEST-\d{6,}\n")
_LEFT_OUT = ("LOCK", SPARE_NAME, PROBE_NAME, WHOLE_NAME)
_WRITTEN_ON = (MARK_NAME, "MANIFEST", "CURRENT", ".log")  # files that an open store does not leave as they are


class StoreFolder:
    """The folder of one store, and the images beside it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._part = path.with_name(path.name + ".part")
        self._spared = self._spare_check = 0
        self._manifest: Path | None = None
        self._before: dict[Path, bytes | None] = {}  # what was mended, as it was
        self._lock: int | None = None

    # --- around an opening ---

    def lock(self) -> None:
        """Take the folder for this object alone: what follows moves whole folders, under RocksDB's own lock.

        Raises:
            Unavailable: another has it.
            OSError: the disk refuses.
        """
        if self._lock is not None:
            return
        files.make_folder(self.path.parent)
        descriptor = os.open(self.path.with_name(self.path.name + ".lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise Unavailable("another process has the store", path=str(self.path)) from None
        self._lock = descriptor

    def unlock(self) -> None:
        """Others may have the folder."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def prepare(self) -> None:
        """A rebuilt store that was whole takes its place now, and one that was not goes.

        Raises:
            OSError: the disk refuses.
        """
        self._before = {}
        if (self._part / WHOLE_NAME).exists():
            self._take_place(keep=True)
        files.discard(self._part)
        if (self.path / WHOLE_NAME).exists():
            files.remove(self.path / WHOLE_NAME)

    def holds_a_store(self) -> bool:
        """Whether anything of a store is in the folder."""
        return self.path.exists() and any(
            entry.name == "CURRENT" or entry.name.startswith("MANIFEST-") or entry.suffix in (".sst", ".blob", ".log")
            for entry in self.path.iterdir()
        )

    def clear_unfinished(self) -> None:
        """Remove what is left of a store whose making was cut short: RocksDB takes anything without CURRENT for a new store.

        To be called where nothing was ever promised. Tables are never removed.

        Raises:
            OSError: the disk refuses.
        """
        left = [entry for entry in self.path.iterdir() if entry.name != MARK_NAME]
        if not any(entry.name == "CURRENT" or entry.suffix in (".sst", ".blob") for entry in left):
            for entry in left:
                entry.unlink()

    def rebuilding(self) -> Path:
        """A place for a new store that is to take the place of this one."""
        files.discard(self._part)
        files.make_folder(self._part)
        return self._part

    def rebuilt(self, *, keep: bool) -> str:
        """The new store is whole, synced and closed: it takes the place of the old one. ``keep`` that as evidence; where it is.

        Raises:
            OSError: the disk refuses; ``prepare`` goes on.
        """
        files.touch(self._part / WHOLE_NAME)
        return self._take_place(keep=keep)

    def keep_evidence(self) -> str:
        """Keep the files as they are because damage was met in them; where, or nothing if there are enough already."""
        kept = self._name_for_damage()
        if kept is None:
            return ""
        try:
            self._link_into(kept)
        except OSError as error:
            log.warning("store.evidence_not_kept", extra={"error": str(error)})
            shutil.rmtree(kept, ignore_errors=True)  # half of it would take the room that the disk may lack
            return ""
        return str(kept)

    # --- CURRENT and MANIFEST ---

    def check(self) -> None:
        """Look at what RocksDB would misjudge.

        Without CURRENT it takes a store for a new one. A damaged length in the MANIFEST it takes for the end of that, and knows
        nothing of the tables and families that come later, without a word.

        Raises:
            StorageDamaged: CURRENT is not what it should be, or its MANIFEST is not there or differs from the spare copy.
        """
        if not self.holds_a_store():
            return
        current = self._current()
        if current is None:
            raise StorageDamaged("the store's CURRENT is missing or damaged", path=str(self.path))
        if not current.exists():
            raise StorageDamaged("the store's MANIFEST is missing", path=str(current))
        spare = self._read_spare()
        if spare is not None and spare[0] == current.name:
            with current.open("rb") as written:
                if written.read(len(spare[1])) != spare[1]:
                    raise StorageDamaged("the store's MANIFEST is not what was written", path=str(current))

    def earlier_manifests(self) -> list[str]:
        """The MANIFESTs that are there besides the one that CURRENT names, the newest first; none if CURRENT names none."""
        current = self._current()
        return [] if current is None else [name for name in self._manifests() if name != current.name]

    def point_at(self, manifest: str) -> None:
        """Have CURRENT name ``manifest``."""
        self._mend(self.path / "CURRENT", manifest.encode() + b"\n")

    def mend_current(self) -> bool:
        """Point CURRENT at the newest MANIFEST; whether there is one."""
        for manifest in self._manifests():
            self.point_at(manifest)
            return True
        return False

    def mend_manifest(self) -> bool:
        """Put the spare copy over the MANIFEST, as far as it goes, and point CURRENT at it; whether there is a spare."""
        spare = self._read_spare()
        if spare is None:
            return False
        name, known = spare
        manifest = self.path / name
        written = manifest.read_bytes() if manifest.exists() else b""
        self._mend(manifest, known + written[len(known) :])
        self.point_at(name)
        return True

    def put_back(self) -> None:
        """The mending did not help: the folder is again as it was."""
        for path, content in self._before.items():
            if content is None:
                files.remove(path)
            else:
                files.write(path, content)
        self._before = {}

    def spare_manifest(self) -> None:
        """Bring the spare copy of the MANIFEST up to date; call it after an opening and now and then."""
        try:
            if self._manifest is None or not self._manifest.exists():  # RocksDB begins a new one now and then
                manifest = self._current()
                if manifest is None:
                    return
                (self.path / SPARE_NAME).write_bytes(b"")
                self._manifest, self._spared, self._spare_check = manifest, 0, 0
            if self._manifest.stat().st_size == self._spared:
                return
            with self._manifest.open("rb") as source, (self.path / SPARE_NAME).open("r+b") as spare:
                source.seek(self._spared)
                grown = source.read()
                os.fsync(source.fileno())  # what the spare has and the MANIFEST has not would look like damage
                self._spare_check = crc32(grown, self._spare_check)
                spare.write(_SPARE.pack(self._manifest.name.encode(), self._spare_check))
                spare.seek(_SPARE.size + self._spared)
                spare.write(grown)
            self._spared += len(grown)
        except OSError as error:
            log.warning("store.spare_failed", extra={"error": str(error)})
            self._manifest = None  # begin again

    def forget_manifest(self) -> None:
        """The store is closed: the next opening has another MANIFEST."""
        self._manifest = None

    # --- inside ---

    def _take_place(self, *, keep: bool) -> str:
        """Let the rebuilt store have the place; where the old one is kept. Cut short at any step, it is done again."""
        files.sync(self._part.parent)  # its own name: once the old store has lost the place, nothing else is there
        kept = self._name_for_damage() if keep and self.path.exists() else None
        if kept is not None:
            files.rename(self.path, kept)
        files.discard(self.path)
        files.rename(self._part, self.path)
        return "" if kept is None else str(kept)

    def _mend(self, path: Path, content: bytes) -> None:
        self._before.setdefault(path, path.read_bytes() if path.exists() else None)
        files.write(path, content)

    def _manifests(self) -> list[str]:
        """The names of all MANIFESTs, the newest first."""
        return sorted((path.name for path in self.path.glob("MANIFEST-*")), key=lambda name: (len(name), name), reverse=True)

    def _current(self) -> Path | None:
        try:
            current = (self.path / "CURRENT").read_bytes()
        except FileNotFoundError:
            return None
        return self.path / current.decode().strip() if _CURRENT.fullmatch(current) else None

    def _read_spare(self) -> tuple[str, bytes] | None:
        """The name and the copy of the MANIFEST; None if there is none, or it is damaged itself."""
        try:
            spare = (self.path / SPARE_NAME).read_bytes()
        except FileNotFoundError:
            return None
        if len(spare) <= _SPARE.size:
            return None
        name, check = _SPARE.unpack_from(spare)
        copy = spare[_SPARE.size :]
        if crc32(copy) != check or not _CURRENT.fullmatch(name.rstrip(b"\0") + b"\n"):
            log.warning("store.spare_damaged", extra={"path": str(self.path / SPARE_NAME)})
            return None
        return name.rstrip(b"\0").decode(), copy

    def _name_for_damage(self) -> Path | None:
        kept = sorted(self.path.parent.glob(self.path.name + ".damaged-*"))
        if len(kept) >= DAMAGED_KEPT_MAX:
            return None
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        name = self.path.with_name(f"{self.path.name}.damaged-{stamp}")
        return name if not name.exists() else name.with_name(f"{name.name}-{len(kept)}")

    def _link_into(self, target: Path) -> None:
        """Link the files into the new folder ``target``, and copy those that the store writes on."""
        target.mkdir(files.PRIVATE_FOLDER)
        for entry in self.path.iterdir():
            if entry.name in _LEFT_OUT or entry.name.startswith("LOG"):
                continue
            try:
                if entry.name.startswith(_WRITTEN_ON) or entry.name.endswith(_WRITTEN_ON):
                    shutil.copyfile(entry, target / entry.name)
                else:
                    os.link(entry, target / entry.name)
            except FileNotFoundError:
                continue  # an open store deleted it meanwhile
