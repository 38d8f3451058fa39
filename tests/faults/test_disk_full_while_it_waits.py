"""RocksDB takes no write while it writes tables; where the disk becomes full meanwhile, the store is told, and can make room."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from rocksdict import Options

from storage.engine import engine as engine_module
from storage.engine.engine import RocksEngine, Write
from tests.faults.test_commit_held_back import fill, small_disk
from wire.errors import DiskFull

__all__ = ["small_disk"]  # a fixture

MEMTABLE_BYTES = 2 << 20
TABLES_BYTES_A_S = 4 << 20  # a slow disk, so that tables are behind what comes
VALUE = bytes(6000)
ROWS = 40


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Tables are written slowly. How long each wait for them was."""
    made, waits = engine_module._options, list[float]()

    def slow_options(*args: Any, **keys: Any) -> Options:
        options = made(*args, **keys)
        options.set_ratelimiter(TABLES_BYTES_A_S, 100_000, 10)
        return options

    def sleep(wait_s: float, sleep: Any = time.sleep) -> None:
        waits.append(wait_s)
        sleep(wait_s)

    monkeypatch.setattr(engine_module, "MEMTABLE_BYTES", MEMTABLE_BYTES)
    monkeypatch.setattr(engine_module, "_options", slow_options)
    monkeypatch.setattr(engine_module, "sleep", sleep)
    return waits


def commit_rows(engine: RocksEngine, turn: int) -> None:
    write = Write()
    for row in range(ROWS):
        write.put("msg", (turn * ROWS + row).to_bytes(12, "big"), VALUE)
    engine.commit(write, sync=False)


def commit_until_refused(engine: RocksEngine) -> None:
    for turn in range(1000):
        commit_rows(engine, turn)


def test_a_commit_waits_until_tables_are_written(small_disk: Path, waits: list[float]) -> None:
    engine = RocksEngine(small_disk / "store")
    for turn in range(40):
        commit_rows(engine, turn)

    assert waits
    assert len(list(engine.scan("msg", b"", b"\xff"))) == 40 * ROWS
    engine.close()


def test_a_commit_that_waits_for_tables_is_refused_when_the_disk_is_full(small_disk: Path, waits: list[float]) -> None:
    engine = RocksEngine(small_disk / "store")
    held = fill(small_disk, leave_bytes=5 * MEMTABLE_BYTES)
    with pytest.raises(DiskFull):
        commit_until_refused(engine)
    assert waits
    committed = len(list(engine.scan("msg", b"", b"\xff")))

    held.unlink()
    engine.reopen()
    commit_rows(engine, committed)

    assert len(list(engine.scan("msg", b"", b"\xff"))) == committed + ROWS
    engine.close()
