"""Settling of messages that were handed out: which settlements are answered, synced, or wait for another commit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from storage.engine.engine import Engine
from storage.store.next_commit import LAZY_S
from storage.store.store import TICK_S, Store
from tests.storage.building import (
    QUEUE,
    RecordingEngine,
    bridge,
    node,
    settle_frame,
)
from tests.storage.commanding import command
from tests.storage.turns import EPOCH, MANY, of, open_lane, publishes, turn
from tests.support.present import present
from tests.support.stores import open_store
from wire.frames.frame import Frame
from wire.frames.lanes import Credit, LaneOpen, LaneOpened, Settled


def test_a_release_is_answered_after_a_synced_commit() -> None:
    """exchange.release-after-record"""
    engine = RecordingEngine()
    store = open_store(engine, node(), 1)
    turn(store, publishes(1, b"a", b"b", qos=2))
    open_lane(store)
    engine.refusing = True

    held = turn(store, settle_frame(1, EPOCH, released=((0, 1),)))
    engine.refusing = False
    effects = turn(store, now_s=200.0)

    assert held == []
    assert of(effects, Settled) == [Settled(queue=QUEUE, epoch=EPOCH, number=1)]
    assert any(sync for _, sync in engine.writes[-2:])
    reopened = open_store(engine.rebuilt(len(engine.writes)), node(), 2)
    assert of(open_lane(reopened, 9 << 20), LaneOpened)[0].released == ((0, 1),)


def sent_three(engine: Engine, **chosen: Any) -> Store:
    """Three messages of QoS 1 are handed out; all of it is committed, at 100.0 s."""
    store = open_store(engine, node(**chosen), 1)
    turn(store, publishes(1, b"a", b"b", b"c"))
    open_lane(store)
    store.commit(100.0, 5000, at_once=True)
    return store


def recorded(engine: RecordingEngine) -> int:
    """How many messages are settled as far as the disk knows."""
    figures = open_store(engine.rebuilt(len(engine.writes)), node(), 9).status(5000).queues[QUEUE]
    assert figures.ledger_closes
    return present(figures.delivered)


def delivered(seq: int) -> Frame:
    return settle_frame(seq + 1, EPOCH, ("delivered", ((seq, seq + 1),)))


def test_a_plain_settlement_is_neither_answered_nor_synced_and_goes_with_the_next_commit() -> None:
    engine = RecordingEngine()
    store = sent_three(engine)
    writes = len(engine.writes)

    assert turn(store, delivered(0)) == []
    assert turn(store, delivered(1), Credit(queue=QUEUE, epoch=EPOCH, messages=20_000, size_bytes=MANY)) == []
    assert len(engine.writes) == writes
    assert store.status(5000).queues[QUEUE].depth == 1, "there is room for others"

    turn(store, publishes(2, b"d"))
    assert len(engine.writes) == writes + 1
    assert recorded(engine) == 2


def test_a_settlement_alone_is_committed_when_it_has_waited_long_enough() -> None:
    """Others that come meanwhile do not put it off."""
    engine = RecordingEngine()
    store = sent_three(engine)
    writes = len(engine.writes)
    turn(store, delivered(0))
    due_s = 100.0 + LAZY_S
    assert store.wakes_at_s(100.0) == due_s
    assert turn(store, delivered(1), now_s=due_s - 0.01) == []
    assert (len(engine.writes), store.wakes_at_s(due_s - 0.01)) == (writes, due_s)

    assert turn(store, now_s=due_s) == []

    assert len(engine.writes) == writes + 1
    assert not engine.writes[-1][1], "it is not synced"
    assert recorded(engine) == 2
    assert store.wakes_at_s(due_s) == due_s + TICK_S, "nothing waits any more"
    turn(store, delivered(2), now_s=due_s + 0.01)
    assert store.wakes_at_s(due_s + 0.01) == pytest.approx(due_s + 0.01 + LAZY_S)


def test_credit_alone_commits_nothing_and_wakes_nobody() -> None:
    engine = RecordingEngine()
    store = sent_three(engine)
    writes = len(engine.writes)
    turn(store, Credit(queue=QUEUE, epoch=EPOCH, messages=20_000, size_bytes=MANY))
    assert store.wakes_at_s(100.0) == 100.0 + TICK_S
    turn(store, now_s=100.0 + LAZY_S)
    assert len(engine.writes) == writes


def test_a_settlement_alone_keeps_to_the_flush_period() -> None:
    engine = RecordingEngine()
    store = sent_three(engine, flush_period_s=0.5)
    writes = len(engine.writes)
    turn(store, delivered(0), now_s=100.1)
    assert store.wakes_at_s(100.1) == 100.5
    turn(store, now_s=100.4)
    assert len(engine.writes) == writes
    turn(store, now_s=100.5)
    assert len(engine.writes) == writes + 1
    assert recorded(engine) == 1


@pytest.mark.parametrize("how", ["a command", "a stop", "a tick"])
def test_a_settlement_that_waits_goes_with_whatever_commits(how: str) -> None:
    engine = RecordingEngine()
    store = sent_three(engine)
    turn(store, delivered(0))
    assert recorded(engine) == 0
    if how == "a command":
        assert [row["depth"] for row in command(store, "list")["queues"]] == [2]
    elif how == "a stop":
        store.commit(100.0, 5000, at_once=True)
    else:
        store.tick(100.0, 5000)
        turn(store)
    assert recorded(engine) == 1


@pytest.mark.parametrize(
    "more", [{"released": ((1, 2),)}, {"session": "edge@remote", "generation": 1}, {"outcome": "dead:remote_0x99"}]
)
def test_a_settlement_for_which_somebody_waits_is_committed_in_its_turn(more: dict[str, Any]) -> None:
    engine = RecordingEngine()
    store = sent_three(engine)
    outcome, rest = more.get("outcome", "delivered"), {name: value for name, value in more.items() if name != "outcome"}
    turn(store, settle_frame(1, EPOCH, (outcome, ((0, 1),)), **rest))
    again = open_store(engine.rebuilt(len(engine.writes)), node(), 2)
    assert again.status(5000).queues[QUEUE].depth == 2


def test_a_new_generation_forgets_what_was_released(engine: Engine) -> None:
    store = open_store(engine, node(replace(bridge(), on_session_loss="republish")), 1)
    turn(store, publishes(1, b"a", b"b", qos=2))
    head = of(open_lane(store), LaneOpened)[0].head
    turn(store, settle_frame(1, EPOCH, released=((head, head + 1),), session="first"))

    effects = turn(store, settle_frame(2, EPOCH, session="second", generation=1))

    assert of(effects, Settled) == [Settled(queue=QUEUE, epoch=EPOCH, number=2)]
    opened = of(open_lane(store, EPOCH + 1), LaneOpened)[0]
    assert (opened.released, opened.session, opened.generation) == ((), "second", 1)


def test_a_settlement_of_the_forwarders_own_says_nothing_of_the_session(engine: Engine) -> None:
    store = open_store(engine, node(), 1)
    turn(store, publishes(1, b"a", qos=2), publishes(2, b"b", qos=0))
    head = of(open_lane(store), LaneOpened)[0].head
    turn(store, settle_frame(1, EPOCH, session="second", generation=1))
    turn(store, settle_frame(2, EPOCH, released=((head, head + 1),), generation=1))

    turn(store, settle_frame(0, EPOCH, ("delivered", ((head + 1, head + 2),))))

    opened = of(open_lane(store, EPOCH + 1), LaneOpened)[0]
    assert (opened.released, opened.session, opened.generation) == (((head, head + 1),), "second", 1)


def test_what_the_forwarder_settles_says_nothing_of_the_session(engine: Engine) -> None:
    """It knows no generation: QoS 0 that it passed on must not make the store forget what the remote has released."""
    store = open_store(engine, node(), 1)
    turn(store, publishes(1, b"a", b"b", qos=2), publishes(2, b"c", qos=0))
    head = of(open_lane(store), LaneOpened)[0].head
    turn(store, settle_frame(1, EPOCH, session="edge@here", generation=3))
    turn(store, settle_frame(2, EPOCH, released=((head, head + 1),), generation=3))

    effects = turn(store, settle_frame(0, EPOCH, ("delivered", ((head + 2, head + 3),))))

    assert of(effects, Settled) == []
    (opened,) = of(open_lane(store, EPOCH + 1), LaneOpened)
    assert (opened.released, opened.generation, opened.session) == (((head, head + 1),), 3, "edge@here")


def test_a_flush_period_holds_what_tells_of_a_release_back() -> None:
    store = open_store(RecordingEngine(), node(flush_period_s=0.5), 1)
    turn(store, publishes(1, b"a", qos=2), now_s=200.0)
    turn(store, LaneOpen(queue=QUEUE, epoch=EPOCH), now_s=200.1)
    turn(store, Credit(queue=QUEUE, epoch=EPOCH, messages=9, size_bytes=MANY), now_s=200.1)

    early = turn(store, settle_frame(1, EPOCH, released=((0, 1),)), now_s=200.2)
    reopening = turn(store, LaneOpen(queue=QUEUE, epoch=EPOCH + 1), now_s=200.3)
    effects = turn(store, now_s=200.7)  # a period after the commit of the mark that the hand-out needed

    assert (early, reopening) == ([], []), "a PUBREL must not leave before the release is committed"
    assert [opened.released for opened in of(effects, LaneOpened)] == [((0, 1),)]
