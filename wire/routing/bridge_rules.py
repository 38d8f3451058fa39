"""Destinations of a topic: the rules of the bridges. Pure.

Filters are matched by ``wire/routing/topic_filter_tree.py``; what a bridge changes on the way (topic, properties) is the business
of ``wire/routing/topic_mapping.py`` and the Forwarder.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple
from zlib import crc32

from wire.config_settings import NORMAL, BridgeSettings, RuleSettings
from wire.frames.batch import Batch, applied_qos_table, route_columns
from wire.frames.names import lane_of_queue, queue_name
from wire.mqtt.topics import matches
from wire.routing.message_route import MessageRoute
from wire.routing.topic_filter_tree import TopicTree

CACHE_TOPICS_MAX = 20_000
CACHED_TOPIC_BYTES_MAX = 512  # a longer topic is looked up each time: the cache must not be a way to fill the memory


class BridgeRoute(NamedTuple):
    """One route of a topic: the queue, the encoded ``MessageRoute`` of the rule, and what ``bytes.translate`` makes of the flags
    column. room: what the queue's limits count for, as ``BridgeSettings.limits_of`` says."""

    queue: str
    room: str
    message_route: bytes
    flags_table: bytes


class RuleVerdict(NamedTuple):
    """What one rule says of a topic: whether a filter of its matches, and an exclude; and whether it is the rule that takes it."""

    bridge: str
    rule: RuleSettings
    wants: bool
    excludes: bool
    takes: bool


class BridgeRules:
    """Which bridges want a topic, by which rule, in which lane.

    routing.first-rule-wins [P2, P7]: a message goes through a bridge once: by the first rule, in file order, that has a filter for
        it and no exclude.
    routing.topic-keeps-lane [P4]: all messages of a topic take the same lane of a bridge, so their order holds: that of the class
        which their rule names, and of several a fixed one.
    routing.qos-as-ruled [MQTT, P2]: QoS is lowered to the rule's ``max_qos``, and raised only to its ``min_qos``; it is 0 on a
        bridge that does not persist.
    """

    def __init__(self, bridges: Sequence[BridgeSettings], *, cache_topics_max: int = CACHE_TOPICS_MAX) -> None:
        self._bridges = tuple(bridges)
        self._cache_topics_max = cache_topics_max
        self._wanted: TopicTree[tuple[int, int]] = TopicTree()
        self._excluded: TopicTree[tuple[int, int]] = TopicTree()
        self._routes: dict[bytes, tuple[BridgeRoute, ...]] = {}
        self._tables = [
            [
                applied_qos_table(rule.max_qos, min_qos=rule.min_qos) if bridge.persist else applied_qos_table(0)
                for rule in bridge.local_subscriptions
            ]
            for bridge in self._bridges
        ]
        self._message_routes = [[MessageRoute.of(rule).encode() for rule in bridge.local_subscriptions] for bridge in self._bridges]
        self._never_back = {
            bridge.name: frozenset(queue_name(bridge.name, lane) for lane in bridge.lane_labels)
            for bridge in bridges
            if bridge.loop_prevention.enabled
        }
        for place, bridge in enumerate(bridges):
            for rank, rule in enumerate(bridge.local_subscriptions):
                for topic_filter in rule.filters:
                    self._wanted.add(topic_filter, (place, rank))
                for topic_filter in rule.excludes:
                    self._excluded.add(topic_filter, (place, rank))

    # --- bridges ---

    def route(self, topic: bytes, origin: str | None = None) -> tuple[BridgeRoute, ...]:
        """The routes of ``topic``, at most one a bridge, in the order of the bridges.

        Messages from the remote of bridge ``origin`` do not go back to it if loop prevention is on.
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

    @property
    def thinning_routes(self) -> frozenset[bytes]:
        """The encoded routes of rules that leave messages out."""
        rules = [rule for bridge in self._bridges for rule in bridge.local_subscriptions]
        return frozenset(route.encode() for rule in rules if (route := MessageRoute.of(rule)).thins)

    @property
    def checksum(self) -> int:
        """One that changes with the rules, and with the lanes that their topics take."""
        return crc32(repr([(bridge.name, bridge.lanes, bridge.local_subscriptions) for bridge in self._bridges]).encode())

    @property
    def raise_qos(self) -> bool:
        """Whether any rule raises what it takes."""
        return any(rule.min_qos for bridge in self._bridges for rule in bridge.local_subscriptions)

    @property
    def bridges(self) -> list[str]:
        """Their names, in file order."""
        return [bridge.name for bridge in self._bridges]

    def refusals(self, topic: bytes, origin: str | None) -> dict[str, str]:
        """The bridges that do not get ``topic``, which came from the remote of bridge ``origin``: why, in words."""
        text = topic.decode(errors="replace")
        wanted = {lane.bridge for route in self.route(topic) if (lane := lane_of_queue(route.queue)) is not None}
        taken = {lane.bridge for route in self.route(topic, origin) if (lane := lane_of_queue(route.queue)) is not None}
        why: dict[str, str] = {}
        for bridge in self._bridges:
            if bridge.name in taken:
                continue
            excludes = [rule.name for rule in bridge.local_subscriptions if any(matches(one, text) for one in rule.excludes)]
            if bridge.name in wanted:
                why[bridge.name] = "it came from there (loop_prevention)"
            elif excludes:
                why[bridge.name] = f"no rule takes it, and exclude of {', '.join(excludes)} matches it"
            else:
                why[bridge.name] = "no filter of its local_subscriptions matches it"
        return why

    def verdicts(self, topic: bytes) -> Iterator[RuleVerdict]:
        """What each rule of each bridge says of ``topic``, in file order."""
        wanted, excluded, taking = self._wanted.match(topic), self._excluded.match(topic), set(self._taking(topic))
        for place, bridge in enumerate(self._bridges):
            for rank, rule in enumerate(bridge.local_subscriptions):
                key = place, rank
                yield RuleVerdict(bridge.name, rule, key in wanted, key in excluded, key in taking)

    def _decide(self, topic: bytes) -> Iterator[BridgeRoute]:
        """routing.topic-keeps-lane and routing.qos-as-ruled for a topic not in the cache."""
        for place, rank in self._taking(topic):
            bridge = self._bridges[place]
            priority = bridge.local_subscriptions[rank].priority
            lane = crc32(topic) % bridge.lanes if priority == NORMAL else priority
            room, _ = bridge.limits_of(lane)
            yield BridgeRoute(queue_name(bridge.name, lane), room, self._message_routes[place][rank], self._tables[place][rank])

    def _taking(self, topic: bytes) -> Iterator[tuple[int, int]]:
        """routing.first-rule-wins: of each bridge that wants ``topic`` its place, and that of the rule which takes it."""
        candidates = self._wanted.match(topic)
        if not candidates:
            return
        done = -1
        for place, rank in sorted(candidates - self._excluded.match(topic)):
            if place != done:
                done = place
                yield place, rank


def by_routes(batch: Batch, by_topic: dict[int, BridgeRoute]) -> Batch:
    """``batch`` with the way of each topic and the applied QoS of each row; its other columns are shared, not copied."""
    first, *others = by_topic.values()
    if others and any(route.flags_table != first.flags_table for route in others):
        tables_of = [by_topic[index].flags_table if index in by_topic else b"" for index in range(len(batch.topics))]
        flags = bytes([tables_of[index][flag] for index, flag in zip(batch.topic_of, batch.flags, strict=True)])
    else:
        flags = batch.flags.translate(first.flags_table)
    message_routes, route_of = [first.message_route], [0]
    if others or len(batch.topics) > 1:
        message_routes, route_of = route_columns(
            [by_topic[index].message_route if index in by_topic else b"" for index in range(len(batch.topics))]
        )
    return Batch(
        accepted_ms=batch.accepted_ms,
        topics=batch.topics,
        topic_of=batch.topic_of,
        flags=flags,
        lengths=batch.lengths,
        payloads=batch.payloads,
        routes=message_routes,
        route_of=route_of,
        properties=batch.properties,
    )
