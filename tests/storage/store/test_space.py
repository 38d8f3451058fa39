"""Deleted bytes of the store are given back, and kept ones are counted: whatever was deleted, by whom, and whoever died since."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import pytest

from storage.engine import dead_bytes
from storage.engine.engine import RocksEngine
from storage.store import housekeeping
from tests.storage.building import QUEUE, RecordingEngine, append_frame, batch, wait_idle
from tests.storage.commanding import command
from tests.storage.queue.test_history import DAY_S, Box, kept_for
from tests.support.present import present
from tests.support.settings import limits
from tests.support.waiting import wait_until
from wire.errors import Unavailable
from wire.frames.intake import Committed
from wire.frames.lanes import Credit

ROWS, SIZE_BYTES, BATCHES = 50, 2000, 120
TOTAL_BYTES = ROWS * SIZE_BYTES * BATCHES
STAYS_BYTES = 4 << 20


@pytest.fixture(autouse=True)
def small_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storage.engine.engine.MEMTABLE_BYTES", 1 << 20)
    monkeypatch.setattr("storage.engine.engine.WAL_MAX_BYTES", 3 << 20)
    monkeypatch.setattr(dead_bytes, "DEAD_BYTES", 2 << 20)
    monkeypatch.setattr(dead_bytes, "STEP_BYTES", 1 << 20)


def taken_bytes(engine: RocksEngine) -> int:
    figures = engine.figures()
    return present(figures).table_bytes + present(figures).blob_bytes


def drain(box: Box) -> None:
    """Everything is delivered, in commits that each leave nothing to trim."""
    for stop in range(2000, ROWS * BATCHES + 1, 2000):
        box.settle((stop - 2000, stop))


def purge(box: Box) -> None:
    box.turn(Credit(queue=QUEUE, epoch=box.lane_epoch, messages=0, size_bytes=0))
    command(box.store, "purge", bridge="cloud", in_flight=True, now_s=box.now_s)


def purge_dead_letters(box: Box) -> None:
    """After so many deaths that only the newest are kept as letters."""
    for stop in range(ROWS, ROWS * BATCHES + 1, ROWS):
        box.settle((stop - ROWS, stop), outcome="dead:0x87")
    command(box.store, "purge", bridge="cloud", dead=True, now_s=box.now_s)


def grow_old(box: Box) -> None:
    """It is delivered, kept as history for a day, and then too old."""
    drain(box)
    box.pass_time(2 * DAY_S)


@pytest.mark.parametrize("dies", [False, True])
@pytest.mark.parametrize("empty", [drain, purge, purge_dead_letters, grow_old])
def test_a_store_that_keeps_nothing_takes_no_room(tmp_path: Path, empty: Callable[[Box], None], *, dies: bool) -> None:
    retention_s = DAY_S if empty is grow_old else 0.0
    settings = kept_for(retention_s, limit=limits(max_bytes=None, max_messages=None))
    engine = RocksEngine(tmp_path / "store")
    box = Box(engine, settings)
    for _ in range(BATCHES):
        box.publish(ROWS, size=SIZE_BYTES)
    engine.flush()
    assert taken_bytes(engine) > TOTAL_BYTES // 2
    empty(box)
    if dies:
        wait_idle(engine)
        shutil.copytree(tmp_path / "store", tmp_path / "copy", ignore=shutil.ignore_patterns("LOCK"))
        engine.close()
        engine = RocksEngine(tmp_path / "copy")
        box = Box(engine, settings, epoch=2, wall_ms=box.wall_ms)

    def given_back() -> bool:
        box.pass_time(housekeeping.TIDY_PERIOD_S)
        return taken_bytes(engine) <= STAYS_BYTES

    wait_until(given_back, 60.0, lambda: f"{taken_bytes(engine)} bytes are left", period_s=0.02)
    engine.close()


def test_nothing_is_merged_before_what_was_deleted_is_committed() -> None:
    """Else the merge would find nothing deleted, and would be taken for one in vain."""

    class Told(RecordingEngine):
        told: ClassVar[list[int]] = []

        def tidy(self, kept_bytes: int, *, pressed: bool) -> None:
            self.told.append(kept_bytes)

    box = Box(Told(), kept_for(0.0))
    box.pass_time(housekeeping.TIDY_PERIOD_S)
    (empty,) = Told.told
    box.publish(ROWS, size=SIZE_BYTES)
    box.settle((0, ROWS))
    box.now_s += housekeeping.TIDY_PERIOD_S
    box.store.tick(box.now_s, box.wall_ms)
    assert Told.told == [empty], "the trim of what was delivered waits for the commit"
    box.turn()

    assert Told.told[1:] == [pytest.approx(empty, abs=1000)]


def test_a_look_that_fails_takes_nothing_from_what_was_committed() -> None:
    class Blind(RecordingEngine):
        looks = 0

        def tidy(self, kept_bytes: int, *, pressed: bool) -> None:
            self.looks += 1
            raise Unavailable("input/output error")

    engine = Blind()
    box = Box(engine, kept_for(0.0))
    box.publish(ROWS)
    box.settle((0, ROWS))
    box.now_s += housekeeping.TIDY_PERIOD_S
    box.store.tick(box.now_s, box.wall_ms)

    effects = box.turn(append_frame(2, {QUEUE: (batch([b"one"]), None)}))

    assert engine.looks
    assert [frame.number for _, frame in effects if isinstance(frame, Committed)] == [2]
    assert box.store.status(box.wall_ms).state == "running"
