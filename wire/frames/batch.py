"""The batch: PUBLISHes in columns, the one form a message has between the sockets.

A batch crosses process borders and reaches the disk as one msgpack array, so that nothing on the path of a message is done per
message that can be done per batch. This module owns that form and the operations on whole columns; who puts what into a batch
is the business of the Listener, the Distributor and the Forwarder.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import NamedTuple

import msgpack

from wire.errors import UnknownFrame

BATCH_VERSION = 1

# One byte of flags a row.
QOS_MASK = 0b0000_0011
RETAIN = 0b0000_0100
PASSED = 0b0000_1000  # of QoS 0, and delivered before its batch left: live subscribers have had it
RAISED = 0b0001_0000  # in the queue of a bridge: the rule that took it has raised its QoS
UNPROMISED = 0b0010_0000  # of that, what came at QoS 0: nobody waits for an answer, and a full queue drops it

# For ``bytes.translate`` of a flags column: nothing but the QoS, nothing but RETAIN, nothing but what a rule has raised.
QOS_ONLY = bytes(flags & QOS_MASK for flags in range(256))
RETAIN_ONLY = bytes(flags & RETAIN for flags in range(256))
_RAISES = bytes(flags & (RAISED | UNPROMISED) for flags in range(256))

NO_ROUTE = -1
HEAD_BYTES = 512  # what a batch begins with is hardly ever longer

ROWS_MAX = 65_535  # a row number fits an unsigned 16-bit column
_BIG_ENDIAN = sys.byteorder == "big"
_pack = msgpack.Packer().pack  # one that is kept costs half of one that is made each time; but it keeps the room of its largest
KEPT_PACKER_BYTES_MAX = 65_536


def applied_qos_table(max_qos: int, kept: int = RETAIN, *, min_qos: int = 0) -> bytes:
    """For ``bytes.translate``: QoS from ``min_qos`` to ``max_qos``, the flags in ``kept`` as they are; what is raised is marked."""
    return bytes(max(min(flags & QOS_MASK, max_qos), min_qos) | flags & kept | _raised(flags, min_qos) for flags in range(256))


def _raised(flags: int, min_qos: int) -> int:
    """RAISED of a message that comes with less than ``min_qos``, UNPROMISED of one that comes at QoS 0 then."""
    qos = flags & QOS_MASK
    return 0 if qos >= min_qos else RAISED if qos else RAISED | UNPROMISED


def is_promised(flags: int) -> bool:
    """Whether a row in a bridge's queue was acknowledged to its publisher: it came at QoS 1 or 2, and is not lowered to 0."""
    return bool(flags & QOS_MASK and not flags & UNPROMISED)


def raised_rows(flags: bytes) -> tuple[int, int]:
    """How many rows a rule has raised, and how many of those came at QoS 0."""
    marks = flags.translate(_RAISES)
    return len(marks) - marks.count(0), marks.count(RAISED | UNPROMISED)


def _swapped(column: array[int]) -> bytes:
    column = array(column.typecode, column)
    column.byteswap()
    return column.tobytes()


pack_column: Callable[[array[int]], bytes] = _swapped if _BIG_ENDIAN else array.tobytes  # little endian on every machine


def unpack_column(typecode: str, data: bytes) -> array[int]:
    """The column that ``pack_column`` made; ``typecode`` is ``H`` (16 bit), ``I`` (32 bit) or ``Q`` (64 bit)."""
    column = array(typecode, data)
    if _BIG_ENDIAN:
        column.byteswap()
    return column


@dataclass(slots=True)
class Batch:
    """PUBLISHes in columns; row ``i`` of each column belongs to message ``i``.

    topics: the distinct topic names, UTF-8. routes: the distinct routes of the rows, encoded (``wire/routing/routes.py``).
    way_of: for each of ``topics`` an index into ``routes``, ``NO_ROUTE`` where no row needs one; both are empty before routing.
    topic_of: per row an index into ``topics`` (u16). flags: per row QoS, RETAIN, and PASSED or RAISED. lengths: per row payload
    bytes (u32). payloads: all payloads joined. properties: sparse, row -> encoded MQTT 5 properties without length prefix.
    topic_properties: per distinct topic the properties of its rows that have none of their own (empty list: none have any).
    accepted_ms: UTC epoch when the Listener took the batch; message expiry counts from it.
    """

    accepted_ms: int
    topics: list[bytes]
    topic_of: array[int]
    flags: bytes
    lengths: array[int]
    payloads: bytes
    routes: list[bytes] = field(default_factory=list)
    route_of: list[int] = field(default_factory=list)
    properties: dict[int, bytes] = field(default_factory=dict)
    topic_properties: list[bytes] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.flags)

    def encode(self) -> bytes:
        """The batch as one msgpack array, version first."""
        pack = _pack if len(self.payloads) <= KEPT_PACKER_BYTES_MAX else msgpack.packb
        packed: bytes = pack(
            (
                BATCH_VERSION,
                self.accepted_ms,
                self.routes,
                self.topics,
                self.route_of,
                pack_column(self.topic_of),
                self.flags,
                pack_column(self.lengths),
                self.payloads,
                self.properties,
                self.topic_properties,
            )
        )
        return packed

    @classmethod
    def decode(cls, data: bytes) -> Batch:
        """The batch that ``encode`` made.

        Raises:
            UnknownFrame: it was written by a version this build does not know.
        """
        version, accepted_ms, routes, topics, route_of, topic_of, flags, lengths, payloads, properties, common = msgpack.unpackb(
            data, strict_map_key=False, max_bin_len=len(data)
        )
        if version != BATCH_VERSION:
            raise UnknownFrame("batch of an unknown version", version=version)
        return cls(
            accepted_ms=accepted_ms,
            topics=topics,
            routes=routes,
            route_of=route_of,
            topic_of=unpack_column("H", topic_of),
            flags=flags,
            lengths=unpack_column("I", lengths),
            payloads=payloads,
            properties=properties,
            topic_properties=common,
        )

    def content_keys(self) -> list[int]:
        """Of each row a number that stands for its topic and payload. It is made with a secret of this process: nobody can find two
        that have the same.
        """
        ends = pairwise(accumulate(self.lengths, initial=0))
        return [
            hash((self.topics[topic], self.payloads[begin:end])) for topic, (begin, end) in zip(self.topic_of, ends, strict=True)
        ]

    def select(self, rows: Sequence[int]) -> Batch:
        """A batch of just ``rows``, in that order, each as often as it is named; topics keep their numbers."""
        ends = list(accumulate(self.lengths, initial=0))
        payloads = self.payloads
        known = self.properties
        return Batch(
            accepted_ms=self.accepted_ms,
            topics=self.topics,
            routes=self.routes,
            route_of=self.route_of,
            topic_of=array("H", [self.topic_of[row] for row in rows]),
            flags=bytes([self.flags[row] for row in rows]),
            lengths=array("I", [self.lengths[row] for row in rows]),
            payloads=b"".join([payloads[ends[row] : ends[row + 1]] for row in rows]),
            properties={new: known[old] for new, old in enumerate(rows) if old in known} if known else {},
            topic_properties=self.topic_properties,
        )

    def take_route(self, route: bytes) -> None:
        """All rows have this route, encoded."""
        self.routes, self.route_of = [route], [0] * len(self.topics)

    def change_flags(self, start: int, flags: bytes) -> None:
        """The rows from ``start`` on have these."""
        self.flags = self.flags[:start] + flags + self.flags[start + len(flags) :]

    def routes_of_topics(self) -> list[bytes]:
        """For each of ``topics`` its route, encoded; empty where it has none."""
        if not self.route_of:
            return [b""] * len(self.topics)
        return [self.routes[index] if index != NO_ROUTE else b"" for index in self.route_of]

    def rows_payloads(self) -> list[bytes]:
        """The payloads one by one."""
        payloads = self.payloads
        ends = list(accumulate(self.lengths, initial=0))
        return [payloads[start:end] for start, end in pairwise(ends)]

    def size_bytes(self) -> int:
        """Payload, topic and property bytes: what limits in bytes count."""
        if len(self.topics) == 1:
            topics_bytes = len(self.topics[0]) * len(self.flags)
        else:
            per_topic = [len(topic) for topic in self.topics]
            topics_bytes = sum([per_topic[index] for index in self.topic_of])
        properties_bytes = sum(map(len, self.properties.values())) if self.properties else 0
        return len(self.payloads) + topics_bytes + properties_bytes


def from_rows(rows: Iterable[tuple[bytes, int, bytes]], *, accepted_ms: int = 0) -> Batch:
    """A batch from (topic, flags, payload) rows; for tools and tests, not for the path of a message."""
    topics: dict[bytes, int] = {}
    topic_of, flags, lengths, payloads = array("H"), bytearray(), array("I"), []
    for topic, flag, payload in rows:
        topic_of.append(topics.setdefault(topic, len(topics)))
        flags.append(flag)
        lengths.append(len(payload))
        payloads.append(payload)
    return Batch(
        accepted_ms=accepted_ms,
        topics=list(topics),
        topic_of=topic_of,
        flags=bytes(flags),
        lengths=lengths,
        payloads=b"".join(payloads),
    )


def route_columns(of_topics: Sequence[bytes]) -> tuple[list[bytes], list[int]]:
    """The columns ``routes`` and ``route_of`` of topics with these routes, each encoded or empty for none."""
    if len(of_topics) == 1:
        return ([of_topics[0]], [0]) if of_topics[0] else ([], [])
    routes = [route for route in dict.fromkeys(of_topics) if route]
    if not routes:
        return [], []
    places = {b"": NO_ROUTE, **{route: place for place, route in enumerate(routes)}}
    return routes, [places[route] for route in of_topics]


class Head(NamedTuple):
    """The first fields of an encoded batch."""

    accepted_ms: int
    routes: list[bytes]


def head_of(data: bytes) -> Head:
    """``accepted_ms`` and ``routes`` of an encoded batch, without decoding the rest.

    Raises:
        UnknownFrame: it is no batch, or one of a version this build does not know.
    """
    try:
        try:
            version, head = _unpack_head(data[:HEAD_BYTES])
        except msgpack.OutOfData:
            version, head = _unpack_head(data)
    except (ValueError, msgpack.UnpackException) as error:
        raise UnknownFrame("not a batch", length=len(data)) from error
    if version != BATCH_VERSION or type(head.accepted_ms) is not int or type(head.routes) is not list:
        raise UnknownFrame("batch of an unknown version", version=version)
    return head


def _unpack_head(data: bytes) -> tuple[object, Head]:
    unpacker = msgpack.Unpacker(max_buffer_size=0)
    unpacker.feed(data)
    unpacker.read_array_header()
    return unpacker.unpack(), Head(unpacker.unpack(), unpacker.unpack())


def concat(batches: Sequence[Batch]) -> Batch:
    """The rows of ``batches``, one after the other, as one batch; its ``accepted_ms`` is the earliest of theirs.

    The caller sees to it that there are at most ``ROWS_MAX`` rows.
    """
    numbers: dict[tuple[bytes, bytes], int] = {}
    topic_of, lengths, properties = array("H"), array("I"), {}
    row = 0
    for batch in batches:
        renumbered = [numbers.setdefault(topic, len(numbers)) for topic in zip(batch.topics, batch.routes_of_topics(), strict=True)]
        topic_of.extend([renumbered[topic] for topic in batch.topic_of])
        lengths.extend(batch.lengths)
        for of_row, encoded in batch.properties.items():
            properties[row + of_row] = encoded
        row += len(batch)
    routes, route_of = route_columns([route for _, route in numbers])
    return Batch(
        accepted_ms=min(batch.accepted_ms for batch in batches),
        topics=[topic for topic, _ in numbers],
        topic_of=topic_of,
        flags=b"".join([batch.flags for batch in batches]),
        lengths=lengths,
        payloads=b"".join([batch.payloads for batch in batches]),
        routes=routes,
        route_of=route_of,
        properties=properties,
    )
