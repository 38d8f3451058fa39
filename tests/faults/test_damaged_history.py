"""Bits flip in what is kept of settled messages: the queues go on as if nothing was there, and no message counts as lost."""

from __future__ import annotations

import random
import shutil
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from storage.engine.engine import RocksEngine
from tests.faults import stores
from tests.faults.stores import copy_store, emptied, filled
from tests.faults.test_damaged_files import flip
from tests.storage.building import QUEUE, bridge, node
from tests.support.present import present
from tests.support.stores import open_store
from wire.config_settings import NodeSettings

SEED = 5
FLIPS = 8
SOAK_FLIPS = 300


def retaining(folder: Path, sync: str = "full", retention_s: float = 86400.0) -> NodeSettings:
    return node(replace(bridge(lanes=stores.LANES), retention_s=retention_s), data_dir=str(folder.parent), sync=sync)


def test_damage_among_settled_messages_costs_no_live_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, soak: bool) -> None:
    monkeypatch.setattr("storage.engine.engine.MEMTABLE_BYTES", 256 << 10)
    monkeypatch.setattr("storage.engine.engine.WAL_MAX_BYTES", 512 << 10)
    monkeypatch.setattr(stores, "settings", retaining)
    chance = random.Random(SEED)
    folder = tmp_path / "live" / "store"
    with filled(folder, SEED, commits=150, size_bytes=4200):
        pass
    emptied(folder)
    paths = sorted(folder.glob("*.blob"))
    assert paths, "the payloads of the settled messages are in them"
    for trial in range(SOAK_FLIPS if soak else FLIPS):
        path = chance.choice(paths)
        at, bit = chance.randrange(path.stat().st_size), chance.randrange(8)
        where = f"{path.name} at {at} bit {bit}, trial {trial}, seed {SEED}"
        image = tmp_path / "image" / "store"
        copy_store(folder, image, changed=path.name)
        flip(image / path.name, at, bit)

        found = emptied(image, life=3)
        with closing(RocksEngine(image)) as engine:
            store = open_store(engine, retaining(image, retention_s=1.0), 4)
            for second in range(0, 60, 10):
                store.tick(1e6 + second, 10_000_000 + second)
                store.commit(1e6 + second, 10_000_000 + second)
            status = store.status(0).queues

        for queue, figures in status.items():
            assert list(found.handed[queue].values()) == [b"new"], where
            assert figures.ledger_closes, where
            assert figures.dropped == {}, where
            assert present(figures.retained).messages == 0, where
        assert QUEUE in status
        shutil.rmtree(image.parent)
