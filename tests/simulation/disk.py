"""The disk: what is written, what is synced, and what a loss of power leaves. Survives processes; the engine is one life's view.

A commit is atomic. Bytes that were written and not synced survive the death of the process, and any prefix of them survives the
loss of power. The ``watcher`` is told of each change; it is the oracle.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from storage.engine.commit_mark import Evidence
from storage.engine.engine import FAMILIES, Family, Write
from storage.engine.keys import IDENTITY_BYTES
from storage.engine.memory_engine import MemoryEngine
from storage.engine.store_identity import KnownStore
from tests.simulation.process import current
from tests.simulation.world import World
from wire.errors import DiskFull, Unavailable

Ops = list[tuple[str, Family, bytes, bytes]]


class DiskWatcher(Protocol):
    """The observer of what the disk holds."""

    def disk_wrote(self, ops: Ops) -> None: ...
    def disk_synced(self, ops: Ops) -> None: ...
    def disk_lost_power(self, kept: int, lost: list[Ops]) -> None: ...


class SimDisk:
    """refuses_until_s: the disk is full; half of the refused writes take effect all the same. slow_until_s: commits take long."""

    def __init__(self, world: World, watcher: DiskWatcher, *, durable: bool) -> None:
        self.world = world
        self.durable = durable
        self.watcher = watcher
        self.refuses_until_s = 0.0
        self.slow_until_s = 0.0
        self.epoch_reserved: int | None = None
        self.view = MemoryEngine()
        self.checkpoints: dict[str, MemoryEngine] = {}
        self._base = MemoryEngine()
        self._unsynced: list[Ops] = []
        self._rng = world.chance("disk")

    def refuses(self) -> bool:
        return self.world.now_s < self.refuses_until_s

    def now_slow(self) -> bool:
        return self.world.now_s < self.slow_until_s

    def write(self, ops: Ops) -> None:
        """Hand a commit to the kernel."""
        _apply(self.view, ops)
        self._unsynced.append(ops)
        self.watcher.disk_wrote(ops)

    def sync(self) -> None:
        """Everything written is on the disk."""
        for ops in self._unsynced:
            _apply(self._base, ops)
            self.watcher.disk_synced(ops)
        self._unsynced = []

    def synced_value(self, key: bytes) -> bytes | None:
        """A row of the ``meta`` family as it is on the disk."""
        return self._base.get("meta", key)

    def written_value(self, key: bytes) -> bytes | None:
        """A row of the ``meta`` family as the kernel has it."""
        return self.view.get("meta", key)

    def lose_power(self) -> None:
        """Of what was not synced, a random prefix survives."""
        kept = int(self._rng.random() * (len(self._unsynced) + 1))
        lost = self._unsynced[kept:]
        self.world.note("power lost", f"{kept} of {len(self._unsynced)} unsynced commits survive")
        del self._unsynced[kept:]
        self.sync()
        self.watcher.disk_lost_power(kept, lost)
        self.view = MemoryEngine()
        for family in FAMILIES:
            ops: Ops = [("put", family, key, value) for key, value in self._base.scan(family, b"", b"\xff" * 16)]
            _apply(self.view, ops)

    def copy(self) -> MemoryEngine:
        """The committed rows, in an engine of its own."""
        copy = MemoryEngine()
        for family in FAMILIES:
            _apply(copy, [("put", family, key, value) for key, value in self.view.scan(family, b"", b"\xff" * 16)])
        return copy

    def forget(self) -> None:
        """An in-memory store has died."""
        self.view, self._base, self._unsynced = MemoryEngine(), MemoryEngine(), []


def _apply(engine: MemoryEngine, ops: Ops) -> None:
    write = Write()
    write.ops = ops
    engine.apply(write)


class SimEngine:
    """One life's handle of the disk."""

    missing: Evidence | None = None
    kept = ""
    known = KnownStore(store="51" * IDENTITY_BYTES)  # a store of its own in each run would be another course of each seed

    def __init__(self, disk: SimDisk) -> None:
        self.durable = disk.durable
        self.rows_read = 0
        self._disk = disk
        self._rng = disk.world.chance("engine")
        self._opened()

    def _opened(self) -> None:
        """RocksDB writes what it finds in its log to synced tables when it opens."""
        disk = self._disk
        if disk.durable:
            current().effect("open")
            if disk.refuses():
                raise DiskFull("no space left")
            disk.sync()
            current().effect("opened")

    def keep_evidence(self) -> str:
        """There are no files."""
        return ""

    def commit(self, write: Write, *, sync: bool) -> float:
        disk = self._disk
        process = current()
        lagged_s = process.lag_s
        process.effect("commit")
        late = self._rng.random()
        if disk.durable:
            refused = disk.refuses()
            if refused and late < 0.5:
                raise DiskFull("no space left")
            process.lag_s += 0.0002 + late * (0.3 if disk.now_slow() else 0.002)
            if write.ops:
                disk.write(list(write.ops))
            if refused:
                raise DiskFull("no space left, after the write")
            process.effect("sync")
            if sync:
                disk.sync()
            process.effect("committed")
        elif write.ops:
            disk.write(list(write.ops))
            disk.sync()
        took_s = process.lag_s - lagged_s
        write.committed()
        return took_s

    def get(self, family: Family, key: bytes) -> bytes | None:
        self._look()
        self.rows_read += 1
        return self._disk.view.get(family, key)

    def scan(self, family: Family, start: bytes, stop: bytes) -> Iterator[tuple[bytes, bytes]]:
        self._look()
        for row in self._disk.view.scan(family, start, stop):
            self.rows_read += 1
            yield row

    def seek_before(self, family: Family, key: bytes, low: bytes) -> tuple[bytes, bytes] | None:
        self._look()
        self.rows_read += 1
        return self._disk.view.seek_before(family, key, low)

    def tidy(self, kept_bytes: int, *, pressed: bool) -> None:
        pass

    def flush(self) -> None:
        """Nothing to do: there are no tables."""

    def checkpoint(self, path: str) -> None:
        self._look()
        current().effect("checkpoint")
        self._disk.checkpoints[path] = self._disk.copy()
        current().effect("checkpoint made")

    def figures(self) -> None:
        """There is no RocksDB."""

    def free_bytes(self) -> int | None:
        return None

    def check_files(self, waiting: int | None = None) -> None:
        """There are no files."""

    def reserve(self, size_bytes: int) -> None:
        """The disk has no size."""

    def reopen(self) -> None:
        self._opened()

    def close(self) -> None:
        pass

    def _look(self) -> None:
        if self._disk.durable and self._disk.refuses() and self._rng.random() < 0.1:
            raise Unavailable("cannot be read")
