"""Which sessions at remotes are on record, and what came in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from storage.engine.engine import Engine
from storage.store.store import Store
from tests.storage.building import (
    QUEUE,
    RecordingEngine,
    append_frame,
    batch,
    bridge,
    node,
    remote_session,
    settle_frame,
    u16,
    with_remote_session,
)
from tests.storage.turns import EPOCH, of, turn
from tests.support.stores import open_store
from wire.exchange.former_sessions import LeftSession
from wire.frames.intake import SessionOpen
from wire.frames.lanes import LaneOpen, LaneOpened


def test_what_a_lane_has_subscribed_to_in_its_session_stays_noted_until_another_is_on_record(engine: Engine) -> None:
    def noted(store: Store, epoch: int, *filters: str, number: int = 0) -> list[str]:
        _, opened = remote_session(store, epoch=epoch, number=number, filters=filters)
        return [topic_filter for topic_filter, *_ in opened.subscriptions]

    first = open_store(engine, node(), 1)
    with_remote_session(first)
    assert noted(first, 3, "a", "b") == ["a", "b"]
    assert noted(open_store(engine, node(), 2), 4, "c") == ["a", "b", "c"]
    later = open_store(engine, node(), 3)
    assert noted(later, 5, "c") == ["a", "b", "c"]
    turn(later, LaneOpen(queue=QUEUE, epoch=9 << 20), settle_frame(1, 9 << 20, session="edge@here", generation=1))
    assert noted(later, 6, "c", number=1) == ["c"]


def test_a_lanes_new_session_goes_on_record_and_what_came_in_the_one_before_is_forgotten_in_one_commit() -> None:
    """A Connection that dies before it can ask for it leaves no identifier behind that swallows a message of the new session."""
    engine = RecordingEngine()
    store = open_store(engine, node(), 1)
    name = with_remote_session(store, epoch=EPOCH)
    came: dict[str, Sequence[int]] = {name: [5]}
    turn(store, append_frame(1, {QUEUE: (batch([b"m"], 2), None)}, received=came, sender="connection:cloud:0", epoch=3))
    turn(store, settle_frame(2, EPOCH, session="edge@here"))
    assert remote_session(store, epoch=4)[1].received == u16([5]), "it is the session that is on record already"

    before = len(engine.writes)
    turn(store, settle_frame(3, EPOCH, session="edge@here", generation=1))
    assert len(engine.writes) == before + 1
    assert remote_session(open_store(engine.rebuilt(before), node(), 2), epoch=5)[1].received == u16([5])
    again = open_store(engine.rebuilt(before + 1), node(), 2)
    assert not [session.name for session in again.sessions.rows]
    assert remote_session(again, epoch=5, number=1)[1].received == b""


def test_a_new_session_of_one_lane_is_nothing_to_what_came_by_another() -> None:
    store = open_store(RecordingEngine(), node(), 1)
    with_remote_session(store, epoch=EPOCH)
    lanes = ("bridge:cloud:1", "bridge:cloudy:0")
    others: dict[str, Sequence[int]] = {with_remote_session(store, queue=lane): [5] for lane in lanes}
    turn(store, append_frame(1, {QUEUE: (batch([b"m"], 2), None)}, received=others, sender="connection:cloud:1"))
    turn(store, settle_frame(2, EPOCH, session="edge@here", generation=1))
    assert [session.received for session in store.sessions.rows] == [{5}, {5}]


def test_a_session_that_was_left_keeps_what_came_in_it_until_its_remote_has_lost_it(engine: Engine) -> None:
    """The store dies after each step."""
    places = replace(bridge(), remote=replace(bridge().remote, client_id="edge", addresses=(("here", 1), ("there", 2))))
    here, there = "edge@here:1", "edge@there:2"
    store = open_store(engine, node(places), 1)
    name = with_remote_session(store, session=here, epoch=EPOCH)
    turn(store, append_frame(1, {}, received={name: [5]}, rows=1, sender="connection:cloud:0"))
    left = LeftSession(here, 0, 7, ((1, 2),), ((3, 5),))
    turn(store, settle_frame(2, EPOCH, session=there, generation=1, left=(left,)))

    store = open_store(engine, node(places), 2)
    (opened,) = of(turn(store, LaneOpen(queue=QUEUE, epoch=2 << 20)), LaneOpened)
    assert (opened.session, opened.left, opened.receives) == (there, (left,), True)
    assert remote_session(store, session=here)[1].received == u16([5]), "while it is left, too"
    elsewhere = LeftSession(there, 1, 9, (), ())
    turn(store, settle_frame(1, 2 << 20, session=here, generation=0, left=(elsewhere,)))

    store = open_store(engine, node(places), 3)
    (opened,) = of(turn(store, LaneOpen(queue=QUEUE, epoch=3 << 20)), LaneOpened)
    assert (opened.session, opened.generation, opened.left) == (here, 0, (elsewhere,))
    assert remote_session(store, session=here, request=2)[1].received == u16([5])
    turn(store, settle_frame(1, 3 << 20, session=here, generation=2, left=(elsewhere,)))
    assert not [session.name for session in store.sessions.rows]


def test_what_is_late_of_a_session_that_the_remote_has_lost_leaves_nothing_on_record(engine: Engine) -> None:
    """store.row-of-known-session-only"""
    store = open_store(engine, node(), 1)
    name = with_remote_session(store, epoch=EPOCH)
    turn(store, settle_frame(2, EPOCH, session="edge@here", generation=1))
    late = SessionOpen(sender="connection:cloud:0", epoch=1, request=7, session=name, clean=False, expiry_s=60)

    turn(store, append_frame(1, {}, received={name: [5]}, rows=1, sender="connection:cloud:0"))
    assert turn(store, late) == []

    assert not [session.name for session in store.sessions.rows]
