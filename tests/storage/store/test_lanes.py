"""Which queues there are, and what becomes of one of which something is damaged or gone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from storage.engine.engine import Write
from storage.engine.keys import chunk_key, lane_key
from storage.queue.chunk import Chunk
from storage.store.next_commit import LAZY_S
from storage.store.store import TICK_S
from tests.storage.building import (
    QUEUE,
    RecordingEngine,
    append_frame,
    batch,
    bridge,
    node,
    settle_frame,
)
from tests.storage.turns import EPOCH, MANY, handed, of, open_lane, publishes, turn
from tests.support.stores import open_store
from wire.errors import StorageDamaged
from wire.frames.intake import FULL, Committed, Room, RoomWanted, SenderResumes
from wire.frames.lanes import Credit, LaneOpen, LaneOpened, LaneReopen


def test_a_damaged_chunk_is_counted_and_the_queue_goes_on_behind_it() -> None:
    engine = RecordingEngine()
    settings = node(bridge(lanes=2))
    store = open_store(engine, settings, 1)
    other = "bridge:cloud:1"
    lanes = (("cloud", 2),)
    turn(store, replace(append_frame(1, {QUEUE: (batch([b"sound"]), None), other: (batch([b"other"]), None)}), lanes=lanes))
    turn(store, replace(append_frame(2, {QUEUE: (batch([b"torn"]), None)}), lanes=lanes))
    write = Write()
    value = bytearray(engine.get("msg", chunk_key(1, 1)) or b"")
    value[-3] ^= 1
    write.put("msg", chunk_key(1, 1), bytes(value))
    engine.commit(write, sync=True)
    store = open_store(engine.rebuilt(len(engine.writes)), settings, 2)

    assert handed(open_lane(store)) == [b"sound"]
    turn(store, Credit(queue=QUEUE, epoch=EPOCH, messages=20_000, size_bytes=MANY))
    turn(store, LaneOpen(queue=other, epoch=EPOCH))
    assert handed(turn(store, Credit(queue=other, epoch=EPOCH, messages=9, size_bytes=MANY))) == [b"other"]
    effects = turn(store, replace(append_frame(3, {QUEUE: (batch([b"new"]), None)}, epoch=1), lanes=lanes))
    assert of(effects, Committed)[0].number == 3
    assert handed(effects) == [b"new"]
    status = store.status(5000).queues
    assert [store.lanes.of_bridges[name].losses for name in (QUEUE, other)] == [1, 0]
    assert (status[QUEUE].dropped, status[QUEUE].ledger_closes) == ({"damaged": 1}, True)
    assert not any(lane.is_stopped for lane in store.lanes.of_bridges.values())
    with pytest.raises(StorageDamaged, match="bridge:cloud:0"):
        Chunk.decode(bytes(value), queue=QUEUE, seq=1)


def test_queues_of_bridges_that_are_no_longer_configured_stay() -> None:
    engine = RecordingEngine()
    turn(open_store(engine, node(bridge("old")), 1), append_frame(1, {"bridge:old:0": (batch([b"a"]), None)}))

    status = open_store(engine.rebuilt(len(engine.writes)), node(bridge("new")), 2).status(5000).queues

    assert status["bridge:old:0"].depth == 1
    assert status["bridge:new:0"].depth == 0


def test_a_chunk_that_is_gone_is_noticed_by_the_bytes_before_the_next() -> None:
    engine = RecordingEngine()
    store = open_store(engine, node(), 1)
    for number, payload in enumerate([b"a", b"b", b"c", b"d"], 1):
        turn(store, publishes(number, payload))
    write = Write()
    write.delete("msg", chunk_key(1, 1))
    write.delete("msg", chunk_key(1, 2))
    engine.commit(write, sync=True)
    store = open_store(engine.rebuilt(len(engine.writes)), node(), 2)

    assert handed(open_lane(store)) == [b"a", b"d"]
    turn(store, settle_frame(1, EPOCH, ("delivered", ((0, 1), (3, 4)))))
    figures = store.status(5000).queues[QUEUE]
    assert (figures.dropped, figures.depth, figures.ledger_closes) == ({"damaged": 2}, 0, True)


def test_a_first_chunk_that_is_gone_is_counted_when_the_queue_has_run_empty() -> None:
    """Nothing stands before it that could tell; the depth does."""
    engine = RecordingEngine()
    store = open_store(engine, node(), 1)
    for number, payload in enumerate([b"a", b"b"], 1):
        turn(store, publishes(number, payload))
    write = Write()
    write.delete("msg", chunk_key(1, 0))
    engine.commit(write, sync=True)
    store = open_store(engine.rebuilt(len(engine.writes)), node(), 2)

    assert handed(open_lane(store)) == [b"b"]
    turn(store, settle_frame(1, EPOCH, ("delivered", ((1, 2),))))
    turn(store, now_s=100.0 + LAZY_S)
    figures = store.status(5000).queues[QUEUE]
    assert (figures.dropped, figures.depth, figures.ledger_closes) == ({"damaged": 1}, 0, True)


def test_the_remote_session_is_forgotten_when_what_may_have_been_sent_is_damaged() -> None:
    """The identifier of an unreleased QoS 2 message would stay in use at the remote: the lane is opened anew, without a session."""
    engine = RecordingEngine()
    store = open_store(engine, node(), 1)
    open_lane(store)
    turn(store, publishes(1, b"sent", qos=2))
    turn(store, settle_frame(1, EPOCH, session="edge@remote", generation=1))
    write = Write()
    write.put("msg", chunk_key(1, 0), b"torn")
    engine.commit(write, sync=True)
    store = open_store(engine.rebuilt(len(engine.writes)), node(), 2)

    effects = open_lane(store)
    assert of(effects, LaneOpened)[0].session == "edge@remote"
    wakes_s = store.wakes_at_s(100.0)
    store.tick(wakes_s, 5000)
    effects += turn(store, now_s=wakes_s)
    assert of(effects, LaneReopen)
    assert wakes_s <= 100.0 + TICK_S
    assert of(turn(store, LaneOpen(queue=QUEUE, epoch=EPOCH + 1), now_s=wakes_s), LaneOpened)[0].session == ""


def test_a_row_that_cannot_be_read_stops_its_queue_only() -> None:
    engine = RecordingEngine()
    settings = node(bridge("cloud"), bridge("other"))
    other = "bridge:other:0"
    turn(open_store(engine, settings, 1), publishes(1, b"a"))
    write = Write()
    write.put("meta", lane_key(1), b"torn")
    engine.commit(write, sync=True)
    store = open_store(engine, settings, 2)

    assert open_lane(store) == [], "where it stands is not known"
    (room,) = of(turn(store, SenderResumes(sender="listener", epoch=2, number=1)), Room)
    assert list(room.queues) == ["cloud"]
    turn(store, replace(append_frame(1, {other: (batch([b"c"]), None)}, epoch=2), room=room.number))
    (room,) = of(turn(store, RoomWanted(epoch=2, wanted={"cloud": (1, 1)})), Room)
    assert room.queues["cloud"][0] == FULL
    assert [store.lanes.of_bridges[name].is_unreadable for name in (QUEUE, other)] == [True, False]
    assert engine.get("meta", lane_key(1)) == b"torn", "the row stays for the operator"
