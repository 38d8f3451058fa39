"""Subscriptions of local sessions: clause by clause, and against a plain model in any order of changes
(routing.one-copy-per-session, routing.one-member-per-share, routing.change-drops-what-it-matches).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

import wire.routing.subscriptions as module
from tests.wire.naive_topics import naive_match
from wire.access.access_rules import ClientAccess
from wire.frames.batch import pack_column
from wire.routing.shared_subscription import Dealt, SharedGroup
from wire.routing.subscriber import Delivery, SubscriptionOptions
from wire.routing.subscriptions import CACHED_TOPIC_BYTES_MAX, CACHED_TOPIC_LEVELS_MAX, Subscriptions
from wire.routing.topic_receivers import TopicReceivers

PLAIN = SubscriptionOptions()


def deal(group: SharedGroup, count: int, topic: str = "t") -> list[Dealt]:
    """``count`` rows of one topic."""
    ((hands, _),) = group.hands([topic.encode()], {0})
    return hands.deal(count)


def delivered(match: TopicReceivers, publisher: int = 0, others: Iterable[int] = ()) -> dict[str, Delivery]:
    """Session -> how it gets a row of connection ``publisher`` in a batch with rows of ``others`` as well; each session once."""
    found: dict[str, Delivery] = {}
    for way in match.group_rows({publisher, *others}):
        if publisher in way.without or (way.only and publisher not in way.only):
            continue
        for subscriber in way.group.subscribers:
            assert subscriber.session not in found, "two copies for one session"
            found[subscriber.session] = way.group.delivery
    return found


def with_sessions(*sessions: str) -> Subscriptions:
    """``sessions`` with connections 1, 2, 3, ... and no queues."""
    subscriptions = Subscriptions()
    for source, session in enumerate(sessions, 1):
        subscriptions.on_connected(session, source, "")
    return subscriptions


# --- clause by clause ---


def test_mqtt_3_8_4_3_the_same_filter_again_replaces_the_subscription() -> None:
    subscriptions = with_sessions("a")
    assert subscriptions.subscribe("a", "t/+", SubscriptionOptions(qos=2, identifier=7)) is False
    assert delivered(subscriptions.match(b"t/1")) == {"a": Delivery(2, False, (7,))}
    assert subscriptions.subscribe("a", "t/+", SubscriptionOptions(qos=1, retain_as_published=True)) is True
    assert delivered(subscriptions.match(b"t/1")) == {"a": Delivery(1, True, ())}
    assert subscriptions.subscribe("a", "t/+", SubscriptionOptions(qos=1, retain_as_published=True)) is True
    assert subscriptions.filters_of("a") == {"t/+": SubscriptionOptions(qos=1, retain_as_published=True)}
    assert subscriptions.count == 1


def test_mqtt_3_3_4_2_and_3_overlapping_subscriptions_are_one_copy_at_the_highest_qos_with_all_identifiers() -> None:
    subscriptions = with_sessions("a", "b")
    subscriptions.subscribe("a", "t/#", SubscriptionOptions(qos=0, identifier=268_435_455))
    subscriptions.subscribe("a", "t/+", SubscriptionOptions(qos=2, identifier=3))
    subscriptions.subscribe("a", "t/1", SubscriptionOptions(qos=1, retain_as_published=True))
    subscriptions.subscribe("b", "t/1", SubscriptionOptions(qos=1, identifier=3))
    assert delivered(subscriptions.match(b"t/1")) == {"a": Delivery(2, True, (3, 268_435_455)), "b": Delivery(1, False, (3,))}
    assert delivered(subscriptions.match(b"t/2")) == {"a": Delivery(2, False, (3, 268_435_455))}
    assert delivered(subscriptions.match(b"t")) == {"a": Delivery(0, False, (268_435_455,))}


def test_one_identifier_for_several_subscriptions_is_sent_once() -> None:
    subscriptions = with_sessions("a")
    for topic_filter in ("t/#", "t/+"):
        subscriptions.subscribe("a", topic_filter, SubscriptionOptions(identifier=5))
    assert delivered(subscriptions.match(b"t/1")) == {"a": Delivery(0, False, (5,))}


def test_subscribers_that_are_delivered_to_alike_are_one_group() -> None:
    subscriptions = with_sessions(*map(str, range(60)))
    for number in range(60):
        subscriptions.subscribe(str(number), "t/#" if number % 2 else "t/+", SubscriptionOptions(qos=number % 3))
    groups = [way.group for way in subscriptions.match(b"t/1").group_rows()]
    assert sorted(group.delivery.qos for group in groups) == [0, 1, 2]
    assert [len(group.subscribers) for group in groups] == [20, 20, 20]


def test_the_columns_of_a_group_say_who_is_live_and_who_has_a_queue() -> None:
    subscriptions = Subscriptions()
    for session, source, queue in (("live", 1, ""), ("queued", 2, "q2"), ("away", 0, "q3")):
        subscriptions.on_connected(session, source, queue)
        subscriptions.subscribe(session, "t", PLAIN)
    (way,) = subscriptions.match(b"t").group_rows()
    assert way.group.live == pack_column(array("I", [1, 2]))
    assert way.group.transient == pack_column(array("I", [1]))
    assert way.group.queues == ("q2", "q3")
    assert way.group.offline == ("q3",)


def test_mqtt_3_8_3_3_no_local_leaves_out_the_publisher_and_nobody_else() -> None:
    subscriptions = with_sessions("a", "b", "c")
    for session in ("a", "b"):
        subscriptions.subscribe(session, "t", SubscriptionOptions(no_local=True))
    subscriptions.subscribe("c", "t", PLAIN)
    match = subscriptions.match(b"t")
    assert match.no_local == {"a", 1, "b", 2}
    assert match.size == 3
    quiet = match.group_rows({3, 9})
    assert quiet is match.group_rows()
    assert not any(way.without or way.only for way in quiet)
    assert delivered(match, 1) == {"b": Delivery(0, False, ()), "c": Delivery(0, False, ())}
    for others in ((), (1,), (1, 2), (1, 2, 3)):
        assert set(delivered(match, 3, others)) == {"a", "b", "c"}
        assert set(delivered(match, 1, others)) == {"b", "c"}


def test_mqtt_3_8_3_3_an_overlapping_filter_without_no_local_brings_a_client_its_own_messages() -> None:
    subscriptions = with_sessions("a")
    subscriptions.subscribe("a", "t/#", SubscriptionOptions(qos=2, no_local=True, identifier=1))
    subscriptions.subscribe("a", "t/1", SubscriptionOptions(qos=1, identifier=2))
    match = subscriptions.match(b"t/1")
    assert delivered(match, 9, (1,)) == {"a": Delivery(2, False, (1, 2))}
    assert delivered(match, 1, (9,)) == {"a": Delivery(1, False, (2,))}
    assert delivered(subscriptions.match(b"t/2"), 1) == {}


def test_mqtt_3_8_3_3_a_client_is_known_by_its_messages_after_it_left_or_was_taken_over() -> None:
    subscriptions = Subscriptions()
    subscriptions.on_connected("a", 5, "q")
    subscriptions.subscribe("a", "t", SubscriptionOptions(no_local=True))
    subscriptions.on_connected("a", 8, "q")
    assert delivered(subscriptions.match(b"t"), 5) == delivered(subscriptions.match(b"t"), 8) == {}
    subscriptions.on_disconnected("a", 8)
    assert delivered(subscriptions.match(b"t"), 5) == delivered(subscriptions.match(b"t"), 8) == {}
    assert set(delivered(subscriptions.match(b"t"), 6)) == {"a"}


def test_mqtt_4_7_2_1_leading_wildcards_do_not_match_dollar_topics() -> None:
    subscriptions = with_sessions("a", "b")
    for topic_filter in ("#", "+/x", "+/#", "$share/g/#"):
        subscriptions.subscribe("a", topic_filter, PLAIN)
    subscriptions.subscribe("b", "$SYS/#", PLAIN)
    match = subscriptions.match(b"$SYS/x")
    assert (set(delivered(match)), match.shared) == ({"b"}, ())


def test_mqtt_3_10_4_unsubscribe_ends_a_subscription_and_says_whether_there_was_one() -> None:
    subscriptions = with_sessions("a", "b")
    for topic_filter in ("t/+", "t/1", "$share/g/t/1"):
        subscriptions.subscribe("a", topic_filter, PLAIN)
    assert subscriptions.unsubscribe("a", "t/+")
    assert not subscriptions.unsubscribe("a", "t/+")
    assert not subscriptions.unsubscribe("b", "t/1")
    assert not subscriptions.unsubscribe("nobody", "t/1")
    assert set(delivered(subscriptions.match(b"t/1"))) == {"a"}
    assert subscriptions.unsubscribe("a", "t/1")
    assert delivered(subscriptions.match(b"t/1")) == {}
    assert len(subscriptions.match(b"t/1").shared) == 1
    assert subscriptions.unsubscribe("a", "$share/g/t/1")
    assert subscriptions.match(b"t/1").shared == ()
    assert subscriptions.count == 0


def test_a_session_without_queue_ends_with_its_connection_and_one_with_a_queue_stays() -> None:
    subscriptions = Subscriptions()
    subscriptions.on_connected("short", 1, "")
    subscriptions.on_connected("long", 2, "q")
    for session in ("short", "long"):
        subscriptions.subscribe(session, "t", PLAIN)
        subscriptions.subscribe(session, "$share/g/t", PLAIN)
    for session, source in (("short", 1), ("long", 2)):
        subscriptions.on_disconnected(session, source)
    assert [one.session for one in subscriptions.sessions()] == ["long"]
    assert set(delivered(subscriptions.match(b"t"))) == {"long"}
    assert subscriptions.filters_of("short") == {}
    subscriptions.forget("long")
    subscriptions.forget("long")
    assert delivered(subscriptions.match(b"t")) == {}
    assert list(subscriptions.sessions()) == []
    with pytest.raises(KeyError):
        subscriptions.subscribe("long", "t", PLAIN)


def test_the_end_of_a_connection_that_was_taken_over_changes_nothing() -> None:
    subscriptions = with_sessions("a")
    subscriptions.subscribe("a", "t", PLAIN)
    subscriptions.on_connected("a", 7, "")
    subscriptions.on_disconnected("a", 1)
    (way,) = subscriptions.match(b"t").group_rows()
    assert way.group.live == pack_column(array("I", [7]))


# --- shared subscriptions ---


def test_mqtt_4_8_2_a_group_is_known_by_name_and_filter_and_each_group_gets_a_copy_beside_the_ordinary_ones() -> None:
    subscriptions = with_sessions("a", "b")
    for session in ("a", "b"):
        for topic_filter in ("$share/g/t/+", "$share/g/t/#", "$share/h/t/+"):
            subscriptions.subscribe(session, topic_filter, PLAIN)
    subscriptions.subscribe("a", "t/1", SubscriptionOptions(qos=1))
    match = subscriptions.match(b"t/1")
    assert sorted((group.share_name, group.topic_filter) for group in match.shared) == [("g", "t/#"), ("g", "t/+"), ("h", "t/+")]
    for group in match.shared:
        assert len(deal(group, 1)) == 1
    assert delivered(match) == {"a": Delivery(1, False, ())}


def test_mqtt_4_8_2_3_the_granted_qos_of_the_chosen_member_counts_and_its_own_identifier() -> None:
    subscriptions = with_sessions("a", "b")
    subscriptions.subscribe("a", "$share/g/t", SubscriptionOptions(qos=1, identifier=4))
    subscriptions.subscribe("b", "$share/g/t", SubscriptionOptions(qos=2, retain_as_published=True))
    (group,) = subscriptions.match(b"t").shared
    dealt = {one.subscriber.session: one.delivery for one in deal(group, 2)}
    assert dealt == {"a": Delivery(1, False, (4,)), "b": Delivery(2, True, ())}
    subscriptions.subscribe("a", "$share/g/t", SubscriptionOptions(qos=0))
    assert {one.subscriber.session: one.delivery.qos for one in deal(group, 2)} == {"a": 0, "b": 2}


# --- routing.change-drops-what-it-matches: what a change costs ---


def kept(subscriptions: Subscriptions, topics: list[bytes]) -> list[bytes]:
    """The topics whose match is still cached."""
    return [topic for topic in topics if (found := subscriptions._by_topic.get(topic)) is not None and found.match is not None]


TOPICS_OF_SITES = [f"site/{site}/{number}".encode() for site in range(3) for number in range(3)]


@pytest.mark.parametrize(
    ("topic_filter", "dropped"),
    [
        ("site/1/1", 1),
        ("site/1/+", 3),
        ("site/1/#", 3),
        ("site/+/2", 3),
        ("other/#", 0),
        ("other", 0),
        ("#", 9),
        ("$share/g/site/1/#", 3),
    ],
)
def test_a_filter_that_comes_or_goes_drops_just_the_topics_it_matches(topic_filter: str, dropped: int) -> None:
    """routing.change-drops-what-it-matches"""
    subscriptions = with_sessions("a", "b")
    subscriptions.subscribe("a", "site/#", PLAIN)
    for comes in (True, False):
        for topic in TOPICS_OF_SITES:
            subscriptions.match(topic)
        assert kept(subscriptions, TOPICS_OF_SITES) == TOPICS_OF_SITES
        if comes:
            subscriptions.subscribe("b", topic_filter, PLAIN)
        else:
            subscriptions.unsubscribe("b", topic_filter)
        assert len(TOPICS_OF_SITES) - len(kept(subscriptions, TOPICS_OF_SITES)) == dropped


def test_a_subscriber_of_a_known_filter_keeps_the_filters_of_each_topic() -> None:
    """routing.change-drops-what-it-matches"""
    subscriptions = with_sessions("a", "b", "c")
    subscriptions.subscribe("a", "site/#", PLAIN)
    subscriptions.subscribe("c", "site/1/#", PLAIN)
    for topic in TOPICS_OF_SITES:
        subscriptions.match(topic)
    subscriptions.subscribe("b", "site/1/#", PLAIN)
    assert len(subscriptions._by_topic) == 9
    assert len(kept(subscriptions, TOPICS_OF_SITES)) == 6


def test_topics_that_the_same_filters_match_share_one_match() -> None:
    subscriptions = with_sessions("a", "b")
    subscriptions.subscribe("a", "site/#", PLAIN)
    subscriptions.subscribe("b", "site/1/+", PLAIN)
    matches = {topic: subscriptions.match(topic) for topic in TOPICS_OF_SITES}
    assert len(set(matches.values())) == 2
    assert matches[b"site/1/0"] is matches[b"site/1/2"]
    subscriptions.unsubscribe("b", "site/1/+")
    assert len({subscriptions.match(topic) for topic in TOPICS_OF_SITES}) == 1


def test_many_subscribers_of_one_filter_are_grouped_once_for_all_topics() -> None:
    subscriptions = with_sessions(*map(str, range(100)), "one")
    for number in range(100):
        subscriptions.subscribe(str(number), "#", PLAIN)
    for site in range(3):
        subscriptions.subscribe("one", f"site/{site}/#", SubscriptionOptions(qos=1))
    ways = [subscriptions.match(f"site/{site}/x".encode()).group_rows() for site in range(3)]
    assert len({id(way[0].group) for way in ways}) == 1
    assert all([len(way.group.subscribers) for way in each] == [100, 1] for each in ways)
    subscriptions.subscribe("7", "site/0/#", SubscriptionOptions(qos=2))
    found = delivered(subscriptions.match(b"site/0/x"))
    assert (len(found), found["7"].qos, found["one"].qos, found["8"].qos) == (101, 2, 1, 0)


def test_a_group_under_the_filter_of_many_subscribers_gets_its_copy() -> None:
    subscriptions = with_sessions(*map(str, range(40)))
    for number in range(40):
        subscriptions.subscribe(str(number), "t", PLAIN)
    subscriptions.subscribe("7", "$share/g/t", PLAIN)
    match = subscriptions.match(b"t")
    assert (len(delivered(match)), [group.share_name for group in match.shared]) == (40, ["g"])


def test_a_full_cache_is_emptied_and_keeps_no_trace_of_what_was_in_it() -> None:
    subscriptions = Subscriptions(cache_topics_max=2)
    subscriptions.on_connected("a", 1, "")
    for topic_filter in ("#", "t/1", "t/2", "t/3", "t/4"):
        subscriptions.subscribe("a", topic_filter, PLAIN)
    for number in (1, 2, 3, 4, 1, 2, 3):
        subscriptions.match(b"t/%d" % number)
    entry = subscriptions._entries.get("#")
    assert entry is not None
    assert len(entry.used_in or ()) == 1
    assert len(subscriptions._by_topic) == len(subscriptions._matched) == 1
    assert delivered(subscriptions.match(b"t/1")) == {"a": Delivery(0, False, ())}


def test_long_and_deep_topics_are_matched_and_not_cached() -> None:
    subscriptions = with_sessions("a")
    subscriptions.subscribe("a", "#", PLAIN)
    for topic, cached in (
        (b"x" * CACHED_TOPIC_BYTES_MAX, 1),
        (b"x" * (CACHED_TOPIC_BYTES_MAX + 1), 1),
        (b"/" * (CACHED_TOPIC_LEVELS_MAX - 1), 2),
        (b"/" * CACHED_TOPIC_LEVELS_MAX, 2),
    ):
        assert set(delivered(subscriptions.match(topic))) == {"a"}
        assert len(subscriptions._by_topic) == cached


# --- any order of changes, against a plain model ---

SESSIONS = st.sampled_from(("a", "b", "c"))
FILTERS = st.sampled_from(("#", "+", "a/#", "a/+", "a/b", "a", "+/b", "$s/#", "$s/b"))
TOPICS = ("a", "a/b", "a/c", "c/b", "$s/b")
OPTIONS = st.builds(SubscriptionOptions, st.integers(0, 2), st.booleans(), st.booleans(), st.sampled_from((0, 0, 1, 2)))
SHARES = st.sampled_from(("", "", "$share/g/", "$share/h/"))


class Model(RuleBasedStateMachine):
    """Sessions come, go, are taken over, subscribe and unsubscribe; after each step every topic is matched.

    So whatever is cached was true one step before, and must not be believed if it is not true any more.
    """

    cache_topics_max = 100
    cache_subscribers_max = 1000

    def __init__(self) -> None:
        super().__init__()
        self.readable: dict[str, str | None] = {}  # session -> the filter of what it may read; None: everything
        self.subscriptions = Subscriptions(
            rights_of=lambda one: (
                None if (filter_ := self.readable.get(one.session)) is None else ClientAccess((), [(True, filter_)])
            ),
            cache_topics_max=self.cache_topics_max,
            cache_subscribers_max=self.cache_subscribers_max,
        )
        self.sources: dict[str, int] = {}
        self.queues: dict[str, str] = {}
        self.known_as: dict[str, list[int]] = {}
        self.filters: dict[str, dict[str, SubscriptionOptions]] = {}
        self.connections = 0

    @rule(session=SESSIONS, has_queue=st.booleans(), live=st.booleans())
    def connect(self, session: str, has_queue: bool, live: bool) -> None:
        live = live or not has_queue
        self.connections += live
        source = self.connections if live else 0
        queue = f"session:{session}" if has_queue else ""
        self.subscriptions.on_connected(session, source, queue)
        self.sources[session], self.queues[session] = source, queue
        self.filters.setdefault(session, {})
        self.known_as.setdefault(session, []).extend([source] if live else [])

    @rule(session=SESSIONS, taken_over=st.booleans())
    def disconnect(self, session: str, taken_over: bool) -> None:
        source = self.sources.get(session, 0)
        if taken_over:
            self.subscriptions.on_disconnected(session, source + 1_000_000)
            return
        self.subscriptions.on_disconnected(session, source)
        if source and not self.queues[session]:
            self.lose(session)
        elif source:
            self.sources[session] = 0

    @rule(session=SESSIONS, readable=st.none() | FILTERS)
    def change_rights(self, session: str, readable: str | None) -> None:
        self.readable[session] = readable
        self.subscriptions.on_rights_changed()

    @rule(session=SESSIONS)
    def forget(self, session: str) -> None:
        self.subscriptions.forget(session)
        self.lose(session)

    def lose(self, session: str) -> None:
        for table in (self.sources, self.queues, self.known_as, self.filters):
            table.pop(session, None)

    @rule(session=SESSIONS, share=SHARES, topic_filter=FILTERS, options=OPTIONS)
    def subscribe(self, session: str, share: str, topic_filter: str, options: SubscriptionOptions) -> None:
        if session in self.filters:
            options = options._replace(no_local=False) if share else options
            existed = self.subscriptions.subscribe(session, share + topic_filter, options)
            assert existed == (share + topic_filter in self.filters[session])
            self.filters[session][share + topic_filter] = options

    @rule(data=st.data(), session=SESSIONS)
    def unsubscribe(self, data: st.DataObject, session: str) -> None:
        topic_filter = data.draw(st.sampled_from(sorted(self.filters.get(session, {})) or ["a"]))
        had = self.subscriptions.unsubscribe(session, topic_filter)
        assert had == (self.filters.get(session, {}).pop(topic_filter, None) is not None)

    @invariant()
    def every_topic_goes_where_it_should(self) -> None:
        live = max(self.sources.values(), default=0)
        for topic in TOPICS:
            match = self.subscriptions.match(topic.encode())
            for publisher in (live, live - 1):
                expected = self.expected(topic, publisher)
                assert delivered(match, publisher) == delivered(match, publisher, (live, live - 1, live - 2)) == expected
            for way in match.group_rows({live}):
                sessions = [one.session for one in way.group.subscribers]
                assert way.group.live == pack_column(array("I", [self.sources[one] for one in sessions if self.sources[one]]))
                assert way.group.queues == tuple(self.queues[one] for one in sessions if self.queues[one])
            self.groups_are_dealt_to(topic, match)

    def expected(self, topic: str, publisher: int) -> dict[str, Delivery]:
        expected = {}
        for session, filters in self.filters.items():
            own = publisher in self.known_as[session][-2:]
            asked = [
                options
                for one, options in filters.items()
                if not one.startswith("$share/") and naive_match(one, topic) and not (own and options.no_local)
            ]
            if asked:
                identifiers = tuple(sorted({one.identifier for one in asked} - {0}))
                retain_as_published = any(one.retain_as_published for one in asked)
                expected[session] = Delivery(max(one.qos for one in asked), retain_as_published, identifiers)
        return expected

    def groups_are_dealt_to(self, topic: str, match: TopicReceivers) -> None:
        members: dict[str, dict[str, SubscriptionOptions]] = {}
        for session, filters in self.filters.items():
            for one, options in filters.items():
                if one.startswith("$share/") and naive_match(one.split("/", 2)[2], topic):
                    members.setdefault(one, {})[session] = options
        assert {f"$share/{group.share_name}/{group.topic_filter}" for group in match.shared} == set(members)
        for group in match.shared:
            of_group = members[f"$share/{group.share_name}/{group.topic_filter}"]
            can = {one for one in of_group if self.sources[one] or self.queues[one]}
            can = {one for one in can if (rule_ := self.readable.get(one)) is None or naive_match(rule_, topic)} or can
            may = {one for one in can if self.sources[one]} or can
            dealt = deal(group, 4, topic)
            assert sorted(row for one in dealt for row in one.offsets) == (list(range(4)) if may else [])
            assert {one.subscriber.session for one in dealt} == may
            assert all(len(one.offsets) - 4 // len(may) in (0, 1) for one in dealt)
            assert all(one.delivery.qos == of_group[one.subscriber.session].qos for one in dealt)

    @invariant()
    def the_books_agree(self) -> None:
        assert self.subscriptions.count == sum(map(len, self.filters.values()))
        assert {one.session for one in self.subscriptions.sessions()} == set(self.filters)
        for session, filters in self.filters.items():
            assert self.subscriptions.filters_of(session) == filters

    @invariant()
    def the_caches_are_bounded_and_nothing_is_left_behind(self) -> None:
        inside = self.subscriptions
        assert len(inside._by_topic) == len(inside._cached_topics) <= self.cache_topics_max
        assert len(inside._matched) <= self.cache_topics_max
        cost = sum(one.cost for one in inside._matched.values() if one.match is not None)
        assert cost == inside._cached_subscribers <= self.cache_subscribers_max
        if not inside.count:
            assert not inside._entries._root.children


class SmallCaches(Model):
    """The same, with room for less than there is."""

    cache_topics_max = 3
    cache_subscribers_max = 3


@pytest.mark.parametrize("machine", [Model, SmallCaches])
@pytest.mark.parametrize("many", [1, 2, 32])
def test_any_order_of_changes_is_what_a_plain_model_says(many: int, machine: type[Model], monkeypatch: pytest.MonkeyPatch) -> None:
    """``many``: from how many subscribers on a filter's own groups are shared between topics."""
    monkeypatch.setattr(module, "_MANY", many)
    monkeypatch.setattr(module, "_FEW", 1)
    run_state_machine_as_test(machine, settings=settings(max_examples=30, stateful_step_count=40, deadline=None))
