"""The run of PUBLISH packets at the front of a received buffer, parsed in one loop into the columns of a batch.

The hot path of the Listener: everything in local variables, no object per message. A packet that begins like the one before it
(first byte, remaining length, topic) is known by comparing those bytes, and only its packet identifier and payload are cut out.
Packets of other types go through ``codec.py``; counting against the receive maximum is the caller's.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from wire.errors import PeerViolation
from wire.frames.batch import PASSED, QOS_MASK, RETAIN, ROWS_MAX, Batch, pack_column
from wire.mqtt.packets import MQTT_5_0
from wire.mqtt.primitives import VARIABLE_BYTE_INTEGER_MAX, read_variable_byte_integer
from wire.mqtt.publish_properties import PublishPropertiesView, validate_publish_properties
from wire.mqtt.reason_codes import ReasonCode, malformed, protocol_error
from wire.mqtt.topics import NO_TOPIC_LIMITS, TopicLimits, check_topic

PACKET_BYTES_LIMIT = VARIABLE_BYTE_INTEGER_MAX + 5
ROWS_LIMIT = 60_000  # rows and topics are numbered by u16 columns
TAKE, WAIT, REFUSE = 0, 1, 2  # what becomes of a PUBLISH, as far as there is room for it

_NO_ID = b"\0\0"
_TYPE_BITS, _QOS_0_BITS = 0xF0, 0xF6  # of a first byte
_KNOWN_TOPICS_MAX = 10_000
_KNOWN_PROPERTIES_MAX = 1_000
_KNOWN_BYTES_MAX = 256  # longer ones are not worth remembering


class PublishSource(Protocol):
    """One client as the parser fills it. ``number`` goes into the batch's source column, ``session`` names its QoS 2 identifiers.

    puback_ids, pubrec_ids: answers owed, two bytes each, in order of arrival. received: QoS 2 identifiers received and not
    released. carried: those of them that are of an earlier connection and have not been sent again on this one. aliases: topic
    alias -> topic, at most ``topic_alias_maximum``. may_publish: None where every topic is allowed; else asked once for each
    run of packets with the same head, and for each packet that names its topic by alias alone. published: anything was taken.
    """

    number: int
    level: int
    published: bool
    session: str
    puback_ids: list[bytes]
    pubrec_ids: list[bytes]
    received: set[int]
    carried: set[int]
    aliases: dict[int, bytes]
    topic_alias_maximum: int
    may_publish: Callable[[bytes], bool] | None

    def forbid(self, qos: int, packet_id: bytes) -> None:
        """Owe a PUBLISH that may not be made its answer."""

    def refuse(self, qos: int, packet_id: bytes) -> None:
        """Owe a PUBLISH for which there is no room its answer."""


class BatchBuilder:
    """Gathers messages of many clients until they leave as one ``Batch``: at most ``rows_max`` rows and about ``bytes_max`` bytes.

    The limits are looked at between packets: the packet that reaches one is still taken. One builder lives as long as its
    Listener; it remembers topics and properties that it found valid (bounded in count and bytes). A PUBLISH larger than
    ``packet_max_bytes``, fixed header included, is refused before it is buffered, a topic beyond ``topic_limits`` where it is
    seen first, and so are more than ``properties_max`` properties. drop_reserved: drops what a client, by its number, publishes to
    a topic that begins with ``$`` if nobody may; whether it did. forbidden_take_room: what may not be published counts like a row
    where a run is to end, because clients' rates are limited. room: asked about each PUBLISH of QoS 1 or 2, by its client,
    packet identifier, QoS, topic and the bytes beside it: TAKE, WAIT (the run ends there) or REFUSE (it is owed its answer); None:
    there is room. wanted_bits: those of a first byte that are 0x30 in what is taken.
    """

    __slots__ = (
        "bytes_max",
        "drop_reserved",
        "flags",
        "forbidden_take_room",
        "known_properties",
        "known_topics",
        "other_bytes",
        "packet_max_bytes",
        "passed_rows",
        "payloads",
        "properties",
        "properties_max",
        "received_ids",
        "room",
        "rows_max",
        "sources",
        "topic_limits",
        "topic_of",
        "topics",
        "used_bytes",
        "wanted_bits",
    )

    def __init__(
        self,
        *,
        rows_max: int,
        bytes_max: int,
        packet_max_bytes: int = PACKET_BYTES_LIMIT,
        topic_limits: TopicLimits = NO_TOPIC_LIMITS,
        properties_max: int | None = None,
        drop_reserved: Callable[[int, bytes], bool] | None = None,
        forbidden_take_room: bool = False,
    ) -> None:
        assert 0 < rows_max <= ROWS_LIMIT
        assert bytes_max > 0
        self.rows_max = rows_max
        self.bytes_max = bytes_max
        self.packet_max_bytes = packet_max_bytes
        self.topic_limits = topic_limits
        self.properties_max = properties_max
        self.drop_reserved = drop_reserved
        self.forbidden_take_room = forbidden_take_room
        self.room: Callable[[PublishSource, bytes, int, bytes, int], int] | None = None
        self.wanted_bits = _TYPE_BITS
        self.known_topics: set[bytes] = set()
        self.known_properties: dict[bytes, PublishPropertiesView] = {}
        self.clear()

    def clear(self) -> None:
        """Begin the next batch."""
        self.topics: dict[bytes, int] = {}
        self.topic_of: list[int] = []
        self.flags = bytearray()
        self.payloads: list[bytes] = []
        self.properties: dict[int, bytes] = {}
        self.sources: array[int] = array("I")
        self.received_ids: dict[str, list[int]] = {}  # of QoS 2, new in this batch
        self.passed_rows = 0  # rows before this one have been passed if they are of QoS 0
        self.used_bytes = self.other_bytes = 0

    def __len__(self) -> int:
        return len(self.payloads)

    @property
    def full(self) -> bool:
        """Whether nothing more goes in before ``clear``."""
        return len(self.payloads) >= self.rows_max or self.used_bytes >= self.bytes_max

    def ask_for_room(self, room: Callable[[PublishSource, bytes, int, bytes, int], int] | None) -> None:
        """Ask ``room`` about each PUBLISH from now on; None: there is room."""
        self.room = room

    def take_only_qos_0(self, only: bool) -> None:
        """Whether a run ends in front of the first PUBLISH that is not of QoS 0."""
        self.wanted_bits = _QOS_0_BITS if only else _TYPE_BITS

    @property
    def received(self) -> dict[str, bytes]:
        """``received_ids``, each session's as a u16 column."""
        return {session: pack_column(array("H", packet_ids)) for session, packet_ids in self.received_ids.items()}

    def take_room(self, size_bytes: int) -> None:
        """Something else is kept until the batch is committed, and takes room in it like a message."""
        self.other_bytes += size_bytes
        self.used_bytes += size_bytes

    def sources_column(self) -> bytes:
        """Per row the number of the client it came from (u32 column)."""
        return pack_column(self.sources)

    def holds(self, source: int) -> bool:
        """Whether messages of ``source`` have not taken effect: nobody has been offered them, or the store is to retain them."""
        return source in self.sources and any(
            number == source and (flags & RETAIN or not flags & PASSED)
            for number, flags in zip(self.sources, self.flags, strict=True)
        )

    def build(self, accepted_ms: int) -> Batch:
        """The batch of all that was gathered; ``clear`` before gathering more."""
        return Batch(
            accepted_ms=accepted_ms,
            topics=list(self.topics),
            topic_of=array("H", self.topic_of),
            flags=bytes(self.flags),
            lengths=array("I", map(len, self.payloads)),
            payloads=b"".join(self.payloads),
            properties=self.properties,
        )

    def pass_on(self, accepted_ms: int) -> tuple[Batch, bytes] | None:
        """The messages of QoS 0 that were not passed before, and their sources as ``sources_column``; None if there are none.

        They stay, marked as ``PASSED``.
        """
        rows = [row for row in range(self.passed_rows, len(self)) if not self.flags[row] & (QOS_MASK | PASSED)]
        self.passed_rows = len(self)
        if not rows:
            return None
        topics, topic_of = self._topics_of(rows)
        payloads = [self.payloads[row] for row in rows]
        batch = Batch(
            accepted_ms=accepted_ms,
            topics=topics,
            topic_of=array("H", topic_of),
            flags=bytes([self.flags[row] for row in rows]),
            lengths=array("I", map(len, payloads)),
            payloads=b"".join(payloads),
            properties={new: self.properties[row] for new, row in enumerate(rows) if row in self.properties},
        )
        for row in rows:
            self.flags[row] |= PASSED
        return batch, pack_column(array("I", [self.sources[row] for row in rows]))

    def shed(self, wanted: Collection[int]) -> dict[int, int]:
        """Take out the messages of QoS 0 that have been passed, but for the rows ``wanted`` and what is retained by topic.

        Returns: the rows that are left, in order, and which rows they are now.
        """
        retained = {self.topic_of[row]: row for row, flags in enumerate(self.flags) if flags & RETAIN}
        kept = {*wanted, *retained.values()}
        gone = {row for row in range(self.passed_rows) if not self.flags[row] & QOS_MASK and row not in kept}
        left = [row for row in range(len(self)) if row not in gone]
        now = {old: new for new, old in enumerate(left)}
        if not gone:
            return now
        topics, self.topic_of = self._topics_of(left)
        self.topics = {topic: number for number, topic in enumerate(topics)}
        self.flags = bytearray([self.flags[row] for row in left])
        self.payloads = [self.payloads[row] for row in left]
        self.sources = array("I", [self.sources[row] for row in left])
        self.properties = {now[row]: raw for row, raw in self.properties.items() if row in now}
        self.passed_rows = sum(1 for row in left if row < self.passed_rows)
        self.used_bytes = self.other_bytes + self.build(0).size_bytes()
        return now

    def _topics_of(self, rows: Sequence[int]) -> tuple[list[bytes], list[int]]:
        """The topics of these rows and no others, and for each row the number of its topic among them."""
        topics = list(self.topics)
        numbers: dict[int, int] = {}
        topic_of = [numbers.setdefault(self.topic_of[row], len(numbers)) for row in rows]
        return [topics[number] for number in numbers], topic_of

    def add(self, topic: bytes, flags: int, payload: bytes, *, source: int, properties: bytes = b"") -> None:
        """Add one message whose topic is valid, such as a Will; also into a full builder, so look at ``full`` now and then."""
        row = len(self.payloads)
        assert row < ROWS_MAX, "the builder was never sent"
        self.topic_of.append(self.topics.setdefault(topic, len(self.topics)))
        self.flags.append(flags)
        self.payloads.append(payload)
        self.sources.append(source)
        if properties:
            self.properties[row] = properties
        self.used_bytes += len(topic) + len(payload) + len(properties)

    def admit(self, topic: bytes, client: PublishSource) -> bool:
        """Check a topic of a client that was not seen in this batch before; False for a reserved one, to which nobody may publish.

        Raises:
            PeerViolation: it is not a topic name (MQTT-3.3.2-1, MQTT-3.3.2-2, MQTT-4.7.3-1), or beyond the limits for one.
        """
        if topic in self.known_topics:
            return True
        self.topic_limits.check(check_topic(topic))
        if topic.startswith(b"$") and self.drop_reserved is not None and self.drop_reserved(client.number, topic):
            return False
        if len(topic) <= _KNOWN_BYTES_MAX:
            if len(self.known_topics) >= _KNOWN_TOPICS_MAX:
                self.known_topics.clear()
            self.known_topics.add(topic)
        return True

    def limit(self, rows_max: int, bytes_max: int) -> None:
        """It takes so much from here on."""
        self.rows_max, self.bytes_max = rows_max, bytes_max

    def limit_packets(self, packet_max_bytes: int, topics: TopicLimits, *, forbidden_take_room: bool) -> None:
        """Other packets and topics are valid from here on."""
        self.packet_max_bytes = packet_max_bytes
        self.topic_limits = topics
        self.forbidden_take_room = forbidden_take_room
        self.known_topics.clear()

    def view_properties(self, raw: bytes) -> PublishPropertiesView:
        """``validate_publish_properties``, which a publisher's messages mostly repeat."""
        view = self.known_properties.get(raw)
        if view is None:
            view = validate_publish_properties(raw, self.properties_max)
            if len(raw) <= _KNOWN_BYTES_MAX:
                if len(self.known_properties) >= _KNOWN_PROPERTIES_MAX:
                    self.known_properties.clear()
                self.known_properties[raw] = view
        return view


def parse_publishes(buffer: bytes, position: int, level: int, client: PublishSource, builder: BatchBuilder) -> int:
    """Move the PUBLISH packets that stand at ``position`` into ``builder``; the position of the first byte not taken.

    It stops at a packet that is not all there or not a PUBLISH, and when ``builder`` is full. A QoS 2 message whose identifier is
    received already is answered again and not taken again, whatever its DUP says (MQTT-4.3.3-10).

    Raises:
        PeerViolation: a packet is malformed, too large, or says what it must not. The packets in front of it are in ``builder``,
            and nothing of it is.
    """
    topics, topic_of, flags, payloads = builder.topics, builder.topic_of, builder.flags, builder.payloads
    puback_ids, pubrec_ids, received = client.puback_ids, client.pubrec_ids, client.received
    received_ids: list[int] | None = None
    has_properties = level >= MQTT_5_0
    begin, available = position, len(buffer)
    stop = min(available, position + builder.bytes_max - builder.used_bytes)
    row = first_row = len(payloads)
    rows_max, packet_max_bytes, wanted_bits = builder.rows_max, builder.packet_max_bytes, builder.wanted_bits
    admit, may_publish, room = builder.admit, client.may_publish, builder.room
    # The head of a packet, taken apart; kept while packets begin with the same bytes.
    head = b""
    head_bytes = packet_bytes = qos = flag = 0
    topic, topic_index = b"", -1
    try:
        while position < stop and row < rows_max:
            if not head or not buffer.startswith(head, position):
                first_byte = buffer[position]
                if first_byte & wanted_bits != 0x30:
                    break
                start = position + 3
                if start <= available and buffer[position + 1] > 0x7F and 0 < buffer[position + 2] < 0x80:  # mostly two bytes
                    length = buffer[position + 1] & 0x7F | buffer[position + 2] << 7
                else:
                    read = read_variable_byte_integer(buffer, position + 1, available)
                    if read is None:
                        break
                    length, start = read
                packet_bytes = start + length - position
                if packet_bytes > packet_max_bytes:
                    _refuse_large(packet_bytes)
                end = position + packet_bytes
                if end > available:
                    break
                qos = first_byte >> 1 & 3
                if qos == 3:
                    malformed("MQTT-3.3.1-4 QoS 3")
                if first_byte & 0x0E == 0x08:
                    malformed("MQTT-3.3.1-2 DUP at QoS 0")
                if length < 2:
                    malformed("MQTT-2.1.4 a field goes on behind the end of the packet")
                topic_end = start + 2 + (buffer[start] << 8 | buffer[start + 1])
                if topic_end + (2 if qos else 0) + has_properties > end:
                    malformed("MQTT-2.1.4 a field goes on behind the end of the packet")
                topic = buffer[start + 2 : topic_end]
                topic_index = topics.get(topic, -1)
                if topic:
                    head = buffer[position:topic_end]
                    if (topic_index < 0 and not admit(topic, client)) or (may_publish is not None and not may_publish(topic)):
                        _forbid(buffer, topic_end, end, qos, topic, client, builder, has_properties)
                        head, position = b"", end
                        rows_max -= builder.forbidden_take_room
                        continue
                else:  # by its alias, if at all
                    head = b""
                    if not has_properties:
                        malformed("MQTT-4.7.3-1 empty topic name")
                head_bytes = topic_end - position
                flag = qos | (RETAIN if first_byte & 1 else 0)
            else:
                end = position + packet_bytes
                if end > available:
                    break

            at = position + head_bytes
            if qos:
                packet_id = buffer[at : at + 2]
                if packet_id == _NO_ID:
                    protocol_error("MQTT-2.2.1-3 packet identifier 0")
                at += 2
            forwardable = b""
            if has_properties:
                if buffer[at] or not topic:
                    at, forwardable, topic = _read_properties(buffer, at, end, topic, client, builder)
                    if not head:
                        topic_index = topics.get(topic, -1)
                        if (topic_index < 0 and not admit(topic, client)) or (may_publish is not None and not may_publish(topic)):
                            client.forbid(qos, packet_id if qos else b"")
                            position = end
                            rows_max -= builder.forbidden_take_room
                            continue
                else:
                    at += 1

            if room is not None and qos and (verdict := room(client, packet_id, qos, topic, len(forwardable) + end - at)):
                if verdict == WAIT:
                    break
                position = end
                rows_max -= builder.forbidden_take_room
                continue
            if qos == 1:
                puback_ids.append(packet_id)
            elif qos == 2:
                pubrec_ids.append(packet_id)
                number = packet_id[0] << 8 | packet_id[1]
                if number in received:
                    client.carried.discard(number)
                    position = end
                    continue
                received.add(number)
                if received_ids is None:
                    received_ids = builder.received_ids.setdefault(client.session, [])
                received_ids.append(number)
            if topic_index < 0:
                topic_index = topics[topic] = len(topics)
            if forwardable:
                builder.properties[row] = forwardable
            topic_of.append(topic_index)
            flags.append(flag)
            payloads.append(buffer[at:end])
            row += 1
            position = end
    finally:
        builder.sources.extend(array("I", (client.number,)) * (row - first_row))
        builder.used_bytes += position - begin
        client.published |= row > first_row
    return position


def _forbid(
    buffer: bytes,
    at: int,
    end: int,
    qos: int,
    topic: bytes,
    client: PublishSource,
    builder: BatchBuilder,
    has_properties: bool,
) -> None:
    """Check a PUBLISH that its client may not make like any other, behind its topic, and owe it its answer."""
    packet_id = buffer[at : at + 2] if qos else b""
    if packet_id == _NO_ID:
        protocol_error("MQTT-2.2.1-3 packet identifier 0")
    if has_properties:
        _read_properties(buffer, at + len(packet_id), end, topic, client, builder)
    client.forbid(qos, packet_id)


def _read_properties(
    buffer: bytes, at: int, end: int, topic: bytes, client: PublishSource, builder: BatchBuilder
) -> tuple[int, bytes, bytes]:
    """The start of the payload, the properties to forward, and the topic, by its alias if it came without."""
    read = read_variable_byte_integer(buffer, at, end)
    if read is None or read[0] + read[1] > end:
        malformed("MQTT-2.1.4 the properties go on behind the end of the packet")
    length, start = read
    view = builder.view_properties(buffer[start : start + length])
    if view.subscription_identifiers:
        protocol_error("MQTT-3.3.4-6 subscription identifier from a client")
    alias = view.topic_alias
    if alias is None:
        if not topic:
            protocol_error("MQTT-3.3.2.1 empty topic name without a topic alias")
    elif alias > client.topic_alias_maximum:
        raise PeerViolation("MQTT-3.3.2-9 topic alias above the maximum", reason_code=ReasonCode.TOPIC_ALIAS_INVALID, alias=alias)
    elif topic:
        client.aliases[alias] = topic
    elif alias in client.aliases:
        topic = client.aliases[alias]
    else:
        protocol_error("MQTT-3.3.2.3.4 topic alias that was not given a topic", alias=alias)
    return start + length, view.forwardable, topic


def _refuse_large(packet_bytes: int) -> None:
    raise PeerViolation(
        "MQTT-3.1.2-24 packet larger than the maximum packet size",
        reason_code=ReasonCode.PACKET_TOO_LARGE,
        packet_bytes=packet_bytes,
    )
