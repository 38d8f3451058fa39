"""A batch as the remote is to see it: topics mapped, retain, expiry, user properties, hop count, provenance. Pure.

It goes by the routes that the batch carries (``wire/routing/routes.py``), not by what the configuration says of rules now. Rows
of QoS 0 that are too old are left out. Other expiry is the business of the Connection, which knows when a message leaves and
what is on record: for it message expiry intervals stay as they came. The QoS was lowered or raised before queueing
(``wire/routing/bridge_rules.py``); what the remote itself cannot do is the Connection's business as well.

routing.waiting-qos-lowered [P2]: a rule's ``max_qos`` that is lower now holds for what waits and was never sent, too. A message
    that may have been sent goes again as it was [MQTT-4.4.0-1].
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import replace

from wire.clock_steps import elapsed_ms
from wire.config_settings import LIVE, BridgeSettings
from wire.frames.batch import QOS_MASK, RETAIN, Batch
from wire.frames.names import LaneLabel
from wire.mqtt.message_expiry import expired_rows, expiry_only, without_rows
from wire.mqtt.publish_properties import append_user_properties
from wire.routing.bridge_rules import BridgeRules
from wire.routing.hop_count import hops_of, hops_property, without_hops
from wire.routing.message_route import MessageRoute
from wire.routing.provenance import ENVELOPE, NOT_TOLD, USER_PROPERTIES, Provenance, QueuePlace
from wire.routing.topic_mapping import TopicMapper

LEVEL_5 = 5
KNOWN_ROUTES_MAX = 1_000

_AS_IT_IS = bytes(range(256))
_NO_RETAIN = bytes(flags & ~RETAIN for flags in range(256))


class RemoteForm:
    """Turns queued batches of one bridge into what its remote gets.

    ``unmapped_topics`` gathers topics that no destination could be made for and that therefore stay as they are; the caller logs
    and clears it.
    """

    def __init__(self, bridge: BridgeSettings, *, node: str = "", lane: LaneLabel = 0) -> None:
        self._mapper = TopicMapper()
        self._place = QueuePlace(node, bridge.name, lane)
        self._tells_provenance = self._strips_retain = False  # whether any route has asked for it yet
        rules = tuple(replace(rule, min_qos=0) for rule in bridge.local_subscriptions)
        self._rules = BridgeRules((replace(bridge, persist=True, local_subscriptions=rules),))  # those two are about what comes
        self._has_properties = LEVEL_5 in bridge.remote.levels  # one of MQTT 3.1.1 after all is sent them without
        self._counts_hops = bridge.loop_prevention.enabled
        self._hop_property = bridge.loop_prevention.hop_property
        marks = bridge.live_properties if lane == LIVE else ()
        self._marks = append_user_properties(b"", marks)
        self._max_age_s = bridge.limits.max_age_s
        self._routes: dict[bytes, MessageRoute] = {}
        self._route_properties: dict[tuple[bytes, int], bytes] = {}
        self.unmapped_topics: set[bytes] = set()

    def lower(self, batch: Batch, start: int, stop: int) -> None:
        """Have the rows ``[start, stop)``, which were never sent, leave at most at the QoS at which the rules take their topics now
        (routing.waiting-qos-lowered). A message that no rule takes any more stays as it is.
        """
        tables = [route[0].flags_table if (route := self._rules.route(topic)) else _AS_IT_IS for topic in batch.topics]
        flags = batch.flags[start:stop]
        if len(set(tables)) == 1:
            lowered = flags.translate(tables[0])
        else:
            lowered = bytes([tables[topic][flag] for topic, flag in zip(batch.topic_of[start:stop], flags, strict=True)])
        batch.change_flags(start, lowered)

    def transform(
        self, batch: Batch, *, now_ms: int, first_seq: int = 0, places: Sequence[int] = (), linked_ms: int = 0
    ) -> tuple[Batch, list[int]]:
        """The batch for the remote without its expired rows of QoS 0, and the numbers that those rows had.

        places: of each row what its sequence is above ``first_seq``. linked_ms: when the connection was made by which the batch
        leaves, in UTC. Only what tells its provenance needs these.
        """
        if expired := self._expired_rows(batch, now_ms):
            expired = [row for row in expired if not batch.flags[row] & QOS_MASK]
            batch = without_rows(batch, expired)
        of_topics = batch.routes_of_topics()
        known = self._routes
        routes = [known[encoded] if encoded in known else self._route(encoded) for encoded in of_topics]
        formed = Batch(
            accepted_ms=batch.accepted_ms,
            topics=[self._map(topic, route) for topic, route in zip(batch.topics, routes, strict=True)],
            topic_of=batch.topic_of,
            flags=self._flags(batch, routes) if self._strips_retain else batch.flags,
            lengths=batch.lengths,
            payloads=batch.payloads,
            properties=self._properties(batch, of_topics) if self._has_properties else expiry_only(batch),
            topic_properties=[self._own_properties(encoded, 1) for encoded in of_topics] if self._has_properties else [],
        )
        if self._tells_provenance:
            gone = frozenset(expired)
            seqs = [first_seq + place for row, place in enumerate(places) if row not in gone]
            formed = self._telling(formed, batch.topics, routes, seqs, stored=batch.accepted_ms < linked_ms)
        return formed, expired

    def _telling(
        self, formed: Batch, topics: list[bytes], routes: list[MessageRoute | None], seqs: Sequence[int], *, stored: bool
    ) -> Batch:
        """``formed`` with what its rows' routes have them tell, ``topics`` as they were published.

        What removes a retained message, by an empty payload, goes as it is: it would be a retained message itself in an envelope.
        """
        ways = [route.provenance if route is not None else NOT_TOLD for route in routes]
        payloads, properties = formed.rows_payloads(), dict(formed.properties)
        for row, topic in enumerate(formed.topic_of):
            told = Provenance(self._place, formed.accepted_ms, seqs[row], stored)
            if ways[topic] == USER_PROPERTIES and self._has_properties:
                properties[row] = properties.get(row, formed.topic_properties[topic]) + told.user_properties()
            elif ways[topic] == ENVELOPE and (payloads[row] or not formed.flags[row] & RETAIN):
                payloads[row] = told.envelope(topics[topic], payloads[row])
        return replace(formed, lengths=array("I", map(len, payloads)), payloads=b"".join(payloads), properties=properties)

    def _route(self, encoded: bytes) -> MessageRoute | None:
        """The route that ``encoded`` says; None where it is empty, for topics that no row of the batch has."""
        if not encoded:
            return None
        route = self._routes.get(encoded)
        if route is None:
            if len(self._routes) >= KNOWN_ROUTES_MAX:
                self._routes.clear()
                self._route_properties.clear()
            route = self._routes[encoded] = MessageRoute.decode(encoded)
            self._tells_provenance = self._tells_provenance or route.provenance != NOT_TOLD
            self._strips_retain = self._strips_retain or not route.preserve_retain
        return route

    def _map(self, topic: bytes, route: MessageRoute | None) -> bytes:
        if route is None:
            return topic
        mapped = self._mapper.map(topic, route.destination)
        if mapped.unmapped:
            self.unmapped_topics.add(topic)
        return mapped.topic

    def _flags(self, batch: Batch, routes: list[MessageRoute | None]) -> bytes:
        keeps = [route is None or route.preserve_retain for route in routes]
        if False not in keeps:
            return batch.flags
        stripped = batch.flags.translate(_NO_RETAIN)
        if True not in keeps:
            return stripped
        return bytes(
            [own if keeps[index] else bare for index, own, bare in zip(batch.topic_of, batch.flags, stripped, strict=True)]
        )

    def _expired_rows(self, batch: Batch, now_ms: int) -> list[int]:
        if self._max_age_s is not None and elapsed_ms(batch.accepted_ms, now_ms) > self._max_age_s * 1000:
            return list(range(len(batch)))  # it waited in Tier 2, where the store cannot see it age
        return expired_rows(batch, now_ms) if batch.properties else []

    def _properties(self, batch: Batch, of_topics: list[bytes]) -> dict[int, bytes]:
        properties = {}
        for row, raw in batch.properties.items():
            hops = hops_of(raw) if self._counts_hops else 0
            properties[row] = (without_hops(raw) if hops else raw) + self._own_properties(of_topics[batch.topic_of[row]], hops + 1)
        return properties

    def _own_properties(self, encoded: bytes, hops: int) -> bytes:
        """The properties that this bridge adds to each message: the route's user properties, those of its lane and, with loop
        prevention, the hop count."""
        key = encoded, min(hops, 255)
        known = self._route_properties.get(key)
        if known is None:
            route = self._route(encoded)
            known = (route.properties if route is not None else b"") + self._marks
            if self._counts_hops:
                known += hops_property(hops, self._hop_property)
            self._route_properties[key] = known
        return known
