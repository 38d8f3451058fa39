"""The engines that a test of the store runs over."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from storage.engine.engine import Engine, RocksEngine
from storage.engine.memory_engine import MemoryEngine
from tests.storage.building import RecordingEngine


@pytest.fixture(params=["memory", "recording", "rocksdb"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    """Each engine in turn: one that keeps nothing, a durable one in memory, and RocksDB."""
    if request.param == "memory":
        yield MemoryEngine()
    elif request.param == "recording":
        yield RecordingEngine()
    else:
        rocks = RocksEngine(tmp_path / "store")
        yield rocks
        rocks.close()
