"""Limits: what fits passes untouched; what does not is refused whole, dropped, or makes the oldest go."""

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
    remote_session,
    settle_frame,
    u16,
    with_remote_session,
)
from tests.support.present import present
from tests.support.settings import limits
from wire.frames.base import Effects, Frame
from wire.frames.intake import Append, Committed, SenderResumes, SessionOpen, SessionOpened, SessionsWanted, SourceResumed
from wire.frames.lanes import Credit, HandOut, LaneOpen

OTHER = "bridge:other:0"


def turn(store: Store, *frames: Frame) -> Effects:
    for frame in frames:
        store.receive(frame)
    return store.commit(100.0, 5000)


def refused(effects: Effects, since: int = 1) -> dict[int, bytes]:
    """What was refused from number ``since`` on. Earlier refusals are told again, because their answers may have been lost."""
    (committed,) = [frame for _, frame in effects if isinstance(frame, Committed)]
    return {number: rows for number, rows in committed.refused.items() if number >= since}


def queued(store: Store, queue: str = QUEUE) -> list[bytes]:
    turn(store, LaneOpen(queue=queue, epoch=1 << 20))
    effects = turn(store, Credit(queue=queue, epoch=1 << 20, messages=10_000, size_bytes=1 << 40))
    return [payload for _, frame in effects if isinstance(frame, HandOut) for _, payload in messages(frame)]


def store_with(**limit: Any) -> Store:
    return Store(MemoryEngine(), node(bridge(limit=limits(**limit)), bridge("other")), 1)


def rows(number: int, *payloads: bytes, **more: Any) -> Append:
    return append_frame(number, {QUEUE: (batch(payloads), None)}, **more)


def test_reject_refuses_what_does_not_fit_and_only_that() -> None:
    store = store_with(max_messages=3)

    assert refused(turn(store, rows(1, b"a", b"b"))) == {}
    assert refused(turn(store, rows(2, b"c", b"d"))) == {2: u16([1])}
    assert queued(store) == [b"a", b"b", b"c"]


def test_a_repeat_of_a_refused_batch_is_refused_alike() -> None:
    store = store_with(max_messages=1)
    turn(store, rows(1, b"a", b"b"), rows(2, b"c"))

    assert refused(turn(store, rows(1, b"a", b"b"))) == {1: u16([1]), 2: u16([0])}
    assert refused(turn(store, rows(2, b"c")), 2) == {2: u16([0])}


def test_an_answer_tells_the_refusals_of_every_number_that_it_acknowledges() -> None:
    store = store_with(max_messages=1)
    turn(store, rows(1, b"a", b"b"))  # the answer dies with the Distributor, or the store with its answer

    effects = turn(store, rows(2, b"c"))

    (committed,) = [frame for _, frame in effects if isinstance(frame, Committed)]
    assert committed.number == 2
    assert committed.refused == {1: u16([1]), 2: u16([0])}


def test_what_one_queue_rejects_is_enqueued_nowhere() -> None:
    store = store_with(max_messages=1)
    parts = {QUEUE: (batch([b"a", b"b"]), None), OTHER: (batch([b"a", b"b", b"c"]), None)}

    effects = turn(store, append_frame(1, {QUEUE: (parts[QUEUE][0], [0, 1]), OTHER: parts[OTHER]}))

    assert refused(effects) == {1: u16([1])}
    assert queued(store) == [b"a"]
    assert queued(store, OTHER) == [b"a", b"c"]


def _copies(number: int, *payloads: bytes, at: list[int], source: int = 1) -> Append:
    """A session gets these rows of the batch: one twice, where a shared subscription brings it beside an ordinary one."""
    return append_frame(number, {QUEUE: (batch(payloads), at)}, rows=max(at) + 1, sources=[source] * (max(at) + 1))


def test_both_copies_for_one_queue_are_kept_while_something_else_is_refused() -> None:
    store = Store(MemoryEngine(), node(bridge(), mode="in-memory"), 2)
    turn(store, SenderResumes(sender="listener", epoch=1, number=2, stalled=(9,)))  # so each row is looked at

    effects = turn(store, _copies(2, b"a", b"b", b"b", b"c", b"c", at=[0, 1, 1, 3, 3]))

    assert refused(effects) == {}
    assert queued(store) == [b"a", b"b", b"b", b"c", b"c"]


@pytest.mark.parametrize(("max_messages", "kept"), [(0, []), (1, [b"a"]), (2, [b"a"]), (3, [b"a", b"b", b"b"])])
def test_copies_for_one_queue_come_in_together_or_not_at_all(max_messages: int, kept: list[bytes]) -> None:
    store = store_with(max_messages=max_messages)

    effects = turn(store, _copies(1, b"a", b"b", b"b", at=[0, 1, 1]), append_frame(2, {OTHER: (batch([b"x"]), None)}))

    assert refused(effects) == ({} if len(kept) == 3 else {1: u16(range(2)[len(kept) :])})
    assert queued(store) == kept


def test_the_limit_of_the_node_has_to_hold_every_copy() -> None:
    store = Store(MemoryEngine(), node(bridge(), bridge("other"), limit=limits(max_messages=4)), 1)
    twice, once = batch([b"a", b"a", b"b", b"b"]), batch([b"a", b"b"])

    effects = turn(store, append_frame(1, {QUEUE: (twice, [0, 0, 1, 1]), OTHER: (once, None)}, rows=2))

    assert refused(effects) == {1: u16([1])}
    assert (queued(store), queued(store, OTHER)) == ([b"a", b"a"], [b"a"])


@pytest.mark.parametrize(("overflow", "kept"), [("drop-newest", [b"a", b"b"]), ("drop-oldest", [b"b", b"b"])])
def test_copies_that_are_dropped_are_counted_each(overflow: str, kept: list[bytes]) -> None:
    store = store_with(max_messages=2, overflow=overflow)

    assert refused(turn(store, _copies(1, b"a", b"b", b"b", at=[0, 1, 1]))) == {}

    figures = store.status(5000).queues[QUEUE]
    assert (figures.dropped, figures.ledger_closes) == ({"overflow": 1}, True)
    assert queued(store) == kept


def test_the_limit_of_the_node_counts_all_queues() -> None:
    store = Store(MemoryEngine(), node(bridge(), bridge("other"), limit=limits(max_messages=3)), 1)
    both = batch([b"a", b"b"])

    effects = turn(store, append_frame(1, {QUEUE: (both, None), OTHER: (both, None)}))

    assert refused(effects) == {1: u16([1])}, "the first row takes two of three places, the second would take two more"


def test_lanes_of_a_bridge_share_its_limit() -> None:
    store = Store(MemoryEngine(), node(bridge(lanes=2, limit=limits(max_messages=2))), 1)
    turn(store, append_frame(1, {"bridge:cloud:0": (batch([b"a", b"b"]), None)}))

    assert refused(turn(store, append_frame(2, {"bridge:cloud:1": (batch([b"c"]), None)}))) == {2: u16([0])}


def test_bytes_are_limited_too() -> None:
    store = store_with(max_bytes=100)

    effects = turn(store, rows(1, b"x" * 59, b"y" * 59, b"z" * 38))

    assert refused(effects) == {1: u16([1])}
    assert queued(store) == [b"x" * 59, b"z" * 38]


def test_a_source_that_cannot_be_told_stalls_until_it_is_resumed() -> None:
    store = store_with(max_messages=1)
    flags = bytes(3)
    turn(store, rows(1, b"a1", b"b1", b"a2", sources=[1, 2, 1], refusable=flags))
    turn(store, SourceResumed(sender="listener", epoch=1, source=2, number=2))
    assert queued(store) == [b"a1"]
    turn(store, _delivered())

    effects = turn(store, rows(2, b"a3", b"b2", sources=[1, 2], refusable=bytes(2)))

    assert refused(effects, 2) == {2: u16([0])}, "source 1 is stalled although there is room"
    assert queued_again(store, 2) == [b"b2"]
    turn(store, SourceResumed(sender="listener", epoch=1, source=1, number=3), _delivered(2))
    assert refused(turn(store, rows(3, b"a2", sources=[1], refusable=bytes(1))), 3) == {}


def test_a_source_whose_rows_were_refused_again_is_not_resumed_by_a_late_word() -> None:
    store = store_with(max_messages=1)
    turn(store, rows(1, b"full", b"a1", sources=[2, 1], refusable=bytes(2)))
    assert queued(store) == [b"full"]
    turn(store, rows(2, b"a1", sources=[1], refusable=bytes(1)), _delivered())  # offered again, and refused again

    turn(store, SourceResumed(sender="listener", epoch=1, source=1, number=2))

    assert refused(turn(store, rows(3, b"a2", sources=[1], refusable=bytes(1))), 3) == {3: u16([0])}, "a1 comes first"
    turn(store, SourceResumed(sender="listener", epoch=1, source=1, number=4))
    assert refused(turn(store, rows(4, b"a1", sources=[1], refusable=bytes(1))), 4) == {}


def test_what_came_before_its_sender_was_fenced_and_is_looked_at_after_that_is_not_taken() -> None:
    """Who was stalled is forgotten with the sender's life, and what it had sent later would come first."""
    store = store_with(max_messages=1)
    turn(store, rows(1, b"full", b"a1", sources=[2, 1], refusable=bytes(2)))
    assert queued(store) == [b"full"]
    turn(store, _delivered())

    effects = turn(store, rows(2, b"a2", sources=[1], refusable=bytes(1)), SessionsWanted(epoch=2))

    assert not [frame for _, frame in effects if isinstance(frame, Committed)]
    assert queued_again(store, 2) == []
    assert refused(turn(store, rows(1, b"a1", sources=[1], refusable=bytes(1), epoch=2))) == {}


def test_a_store_that_has_forgotten_whom_it_refused_is_told() -> None:
    store = Store(MemoryEngine(), node(bridge(), mode="in-memory"), 2)
    turn(store, SenderResumes(sender="listener", epoch=1, number=7, stalled=(1,)))

    effects = turn(store, rows(7, b"a2", b"b1", sources=[1, 2], refusable=bytes(2)))

    assert refused(effects, 7) == {7: u16([0])}, "a1, which its sender holds, comes first"
    turn(store, SourceResumed(sender="listener", epoch=1, source=1, number=8))
    assert refused(turn(store, rows(8, b"a1", b"a2", sources=[1, 1], refusable=bytes(2))), 8) == {}


def test_a_publisher_that_can_be_told_does_not_stall() -> None:
    store = store_with(max_messages=1)
    turn(store, rows(1, b"a", b"b"))
    assert queued(store) == [b"a"]

    assert refused(turn(store, _delivered(), rows(2, b"c")), 2) == {}


def test_refused_qos_2_rows_leave_no_identifier() -> None:
    store = store_with(max_messages=1)
    name = with_remote_session(store)
    two = batch([b"a", b"b"], 2)
    turn(store, append_frame(1, {QUEUE: (two, None)}, received={name: ([5, 9], [0, 1])}))

    assert remote_session(store, request=2)[1].received == u16([5])


@pytest.mark.parametrize(
    ("overflow", "kept"), [("drop-newest", [b"a", b"b", b"c"]), ("drop-oldest", [b"c", b"d", b"e"]), ("reject", [b"a", b"b", b"c"])]
)
def test_each_overflow_policy_keeps_what_it_says(overflow: str, kept: list[bytes]) -> None:
    store = store_with(max_messages=3, overflow=overflow)
    turn(store, rows(1, b"a", b"b"))

    effects = turn(store, rows(2, b"c", b"d", b"e"))

    figures = store.status(5000).queues[QUEUE]
    assert refused(effects) == ({2: u16([1, 2])} if overflow == "reject" else {})
    assert figures.dropped == ({} if overflow == "reject" else {"overflow": 2})
    assert figures.ledger_closes
    assert queued(store) == kept


def test_drop_oldest_leaves_what_is_in_flight() -> None:
    store = store_with(max_messages=3, overflow="drop-oldest")
    turn(store, rows(1, b"a", b"b"))
    assert queued(store) == [b"a", b"b"]

    effects = turn(store, rows(2, b"c"), rows(3, b"d"))

    assert [frame.number for _, frame in effects if isinstance(frame, Committed)] == [3]
    figures = store.status(5000).queues[QUEUE]
    assert (store.lanes.of_bridges[QUEUE].queue.in_flight, figures.dropped) == (3, {"overflow": 1})


def test_nothing_is_handed_out_behind_what_was_dropped_before_that_is_committed() -> None:
    """A crash would bring it back, and it would reach the remote behind newer messages of its topic (P4)."""
    engine = RecordingEngine()
    store = Store(engine, node(bridge(limit=limits(max_messages=2, overflow="drop-oldest")), flush_period_s=0.5), 1)
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
    store = Store(RecordingEngine(), node(bridge(limit=limits(max_messages=2, overflow="drop-oldest")), flush_period_s=0.5), 1)
    turn(store, append_frame(1, {QUEUE: (batch([b"a", b"b"], 0), None)}), LaneOpen(queue=QUEUE, epoch=1 << 20))
    store.receive(append_frame(2, {QUEUE: (batch([b"c"], 0), None)}))
    store.receive(Credit(queue=QUEUE, epoch=1 << 20, messages=9, size_bytes=1 << 40))
    effects = store.commit(100.1, 5000)
    assert [payload for _, frame in effects if isinstance(frame, HandOut) for _, payload in messages(frame)] == [b"b"]


def opened_again(engine: RecordingEngine, life: int, credit: int, **limit: Any) -> tuple[Store, list[bytes]]:
    """The store in a new life, and what it hands out for that credit."""
    store = Store(engine, node(bridge(limit=limits(**limit))), life)
    turn(store, LaneOpen(queue=QUEUE, epoch=life << 20))
    effects = turn(store, Credit(queue=QUEUE, epoch=life << 20, messages=credit, size_bytes=1 << 40))
    return store, [payload for _, frame in effects if isinstance(frame, HandOut) for _, payload in messages(frame)]


def test_what_may_have_been_sent_before_a_crash_is_neither_dropped_nor_expired() -> None:
    """The remote may hold its packet identifier: a QoS 2 message with the same one would be taken for it, and lost."""
    engine = RecordingEngine()
    store = Store(engine, node(bridge(limit=limits(max_messages=3))), 1)
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


def of_a_311_client(number: int, *payloads: bytes, sources: list[int] | None = None) -> Append:
    return rows(number, *payloads, sources=sources, refusable=bytes(len(payloads)))


def dropped(store: Store, queue: str = QUEUE) -> int:
    figures = store.status(5000).queues[queue]
    assert figures.ledger_closes
    assert set(figures.dropped) <= {"overflow"}
    count: int = figures.dropped.get("overflow", 0)
    return count


def test_one_too_large_for_the_bridge_holds_up_no_publisher_that_cannot_be_told() -> None:
    store = store_with(max_bytes=100)

    assert refused(turn(store, of_a_311_client(1, b"a", LARGE, b"b"))) == {}
    assert refused(turn(store, of_a_311_client(2, LARGE), of_a_311_client(3, b"c"))) == {}

    assert dropped(store) == 2
    assert queued(store) == [b"a", b"b", b"c"]


def test_one_too_large_waits_behind_what_its_source_has_to_offer_again() -> None:
    """Its PUBACK would otherwise come before theirs [MQTT-4.6.0-6]."""
    store = store_with(max_bytes=100)

    assert refused(turn(store, of_a_311_client(1, b"f" * 90, b"a" * 20, LARGE))) == {1: u16([1, 2])}
    assert dropped(store) == 0
    assert queued(store) == [b"f" * 90]
    turn(store, _delivered(), SourceResumed(sender="listener", epoch=1, source=1, number=2))

    assert refused(turn(store, of_a_311_client(2, b"a" * 20, LARGE)), 2) == {}
    assert dropped(store) == 1
    assert queued_again(store, 2) == [b"a" * 20]


def test_a_publisher_that_can_be_told_is_told_that_its_message_is_too_large() -> None:
    store = store_with(max_bytes=100)

    assert refused(turn(store, rows(1, b"a", LARGE, b"b"))) == {1: u16([1])}

    assert dropped(store) == 0
    assert queued(store) == [b"a", b"b"]


@pytest.mark.parametrize("refusable", [True, False])
@pytest.mark.parametrize("overflow", ["drop-oldest", "drop-newest"])
def test_nothing_makes_room_for_one_that_is_too_large(overflow: str, refusable: bool) -> None:
    store = store_with(max_bytes=100, overflow=overflow)
    turn(store, rows(1, b"a", b"b"))

    assert refused(turn(store, rows(2, b"c", LARGE, b"d", refusable=bytes([8 * refusable]) * 4))) == {}

    assert dropped(store) == 1
    assert queued(store) == [b"a", b"b", b"c", b"d"]


def test_one_too_large_for_one_bridge_goes_to_the_other_and_waits_for_it_if_need_be() -> None:
    small, other = bridge(limit=limits(max_bytes=100)), bridge("other", limit=limits(max_bytes=150))
    store = Store(MemoryEngine(), node(small, other), 1)
    turn(store, append_frame(1, {OTHER: (batch([b"f" * 99]), None)}))

    def large(number: int) -> Append:
        return append_frame(number, {QUEUE: (batch([LARGE]), None), OTHER: (batch([LARGE]), None)}, refusable=bytes(1))

    assert refused(turn(store, large(2))) == {2: u16([0])}
    assert (dropped(store), dropped(store, OTHER)) == (0, 0), "it is offered again"
    assert queued(store, OTHER) == [b"f" * 99]
    turn(store, settle_frame(1, 1 << 20, ("delivered", ((0, 1 << 60),)), queue=OTHER))
    turn(store, SourceResumed(sender="listener", epoch=1, source=1, number=3))

    assert refused(turn(store, large(3)), 3) == {}
    assert (dropped(store), dropped(store, OTHER)) == (1, 0)
    assert store.status(5000).queues[OTHER].depth == 1


def test_the_limit_of_the_node_is_not_waited_for_either() -> None:
    store = Store(MemoryEngine(), node(bridge(), bridge("other"), limit=limits(max_bytes=150)), 1)
    both = batch([LARGE, b"a"])

    assert refused(turn(store, append_frame(1, {QUEUE: (both, None), OTHER: (both, None)}, refusable=bytes(2)))) == {}

    assert (dropped(store), dropped(store, OTHER)) == (0, 1), "one copy is as much as the node can ever hold"
    assert (queued(store), queued(store, OTHER)) == ([LARGE, b"a"], [b"a"])


def test_copies_for_one_queue_that_it_can_never_hold_together_hold_up_nobody() -> None:
    store = store_with(max_messages=1)
    copies = append_frame(1, {QUEUE: (batch([b"a", b"a"]), [0, 0])}, rows=1, refusable=bytes(1))

    assert refused(turn(store, copies)) == {}

    assert dropped(store) == 1
    assert queued(store) == [b"a"]


@pytest.mark.parametrize("overflow", ["drop-oldest", "drop-newest"])
def test_one_too_large_for_a_sessions_queue_does_not_empty_it(overflow: str) -> None:
    settings = node(bridge())
    settings = replace(settings, sessions=replace(settings.sessions, queue_max_bytes=100, overflow=overflow))
    store = Store(MemoryEngine(), settings, 1)
    opening = SessionOpen(sender="listener", epoch=1, request=1, session="c", source=1, clean=False, expiry_s=60)
    (queue,) = [frame.queue for _, frame in turn(store, opening) if isinstance(frame, SessionOpened)]

    for number, payload in enumerate((b"a", LARGE, b"b"), start=1):
        assert refused(turn(store, append_frame(number, {queue: (batch([payload]), None)}, refusable=bytes(1)))) == {}

    assert present(store.status(5000).sessions).dropped == 1
    assert queued(store, queue) == [b"a", b"b"]


def _delivered(lane: int = 1) -> Frame:
    return settle_frame(1, lane << 20, ("delivered", ((0, 1 << 60),)))


def queued_again(store: Store, lane: int) -> list[bytes]:
    turn(store, LaneOpen(queue=QUEUE, epoch=lane << 20))
    effects = turn(store, Credit(queue=QUEUE, epoch=lane << 20, messages=10_000, size_bytes=1 << 40))
    return [payload for _, frame in effects if isinstance(frame, HandOut) for _, payload in messages(frame)]
