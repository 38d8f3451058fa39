"""Where a topic goes: the tree of topic filters, the rules of the bridges, and the live subscribers. Pure.

What a bridge changes on the way (topic, properties) is the business of ``wire/mapping.py`` and the Forwarder.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Generic, NamedTuple, TypeVar
from zlib import crc32

from wire.batch import QOS_MASK, RETAIN
from wire.names import queue_name
from wire.settings import BridgeSettings

CACHE_TOPICS_MAX = 20_000
CACHED_TOPIC_BYTES_MAX = 512  # a longer topic is looked up each time: the cache must not be a way to fill the memory

Value = TypeVar("Value")


class _Node(Generic[Value]):
    """One level of the tree: what ends here, and the levels below."""

    __slots__ = ("children", "values")

    def __init__(self) -> None:
        self.children: dict[bytes, _Node[Value]] = {}
        self.values: set[Value] = set()


class TopicTree(Generic[Value]):
    """Values under topic filters. Finding follows the levels of the topic and the matches, not the number of filters.

    Filters are plain and well formed; a shared subscription's filter is taken out of it before (``topics.parse_shared``).
    """

    def __init__(self) -> None:
        self._root: _Node[Value] = _Node()

    def add(self, topic_filter: str, value: Value) -> None:
        """Put ``value`` under ``topic_filter``; once, however often it is added."""
        node = self._root
        for level in topic_filter.encode().split(b"/"):
            child = node.children.get(level)
            if child is None:
                child = node.children[level] = _Node()
            node = child
        node.values.add(value)

    def remove(self, topic_filter: str, value: Value) -> None:
        """Take ``value`` from under ``topic_filter``, and levels that lead nowhere with it; unknown ones are ignored."""
        path = [self._root]
        levels = topic_filter.encode().split(b"/")
        for level in levels:
            child = path[-1].children.get(level)
            if child is None:
                return
            path.append(child)
        path[-1].values.discard(value)
        while levels and not path[-1].values and not path[-1].children:
            path.pop()
            del path[-1].children[levels.pop()]

    def match(self, topic: bytes) -> set[Value]:
        """The values of every filter that matches topic name ``topic`` (MQTT-4.7.1-1, MQTT-4.7.1-2, MQTT-4.7.2-1)."""
        found: set[Value] = set()
        nodes = [self._root]
        wild = not topic.startswith(b"$")  # MQTT-4.7.2-1
        for level in topic.split(b"/"):
            below: list[_Node[Value]] = []
            for node in nodes:
                children = node.children
                child = children.get(level)
                if child is not None:
                    below.append(child)
                if wild:
                    child = children.get(b"+")
                    if child is not None:
                        below.append(child)
                    child = children.get(b"#")
                    if child is not None:
                        found |= child.values
            nodes = below
            wild = True
            if not nodes:
                break
        for node in nodes:
            found |= node.values
            child = node.children.get(b"#")  # "sport/#" matches "sport" as well
            if child is not None:
                found |= child.values
        return found


class Route(NamedTuple):
    """One way for a topic: the queue, the number of the rule, and what ``bytes.translate`` makes of the flags column."""

    queue: str
    rule: int
    flags_table: bytes


class Router:
    """Which bridges want a topic, by which rule, in which lane; and which live subscribers.

    R1  a message goes through a bridge once: by the first rule, in file order, that has a filter for it and no exclude.
    R2  all messages of a topic take the same lane of a bridge, so their order holds.
    R3  QoS is never raised; it is 0 on a bridge that does not persist.
    """

    def __init__(self, bridges: Sequence[BridgeSettings], *, cache_topics_max: int = CACHE_TOPICS_MAX) -> None:
        self._bridges = tuple(bridges)
        self._cache_topics_max = cache_topics_max
        self._wanted: TopicTree[tuple[int, int]] = TopicTree()
        self._excluded: TopicTree[tuple[int, int]] = TopicTree()
        self._routes: dict[bytes, tuple[Route, ...]] = {}
        self._tables: dict[int, bytes] = {qos: applied_qos_table(qos) for qos in range(3)}
        self._never_back = {
            bridge.name: frozenset(queue_name(bridge.name, lane) for lane in range(bridge.lanes))
            for bridge in bridges
            if bridge.loop_prevention
        }
        self._subscriptions: dict[int, dict[str, int]] = {}
        self._subscribers: TopicTree[int] = TopicTree()
        self._found: dict[bytes, tuple[int, ...]] = {}
        for place, bridge in enumerate(bridges):
            for rank, rule in enumerate(bridge.local_subscriptions):
                for topic_filter in rule.filters:
                    self._wanted.add(topic_filter, (place, rank))
                for topic_filter in rule.excludes:
                    self._excluded.add(topic_filter, (place, rank))

    # --- bridges ---

    def route(self, topic: bytes, origin: str | None = None) -> tuple[Route, ...]:
        """The ways of ``topic``, at most one a bridge, in the order of the bridges.

        What came from the remote of bridge ``origin`` does not go back to it where loop prevention is on.
        """
        routes = self._routes.get(topic)
        if routes is None:
            routes = tuple(self._decide(topic))
            if len(topic) <= CACHED_TOPIC_BYTES_MAX:
                if len(self._routes) >= self._cache_topics_max:
                    self._routes.clear()
                self._routes[topic] = routes
        never = self._never_back.get(origin) if origin is not None else None
        return routes if never is None else tuple(route for route in routes if route.queue not in never)

    def _decide(self, topic: bytes) -> Iterator[Route]:
        """R1, R2 and R3 for a topic not in the cache."""
        candidates = self._wanted.match(topic)
        if not candidates:
            return
        done = -1
        for place, rank in sorted(candidates - self._excluded.match(topic)):
            if place != done:
                done = place
                bridge = self._bridges[place]
                rule = bridge.local_subscriptions[rank]
                queue = queue_name(bridge.name, crc32(topic) % bridge.lanes)
                yield Route(queue, rule.number, self._tables[rule.max_qos if bridge.persist else 0])

    # --- live subscribers ---

    @property
    def has_subscribers(self) -> bool:
        """Whether any live client subscribes to anything."""
        return bool(self._subscriptions)

    def add_subscriber(self, source: int, topic_filter: str, qos: int) -> None:
        """Client connection ``source`` wants ``topic_filter`` at ``qos``; the same filter again replaces it (MQTT-3.8.4-3)."""
        self._subscriptions.setdefault(source, {})[topic_filter] = qos
        self._subscribers.add(topic_filter, source)
        self._found.clear()

    def remove_subscriber(self, source: int, topic_filter: str) -> None:
        """``source`` gives ``topic_filter`` up; unknown ones are ignored."""
        filters = self._subscriptions.get(source)
        if filters is None or filters.pop(topic_filter, None) is None:
            return
        if not filters:
            del self._subscriptions[source]
        self._subscribers.remove(topic_filter, source)
        self._found.clear()

    def forget_subscriber(self, source: int) -> None:
        """``source`` is gone with all its subscriptions."""
        for topic_filter in self._subscriptions.pop(source, {}):
            self._subscribers.remove(topic_filter, source)
        self._found.clear()

    def forget_subscribers(self) -> None:
        """All live clients are gone."""
        self._subscriptions.clear()
        self._subscribers = TopicTree()
        self._found.clear()

    def subscribers(self, topic: bytes) -> tuple[int, ...]:
        """The client connections that want ``topic``, each once, in ascending order."""
        found = self._found.get(topic)
        if found is None:
            found = tuple(sorted(self._subscribers.match(topic)))
            if len(topic) <= CACHED_TOPIC_BYTES_MAX:
                if len(self._found) >= self._cache_topics_max:
                    self._found.clear()
                self._found[topic] = found
        return found


def applied_qos_table(max_qos: int) -> bytes:
    """For ``bytes.translate``: QoS at most ``max_qos``, RETAIN as it is, nothing else."""
    return bytes(min(flags & QOS_MASK, max_qos) | flags & RETAIN for flags in range(256))
