"""The events that a store keeps: in order, numbered for good, bounded; what queues lose and limits refuse is among them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from storage.engine.engine import Engine, RocksEngine, Write
from storage.engine.keys import reported_key
from storage.engine.memory_engine import MemoryEngine
from storage.store.event_rows import Event, event_key, event_number
from tests.storage.building import QUEUE, RecordingEngine, append_frame, batch, bridge, node, settle_frame
from tests.storage.commanding import command, refused
from tests.support.settings import limits
from tests.support.stores import open_store
from wire.config_settings import EventSettings, NodeSettings
from wire.frames.frame import Frame
from wire.frames.lanes import Credit, LaneOpen
from wire.frames.supervision import NodeEvents
from wire.status.store import EventFigures

LANE_EPOCH = 1 << 20


@pytest.fixture(params=["recording", "rocksdb"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    if request.param == "recording":
        yield RecordingEngine()
    else:
        rocks = RocksEngine(tmp_path / "store")
        yield rocks
        rocks.close()


def keeping(*bridges: Any, count: int = 100, age_s: float = 1e6, **keys: Any) -> NodeSettings:
    settings = node(*bridges, **keys)
    return replace(settings, persistence=replace(settings.persistence, events=EventSettings(max=count, max_age_s=age_s)))


class Box:
    """A store with a clock."""

    def __init__(self, engine: Engine, settings: NodeSettings | None = None, *, now_s: float = 100.0) -> None:
        self.store = open_store(engine, settings or keeping(), 1)
        self.now_s = now_s
        self.wall_ms = int(now_s * 1000) + 1_000_000
        self.number = 0

    def turn(self, *frames: Frame) -> None:
        for frame in frames:
            self.store.receive(frame)
        self.store.admit(self.now_s, self.wall_ms)
        self.store.commit(self.now_s, self.wall_ms)

    def publish(self, count: int, qos: int = 1) -> None:
        self.number += 1
        self.turn(append_frame(self.number, {QUEUE: (batch([b"x"] * count, qos), None)}))

    def pass_time(self, seconds: float, *, wall_s: float | None = None) -> None:
        self.now_s += seconds
        self.wall_ms += int((seconds if wall_s is None else wall_s) * 1000)
        self.store.tick(self.now_s, self.wall_ms)
        self.turn()

    def tell(self, *kinds: str) -> None:
        self.turn(NodeEvents(events=tuple((self.wall_ms, kind, "", -1, "", "", 0, {}) for kind in kinds)))

    def events(self, start: int = 0) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = command(self.store, "events", now_s=self.now_s, **{"from": start})["events"]
        return found

    def told(self) -> list[tuple[str, str, int]]:
        return [(event["kind"], event["reason"], event["count"]) for event in self.events()]


def test_events_are_kept_in_order_and_their_numbers_outlive_the_store(engine: Engine) -> None:
    box = Box(engine)
    box.tell("a", "b")
    box = Box(engine)
    box.tell("c")
    box.pass_time(1)

    assert [(event["number"], event["kind"]) for event in box.events()] == [(0, "a"), (1, "b"), (2, "c")]
    assert [event["kind"] for event in box.events(start=2)] == ["c"]
    assert box.store.status(0).events == EventFigures(kept=3, next=3)


def test_the_oldest_events_go_by_number_and_by_age(engine: Engine) -> None:
    box = Box(engine, keeping(count=10, age_s=1000))
    for number in range(30):
        box.tell(f"k{number}")
        box.pass_time(61)

    kinds = [event["kind"] for event in box.events()]
    assert kinds == [f"k{number}" for number in range(20, 30)]
    box.pass_time(10_000)
    box.pass_time(100)
    assert [event["kind"] for event in box.events()] == ["k29"], "the newest stays, so that its number is known"
    box = Box(engine, keeping(count=10, age_s=1000), now_s=20_000)
    box.tell("next")
    box.pass_time(1)
    assert [event["number"] for event in box.events()] == [30]


def test_a_flood_of_events_has_an_end() -> None:
    box = Box(RecordingEngine(), keeping(count=5000))
    box.tell(*["flood"] * 3000)
    box.pass_time(1)

    until = command(box.store, "events", now_s=box.now_s)["until"]
    (last,) = box.events(start=until - 1)
    assert until < 3000
    assert (last["kind"], last["count"]) == ("events.lost", 3000 - (until - 1))


@pytest.mark.parametrize("engine", [MemoryEngine(), RecordingEngine()])
def test_where_none_are_wanted_none_are_kept(engine: Engine) -> None:
    box = Box(engine, keeping(count=0 if engine.durable else 100))
    box.tell("a")
    box.publish(10, qos=0)
    box.pass_time(20)

    assert refused(box.store, "events", now_s=box.now_s)[0] == "not_kept"
    assert list(engine.scan("history", b"", b"\xff" * 16)) == []


def test_what_a_queue_loses_is_told_by_reason_at_most_each_ten_seconds() -> None:
    engine = RecordingEngine()
    box = Box(engine, keeping(bridge(limit=limits(max_messages=10, overflow="drop-newest"))))
    for _ in range(15):
        box.publish(3)
        box.pass_time(1)

    dropped = [event for event in box.events() if event["kind"] == "messages.dropped"]
    assert [(event["bridge"], event["lane"], event["reason"]) for event in dropped] == [("cloud", 0, "overflow")] * 2
    assert [(event["count"], event["details"]["total"]) for event in dropped] == [(2, 2), (30, 32)]
    box.pass_time(10)
    assert [event["count"] for event in box.events() if event["kind"] == "messages.dropped"] == [2, 30, 3]


def test_dead_expired_and_lost_messages_are_told() -> None:
    engine = RecordingEngine()
    box = Box(engine)
    box.turn(LaneOpen(queue=QUEUE, epoch=LANE_EPOCH))
    box.turn(Credit(queue=QUEUE, epoch=LANE_EPOCH, messages=5, size_bytes=1 << 30))
    box.publish(5)
    box.publish(7, qos=0)
    box.turn(settle_frame(1, LANE_EPOCH, ("dead:0x87", ((0, 2),)), ("expired", ((2, 5),))))
    box.pass_time(1)
    assert set(box.told()) == {("messages.dead", "0x87", 2), ("messages.expired", "", 3)}
    box = Box(engine)
    box.pass_time(1)

    assert box.told()[2:] == [("messages.dropped", "restart", 7)], "and nothing that was told before"


def test_what_was_lost_in_a_stores_last_second_is_told_by_the_next_one() -> None:
    engine = RecordingEngine()
    settings = keeping(bridge(limit=limits(max_messages=10, overflow="drop-newest")))
    box = Box(engine, settings)
    box.publish(13)
    box.pass_time(1)
    box.publish(4)
    box = Box(engine, settings)
    box.pass_time(1)

    assert [(kind, count) for kind, _, count in box.told() if kind == "messages.dropped"] == [
        ("messages.dropped", 3),
        ("messages.dropped", 4),
    ]


def test_where_it_is_damaged_what_was_told_nothing_is_told_twice() -> None:
    engine = RecordingEngine()
    settings = keeping(bridge(limit=limits(max_messages=10, overflow="drop-newest")))
    box = Box(engine, settings)
    box.publish(13)
    box.pass_time(1)
    write = Write()
    write.put("meta", reported_key(box.store.lanes.of_bridges[QUEUE].queue.number), b"\xc1")
    engine.commit(write, sync=True)
    box = Box(engine, settings, now_s=200)
    box.number = 1
    box.pass_time(1)
    box.publish(2)
    box.pass_time(1)

    assert [count for kind, _, count in box.told() if kind == "messages.dropped"] == [3, 2]


@pytest.mark.parametrize("policy", ["reject", "drop-oldest", "drop-newest"])
def test_an_overflow_has_a_beginning_and_an_end(policy: str) -> None:
    box = Box(RecordingEngine(), keeping(bridge(limit=limits(max_messages=4, overflow=policy))))
    qos = 0 if policy == "reject" else 1  # what was taken at another is kept
    box.publish(4, qos)
    box.pass_time(1)
    assert box.told() == []
    for _ in range(3):
        box.publish(2, qos)
        box.pass_time(2)
    assert [told for told in box.told() if told[0].startswith("overflow")] == [("overflow.began", policy, 0)]
    box.pass_time(20)

    began, ended = [event for event in box.events() if event["kind"].startswith("overflow")]
    assert (began["bridge"], ended["kind"], ended["reason"], ended["count"]) == ("cloud", "overflow.ended", policy, 6)
    assert ended["details"] == {"lasted_ms": 4000}


@pytest.mark.parametrize("policy", ["reject", "drop-oldest", "drop-newest"])
def test_a_message_larger_than_a_limit_is_told_as_an_overflow(policy: str) -> None:
    box = Box(RecordingEngine(), keeping(bridge(limit=limits(max_bytes=100, overflow=policy))))
    few = batch([b"x", b"x" * 100, b"x", b"x", b"x"])
    box.turn(append_frame(1, {QUEUE: (few, None)}))
    box.pass_time(20)

    told = {(event["kind"], event["reason"], event["count"]) for event in box.events()}
    lost = ("messages.dropped", "overflow", 1)
    assert told == {("overflow.began", policy, 0), ("overflow.ended", policy, 1), lost}


def test_the_limit_of_the_node_is_told_without_a_bridge() -> None:
    box = Box(RecordingEngine(), keeping(limit=limits(max_messages=4)))
    box.publish(6, 0)
    box.pass_time(1)

    assert next((event["kind"], event["bridge"]) for event in box.events()) == ("overflow.began", "")


def test_a_full_disk_is_told_at_once_and_on_record_when_it_can_be() -> None:
    engine = RecordingEngine()
    box = Box(engine)
    engine.refusing = True
    box.publish(1)
    full_ms = box.wall_ms
    told = box.events()
    assert [(event["kind"], event["number"]) for event in told] == [("disk.full", 0)]
    box.tell("link.up")
    box.pass_time(3)
    told = box.events()
    assert [event["kind"] for event in told] == ["disk.full", "link.up"]
    assert command(box.store, "events", now_s=box.now_s, **{"from": 1}) == {"events": told[1:], "next": 2, "until": 2}
    assert command(box.store, "events", now_s=box.now_s, count=1)["next"] == 1
    engine.refusing = False
    for _ in range(8):
        box.pass_time(1)

    assert box.events()[:2] == told, "under the same numbers"
    full, _, available = box.events()
    assert (full["kind"], full["reason"], full["at_ms"]) == ("disk.full", "disk_full", full_ms)
    assert (available["kind"], available["reason"]) == ("disk.available", "disk_full")
    assert available["details"]["lasted_ms"] == available["at_ms"] - full_ms


def test_too_little_free_space_is_told() -> None:
    engine = RecordingEngine()
    engine.free = 2000
    box = Box(engine, keeping(limit=limits(min_free_disk_bytes=1000)))
    box.pass_time(2)
    engine.free = 500
    box.pass_time(2)
    box.pass_time(2)
    engine.free = 2000
    box.pass_time(2)
    box.pass_time(2)

    assert [told[:2] for told in box.told()] == [("disk.full", "min_free_disk"), ("disk.available", "min_free_disk")]


def test_a_clock_that_jumps_is_told() -> None:
    box = Box(RecordingEngine())
    box.pass_time(1)
    box.pass_time(1, wall_s=2.5)
    box.pass_time(1, wall_s=-3599)
    box.pass_time(1)
    box.pass_time(1)

    jumps = [event for event in box.events() if event["kind"] == "clock.jumped"]
    assert [event["details"]["by_ms"] for event in jumps] == [-3_600_000]


def test_damaged_events_are_forgotten_and_nothing_else() -> None:
    engine = RecordingEngine()
    box = Box(engine, keeping(age_s=10))
    box.publish(3)
    box.tell("a", "b")
    box.pass_time(1)
    write = Write()
    write.put("history", event_key(0), b"rubbish")
    engine.apply(write)
    box = Box(engine, keeping(age_s=10))
    box.pass_time(100)
    box.tell("c")
    box.pass_time(1)

    rows = list(engine.scan("history", event_key(0), event_key(1 << 63)))
    assert [Event.decode(value).kind for _, value in rows] == ["c"]
    assert event_number(rows[0][0]) > 1, "no number is given twice"
    assert box.store.status(0).queues[QUEUE].depth == 3


def test_an_event_goes_with_the_next_commit_and_asks_for_no_sync() -> None:
    engine = RecordingEngine()
    box = Box(engine)
    before = len(engine.writes)
    box.tell("a")
    box.store.receive(NodeEvents(events=((1, "b", "", -1, "", "", 0, {}),)))
    box.publish(1)

    assert [synced for _, synced in engine.writes[before:]] == [False, True]
