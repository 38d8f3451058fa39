"""A store is opened, whatever state its folder is in, and it is found out whether everything that was promised is there.

``store_folder`` mends the files, ``commit_mark`` has the mark of what was promised. Here is what is tried, in which order.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from storage import files
from storage.engine.commit_mark import CommitMark, Evidence
from storage.engine.rocksdb_errors import TRANSLATED, translate
from storage.engine.store_folder import StoreFolder
from storage.engine.store_identity import CURE, KnownStore, OpenFolder, StoreNote
from wire.errors import StorageDamaged, StoreGone, Unavailable

log = logging.getLogger("bascule")


class Database(Protocol):
    """The database to open."""

    @property
    def is_open(self) -> bool: ...

    def open(self, *, tolerant: bool, salvage: bool) -> None: ...

    def close(self) -> None: ...

    def number(self, *, sync: bool = False) -> int: ...

    def probe(self, *, tolerant: bool) -> tuple[int, str]: ...

    def identity(self) -> str: ...

    def copy_to(self, target: Path) -> int: ...


class StoreOpening:
    """The opening of one store.

    missing: what was committed once, if less than that was found. kept: where damaged files are kept as they were. tolerant:
    whether a damaged table is opened, and a damaged block does not stop all writing. owed: whether the first commit puts on record
    that commits are missing. known: what the note beside the store says.
    """

    def __init__(self, path: Path, database: Database, *, begins: bool = True) -> None:
        """begins: where there is no note a new store may be made, or what is there be taken for the one that is meant."""
        self.missing: Evidence | None = None
        self.kept = ""
        self.tolerant = False
        self.owed = False
        self.folder = StoreFolder(path)
        self._path = path
        self._database = database
        self._mark: CommitMark | None = None
        self._begins = begins
        self._note = StoreNote(path)
        self._open_folder: OpenFolder | None = None
        self._number = 0  # how far the store had gone when it was synced last
        self._promised = False  # something was, since it was opened

    @property
    def known(self) -> KnownStore:
        return self._note.known or KnownStore()

    def open(self) -> None:
        """Open the folder, whatever state it is in, and look whether everything that was promised is there.

        Raises:
            StoreGone: the store is not there, or another one is (engine.own-store-only).
            Unavailable: the disk refuses, or another process has the store.
            StorageDamaged: nothing opens it; its files are as they were.
        """
        self.missing, self.owed, self._promised = None, False, False
        with TRANSLATED:
            self._note.read()
            if self._note.known is None and not self._begins:
                raise self._gone("there is no note of it, and no sign of it, in its data folder")
            self.folder.lock()
            self.folder.prepare()
            if self.known.number and not self.folder.holds_a_store():
                raise self._gone("there is nothing of a store in its folder")
            files.make_folder(self._path)
            self._mark = CommitMark(self._path)
            unmarked = self._mark.evidence is None
            if unmarked and not (self._mark.damaged or self.known.number):
                self.folder.clear_unfinished()
        if self._mark.damaged or (unmarked and self.known.number):
            log.warning("store.mark_damaged", extra={"path": str(self._path)})
        self._open_somehow(self._mark)
        if self.tolerant:
            self._rebuild()
        self.folder.spare_manifest()
        with TRANSLATED:
            self._open_folder = OpenFolder(self._path)
            self._number = self._database.number(sync=True)
            self.note(self.known.waiting, durable=True)

    def close(self) -> None:
        """Close the database and what goes with it."""
        if self._mark is not None:
            self._mark.close()
            self._mark = None
        if self._database.is_open:
            self.folder.spare_manifest()
        if self._open_folder is not None:
            self._open_folder.close()
            self._open_folder = None
        self._note.close()
        self.folder.forget_manifest()
        self._database.close()
        self.folder.unlock()

    def promise(self, number: int, tails: Mapping[int, int], *, synced: bool) -> None:
        """All up to ``number`` is promised; ``tails``: how far the queues go that were changed, by number.

        Raises:
            Unavailable: the disk refuses.
        """
        if self._mark is not None:
            try:
                self._mark.write(number, tails, synced=synced)
            except OSError as error:
                translate(error)
                raise
        self.owed = False
        if synced:
            self._number = number
        if not self._promised:  # from here on a copy of before this opening is an older one
            with TRANSLATED:
                self._number = max(number, self._database.number(sync=True))
                self.note(self.known.waiting, durable=True)
            self._promised = True
        if self._open_folder is not None and (fault := self._open_folder.fault()):  # as ``check``, for each commit
            raise self._gone(fault)

    def tolerate(self) -> None:
        """Damage was met: from now on the store is opened so that it bears with it."""
        self.tolerant = True

    def check(self) -> None:
        """See that what was written is in files that the next opening finds (engine.files-there).

        Raises:
            StoreGone: it is not. This process must end: RocksDB goes by names, and would write to what has them now.
        """
        if self._open_folder is not None and (fault := self._open_folder.fault()):
            raise self._gone(fault)

    def note(self, waiting: int, *, durable: bool) -> None:
        """Note beside the store how far it is, with ``waiting`` messages.

        Raises:
            OSError: the disk refuses.
        """
        known, inside = self.known, self._database.identity()
        now = inside or known.store, self._number, waiting
        if self._note.known is None or now != (known.store, known.number, known.waiting):
            now_ms = time.time_ns() // 1_000_000
            found = replace(known, store=now[0], number=now[1], waiting=waiting, noted_ms=now_ms)
            self._note.write(replace(found, since_ms=known.since_ms or now_ms), durable=durable)

    def _gone(self, why: str) -> StoreGone:
        return StoreGone(f"the {self.known} is not here: {why}. {CURE}", path=str(self._path))

    def _compare(self, number: int, identity: str) -> None:
        """The store in the folder goes up to ``number``.

        Raises:
            StoreGone: it is another than the note's, or an older one.
        """
        known = self.known
        if known.store and identity != known.store:
            raise self._gone(f"store {identity[:8] or 'without a name'} is in its place")
        if number < known.number:
            raise self._gone(f"an older copy of it is in its place, which ends at commit {number} and not at {known.number}")

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
            "the store cannot be opened; its files are as they were: put back a copy of the folder, or begin a new one:"
            " bascule run CONFIG --new-store",
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
        evidence, (replayed, identity) = mark.evidence, (0, "")
        if there := self.folder.holds_a_store():
            replayed, identity = self._database.probe(tolerant=tolerant)
        short = evidence is not None and replayed < evidence.number
        if there and not (short and not identity):  # then it was among the commits that are missing
            self._compare(max(replayed, evidence.number if evidence is not None else 0), identity)
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
        backlog, once. If it cannot be done (no room, or ``meta`` cannot be read) the store is used as it is.
        """
        try:
            with TRANSLATED:
                target = self.folder.rebuilding()
            number = self._database.copy_to(target)
            self._database.close()
            with TRANSLATED:
                self._note.write(replace(self.known, number=1), durable=True)  # the rebuilt store counts anew
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
