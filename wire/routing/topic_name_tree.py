"""The tree of topic names: which of many topics a filter matches. Pure.

It owns matching; what is known of a topic is the business of its users: ``wire/routing/retained_topics.py`` (topics with a retained
message) and ``wire/routing/subscriptions.py`` (topics whose subscribers are cached). Which of many filters match a topic:
``wire/routing/topic_filter_tree.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from sys import intern

from wire.routing.topic_filter_tree import levels_of


class _Node:
    """One level: the topic that ends here, if one does, and the levels below."""

    __slots__ = ("children", "topic")

    def __init__(self) -> None:
        self.children: dict[str, _Node] = _NO_CHILDREN
        self.topic: bytes | None = None


_NO_CHILDREN: dict[str, _Node] = {}  # shared by all leaves, never written


class TopicIndex:
    """A set of topic names. Matching follows the levels of the filter and what it matches, not the number of topics."""

    __slots__ = ("_count", "_root")

    def __init__(self) -> None:
        self._root = _Node()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __contains__(self, topic: bytes) -> bool:
        node: _Node | None = self._root
        for level in levels_of(topic):
            node = node.children.get(level) if node is not None else None
        return node is not None and node.topic is not None

    def add(self, topic: bytes) -> None:
        """Put ``topic`` in; once, however often it is added."""
        node = self._root
        for level in levels_of(topic):
            child = node.children.get(level)
            if child is None:
                if node.children is _NO_CHILDREN:
                    node.children = {}
                child = node.children[intern(level)] = _Node()
            node = child
        if node.topic is None:
            node.topic = topic
            self._count += 1

    def discard(self, topic: bytes) -> None:
        """Take ``topic`` out, and levels that lead nowhere with it; an unknown one is ignored."""
        path = [self._root]
        levels = levels_of(topic)
        for level in levels:
            child = path[-1].children.get(level)
            if child is None:
                return
            path.append(child)
        if path[-1].topic is None:
            return
        path[-1].topic = None
        self._count -= 1
        while levels and path[-1].topic is None and not path[-1].children:
            path.pop()
            children = path[-1].children
            del children[levels.pop()]
            if not children:
                path[-1].children = _NO_CHILDREN

    def clear(self) -> None:
        """Take everything out."""
        self._root = _Node()
        self._count = 0

    def matching(self, topic_filter: str) -> Iterator[bytes]:
        """The topics that plain ``topic_filter`` matches [MQTT-4.7.1-1, -2, MQTT-4.7.2-1], each once.

        The index must not change before the last one was taken.
        """
        nodes = [self._root]
        for depth, level in enumerate(topic_filter.split("/")):
            if level == "#":
                yield from _below(nodes, dollar=depth > 0)
                return
            if level == "+":
                nodes = [
                    child
                    for node in nodes
                    for name, child in node.children.items()
                    if depth or not name.startswith("$")  # MQTT-4.7.2-1
                ]
            else:
                nodes = [child for node in nodes if (child := node.children.get(level)) is not None]
        for node in nodes:
            if node.topic is not None:
                yield node.topic


def _below(nodes: list[_Node], *, dollar: bool) -> Iterator[bytes]:
    """The topics that end at ``nodes`` or below; without ``dollar`` none whose next level begins with ``$`` [MQTT-4.7.2-1]."""
    if dollar:
        waiting = list(nodes)
    else:
        waiting = [child for node in nodes for name, child in node.children.items() if not name.startswith("$")]
    while waiting:  # a topic may have more levels than Python has frames
        node = waiting.pop()
        if node.topic is not None:
            yield node.topic
        waiting += node.children.values()
