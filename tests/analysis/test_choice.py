"""Which snapshots a report reads: reports.all-kept-history-taken, reports.snapshots-by-life-not-clock, against sets of sequences
and the order in which snapshots were made.
"""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.reports.snapshot_choice import Covered, Numbers, QueueAt, SnapshotAt, bucket_s, covered, in_order, set_backs, takes

QUEUE = "bridge:cloud:0"


def stood(at: int, history_from: int, head: int, tail: int) -> QueueAt:
    return QueueAt(node="n", snapshot_id=f"s{at:03}", place=at, queue=QUEUE, history_from=history_from, head=head, tail=tail)


@st.composite
def successive(draw: st.DrawFn) -> list[QueueAt]:
    """Snapshots of one life of a store: nothing ever goes back."""
    states, low, head, tail = [], 0, 0, 0
    for at in range(draw(st.integers(1, 8))):
        tail += draw(st.integers(0, 20))
        head = draw(st.integers(head, tail))
        low = draw(st.integers(low, head))
        states.append(stood(at, low, head, tail))
    return states


@given(successive())
def test_each_sequence_is_taken_once_and_all_that_was_kept_is_taken(states: list[QueueAt]) -> None:
    taken = [seq for take in takes(states) for seq in range(take.seq_from, take.seq_to)]

    assert len(taken) == len(set(taken))  # reports.all-kept-history-taken
    newest = states[-1]
    kept = {seq for state in states for seq in range(state.history_from, state.head)} | set(range(newest.history_from, newest.tail))
    oldest_joined = newest.history_from
    for state in reversed(states):
        if state.head >= oldest_joined:
            oldest_joined = min(oldest_joined, state.history_from)
    assert {seq for seq in kept if seq >= oldest_joined} <= set(taken)  # reports.all-kept-history-taken


@given(successive())
def test_as_few_snapshots_as_can_be_are_read(states: list[QueueAt]) -> None:
    """A snapshot that has nothing that a newer one lacks is never read."""
    lows = [take.seq_from for take in takes(states)]

    assert lows == sorted(set(lows), reverse=True)


def test_what_a_former_store_of_that_name_had_is_left_out() -> None:
    old, new = stood(1, 0, 500, 900), stood(2, 0, 3, 5)

    assert {take.snapshot_id for take in takes([old, new])} == {"s002"}


@st.composite
def made(draw: st.DrawFn) -> list[SnapshotAt]:
    """Snapshots of a node in the order in which they were made: lives follow each other, queues come, and any clock may be set."""
    found: list[SnapshotAt] = []
    epoch, progress = 5, {"a": 1}
    for number in range(draw(st.integers(1, 9))):
        if draw(st.integers(0, 4)) == 0:
            epoch += 1
            progress = {"a": 1} if draw(st.booleans()) else progress  # perhaps another store, whose numbers begin again
        progress = {queue: reached + draw(st.integers(0, 3)) for queue, reached in progress.items()}
        progress["a"] += 1
        if draw(st.integers(0, 2)) == 0:
            progress.setdefault("b", draw(st.integers(0, 2)))
        damaged = {queue: 0 for queue in progress if queue == "b" and draw(st.integers(0, 5)) == 0}
        at_ms = draw(st.integers(0, 20))
        found.append(SnapshotAt(node="n", snapshot_id=f"s{number:03}", epoch=epoch, at_ms=at_ms, progress={**progress, **damaged}))
    return found


@given(made(), st.randoms(use_true_random=False))
def test_snapshots_are_in_the_order_in_which_they_were_made_whatever_the_clock_said(
    found: list[SnapshotAt], random: Random
) -> None:
    arrived = list(found)
    random.shuffle(arrived)

    ordered = in_order(arrived)

    assert ordered == found  # reports.snapshots-by-life-not-clock
    assert [after.snapshot_id for _, after in set_backs(ordered)] == [
        after.snapshot_id for before, after in pairwise(found) if after.at_ms < before.at_ms
    ]


@pytest.mark.parametrize(
    ("epoch", "early", "late"),
    [
        (None, {"a": 9}, {"a": 3}),  # the life is not known
        (5, {"a": 9}, {"a": 9}),  # nothing was done in between
        (5, {"a": 9}, {"b": 3}),  # nothing to compare
        (5, {"a": 9}, {"a": 0}),  # a row that could not be read
        (5, {"a": 9, "b": 1}, {"a": 3, "b": 2}),  # no order can be true
    ],
)
def test_where_queues_prove_nothing_time_decides(epoch: int | None, early: dict[str, int], late: dict[str, int]) -> None:
    first, second = (
        SnapshotAt(node="n", snapshot_id=name, epoch=epoch, at_ms=at_ms, progress=progress)
        for name, at_ms, progress in (("first", 1, early), ("second", 2, late))
    )

    assert in_order([second, first]) == [first, second]


def test_settlements_that_join_lead_further_back() -> None:
    states = [stood(1, 0, 40, 50), stood(2, 30, 90, 100)]
    joined = [
        Numbers(node="n", snapshot_id="s001", queue=QUEUE, low=0, high=9),
        Numbers(node="n", snapshot_id="s002", queue=QUEUE, low=7, high=20),
    ]
    apart = [joined[0], Numbers(node="n", snapshot_id="s002", queue=QUEUE, low=11, high=20)]

    assert covered(states, joined) == [Covered(node="n", queue=QUEUE, seq_from=0)]
    assert covered(states, apart) == [Covered(node="n", queue=QUEUE, seq_from=30)]


def test_points_over_time_are_few_and_round() -> None:
    assert bucket_s(0) == 1
    assert bucket_s(86_400) == 900
    assert all(span / bucket_s(span) <= 120 for span in range(1, 10_000_000, 9973))
