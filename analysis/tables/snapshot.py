"""One snapshot while it is read: its manifest, its store, the rows of its queues, and what it says of damage."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, partial
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa

from analysis.tables.arrow import STRING, TIMESTAMP, Makers, same
from analysis.tables.checkpoint_reader import CheckpointReader
from analysis.tables.splits import Problem, SplitFilters, Trouble, wants
from storage.engine.keys import lane_key
from storage.queue.ledger import LedgerRow
from storage.snapshots.manifest import STORE_NAME, Manifest, QueueFacts, index_faults, not_whole, read_manifest
from wire.errors import BasculeError, StorageDamaged, Unavailable


class Snapshot:
    """The snapshot in the folder ``path``, opened; use it in ``with``. ``store`` is None where it cannot be and may be skipped."""

    def __init__(self, path: str, trouble: Trouble, *, whole: bool = False) -> None:
        """Open it. whole: it was found to be; a file that is missing now has gone since, and that is never skipped.

        Raises:
            SnapshotDamaged: it cannot be opened, and is not to be skipped.
            BasculeError: the manifest cannot be used.
            Unavailable: the disk refuses for now, or the snapshot has gone.
            OSError: it cannot be read.
        """
        self.path = path
        self.manifest: Manifest = read_manifest(Path(path))
        self.trouble = trouble
        self._whole = whole
        self._constant: dict[tuple[object, pa.DataType], pa.Array] = {}
        self.store: CheckpointReader | None = None
        try:
            store = CheckpointReader(Path(path) / STORE_NAME)
        except StorageDamaged as error:
            faults = not_whole(Path(path), self.manifest, content=False)
            self.damaged("; ".join(["the store cannot be opened", *map(str, faults), str(error)]))
            return
        index = [str(fault) for fault in index_faults(Path(path), self.manifest)]
        if not index:
            self.store = store
            return
        store.close()
        self.damaged("; ".join(["the store is not all there", *index]))

    def __enter__(self) -> Snapshot:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if self.store is not None:
            self.store.close()

    def damaged(self, why: str, queue: str = "", first_seq: int = -1, last_seq: int = -1) -> None:
        """Something cannot be read.

        Raises:
            SnapshotDamaged: it is not to be left out.
            Unavailable: a file of it has gone.
        """
        if self._whole and not_whole(Path(self.path), self.manifest, content=False):
            raise Unavailable("the snapshot goes while it is read", path=self.path, why=why)
        self.trouble.meet(Problem(self.path, self.manifest.id, why, queue, first_seq, last_seq))

    @property
    def at_us(self) -> int:
        """Time at which it was made, UTC epoch in microseconds."""
        return self.manifest.at_ms * 1000

    @cached_property
    def head(self) -> Mapping[str, Any]:
        """The first columns of every row."""
        manifest = self.manifest
        return {"node": manifest.node, "store_id": manifest.store_id, "snapshot_id": manifest.id, "snapshot_at": self.at_us}

    def same(self, count: int, queue: QueueFacts | None = None) -> Makers:
        """The columns that are the same in ``count`` rows, of ``queue`` if it is one's."""
        facts: dict[str, tuple[object, pa.DataType]] = {
            "node": (self.manifest.node, STRING),
            "store_id": (self.manifest.store_id, STRING),
            "snapshot_id": (self.manifest.id, STRING),
            "snapshot_at": (self.at_us, TIMESTAMP),
        }
        if queue is not None:
            facts |= {
                "queue": (queue.name, STRING),
                "bridge": (queue.bridge, STRING),
                "lane": (None if queue.lane is None else str(queue.lane), STRING),
            }
        return {name: partial(self._repeated, value, kind, count) for name, (value, kind) in facts.items()}

    def _repeated(self, value: object, kind: pa.DataType, count: int) -> pa.Array:
        """``value`` ``count`` times: a part of the longest such array so far."""
        known = self._constant.get((value, kind))
        if known is None or len(known) < count:
            known = self._constant[value, kind] = same(value, kind, count)
        return known[:count]

    def queues(self, filters: SplitFilters) -> list[QueueFacts]:
        """The queues that are wanted."""
        return [queue for queue in self.manifest.queues if wants(filters, queue)]

    def row(self, queue: QueueFacts) -> LedgerRow | None:
        """The row of ``queue``; None if it cannot be read, or if there is none, which is told unless nothing was in the queue.

        Raises:
            SnapshotDamaged: it is damaged, and not to be left out.
        """
        assert self.store is not None
        try:
            value = self.store.get("meta", lane_key(queue.number))
            if value is not None:
                return LedgerRow.decode(value, queue=queue.name)
        except BasculeError as error:
            if not isinstance(error, StorageDamaged):
                raise
            self.damaged(str(error), queue.name)
            return None
        if queue.tail > 0 or queue.ledger.accepted:
            self.damaged("the queue's row is missing", queue.name)
        return None
