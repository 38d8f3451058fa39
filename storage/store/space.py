"""Deleted data of the store is given back to the disk within a minute.

Here is counted what the rows keep; what RocksDB's files take beside it, and when that is too much, is the engine's
(``storage/engine/dead_bytes.py``). Nothing is remembered of what was deleted, so no death and no pace makes a difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

from storage.engine.engine import Engine, Write
from storage.store.disk_trouble import Disk
from wire.errors import Unavailable

TIDY_PERIOD_S = 10.0


class Keeps(Protocol):
    """A part of the store. kept_bytes: about what the disk keeps of it."""

    @property
    def kept_bytes(self) -> int: ...


class Space:
    """Has the engine give back what is not kept. is_due: whether it is time to look."""

    def __init__(self, engine: Engine, disk: Disk, parts: Sequence[Keeps]) -> None:
        """parts: all that keep something."""
        self._engine = engine
        self._disk = disk
        self._parts = parts
        self._tidied_s = float("-inf")
        self.is_due = False

    def tick(self, now_s: float) -> None:
        """It is time to look, now and then, and each time while there is little room on the disk."""
        if now_s - self._tidied_s >= TIDY_PERIOD_S or self._disk.is_tight:
            self._tidied_s, self.is_due = now_s, True

    def tidy(self, write: Write) -> None:
        """Look, if nothing waits in ``write``: the tables know nothing of what that deletes."""
        if not write:
            self.is_due = False
            with suppress(Unavailable):  # the next commit tells of it
                self._engine.tidy(sum(part.kept_bytes for part in self._parts), pressed=self._disk.is_tight)
