"""routing.live-beside-backlog: what is accepted during a backlog leaves beside it, and only then; over crashes, and back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from storage.engine.engine import Engine
from tests.storage.building import append_frame, batch, bridge, messages, node, settle_frame
from tests.support.settings import limits
from tests.support.stores import change_settings, open_store
from wire.config_settings import LIVE_FIRST, OLDEST_FIRST, LimitSettings, NodeSettings
from wire.frames.frame import Frame
from wire.frames.lanes import Credit, HandOut, LaneOpen
from wire.status.bridges import QueueFigures

FIRST, LIVE = "bridge:cloud:0", "bridge:cloud:live"
ACCEPTED_MS = 1_000
LATER_MS = ACCEPTED_MS + 10_001  # what was accepted then is a backlog by now


def settings(backlog: str = LIVE_FIRST, limit: LimitSettings | None = None) -> NodeSettings:
    return node(replace(bridge(limit=limit), backlog=backlog))


class Life:
    """One life of the store; ``wall_ms`` is what its clock says. handed: by queue, what was handed out."""

    def __init__(self, engine: Engine, life: int, told: NodeSettings | None = None) -> None:
        self.store = open_store(engine, told or settings(), life)
        self.handed: dict[str, list[bytes]] = {FIRST: [], LIVE: []}
        self.wall_ms = ACCEPTED_MS
        self._life = life
        self._number = 0
        self._now_s = 100.0 * life
        self._flying: dict[str, list[int]] = {FIRST: [], LIVE: []}

    def turn(self, *frames: Frame) -> None:
        for frame in frames:
            self.store.receive(frame)
        for _, frame in [*self.store.admit(self._now_s, self.wall_ms), *self.store.commit(self._now_s, self.wall_ms)]:
            if isinstance(frame, HandOut):
                for seq, payload in messages(frame):
                    self.handed[frame.queue].append(payload)
                    self._flying[frame.queue].append(seq)

    def publish(self, *payloads: bytes) -> None:
        self._number += 1
        self.turn(append_frame(self._number, {FIRST: (batch(payloads, accepted_ms=self.wall_ms), None)}, epoch=self._life))

    def tick(self, wall_ms: int) -> None:
        """The store's housekeeping has its second."""
        self.wall_ms = wall_ms
        self._now_s += 1.0
        self.store.tick(self._now_s, wall_ms)
        self.turn()

    def link(self, queue: str, messages_max: int = 1_000) -> None:
        """A Forwarder opens the lane, and grants so much."""
        self.turn(LaneOpen(queue=queue, epoch=self._life << 20))
        self.credit(queue, messages_max)

    def credit(self, queue: str, messages_max: int) -> None:
        self.turn(Credit(queue=queue, epoch=self._life << 20, messages=messages_max, size_bytes=messages_max << 20))

    def deliver(self, queue: str) -> None:
        """The remote has taken all that was handed out of it."""
        seqs, self._flying[queue] = self._flying[queue], []
        self.turn(settle_frame(0, self._life << 20, ("delivered", tuple((seq, seq + 1) for seq in seqs)), queue=queue))

    def depths(self) -> tuple[int | None, int | None]:
        return self.of(FIRST).depth, self.of(LIVE).depth

    def of(self, queue: str) -> QueueFigures:
        return self.store.status(self.wall_ms).queues[queue]


def test_what_is_accepted_during_a_backlog_leaves_beside_it_until_both_are_empty(engine: Engine) -> None:
    """routing.live-beside-backlog"""
    store = Life(engine, 1)
    store.publish(b"old")
    store.link(LIVE)
    store.publish(b"old too")
    assert store.depths() == (2, 0), "it has not waited for long"

    store.tick(LATER_MS)
    assert store.of(FIRST).backlog is True
    store.publish(b"new")
    assert store.handed == {FIRST: [], LIVE: [b"new"]}
    store.link(FIRST)
    store.deliver(FIRST)
    store.publish(b"newer")
    assert store.handed[LIVE] == [b"new", b"newer"], "something is still beside it"
    store.deliver(LIVE)
    store.publish(b"as ever")
    assert store.handed == {FIRST: [b"old", b"old too", b"as ever"], LIVE: [b"new", b"newer"]}
    assert (store.of(FIRST).backlog, store.of(LIVE).backlog) == (False, False)
    assert all(store.of(queue).ledger_closes for queue in (FIRST, LIVE))


def test_without_a_link_of_the_lane_beside_it_all_is_queued_as_ever(engine: Engine) -> None:
    """routing.live-beside-backlog: also where a remote takes one connection only, or the link went down meanwhile."""
    store = Life(engine, 1)
    store.publish(b"old")
    store.tick(LATER_MS)
    store.publish(b"link is down")
    store.link(LIVE)
    store.publish(b"it is up")
    store.credit(LIVE, 0)
    store.publish(b"it is down again")
    store.credit(LIVE, 1_000)
    store.publish(b"and up")

    store.link(FIRST)
    assert store.handed[FIRST] == [b"old", b"link is down", b"it is down again"]
    assert sorted(set(store.handed[LIVE])) == [b"and up", b"it is up"]


def test_what_waits_when_a_store_opens_is_a_backlog_at_once(engine: Engine) -> None:
    """routing.live-beside-backlog: where a crash left what is in each queue, each has it."""
    if not engine.durable:
        pytest.skip("nothing waits when it opens")
    store = Life(engine, 1)
    store.publish(b"old")
    store.link(LIVE)
    store.tick(LATER_MS)
    store.publish(b"new")

    again = Life(engine, 2)
    again.link(LIVE)
    again.publish(b"newer")
    again.link(FIRST)

    assert again.handed == {FIRST: [b"old"], LIVE: [b"new", b"newer"]}


def test_it_may_be_wanted_and_given_up_while_messages_wait(engine: Engine) -> None:
    """routing.live-beside-backlog: what waits stays where it is."""
    store = Life(engine, 1, settings(OLDEST_FIRST))
    store.publish(b"old")
    change_settings(store.store, settings())
    store.link(LIVE)
    store.publish(b"beside it")
    change_settings(store.store, settings(OLDEST_FIRST))
    store.publish(b"behind it")

    store.link(FIRST)
    assert store.handed == {FIRST: [b"old", b"behind it"], LIVE: [b"beside it"]}


def test_the_oldest_of_the_backlog_give_way_to_what_comes_beside_it(engine: Engine) -> None:
    """They share one limit."""
    store = Life(engine, 1, settings(limit=limits(max_messages=2, overflow="drop-oldest")))
    store.publish(b"oldest", b"old")
    store.link(LIVE)
    store.tick(LATER_MS)
    store.publish(b"new")

    assert store.handed[LIVE] == [b"new"]
    store.link(FIRST)
    assert store.handed[FIRST] == [b"old"]
    assert store.of(FIRST).dropped == {"overflow": 1}
