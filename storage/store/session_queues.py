"""The queues of local clients' sessions: they come and go with their sessions, and what is in them counts for the node's limits.

Counts of the messages that left with their queues are one row, so that no count falls when a session ends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Set
from functools import partial

import msgpack

from storage.engine.engine import Engine
from storage.engine.keys import GONE, chunk_key, lane_key
from storage.engine.queue_numbers import QueueNumbers
from storage.store.lane import Lane
from storage.store.lanes import Lanes
from storage.store.next_commit import NextCommit
from wire.frames.batch import QOS_ONLY, Batch, raised_rows
from wire.frames.names import session_queue_name
from wire.frames.subscriptions import PIECE_BYTES, PIECE_MESSAGES
from wire.status.loss_reasons import Loss
from wire.status.store import SessionQueueFigures


class SessionQueues:
    """Makes and removes them with the next commit.

    messages, size_bytes: in all of them, as of the last ``count`` and what was added since.
    """

    def __init__(
        self,
        engine: Engine,
        lanes: Lanes,
        numbers: QueueNumbers,
        next_commit: NextCommit,
        *,
        epoch: int,
    ) -> None:
        """epoch: of the store."""
        self.messages = self.size_bytes = 0
        self._lanes = lanes
        self._numbers = numbers
        self._next = next_commit
        self._first_life = 0 if engine.durable else epoch << 32  # numbers begin again, names do not
        self._gone: Counter[str] = Counter(msgpack.unpackb(engine.get("meta", GONE) or b"\x80"))

    def __iter__(self) -> Iterator[Lane]:
        return (lane for lane in self._lanes.all.values() if not lane.bridge)

    @property
    def changed(self) -> Set[str]:
        """Those of which something has changed since the last commit, among others."""
        return self._lanes.changed.keys()

    def make(self, session: str) -> str:
        """A new, empty queue for ``session``; its name."""
        name = self._numbers.new(lambda number: session_queue_name(self._first_life + number, session), self._next.write)
        self._lanes.open(name)
        return name

    def remove(self, name: str) -> int:
        """The queue goes; how many messages were in it."""
        lane = self._lanes.remove(name)
        if lane is None:
            return 0
        left = Counter({**lane.queue.ledger.dropped, Loss.LEFT: 0})
        left[Loss.SESSION_ENDED] += lane.queue.depth
        self.count_left(+left)
        write = self._next.write
        number = self._numbers.forget(name, write)
        write.delete("meta", lane_key(number))
        write.delete_range("msg", chunk_key(number, 0), chunk_key(number + 1, 0))
        return lane.queue.depth

    def count_left(self, left: Mapping[str, int]) -> None:
        """So many messages have left the queues of sessions that have ended; on record with the open write."""
        if left:
            self._gone.update(left)
            self._next.write.put("meta", GONE, msgpack.packb(dict(self._gone)))

    def lane(self, name: str) -> Lane | None:
        """The queue, if it is there and can be appended to."""
        lane = self._lanes.all.get(name)
        return None if lane is None or lane.is_unreadable else lane

    def has_room(self, name: str) -> bool:
        """Whether little waits in the queue, so that its taker takes as much as it is given; an empty one always has room, if the
        link of a lane stands.
        """
        lane = self.lane(name)
        if lane is None or (lane.bridge and not lane.has_credit):
            return False
        limits, queue = lane.limits, lane.queue
        messages, size_bytes = limits.max_messages or PIECE_MESSAGES, limits.max_bytes or PIECE_BYTES
        return queue.depth < min(PIECE_MESSAGES, max(1, messages // 2)) and queue.size_bytes < min(PIECE_BYTES, size_bytes // 2)

    def put(self, name: str, batch: Batch) -> None:
        """Append ``batch`` of what is retained, whatever the limits say: who asks for it waits until the queue has room.

        A session's has QoS 1 and 2 alone.
        """
        lane = self._lanes.all[name]
        size_bytes, count = batch.size_bytes(), len(batch)
        qos0 = batch.flags.translate(QOS_ONLY).count(0)
        lane.queue.append(batch.encode(), count, size_bytes, qos0, self._next.write)
        self._next.write.on_commit(partial(self._lanes.ready.setdefault, lane.queue.name))
        self._next.promise()
        if lane.bridge:
            self._lanes.thinned.forget_payloads(name)
            lane.queue.count_from_retained(count)
            lane.queue.count_raised(raised_rows(batch.flags)[0])
        else:
            self.on_added(count, size_bytes)

    def route(self, lanes: tuple[tuple[str, int], ...]) -> None:
        """What is put into bridges' queues next was routed by these numbers of lanes."""
        if lanes != self._lanes.changes.routed_by:
            self._lanes.changes.route(lanes)

    def on_added(self, messages: int, size_bytes: int) -> None:
        """So much was put into them."""
        self.messages += messages
        self.size_bytes += size_bytes

    def count(self) -> None:
        """Count what is in them."""
        queues = [lane.queue for lane in self if lane.queue.depth]
        self.messages, self.size_bytes = sum(queue.depth for queue in queues), sum(queue.size_bytes for queue in queues)

    def figures(self) -> SessionQueueFigures:
        """All together, with those of sessions that have ended."""
        ledgers = [lane.queue.ledger for lane in self]
        reasons = self._gone.copy()
        for ledger in ledgers:
            if ledger.dropped:
                reasons.update(ledger.dropped)
        dealt_again = reasons.pop(Loss.DEALT_AGAIN, 0)
        del reasons[Loss.LEFT]
        return SessionQueueFigures(
            depth=self.messages,
            bytes=self.size_bytes,
            dropped=reasons.total(),
            dropped_by_reason=dict(reasons),
            dealt_again=dealt_again,
            refused=sum(ledger.refused for ledger in ledgers),
        )
