"""Expiry on disk: nothing behind an expired message leaves before that is on record, and nobody else waits for it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from storage.engine.memory_engine import MemoryEngine
from storage.store.store import Store
from tests.storage.building import QUEUE, RecordingEngine, append_frame, batch, bridge, messages, node, settle_frame
from tests.support.present import present
from tests.support.settings import limits
from tests.support.stores import open_store
from wire.config_settings import NodeSettings
from wire.frames.frame import Effects, Frame
from wire.frames.lanes import Credit, HandOut, LaneOpen

MAX_AGE_S = 5.0
OLD_MS, YOUNG_MS, LATER_MS = 1000, 5500, 7000  # later the old ones have expired, the young ones have not
MANY = 1 << 40


def settings(flush_period_s: float = 0.0, sync: str = "full", lanes: int = 1) -> NodeSettings:
    return node(bridge(lanes=lanes, limit=limits(max_age_s=MAX_AGE_S)), flush_period_s=flush_period_s, sync=sync)


def handed(effects: Effects) -> list[bytes]:
    return [payload for _, frame in effects if isinstance(frame, HandOut) for _, payload in messages(frame)]


def turn(store: Store, *frames: Frame, now_s: float, wall_ms: int) -> list[bytes]:
    for frame in frames:
        store.receive(frame)
    return handed([*store.admit(now_s, wall_ms), *store.commit(now_s, wall_ms)])


def credit(life: int, count: int) -> Credit:
    return Credit(queue=QUEUE, epoch=life << 20, messages=count, size_bytes=MANY)


def one_sent(engine: MemoryEngine, chosen: NodeSettings, *, qos: Sequence[int] = (2, 2)) -> Store:
    """``x`` was sent, and the mark is far ahead; behind it wait an old and a young message, for want of credit."""
    store = open_store(engine, chosen, 1)
    turn(store, LaneOpen(queue=QUEUE, epoch=1 << 20), now_s=1.0, wall_ms=OLD_MS)
    turn(store, credit(1, 1), now_s=1.0, wall_ms=OLD_MS)
    rows = ((b"x", 1, OLD_MS), (b"old", qos[0], OLD_MS), (b"young", qos[1], YOUNG_MS))
    for number, (payload, level, accepted_ms) in enumerate(rows, 1):
        part = batch([payload], level, accepted_ms=accepted_ms)
        store.receive(append_frame(number, {QUEUE: (part, None)}, promised=chosen.persistence))
    store.admit(1.1, YOUNG_MS)
    assert handed(store.commit(1.1, YOUNG_MS, at_once=True)) == [b"x"]
    return store


def after_a_crash(engine: RecordingEngine, chosen: NodeSettings, *, power_cut: bool) -> list[bytes]:
    """The hand-outs of the next life of the store; a kill leaves it every write, a power cut those that were synced."""
    kept = len(engine.writes)
    if power_cut:
        kept = max(index + 1 for index, (_, synced) in enumerate(engine.writes) if synced)
    store = open_store(engine.rebuilt(kept), chosen, 2)
    turn(store, LaneOpen(queue=QUEUE, epoch=2 << 20), now_s=3.0, wall_ms=LATER_MS)
    return turn(store, credit(2, 9), now_s=3.0, wall_ms=LATER_MS)


@pytest.mark.parametrize("power_cut", [True, False])
@pytest.mark.parametrize("flush_period_s", [0.0, 60.0])
@pytest.mark.parametrize("ticks", [True, False])
def test_nothing_is_handed_out_behind_what_has_expired_before_that_is_on_record(
    ticks: bool, flush_period_s: float, power_cut: bool
) -> None:
    """A crash would bring it back below the mark, where nothing expires, behind newer messages of its topic (P4)."""
    engine, chosen = RecordingEngine(), settings(flush_period_s)
    store = one_sent(engine, chosen)
    if ticks:
        store.tick(2.6, LATER_MS)
        assert turn(store, now_s=2.6, wall_ms=LATER_MS) == []

    came = turn(store, settle_frame(1, 1 << 20, ("delivered", ((0, 1),))), credit(1, 9), now_s=2.7, wall_ms=LATER_MS)

    assert came == [b"young"], "at once, without a word from anybody"
    assert store.status(LATER_MS).queues[QUEUE].expired == 1
    assert b"old" not in after_a_crash(engine, chosen, power_cut=power_cut)


def test_while_the_disk_refuses_to_take_what_has_expired_nothing_behind_it_leaves() -> None:
    """It leaves as soon as the disk is back, whoever is silent."""
    engine = RecordingEngine()
    store = one_sent(engine, settings(60.0))
    engine.refusing = True
    assert turn(store, credit(1, 9), now_s=2.6, wall_ms=LATER_MS) == []

    now_s = store.wakes_at_s(2.6)
    assert turn(store, now_s=now_s, wall_ms=LATER_MS) == []
    engine.refusing = False
    now_s = store.wakes_at_s(now_s)

    assert turn(store, now_s=now_s, wall_ms=LATER_MS) == [b"young"]


@pytest.mark.parametrize("mode", ["file-native", "in-memory"])
def test_what_expires_in_memory_holds_nothing_up(mode: str) -> None:
    """It does not come back: QoS 0, and all that an in-memory store has."""
    in_memory = mode == "in-memory"
    store = one_sent(MemoryEngine() if in_memory else RecordingEngine(), settings(60.0), qos=(2 if in_memory else 0, 0))
    commits = present(store.status(LATER_MS).commits)

    assert turn(store, credit(1, 9), now_s=2.6, wall_ms=LATER_MS) == [b"young"]

    figures = store.status(LATER_MS)
    assert (figures.queues[QUEUE].expired, present(figures.commits) - commits) == (1, 0)


def test_a_lane_that_waits_for_another_waits_until_what_expired_there_is_on_record() -> None:
    """A topic that has changed its lane would overtake itself, if a crash brought it back in the former one
    (store.former-lanes-drain-first, P4).
    """
    engine, other = RecordingEngine(), "bridge:cloud:1"
    before = open_store(engine, settings(lanes=2), 1)
    for number, (queue, payload, accepted_ms) in enumerate(((QUEUE, b"old", OLD_MS), (other, b"x", YOUNG_MS)), 1):
        frame = append_frame(number, {queue: (batch([payload], accepted_ms=accepted_ms), None)})
        turn(before, frame, now_s=1.0, wall_ms=YOUNG_MS)
    store = open_store(engine, settings(60.0, lanes=3), 2)
    store.receive(append_frame(1, {other: (batch([b"young"], accepted_ms=YOUNG_MS), None)}, epoch=2))
    assert turn(store, LaneOpen(queue=other, epoch=2 << 20), now_s=2.0, wall_ms=YOUNG_MS) == []
    much = Credit(queue=other, epoch=2 << 20, messages=9, size_bytes=MANY)
    assert turn(store, much, now_s=2.0, wall_ms=YOUNG_MS) == [b"x"], "and the mark has moved past the young one"
    delivered = settle_frame(0, 2 << 20, ("delivered", ((0, 1),)), queue=other)
    assert turn(store, delivered, now_s=2.0, wall_ms=YOUNG_MS) == []

    store.tick(2.6, LATER_MS)
    engine.refusing = True
    assert turn(store, now_s=2.6, wall_ms=LATER_MS) == []
    engine.refusing = False
    assert turn(store, now_s=store.wakes_at_s(2.6), wall_ms=LATER_MS) == [b"young"]
