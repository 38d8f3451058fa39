"""The history of a store: it adds up after anything, goes by age, bytes and free space, and live messages stay."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.engine.engine import Engine, Family, RocksEngine, Write
from storage.engine.keys import chunk_key, first_seq_of, lane_key
from storage.queue.chunk import Chunk
from storage.queue.history import Settlement, settlement_key
from storage.queue.ledger import LedgerRow
from storage.store import history_retention
from storage.store.event_rows import Event, event_key
from tests.storage.building import QUEUE, RecordingEngine, append_frame, batch, bridge, messages, node, settle_frame
from tests.storage.commanding import command
from tests.support.history_audit import Kept, audit
from tests.support.stores import open_store
from wire.config_settings import NodeSettings
from wire.errors import ConfigError, DiskFull, StorageDamaged
from wire.figure import to_map
from wire.frames.frame import Effects, Frame
from wire.frames.lanes import Credit, HandOut, LaneOpen, LaneOpened

DAY_S = 86400.0
NUMBER = 1  # of the bridge's queue
HOUR_MS = 3_600_000
CONNECTION = "connection:cloud:0"


def kept_for(retention_s: float = DAY_S, max_bytes: int = 1 << 30, **limit: Any) -> NodeSettings:
    return node(replace(bridge(), retention_s=retention_s, retention_max_bytes=max_bytes), **limit)


class Box:
    """A store and its one lane, with a clock."""

    def __init__(self, engine: Engine, settings: NodeSettings | None = None, *, epoch: int = 1, wall_ms: int = 1_000_000) -> None:
        self.engine = engine
        self.store = open_store(engine, settings or kept_for(), epoch)
        self.epoch = epoch
        self.lane_epoch = epoch << 20
        self.now_s = epoch * 1_000_000.0
        self.wall_ms = wall_ms
        self.number = 0
        self.handed: list[tuple[int, bytes]] = []
        effects = self.turn(LaneOpen(queue=QUEUE, epoch=self.lane_epoch))
        (self.opened,) = [frame for _, frame in effects if isinstance(frame, LaneOpened)]
        self.turn(Credit(queue=QUEUE, epoch=self.lane_epoch, messages=1 << 30, size_bytes=1 << 40))

    def turn(self, *frames: Frame) -> Effects:
        for frame in frames:
            self.store.receive(frame)
        effects = [*self.store.admit(self.now_s, self.wall_ms), *self.store.commit(self.now_s, self.wall_ms, at_once=True)]
        for _, frame in effects:
            if isinstance(frame, HandOut):
                self.handed += messages(frame)
        return effects

    def publish(self, count: int, qos: int = 1, size: int = 10) -> None:
        self.number += 1
        payloads = [b"%d.%d" % (self.number, row) + b"." * size for row in range(count)]
        self.turn(append_frame(self.number, {QUEUE: (batch(payloads, qos), None)}, epoch=self.epoch))

    def settle(self, *ranges: tuple[int, int], outcome: str = "delivered", number: int = 1) -> None:
        self.turn(settle_frame(number, self.lane_epoch, (outcome, ranges)))

    def pass_time(self, seconds: float, steps: int = 1) -> None:
        for _ in range(steps):
            self.now_s += seconds / steps
            self.wall_ms += int(seconds * 1000 / steps)
            self.store.tick(self.now_s, self.wall_ms)
            self.turn()

    def kept(self, *, all_durable: bool = True) -> Kept:
        kept = audit(self.engine, NUMBER, all_durable=all_durable)
        assert kept is not None
        assert kept.problems == []
        return kept

    def events(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in command(self.store, "events", now_s=self.now_s)["events"] if event["kind"] == kind]

    def status(self) -> dict[str, Any]:
        lane: dict[str, Any] = to_map(self.store.status(self.wall_ms).queues[QUEUE])
        return lane


def filled(box: Box) -> int:
    """Publish and settle 1,000 messages in batches of ten; the bytes of the history then."""
    for start in range(0, 1000, 10):
        box.publish(10, size=50)
        box.settle((start, start + 10))
    size_bytes: int = box.status()["retained"]["bytes"]
    return size_bytes


@pytest.fixture(params=["recording", "rocksdb"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    if request.param == "recording":
        yield RecordingEngine()
    else:
        rocks = RocksEngine(tmp_path / "store")
        yield rocks
        rocks.close()


def first_seqs(engine: Engine) -> list[int]:
    return [first_seq_of(key) for key, _ in engine.scan("msg", chunk_key(NUMBER, 0), chunk_key(NUMBER + 1, 0))]


def test_each_commit_that_settles_says_who_when_and_how(engine: Engine) -> None:
    box = Box(engine)
    box.publish(10)
    box.turn(
        settle_frame(1, box.lane_epoch, ("delivered", ((0, 3),)), ("dropped:refused_0x99", ((4, 5),)), ("redelivered", ((0, 2),))),
        settle_frame(2, box.lane_epoch, ("delivered", ((3, 4),))),
        settle_frame(0, box.lane_epoch, ("expired", ((6, 7),))),
    )
    box.pass_time(5)
    box.settle((5, 6), outcome="dead:0x87")

    rows = dict(box.kept().settlements)

    of_connection = (("delivered", ((0, 4),)), ("dropped:refused_0x99", ((4, 5),)), ("redelivered", ((0, 2),)))
    assert rows == {
        0: Settlement(1_000_000, f"{CONNECTION}@{box.lane_epoch}", of_connection, head=0, reach=7),
        1: Settlement(1_000_000, f"forwarder:cloud:0@{box.lane_epoch}", (("expired", ((6, 7),)),), head=0, reach=7),
        2: Settlement(1_005_000, f"{CONNECTION}@{box.lane_epoch}", (("dead:0x87", ((5, 6),)),), head=5, reach=7),
    }
    assert box.status()["retained"]["messages"] == 7


def test_without_retention_nothing_is_written(engine: Engine) -> None:
    box = Box(engine, node())
    box.publish(10)
    box.settle((0, 10))
    box.pass_time(30, steps=3)

    kept = box.kept(all_durable=False)

    assert (kept.settlements, kept.chunks, kept.row.history.begins) == ([], [], -1)
    assert box.status()["retained"] == {"messages": 0, "bytes": 0}


def test_settled_messages_stay_for_the_retention_and_go_then(engine: Engine) -> None:
    """queue.history-without-gap"""
    box = Box(engine, kept_for(60.0))
    for _ in range(5):
        box.publish(10)
        box.pass_time(20)
        box.settle((box.kept().row.tail - 10, box.kept().row.tail))
    box.publish(3)
    box.pass_time(10)

    assert box.kept().row.history.begins == 20, "they were settled 90 s and 70 s ago, the next 50 s ago"
    box.pass_time(25)
    kept = box.kept()

    assert kept.row.history.begins == first_seqs(engine)[0] == 30
    assert (kept.settled("delivered"), kept.row.head, kept.row.tail) == ([*range(30, 50)], 50, 53)
    box.pass_time(3600)
    assert first_seqs(engine) == [50], "the live ones"
    assert (box.kept().settlements, box.status()["retained"]["messages"]) == ([], 0)
    assert len(box.handed) == 53


def test_a_chunk_stays_until_all_of_it_is_old(engine: Engine) -> None:
    """queue.history-without-gap"""
    box = Box(engine, kept_for(60.0))
    box.publish(10)
    box.settle((0, 5), (7, 9))
    box.pass_time(100)
    box.settle((5, 7), (9, 10))
    box.pass_time(20)

    assert box.kept().settled("delivered") == [*range(10)], "all of its settlements, the old ones too"
    box.pass_time(60)
    assert (box.kept().settled("delivered"), first_seqs(engine)) == ([], [])


def test_the_history_outlives_restarts_and_settles_nothing_twice(engine: Engine) -> None:
    box = Box(engine)
    for epoch in range(2, 6):
        box.publish(10)
        seqs = [seq for seq, _ in box.handed]
        box.settle((seqs[0], seqs[0] + 4), (seqs[5], seqs[5] + 3))
        box.kept()
        box = Box(engine, epoch=epoch, wall_ms=box.wall_ms)
    box.settle((0, 1 << 30))

    assert box.kept().settled("delivered") == [*range(40)]


def test_the_oldest_go_when_there_are_too_many_bytes(engine: Engine) -> None:
    box = Box(engine, kept_for(max_bytes=20_000))
    before = filled(box)
    box.pass_time(60, steps=6)
    kept = box.kept()

    assert before > 60_000
    assert 10_000 < box.status()["retained"]["bytes"] <= 20_000
    assert 0 < kept.row.history.begins == first_seqs(engine)[0] < 1000
    (event,) = box.events("history.cut")
    assert (event["bridge"], event["lane"], event["reason"]) == ("cloud", 0, "size")
    assert event["count"] == kept.row.history.begins


def test_for_want_of_room_settlements_go_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_retention, "SETTLEMENTS_A_PASS", 7)
    engine = RecordingEngine()
    box = Box(engine, kept_for(max_bytes=1 << 20))
    for start in range(0, 1000, 10):
        box.publish(10, size=50)
        box.settle((start + 5, start + 10))  # out of order
        box.settle((start, start + 5))
    box = Box(engine, kept_for(max_bytes=40_000), epoch=2)
    box.pass_time(11)
    kept = box.kept()

    assert 15_000 < box.status()["retained"]["bytes"] <= 40_000, "no more goes than has to, and at once"
    assert 0 < kept.row.history.begins == first_seqs(engine)[0] < 1000
    assert min(low for _, row in kept.settlements for _, ranges in row.outcomes for low, _ in ranges) >= kept.row.history.begins


def test_the_rows_of_qos_0_count_too(engine: Engine) -> None:
    box = Box(engine, kept_for(max_bytes=20_000))
    for start in range(400):
        box.publish(1, qos=0)
        box.settle((start, start + 1), number=0)
    box.pass_time(60, steps=6)

    assert 100 < len(box.kept(all_durable=False).settlements) <= 200


def test_the_history_goes_before_the_disk_is_full() -> None:
    engine = RecordingEngine()
    engine.free = 10_000
    box = Box(engine, kept_for(limit=replace(node().limits, min_free_disk_bytes=1000)))
    box.publish(10)
    box.settle((0, 10))
    box.publish(5)
    box.pass_time(20, steps=2)
    assert box.kept().row.history.begins == 0
    engine.free = 1100
    box.pass_time(20, steps=2)

    assert (box.kept().settlements, first_seqs(engine)) == ([], [10])
    assert [(event["reason"], event["count"]) for event in box.events("history.cut")] == [("disk", 10)]
    box.settle((10, 15))
    assert box.kept().settled("delivered") == [*range(10, 15)]


def test_with_little_room_the_history_takes_no_more_than_is_free_whatever_the_limit_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_retention, "LITTLE_BYTES", 0)
    engine = RecordingEngine()
    box = Box(engine, kept_for(limit=replace(node().limits, min_free_disk_bytes=0)))
    before = filled(box)
    for free in (history_retention.LOW_BYTES, before + 1000):
        engine.free = free
        box.pass_time(11)
        box.pass_time(11)
        assert box.kept().row.history.begins == 0
    engine.free = before * 2 // 3
    box.pass_time(22, steps=2)

    assert before // 3 < box.status()["retained"]["bytes"] <= before // 2, "half of it, once"
    assert box.kept().row.history.begins == first_seqs(engine)[0]
    assert {event["reason"] for event in box.events("history.cut")} == {"disk"}


@pytest.mark.parametrize("refused", [1, 2, 3])
def test_half_of_the_history_goes_each_time_the_disk_is_full(monkeypatch: pytest.MonkeyPatch, refused: int) -> None:
    """refused: commits, one after the other, by a disk on which the store can be opened again."""

    class Full(RecordingEngine):
        left = 0

        def commit(self, write: Write, *, sync: bool) -> float:
            if self.left:
                self.left -= 1
                raise DiskFull("no space left")
            return super().commit(write, sync=sync)

    monkeypatch.setattr(history_retention, "LITTLE_BYTES", 0)
    engine = Full()
    box = Box(engine, kept_for(limit=replace(node().limits, min_free_disk_bytes=0)))
    before = filled(box)
    box.publish(5)
    engine.left = refused
    box.publish(5)
    assert [seq for seq, _ in box.handed][-1] == 1004, "what is not committed is not handed out"
    box.pass_time(30, steps=6)

    assert [seq for seq, _ in box.handed] == [*range(1010)]
    assert before * 0.3**refused < box.status()["retained"]["bytes"] <= before * 0.5**refused
    assert box.kept().row.history.begins == first_seqs(engine)[0] > 0
    box.pass_time(700, steps=2)
    assert {event["reason"] for event in box.events("history.cut")} == {"disk"}
    assert box.status()["ledger_closes"]


def test_retention_switched_off_drops_what_was_kept_and_on_again_begins_there(engine: Engine) -> None:
    box = Box(engine)
    box.publish(10)
    box.settle((0, 6))
    numbers = len(box.kept().settlements)
    box = Box(engine, node(), epoch=2)
    kept = box.kept(all_durable=False)
    assert (kept.settlements, kept.row.history.begins, kept.row.history.next) == ([], -1, numbers)
    box.settle((7, 8))
    box.pass_time(30)

    box = Box(engine, epoch=3)
    assert box.kept().row.history.begins == 8, "from there on nothing had been settled"
    assert [seq for seq, _ in box.handed] == [6, 8, 9]
    box.settle((6, 7), (8, 9))
    kept = box.kept()
    assert [number for number, _ in kept.settlements] == [numbers], "a number is never given twice"
    assert kept.settled("delivered") == [8]


def test_a_purge_is_in_the_history_and_takes_no_settled_message(engine: Engine) -> None:
    box = Box(engine)
    for _ in range(3):
        box.publish(5)
    box.settle((0, 5))
    command(box.store, "purge", bridge="cloud", in_flight=True, now_s=box.now_s)
    kept = box.kept(all_durable=False)

    assert (kept.settled("delivered"), kept.settled("dropped:purged")) == ([*range(5)], [*range(5, 15)])
    assert dict(kept.settlements)[1].by == "operator"
    assert [chunk.first_seq for chunk in kept.chunks] == [0], "what was delivered is still to be seen"
    box.pass_time(2)
    assert [(event["reason"], event["count"]) for event in box.events("queue.purged")] == [("queue", 10)]


@pytest.mark.parametrize("what", ["chunk", "settlement", "no settlement"])
def test_damage_in_the_history_never_touches_what_lives(what: str) -> None:
    """queue.history-leaves-live-alone"""
    engine = RecordingEngine()
    box = Box(engine, kept_for(60.0))
    for start in range(0, 50, 10):
        box.publish(10)
        box.settle((start, start + 10))
    box.publish(10)
    write = Write()
    if what == "chunk":
        write.put("msg", chunk_key(NUMBER, 20), b"rubbish")
    elif what == "settlement":
        write.put("history", settlement_key(NUMBER, 2), b"rubbish")
    else:
        write.delete("history", settlement_key(NUMBER, 2))
    engine.apply(write)
    box = Box(engine, kept_for(60.0, 1000), epoch=2)
    box.pass_time(50, steps=5)
    box.pass_time(60, steps=6)
    kept = box.kept()

    assert kept.row.history.begins == 50
    assert first_seqs(engine) == [50]
    assert [seq for seq, _ in box.handed] == [*range(50, 60)]
    lane = box.store.lanes.of_bridges[QUEUE]
    assert (lane.is_stopped, lane.losses, box.status()["dropped"]) == (False, 0, {})
    assert box.status()["ledger_closes"]
    box.settle((50, 60))
    assert box.kept().settled("delivered") == [*range(50, 60)]
    if what != "chunk":
        assert "damage" in [event["reason"] for event in box.events("history.cut")]


def test_a_damaged_retained_chunk_beside_the_head_is_not_taken_for_a_live_one() -> None:
    """QoS 0 was between the two, and the store has forgotten it: the chunk before the head is the last that is not behind it."""
    engine = RecordingEngine()
    box = Box(engine)
    box.publish(10)
    box.publish(5, qos=0)
    box.publish(10)
    box.settle((0, 10))
    box.pass_time(20, steps=2)
    write = Write()
    write.put("msg", chunk_key(NUMBER, 0), b"rubbish")
    engine.apply(write)

    box = Box(engine, epoch=2)

    assert [seq for seq, _ in box.handed] == [*range(15, 25)]
    assert box.store.status(0).queues[QUEUE].dropped == {"restart": 5}


def test_opening_reads_no_more_of_a_long_history() -> None:
    class Counting(RecordingEngine):
        reads = 0

        def scan(self, family: Family, start: bytes, stop: bytes) -> Iterator[tuple[bytes, bytes]]:
            for row in super().scan(family, start, stop):
                self.reads += 1
                yield row

    engine = Counting()
    box = Box(engine)
    for start in range(500):
        box.publish(1)
        box.settle((start, start + 1))
    engine.reads = 0
    Box(engine, epoch=2)

    assert engine.reads < 10


STEPS = st.lists(
    st.sampled_from(["publish", "publish0", "mixed", "settle", "settle", "later", "time", "restart", "purge", "purge all"]),
    max_size=40,
)


@settings(max_examples=60, deadline=None)
@given(script=STEPS, retention_s=st.sampled_from([5.0, DAY_S]), max_bytes=st.sampled_from([500, 1 << 30]))
def test_the_history_adds_up_after_a_crash_at_any_write(script: list[str], retention_s: float, max_bytes: int) -> None:
    """queue.history-without-gap"""
    engine = RecordingEngine()
    wanted = kept_for(retention_s, max_bytes)
    box = Box(engine, wanted)
    for step in script:
        waiting = sorted({seq for seq, _ in box.handed})
        if step == "publish":
            box.publish(3)
        elif step == "publish0":
            box.publish(2, qos=0)
        elif step == "mixed":
            box.number += 1
            box.turn(append_frame(box.number, {QUEUE: (batch([b"a", b"b", b"c"], [1, 0, 2]), None)}, epoch=box.epoch))
        elif step == "settle" and waiting:
            box.settle((waiting[0], waiting[0] + 2))
            box.handed = [pair for pair in box.handed if pair[0] >= waiting[0] + 2]
        elif step == "later" and waiting:
            box.settle((waiting[-1], waiting[-1] + 1), outcome="dropped:refused_0x99")
        elif step == "time":
            box.pass_time(12, steps=2)
        elif step == "restart":
            box = Box(engine, wanted, epoch=box.epoch + 1, wall_ms=box.wall_ms)
        elif step == "purge":
            command(box.store, "purge", bridge="cloud", now_s=box.now_s)
        elif step == "purge all":
            command(box.store, "purge", bridge="cloud", in_flight=True, now_s=box.now_s)
    for _, kept, survivor in engine.survivors():
        found = audit(survivor, NUMBER)
        assert found is None or found.problems == [], f"after {kept} writes"


# --- the bytes ---


def test_the_bytes_of_a_settlement() -> None:
    outcomes = (("delivered", ((1, 4), (6, 7))), ("redelivered", ((1, 2),)))
    settlement = Settlement(1_700_000_000_000, "connection:cloud:0@5", outcomes, head=1, reach=300)

    fields = (
        "cf0000018bcfe56800b4636f6e6e656374696f6e3a636c6f75643a304035"
        "9292a964656c697665726564929201049206079 2ab726564656c697665726564919201 02".replace(" ", "")
    )
    assert settlement.encode().hex() == "9601" + fields + "01cd012c"
    assert Settlement.decode(settlement.encode()) == settlement
    with pytest.raises(StorageDamaged):
        Settlement.decode(msgpack.packb((1, 7, "by", (), 1)))
    assert settlement_key(1, 258).hex() == "54000000010000000000000102"


@pytest.mark.parametrize("kind", [Settlement, Event])
def test_rows_that_are_damaged_or_newer_are_told_apart(kind: type[Settlement] | type[Event]) -> None:
    for value in (b"", b"\xc1", msgpack.packb((1, 2)), msgpack.packb("text"), msgpack.packb((1, 2, "by", ((1,),)))):
        with pytest.raises(StorageDamaged):
            kind.decode(value)
    with pytest.raises(ConfigError):
        kind.decode(msgpack.packb((9, "new")))


def test_the_bytes_of_an_event() -> None:
    event = Event(at_ms=7, kind="link.up", bridge="cloud", lane=0, actor="c", details={"address": "h:1"})

    assert event.encode().hex() == "990107a76c696e6b2e7570a5636c6f756400a163a00081a761646472657373a3683a31"
    assert Event.decode(event.encode()) == event
    assert event_key(258).hex() == "450000000000000102"


def test_a_row_says_where_the_history_stands() -> None:
    engine = RecordingEngine()
    box = Box(engine)
    box.publish(1)
    value = engine.get("meta", lane_key(NUMBER))
    assert value is not None
    row = LedgerRow.decode(value, queue=QUEUE)
    assert msgpack.unpackb(value, use_list=False, strict_map_key=False)[-3] == (0, 0, 0, 0, 0)
    assert row.history.begins == 0
    assert Chunk.decode(next(engine.scan("msg", b"", b"\xff" * 13))[1], queue=QUEUE, seq=0).count == 1
