"""A store is given other settings while it runs: what it keeps stays, and goes by the new ones."""

from __future__ import annotations

from dataclasses import replace

import pytest

from storage.engine.engine import Engine
from tests.storage.building import append_frame, batch, bridge, node
from tests.storage.store.test_lane_changes import Life, queue
from tests.storage.turns import of, turn
from tests.support.settings import limits
from tests.support.settings import node as plain_node
from tests.support.stores import change_settings
from wire.config_settings import EventSettings, NodeSettings, PersistenceSettings, SessionSettings
from wire.frames.intake import SessionOpen, SessionOpened
from wire.frames.supervision import QueueAnswer, QueueCommand


@pytest.fixture(params=["recording", "rocksdb"])
def engine(engine: Engine) -> Engine:
    """The durable ones."""
    return engine


class LiveStore(Life):
    """A store whose settings change while it lives."""

    def __init__(self, engine: Engine, lanes: int, life: int = 1, number: int = 1) -> None:
        super().__init__(engine, life, lanes, replace(node(bridge(lanes=lanes)), number=number))

    def change(self, number: int, lanes: int | None, **changed: object) -> None:
        """lanes: None takes the bridge out."""
        bridges = () if lanes is None else (bridge(lanes=lanes),)
        change_settings(self.store, replace(node(*bridges), number=number, bridges=bridges, **changed))  # type: ignore[arg-type]


def test_more_lanes_start_when_what_was_routed_before_is_delivered(engine: Engine) -> None:
    """The change is where batches are routed by it, not where the store hears of it (store.former-lanes-drain-first)."""
    store = LiveStore(engine, 1)
    store.publish(0, b"a")
    store.change(2, lanes=2)
    store.publish(0, b"b")
    store.routes_by = 2
    store.publish(1, b"after, in the new lane")
    store.publish(0, b"after")

    assert store.open(0, 1) == [b"a", b"b"]
    assert sorted(store.deliver(0)) == [b"after", b"after, in the new lane"]
    assert Life(engine, 2, 2).open(0, 1) == [b"after", b"after, in the new lane"], "and it is on record"


def test_one_turn_may_have_batches_of_before_and_after(engine: Engine) -> None:
    """Messages in the open write are below the mark: they go first."""
    store = LiveStore(engine, 1)
    store.change(2, lanes=2)
    before = append_frame(1, {queue(0): (batch([b"a"]), None)})
    after = append_frame(2, {queue(1): (batch([b"b"]), None)})
    store.turn(before, replace(after, lanes=(("cloud", 2),)))

    assert store.open(0, 1) == [b"a"]
    assert store.deliver(0) == [b"b"]


@pytest.mark.parametrize("dies", [False, True], ids=["the store lives", "the store dies"])
def test_a_batch_that_was_routed_before_and_comes_after_stays_in_front_of_what_follows(engine: Engine, dies: bool) -> None:
    """It is sent again to a store that was told of the change already, or has begun with it."""
    store = LiveStore(engine, 2)
    store.publish(0, b"a")
    store.change(2, lanes=1)
    if dies:
        store = LiveStore(engine, 1, life=2, number=2)
        store.routes_by = 2
    store.publish(1, b"routed before")
    store.routes_by = 1
    store.publish(0, b"c")

    assert store.open(0, 1)[:1] == [b"a"]
    while store._flying:
        for lane in sorted(store._flying):
            store.deliver(lane)
    assert store.handed == [b"a", b"routed before", b"c"]


@pytest.mark.parametrize(("before", "now"), [(1, 2), (2, 1)])
def test_what_was_routed_before_and_came_to_a_new_store_goes_first_in_the_next_life(engine: Engine, before: int, now: int) -> None:
    """store.former-lanes-drain-first. The node dies behind a batch that was sent again, before any by what holds now."""
    LiveStore(engine, before)
    store = LiveStore(engine, now, life=2, number=2)
    store.routes_by = before
    store.publish(before - 1, b"routed before")
    store = LiveStore(engine, now, life=3)
    store.publish(now - 1, b"after")

    assert store.open(0, 1) == [b"routed before"]
    assert store.deliver(before - 1) == [b"after"]


def test_other_settings_with_as_many_lanes_make_nobody_wait(engine: Engine) -> None:
    store = LiveStore(engine, 2)
    store.publish(1, b"a")
    store.change(2, lanes=2)
    store.routes_by = 2
    store.publish(0, b"b")
    assert store.open(0, 1) == [b"b", b"a"]


def test_a_bridge_that_is_taken_out_keeps_its_queue_and_goes_on_when_it_is_put_back(engine: Engine) -> None:
    """P7."""
    store = LiveStore(engine, 2)
    store.publish(1, b"a")
    store.change(2, lanes=None)
    (answer,) = store.turn(QueueCommand(request=1, verb="list", arguments={}))
    assert isinstance(answer[1], QueueAnswer)
    assert [(row["lane"], row["configured"], row["depth"]) for row in answer[1].result["queues"]] == [(0, False, 0), (1, False, 1)]
    store.change(3, lanes=1)
    store.routes_by = 1
    store.publish(0, b"after")
    assert store.open(0) == []
    assert store.open(1) == [b"a"]
    assert store.deliver(1) == [b"after"]


def test_the_queue_of_a_bridge_that_was_taken_out_is_purged(engine: Engine) -> None:
    store = LiveStore(engine, 1)
    store.publish(0, b"a")
    store.change(2, lanes=None)
    purge = QueueCommand(request=1, verb="purge", arguments={"bridge": "cloud"})
    answer = next(frame for _, frame in store.turn(purge) if isinstance(frame, QueueAnswer))
    assert answer.error == ""
    assert store.store.lanes.of_bridges[queue(0)].queue.depth == 0


def test_a_queue_of_a_lane_that_nobody_was_told_of_yet_is_made(engine: Engine) -> None:
    """The Distributor may be ahead; what it routes is not lost, and the limits come with the settings."""
    store = LiveStore(engine, 1)
    store.routes_by = 2
    store.publish(1, b"a")
    store.change(2, lanes=2)
    assert store.open(0, 1) == [b"a"]


def comes_in(store: LiveStore, number: int) -> bool:
    queued = store.store.lanes.of_bridges[queue(0)].queue
    before = queued.depth
    store.turn(append_frame(number, {queue(0): (batch([b"x"]), None)}))
    return queued.depth > before


def limited(most: int | None) -> NodeSettings:
    return replace(node(bridge(limit=limits(max_messages=most, overflow="drop-newest"))), number=2)


def test_limits_count_from_the_next_batch_on_and_take_nothing_that_is_there(engine: Engine) -> None:
    store = LiveStore(engine, 1)
    assert comes_in(store, 1)
    assert comes_in(store, 2)
    change_settings(store.store, limited(2))
    assert not comes_in(store, 3)
    assert store.store.lanes.of_bridges[queue(0)].queue.depth == 2
    change_settings(store.store, replace(limited(3), number=3))
    assert comes_in(store, 4)
    change_settings(store.store, replace(node(bridge(), limit=limits(max_messages=3, overflow="drop-newest")), number=4))
    assert not comes_in(store, 5), "that of the node"


def test_what_waits_grows_old_by_the_new_age(engine: Engine) -> None:
    store = LiveStore(engine, 1)
    store.publish(0, b"a")
    change_settings(store.store, replace(node(bridge(limit=limits(max_age_s=3.0))), number=2))
    store.store.tick(100.0, 5000)
    store.turn()
    assert store.store.lanes.of_bridges[queue(0)].queue.depth == 0


def test_each_part_goes_by_what_holds_now(engine: Engine) -> None:
    """No part keeps what it was made with: what acts on a change has acted, and the rest is read where it counts."""
    store = LiveStore(engine, 1).store
    sessions = SessionSettings(sessions_max=3, expiry_max_s=5, queue_max_messages=7, queue_max_bytes=8, retained_max_messages=9)
    persistence = PersistenceSettings(flush_period_s=0.5, events=EventSettings(max=5, max_age_s=6.0))
    one = replace(bridge("new", lanes=2), retention_s=60.0, limits=limits(volatile_max_bytes=77))
    change_settings(
        store, plain_node(one, number=2, sessions=sessions, persistence=persistence, limits=limits(min_free_disk_bytes=11))
    )

    assert {"bridge:new:0", "bridge:new:1"} <= store.lanes.all.keys()
    assert store.lanes.is_configured("bridge:new:1")
    assert not store.lanes.is_configured(queue(0))
    assert store.lanes.all["bridge:new:0"].queue.trimming.history is not None
    assert store.lanes.all["bridge:new:0"].queue.qos0.max_bytes == 77
    assert store.housekeeping.disk.needed_bytes == 11
    session = of(
        turn(store, SessionOpen(sender="listener", epoch=1, request=1, session="c", clean=True, expiry_s=60)), SessionOpened
    )
    assert store.lanes.all[session[0].queue].limits.max_messages == 7
