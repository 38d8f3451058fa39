"""A disk that is really full, with a history on it: the history gives way, whatever ``min_free_disk`` is, and intake goes on."""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from storage.engine.engine import RocksEngine
from storage.store import history_retention
from tests.faults.test_commit_held_back import fill, small_disk
from tests.storage.building import QUEUE, node
from tests.storage.queue.test_history import Box, kept_for
from tests.support.settings import itself
from wire.config_settings import NodeSettings
from wire.errors import DiskFull

__all__ = ["small_disk"]  # a fixture

ROWS = 20
CUTS = 1
SOAK_CUTS = 20
TURNS_MAX = 100_000
RESERVE_BYTES = 8 << 20


@pytest.fixture(autouse=True)
def small_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is a tenth of what it is on a disk of its usual size."""
    monkeypatch.setattr("storage.engine.engine.MEMTABLE_BYTES", 2 << 20)
    monkeypatch.setattr("storage.engine.engine.WAL_MAX_BYTES", 6 << 20)
    monkeypatch.setattr(history_retention, "RESERVE_BYTES", RESERVE_BYTES)
    monkeypatch.setattr(history_retention, "LOW_BYTES", 0)  # else it would not come to it


def without_limit(disk: Path) -> NodeSettings:
    limits = replace(node().limits, min_free_disk_bytes=0, max_bytes=None, max_messages=None)
    return itself(kept_for(limit=limits), data_dir=str(disk))


class Flow:
    """Messages that come and are delivered at once, and are kept until there is no room."""

    def __init__(self, box: Box, size_bytes: int) -> None:
        self.box = box
        self.published = self.settled = self.cuts = 0
        self._size_bytes = size_bytes

    @property
    def begins(self) -> int:
        """The start of the history."""
        history = self.box.store.lanes.all[QUEUE].queue.trimming.history
        assert history is not None
        return history.begins

    def go_on(self) -> None:
        """Some messages more; they are delivered once they are committed."""
        before = self.begins
        self.box.publish(ROWS, size=self._size_bytes)
        self.published += ROWS
        self.box.pass_time(0.5)
        delivered = len(self.box.handed)
        self.box.settle((self.settled, delivered))
        self.settled = delivered
        self.cuts += self.begins > before


@pytest.mark.parametrize("size_bytes", [1000, 6000])
def test_a_disk_full_of_history_never_stops_the_node(small_disk: Path, size_bytes: int, soak: bool) -> None:
    cuts = SOAK_CUTS if soak else CUTS
    with ExitStack() as stack:
        engine = RocksEngine(small_disk / "store")
        stack.callback(engine.close)
        flow = Flow(Box(engine, without_limit(small_disk)), size_bytes)
        for _ in range(TURNS_MAX):
            flow.go_on()
            if flow.cuts == cuts:
                break

        assert flow.cuts == cuts
        for _ in range(3):
            flow.go_on()
        assert flow.published - flow.settled <= ROWS, "all is handed out"
        assert [seq for seq, _ in flow.box.handed] == [*range(flow.settled)], "each once, and in order"
        flow.box.kept()
        status = flow.box.status()
        assert status["ledger_closes"] is True
        assert set(status["dropped"]) == set()
        assert flow.box.store.status(0).state == "running"
        assert {event["reason"] for event in flow.box.events("history.cut")} <= {"disk"}


def test_a_store_opens_on_a_full_disk_by_its_reserve_and_has_none_without_a_history(small_disk: Path) -> None:
    reserve = small_disk / "store.reserve"
    engine = RocksEngine(small_disk / "store")
    flow = Flow(Box(engine, without_limit(small_disk)), 6000)
    for _ in range(100):
        flow.go_on()
    assert os.stat(reserve).st_size == RESERVE_BYTES
    assert os.stat(reserve).st_blocks * 512 >= RESERVE_BYTES, "it takes the room"
    held = fill(small_disk)
    engine.close()
    fill(small_disk)  # what its end has given back

    engine = RocksEngine(small_disk / "store")
    assert not reserve.exists()
    Flow(Box(engine, without_limit(small_disk), epoch=2), 6000)
    engine.close()
    held.unlink()
    engine = RocksEngine(small_disk / "store")
    engine.reserve(RESERVE_BYTES)
    assert reserve.exists()
    Box(engine, node(), epoch=3)

    assert not reserve.exists(), "nothing is kept that could give way"
    engine.close()


def test_without_a_reserve_a_store_that_finds_no_room_says_so_and_waits(small_disk: Path) -> None:
    engine = RocksEngine(small_disk / "store")
    flow = Flow(Box(engine, without_limit(small_disk)), 6000)
    for _ in range(100):
        flow.go_on()
    engine.reserve(0)
    held = fill(small_disk)
    engine.close()
    fill(small_disk)  # what its end has given back
    with pytest.raises(DiskFull):
        RocksEngine(small_disk / "store")
    held.unlink()

    engine = RocksEngine(small_disk / "store")

    box = Box(engine, without_limit(small_disk), epoch=2)
    box.kept()
    assert box.status()["retained"]["messages"] == flow.settled
    engine.close()
