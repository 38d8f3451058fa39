"""A batch from a bridge's remote as this node is to see it: what no rule has or goes round is left out, the rest mapped. Pure.

The counterpart of ``wire/routing/form_for_remote.py``. It goes by the bridge's remote subscriptions, the first in file order that
has the topic. The answers to the remote keep the QoS and the packet identifiers that it sent, so they are made from the batch as it
came.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from wire.config_settings import BridgeSettings, RuleSettings
from wire.frames.batch import QOS_MASK, RETAIN, Batch, applied_qos_table
from wire.mqtt.primitives import encode_variable_byte_integer
from wire.mqtt.publish_batch_parser import PACKET_BYTES_LIMIT
from wire.mqtt.publish_properties import append_user_properties
from wire.mqtt.topics import NO_TOPIC_LIMITS, TopicLimits, matches
from wire.routing.hop_count import hops_of, hops_property, without_hops
from wire.routing.topic_mapping import CACHE_TOPICS_MAX, CACHED_TOPIC_BYTES_MAX, TopicMapper

KNOWN_PROPERTIES_MAX = 1_000
KNOWN_BYTES_MAX = 256  # longer ones are not worth remembering

_HEAD_MAX_BYTES = 9  # of a PUBLISH without properties: fixed header, length of the topic, packet identifier

_UNWANTED = bytes(256)


class FirstRule:
    """Which of ``rules`` takes a topic from the remote: the first that has a filter for it and no exclude. With a bounded cache."""

    def __init__(self, rules: Sequence[RuleSettings], *, cache_topics_max: int = CACHE_TOPICS_MAX) -> None:
        self._rules = tuple(rules)
        self._cache_topics_max = cache_topics_max
        self._cache: dict[bytes, int | None] = {}

    def of(self, topic: bytes) -> int | None:
        """The place of that rule, from 0; None if none has ``topic``."""
        try:
            return self._cache[topic]
        except KeyError:
            place = self._find(topic.decode())
        if len(topic) <= CACHED_TOPIC_BYTES_MAX:
            if len(self._cache) >= self._cache_topics_max:
                self._cache.clear()
            self._cache[topic] = place
        return place

    def _find(self, topic: str) -> int | None:
        for place, rule in enumerate(self._rules):
            wanted = any(matches(topic_filter, topic) for topic_filter in rule.filters)
            if wanted and not any(matches(topic_filter, topic) for topic_filter in rule.excludes):
                return place
        return None


class LocalForm:
    """Turns batches from the remote of one bridge into what this node takes.

    routing.hops-bounded [alive]: a message that has crossed ``max_hops`` bridges is not taken; one that is taken has crossed one
        more.

    QoS is lowered to the rule's ``max_qos`` and never raised; RETAIN stays where the rule preserves it (routing.qos-as-ruled).

    routing.too-large-not-taken [P5, P6]: a message whose packet, or whose topic, is larger than a local client's may be is not
        taken: an MQTT 3.1.1 remote cannot be told the limit, and would send it again on every connection.

    ``looped``, ``unmatched`` and ``too_large`` count what was left out; ``unmatched_topics``, ``unmapped_topics`` (no destination
    could be made, so the topic stays) and ``too_large_topics`` gather topics that the caller logs and clears.
    """

    def __init__(
        self,
        bridge: BridgeSettings,
        *,
        packet_max_bytes: int = PACKET_BYTES_LIMIT,
        topic_limits: TopicLimits = NO_TOPIC_LIMITS,
        echoes_in: Callable[[Batch], set[int]] | None = None,
    ) -> None:
        """echoes_in: says which rows the remote has sent back (routing.echo-left-out); None: it sends none back."""
        rules = bridge.remote_subscriptions
        self._first = FirstRule(rules)
        self._echoes_in = echoes_in
        self._mapper = TopicMapper()
        self._destinations = [rule.destination for rule in rules]
        self._tables = [applied_qos_table(rule.max_qos, RETAIN if rule.preserve_retain else 0) for rule in rules]
        self._packet_max_bytes = packet_max_bytes
        self._topic_limits = topic_limits
        self._short_bytes = min(limit or PACKET_BYTES_LIMIT for limit in topic_limits)  # fewer have neither too many nor levels
        self._hops_max = bridge.loop_prevention.max_hops if bridge.loop_prevention.enabled else None
        self._added = [append_user_properties(b"", rule.user_properties) for rule in rules]
        self._own: dict[tuple[int, bytes], bytes | None] = {}
        self.looped = 0
        self.unmatched = 0
        self.too_large = 0
        self.unmatched_topics: set[bytes] = set()
        self.unmapped_topics: set[bytes] = set()
        self.too_large_topics: set[bytes] = set()

    def transform(self, batch: Batch) -> Batch:
        """The batch as the node is to see it, without what is left out."""
        rules = [self._first.of(topic) for topic in batch.topics]
        properties, left_out = self._properties(batch, rules)
        left_out |= self._too_large(batch)
        if self._echoes_in is not None:
            left_out |= self._echoes_in(batch)
        flags = self._flags(batch, rules)
        taken = Batch(
            accepted_ms=batch.accepted_ms,
            topics=[self._map(topic, rule) for topic, rule in zip(batch.topics, rules, strict=True)],
            topic_of=batch.topic_of,
            flags=flags,
            lengths=batch.lengths,
            payloads=batch.payloads,
            properties=properties,
        )
        return taken.select([row for row in range(len(batch)) if row not in left_out]) if left_out else taken

    def _map(self, topic: bytes, rule: int | None) -> bytes:
        if rule is None:
            self.unmatched_topics.add(topic)
            return topic
        mapped = self._mapper.map(topic, self._destinations[rule])
        if mapped.unmapped:
            self.unmapped_topics.add(topic)
        return mapped.topic

    def _flags(self, batch: Batch, rules: Sequence[int | None]) -> bytes:
        tables = [_UNWANTED if rule is None else self._tables[rule] for rule in rules]
        if len(set(tables)) == 1:
            return batch.flags.translate(tables[0])
        return bytes([tables[index][flag] for index, flag in zip(batch.topic_of, batch.flags, strict=True)])

    def _properties(self, batch: Batch, rules: Sequence[int | None]) -> tuple[dict[int, bytes], set[int]]:
        """The properties of each row that has any, and the rows that are left out."""
        left_out: set[int] = set()
        if None in rules:
            left_out = {row for row, index in enumerate(batch.topic_of) if rules[index] is None}
            self.unmatched += len(left_out)
        bare = [b"" if rule is None else self._form(rule, b"") or b"" for rule in rules]
        if not any(bare):
            properties = {}
        elif len(set(bare)) == 1:
            properties = dict.fromkeys(range(len(batch)), bare[0])
        else:
            properties = {row: bare[index] for row, index in enumerate(batch.topic_of) if bare[index]}
        for row, raw in batch.properties.items():
            rule = rules[batch.topic_of[row]]
            if rule is None:
                continue
            formed = self._form(rule, raw)
            if formed is None:
                left_out.add(row)
                self.looped += 1
            elif formed:
                properties[row] = formed
        return properties, left_out

    def _too_large(self, batch: Batch) -> set[int]:
        """The rows whose packets or topics are too large (routing.too-large-not-taken). Such packets have no properties, because an
        MQTT 5 remote is told the limit.
        """
        longest = max(map(len, batch.topics), default=0)
        if longest < self._short_bytes and len(batch.payloads) + longest + _HEAD_MAX_BYTES <= self._packet_max_bytes:
            return set()
        beyond = {index for index, topic in enumerate(batch.topics) if not self._topic_limits.allow(topic.decode())}
        found = set()
        for row, (index, flags, length) in enumerate(zip(batch.topic_of, batch.flags, batch.lengths, strict=True)):
            remaining = 2 + len(batch.topics[index]) + (2 if flags & QOS_MASK else 0) + length
            if index in beyond or 1 + len(encode_variable_byte_integer(remaining)) + remaining > self._packet_max_bytes:
                found.add(row)
                self.too_large_topics.add(batch.topics[index])
        self.too_large += len(found)
        return found

    def _form(self, rule: int, raw: bytes) -> bytes | None:
        """Properties ``raw`` as they go on by ``rule``; None for a message that goes round (routing.hops-bounded)."""
        key = (rule, raw)
        if key in self._own:
            return self._own[key]
        hops = hops_of(raw) if self._hops_max is not None else 0
        formed: bytes | None = (without_hops(raw) if hops else raw) + self._added[rule]
        if self._hops_max is not None:
            formed = None if hops >= self._hops_max else (formed or b"") + hops_property(hops + 1)
        if len(self._own) >= KNOWN_PROPERTIES_MAX:
            self._own.clear()
        if len(raw) <= KNOWN_BYTES_MAX:
            self._own[key] = formed
        return formed
