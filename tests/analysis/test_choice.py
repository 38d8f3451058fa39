"""Which snapshots a report reads: C1-C3, against sets of sequences."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from storage.analysis.reports.choice import Covered, Numbers, QueueAt, bucket_s, covered, takes

QUEUE = "bridge:cloud:0"


def stood(at: int, history_from: int, head: int, tail: int) -> QueueAt:
    return QueueAt(node="n", snapshot_id=f"s{at:03}", at_us=at, queue=QUEUE, history_from=history_from, head=head, tail=tail)


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

    assert len(taken) == len(set(taken))  # C1
    newest = states[-1]
    kept = {seq for state in states for seq in range(state.history_from, state.head)} | set(range(newest.history_from, newest.tail))
    oldest_joined = newest.history_from
    for state in reversed(states):
        if state.head >= oldest_joined:
            oldest_joined = min(oldest_joined, state.history_from)
    assert {seq for seq in kept if seq >= oldest_joined} <= set(taken)  # C2


@given(successive())
def test_as_few_snapshots_as_can_be_are_read(states: list[QueueAt]) -> None:
    """A snapshot that has nothing that a newer one lacks is never read."""
    lows = [take.seq_from for take in takes(states)]

    assert lows == sorted(set(lows), reverse=True)


def test_what_a_former_store_of_that_name_had_is_left_out() -> None:
    old, new = stood(1, 0, 500, 900), stood(2, 0, 3, 5)

    assert {take.snapshot_id for take in takes([old, new])} == {"s002"}


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
