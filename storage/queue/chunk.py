"""The chunk: what the store keeps of one batch. A fixed header with version and checksum, then the batch's own bytes.

The header is little endian: version u8, flags u8, rows u32, span u32, QoS 0 rows u32, first sequence u64, bytes of the
queue before this chunk u64, bytes of this chunk u64, accepted_ms u64, CRC-32 u32 of all else. If ``flags`` has SPARSE, a column
of offsets (u32) comes before the batch: row ``i`` has sequence ``first_seq + offsets[i]``; what is in between is not in this chunk.

Its single messages are for the few who look at them one by one, the dead-letter queue and the operator: never on a message's path.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from zlib import crc32

from wire.errors import ConfigError, StorageDamaged
from wire.frames.batch import Batch, pack_column, route_columns, unpack_column
from wire.ranges import RangeSet

Left = list[tuple[int, int]]  # of what has left a queue: when it was accepted (UTC epoch in ms), and how many messages
Place = tuple[int, int]  # where a chunk begins, and the stored bytes of the queue before it

CHUNK_VERSION = 1
SPARSE = 0b0000_0001

_HEAD = struct.Struct("<BBIIIQQQQ")
_CHECK = struct.Struct("<I")
HEADER_BYTES = _HEAD.size + _CHECK.size


class Chunk:
    """One batch of a queue: the sequences ``[first_seq, first_seq + span)``, ``count`` of which are in it.

    It is kept in this form, and handed out in it, whole or what is left of it: then the last two are of no use.

    size_bytes: what limits count. accepted_ms: UTC epoch. offsets: None for all of the span. qos0: how many rows are QoS 0.
    bytes_before: durable bytes of the queue before this chunk.
    """

    __slots__ = ("accepted_ms", "body", "bytes_before", "count", "first_seq", "offsets", "qos0", "size_bytes", "span")

    def __init__(
        self,
        *,
        first_seq: int,
        span: int,
        count: int,
        size_bytes: int,
        accepted_ms: int,
        body: bytes,
        offsets: array[int] | None = None,
        qos0: int = 0,
        bytes_before: int = 0,
    ) -> None:
        self.first_seq = first_seq
        self.span = span
        self.count = count
        self.qos0 = qos0
        self.bytes_before = bytes_before
        self.size_bytes = size_bytes
        self.accepted_ms = accepted_ms
        self.offsets = offsets
        self.body = body

    @property
    def stop(self) -> int:
        """One past the last sequence."""
        return self.first_seq + self.span

    def rows_in(self, start: int, stop: int) -> int:
        """How many rows have a sequence in ``[start, stop)``."""
        return rows_in(self.first_seq, self.stop, self.offsets, start, stop)

    def seqs(self) -> list[int]:
        """The sequence of each row."""
        if self.offsets is None:
            return list(range(self.first_seq, self.stop))
        return [self.first_seq + offset for offset in self.offsets]

    def encode(self) -> bytes:
        """The value to store."""
        flags = 0 if self.offsets is None else SPARSE
        head = _HEAD.pack(
            CHUNK_VERSION,
            flags,
            self.count,
            self.span,
            self.qos0,
            self.first_seq,
            self.bytes_before,
            self.size_bytes,
            self.accepted_ms,
        )
        column = b"" if self.offsets is None else pack_column(self.offsets)
        check = crc32(self.body, crc32(head + column))
        return b"".join((head, _CHECK.pack(check), column, self.body))

    @classmethod
    def decode(cls, value: bytes, *, queue: str, seq: int) -> Chunk:
        """The chunk that ``encode`` made; ``queue`` and ``seq`` are for the error.

        Raises:
            StorageDamaged: it is not what was written.
            ConfigError: a newer build wrote it.
        """
        if len(value) < HEADER_BYTES:
            raise StorageDamaged("a chunk is cut short", queue=queue, seq=seq)
        view = memoryview(value)
        (check,) = _CHECK.unpack_from(value, _HEAD.size)
        if crc32(view[HEADER_BYTES:], crc32(view[: _HEAD.size])) != check:
            raise StorageDamaged("a chunk is damaged", queue=queue, seq=seq)
        version, flags, count, span, qos0, first_seq, bytes_before, size_bytes, accepted_ms = _HEAD.unpack_from(value)
        if version != CHUNK_VERSION:
            raise ConfigError("a chunk was written by a newer version", queue=queue, seq=seq, version=version)
        if first_seq != seq:
            raise StorageDamaged("a chunk is not where it belongs", queue=queue, seq=seq, first_seq=first_seq)
        body_at = HEADER_BYTES + (4 * count if flags & SPARSE else 0)
        return cls(
            first_seq=first_seq,
            span=span,
            count=count,
            qos0=qos0,
            bytes_before=bytes_before,
            size_bytes=size_bytes,
            accepted_ms=accepted_ms,
            offsets=unpack_column("I", value[HEADER_BYTES:body_at]) if flags & SPARSE else None,
            body=value[body_at:],
        )


def claimed_span(value: bytes, seq: int) -> tuple[int, int] | None:
    """The header of a damaged chunk at ``seq``: one past its last sequence, and its rows; None if it makes no sense.

    The header has no checksum of its own: whoever asks compares the answer with what stands behind the chunk.
    """
    if len(value) < HEADER_BYTES:
        return None
    version, flags, count, span, qos0, first_seq, *_ = _HEAD.unpack_from(value)
    if version != CHUNK_VERSION or first_seq != seq or flags not in (0, SPARSE) or not 0 < count <= span or qos0 > count:
        return None
    return (seq + span, count) if flags == SPARSE or count == span else None


def rows_in(first_seq: int, stop_seq: int, offsets: array[int] | None, start: int, stop: int) -> int:
    """How many rows of ``[first_seq, stop_seq)``, thinned out by ``offsets``, have a sequence in ``[start, stop)``."""
    if offsets is None:
        return max(0, min(stop, stop_seq) - max(start, first_seq))
    return bisect_left(offsets, stop - first_seq) - bisect_left(offsets, start - first_seq)


@dataclass(frozen=True, slots=True)
class Message:
    """One message as the queue has it. ``properties``: encoded, without their length; ``route``: encoded, empty for none."""

    seq: int
    topic: bytes
    payload: bytes
    flags: int
    properties: bytes
    route: bytes
    accepted_ms: int

    @property
    def size_bytes(self) -> int:
        """The bytes that count for limits."""
        return len(self.topic) + len(self.payload) + len(self.properties)


def rows_of(chunk: Chunk, start: int, stop: int, settled: RangeSet) -> Iterator[Message]:
    """The messages of ``chunk`` in ``[start, stop)`` that are not ``settled``, in order; a chunk without any is not decoded."""
    wanted = settled.missing(max(start, chunk.first_seq), min(stop, chunk.stop))
    if chunk.offsets is None:
        rows = [(seq - chunk.first_seq, seq) for low, high in wanted for seq in range(low, high)]
    else:
        rows = [(row, seq) for low, high in wanted for row, seq in enumerate(chunk.seqs()) if low <= seq < high]
    if not rows:
        return
    batch = Batch.decode(chunk.body)
    routes = batch.routes_of_topics()
    ends = list(accumulate(batch.lengths, initial=0))
    for row, seq in rows:
        topic = batch.topic_of[row]
        properties = batch.properties.get(row)
        if properties is None:
            properties = batch.topic_properties[topic] if batch.topic_properties else b""
        yield Message(
            seq=seq,
            topic=batch.topics[topic],
            payload=batch.payloads[ends[row] : ends[row + 1]],
            flags=batch.flags[row],
            properties=properties,
            route=routes[topic],
            accepted_ms=batch.accepted_ms,
        )


def batch_of(messages: list[Message], *, accepted_ms: int) -> Batch:
    """A batch of ``messages`` that counts from ``accepted_ms`` on."""
    numbers: dict[tuple[bytes, bytes], int] = {}
    topic_of = array("H", [numbers.setdefault((message.topic, message.route), len(numbers)) for message in messages])
    routes, route_of = route_columns([route for _, route in numbers])
    return Batch(
        accepted_ms=accepted_ms,
        topics=[topic for topic, _ in numbers],
        topic_of=topic_of,
        flags=bytes([message.flags for message in messages]),
        lengths=array("I", [len(message.payload) for message in messages]),
        payloads=b"".join([message.payload for message in messages]),
        routes=routes,
        route_of=route_of,
        properties={row: message.properties for row, message in enumerate(messages) if message.properties},
    )
