"""A store is opened, whatever state its folder is in, and it is found out whether everything that was promised is there.

What mends the files is ``store_folder``'s, the mark of what was promised ``commit_mark``'s. Here is what is tried, in which order.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from storage.engine.commit_mark import CommitMark, Evidence
from storage.engine.rocksdb_errors import TRANSLATED
from storage.engine.store_folder import StoreFolder
from wire.errors import StorageDamaged, Unavailable

log = logging.getLogger("bascule")


class Database(Protocol):
    """What is opened."""

    @property
    def is_open(self) -> bool: ...

    def open(self, *, tolerant: bool, salvage: bool) -> None: ...

    def close(self) -> None: ...

    def number(self, *, sync: bool = False) -> int: ...

    def look(self, *, tolerant: bool) -> int: ...

    def copy_to(self, target: Path) -> int: ...


class StoreOpening:
    """The opening of one store.

    missing: what was committed once, if less than that was found. kept: where damaged files are kept as they were. tolerant:
    whether a damaged table is opened, and a damaged block does not stop all writing. owed: whether the first commit puts on record
    that commits are missing.
    """

    def __init__(self, path: Path, database: Database) -> None:
        self.missing: Evidence | None = None
        self.kept = ""
        self.tolerant = False
        self.owed = False
        self.folder = StoreFolder(path)
        self._path = path
        self._database = database
        self._mark: CommitMark | None = None

    def open(self) -> None:
        """Open the folder, whatever state it is in, and look whether everything that was promised is there.

        Raises:
            Unavailable: the disk refuses, or another process has the store.
            StorageDamaged: nothing opens it; its files are as they were.
        """
        self.missing, self.owed = None, False
        with TRANSLATED:
            self.folder.lock()
            self.folder.prepare()
            self._mark = CommitMark(self._path)
            if self._mark.evidence is None and not self._mark.damaged:
                self.folder.begin_anew()
        if self._mark.damaged:
            log.warning("store.mark_damaged", extra={"path": str(self._path)})
        self._open_somehow(self._mark)
        if self.tolerant:
            self._rebuild()
        self.folder.spare_manifest()

    def close(self) -> None:
        """Close the database and what goes with it."""
        if self._mark is not None:
            self._mark.close()
            self._mark = None
        if self._database.is_open:
            self.folder.spare_manifest()
        self.folder.forget_manifest()
        self._database.close()
        self.folder.unlock()

    def promise(self, number: int, tails: Mapping[int, int], *, synced: bool) -> None:
        """All up to ``number`` is promised; ``tails``: how far the queues go that were changed, by number."""
        if self._mark is not None:
            self._mark.write(number, tails, synced=synced)
        self.owed = False

    def keep_evidence(self) -> str:
        """Keep, once, the files as they are because damage was met in them; where, or nothing."""
        if not self.kept:
            self.kept = self.folder.keep_evidence()
        return self.kept

    def _open_somehow(self, mark: CommitMark) -> None:
        """Open the database, mending CURRENT and MANIFEST or bearing with a damaged table if need be."""
        try:
            self._open_as(mark, tolerant=self.tolerant)
        except StorageDamaged as error:
            self._database.close()
            if not self._open_as_before(mark):
                self._open_damaged(mark, error)

    def _open_as_before(self, mark: CommitMark) -> bool:
        """Open the store as an earlier MANIFEST has it, if that has all that was promised; whether one has.

        RocksDB names the tables of an opening, its MANIFEST and CURRENT, and syncs the folder once, at the end. So a loss of power
        may leave CURRENT without what it leads to. All that was there before is there then, since nothing is removed earlier.
        """
        folder = self.folder
        for manifest in folder.earlier_manifests():
            try:
                with TRANSLATED:
                    folder.point_at(manifest)
                self._open_as(mark, tolerant=False, whole=True)
            except StorageDamaged:
                self._database.close()
                with TRANSLATED:
                    folder.put_back()
                continue
            log.warning("store.opening_was_cut_short", extra={"path": str(self._path), "manifest": manifest})
            return True
        return False

    def _open_damaged(self, mark: CommitMark, damage: StorageDamaged) -> None:
        """Try what may help, one after the other; the files that are changed are kept as they are first."""
        folder = self.folder
        self._keep_damaged()
        for mend in (folder.mend_current, folder.mend_manifest, None):
            try:
                with TRANSLATED:
                    folder.put_back()
                    if mend is not None and not mend():
                        continue
                self._open_as(mark, tolerant=mend is None or self.tolerant)
            except StorageDamaged:
                self._database.close()
                continue
            how = "tolerated" if mend is None else mend.__name__
            log.critical("store.damaged", extra={"path": str(self._path), "error": str(damage), "remedy": how})
            return
        with TRANSLATED:
            folder.put_back()
        raise StorageDamaged(
            "the store cannot be opened; its files are as they were: put back a copy of the folder, or move it away to start empty",
            path=str(self._path),
            cause=str(damage),
        ) from damage

    def _open_as(self, mark: CommitMark, *, tolerant: bool, whole: bool = False) -> None:
        """Open the database; where its log ends before what ``mark`` says, without the records of the log that are damaged.

        That is known before anything is changed, and written down: such an opening takes the damage out of the files. whole: it is
        not opened then.

        Raises:
            StorageDamaged: it cannot be opened, or not whole. Nothing is changed.
        """
        with TRANSLATED:
            self.folder.check()
        evidence, replayed = mark.evidence, self._database.look(tolerant=tolerant) if self.folder.holds_a_store() else 0
        short = evidence is not None and replayed < evidence.number
        if short and whole:
            raise StorageDamaged("commits are missing", path=str(self._path))
        if short and not mark.owed:
            self._keep_damaged()
            with TRANSLATED:
                mark.owe()
        if mark.owed:
            self.missing, self.owed = evidence, True
        self._database.open(tolerant=tolerant, salvage=short)
        self.tolerant = tolerant
        if evidence is not None and short:
            facts = {"expected": evidence.number, "replayed": replayed, "synced": evidence.synced}
            with TRANSLATED:
                salvaged = self._database.number()
            log.critical("store.commits_missing", extra={"path": str(self._path), "salvaged": salvaged, **facts})

    def _keep_damaged(self) -> None:
        kept = self.keep_evidence() or "nowhere: enough are kept already"
        log.critical("store.damaged_files_kept", extra={"path": kept})

    def _rebuild(self) -> None:
        """Copy what can be read into a new store, which takes the place of this one.

        RocksDB cannot compact over a damaged block: its tables would pile up until it stops all writing. This takes time with the
        backlog, once. Where it cannot be done (no room, or ``meta`` cannot be read) the store is used as it is.
        """
        try:
            with TRANSLATED:
                target = self.folder.rebuilding()
            number = self._database.copy_to(target)
            self._database.close()
            with TRANSLATED:
                self._take_place(target, number)
        except (StorageDamaged, Unavailable) as error:
            log.critical("store.not_rebuilt", extra={"path": str(self._path), "error": str(error)})
            if not self._database.is_open:
                raise
            with TRANSLATED:
                self.folder.rebuilding()  # what was copied takes no room
            return
        self._database.open(tolerant=False, salvage=False)
        self.tolerant = False
        log.critical("store.rebuilt", extra={"path": str(self._path)})

    def _take_place(self, rebuilt: Path, number: int) -> None:
        """Let the ``rebuilt`` store, whose own number is given, have the place of this one, with its mark."""
        mark, self._mark = self._mark, None
        assert mark is not None
        try:
            mark.copy_to(rebuilt, number)
        finally:
            mark.close()
        kept = self.folder.rebuilt(keep=not self.kept)
        if kept:
            log.critical("store.damaged_files_kept", extra={"path": kept})
        self.kept = kept or self.kept
        self._mark = CommitMark(self._path)
