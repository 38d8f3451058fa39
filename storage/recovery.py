"""The store's folder across openings: evidence of what was committed, an image to start again from, and what is kept of damage.

RocksDB ends its replay of the log silently at the first record that is damaged, and everything committed after it is gone without a
word. So a small file of our own, ``COMMITTED``, remembers how far commits went, and how far each queue; it is compared after every
opening. Before an opening, all files are linked aside (``<store>.opening``), so that it can be done again in another way.

    <store>/COMMITTED         the mark: the engine's number after the newest promised commit, and the tail of each queue
    <store>/SPARE             a copy of the MANIFEST, which cannot be rebuilt from anything else
    <store>.opening           the files as they were before the opening that goes on, or was cut short
    <store>.damaged-<time>    the files as they were when damage was found; for the operator to look at and to delete

Only files here; what opens them is the business of ``engine``.
"""

from __future__ import annotations

import fcntl
import logging
import mmap
import os
import re
import shutil
import struct
import time
from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

from wire.errors import StorageDamaged, Unavailable

log = logging.getLogger("bascule")

MARK_NAME = "COMMITTED"
SPARE_NAME = "SPARE"
PROBE_NAME = "PROBE"  # a file that comes and goes: whether the disk takes anything
MARK_SLOT_BYTES = 32 << 10  # two slots, written in turn: a power cut may tear the one being written
TAILS_MAX = 4000  # queues whose tails fit into a slot
DAMAGED_KEPT_MAX = 3
_MARK = struct.Struct("<QQBI")
_CHECK = struct.Struct("<I")
_SPARE = struct.Struct("<28sI")  # the MANIFEST's name, and the CRC-32 of the copy
_CURRENT = re.compile(rb"MANIFEST-\d{6,}\n")
_LEFT_OUT = ("LOCK", SPARE_NAME, PROBE_NAME)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the mark says: the engine's ``number`` after the newest promised commit, and each queue's tail then.

    synced: whether that commit had been synced, so that not even a power cut takes it back.
    """

    number: int
    synced: bool
    tails: Mapping[int, int]


class CommitMark:
    """The mark's file. Written after a promised commit, not synced by itself: it may lag behind the log, never lead.

    The kernel may write it back before the log. So a commit that is not synced leaves no mark where others are.
    """

    def __init__(self, folder: Path) -> None:
        descriptor = os.open(folder / MARK_NAME, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            missing = 2 * MARK_SLOT_BYTES - os.fstat(descriptor).st_size
            if missing > 0:  # blocks of its own, so that writing to the map needs no room on the disk
                os.pwrite(descriptor, bytes(missing), 2 * MARK_SLOT_BYTES - missing)
            self._map = mmap.mmap(descriptor, 2 * MARK_SLOT_BYTES)
        finally:
            os.close(descriptor)
        self._generation = 0
        self._tails = array("Q")
        self.damaged = False
        self.evidence = self._read()

    def write(self, number: int, tails: Mapping[int, int], *, synced: bool) -> None:
        """Remember that commits went to ``number`` and queues to ``tails``; a few microseconds at most, and no system call."""
        known = self._tails
        for queue, tail in tails.items():
            if queue >= len(known):
                known.extend([0] * (min(queue + 1, TAILS_MAX) - len(known)))
            if queue < TAILS_MAX:
                known[queue] = tail
        self._generation += 1
        body = _MARK.pack(self._generation, number, synced, len(known)) + known.tobytes()
        at = MARK_SLOT_BYTES * (self._generation & 1)
        self._map[at : at + _CHECK.size + len(body)] = _CHECK.pack(crc32(body)) + body

    def close(self) -> None:
        """Release the file."""
        self._map.close()

    def _read(self) -> Evidence | None:
        found: Evidence | None = None
        for slot in range(2):
            at = MARK_SLOT_BYTES * slot
            head = self._map[at : at + _CHECK.size + _MARK.size]
            if not any(head):
                continue
            generation, number, synced, count = _MARK.unpack_from(head, _CHECK.size)
            tails = self._map[at + len(head) : at + len(head) + 8 * min(count, TAILS_MAX)]
            if crc32(tails, crc32(head[_CHECK.size :])) != _CHECK.unpack_from(head)[0]:
                self.damaged = True
            elif generation > self._generation:
                self._generation = generation
                self._tails = array("Q", tails)
                found = Evidence(number, bool(synced), {queue: tail for queue, tail in enumerate(self._tails) if tail})
        return found


class StoreFolder:
    """The folder of one store, and the images beside it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._opening = path.with_name(path.name + ".opening")
        self._spared = self._spare_check = 0
        self._manifest: Path | None = None
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
        self.path.parent.mkdir(parents=True, exist_ok=True)
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

    def set_aside(self) -> None:
        """Link the files aside before they are opened. An opening that was cut short left its image: that one counts.

        Raises:
            OSError: the disk refuses.
        """
        self._remove(self._part)
        if self._opening.exists():
            log.warning("store.opening_was_cut_short", extra={"path": str(self.path)})
            self.restore()
            return
        self.path.mkdir(parents=True, exist_ok=True)
        if self._holds_a_store():
            self._link_into(self.path, self._part, copied=())  # an opening writes into none of its files: it makes new ones
            self._part.rename(self._opening)

    def restore(self) -> None:
        """Make the folder again what it was before the opening."""
        if not self._opening.exists():
            return
        self._remove(self._part)
        self._link_into(self._opening, self._part, copied=(MARK_NAME,))
        spare = self.path / SPARE_NAME
        if spare.exists():
            spare.rename(self._part / SPARE_NAME)
        self._remove(self.path)
        self._part.rename(self.path)

    def rebuilding(self) -> Path:
        """A place for a new store that is to take the place of this one."""
        self._remove(self._part)
        return self._part

    def rebuilt(self) -> None:
        """The new store is whole and closed: it takes the place of the old one, whose image still stands."""
        assert self._opening.exists(), "a crash between the two steps below is mended from the image"
        self._remove(self.path)
        self._part.rename(self.path)

    def opened(self, *, keep: bool) -> str:
        """The opening is done: forget the image, or ``keep`` it as evidence of damage; where it is kept."""
        if not self._opening.exists():
            return ""
        kept = self._name_for_damage() if keep else None
        if kept is None:
            self._remove(self._part)
            self._opening.rename(self._part)  # half an image must never be taken for one
            self._remove(self._part)
            return ""
        self._opening.rename(kept)
        return str(kept)

    def keep_evidence(self) -> str:
        """Link the files of the open store aside because damage was met in them; where, or nothing if there are enough already."""
        kept = self._name_for_damage()
        if kept is None:
            return ""
        try:
            self._link_into(self.path, kept, copied=(MARK_NAME, "MANIFEST", "CURRENT", ".log"))
        except OSError as error:
            log.warning("store.evidence_not_kept", extra={"error": str(error)})
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
        if not self._holds_a_store():
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

    def mend_current(self) -> bool:
        """Point CURRENT at the newest MANIFEST; whether there is one."""
        manifests = sorted(self.path.glob("MANIFEST-*"), key=lambda path: (len(path.name), path.name))
        if not manifests:
            return False
        self._replace(self.path / "CURRENT", manifests[-1].name.encode() + b"\n")
        return True

    def mend_manifest(self) -> bool:
        """Put the spare copy over the MANIFEST, as far as it goes, and point CURRENT at it; whether there is a spare."""
        spare = self._read_spare()
        if spare is None:
            return False
        name, known = spare
        manifest = self.path / name
        written = manifest.read_bytes() if manifest.exists() else b""
        self._replace(manifest, known + written[len(known) :])
        self._replace(self.path / "CURRENT", name.encode() + b"\n")
        return True

    def spare_manifest(self) -> None:
        """Bring the spare copy of the MANIFEST up to date; call it after an opening and now and then."""
        try:
            if self._manifest is None:
                manifest = self._current()
                if manifest is None:
                    return
                self._replace(self.path / SPARE_NAME, b"")
                self._manifest, self._spared, self._spare_check = manifest, 0, 0
            if self._manifest.stat().st_size == self._spared:
                return
            with self._manifest.open("rb") as source, (self.path / SPARE_NAME).open("r+b") as spare:
                source.seek(self._spared)
                grown = source.read()
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

    @property
    def _part(self) -> Path:
        return self.path.with_name(self.path.name + ".part")

    def _holds_a_store(self) -> bool:
        return self.path.exists() and any(
            entry.name == "CURRENT" or entry.name.startswith("MANIFEST-") or entry.suffix in (".sst", ".blob", ".log")
            for entry in self.path.iterdir()
        )

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

    @staticmethod
    def _link_into(source: Path, target: Path, *, copied: tuple[str, ...]) -> None:
        """Link the files of ``source`` into the new folder ``target``; those that begin or end as ``copied`` says are copied."""
        target.mkdir()
        for entry in source.iterdir():
            if entry.name in _LEFT_OUT or entry.name.startswith("LOG"):
                continue
            try:
                if copied and (entry.name.startswith(copied) or entry.name.endswith(copied)):
                    shutil.copyfile(entry, target / entry.name)
                else:
                    os.link(entry, target / entry.name)
            except FileNotFoundError:
                continue  # an open store deleted it meanwhile

    @staticmethod
    def _replace(path: Path, content: bytes) -> None:
        """Write a new file at ``path``: the old one may be linked in an image."""
        path.unlink(missing_ok=True)
        path.write_bytes(content)

    @staticmethod
    def _remove(path: Path) -> None:
        if path.exists():
            shutil.rmtree(path)
