"""A stream takes each snapshot, settlement and event once, whatever arrives when, and however often a batch is repeated."""

from __future__ import annotations

import json
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from storage.analysis.tables.snapshot_arrivals import EVENTS, REMEMBERED, Progress
from storage.snapshots.manifest import Manifest
from tests.spark.manifests import manifest


def restarted(progress: Progress) -> Progress:
    return Progress.from_json(json.loads(json.dumps(progress.to_json())))


def taken(
    progress: Progress, there: list[Manifest], limit: int | None = None
) -> tuple[Progress, list[tuple[Manifest, dict[str, int]]]]:
    following = progress.next(there, limit)
    if following is progress:
        return progress, []
    by_id = {each.id: each for each in there}
    return following, progress.news(by_id[name] for name in following.batch)


def test_the_second_snapshot_of_a_node_has_only_what_the_first_had_not() -> None:
    first = manifest(at_ms=1000, numbers={"q": (0, 10), "r": (0, 3)}, events=(0, 5))
    second = manifest(at_ms=2000, numbers={"q": (4, 12), "r": (0, 3)}, events=(2, 9))

    progress, news = taken(Progress(), [first])
    assert news == [(first, {"q": 0, "r": 0, EVENTS: 0})]
    progress, news = taken(restarted(progress), [first, second])
    assert news == [(second, {"q": 10, EVENTS: 5})]
    assert restarted(progress).next([first, second], None) == progress


def test_two_snapshots_of_one_batch_overlap_no_more_than_those_of_two() -> None:
    first, second = (manifest(at_ms=at_ms, numbers={"q": (0, stop)}) for at_ms, stop in ((1000, 10), (2000, 12)))

    _, news = taken(Progress(), [second, first])

    assert news == [(first, {"q": 0}), (second, {"q": 10})]


def test_a_batch_takes_no_more_than_its_limit_and_the_oldest_first() -> None:
    there = [manifest(node, at_ms) for at_ms in (3000, 1000, 2000) for node in ("a", "b")]
    progress, seen = Progress(), []
    for _ in range(4):
        progress, news = taken(restarted(progress), there, limit=2)
        seen.append([(each.node, each.at_ms) for each, _ in news])

    assert seen == [[("a", 1000), ("b", 1000)], [("a", 2000), ("b", 2000)], [("a", 3000), ("b", 3000)], []]


def test_a_late_snapshot_is_taken_once_and_its_settlements_are_not() -> None:
    """tables.snapshots-in-order"""
    first, late, last = (manifest(at_ms=at_ms, numbers={"q": (0, stop)}) for at_ms, stop in ((1000, 10), (2000, 12), (3000, 15)))
    progress, _ = taken(Progress(), [first, last])

    progress, news = taken(restarted(progress), [first, late, last])

    assert news == [(late, {})]
    assert progress.nodes["edge"].numbers == {"q": 15}
    assert taken(progress, [first, late, last])[1] == []


def test_what_is_older_than_all_that_is_remembered_is_not_taken_again() -> None:
    many = [manifest(at_ms=1000 * (number + 1)) for number in range(REMEMBERED + 5)]
    progress, _ = taken(Progress(), many)

    assert len(progress.nodes["edge"].taken) == REMEMBERED
    assert taken(progress, many)[1] == []


def test_a_clock_that_is_set_back_in_a_new_life_makes_no_snapshot_late() -> None:
    progress, _ = taken(Progress(), [manifest(at_ms=9000, numbers={"q": (0, 10)})])

    after = manifest(at_ms=1000, epoch=2, numbers={"q": (0, 12)})

    assert taken(progress, [after])[1] == [(after, {"q": 10})]


def test_a_clock_that_is_set_back_in_the_same_life_hides_nothing() -> None:
    """tables.snapshots-in-order"""
    before = [manifest(at_ms=90_000 + number, numbers={"q": (0, 10 + number)}, events=(0, number)) for number in range(REMEMBERED)]
    progress, _ = taken(Progress(), before)

    first, second = (manifest(at_ms=at_ms, numbers={"q": (5, stop)}, events=(0, stop)) for at_ms, stop in ((1000, 40), (2000, 50)))

    progress, news = taken(restarted(progress), [*before, first])
    assert news == [(first, {"q": 9 + REMEMBERED, EVENTS: REMEMBERED - 1})]
    progress, news = taken(restarted(progress), [*before, first, second])
    assert news == [(second, {"q": 40, EVENTS: 40})]
    assert taken(progress, [*before, first, second])[1] == []


def test_numbers_that_begin_again_are_another_store() -> None:
    """tables.numbers-anew-all-new"""
    progress, _ = taken(Progress(), [manifest(at_ms=1000, numbers={"q": (90, 100)})])

    other = manifest(at_ms=2000, epoch=2, numbers={"q": (0, 7)})

    assert taken(progress, [other])[1] == [(other, {"q": 0})]


def test_a_queue_that_could_not_be_read_for_once_does_not_begin_again() -> None:
    progress, _ = taken(Progress(), [manifest(at_ms=1000, numbers={"q": (0, 10)})])
    progress, news = taken(progress, [manifest(at_ms=2000, numbers={"q": (0, 0)}, damaged=("q",))])
    assert news[0][1] == {}

    after = manifest(at_ms=3000, numbers={"q": (0, 14)})

    assert taken(progress, [after])[1] == [(after, {"q": 10})]


@given(st.data())
def test_each_number_is_taken_once_whatever_arrives_when(data: st.DataObject) -> None:
    """tables.snapshot-taken-once, tables.settlement-taken-once: snapshots of two nodes arrive in any order, in batches of any size,
    with a restart after each; clocks are set back.
    """
    made: list[Manifest] = []
    for node in ("a", "b"):
        first = stop = 0
        for at_ms in data.draw(st.lists(st.integers(1, 60), min_size=1, max_size=6, unique=True)):
            stop += data.draw(st.integers(0, 4))
            first = min(stop, first + data.draw(st.integers(0, 1)))
            made.append(manifest(node, at_ms, numbers={"q": (first, stop)}))
    waiting = data.draw(st.permutations(made))
    there: list[Manifest] = []
    progress, rows, snapshots = Progress(), Counter[tuple[str, int]](), Counter[str]()
    gone: set[tuple[str, int]] = set()
    while waiting or progress.next(there, None) is not progress:
        arriving = data.draw(st.integers(1, len(waiting))) if waiting else 0
        there, waiting = there + waiting[:arriving], waiting[arriving:]
        progress, news = taken(restarted(progress), there, limit=data.draw(st.integers(1, 5)))
        for each, numbers in news:
            snapshots[each.id] += 1
            first, stop = each.queues[0].settlements
            gone |= {(each.node, number) for number in range(first)}  # no longer kept when this one was made
            if "q" in numbers:
                rows.update((each.node, number) for number in range(numbers["q"], stop))

    assert set(snapshots.values()) == {1}
    assert len(snapshots) == len(made)
    assert set(rows.values()) <= {1}
    kept = {(each.node, number) for each in made for number in range(*each.queues[0].settlements)}
    assert kept - gone <= set(rows)
