"""Messages that a bridge's rules leave out, or hold until their period has ended or the link is there.

What is left out is decided by ``storage/queue/thinned_topics.py``. A message of QoS 1 or 2 that is held has a row of its own,
written in the commit that acknowledges it; one of QoS 0 is in memory alone. It is no part of its queue, and of the queue's ledger,
before it enters the queue or a newer one stands for it. A store that opens lets everything that it finds enter: a death ends
every period.

store.held-enters-once [P1, P3]: the row of a held message goes in the write that appends it, or that has the newer one's.
store.last-payload-stands [P1, P2]: a message is left out as unchanged only for one that the remote has or will have, as the last of
    its topic and by the same rules, and that is kept as strongly. After a loss from its queue or the lane beside it, another change
    of the rules, or something of before that enters the queue, the next message of each topic crosses.
"""

from __future__ import annotations

import logging
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol
from zlib import crc32

import msgpack

from storage.engine.engine import Engine, Write
from storage.engine.keys import HELD, HELD_END, held_key, held_of
from storage.queue.chunk import Message, batch_of
from storage.queue.queue import Queue
from storage.queue.thinned_topics import HeldMessage, Sifted, ThinnedTopics
from wire.config_settings import LIVE, SettingsNow, ThinningSettings
from wire.errors import StorageDamaged
from wire.frames.batch import QOS_MASK, Batch, pack_column, raised_rows, unpack_column
from wire.frames.intake import Append
from wire.frames.names import queue_name
from wire.routing.message_route import ALL, MessageRoute, Thinning
from wire.status.loss_reasons import THINNED, Loss

log = logging.getLogger("bascule")

ROW_VERSION = 1
KNOWN_ROUTES_MAX = 1_000
_CHECK_BYTES = 4
_NO_LIMITS = ThinningSettings()

_Losses = tuple[int, ...]


class Lane(Protocol):
    """The part of a lane of the store that this looks at."""

    queue: Queue
    bridge: str

    @property
    def is_linked(self) -> bool: ...

    @property
    def is_unreadable(self) -> bool: ...


class OpenWrite(Protocol):
    """The next commit, as far as something is put into it."""

    engine: Engine
    write: Write

    def survive(self) -> None: ...


@dataclass(slots=True)
class ThinnedQueue:
    """What is known for one queue. losses: what it had lost when the payloads were noted."""

    topics: ThinnedTopics
    losses: _Losses


class ThinnedMessages:
    """Those of all bridges' queues.

    queues: what is known of each queue that rules have left something out of, in this life.
    """

    def __init__(
        self, lanes: Mapping[str, Lane], next_commit: OpenWrite, settings: SettingsNow, appended: Callable[[str], None]
    ) -> None:
        """lanes: the queues of bridges; those for which something is held get it. appended: is told when that is committed.

        Raises:
            StorageDamaged, Unavailable: the rows cannot be read.
        """
        self._lanes = lanes
        self._next = next_commit
        self._settings = settings
        self._appended = appended
        self.queues: dict[str, ThinnedQueue] = {}
        self._thinnings: dict[bytes, Thinning] = {}
        self._rules = 0  # of the last batch
        self._recover()

    def held(self, name: str) -> int:
        """How many messages are held for the queue ``name``."""
        each = self.queues.get(name)
        return 0 if each is None else len(each.topics.held)

    def size_bytes(self, name: str) -> int:
        """Their bytes."""
        each = self.queues.get(name)
        return 0 if each is None else each.topics.size_bytes

    def held_from(self, name: str, number: int) -> Iterator[tuple[int, Message]]:
        """What is held for the queue ``name``, as it is to enter it, each by its number, from ``number`` on."""
        each = self.queues.get(name)
        return iter(()) if each is None else ((at, _as_queued(message)) for at, message in each.topics.held_from(number))

    def next_number(self, name: str) -> int:
        """One past the number of the newest that is held for the queue ``name``."""
        each = self.queues.get(name)
        return 0 if each is None else each.topics.next_number

    def untracked(self, name: str) -> int:
        """How many crossed as they came in this life, since there was no memory to look at them by."""
        each = self.queues.get(name)
        return 0 if each is None else each.topics.untracked

    # --- what comes ---

    def sift(self, frame: Append) -> tuple[Append, dict[str, Sifted]]:
        """``frame`` without the rows that do not enter its queues now; and what becomes of those, once ``take`` is called."""
        if frame.rules != self._rules:
            self._rules = frame.rules
            for each in self.queues.values():
                each.topics.forget_payloads()
        found: dict[str, Sifted] = {}
        parts, bodies, raised = [], [], dict(frame.raised)
        for part, body in zip(frame.parts, frame.bodies, strict=True):
            name, count, _, _, column = part
            if name not in frame.thinned and not self.held(name):
                parts.append(part)
                bodies.append(body)
                continue
            batch = Batch.decode(body)
            sifted = found[name] = self._topics_of(name).sift(
                batch, [self._thinning(route) for route in batch.routes_of_topics()], linked=self._lanes[name].is_linked
            )
            if len(sifted.rows) < count:
                raised.pop(name, None)
                if not sifted.rows:
                    continue
                batch = batch.select(sifted.rows)
                if any(of_rows := raised_rows(batch.flags)):
                    raised[name] = of_rows
                rows = unpack_column("H", column) if column else range(frame.rows)
                column = pack_column(array("H", [rows[row] for row in sifted.rows]))
                part = name, len(batch), batch.size_bytes(), sum(not flags & QOS_MASK for flags in batch.flags), column
                body = batch.encode()
            parts.append(part)
            bodies.append(body)
        return replace(frame, parts=tuple(parts), bodies=tuple(bodies), raised=raised), found

    def take(self, found: Mapping[str, Sifted]) -> None:
        """What was sifted is so. Call it before the rest of the batch is appended."""
        write = self._next.write
        for name, sifted in found.items():
            queue = self._lanes[name].queue
            for message in self.queues[name].topics.take(sifted):
                self._forget(queue, message)
            for outcome, messages in sifted.left_out.items():
                queue.refuse_into(outcome, messages)
            self._enter(name, sifted.before)
            for topic, message in sifted.held.items():
                if message.flags & QOS_MASK:
                    write.put("meta", held_key(queue.number, topic), _encode(queue.number, message))
                    self._next.survive()

    def forget_payloads(self, name: str) -> None:
        """Something of before enters the queue ``name``, whichever its topics have now: the next message of each crosses."""
        for other, each in self.queues.items():
            if self._lanes[other].bridge == self._lanes[name].bridge:
                each.topics.forget_payloads()

    # --- what time and links bring ---

    def tick(self, wall_ms: int) -> None:
        """What is due enters its queue."""
        for name, each in self.queues.items():
            if each.topics.held:
                due = partial(HeldMessage.is_due, wall_ms=wall_ms, linked=self._lanes[name].is_linked)
                self._release(name, due)

    def release_all(self) -> None:
        """Everything that is held enters its queue."""
        for name in self.queues:
            self._release(name, lambda _: True)

    def purge(self, name: str) -> int:
        """Nothing is held for the queue ``name`` any more; how many messages that were."""
        each = self.queues.get(name)
        if each is None:
            return 0
        queue, gone = self._lanes[name].queue, each.topics.release(lambda _: True)
        for message in gone:
            self._forget(queue, message)
        if gone:
            queue.refuse_into(Loss.PURGED.dropped, len(gone))
        return len(gone)

    # --- inside ---

    def _topics_of(self, name: str) -> ThinnedTopics:
        lane, each = self._lanes[name], self.queues.get(name)
        beside = self._lanes.get(queue_name(lane.bridge, LIVE))
        losses = _losses(lane.queue) if beside is None else _losses(lane.queue) + _losses(beside.queue)
        if each is None:
            each = self.queues[name] = ThinnedQueue(ThinnedTopics(partial(self._limits, lane.bridge)), losses)
        elif each.losses != losses:
            each.losses = losses
            each.topics.forget_payloads()
        return each.topics

    def _limits(self, bridge: str) -> ThinningSettings:
        return next((one.thinning for one in self._settings.now.bridges if one.name == bridge), _NO_LIMITS)

    def _thinning(self, route: bytes) -> Thinning:
        if not route:
            return ALL
        known = self._thinnings.get(route)
        if known is None:
            if len(self._thinnings) >= KNOWN_ROUTES_MAX:
                self._thinnings.clear()
            known = self._thinnings[route] = MessageRoute.decode(route).thinning
        return known

    def _release(self, name: str, wanted: Callable[[HeldMessage], bool]) -> None:
        queue, messages = self._lanes[name].queue, self.queues[name].topics.release(wanted)
        for message in messages:
            self._forget(queue, message)
        self._enter(name, messages)

    def _forget(self, queue: Queue, message: HeldMessage) -> None:
        if message.flags & QOS_MASK:
            self._next.write.delete("meta", held_key(queue.number, message.topic))
            self._next.survive()

    def _enter(self, name: str, messages: Iterable[HeldMessage]) -> None:
        """Append ``messages`` to the queue ``name``, those that were accepted together as one batch."""
        by_time: dict[int, list[Message]] = {}
        for held in messages:
            by_time.setdefault(held.accepted_ms, []).append(_as_queued(held))
        queue, write = self._lanes[name].queue, self._next.write
        for accepted_ms, together in by_time.items():
            batch = batch_of(together, accepted_ms=accepted_ms)
            qos0 = sum(not flags & QOS_MASK for flags in batch.flags)
            queue.append(batch.encode(), len(batch), batch.size_bytes(), qos0, write)
            queue.count_raised(raised_rows(batch.flags)[0])
        if by_time:
            write.on_commit(partial(self._appended, name))

    def _recover(self) -> None:
        """What a former life held enters its queue; a row that cannot be read is counted as damaged."""
        names = {lane.queue.number: name for name, lane in self._lanes.items() if not lane.is_unreadable}
        found: dict[str, list[HeldMessage]] = {}
        for key, value in self._next.engine.scan("meta", HELD, HELD_END):
            number, topic = held_of(key)
            name = names.get(number)
            if name is None:
                continue  # its queue cannot be read: it waits for that
            self._next.write.delete("meta", key)
            self._next.survive()
            try:
                found.setdefault(name, []).append(_decode(key, topic, value))
            except StorageDamaged as error:
                log.critical("queue.messages_damaged", extra={"queue": name, "messages": 1, "error": str(error)})
                self._lanes[name].queue.refuse_into(Loss.DAMAGED.dropped, 1)
        for name, messages in found.items():
            self._enter(name, sorted(messages, key=lambda message: message.accepted_ms))


def _as_queued(held: HeldMessage) -> Message:
    """``held`` as its queue is to have it."""
    return Message(-1, held.topic, held.payload, held.flags, held.properties, held.route, held.accepted_ms)


def _losses(queue: Queue) -> _Losses:
    """How much of ``queue`` its remote does not have: where that has changed, it may not have what was sent last."""
    ledger = queue.ledger
    dropped = sum(messages for reason, messages in ledger.dropped.items() if reason not in THINNED)
    return queue.sent.generation, ledger.refused, ledger.expired, dropped, sum(ledger.dead.values())


def _encode(number: int, message: HeldMessage) -> bytes:
    fields = (ROW_VERSION, message.flags, message.payload, message.properties, message.route, message.accepted_ms)
    packed: bytes = msgpack.packb(fields)
    return crc32(packed, crc32(held_key(number, message.topic))).to_bytes(_CHECK_BYTES, "little") + packed


def _decode(key: bytes, topic: bytes, value: bytes) -> HeldMessage:
    check, packed = value[:_CHECK_BYTES], value[_CHECK_BYTES:]
    if crc32(packed, crc32(key)).to_bytes(_CHECK_BYTES, "little") != check:
        raise StorageDamaged("a held message is damaged", topic=topic.decode(errors="replace"))
    _, flags, payload, properties, route, accepted_ms = msgpack.unpackb(packed, max_bin_len=len(packed))
    return HeldMessage(topic, flags, payload, properties, route, accepted_ms, MessageRoute.decode(route).thinning)
