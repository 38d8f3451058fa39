"""A stream takes each snapshot, settlement and event once, whatever arrives when, and however often a batch is repeated.

Snapshots that it cannot take any more are named.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from analysis.tables.snapshot_arrivals import EVENTS, RANGES_MAX, REMEMBERED, ArrivalProgress, Gap, gaps_between, key
from storage.snapshots.manifest import Manifest
from tests.spark.manifests import manifest
from wire.ranges import Ranges

Taken = list[tuple[Manifest, dict[str, Ranges]]]


def restarted(progress: ArrivalProgress) -> ArrivalProgress:
    return ArrivalProgress.from_json(json.loads(json.dumps(progress.to_json())))


def taken(progress: ArrivalProgress, there: list[Manifest], limit: int | None = None) -> tuple[ArrivalProgress, Taken]:
    following = progress.next(there, limit)
    if following is progress:
        return progress, []
    by_key = {key(each): each for each in there}
    news = progress.news(by_key[name] for name in following.batch)
    return following, [(each.manifest, dict(each.numbers)) for each in news]


def gaps(progress: ArrivalProgress, batch: list[Manifest]) -> list[tuple[str, int, int]]:
    return [(gap.queue, gap.first, gap.stop) for news in progress.news(batch) for gap in news.gaps]


def test_the_second_snapshot_of_a_node_has_only_what_the_first_had_not() -> None:
    first = manifest(at_ms=1000, numbers={"q": (0, 10), "r": (0, 3)}, events=(0, 5))
    second = manifest(at_ms=2000, numbers={"q": (4, 12), "r": (0, 3)}, events=(2, 9))

    progress, news = taken(ArrivalProgress(), [first])
    assert news == [(first, {"q": ((0, 10),), "r": ((0, 3),), EVENTS: ((0, 5),)})]
    progress, news = taken(restarted(progress), [first, second])
    assert news == [(second, {"q": ((10, 12),), EVENTS: ((5, 9),)})]
    assert restarted(progress).next([first, second], None) == progress


def test_two_snapshots_of_one_batch_overlap_no_more_than_those_of_two() -> None:
    first, second = (manifest(at_ms=at_ms, numbers={"q": (0, stop)}) for at_ms, stop in ((1000, 10), (2000, 12)))

    _, news = taken(ArrivalProgress(), [second, first])

    assert news == [(first, {"q": ((0, 10),)}), (second, {"q": ((10, 12),)})]


def test_a_batch_takes_no_more_than_its_limit_and_the_oldest_first() -> None:
    there = [manifest(node, at_ms) for at_ms in (3000, 1000, 2000) for node in ("a", "b")]
    progress, seen = ArrivalProgress(), []
    for _ in range(4):
        progress, news = taken(restarted(progress), there, limit=2)
        seen.append(sorted((each.node, each.at_ms) for each, _ in news))

    assert seen == [[("a", 1000), ("b", 1000)], [("a", 2000), ("b", 2000)], [("a", 3000), ("b", 3000)], []]


def test_a_late_snapshot_is_taken_once_and_its_settlements_are_not() -> None:
    first, late, last = (manifest(at_ms=at_ms, numbers={"q": (0, stop)}) for at_ms, stop in ((1000, 10), (2000, 12), (3000, 15)))
    progress, _ = taken(ArrivalProgress(), [first, last])

    progress, news = taken(restarted(progress), [first, late, last])

    assert news == [(late, {})]
    assert progress.stores[late.store_id].had["q"].numbers == ((0, 15),)
    assert taken(progress, [first, late, last])[1] == []


def test_a_late_snapshot_brings_what_the_newer_one_had_no_longer() -> None:
    """tables.snapshot-taken-once: the copies came out of order, and the newer one's history had been trimmed."""
    first, late, last = (manifest(at_ms=at, numbers={"q": of}) for at, of in ((1000, (0, 10)), (2000, (5, 40)), (3000, (35, 50))))
    progress, news = taken(ArrivalProgress(), [first, last])
    assert news[1] == (last, {"q": ((35, 50),)})

    progress, news = taken(restarted(progress), [first, last, late])

    assert news == [(late, {"q": ((10, 35),)})]
    assert gaps(ArrivalProgress(), [first, last]) == [("q", 10, 35)]
    assert gaps(ArrivalProgress(), [first, late, last]) == []


def test_what_is_older_than_all_that_is_remembered_is_not_taken_again() -> None:
    many = [manifest(at_ms=1000 * (number + 1)) for number in range(REMEMBERED + 5)]
    progress, _ = taken(ArrivalProgress(), many)
    assert taken(restarted(progress), many)[1] == []

    progress, _ = taken(progress, [*many[-2:], last := manifest(at_ms=10**6)])

    assert len(progress.stores[last.store_id].taken) == REMEMBERED
    assert taken(restarted(progress), many)[1] == []


def test_all_that_are_there_are_remembered_so_one_between_them_is_taken_however_late() -> None:
    """tables.snapshot-taken-once"""
    many = [manifest(at_ms=1000 * (number + 1)) for number in range(10 * REMEMBERED)]
    late = many.pop(3)
    progress, _ = taken(ArrivalProgress(), many)

    assert taken(restarted(progress), [late, *many])[1] == [(late, {})]


def test_a_clock_that_is_set_back_in_a_new_life_makes_no_snapshot_late() -> None:
    progress, _ = taken(ArrivalProgress(), [manifest(at_ms=9000, numbers={"q": (0, 10)})])

    after = manifest(at_ms=1000, epoch=2, numbers={"q": (0, 12)})

    assert taken(progress, [after])[1] == [(after, {"q": ((10, 12),)})]


def test_a_clock_that_is_set_back_in_the_same_life_hides_nothing() -> None:
    before = [manifest(at_ms=90_000 + number, numbers={"q": (0, 10 + number)}, events=(0, number)) for number in range(REMEMBERED)]
    progress, _ = taken(ArrivalProgress(), before)

    first, second = (manifest(at_ms=at_ms, numbers={"q": (5, stop)}, events=(0, stop)) for at_ms, stop in ((1000, 40), (2000, 50)))

    progress, news = taken(restarted(progress), [*before, first])
    assert news == [(first, {"q": ((9 + REMEMBERED, 40),), EVENTS: ((REMEMBERED - 1, 40),)})]
    progress, news = taken(restarted(progress), [*before, first, second])
    assert news == [(second, {"q": ((40, 50),), EVENTS: ((40, 50),)})]
    assert taken(progress, [*before, first, second])[1] == []


def test_numbers_that_begin_again_are_all_new() -> None:
    """tables.snapshot-taken-once: an older copy of the data folder took its place."""
    progress, _ = taken(ArrivalProgress(), [manifest(at_ms=1000, numbers={"q": (90, 100), "r": (0, 5)})])

    other = manifest(at_ms=2000, epoch=2, numbers={"q": (80, 97), "r": (0, 6)})

    assert taken(restarted(progress), [other])[1] == [(other, {"q": ((80, 97),), "r": ((0, 6),)})]
    assert gaps(progress, [other]) == []


def test_another_store_of_the_same_node_is_another_store() -> None:
    """The new one has come further than the old one when its first snapshot is made; their clocks and lives say nothing."""
    first = manifest(at_ms=1000, epoch=7, numbers={"q": (0, 5)}, events=(0, 3), store="a" * 32)
    second = manifest(at_ms=2000, numbers={"q": (0, 9)}, events=(0, 4), store="b" * 32)
    progress, _ = taken(ArrivalProgress(), [first])

    progress, news = taken(restarted(progress), [first, second])

    assert news == [(second, {"q": ((0, 9),), EVENTS: ((0, 4),)})]
    again = manifest(at_ms=3000, epoch=7, numbers={"q": (0, 6)}, events=(0, 3), store="a" * 32)
    assert taken(restarted(progress), [second, again])[1] == [(again, {"q": ((5, 6),)})]


def test_two_snapshots_of_one_name_are_two_if_their_stores_are() -> None:
    """Two boxes of one name made theirs in the same millisecond."""
    there = [manifest(store=each * 32, numbers={"q": (0, 5)}) for each in "ab"]

    assert [news for _, news in taken(ArrivalProgress(), there)[1]] == [{"q": ((0, 5),)}] * 2


def test_a_queue_that_could_not_be_read_for_once_does_not_begin_again() -> None:
    progress, _ = taken(ArrivalProgress(), [manifest(at_ms=1000, numbers={"q": (0, 10)})])
    progress, news = taken(progress, [manifest(at_ms=2000, numbers={"q": (0, 0)}, damaged=("q",))])
    assert news[0][1] == {}

    after = manifest(at_ms=3000, numbers={"q": (0, 14)})

    assert taken(progress, [after])[1] == [(after, {"q": ((10, 14),)})]


# --- what is gone (tables.gap-is-named) ---


def test_what_was_trimmed_between_two_snapshots_is_a_gap_and_named_once() -> None:
    first, second, third = (
        manifest(at_ms=at_ms, numbers={"q": of}, events=of)
        for at_ms, of in ((1000, (0, 500)), (2000, (2500, 3500)), (3000, (3000, 4000)))
    )
    progress, _ = taken(ArrivalProgress(), [first])

    found = [gap for news in progress.news([second]) for gap in news.gaps]

    assert found == [Gap("edge", first.store_id, queue, 500, 2500, first.id, second.id, 2000) for queue in ("q", EVENTS)]
    assert str(found[0]) == f"sequences 500 to 2499 of q of node edge, gone between {first.id} and {second.id}"
    progress, _ = taken(restarted(progress), [second])
    assert gaps(restarted(progress), [third]) == []
    assert gaps_between([third, first, second]) == found


def test_what_a_store_had_no_longer_when_the_stream_began_is_no_gap() -> None:
    assert gaps(ArrivalProgress(), [manifest(numbers={"q": (50, 60)}, events=(9, 10))]) == []


def test_what_a_queue_lost_before_its_first_snapshot_is_a_gap_if_the_store_had_one_before() -> None:
    before = manifest(at_ms=1000, numbers={"q": (0, 5)})

    assert gaps(ArrivalProgress(), [before, manifest(at_ms=2000, numbers={"q": (0, 5), "new": (3, 9)})]) == [("new", 0, 3)]
    assert gaps(ArrivalProgress(), [before, manifest(at_ms=2000, numbers={"q": (3, 9)}, store="b" * 32)]) == [("q", 0, 3)]


def test_nothing_left_the_queue_so_a_history_that_begins_anew_hides_nothing() -> None:
    first = manifest(at_ms=1000, numbers={"q": (0, 5)})
    second = manifest(at_ms=2000, numbers={"q": (5, 5)})

    assert gaps(ArrivalProgress(), [first, second, manifest(at_ms=3000, numbers={"q": (5, 8)})]) == []
    assert gaps(ArrivalProgress(), [first, second, manifest(at_ms=3000, numbers={"q": (6, 8)})]) == [("q", 5, 6)]


def without_history(of: Manifest) -> Manifest:
    return replace(of, queues=tuple(replace(queue, history_from=-1, settlements=(9, 9)) for queue in of.queues))


def test_a_history_that_is_switched_off_is_a_gap_once_and_one_switched_on_is_none() -> None:
    on = manifest(at_ms=1000, numbers={"q": (0, 5)})
    off = [without_history(manifest(at_ms=at_ms, numbers={"q": (0, head)})) for at_ms, head in ((2000, 9), (3000, 20))]
    again = [manifest(at_ms=at_ms, numbers={"q": of}) for at_ms, of in ((4000, (30, 35)), (5000, (36, 40)))]

    assert gaps(ArrivalProgress(), [on, *off, *again]) == [("q", 5, 9), ("q", 35, 36)]
    assert gaps(ArrivalProgress(), [*off, *again]) == [("q", 35, 36)]


def test_a_stream_remembers_so_many_gaps_and_no_more() -> None:
    progress = ArrivalProgress()
    for number in range(3 * RANGES_MAX):
        progress, _ = taken(restarted(progress), [manifest(at_ms=1000 + number, numbers={"q": (10 * number, 10 * number + 5)})])

    (store,) = progress.stores.values()

    assert len(store.had["q"].numbers) == len(store.had["q"].spans) == RANGES_MAX
    assert store.had["q"].numbers[-1] == (10 * number, 10 * number + 5)


@given(st.data())
def test_each_number_is_taken_once_whatever_arrives_when(data: st.DataObject) -> None:
    """tables.snapshot-taken-once: snapshots of three stores, two of them of one node, arrive in any
    order, in batches of any size, with a restart after each; clocks are set back. All that any of them has is taken, once.
    """
    made: list[Manifest] = []
    for node, store in (("a", "a"), ("a", "b"), ("b", "c")):
        first = stop = 0
        for at_ms in data.draw(st.lists(st.integers(1, 60), min_size=1, max_size=6, unique=True)):
            stop += data.draw(st.integers(0, 4))
            first = min(stop, first + data.draw(st.integers(0, 3)))
            made.append(manifest(node, at_ms, numbers={"q": (first, stop)}, store=store * 32))
    waiting = data.draw(st.permutations(made))
    there: list[Manifest] = []
    progress, rows, snapshots = ArrivalProgress(), Counter[tuple[str, int]](), Counter[tuple[str, str]]()
    while waiting or progress.next(there, None) is not progress:
        arriving = data.draw(st.integers(1, len(waiting))) if waiting else 0
        there, waiting = there + waiting[:arriving], waiting[arriving:]
        progress, news = taken(restarted(progress), there, limit=data.draw(st.integers(1, 5)))
        for each, numbers in news:
            snapshots[key(each)] += 1
            for first, stop in numbers.get("q", ()):
                rows.update((each.store_id, number) for number in range(first, stop))

    assert set(snapshots.values()) == {1}
    assert len(snapshots) == len(made)
    assert rows == Counter({(each.store_id, number) for each in made for number in range(*each.queues[0].settlements)})


@given(st.data())
def test_what_is_neither_taken_nor_named_was_never_settled(data: st.DataObject) -> None:
    """tables.gap-is-named: of what left the queue after the first snapshot, each number is taken or in a gap."""
    first = stop = data.draw(st.integers(0, 5))
    made: list[Manifest] = []
    for at_ms in range(data.draw(st.integers(1, 8))):
        stop += data.draw(st.integers(0, 4))
        first = data.draw(st.integers(first, stop))
        made.append(manifest("a", at_ms, numbers={"q": (first, stop)}))

    news = ArrivalProgress().news(made)

    had = {number for each in news for start, end in each.numbers.get("q", ()) for number in range(start, end)}
    lost = {number for each in news for gap in each.gaps if gap.queue == "q" for number in range(gap.first, gap.stop)}
    assert not had & lost
    assert had | lost == set(range(made[0].queues[0].settlements[0], stop))
