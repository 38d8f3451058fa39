"""The tree of filters and the tree of topics against a naive matcher [MQTT-4.7.1-1, -2, MQTT-4.7.2-1]."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.wire.naive_topics import FILTERS, TOPICS, naive_match
from wire.routing.topic_filter_tree import FilterMap, TopicTree
from wire.routing.topic_name_tree import TopicIndex


@given(st.lists(st.tuples(FILTERS, st.integers(0, 5)), max_size=15), st.lists(TOPICS, min_size=1, max_size=10))
def test_the_tree_finds_what_a_naive_matcher_finds(entries: list[tuple[str, int]], topics: list[str]) -> None:
    tree: TopicTree[int] = TopicTree()
    for topic_filter, value in entries:
        tree.add(topic_filter, value)
    for topic in topics:
        assert tree.match(topic.encode()) == {value for topic_filter, value in entries if naive_match(topic_filter, topic)}


class TreeMachine(RuleBasedStateMachine):
    """Adding and removing in any order leaves what a plain set of pairs would hold, and an empty tree when nothing is left."""

    def __init__(self) -> None:
        super().__init__()
        self.tree: TopicTree[int] = TopicTree()
        self.pairs: set[tuple[str, int]] = set()

    @rule(topic_filter=FILTERS, value=st.integers(0, 2))
    def add(self, topic_filter: str, value: int) -> None:
        self.tree.add(topic_filter, value)
        self.pairs.add((topic_filter, value))

    @rule(data=st.data())
    def remove_one_that_is_there(self, data: st.DataObject) -> None:
        if self.pairs:
            topic_filter, value = data.draw(st.sampled_from(sorted(self.pairs)))
            self.remove(topic_filter, value)

    @rule(topic_filter=FILTERS, value=st.integers(0, 2))
    def remove(self, topic_filter: str, value: int) -> None:
        self.tree.remove(topic_filter, value)
        self.pairs.discard((topic_filter, value))

    @rule(topic=TOPICS)
    def match(self, topic: str) -> None:
        assert self.tree.match(topic.encode()) == {value for one, value in self.pairs if naive_match(one, topic)}

    @invariant()
    def nothing_is_left_of_what_was_removed(self) -> None:
        if not self.pairs:
            assert not self.tree._filters._root.children


TestTree = TreeMachine.TestCase


def test_matching_follows_the_matches_and_not_the_number_of_filters() -> None:
    """20,000 filters: as many levels are looked at for a topic as with ten."""
    looked: list[object] = []

    class Counting(dict[str, object]):
        def get(self, key: str, default: object = None) -> object:
            looked.append(key)
            return super().get(key, default)

    def visits(filters: int) -> int:
        tree: TopicTree[int] = TopicTree()
        for number in range(filters):
            tree.add(f"site/{number % 1000}/device/{number}/+", number)
        nodes = [tree._filters._root]
        while nodes:
            node = nodes.pop()
            nodes += node.children.values()
            node.children = Counting(node.children)  # type: ignore[assignment]
        looked.clear()
        assert tree.match(b"site/7/device/7/state") == {7}
        return len(looked)

    assert visits(20_000) == visits(10)


@given(st.lists(FILTERS, max_size=15, unique=True), st.lists(TOPICS, min_size=2, max_size=10))
def test_topics_of_the_same_filters_get_their_values_in_the_same_order(filters: list[str], topics: list[str]) -> None:
    filters_map: FilterMap[str] = FilterMap()
    for topic_filter in filters:
        assert filters_map.get(topic_filter) is None
        assert filters_map.get_or_make(topic_filter, str) == topic_filter
        assert filters_map.get(topic_filter) == topic_filter
    orders: dict[frozenset[str], list[str]] = {}
    for topic in topics:
        found = filters_map.match(topic.encode())
        assert sorted(found) == sorted(one for one in filters if naive_match(one, topic))
        assert orders.setdefault(frozenset(found), found) == found


def test_a_topic_that_is_not_utf_8_is_matched_by_wildcards_only() -> None:
    tree: TopicTree[str] = TopicTree()
    for topic_filter in ("a/+", "a/#", "+/b", "a/\ufffd"):
        tree.add(topic_filter, topic_filter)
    assert tree.match(b"a/\xff") == {"a/+", "a/#"}


class IndexMachine(RuleBasedStateMachine):
    """A filter finds what it finds in a plain set, each topic once, whatever was added and taken out."""

    def __init__(self) -> None:
        super().__init__()
        self.index = TopicIndex()
        self.topics: set[bytes] = set()

    @rule(topic=TOPICS)
    def add(self, topic: str) -> None:
        self.index.add(topic.encode())
        self.topics.add(topic.encode())

    @rule(topic=TOPICS)
    def discard(self, topic: str) -> None:
        self.index.discard(topic.encode())
        self.topics.discard(topic.encode())

    @rule(data=st.data())
    def discard_one_that_is_there(self, data: st.DataObject) -> None:
        if self.topics:
            self.discard(data.draw(st.sampled_from(sorted(self.topics))).decode())

    @rule()
    def clear(self) -> None:
        self.index.clear()
        self.topics.clear()

    @rule(topic_filter=FILTERS)
    def find(self, topic_filter: str) -> None:
        found = sorted(self.index.matching(topic_filter))
        assert found == sorted(topic for topic in self.topics if naive_match(topic_filter, topic.decode()))

    @rule(topic=TOPICS)
    def ask(self, topic: str) -> None:
        assert (topic.encode() in self.index) == (topic.encode() in self.topics)

    @invariant()
    def nothing_is_left_of_what_was_taken_out(self) -> None:
        assert len(self.index) == len(self.topics)
        if not self.topics:
            assert not self.index._root.children


TestIndex = IndexMachine.TestCase
TestIndex.settings = settings(max_examples=50)


@pytest.mark.parametrize(("topic_filter", "found"), [("site/7/state", 1), ("site/+/state", 200), ("site/7/#", 100), ("x/#", 0)])
def test_finding_topics_follows_the_filter_and_not_the_number_of_topics(topic_filter: str, found: int) -> None:
    """20,000 topics: as many levels are looked at as are on the way to what is found."""
    index = TopicIndex()
    for site in range(200):
        index.add(f"site/{site}/state".encode())
        for number in range(99):
            index.add(f"site/{site}/sensor/{number}".encode())
    looked = 0

    class Counting(dict[str, object]):
        def get(self, key: str, default: object = None) -> object:
            nonlocal looked
            looked += 1
            return super().get(key, default)

        def items(self):  # type: ignore[no-untyped-def]  # counts, and answers what it answers
            nonlocal looked
            looked += len(self)
            return super().items()

        def values(self):  # type: ignore[no-untyped-def]
            nonlocal looked
            looked += len(self)
            return super().values()

    nodes = [index._root]
    while nodes:
        node = nodes.pop()
        nodes += node.children.values()
        node.children = Counting(node.children)  # type: ignore[assignment]

    assert len(list(index.matching(topic_filter))) == found
    assert looked <= 2 * found + 3


def test_a_topic_of_many_levels_is_no_recursion() -> None:
    deep = b"/" * 32_000
    index = TopicIndex()
    index.add(deep)
    assert list(index.matching("#")) == list(index.matching("/#")) == [deep]
    index.discard(deep)
    assert list(index.matching("#")) == []
    tree: TopicTree[int] = TopicTree()
    tree.add(deep.decode(), 1)
    assert tree.match(deep) == {1}
    tree.remove(deep.decode(), 1)
    assert tree.match(deep) == set()
