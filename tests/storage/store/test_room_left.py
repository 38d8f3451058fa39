"""How much may still come in: bridges share the node's room, sessions have one of their own, and a full disk leaves none."""

from __future__ import annotations

from storage.store.lane import State
from tests.storage.building import QUEUE, RecordingEngine, bridge, node
from tests.storage.lane_parts import Parts
from tests.support.settings import limits

OTHER = "bridge:other:0"


def test_each_bridge_has_room_of_its_own_and_all_share_the_nodes() -> None:
    small = limits(max_messages=5)
    parts = Parts(RecordingEngine(), node(bridge(limit=small), bridge("other", limit=small), limit=limits(max_messages=8)))
    parts.put(QUEUE, b"a", b"b")
    parts.put(OTHER, b"a")

    assert parts.messages(QUEUE) == [3, 5]
    assert parts.messages(OTHER) == [4, 5]


def test_a_queue_that_is_not_there_yet_is_made() -> None:
    parts = Parts(RecordingEngine(), node(bridge(limit=limits(max_messages=5))))

    assert parts.messages("bridge:cloud:3")[0] == 5
    assert "bridge:cloud:3" in parts.lanes.of_bridges


def test_too_little_free_space_leaves_no_room_and_is_looked_at_once_a_second() -> None:
    engine = RecordingEngine()
    engine.free = 10
    parts = Parts(engine, node(limit=limits(min_free_disk_bytes=100)))
    assert parts.rooms.measure(10.0, [QUEUE])[QUEUE][1].disk_full

    engine.free = 1000
    assert parts.rooms.measure(10.5, [QUEUE])[QUEUE][1].disk_full
    assert not parts.rooms.measure(11.0, [QUEUE])[QUEUE][1].disk_full


def test_a_bridge_with_a_queue_that_stands_nobody_knows_where_takes_nothing() -> None:
    engine = RecordingEngine()
    parts = Parts(engine, node(bridge(lanes=2), bridge("other")))
    parts.lanes.all[QUEUE].state = State.UNREADABLE

    rooms = parts.rooms.measure(10.0, [])

    assert [rooms[name][0].fits(1, 1) for name in (QUEUE, "bridge:cloud:1", OTHER)] == [False, False, True]
