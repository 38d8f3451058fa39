"""A shared subscription deals fairly, whatever batches the rows come in, to live members first, of those that may read the topic
(routing.one-member-per-share).
"""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from wire.access.access_rules import ClientAccess
from wire.routing.shared_subscription import CACHED_TOPICS_MAX, Dealt, SharedGroup
from wire.routing.subscriber import Delivery, Subscriber

AT_QOS_1 = Delivery(1, False, ())


def member(session: str, source: int = 1, queue: str = "") -> Subscriber:
    subscriber = Subscriber(session)
    subscriber.source, subscriber.queue = source, queue
    return subscriber


def group_of(*members: Subscriber, rights: dict[str, ClientAccess] | None = None) -> SharedGroup:
    """rights: of those who may not read everything."""
    group = SharedGroup("g", "t", lambda one: (rights or {}).get(one.session))
    for one in members:
        group.put(one, AT_QOS_1)
    return group


def deal(group: SharedGroup, count: int, topic: bytes = b"t") -> list[Dealt]:
    """``count`` rows of one topic."""
    ((hands, topics),) = group.hands([b"another", topic], {1})
    assert topics == {1}
    return hands.deal(count)


def receivers(group: SharedGroup, count: int, topic: bytes = b"t") -> list[str]:
    """The receivers of row 0, row 1, ..."""
    by_row = {row: one.subscriber.session for one in deal(group, count, topic) for row in one.offsets}
    return [by_row[row] for row in range(count)] if by_row else []


def reads(*topics: str) -> ClientAccess:
    return ClientAccess((), [(True, topic) for topic in topics])


@given(st.integers(1, 7), st.lists(st.integers(0, 40), max_size=12))
def test_dealing_in_batches_is_dealing_one_by_one(members: int, counts: list[int]) -> None:
    """routing.one-member-per-share"""
    group = group_of(*[member(str(number)) for number in range(members)])
    dealt = [session for count in counts for session in receivers(group, count)]
    assert dealt == [str(row % members) for row in range(sum(counts))]


def test_a_batch_of_one_topic_is_spread_over_all_members_in_order() -> None:
    """routing.one-member-per-share"""
    group = group_of(member("a"), member("b"), member("c"))
    dealt = deal(group, 8192)
    assert [len(one.offsets) for one in dealt] == [2731, 2731, 2730]
    assert all(list(one.offsets) == sorted(one.offsets) for one in dealt)


@given(st.lists(st.sampled_from(["deal", "join", "leave"]), max_size=40))
def test_who_stays_is_served_evenly_while_others_come_and_go(steps: list[str]) -> None:
    """routing.one-member-per-share: between two changes the members differ by at most one row, and a change starts no one over for
    ever.
    """
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


def test_live_members_come_first_then_those_with_a_queue_then_nobody() -> None:
    """routing.one-member-per-share"""
    away, live, gone = member("away", 0, "q"), member("live"), member("gone", 0)
    group = group_of(away, live, gone)
    assert receivers(group, 3) == ["live", "live", "live"]
    live.source = 0
    group.stale()
    assert receivers(group, 2) == ["away", "away"]
    away.queue = ""
    group.stale()
    assert deal(group, 2) == []
    assert len(group) == 3


def test_nothing_is_dealt_of_nothing() -> None:
    assert deal(group_of(member("a")), 0) == []
    assert deal(group_of(), 5) == []


def test_rows_go_to_those_that_may_read_their_topic_in_turn() -> None:
    """routing.one-member-per-share"""
    rights = {"b": reads("open/#"), "c": reads("open/#", "half")}
    group = group_of(member("a"), member("b"), member("c"), rights=rights)
    assert Counter(receivers(group, 300, b"open/x")) == {"a": 100, "b": 100, "c": 100}
    assert Counter(receivers(group, 300, b"half")) == {"a": 150, "c": 150}
    assert set(receivers(group, 3, b"secret")) == {"a"}
    found = group.hands([b"half", b"open/x", b"secret", b"open/y"], {0, 1, 2, 3})
    assert sorted(sorted(topics) for _, topics in found) == [[0], [1, 3], [2]]
    for number in range(2 * CACHED_TOPICS_MAX):
        assert receivers(group, 1, b"secret/%d" % number) == ["a"]


@given(st.lists(st.tuples(st.sampled_from([b"all", b"half", b"other half"]), st.integers(0, 5)), max_size=40))
def test_members_that_may_read_a_topic_have_as_many_rows_of_it_whatever_comes_between(batches: list[tuple[bytes, int]]) -> None:
    """routing.one-member-per-share"""
    rights = {"b": reads("all", "half"), "c": reads("all", "half"), "d": reads("all", "other half")}
    group = group_of(*[member(name) for name in "abcd"], rights=rights)
    counts: dict[bytes, Counter[str]] = {
        b"all": Counter(dict.fromkeys("abcd", 0)),
        b"half": Counter(dict.fromkeys("abc", 0)),
        b"other half": Counter(dict.fromkeys("ad", 0)),
    }
    for topic, count in batches:
        before = set(counts[topic])
        counts[topic].update(receivers(group, count, topic))
        assert set(counts[topic]) == before
        assert max(counts[topic].values()) - min(counts[topic].values()) <= 1


def test_nobody_is_served_alone_though_every_row_finds_the_group_changed() -> None:
    """routing.one-member-per-share"""
    rights = {"c": reads("other")}
    group = group_of(member("a"), member("b"), member("c"), rights=rights)
    seen: Counter[str] = Counter()
    for _ in range(100):
        seen.update(receivers(group, 1))
        group.stale()
    assert seen == {"a": 50, "b": 50}


def test_who_is_offline_gets_what_no_live_member_may_read_and_what_nobody_may_read_is_dealt_as_ever() -> None:
    """routing.one-member-per-share"""
    rights = {"live": reads("open"), "away": reads("open", "half")}
    group = group_of(member("live"), member("away", 0, "q"), member("gone", 0), rights=rights)
    assert receivers(group, 2, b"open") == ["live", "live"]
    assert receivers(group, 2, b"half") == ["away", "away"]
    assert receivers(group, 2, b"secret") == ["live", "live"], "the Listener leaves it out and counts it"


def test_rights_are_looked_at_again_after_a_change_and_not_at_all_where_all_are_alike() -> None:
    """routing.one-member-per-share"""
    rights = {"a": reads("x"), "b": reads("y")}
    group = group_of(member("a"), member("b"), rights=rights)
    assert receivers(group, 2, b"x") == ["a", "a"]
    rights["b"] = rights["a"]
    group.stale()
    assert set(receivers(group, 2, b"x")) == {"a", "b"}
    ((_, topics),) = group.hands([b"x", b"y"], {0, 1})
    assert topics == {0, 1}


def test_as_many_topics_and_readers_as_one_likes_take_no_more_memory_and_are_dealt_right() -> None:
    """routing.one-member-per-share"""
    count = 2 * CACHED_TOPICS_MAX
    rights = {f"m{number}": reads(f"t{number}") for number in range(count)}
    group = group_of(*[member(name) for name in rights], rights=rights)
    for number in range(count):
        assert receivers(group, 2, b"t%d" % number) == [f"m{number}"] * 2
    assert len(group._by_topic) <= CACHED_TOPICS_MAX
    assert len(group._by_members) <= CACHED_TOPICS_MAX + 1
