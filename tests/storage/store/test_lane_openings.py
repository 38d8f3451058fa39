"""Lanes are opened, get credit and are closed; frames of an old epoch change nothing."""

from __future__ import annotations

import pytest

from storage.engine.engine import Engine
from tests.storage.building import (
    QUEUE,
    node,
    settle_frame,
)
from tests.storage.turns import EPOCH, MANY, NEXT_LIFE, handed, of, open_lane, publishes, turn
from tests.support.stores import open_store
from wire.frames.lanes import Credit, LaneOpen, LaneOpened
from wire.frames.supervision import ResetMarkers


def test_credit_bounds_what_is_handed_out(engine: Engine) -> None:
    store = open_store(engine, node(), 1)
    turn(store, *[publishes(number, b"%d" % number) for number in range(1, 8)])

    effects = open_lane(store, messages=3)
    more = turn(store, Credit(queue=QUEUE, epoch=EPOCH, messages=5, size_bytes=MANY))
    repeated = turn(store, Credit(queue=QUEUE, epoch=EPOCH, messages=5, size_bytes=MANY))

    assert handed(effects) == [b"1", b"2", b"3"]
    assert handed(more) == [b"4", b"5"]
    assert repeated == []


def test_frames_of_an_old_lane_epoch_change_nothing(engine: Engine) -> None:
    """store.old-epoch-changes-nothing"""
    store = open_store(engine, node(), 1)
    turn(store, publishes(1, b"a"))
    head = of(open_lane(store), LaneOpened)[0].head
    assert handed(open_lane(store, EPOCH + 1)) == [b"a"]

    turn(store, settle_frame(1, EPOCH, ("delivered", ((head, head + 1),))))
    assert open_lane(store, EPOCH) == []

    assert store.status(5000).queues[QUEUE].depth == 1
    turn(store, settle_frame(1, EPOCH + 1, ("delivered", ((head, head + 1),))))
    assert store.status(5000).queues[QUEUE].depth == 0


def test_a_lane_whose_process_has_ended_hands_nothing_out_until_its_next_life_opens_it(engine: Engine) -> None:
    store = open_store(engine, node(), 1)
    turn(store, publishes(1, b"a", b"b"))
    head = of(open_lane(store), LaneOpened)[0].head
    turn(store, settle_frame(1, EPOCH, ("delivered", ((head, head + 1),))))

    effects = turn(store, ResetMarkers(queue=QUEUE, epoch=7), publishes(2, b"c"))

    assert {peer for peer, _ in effects} == {"listener"}, "nobody is there to take it, or to be asked"
    again = open_lane(store, NEXT_LIFE)
    assert handed(again) == [b"b", b"c"]
    assert of(again, LaneOpened)[0].dup_below == head + 2


def test_a_late_word_of_a_life_that_has_ended_does_not_stop_what_a_newer_one_has_opened(engine: Engine) -> None:
    store = open_store(engine, node(), 1)
    open_lane(store)
    open_lane(store, NEXT_LIFE)

    effects = turn(store, ResetMarkers(queue=QUEUE, epoch=7), publishes(1, b"a"))
    assert handed(effects) == [b"a"]

    effects = turn(store, ResetMarkers(queue=QUEUE, epoch=8), publishes(2, b"b"))
    assert handed(effects) == [], "its own end counts"


def test_an_opening_is_not_answered_to_a_process_that_has_ended(engine: Engine) -> None:
    store = open_store(engine, node(), 1)
    turn(store, publishes(1, b"a"))

    assert turn(store, LaneOpen(queue=QUEUE, epoch=EPOCH), ResetMarkers(queue=QUEUE, epoch=7)) == []
    effects = turn(store, LaneOpen(queue=QUEUE, epoch=NEXT_LIFE), ResetMarkers(queue=QUEUE, epoch=7))
    assert [frame.epoch for frame in of(effects, LaneOpened)] == [NEXT_LIFE]


@pytest.mark.parametrize(("new_epoch", "expected"), [(EPOCH + 1, [b"a"]), (NEXT_LIFE, [])])
def test_qos_0_in_flight_goes_out_again_only_to_the_same_forwarder(engine: Engine, new_epoch: int, expected: list[bytes]) -> None:
    store = open_store(engine, node(), 1)
    turn(store, publishes(1, b"a", qos=0))
    open_lane(store)

    assert handed(open_lane(store, new_epoch)) == expected

    figures = store.status(5000).queues[QUEUE]
    assert figures.dropped == ({} if expected else {"actor_restart": 1})
    assert figures.ledger_closes
