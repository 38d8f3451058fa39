"""A batch as the remote is to see it: topics mapped, retain by rule, expiry, user properties and hop count. Pure.

Rows of QoS 0 that are too old are left out. What else has expired is the business of the Connection, which knows when a message
leaves and what is on record: for it message expiry intervals stay as they came. The QoS was lowered before queueing
(``wire/routing.py``); what the remote itself cannot do is the Connection's business as well.
"""

from __future__ import annotations

from wire.batch import QOS_MASK, RETAIN, Batch
from wire.hops import hops_of, hops_property, without_hops
from wire.mapping import TopicMapper
from wire.mqtt.publish_properties import append_user_properties
from wire.publish_expiry import expired_rows, expiry_only, without_rows
from wire.settings import BridgeSettings, RuleSettings

LEVEL_5 = 5

_NO_RETAIN = bytes(flags & ~RETAIN for flags in range(256))


class RemoteForm:
    """Turns queued batches of one bridge into what its remote gets.

    ``unknown_rules`` gathers the numbers of rules that nobody configures any more, ``unmapped_topics`` those that no destination
    could be made for and that therefore stay as they are; the caller logs and clears both.
    """

    def __init__(self, bridge: BridgeSettings, *, node: str) -> None:
        self._mapper = TopicMapper(bridge, node=node)
        self._level = bridge.remote.protocol
        self._counts_hops = bridge.loop_prevention
        self._max_age_s = bridge.limits.max_age_s
        self._rule_properties: dict[int, bytes] = {}
        self.unknown_rules: set[int] = set()
        self.unmapped_topics: set[bytes] = set()

    def transform(self, batch: Batch, *, now_ms: int) -> tuple[Batch, list[int]]:
        """The batch for the remote without its expired rows of QoS 0, and the numbers that those rows had."""
        expired = [row for row in self._expired_rows(batch, now_ms) if not batch.flags[row] & QOS_MASK]
        batch = without_rows(batch, expired)
        mapped = [self._map(topic, rule) for topic, rule in zip(batch.topics, batch.rules, strict=True)]
        rules = [rule for _, rule in mapped]
        return (
            Batch(
                accepted_ms=batch.accepted_ms,
                topics=[topic for topic, _ in mapped],
                topic_of=batch.topic_of,
                flags=self._flags(batch, rules),
                lengths=batch.lengths,
                payloads=batch.payloads,
                properties=self._properties(batch, rules) if self._level == LEVEL_5 else expiry_only(batch),
                topic_properties=[self._own_properties(rule, 1) for rule in rules] if self._level == LEVEL_5 else [],
            ),
            expired,
        )

    def _map(self, topic: bytes, rule_number: int) -> tuple[bytes, RuleSettings | None]:
        mapped = self._mapper.map(topic, rule_number)
        if mapped.unknown_rule:
            self.unknown_rules.add(rule_number)
        elif mapped.unmapped:
            self.unmapped_topics.add(topic)
        return mapped.topic, mapped.rule

    def _flags(self, batch: Batch, rules: list[RuleSettings | None]) -> bytes:
        keeps = [rule is not None and rule.preserve_retain for rule in rules]
        if all(keeps):
            return batch.flags
        stripped = batch.flags.translate(_NO_RETAIN)
        if not any(keeps):
            return stripped
        return bytes(
            [own if keeps[index] else bare for index, own, bare in zip(batch.topic_of, batch.flags, stripped, strict=True)]
        )

    def _expired_rows(self, batch: Batch, now_ms: int) -> list[int]:
        if self._max_age_s is not None and now_ms - batch.accepted_ms > self._max_age_s * 1000:
            return list(range(len(batch)))  # it waited in Tier 2, where the store cannot see it age
        return expired_rows(batch, now_ms)

    def _properties(self, batch: Batch, rules: list[RuleSettings | None]) -> dict[int, bytes]:
        properties = {}
        for row, raw in batch.properties.items():
            hops = hops_of(raw) if self._counts_hops else 0
            properties[row] = (without_hops(raw) if hops else raw) + self._own_properties(rules[batch.topic_of[row]], hops + 1)
        return properties

    def _own_properties(self, rule: RuleSettings | None, hops: int) -> bytes:
        """What this bridge adds to each message: the rule's user properties and, with loop prevention, the hop count."""
        key = (rule.number if rule else 0) << 8 | min(hops, 255)
        known = self._rule_properties.get(key)
        if known is None:
            known = append_user_properties(b"", rule.user_properties if rule else ())
            if self._counts_hops:
                known += hops_property(hops)
            self._rule_properties[key] = known
        return known
