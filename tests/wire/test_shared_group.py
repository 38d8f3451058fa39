"""A shared subscription deals fairly, whatever batches the rows come in (G1), and to live members first (G2)."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from wire.shared_group import SharedGroup
from wire.subscriber import Delivery, Subscriber

AT_QOS_1 = Delivery(1, False, ())


def member(session: str, source: int = 1, queue: str = "") -> Subscriber:
    subscriber = Subscriber(session)
    subscriber.source, subscriber.queue = source, queue
    return subscriber


def group_of(*members: Subscriber) -> SharedGroup:
    group = SharedGroup("g", "t")
    for one in members:
        group.put(one, AT_QOS_1)
    return group


def receivers(group: SharedGroup, count: int) -> list[str]:
    """Who gets row 0, row 1, ..."""
    by_row = {row: one.subscriber.session for one in group.deal(count) for row in one.offsets}
    return [by_row[row] for row in range(count)] if by_row else []


@given(st.integers(1, 7), st.lists(st.integers(0, 40), max_size=12))
def test_g1_dealing_in_batches_is_dealing_one_by_one(members: int, counts: list[int]) -> None:
    group = group_of(*[member(str(number)) for number in range(members)])
    dealt = [session for count in counts for session in receivers(group, count)]
    assert dealt == [str(row % members) for row in range(sum(counts))]


def test_g1_a_batch_of_one_topic_is_spread_over_all_members_in_order() -> None:
    group = group_of(member("a"), member("b"), member("c"))
    dealt = group.deal(8192)
    assert [len(one.offsets) for one in dealt] == [2731, 2731, 2730]
    assert all(list(one.offsets) == sorted(one.offsets) for one in dealt)


@given(st.lists(st.sampled_from(["deal", "join", "leave"]), max_size=40))
def test_g1_who_stays_is_served_evenly_while_others_come_and_go(steps: list[str]) -> None:
    """Between two changes the members differ by at most one row, and a change starts no one over for ever."""
    stay = [member("x"), member("y")]
    group = group_of(*stay)
    guests: list[Subscriber] = []
    since: Counter[str] = Counter()
    for number, step in enumerate(steps):
        if step == "deal":
            since.update(receivers(group, 3))
            assert set(since) <= {one.session for one in stay + guests}
            everyone = [since[one.session] for one in stay + guests]
            assert max(everyone) - min(everyone) <= 1
        else:
            since.clear()
            if step == "join":
                guests.append(member(f"guest-{number}"))
                group.put(guests[-1], AT_QOS_1)
            elif guests:
                group.discard(guests.pop(0))


def test_g2_live_members_come_first_then_those_with_a_queue_then_nobody() -> None:
    away, live, gone = member("away", 0, "q"), member("live"), member("gone", 0)
    group = group_of(away, live, gone)
    assert receivers(group, 3) == ["live", "live", "live"]
    live.source = 0
    group.stale()
    assert receivers(group, 2) == ["away", "away"]
    away.queue = ""
    group.stale()
    assert group.deal(2) == []
    assert len(group) == 3


def test_nothing_is_dealt_of_nothing() -> None:
    assert group_of(member("a")).deal(0) == []
    assert group_of().deal(5) == []
