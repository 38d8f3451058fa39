"""Limits: what fits passes untouched; what does not is kept, dropped, or makes the oldest go, as its queue says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from storage.engine.memory_engine import MemoryEngine
from storage.store.store import Store
from tests.storage.building import (
    QUEUE,
    RecordingEngine,
    append_frame,
    batch,
    bridge,
    messages,
    node,
)
from tests.storage.turns import turn
from tests.support.present import present
from tests.support.settings import limits
from tests.support.stores import open_store
from wire.frames.batch import RAISED, UNPROMISED
from wire.frames.intake import Append, Committed, SessionOpen, SessionOpened
from wire.frames.lanes import Credit, HandOut, LaneOpen

OTHER = "bridge:other:0"


def queued(store: Store, queue: str = QUEUE) -> list[bytes]:
    turn(store, LaneOpen(queue=queue, epoch=1 << 20))
    effects = turn(store, Credit(queue=queue, epoch=1 << 20, messages=10_000, size_bytes=1 << 40))
    return [payload for _, frame in effects if isinstance(frame, HandOut) for _, payload in messages(frame)]


def store_with(**limit: Any) -> Store:
    return open_store(MemoryEngine(), node(bridge(limit=limits(**limit)), bridge("other")), 1)


def rows(number: int, *payloads: bytes, **more: Any) -> Append:
    return append_frame(number, {QUEUE: (batch(payloads), None)}, **more)


def _copies(number: int, *payloads: bytes, at: list[int]) -> Append:
    """A session gets these rows of the batch: one twice, where a shared subscription brings it beside an ordinary one."""
    return append_frame(number, {QUEUE: (batch(payloads), at)}, rows=max(at) + 1)


@pytest.mark.parametrize(("overflow", "kept"), [("drop-newest", [b"a", b"b"]), ("drop-oldest", [b"b", b"b"])])
def test_copies_that_are_dropped_are_counted_each(overflow: str, kept: list[bytes]) -> None:
    store = store_with(max_messages=2, overflow=overflow)

    turn(store, _copies(1, b"a", b"b", b"b", at=[0, 1, 1]))

    figures = store.status(5000).queues[QUEUE]
    assert (figures.dropped, figures.ledger_closes) == ({"overflow": 1}, True)
    assert queued(store) == kept


@pytest.mark.parametrize(
    ("overflow", "kept"),
    [
        ("drop-newest", [b"a", b"b", b"c"]),
        ("drop-oldest", [b"c", b"d", b"e"]),
        ("reject", [b"a", b"b", b"c", b"d", b"e"]),
    ],
)
def test_each_overflow_policy_keeps_what_it_says(overflow: str, kept: list[bytes]) -> None:
    """One that refuses keeps what was taken: its publishers knew of the room before (store.taken-is-kept)."""
    store = store_with(max_messages=3, overflow=overflow)
    turn(store, rows(1, b"a", b"b"))

    turn(store, rows(2, b"c", b"d", b"e"))

    figures = store.status(5000).queues[QUEUE]
    assert figures.dropped == ({} if overflow == "reject" else {"overflow": 2})
    assert figures.ledger_closes
    assert queued(store) == kept


def test_qos_0_is_dropped_where_a_queue_that_refuses_is_full() -> None:
    store = store_with(max_messages=2)
    mixed = batch([b"0", b"1", b"2", b"3"], [0, 1, 0, 1])

    turn(store, append_frame(1, {QUEUE: (mixed, None), OTHER: (mixed, None)}))

    figures = store.status(5000).queues[QUEUE]
    assert (figures.refused, figures.accepted) == (2, 2), "also where it came first: what was taken goes before it"
    assert (queued(store), queued(store, OTHER)) == ([b"1", b"3"], [b"0", b"1", b"2", b"3"])


@pytest.mark.parametrize(("overflow", "kept"), [("reject", [b"1", b"3"]), ("drop-newest", [b"0", b"1"])])
def test_what_a_rule_has_raised_from_qos_0_is_dropped_as_any_qos_0_where_a_queue_is_full(overflow: str, kept: list[bytes]) -> None:
    """One that came at QoS 1 and is raised was promised, as it came."""
    store = store_with(max_messages=2, overflow=overflow)
    raised = batch([b"0", b"1", b"2", b"3"], [2 | RAISED | UNPROMISED, 2, 2 | RAISED | UNPROMISED, 2 | RAISED])

    turn(store, append_frame(1, {QUEUE: (raised, None), OTHER: (raised, None)}))

    full, other = (store.status(5000).queues[queue] for queue in (QUEUE, OTHER))
    assert (full.refused, full.dropped) == ((2, {}) if overflow == "reject" else (0, {"overflow": 2}))
    assert (full.accepted, full.raised) == ((2, 1) if overflow == "reject" else (4, 1))
    assert (other.accepted, other.raised, other.ledger_closes) == (4, 3, True)
    assert (queued(store), queued(store, OTHER)) == (kept, [b"0", b"1", b"2", b"3"])


def test_what_is_raised_is_on_disk_and_its_count_beside_it() -> None:
    engine = RecordingEngine()
    store = open_store(engine, node(bridge()), 1)
    turn(store, append_frame(1, {QUEUE: (batch([b"0", b"1"], [1 | RAISED | UNPROMISED, 1]), None)}))

    store = open_store(engine, node(bridge()), 2)

    figures = store.status(5000).queues[QUEUE]
    assert (figures.accepted, figures.raised, figures.depth, figures.dropped) == (2, 1, 2, {})
    assert queued(store) == [b"0", b"1"]


def test_a_full_node_keeps_what_was_taken_for_bridges_and_drops_what_sessions_get() -> None:
    settings = node(bridge(), limit=limits(max_messages=1))
    store = open_store(MemoryEngine(), settings, 1)
    opening = SessionOpen(sender="listener", epoch=1, request=1, session="c", source=1, clean=False, expiry_s=60)
    (queue,) = [frame.queue for _, frame in turn(store, opening) if isinstance(frame, SessionOpened)]
    both = batch([b"a", b"b"])

    turn(store, append_frame(1, {QUEUE: (both, None), queue: (both, None)}))

    assert queued(store) == [b"a", b"b"]
    assert present(store.status(5000).sessions).dropped == 2


def test_drop_oldest_leaves_what_is_in_flight() -> None:
    store = store_with(max_messages=3, overflow="drop-oldest")
    turn(store, rows(1, b"a", b"b"))
    assert queued(store) == [b"a", b"b"]

    effects = turn(store, rows(2, b"c"), rows(3, b"d"))

    assert [frame.number for _, frame in effects if isinstance(frame, Committed)] == [3]
    figures = store.status(5000).queues[QUEUE]
    assert (store.lanes.all[QUEUE].queue.in_flight, figures.dropped) == (3, {"overflow": 1})


def test_nothing_is_handed_out_behind_what_was_dropped_before_that_is_committed() -> None:
    """A crash would bring it back, and it would reach the remote behind newer messages of its topic (P4)."""
    engine = RecordingEngine()
    store = open_store(engine, node(bridge(limit=limits(max_messages=2, overflow="drop-oldest")), flush_period_s=0.5), 1)
    turn(store, rows(1, b"a", b"b"), LaneOpen(queue=QUEUE, epoch=1 << 20))

    store.receive(rows(2, b"c"))
    store.receive(Credit(queue=QUEUE, epoch=1 << 20, messages=9, size_bytes=1 << 40))
    assert not [frame for _, frame in store.commit(100.1, 5000) if isinstance(frame, HandOut)]
    assert store.wakes_at_s(100.1) <= 100.5, "it does not wait for a frame"
    engine.writes.clear()
    effects = store.commit(100.6, 5000)

    assert [payload for _, frame in effects if isinstance(frame, HandOut) for _, payload in messages(frame)] == [b"b", b"c"]
    assert engine.writes[0][1], "synced, lest the power bring it back"


def test_what_was_dropped_of_messages_in_memory_holds_nothing_up() -> None:
    """QoS 0 does not come back."""
    store = open_store(RecordingEngine(), node(bridge(limit=limits(max_messages=2, overflow="drop-oldest")), flush_period_s=0.5), 1)
    turn(store, append_frame(1, {QUEUE: (batch([b"a", b"b"], 0), None)}), LaneOpen(queue=QUEUE, epoch=1 << 20))
    store.receive(append_frame(2, {QUEUE: (batch([b"c"], 0), None)}))
    store.receive(Credit(queue=QUEUE, epoch=1 << 20, messages=9, size_bytes=1 << 40))
    effects = store.commit(100.1, 5000)
    assert [payload for _, frame in effects if isinstance(frame, HandOut) for _, payload in messages(frame)] == [b"b"]


def opened_again(engine: RecordingEngine, life: int, credit: int, **limit: Any) -> tuple[Store, list[bytes]]:
    """The store in a new life, and what it hands out for that credit."""
    store = open_store(engine, node(bridge(limit=limits(**limit))), life)
    turn(store, LaneOpen(queue=QUEUE, epoch=life << 20))
    effects = turn(store, Credit(queue=QUEUE, epoch=life << 20, messages=credit, size_bytes=1 << 40))
    return store, [payload for _, frame in effects if isinstance(frame, HandOut) for _, payload in messages(frame)]


def test_what_may_have_been_sent_before_a_crash_is_neither_dropped_nor_expired() -> None:
    """The remote may hold its packet identifier: a QoS 2 message with the same one would be taken for it, and lost."""
    engine = RecordingEngine()
    store = open_store(engine, node(bridge(limit=limits(max_messages=3))), 1)
    turn(store, rows(1, b"a"), rows(2, b"b"), rows(3, b"c"))
    assert queued(store) == [b"a", b"b", b"c"]  # and the store dies before its next commit

    again, came = opened_again(engine, 2, 1, max_messages=3, max_age_s=1, overflow="drop-oldest")
    assert came == [b"a"], "it expires nothing: the messages are 4 s old"
    turn(again, rows(4, b"d"))
    again.tick(101.0, 5000)

    figures = again.status(5000).queues[QUEUE]
    assert (figures.depth, figures.dropped, figures.expired) == (3, {"overflow": 1}, 0)
    assert queued_again(again, 3) == [b"a", b"b", b"c"]


def test_a_batch_larger_than_the_limit_keeps_its_newest_rows() -> None:
    store = store_with(max_messages=2, overflow="drop-oldest")

    turn(store, rows(1, *[b"%d" % index for index in range(9)]))

    assert queued(store) == [b"7", b"8"]
    assert store.status(5000).queues[QUEUE].ledger_closes


# --- messages that are larger than a limit by themselves ---

LARGE = b"L" * 100


def dropped(store: Store, queue: str = QUEUE) -> int:
    figures = store.status(5000).queues[queue]
    assert figures.ledger_closes
    assert set(figures.dropped) <= {"overflow"}
    count: int = figures.dropped.get("overflow", 0)
    return count


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_one_too_large_for_the_bridge_is_dropped_there(qos: int) -> None:
    store = store_with(max_bytes=100)
    body = batch([b"a", LARGE, b"b"], qos)

    turn(store, append_frame(1, {QUEUE: (body, None), OTHER: (body, None)}))

    assert dropped(store) == 1
    assert (queued(store), queued(store, OTHER)) == ([b"a", b"b"], [b"a", LARGE, b"b"])


@pytest.mark.parametrize("overflow", ["drop-oldest", "drop-newest"])
def test_nothing_makes_room_for_one_that_is_too_large(overflow: str) -> None:
    store = store_with(max_bytes=100, overflow=overflow)
    turn(store, rows(1, b"a", b"b"))

    turn(store, rows(2, b"c", LARGE, b"d"))

    assert dropped(store) == 1
    assert queued(store) == [b"a", b"b", b"c", b"d"]


@pytest.mark.parametrize("overflow", ["drop-oldest", "drop-newest"])
def test_one_too_large_for_a_sessions_queue_does_not_empty_it(overflow: str) -> None:
    settings = node(bridge())
    settings = replace(settings, sessions=replace(settings.sessions, queue_max_bytes=100, overflow=overflow))
    store = open_store(MemoryEngine(), settings, 1)
    opening = SessionOpen(sender="listener", epoch=1, request=1, session="c", source=1, clean=False, expiry_s=60)
    (queue,) = [frame.queue for _, frame in turn(store, opening) if isinstance(frame, SessionOpened)]

    for number, payload in enumerate((b"a", LARGE, b"b"), start=1):
        turn(store, append_frame(number, {queue: (batch([payload]), None)}))

    assert present(store.status(5000).sessions).dropped == 1
    assert queued(store, queue) == [b"a", b"b"]


def queued_again(store: Store, lane: int) -> list[bytes]:
    turn(store, LaneOpen(queue=QUEUE, epoch=lane << 20))
    effects = turn(store, Credit(queue=QUEUE, epoch=lane << 20, messages=10_000, size_bytes=1 << 40))
    return [payload for _, frame in effects if isinstance(frame, HandOut) for _, payload in messages(frame)]
