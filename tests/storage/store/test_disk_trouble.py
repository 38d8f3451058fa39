"""A disk that is full, or nearly: nothing is lost, nothing is acknowledged, and attempts grow rare."""

from __future__ import annotations

from dataclasses import replace

import pytest

from storage.engine.engine import Write
from storage.replication.log import LogAway
from storage.store.disk_trouble import Disk
from storage.store.event_log import EventLog
from tests.storage.building import (
    RecordingEngine,
    append_frame,
    node,
)
from tests.storage.commanding import command
from tests.storage.turns import handed, of, open_lane, publishes, turn
from tests.support.settings import limits
from tests.support.stores import open_store
from wire.config_settings import SettingsNow
from wire.errors import DiskFull
from wire.frames.intake import FULL, NEAR, OPEN, Committed, Room, RoomWanted, SenderResumes


def test_a_full_disk_acknowledges_nothing_loses_nothing_and_ends_by_itself() -> None:
    """store.refused-write-kept"""
    engine = RecordingEngine()
    store = open_store(engine, node(), 1)
    open_lane(store)
    engine.refusing = True

    assert turn(store, publishes(1, b"a")) == []
    assert turn(store, publishes(2, b"b"), publishes(1, b"a"), now_s=100.05) == []
    assert turn(store, now_s=101.0) == []
    assert store.status(5000).state == "disk_full"
    engine.refusing = False
    effects = turn(store, now_s=110.0)

    assert [frame.number for frame in of(effects, Committed)] == [2]
    assert handed(effects) == [b"a", b"b"]
    assert store.status(5000).state == "running"


def test_a_log_that_is_away_is_no_disk_that_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    """store.refused-write-kept"""
    engine = RecordingEngine()
    store = open_store(engine, node(), 1)
    open_lane(store)

    def away(write: Write, *, sync: bool) -> float:
        raise LogAway("no majority", write=len(write.ops), sync=sync)

    with monkeypatch.context() as refusing:
        refusing.setattr(engine, "commit", away)
        assert turn(store, publishes(1, b"a")) == []
        assert store.status(5000).state == "log_away"
    effects = turn(store, now_s=110.0, wall_ms=9000)

    assert [frame.number for frame in of(effects, Committed)] == [1]
    assert store.status(5000).state == "running"
    told = command(store, "events", now_s=111.0)["events"]
    assert [(event["kind"], event["reason"]) for event in told] == [("log.away", "log_away"), ("log.available", "log_away")]


def test_little_free_disk_behaves_as_full() -> None:
    engine = RecordingEngine()
    engine.free = 10
    store = open_store(engine, node(limit=limits(min_free_disk_bytes=100)), 1)

    (room,) = of(turn(store, SenderResumes(sender="listener", epoch=1, number=1)), Room)
    assert room.queues == {"": (NEAR, 0, 0)}
    (room,) = of(turn(store, replace(append_frame(1, {}), room=room.number), RoomWanted(epoch=1, wanted={"": (1, 1)})), Room)
    assert room.queues == {"": (FULL, 0, 0)}
    assert store.status(5000).state == "disk_low"
    engine.free = 1000
    (room,) = of(turn(store, now_s=102.0), Room)

    assert room.queues == {"": (OPEN, 0, 0)}


def disk_that_refuses() -> tuple[RecordingEngine, EventLog, Disk]:
    engine = RecordingEngine()
    engine.refusing = True
    settings = SettingsNow(node(limit=limits(min_free_disk_bytes=0)))
    events = EventLog(engine, settings)
    return engine, events, Disk(engine, settings, tell=events.disk)


def test_attempts_on_a_full_disk_grow_rare_and_none_is_made_before_its_time() -> None:
    _, _, disk = disk_that_refuses()
    disk.refuses(DiskFull("no space left"), 0.0, 5000)
    waits, now_s = [], 0.0
    for _ in range(8):
        assert disk.retry_s is not None
        assert not disk.reopen(disk.retry_s - 0.01, 5000)
        waits.append(round(disk.retry_s - now_s, 3))
        now_s = disk.retry_s
        assert not disk.reopen(now_s, 5000)

    assert waits == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]


def test_a_disk_that_was_opened_again_is_in_trouble_until_a_commit_goes_through() -> None:
    engine, events, disk = disk_that_refuses()
    disk.refuses(DiskFull("no space left"), 0.0, 5000)
    engine.refusing = False

    assert disk.reopen(1.0, 5000)
    assert disk.retry_s is None
    assert disk.refusal is not None
    disk.on_recovered(6000)

    assert disk.refusal is None
    assert [event.kind for event in events.waiting] == ["disk.full", "disk.available"]
