"""A member's own disk: what is committed outlives the process, what is synced a loss of power; a refusal lasts until an opening."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

from storage.engine.engine import FAMILIES, Write
from storage.engine.memory_engine import MemoryEngine
from storage.replication.position import POSITION_KEY, Position, read_position
from wire.errors import Unavailable

Rows = dict[tuple[str, bytes], bytes]


class DiskDouble(MemoryEngine):
    """``storage.replication.replica.OwnEngine``. numbers: of the records that were applied, in order, since it was made.
    changes: how often it was changed.

    refuses: it takes nothing; half of the refused writes are there all the same. pause: is called before and after each commit.
    """

    durable = True

    def __init__(self, chance: Random | None = None) -> None:
        super().__init__()
        self.path = Path("store")
        self.refuses = False
        self.numbers: list[int] = []
        self.changes = 0
        self.pause: Callable[[str], None] = lambda moment: None
        self._chance = chance or Random(0)
        self._broken = False
        self._synced = MemoryEngine()
        self._unsynced: list[Write] = []

    # --- what a member does ---

    def commit(self, write: Write, *, sync: bool) -> float:
        self.pause("commit")
        if self.refuses or self._broken:
            late, self._broken = not self._broken and self._chance.random() < 0.5, True
            if late:
                self._put(write)
            raise Unavailable("the disk refuses")
        self._put(write)
        if sync:
            self.sync()
        self.pause("committed")
        write.committed()
        return 0.0

    def _put(self, write: Write) -> None:
        kept = Write()
        kept.ops = list(write.ops)
        self.apply(kept)
        self.changes += 1
        self._unsynced.append(kept)
        if any(key == POSITION_KEY for _, _, key, _ in kept.ops):
            self._stands_at(read_position(self), with_more=len(kept.ops) > 1)

    def _stands_at(self, position: Position, *, with_more: bool) -> None:
        if [position.number] != self.numbers[-1:] or with_more:
            self.numbers.append(position.number)

    def sync(self) -> None:
        if self.refuses or self._broken:
            self._broken = True
            raise Unavailable("the disk refuses")
        self._keep(len(self._unsynced))

    def reopen(self) -> None:
        if self.refuses:
            raise Unavailable("the disk refuses")
        self._broken = False
        self._keep(len(self._unsynced))  # RocksDB writes what its log holds to synced tables

    # --- what befalls it ---

    def lose_power(self) -> None:
        """Of what was not synced, a random prefix survives."""
        self._keep(self._chance.randrange(len(self._unsynced) + 1))
        self._unsynced.clear()
        self.install(rows(self._synced))

    def install(self, content: Rows) -> None:
        """Have ``content`` in place of all that there is, synced."""
        self._synced = MemoryEngine()
        write = Write()
        for (family, key), value in content.items():
            write.put(next(one for one in FAMILIES if one == family), key, value)
        self._synced.apply(write)
        self._families = MemoryEngine()._families
        self._unsynced.clear()
        self.apply(write)
        self.changes += 1
        self.numbers = [read_position(self).number]
        self._broken = False

    @property
    def position(self) -> Position:
        return read_position(self)

    @property
    def synced_position(self) -> Position:
        return read_position(self._synced)

    def _keep(self, count: int) -> None:
        for write in self._unsynced[:count]:
            self._synced.apply(write)
        del self._unsynced[:count]


def rows(engine: MemoryEngine, *, position: bool = True) -> Rows:
    """Its contents; with the row that says how far it is, or without."""
    return {
        (family, key): value
        for family in FAMILIES
        for key, value in engine.scan(family, b"", b"\xff" * 16)
        if position or key != POSITION_KEY
    }
