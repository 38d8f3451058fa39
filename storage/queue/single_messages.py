"""Single messages, for the few who look at them one by one: the dead-letter queue and the operator. Never on a message's path."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

from storage.queue.chunk import Chunk
from wire.frames.batch import Batch, route_columns
from wire.ranges import RangeSet


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
