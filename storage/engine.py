"""The key-value engine under Tier 1: one protocol, and RocksDB behind it. The only user of rocksdict.

A ``Write`` gathers what must become durable together; ``commit`` makes it so and only then runs its callbacks: memory follows
disk. What keys and values mean is the business of the modules above (``keys``, ``chunk``, ``queue``).

rocksdict has traps, and this module steps around them: an iterator ends silently on a damaged block (so ``scan`` asks for its
status), an upper bound is a bare pointer (so it stays in the frame), ``write`` holds the interpreter while it syncs (so
``flush_wal`` does the syncing), and a database is released only when every handle is gone.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Protocol

from rocksdict import BlockBasedOptions, Cache, DBCompressionType, Options, Rdict, ReadOptions, WriteBatch

from wire.errors import BasculeError, DiskFull, StorageDamaged, Unavailable

log = logging.getLogger("bascule")

Family = Literal["msg", "meta"]
FAMILIES: tuple[Family, ...] = ("msg", "meta")

MEMTABLE_BYTES = 16 << 20  # bounds what a restart replays
WAL_MAX_BYTES = 48 << 20
BLOCK_CACHE_BYTES = 32 << 20
RECYCLED_LOGS = 3  # a log written over needs no new blocks: a sync takes a third of the time, half of the CPU
BLOB_MIN_BYTES = 4096  # larger values go to blob files, which compaction does not rewrite


class Write:
    """What becomes durable together: puts, deletes and range deletes in order, and what to do once they are."""

    __slots__ = ("_callbacks", "ops", "size_bytes")

    def __init__(self) -> None:
        self.ops: list[tuple[str, Family, bytes, bytes]] = []
        self.size_bytes = 0
        self._callbacks: list[Callable[[], None]] = []

    def put(self, family: Family, key: bytes, value: bytes) -> None:
        """Set ``key`` to ``value``."""
        self.ops.append(("put", family, key, value))
        self.size_bytes += len(value)

    def delete(self, family: Family, key: bytes) -> None:
        """Remove ``key``; it need not exist."""
        self.ops.append(("delete", family, key, b""))

    def delete_range(self, family: Family, start: bytes, stop: bytes) -> None:
        """Remove the keys of ``[start, stop)``."""
        self.ops.append(("delete_range", family, start, stop))

    def on_commit(self, callback: Callable[[], None]) -> None:
        """Run ``callback`` after the commit, in the order of the calls."""
        self._callbacks.append(callback)

    def committed(self) -> None:
        """Run the callbacks; for engines, once the write is durable."""
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def __bool__(self) -> bool:
        return bool(self.ops or self._callbacks)


class Engine(Protocol):
    """Ordered keys in families. Only one thread uses an engine.

    Every method raises ``Unavailable`` when the disk refuses for now, and ``StorageDamaged`` when it holds what was not written.
    """

    durable: bool  # whether what is committed outlives the process

    def commit(self, write: Write, *, sync: bool) -> None:
        """Make ``write`` durable as a whole, then run its callbacks.

        It survives the death of the process in any case, and the loss of power if ``sync``. After an error nothing is promised, no
        callback has run, and the same ``write`` may be committed again.
        """

    def get(self, family: Family, key: bytes) -> bytes | None:
        """The value of ``key``; None if there is none."""

    def scan(self, family: Family, start: bytes, stop: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The keys of ``[start, stop)`` and their values, in order."""

    def seek_before(self, family: Family, key: bytes, low: bytes) -> tuple[bytes, bytes] | None:
        """The last key in ``[low, key]`` and its value; None if there is none."""

    def compact(self, family: Family, start: bytes, stop: bytes) -> None:
        """Give back, in the background, the space that deleted keys of ``[start, stop)`` take."""

    def free_bytes(self) -> int | None:
        """Free space where the engine keeps its data; None where that means nothing."""

    def reopen(self) -> None:
        """Start afresh from what is durable, after ``Unavailable``."""

    def close(self) -> None:
        """Release everything; the engine is not used again, unless by ``reopen``."""


class RocksEngine:
    """RocksDB in the folder ``path``."""

    durable = True

    def __init__(self, path: Path) -> None:
        self._path = path
        self._db: Rdict | None = None
        self._columns: dict[Family, Rdict] = {}
        self._handles: dict[Family, Any] = {}
        self._compaction: threading.Thread | None = None
        self._open()

    def commit(self, write: Write, *, sync: bool) -> None:
        with _TRANSLATED:
            db = self._database()
            if write.ops:
                batch = WriteBatch(raw_mode=True)
                handles = self._handles
                put = batch.put
                for operation, family, key, value in write.ops:
                    if operation == "put":
                        put(key, value, handles[family])
                    elif operation == "delete":
                        batch.delete(key, handles[family])
                    else:
                        batch.delete_range(key, value, handles[family])
                db.write(batch)
            if sync:
                db.flush_wal(True)
        write.committed()

    def get(self, family: Family, key: bytes) -> bytes | None:
        with _TRANSLATED:
            self._database()
            value: bytes | None = self._columns[family].get(key)
            return value

    def scan(self, family: Family, start: bytes, stop: bytes) -> Iterator[tuple[bytes, bytes]]:
        with _TRANSLATED:
            self._database()
            options = ReadOptions()
            options.set_iterate_upper_bound(stop)  # a bare pointer: ``stop`` and ``options`` live as long as this frame
            iterator = self._columns[family].iter(options)
            iterator.seek(start)
        while True:
            with _TRANSLATED:
                if not iterator.valid():
                    iterator.status()  # a damaged block ends the iteration like the last key does
                    return
                row = (iterator.key(), iterator.value())
                iterator.next()
            yield row

    def seek_before(self, family: Family, key: bytes, low: bytes) -> tuple[bytes, bytes] | None:
        with _TRANSLATED:
            self._database()
            iterator = self._columns[family].iter(ReadOptions())
            iterator.seek_for_prev(key)
            if not iterator.valid():
                iterator.status()
                return None
            found: bytes = iterator.key()
            return (found, iterator.value()) if found >= low else None

    def compact(self, family: Family, start: bytes, stop: bytes) -> None:
        if self._db is None or (self._compaction is not None and self._compaction.is_alive()):
            return
        column = self._columns[family]
        self._compaction = threading.Thread(target=_compact, args=(column, start, stop), name="compaction", daemon=True)
        self._compaction.start()

    def free_bytes(self) -> int | None:
        with _TRANSLATED:
            disk = os.statvfs(self._path)
            return disk.f_bavail * disk.f_frsize

    def reopen(self) -> None:
        self.close()
        self._open()

    def close(self) -> None:
        db, self._db = self._db, None
        if self._compaction is not None:
            if db is not None:
                db.cancel_all_background(False)
            self._compaction.join()
            self._compaction = None
        self._handles.clear()  # the lock is free only when every handle is gone
        columns, self._columns = self._columns, {}
        for handle in (*columns.values(), *([] if db is None else [db])):
            _release(handle)

    def _open(self) -> None:
        with _TRANSLATED:
            self._path.mkdir(parents=True, exist_ok=True)
            cache = Cache(BLOCK_CACHE_BYTES)
            self._db = Rdict(str(self._path), _options(cache), {family: _options(cache) for family in FAMILIES})
            self._columns = {family: self._db.get_column_family(family) for family in FAMILIES}
            self._handles = {family: self._db.get_column_family_handle(family) for family in FAMILIES}

    def _database(self) -> Rdict:
        if self._db is None:
            raise Unavailable("the store is closed", path=str(self._path))
        return self._db


def _options(cache: Cache) -> Options:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    options.set_write_buffer_size(MEMTABLE_BYTES)
    options.set_max_total_wal_size(WAL_MAX_BYTES)
    options.set_atomic_flush(True)  # an idle family does not hold on to old logs
    options.set_recycle_log_file_num(RECYCLED_LOGS)
    options.set_max_background_jobs(2)
    options.set_keep_log_file_num(3)
    options.set_compression_type(DBCompressionType.lz4())
    options.set_enable_blob_files(True)
    options.set_min_blob_size(BLOB_MIN_BYTES)
    options.set_blob_file_size(32 << 20)
    options.set_enable_blob_gc(True)
    blocks = BlockBasedOptions()
    blocks.set_block_size(16 << 10)
    blocks.set_format_version(5)
    blocks.set_block_cache(cache)
    options.set_block_based_table_factory(blocks)
    return options


def _release(handle: Rdict) -> None:
    """Close ``handle``. It flushes first; where the disk refuses that, it is closed all the same, and nothing committed is lost."""
    try:
        with _TRANSLATED:
            handle.close()
    except Unavailable as error:
        log.debug("store.closed_unflushed", extra={"error": str(error)})


def _compact(column: Rdict, start: bytes, stop: bytes) -> None:
    """Compact, in a thread of its own. A failure costs disk space, not data; what is wrong with the disk the next commit tells."""
    try:
        with _TRANSLATED:
            column.compact_range(start, stop)
    except BasculeError as error:
        log.warning("store.compaction_failed", extra={"error": str(error)})


class _Translated:
    """Turns rocksdict's errors, which are plain exceptions with a text, into ours."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if error is None or isinstance(error, BasculeError):
            return
        text = str(error)
        if (isinstance(error, OSError) or kind is Exception) and any(sign in text for sign in _FULL):
            raise DiskFull("the disk is full", error=text) from error
        if isinstance(error, OSError) or (kind is Exception and any(sign in text for sign in _UNAVAILABLE)):
            raise Unavailable("the disk refuses", error=text) from error
        if kind is Exception and any(sign in text for sign in _DAMAGED):
            raise StorageDamaged("the store is damaged", error=text) from error


_TRANSLATED = _Translated()
_FULL = ("No space left", "Disk quota exceeded")
_UNAVAILABLE = ("IO error", "(os error ", "Direct I/O is not supported", "Shutdown in progress", "Result incomplete")
_DAMAGED = ("Corruption",)
