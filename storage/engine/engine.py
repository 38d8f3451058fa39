"""The key-value engine under Tier 1: one protocol, and RocksDB behind it. The only user of rocksdict.

A ``Write`` gathers what must become durable together; ``commit`` makes it so and only then runs its callbacks: memory follows disk.
The meaning of keys and values is the business of the modules above (``keys``, ``chunk``, ``queue``).

rocksdict has traps, and this module steps around them: an iterator ends silently on a damaged block (so ``scan`` asks for its
status), an upper bound is a bare pointer (so it stays in the frame), ``write`` holds the interpreter while it syncs (so
``flush_wal`` does the syncing) and while it waits for tables (so it does not wait), and a database is released only when every
handle is gone.
"""

from __future__ import annotations

import logging
import os
import resource
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from time import perf_counter, sleep
from typing import Any, Literal, NamedTuple, Protocol

from rocksdict import (
    AccessType,
    BlockBasedOptions,
    BottommostLevelCompaction,
    Cache,
    Checkpoint,
    CompactOptions,
    DBCompressionType,
    DBRecoveryMode,
    Options,
    Rdict,
    ReadOptions,
    WriteBatch,
    WriteOptions,
)

from storage.engine.commit_mark import Evidence
from storage.engine.dead_bytes import STEP_BYTES, DeadBytes, are_small
from storage.engine.disk_reserve import Reserve
from storage.engine.readable_around_damage import readable
from storage.engine.rocksdb_errors import TRANSLATED, RocksdbStalled
from storage.engine.store_folder import PROBE_NAME
from storage.engine.store_identity import IDENTITY_KEY, KnownStore
from storage.engine.store_opening import StoreOpening
from wire.errors import BasculeError, DiskFull, StorageDamaged, Unavailable
from wire.frames.placement import tables_open_max
from wire.status.store import RocksFigures

log = logging.getLogger("bascule")

Family = Literal["msg", "history", "meta"]
Operation = tuple[str, Family, bytes, bytes]
Scan = Callable[[Family, bytes, bytes], Iterator[tuple[bytes, bytes]]]
FAMILIES: tuple[Family, ...] = ("msg", "history", "meta")  # one that an older store has not is made when it is opened

MEMTABLE_BYTES = 16 << 20  # bounds what a restart replays
WAL_MAX_BYTES = 48 << 20
BLOCK_CACHE_BYTES = 32 << 20
RECYCLED_LOGS = 3  # a log written over needs no new blocks: a sync takes a third of the time, half of the CPU
KEY_BYTES: dict[Family, int] = {"msg": 12, "history": 13, "meta": 0}  # of the longest keys; 0: none may be lost
COPY_BYTES = 1 << 20
TABLES_WAITING_MAX = 36  # to be merged; RocksDB takes no write with more
STALL_LOOK_S = 0.002
PROBE_BYTES = 16 << 10  # opening the store takes more, but for a moment it cannot be read then
LOG_MAX_BYTES = 1 << 20  # of what RocksDB does; each table that it writes is told there
MANIFEST_MAX_BYTES = 4 << 20  # which tables came and went; then it starts again with those that are there
LEVELS = 7
BLOB_MERGES = 8  # each writes what is alive in the oldest quarter of the blob files into new ones
# Figures of ``status``, and what RocksDB calls them: those that each family has of its own, and those of the whole.
FAMILY_PROPERTIES = {
    "blob_bytes": "rocksdb.live-blob-file-size",
    "blob_files": "rocksdb.num-blob-files",
    "compaction_pending_bytes": "rocksdb.estimate-pending-compaction-bytes",
    "keys": "rocksdb.estimate-num-keys",
    "live_bytes": "rocksdb.estimate-live-data-size",
    "memtable_bytes": "rocksdb.cur-size-all-mem-tables",
    "memtables_waiting": "rocksdb.num-immutable-mem-table",
    "table_bytes": "rocksdb.live-sst-files-size",
    "table_readers_bytes": "rocksdb.estimate-table-readers-mem",
}
PROPERTIES = {
    "background_errors": "rocksdb.background-errors",
    "block_cache_bytes": "rocksdb.block-cache-usage",
    "compactions_running": "rocksdb.num-running-compactions",
    "flushes_running": "rocksdb.num-running-flushes",
}
_AT_ONCE = WriteOptions()
_AT_ONCE.no_slowdown = True
LOG_SUFFIX = ".log"
BLOB_MIN_BYTES = 4096  # larger values go to blob files, which compaction does not rewrite


class Write:
    """Changes that become durable together: ``ops``, which are puts, deletes and range deletes in order, and ``callbacks`` for when
    they are.
    """

    __slots__ = ("callbacks", "on_commit", "ops", "promised", "size_bytes", "tails")

    on_commit: Callable[[Callable[[], None]], None]
    """Run a callback after the commit, in the order of the calls."""

    def __init__(self) -> None:
        self.promised = False  # whether somebody is told once it is committed, and it is as strong as is configured
        self.tails: dict[int, int] = {}  # of the queues that it changes, by number
        self.ops: list[Operation] = []
        self.size_bytes = 0
        self.callbacks: list[Callable[[], None]] = []
        self.on_commit = self.callbacks.append  # each message has several

    def put(self, family: Family, key: bytes, value: bytes) -> None:
        """Set ``key`` to ``value``."""
        self.ops.append(("put", family, key, value))
        self.size_bytes += len(value)

    def delete(self, family: Family, key: bytes) -> None:
        """Remove ``key``; it need not exist."""
        self.ops.append(("delete", family, key, b""))
        self.size_bytes += len(key)

    def delete_range(self, family: Family, start: bytes, stop: bytes) -> None:
        """Remove the keys of ``[start, stop)``."""
        self.ops.append(("delete_range", family, start, stop))

    def promise(self) -> None:
        """Somebody is told once it is committed, and it is as strong as is configured."""
        self.promised = True

    def reaches(self, queue: int, tail: int) -> None:
        """With it, the queue of that number ends at ``tail``, of which evidence is kept."""
        self.tails[queue] = tail

    def extend(self, operations: Iterable[Operation]) -> None:
        """Do ``operations`` of another write, too."""
        self.ops.extend(operations)

    def committed(self) -> None:
        """Run the callbacks; for engines, once the write is durable."""
        for callback in self.callbacks:
            callback()
        del self.callbacks[:]

    def __bool__(self) -> bool:
        return bool(self.ops or self.callbacks)


class Moment(NamedTuple):
    """The manner of a commit. strong: as is configured. readable: the engine has everything of former writes."""

    now_s: float
    wall_ms: int
    strong: bool
    readable: bool


class Engine(Protocol):
    """Ordered keys in families. Only one thread uses an engine, but for ``flush``.

    Every method raises ``Unavailable`` when the disk refuses for now, and ``StorageDamaged`` when it holds what was not written.
    """

    durable: bool  # whether what is committed outlives the process

    @property
    def missing(self) -> Evidence | None:
        """The number that was committed once, if less than that was found when the engine was opened."""

    @property
    def kept(self) -> str:
        """The places of the files in which damage was found, as they were."""

    @property
    def known(self) -> KnownStore:
        """The note of the store beside it; nothing where it has no files."""

    def commit(self, write: Write, *, sync: bool) -> float:
        """Make ``write`` durable as a whole, then run its callbacks; how long it took, in seconds.

        It survives the death of the process in any case, and the loss of power if ``sync``. After an error nothing is promised, no
        callback has run, and the same ``write`` may be committed again.
        """

    def get(self, family: Family, key: bytes) -> bytes | None:
        """The value of ``key``; None if there is none."""

    def scan(self, family: Family, start: bytes, stop: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The keys of ``[start, stop)`` and their values, in order."""

    def seek_before(self, family: Family, key: bytes, low: bytes) -> tuple[bytes, bytes] | None:
        """The last key in ``[low, key]`` and its value; None if there is none."""

    def tidy(self, kept_bytes: int, *, pressed: bool) -> None:
        """Give back, in the background, the space of what was deleted if it is much beside ``kept_bytes``, and merge small tables.

        pressed: there is little room on the disk.
        """

    def keep_evidence(self) -> str:
        """Keep, once, the files as they are because damage was met in them; where, or nothing."""

    def flush(self) -> None:
        """Write to tables what is in memory and the log, so that a checkpoint has little to do. Blocks; for another thread."""

    def checkpoint(self, path: str) -> None:
        """Make ``path``, which is not there and whose parent is, a store with all that is committed; it shares files with this one.

        Raises:
            Unavailable: or nothing is kept on disk.
        """

    def figures(self) -> RocksFigures | None:
        """RocksDB's own figures, for ``bascule status``; nothing where there is none, or it is closed for now."""

    def free_bytes(self) -> int | None:
        """Free space where the engine keeps its data, less what is in memory and will need some; None where that means nothing."""

    def check_files(self, waiting: int | None = None) -> None:
        """See that the store's files are there; with how many messages are ``waiting``, note that and how far it is beside them.

        Raises:
            StoreGone: they are not.
        """

    def reserve(self, size_bytes: int) -> None:
        """Hold so much room on the disk ready, if it can be had; ``reopen`` gives it up where the disk is full. 0: give it up."""

    def reopen(self) -> None:
        """Start afresh from what is durable, after ``Unavailable``; while the disk takes nothing, it can be read as before."""

    def close(self) -> None:
        """Release everything; the engine is not used again, unless by ``reopen``."""


class EngineDatabase:
    """RocksDB in the folder ``path``: opened and closed, read and written. The engine does not know what is promised in it."""

    def __init__(self, path: Path) -> None:
        self.columns: dict[Family, Rdict] = {}
        self._path = path
        self._db: Rdict | None = None
        self._handles: dict[Family, Any] = {}
        self._merging: threading.Thread | None = None
        self._dead_bytes = DeadBytes()
        self._flushing = threading.Lock()

    @property
    def is_open(self) -> bool:
        """Whether it can be read."""
        return self._db is not None

    def open(self, *, tolerant: bool, salvage: bool) -> None:
        """Open it, or make a new one. tolerant: although a table is damaged. salvage: without damaged records of its log.

        Raises:
            StorageDamaged, Unavailable: it cannot be opened.
        """
        with TRANSLATED:
            cache = Cache(BLOCK_CACHE_BYTES)
            whole = _options(cache, tolerant=tolerant)
            if salvage:
                whole.set_wal_recovery_mode(DBRecoveryMode.skip_any_corrupted_record())
            self._db = Rdict(str(self._path), whole, {family: _options(cache, tolerant=tolerant) for family in FAMILIES})
            self.columns = {family: self._db.get_column_family(family) for family in FAMILIES}
            self._handles = {family: self._db.get_column_family_handle(family) for family in FAMILIES}
            for column in self.columns.values():
                column.set_options({"enable_blob_files": "true"})

    def close(self) -> None:
        """Release it, if it is open."""
        db, self._db = self._db, None
        if self._merging is not None:
            if db is not None:
                db.cancel_all_background(False)
            self._merging.join()
            self._merging = None
        self._handles.clear()  # the lock is free only when every handle is gone
        with self._flushing:
            columns, self.columns = self.columns, {}
        for handle in (*columns.values(), *([] if db is None else [db])):
            _release(handle)

    # --- write ---

    def write(self, write: Write, *, sync: bool) -> None:
        """Put ``write`` into the log and the memory of the database, as a whole; with ``sync`` all that is there survives the loss
        of power.
        """
        _put_through(self._db or self._opened(), write.ops, self._handles, sync=sync)

    def number(self, *, sync: bool = False) -> int:
        """The number of the newest operation; with ``sync``, once all that was written survives the loss of power.

        Its errors are RocksDB's own.
        """
        db = self._db or self._opened()
        if sync:
            db.flush_wal(True)
        return int(db.latest_sequence_number())

    # --- read ---

    def get(self, family: Family, key: bytes) -> bytes | None:
        """The value of ``key``; None if there is none."""
        with TRANSLATED:
            self._opened()
            value: bytes | None = self.columns[family].get(key)
            return value

    def scan(self, family: Family, start: bytes, stop: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The keys of ``[start, stop)`` and their values, in order."""
        with TRANSLATED:
            self._opened()
            options = ReadOptions()
            options.set_iterate_upper_bound(stop)  # a bare pointer: ``stop`` and ``options`` live as long as this frame
            iterator = self.columns[family].iter(options)
            iterator.seek(start)
        while True:
            with TRANSLATED:
                if not iterator.valid():
                    iterator.status()  # a damaged block ends the iteration like the last key does
                    return
                row = (iterator.key(), iterator.value())
                iterator.next()
            yield row

    def seek_before(self, family: Family, key: bytes, low: bytes) -> tuple[bytes, bytes] | None:
        """The last key in ``[low, key]`` and its value; None if there is none."""
        with TRANSLATED:
            self._opened()
            iterator = self.columns[family].iter(ReadOptions())
            iterator.seek_for_prev(key)
            if not iterator.valid():
                iterator.status()
                return None
            found: bytes = iterator.key()
            return (found, iterator.value()) if found >= low else None

    # --- files ---

    @property
    def is_merging(self) -> bool:
        """Whether a thread merges tables."""
        return self._merging is not None and self._merging.is_alive()

    def tidy(self, kept_bytes: int, *, pressed: bool) -> None:
        """Merge tables, in a thread of its own, if much in them is dead beside ``kept_bytes``, or they are many and small."""
        if self._db is None or self.is_merging:
            return
        with TRANSLATED:
            taken = {family: _taken_bytes(column) for family, column in self.columns.items()}
            small = {family for family, column in self.columns.items() if are_small(_tables(column), taken[family])}
        if self._dead_bytes.begin_merge(sum(taken.values()), kept_bytes, pressed=pressed) or small:
            merges = [(column, family in small) for family, column in self.columns.items()]
            self._merging = threading.Thread(target=_merge, args=(merges, self._path), name="merge", daemon=True)
            self._merging.start()

    def flush(self) -> None:
        """Write to tables what is in memory; for another thread."""
        with self._flushing, TRANSLATED:
            for column in tuple(self.columns.values()):  # a flush of the whole would flush the family without a name alone
                column.flush()

    def checkpoint(self, path: str) -> None:
        """Make ``path`` a database with all that was written; it shares files with this one."""
        if os.path.lexists(path) or not os.path.isdir(os.path.dirname(path)):  # RocksDB's word for it would be taken for damage
            raise Unavailable("the checkpoint's folder is there already, or cannot be made", path=path)
        with TRANSLATED:
            checkpoint = Checkpoint(self._opened())
            checkpoint.create_checkpoint(path)

    def figures(self) -> RocksFigures:
        """Its own figures, of all families together. It reads nothing from disk but the folder's list of names."""
        db, columns = self._opened(), self.columns.values()
        with TRANSLATED:
            found = {
                name: sum(int(column.property_int_value(of) or 0) for column in columns) for name, of in FAMILY_PROPERTIES.items()
            }
            found |= {name: int(db.property_int_value(of) or 0) for name, of in PROPERTIES.items()}
        return RocksFigures(**found, log_bytes=self._log_bytes())

    def memory_bytes(self) -> int:
        """The bytes that are to become tables."""
        return sum(_figure(column, "cur-size-all-mem-tables") for column in self.columns.values())

    def _log_bytes(self) -> int | None:
        """The size of its logs; None if the disk does not tell. RocksDB removes some at any time."""
        log_bytes = 0
        try:
            names = [name for name in os.listdir(self._path) if name.endswith(LOG_SUFFIX)]
        except OSError:
            return None
        for name in names:
            try:
                log_bytes += os.stat(self._path / name).st_size
            except OSError:
                continue
        return log_bytes

    def probe(self, *, tolerant: bool) -> tuple[int, str]:
        """The number that an opening would reach, and the store's identity, found by reading alone."""
        with TRANSLATED:
            cache = Cache(BLOCK_CACHE_BYTES)
            there: dict[str, Options] = {
                name: _options(cache, tolerant=tolerant) for name in Rdict.list_cf(str(self._path)) if name in FAMILIES
            }
            db = Rdict(str(self._path), _options(cache, tolerant=tolerant), there, access_type=AccessType.read_only(False))
            try:
                identity = db.get_column_family("meta").get(IDENTITY_KEY) if "meta" in there else None
                return int(db.latest_sequence_number()), (identity or b"").hex()
            finally:
                db.close()

    def identity(self) -> str:
        """The store's, in hexadecimal digits; empty while it has none."""
        return (self.get("meta", IDENTITY_KEY) or b"").hex()

    def copy_to(self, target: Path) -> int:
        """Make a store in ``target`` of all that can be read, synced; the number that it has reached."""
        with TRANSLATED:
            cache = Cache(BLOCK_CACHE_BYTES)
            new = Rdict(str(target), _options(cache, tolerant=False), {name: _options(cache, tolerant=False) for name in FAMILIES})
        try:
            for family in reversed(FAMILIES):  # ``meta`` first: it is small, and nothing goes without it
                _copy_family(self.scan, new, family)
            with TRANSLATED:
                new.flush_wal(True)
                return int(new.latest_sequence_number())
        finally:
            with TRANSLATED:
                new.close()

    def _opened(self) -> Rdict:
        if self._db is None:
            raise Unavailable("the store is closed", path=str(self._path))
        return self._db


class RocksEngine:
    """RocksDB in the folder ``path``, with a mark of what was promised."""

    durable = True

    def __init__(self, path: Path, *, begins: bool = True) -> None:
        """begins: as ``StoreOpening`` has it."""
        self.database = EngineDatabase(path)
        self.opening = StoreOpening(path, self.database, begins=begins)
        self.path = path
        self._folder = self.opening.folder
        self._reserve = Reserve(path.with_name(path.name + ".reserve"))
        self.reopen()

    @property
    def missing(self) -> Evidence | None:
        return self.opening.missing

    @property
    def kept(self) -> str:
        return self.opening.kept

    @property
    def known(self) -> KnownStore:
        return self.opening.known

    def commit(self, write: Write, *, sync: bool) -> float:
        began_s = perf_counter()
        opening = self.opening
        synced, promised = sync or opening.owed, write.promised or opening.owed
        try:
            self.database.write(write, sync=synced)
        except StorageDamaged as error:  # met in the background: RocksDB refuses, until it is opened so that it bears with it
            if opening.tolerant:
                raise
            opening.tolerate()
            log.critical("store.damaged", extra={"path": str(self.path), "error": str(error), "remedy": "tolerated"})
            raise Unavailable("damage was met in the background; the store is opened anew", error=str(error)) from error
        if promised:
            opening.promise(self.database.number(), write.tails, synced=synced)
        took_s = perf_counter() - began_s
        write.committed()
        return took_s

    def sync(self) -> None:
        """Have all that was committed survive the loss of power, and an opening know that it was there."""
        with TRANSLATED:
            self.opening.promise(self.database.number(sync=True), {}, synced=True)

    def get(self, family: Family, key: bytes) -> bytes | None:
        return self.database.get(family, key)

    def scan(self, family: Family, start: bytes, stop: bytes) -> Iterator[tuple[bytes, bytes]]:
        return self.database.scan(family, start, stop)

    def seek_before(self, family: Family, key: bytes, low: bytes) -> tuple[bytes, bytes] | None:
        return self.database.seek_before(family, key, low)

    def tidy(self, kept_bytes: int, *, pressed: bool) -> None:
        self.database.tidy(kept_bytes, pressed=pressed)

    def flush(self) -> None:
        self.database.flush()

    def checkpoint(self, path: str) -> None:
        self.database.checkpoint(path)

    def keep_evidence(self) -> str:
        return self.opening.keep_evidence()

    def figures(self) -> RocksFigures | None:
        return self.database.figures() if self.database.is_open else None

    def free_bytes(self) -> int | None:
        if self.database.is_open:
            self._folder.spare_manifest()
        with TRANSLATED:
            memory_bytes = self.database.memory_bytes()
            while True:
                disk = os.statvfs(self.path)
                earlier_bytes, memory_bytes = memory_bytes, self.database.memory_bytes()
                if memory_bytes >= earlier_bytes:  # no table was finished meanwhile, which the look at the disk may have missed
                    return max(0, disk.f_bavail * disk.f_frsize - memory_bytes)

    def check_files(self, waiting: int | None = None) -> None:
        self.opening.check()
        if waiting is not None and self.database.is_open:
            with TRANSLATED:
                self.opening.note(waiting, durable=False)

    def reserve(self, size_bytes: int) -> None:
        if size_bytes:
            self._reserve.hold(size_bytes)
        else:
            self._reserve.give_up()

    def reopen(self) -> None:
        try:
            self._reopen()
        except DiskFull:
            if not self._reserve.give_up():
                raise
            self._reopen()

    def _reopen(self) -> None:
        if self.database.is_open:
            self.opening.check()
            self._probe()
        self.close()
        try:
            self.opening.open()
        except BasculeError:
            self.close()
            raise

    def _probe(self) -> None:
        """See whether the disk takes anything at all: while it does not, the store stays open, so that it can be read."""
        path = self.path / PROBE_NAME
        with TRANSLATED:
            try:
                with path.open("wb", buffering=0) as file:
                    left = PROBE_BYTES
                    while left:
                        left -= file.write(bytes(left))
                    os.fsync(file.fileno())
            finally:
                path.unlink(missing_ok=True)

    def close(self) -> None:
        self.opening.close()


def _copy_family(scan: Scan, new: Rdict, family: Family) -> None:
    handles = {family: new.get_column_family_handle(family)}
    part = Write()
    for key, value in readable(partial(scan, family), KEY_BYTES[family]):
        part.put(family, key, value)
        if part.size_bytes > COPY_BYTES:
            _put_through(new, part.ops, handles)
            part = Write()
    _put_through(new, part.ops, handles)


def _batch(ops: list[Operation], handles: dict[Family, Any]) -> WriteBatch:
    batch = WriteBatch(raw_mode=True)
    put = batch.put
    for operation, family, key, value in ops:
        if operation == "put":
            put(key, value, handles[family])
        elif operation == "delete":
            batch.delete(key, handles[family])
        else:
            batch.delete_range(key, value, handles[family])
    return batch


def _put_through(db: Rdict, ops: list[Operation], handles: dict[Family, Any], *, sync: bool = False) -> None:
    """Write ``ops``, once RocksDB takes them: it takes nothing while too much waits to become tables. sync: the log, too.

    It would wait itself, with the interpreter held; and where the disk has become full meanwhile, until there is room, which the
    store could then not make. So it is asked again, until its tables are written or there was an error.

    Raises:
        Unavailable: the disk refuses, this write or the tables before it.
    """
    failed = False
    while True:
        try:
            with TRANSLATED:
                if ops:
                    db.write(_batch(ops, handles), _AT_ONCE)  # consumes the batch, whatever becomes of it
                if sync:
                    db.flush_wal(True)
        except RocksdbStalled:
            if failed:
                raise
        else:
            return
        while db.property_int_value("rocksdb.is-write-stopped") and not failed:
            sleep(STALL_LOOK_S)
            failed = bool(db.property_int_value("rocksdb.background-errors"))


def _options(cache: Cache, *, tolerant: bool) -> Options:
    options = Options(raw_mode=True)
    options.set_paranoid_checks(not tolerant)
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    options.set_write_buffer_size(MEMTABLE_BYTES)
    options.set_max_total_wal_size(WAL_MAX_BYTES)
    options.set_level_zero_stop_writes_trigger(TABLES_WAITING_MAX)
    options.set_level_zero_slowdown_writes_trigger(TABLES_WAITING_MAX)  # each write is taken at once, or not yet
    options.set_hard_pending_compaction_bytes_limit(0)
    options.set_soft_pending_compaction_bytes_limit(0)
    options.set_atomic_flush(True)  # an idle family does not hold on to old logs
    options.set_recycle_log_file_num(RECYCLED_LOGS)
    options.set_max_background_jobs(2)
    options.set_keep_log_file_num(3)
    options.set_max_log_file_size(LOG_MAX_BYTES)
    options.set_max_manifest_file_size(MANIFEST_MAX_BYTES)
    options.set_stats_dump_period_sec(0)
    options.set_stats_persist_period_sec(0)
    options.set_max_open_files(tables_open_max(resource.getrlimit(resource.RLIMIT_NOFILE)[0]))
    options.set_compression_type(DBCompressionType.lz4())
    options.set_enable_blob_files(False)  # until it is open: an opening says that a table is missing, and not that a blob is
    options.set_min_blob_size(BLOB_MIN_BYTES)
    options.set_blob_file_size(32 << 20)
    options.set_enable_blob_gc(False)  # but in a merge of the whole: else each compaction writes the oldest quarter anew
    blocks = BlockBasedOptions()
    blocks.set_block_size(16 << 10)
    blocks.set_format_version(5)
    blocks.set_block_cache(cache)
    options.set_block_based_table_factory(blocks)
    return options


def _release(handle: Rdict) -> None:
    """Close ``handle``. It flushes first; where the disk refuses that, it is closed all the same, and nothing committed is lost."""
    try:
        with TRANSLATED:
            handle.close()
    except Unavailable as error:
        log.debug("store.closed_unflushed", extra={"error": str(error)})
    except StorageDamaged as error:  # what was committed stands in the log; the next opening tells
        log.warning("store.close_failed", extra={"error": str(error)})


def _taken_bytes(column: Rdict) -> int:
    return _figure(column, "live-sst-files-size") + _figure(column, "live-blob-file-size")


def _tables(column: Rdict) -> int:
    levels = (int(column.property_value(f"rocksdb.num-files-at-level{level}") or 0) for level in range(LEVELS))
    return max(sum(levels), _figure(column, "num-blob-files"))


def _figure(column: Rdict, name: str) -> int:
    return int(column.property_int_value(f"rocksdb.{name}") or 0)


def _merge(merges: list[tuple[Rdict, bool]], path: Path) -> None:
    """Merge the tables of each family, all of them or those that hold deletions; then, where much is dead in blob files, those.

    A failure costs disk space, not data; what is wrong with the disk the next commit tells.
    """
    try:
        with TRANSLATED:
            for column, whole in merges:
                _merge_column(column, whole=whole)
                for _ in range(BLOB_MERGES):
                    dead, taken = _figure(column, "live-blob-file-garbage-size"), _taken_bytes(column)
                    disk = os.statvfs(path)
                    if dead < STEP_BYTES + taken // 8 or disk.f_bavail * disk.f_frsize < STEP_BYTES + (taken - dead) // 4:
                        break
                    _merge_column(column, whole=True)
    except BasculeError as error:
        log.warning("store.compaction_failed", extra={"error": str(error)})


def _merge_column(column: Rdict, *, whole: bool) -> None:
    """whole: all tables, and what is alive in the oldest quarter of the blob files is written anew."""
    options = CompactOptions()
    options.set_exclusive_manual_compaction(False)  # new tables are merged meanwhile, and writes do not wait for it
    if not whole:
        column.compact_range(None, None, options)
        return
    options.set_bottommost_level_compaction(BottommostLevelCompaction.force())
    column.set_options({"enable_blob_garbage_collection": "true"})
    try:
        column.compact_range(None, None, options)
    finally:
        column.set_options({"enable_blob_garbage_collection": "false"})
