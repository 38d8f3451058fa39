"""How long what was delivered took: by when each message was accepted, and when the bridge says that it was delivered."""

from __future__ import annotations

from dataclasses import replace

import pytest

from storage.engine.memory_engine import MemoryEngine
from storage.queue.chunk import Left
from storage.store.lane import BOUNDS_S, count_delivered
from storage.store.store import Store
from tests.storage.building import QUEUE, RecordingEngine, append_frame, batch, node, settle_frame
from tests.storage.turns import EPOCH, open_lane, turn
from tests.support.present import present
from tests.support.stores import open_store
from wire.frames.frame import Frame
from wire.frames.lanes import LaneOpen, Settle
from wire.status.histogram import Histogram, HistogramFigures


def counted(left: Left, *times: tuple[int, int]) -> dict[float, int]:
    histogram = Histogram(BOUNDS_S)
    count_delivered(histogram, left, times)
    return by_bound(histogram.figures())


def by_bound(figures: HistogramFigures) -> dict[float, int]:
    """Upper bound, in seconds -> messages; only those that have any."""
    bounds = [*figures.bounds, float("inf")]
    return {bound: messages for bound, messages in zip(bounds, figures.counts, strict=True) if messages}


@pytest.mark.parametrize(
    ("left", "times", "found"),
    [
        pytest.param([(1000, 3)], [(3, 1005)], {0.005: 3}, id="together"),
        pytest.param([(1000, 3)], [(1, 1005), (2, 1500)], {0.005: 1, 0.5: 2}, id="accepted together, delivered one by one"),
        pytest.param([(1000, 1), (1499, 1)], [(2, 1500)], {0.5: 1, 0.001: 1}, id="accepted one by one, delivered together"),
        pytest.param([(1000, 2), (2000, 2)], [(3, 2001), (1, 3000)], {2: 2, 0.001: 1, 1: 1}, id="across"),
        pytest.param([(1000, 3)], [(1, 1005)], {0.005: 3}, id="the last is that of the rest, too"),
        pytest.param([(2000, 1)], [(1, 1000)], {0.001: 1}, id="the clock was set back"),
        pytest.param([(0, 1)], [(1, 10**9)], {float("inf"): 1}, id="above all bounds"),
        pytest.param([], [(1, 1000)], {}, id="settled before"),
        pytest.param([(1000, 1)], [], {}, id="without a time"),
    ],
)
def test_each_message_is_counted_once_by_its_own_times(left: Left, times: list[tuple[int, int]], found: dict[float, int]) -> None:
    assert counted(left, *times) == found


def test_the_bounds_rise() -> None:
    assert list(BOUNDS_S) == sorted(set(BOUNDS_S))


def accepted(number: int, at_ms: int, *payloads: bytes, qos: int = 1) -> Frame:
    return append_frame(number, {QUEUE: (batch(payloads, qos, accepted_ms=at_ms), None)})


def delivered(number: int, start: int, stop: int, at_ms: int, epoch: int = EPOCH) -> Settle:
    return replace(settle_frame(number, epoch, ("delivered", ((start, stop),))), times=((stop - start, at_ms),))


def figures(store: Store) -> tuple[dict[float, int], int]:
    """Those of the lane, and what its ledger counts as delivered."""
    queue = store.status(5000).queues[QUEUE]
    return by_bound(present(queue.end_to_end_seconds)), present(queue.delivered)


@pytest.mark.parametrize("engine", [RecordingEngine, MemoryEngine])
def test_messages_that_were_handed_out_together_keep_their_own_times(engine: type[MemoryEngine]) -> None:
    store = open_store(engine(), node(), 1)
    open_lane(store)
    for number, at_ms in enumerate((1000, 3000, 3000, 3990), 1):
        turn(store, accepted(number, at_ms, b"a", b"b"))
    first = 0 if engine is RecordingEngine else 1 << 32

    turn(store, delivered(1, first, first + 3, 4000))
    assert figures(store) == ({5: 2, 1: 1}, 3)
    turn(store, delivered(2, first + 3, first + 8, 4000))

    assert figures(store) == ({5: 2, 1: 4, 0.01: 2}, 8)


def test_rows_of_both_kinds_in_one_batch_are_counted_with_it() -> None:
    store = open_store(RecordingEngine(), node(), 1)
    open_lane(store)
    turn(store, append_frame(1, {QUEUE: (batch([b"a", b"b", b"c"], [0, 1, 0], accepted_ms=1000), None)}))

    turn(store, delivered(0, 0, 1, 1001), delivered(1, 1, 2, 1200), delivered(0, 2, 3, 1001))

    assert figures(store) == ({0.001: 2, 0.2: 1}, 3)


def test_what_the_remote_had_before_it_is_handed_out_again_is_counted_as_well() -> None:
    store = open_store(RecordingEngine(), node(), 1)
    open_lane(store)
    turn(store, accepted(1, 1000, b"a", b"b"))
    turn(store, LaneOpen(queue=QUEUE, epoch=EPOCH + 1))

    turn(store, delivered(1, 0, 2, 1500, EPOCH + 1))

    assert figures(store) == ({0.5: 2}, 2)


def test_only_what_was_delivered_is_counted() -> None:
    store = open_store(RecordingEngine(), node(), 1)
    open_lane(store)
    turn(store, accepted(1, 1000, b"a", b"b", b"c"))

    turn(store, settle_frame(1, EPOCH, ("expired", ((0, 1),)), ("dead:0x97", ((1, 2),))), delivered(2, 2, 3, 1000))

    assert figures(store) == ({0.001: 1}, 1)


def test_a_session_of_a_local_client_has_no_such_figure() -> None:
    store = open_store(RecordingEngine(), node(), 1)

    queue = store.lanes.open("session:1:c")

    assert queue.end_to_end is None
