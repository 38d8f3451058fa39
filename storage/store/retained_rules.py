"""The rules of bridges that bring what is retained already: which topics each takes, and how its messages go. Pure.

A rule is one with its bridge's remote: it is another one, and brings all anew, when its filters, excludes or destination change, or
when the addresses of the remote do. How far each has come is ``storage/store/retained_pieces.py``'s.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import msgpack

from wire.config_settings import BridgeSettings, RuleSettings
from wire.frames.batch import Batch
from wire.frames.names import queue_name
from wire.mqtt.topics import matches
from wire.routing.bridge_rules import BridgeRoute, BridgeRules, by_routes
from wire.routing.hop_count import hops_of
from wire.routing.message_route import MessageRoute

NEVER, EACH_SESSION = "never", "at-each-session"
RULE_DIGEST_BYTES = 16
_OF_BRIDGE = "bridge "  # before the bridge in whose share what came from its remote is retained


@dataclass(frozen=True, slots=True)
class RetainedRule:
    """One rule that brings what is retained. digest: its name on record; queues: of the lanes that it takes."""

    bridge: BridgeSettings
    filters: tuple[str, ...]
    digest: bytes
    each_session: bool
    queues: tuple[str, ...]
    route: bytes
    router: BridgeRules

    @classmethod
    def of(cls, bridge: BridgeSettings, rule: RuleSettings) -> RetainedRule:
        """That of ``rule``, of which ``bridge`` has what says when it is another one."""
        told = msgpack.packb((rule.filters, rule.excludes, rule.destination, bridge.remote.addresses))
        return cls(
            bridge=bridge,
            filters=rule.filters,
            digest=blake2b(told, digest_size=RULE_DIGEST_BYTES).digest(),
            each_session=rule.retained == EACH_SESSION,
            queues=tuple(queue_name(bridge.name, lane) for lane in bridge.lanes_of(rule)),
            route=MessageRoute.of(rule).encode(),
            router=BridgeRules((bridge,)),
        )

    @property
    def key(self) -> str:
        """By which it is known among those of its bridge."""
        return self.digest.hex()

    def place(self, topic: bytes) -> int | None:
        """Which of the filters is the first that matches ``topic``; None if none does."""
        text = topic.decode()
        return next((place for place, one in enumerate(self.filters) if matches(one, text)), None)

    def way(self, topic: bytes, owner: str) -> BridgeRoute | None:
        """The route of what is retained under ``topic`` in the share of ``owner``, if it is this rule that takes it."""
        origin = owner.removeprefix(_OF_BRIDGE) if owner.startswith(_OF_BRIDGE) else None
        found = self.router.route(topic, origin)
        return found[0] if found and found[0].message_route == self.route else None

    def parts(self, batch: Batch) -> Iterator[tuple[str, Batch]]:
        """What of ``batch``, which the rule takes, goes into which queue, as a live message would."""
        loops = self.bridge.loop_prevention
        by_queue: dict[str, dict[int, BridgeRoute]] = {}
        for index, topic in enumerate(batch.topics):
            if (route := self.way(topic, "")) is not None:
                by_queue.setdefault(route.queue, {})[index] = route
        for queue, by_topic in by_queue.items():
            rows = [
                row
                for row, index in enumerate(batch.topic_of)
                if index in by_topic and not (loops.enabled and hops_of(batch.properties.get(row, b"")) >= loops.max_hops)
            ]
            if rows:
                yield queue, by_routes(batch.select(rows), by_topic)


def retained_rules(bridges: Sequence[BridgeSettings]) -> list[RetainedRule]:
    """The rules of ``bridges`` that bring what is retained."""
    return [RetainedRule.of(bridge, rule) for bridge in bridges for rule in bridge.local_subscriptions if rule.retained != NEVER]


def lanes_of(bridges: Sequence[BridgeSettings]) -> tuple[tuple[str, int], ...]:
    """By which numbers of lanes these are routed, as a batch has them."""
    return tuple((bridge.name, bridge.lanes) for bridge in bridges if bridge.lanes > 1)
