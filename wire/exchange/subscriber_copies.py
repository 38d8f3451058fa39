"""A batch as those get it who subscribe in the same way: QoS as granted, RETAIN, subscription identifiers, time left. Pure.

The Distributor makes what goes into queues with it, the Listener what is delivered live.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from wire.access.access_rules import ClientAccess
from wire.exchange.publish_encoder import Columns
from wire.frames.batch import QOS_ONLY, RETAIN, Batch, applied_qos_table
from wire.mqtt.aliases import Names, OutgoingAliases
from wire.mqtt.message_expiry import aged_properties, expired_rows, without_rows
from wire.mqtt.packets import MQTT_5_0
from wire.mqtt.publish_properties import with_subscription_identifiers
from wire.mqtt.qos0_publish_encoder import encode_aliased_deliveries, encode_deliveries

ALIASED_BYTES_MAX = 16  # what a PUBLISH of QoS 0 has besides topic, properties and payload

_TABLES = {
    (qos, as_published): applied_qos_table(qos, RETAIN if as_published else 0) for qos in range(3) for as_published in (False, True)
}


def as_granted(
    batch: Batch, rows: Sequence[int] | None, *, qos: int, retain_as_published: bool, identifiers: tuple[int, ...]
) -> Batch:
    """``rows`` (None: all) at ``qos`` at most, with RETAIN only if as published [MQTT-3.3.1-12, -13], with ``identifiers``."""
    part = batch if rows is None else batch.select(rows)
    properties = part.properties
    if identifiers:  # MQTT-3.3.4-3
        properties = {row: with_subscription_identifiers(properties.get(row, b""), identifiers) for row in range(len(part))}
    return Batch(
        accepted_ms=part.accepted_ms,
        topics=part.topics,
        topic_of=part.topic_of,
        flags=part.flags.translate(_TABLES[qos, retain_as_published]),
        lengths=part.lengths,
        payloads=part.payloads,
        properties=properties,
    )


class Parcel:
    """Messages of QoS 1 and 2 that are delivered to one client or many."""

    __slots__ = ("_columns", "_shared", "batch", "size_bytes")

    def __init__(self, batch: Batch, *, shared: bool = False) -> None:
        self.batch = batch
        self.size_bytes = batch.size_bytes()
        self._columns: Columns | None = None
        self._shared = shared

    def __len__(self) -> int:
        return len(self.batch)

    def share(self) -> None:
        """It goes to more than one; to be said before anything is encoded."""
        self._shared = True

    @property
    def columns(self) -> Columns:
        """All its rows, for sequences that follow each other."""
        if self._columns is None:
            self._columns = Columns(self.batch, shared=self._shared)
        return self._columns


class Copies:
    """Granted messages that go out now: those of QoS 0 as packets, made once for each kind of client, the others as a ``Parcel``.

    batch: as granted; its flags' RETAIN is what is sent.
    """

    def __init__(self, batch: Batch, wall_ms: int) -> None:
        if batch.properties:
            batch = without_rows(batch, expired_rows(batch, wall_ms))
        qos = batch.flags.translate(QOS_ONLY)
        count = qos.count(0)
        self._batch = batch
        self._rows = [row for row, level in enumerate(qos) if not level] if 0 < count < len(batch) else ()
        self._packets: dict[tuple[int, int], bytes] = {}
        self._aliased: dict[tuple[int, ...], bytes] = {}
        self._topics: tuple[list[int], list[bytes], int] | None = None  # of QoS 0: their indexes, their names; no packet is larger
        self._wall_ms = wall_ms
        self._without: dict[frozenset[int], Copies] = {}
        self.qos0_messages = count
        self.parcel: Parcel | None = None
        if count < len(batch):
            part = batch.select([row for row, level in enumerate(qos) if level]) if count else batch
            self.parcel = Parcel(part, shared=True)

    def __len__(self) -> int:
        return len(self._batch)

    def readable(self, rights: ClientAccess) -> Copies:
        """Without what a client with ``rights`` may not receive; the same object for all that may not receive the same topics."""
        topics = self._batch.topics
        forbidden = rights.forbidden(topics, range(len(topics)))
        if not forbidden:
            return self
        return self.without(forbidden)

    @property
    def topics(self) -> Sequence[bytes]:
        """Topics by their indexes; there need not be a message of each."""
        return self._batch.topics

    def without(self, topics: frozenset[int]) -> Copies:
        """Without the messages of these topics; the same object for all that ask for the same."""
        copies = self._without.get(topics)
        if copies is None:
            rows = [row for row, index in enumerate(self._batch.topic_of) if index not in topics]
            copies = self._without[topics] = Copies(self._batch.select(rows), self._wall_ms)
        return copies

    def only(self, topics: Collection[int]) -> Batch:
        """The messages of these topics, as granted."""
        return self._batch.select([row for row, index in enumerate(self._batch.topic_of) if index in topics])

    def qos0(self, level: int, packet_max_bytes: int) -> bytes:
        """The PUBLISH packets of QoS 0 at protocol ``level``; larger ones are left out."""
        key = (level, packet_max_bytes)
        known = self._packets.get(key)
        if known is None:
            if level >= MQTT_5_0:
                self._age()
            known = encode_deliveries(self._batch, self._rows, level, packet_max_bytes=packet_max_bytes, retain_as_published=True)
            self._packets[key] = known
        return known

    def qos0_aliased(self, aliases: OutgoingAliases, packet_max_bytes: int) -> bytes:
        """The same for a client that takes topic aliases; made once for all that know the same topics by the same aliases."""
        if self._topics is None:
            indexes = list(dict.fromkeys([self._batch.topic_of[row] for row in self._rows] or self._batch.topic_of))
            self._topics = indexes, [self._batch.topics[index] for index in indexes], self._largest()
        indexes, topics, largest = self._topics
        if largest > packet_max_bytes:
            return self.qos0(MQTT_5_0, packet_max_bytes)  # one may be too large: an alias must not be given by what is not sent
        plan = aliases.plan(topics)
        known = self._aliased.get(plan)
        if known is None:
            self._age()
            names = Names(self._batch.topics, indexes, plan)
            known = self._aliased[plan] = encode_aliased_deliveries(self._batch, self._rows, names)
        return known

    def _largest(self) -> int:
        """No packet is larger than so many bytes."""
        batch = self._batch
        properties = max(map(len, (*batch.properties.values(), *batch.topic_properties)), default=0)
        return max(batch.lengths) + max(map(len, batch.topics)) + properties + ALIASED_BYTES_MAX

    def _age(self) -> None:
        """Tell how long messages have still to live as of now."""
        if self._batch.properties:
            now_ms = max(self._batch.accepted_ms, self._wall_ms)
            self._batch = replace(self._batch, properties=aged_properties(self._batch, self._wall_ms), accepted_ms=now_ms)
