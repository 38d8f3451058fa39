"""Lanes that the configuration has no more, as the supervisor runs them: by its frames, with lives that the test ends."""

from __future__ import annotations

import pytest

from tests.supervisor.tree_double import Tree
from wire.figure import of_map
from wire.frames.names import QUEUE_STORE, STORE
from wire.frames.supervision import ResetMarkers, Stop
from wire.status.store import StoreReport

LANE = "bridge:cloud:1"
WAITING = of_map(StoreReport, {"queues": {LANE: {"depth": 5}}})


@pytest.fixture
def tree() -> Tree:
    """A former lane runs."""
    tree = Tree()
    tree.beat(STORE, "ready", WAITING)
    tree.ready(LANE)
    tree.sent(Stop)
    return tree


def test_a_store_that_is_not_open_yet_says_nothing_of_lanes(tree: Tree) -> None:
    tree.ends(STORE)
    tree.begins(STORE)

    tree.beat(STORE, "starting", StoreReport())
    assert tree.sent(Stop) == []

    tree.beat(STORE, "ready", of_map(StoreReport, {"queues": {LANE: {"depth": 0}}}))
    assert [peer for peer, _ in tree.sent(Stop)] == [LANE]


def test_a_former_lane_that_gets_messages_while_it_stops_runs_again_and_its_markers_are_reset(tree: Tree) -> None:
    """The life that was to stop may have opened the lane, and taken what came meanwhile."""
    life = tree.children[LANE].life
    assert life is not None
    tree.beat(STORE, "ready", StoreReport())
    assert [peer for peer, _ in tree.sent(Stop)] == [LANE]

    tree.ends(LANE)
    assert LANE not in tree.children
    assert tree.sent(ResetMarkers) == [(QUEUE_STORE, ResetMarkers(queue=LANE, epoch=life.epoch))]

    tree.beat(STORE, "ready", WAITING)
    again = tree.children[LANE].life
    assert again is not None
    assert again.epoch > life.epoch
