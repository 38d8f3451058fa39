"""The tail of a queue: batches become chunks, go into the open write, and count once that is committed.

It notes by which routes the messages of the queue go (``wire/routing/routes.py``), and up to where: so that ``status`` can tell of
rules that are gone. The destination of a message is never looked up here: its chunk has that.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from functools import partial
from typing import Protocol

from storage.engine.engine import Write
from storage.engine.keys import chunk_key
from storage.queue.chunk import Chunk
from storage.queue.hand_out_cursor import Cursor
from storage.queue.ledger import LedgerRow, RoutesRow
from storage.queue.settled_ranges import Settled
from wire.config_settings import RuleSettings
from wire.frames.batch import QOS_MASK, Batch, head_of
from wire.ranges import RangeSet
from wire.routing.message_route import MessageRoute, kind_of_route
from wire.status.bridges import FormerRule
from wire.status.loss_reasons import Loss


class QueuedRoutes:
    """For each encoded route of a message that may be in the queue (``kind_of_route``), the sequence after the last of them."""

    def __init__(self, row: RoutesRow = ()) -> None:
        self._stops = dict(row)

    def take(self, routes: Iterable[bytes], stop: int) -> None:
        """Messages that end at ``stop`` go by ``routes``."""
        for route in routes:
            self._stops[route if route in self._stops else kind_of_route(route)] = stop

    def row(self, head: int) -> RoutesRow:
        """The record to write: the routes of messages at or above ``head``. The others are forgotten."""
        rows = tuple(self._stops.items())
        for _, stop in rows:
            if stop <= head:
                self._stops = {route: stop for route, stop in rows if stop > head}
                return tuple(self._stops.items())
        return rows


class WithRoutes(Protocol):
    """A queue."""

    routes: QueuedRoutes
    settled: RangeSet

    @property
    def head(self) -> int: ...

    @property
    def tail(self) -> int: ...

    @property
    def depth(self) -> int: ...


def former_rules(queue: WithRoutes, rules: Iterable[RuleSettings]) -> tuple[FormerRule, ...]:
    """The rules of messages in ``queue`` that are not in the file any more, or say something else now, as ``status`` tells of them.

    rules: those that are in the file. messages: at most so many wait, since others may be among them.
    """
    configured = {MessageRoute.of(rule).encode() for rule in rules}
    rows = []
    for encoded, stop in queue.routes.row(queue.head):
        waiting = queue.settled.missing(queue.head, min(stop, queue.tail))
        messages = min(queue.depth, sum(high - low for low, high in waiting))
        if messages and encoded not in configured:
            route = MessageRoute.decode(encoded)
            rows.append(FormerRule(rule=route.rule, destination=route.destination, messages=messages))
    return tuple(rows)


class Tail:
    """The end of one queue, once everything appended is committed.

    queue.sequence-never-reused [P2, P3]: the sequence of a durable message is never reused, not even after a crash.
    queue.chunk-with-its-tail [P1, P3]: a chunk and the tail that covers it land in the same write.

    seq: one past the last message. size_bytes: of all stored messages that were ever appended. ways: by which they go.
    """

    def __init__(self, number: int, row: LedgerRow, cursor: Cursor, settled: Settled, *, all_stored: bool) -> None:
        """all_stored: QoS 0 is stored with the rest."""
        self.seq = row.tail
        self.size_bytes = row.tail_bytes
        self.routes = QueuedRoutes(row.routes)
        self._number = number
        self._cursor = cursor
        self._settled = settled
        self._all_stored = all_stored

    def append(self, body: bytes, count: int, size_bytes: int, qos0: int, write: Write) -> range:
        """Add the batch ``body`` to ``write``: its sequences count once ``write`` is committed, and not before.

        count: its rows, qos0: how many of them are QoS 0.
        """
        first_seq, self.seq = self.seq, self.seq + count
        accepted_ms, routes = head_of(body)
        stored: Chunk | None
        apart: Chunk | None = None
        if qos0 and qos0 < count and not self._all_stored:
            stored, apart = _apart(body, first_seq, size_bytes, accepted_ms, self.size_bytes)
        else:
            stored = Chunk(
                first_seq=first_seq,
                span=count,
                count=count,
                size_bytes=size_bytes,
                accepted_ms=accepted_ms,
                body=body,
                qos0=qos0,
                bytes_before=self.size_bytes,
            )
            if qos0 and not self._all_stored:
                stored, apart = None, stored
        if routes:
            self.routes.take(routes, self.seq)
        self._settled.accept(stored.count if stored is not None else 0, apart.count if apart is not None else 0)
        if stored is not None:
            write.put("msg", chunk_key(self._number, first_seq), stored.encode())
            self.size_bytes += stored.size_bytes
        write.on_commit(partial(self._cursor.on_committed, self.seq, stored, None if apart is None else body))
        if apart is not None:
            write.on_commit(partial(self._keep, apart))
        return range(first_seq, self.seq)

    def _keep(self, apart: Chunk) -> None:
        self._settled.end(Loss.QOS0_MEMORY.dropped, 0, self._cursor.qos0.add(apart, self._settled, self._cursor.seq))

    def lose(self, tail: int) -> None:
        """The sequences up to ``tail`` were used, and what was there is lost."""
        self.seq = tail


def _apart(body: bytes, first_seq: int, size_bytes: int, accepted_ms: int, bytes_before: int) -> tuple[Chunk, Chunk]:
    """The rows of QoS 1 and 2, and those of QoS 0, each with the span of the whole batch."""
    batch = Batch.decode(body)
    halves: list[Chunk] = []
    for of_qos0 in (False, True):
        rows = array("I", [row for row, flags in enumerate(batch.flags) if (not flags & QOS_MASK) == of_qos0])
        half = batch.select(rows)
        half_bytes = half.size_bytes() if not of_qos0 else size_bytes - halves[0].size_bytes
        halves.append(
            Chunk(
                first_seq=first_seq,
                span=len(batch),
                count=len(rows),
                qos0=len(rows) if of_qos0 else 0,
                bytes_before=bytes_before,
                size_bytes=half_bytes,
                accepted_ms=accepted_ms,
                offsets=rows,
                body=half.encode(),
            )
        )
    return halves[0], halves[1]
