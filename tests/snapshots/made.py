"""Snapshots for tests of folders and copies: small files under the names that a store has, and a manifest that holds."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

from storage.snapshots.manifest import STORE_NAME, LedgerFacts, Manifest, QueueFacts, VolatileFacts, queue_fields
from storage.snapshots.snapshot_folder import SnapshotFolder

AT_MS = 1_700_000_000_000


def queue(**keys: Any) -> QueueFacts:
    """A queue of one bridge with three messages, one of them in memory only."""
    known: dict[str, Any] = {
        "name": "bridge:cloud:0",
        "number": 1,
        "bridge": "cloud",
        "lane": 0,
        "configured": True,
        "head": 7,
        "tail": 10,
        "cursor": 8,
        "depth": 2,
        "size_bytes": 300,
        "volatile": VolatileFacts(messages=1, size_bytes=100, ranges=((8, 9),)),
        "in_flight": ((7, 8),),
        "ledger": LedgerFacts(accepted=10, delivered=5, dropped={"overflow": 2}, dead={}, refused=3, raised=4, from_retained=1),
        "max_messages": None,
        "max_bytes": 1 << 30,
        "retention_s": 3600.0,
        "settlements": (2, 5),
        "history_from": 3,
    }
    return QueueFacts(**{**known, **keys})


def fields(node: str, at_ms: int) -> dict[str, Any]:
    """The words of the store and the supervisor about a snapshot."""
    return {
        "node": node,
        "store_id": "0123456789abcdef" * 2,
        "boot_id": "boot",
        "at_ms": at_ms,
        "epoch": 5,
        "versions": {"bascule": "1.0", "store": 1},
        "queues": [queue_fields(queue())],
        "dead_letters": [{"bridge": "cloud", "number": 2, "held": 1, "bytes": 10}],
        "sessions": 0,
        "retained": 0,
        "limits": {"max_messages": None, "max_bytes": None, "min_free_disk_bytes": 0},
        "disk_free_bytes": 1 << 40,
        "events": [0, 9],
    }


class Box:
    """A node's data folder with a store of files that change as those of RocksDB do: tables come and go, and never change."""

    def __init__(self, folder: Path, node: str = "edge", seed: int = 0) -> None:
        self.node = node
        self.store = folder / "store"
        self.store.mkdir(parents=True)
        (self.store / "CURRENT").write_bytes(b"MANIFEST-1\n")
        self.snapshots = SnapshotFolder(folder / "snapshots", self.store, lambda: self.at_ms)
        self._random = Random(seed)
        self._number = 0
        self.at_ms = AT_MS

    def table(self, size_bytes: int = 3000) -> Path:
        """A new table."""
        self._number += 1
        path = self.store / f"{self._number:06}.sst"
        path.write_bytes(self._random.randbytes(size_bytes))
        return path

    def make(self, renamed: Mapping[str, str] | None = None) -> Path:
        """A snapshot of the store as it is: its tables are linked."""
        self.at_ms += 1000
        part = self.snapshots.begin(self.node, self.at_ms, 1)
        (part / STORE_NAME).mkdir()
        for path in self.store.glob("*.sst"):
            os.link(path, part / STORE_NAME / (renamed or {}).get(path.name, path.name))
        (part / STORE_NAME / "CURRENT").write_bytes(b"MANIFEST-1\n")
        (part / STORE_NAME / "MANIFEST-1").write_bytes(self._random.randbytes(200))
        manifest = self.snapshots.finish(part, fields(self.node, self.at_ms))
        return self.snapshots.path / manifest.id


def manifest(**keys: Any) -> Manifest:
    """A manifest of no files."""
    return Manifest.of_fields({"format": 1, "id": "edge-20231114T221320000Z-5", "files": [], **fields("edge", AT_MS), **keys})
