"""The tree of topic filters: which of many filters match a topic. Pure.

It owns matching; what stands under a filter is the business of ``wire/routing/bridge_rules.py`` and
``wire/routing/subscriptions.py``. The other way round, which of many topics a filter matches, is
``wire/routing/topic_name_tree.py``. One filter and one topic: ``wire/mqtt/topics.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from sys import intern
from typing import Any, Generic, TypeVar

Value = TypeVar("Value")


def levels_of(topic: bytes) -> list[str]:
    """The levels of a topic name. It was checked when it came in; one that is not UTF-8 is matched by wildcards only."""
    return topic.decode("utf-8", "surrogateescape").split("/")


class _Node(Generic[Value]):
    """One level of the tree: what ends here (None: nothing), and the levels below."""

    __slots__ = ("children", "value")

    def __init__(self) -> None:
        self.children: dict[str, _Node[Value]] = _NO_CHILDREN  # most nodes are leaves and need no dict of their own
        self.value: Value | None = None


_NO_CHILDREN: dict[str, _Node[Any]] = {}  # shared by all leaves, never written


class FilterMap(Generic[Value]):
    """One value under each topic filter. Finding follows the levels of the topic and the matches, not the number of filters.

    Filters are plain and well formed; a shared subscription's filter is taken out of it before (``topics.parse_shared``).
    """

    __slots__ = ("_root",)

    def __init__(self) -> None:
        self._root: _Node[Value] = _Node()

    def get(self, topic_filter: str) -> Value | None:
        """The entry under just ``topic_filter``."""
        node: _Node[Value] | None = self._root
        for level in topic_filter.split("/"):
            node = node.children.get(level) if node is not None else None
        return node.value if node is not None else None

    def get_or_make(self, topic_filter: str, make: Callable[[str], Value]) -> Value:
        """The entry under ``topic_filter``; if there is none, the one that ``make`` makes of the filter, from now on."""
        node = self._root
        for level in topic_filter.split("/"):
            child = node.children.get(level)
            if child is None:
                if node.children is _NO_CHILDREN:
                    node.children = {}
                child = node.children[intern(level)] = _Node()
            node = child
        if node.value is None:
            node.value = make(topic_filter)
        return node.value

    def remove(self, topic_filter: str) -> None:
        """Take away what stands under ``topic_filter``, and levels that lead nowhere with it; an unknown one is ignored."""
        path = [self._root]
        levels = topic_filter.split("/")
        for level in levels:
            child = path[-1].children.get(level)
            if child is None:
                return
            path.append(child)
        path[-1].value = None
        while levels and path[-1].value is None and not path[-1].children:
            path.pop()
            children = path[-1].children
            del children[levels.pop()]
            if not children:
                path[-1].children = _NO_CHILDREN

    def match(self, topic: bytes) -> list[Value]:
        """The values of every filter that matches topic name ``topic`` [MQTT-4.7.1-1, -2, MQTT-4.7.2-1].

        Two topics that the same filters match get the values in the same order.
        """
        found: list[Value] = []
        nodes = [self._root]
        wild = not topic.startswith(b"$")  # MQTT-4.7.2-1
        for level in levels_of(topic):
            below: list[_Node[Value]] = []
            for node in nodes:
                children = node.children
                child = children.get(level)
                if child is not None:
                    below.append(child)
                if wild:
                    child = children.get("+")
                    if child is not None:
                        below.append(child)
                    child = children.get("#")
                    if child is not None and child.value is not None:
                        found.append(child.value)
            nodes = below
            wild = True
            if not nodes:
                return found
        for node in nodes:
            if node.value is not None:
                found.append(node.value)
            child = node.children.get("#")  # "sport/#" matches "sport" as well
            if child is not None and child.value is not None:
                found.append(child.value)
        return found


class TopicTree(Generic[Value]):
    """Any number of values under each topic filter."""

    __slots__ = ("_filters",)

    def __init__(self) -> None:
        self._filters: FilterMap[set[Value]] = FilterMap()

    def add(self, topic_filter: str, value: Value) -> None:
        """Put ``value`` under ``topic_filter``; once, however often it is added."""
        self._filters.get_or_make(topic_filter, lambda _: set()).add(value)

    def remove(self, topic_filter: str, value: Value) -> None:
        """Take ``value`` from under ``topic_filter``; unknown ones are ignored."""
        values = self._filters.get(topic_filter)
        if values is not None:
            values.discard(value)
            if not values:
                self._filters.remove(topic_filter)

    def match(self, topic: bytes) -> set[Value]:
        """The values of every filter that matches topic name ``topic``."""
        return set().union(*self._filters.match(topic))
