"""Messages that a bridge's rules leave out, or hold until a newer one stands for them, by the bytes on the disk.

store.held-enters-once: what was acknowledged is in a queue, held, or counted as left out; and what is left out at the end has a
    message of its topic that stands for it. (The counts are written, and not synced: those of a loss of power go with it.)
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from zlib import crc32

import msgpack

from storage.engine.keys import HELD
from storage.queue.ledger import Ledger
from tests.simulation.disk import Ops
from tests.simulation.publisher import Message
from tests.simulation.world import Violation
from wire.routing.message_route import ALL, Thinning
from wire.status.loss_reasons import THINNED, Loss

_CHECK_BYTES = 4
_LIKENESSES = 2


@dataclass(frozen=True, slots=True)
class LikePayloads:
    """Takes the place of a digest: half of all payloads are alike, though each tells which message it is of."""

    payload: bytes
    digest_size: int
    key: bytes

    def digest(self) -> bytes:
        return self.key + bytes([_likeness(self.payload)])


def _likeness(payload: bytes) -> int:
    return crc32(payload) % _LIKENESSES


class ThinnedSeen:
    """What is held, what was acknowledged without being queued, and how often each message was published."""

    def __init__(self, thinning: Thinning) -> None:
        self._thinning = thinning
        self.held: dict[bytes, bytes] = {}  # key -> payload, as written
        self.ever_held: dict[bool, set[bytes]] = {True: set(), False: set()}  # by whether that was synced
        self.in_memory = 0  # how many the store holds, those of QoS 0 included
        self._published: Counter[bytes] = Counter()
        self._left_out: set[bytes] = set()  # acknowledged, and nowhere to be found

    @property
    def on(self) -> bool:
        """Whether any rule leaves something out."""
        return self._thinning != ALL

    @property
    def holds(self) -> bool:
        """Whether messages wait beside their queue, whose limits do not count them."""
        return bool(self._thinning.period_ms or self._thinning.keep_last)

    def rebuilding(self) -> None:
        """The disk is read anew."""
        self.held.clear()
        self._left_out.clear()  # their counts may be lost with the power

    def wrote(self, ops: Ops) -> None:
        """A commit."""
        for operation, family, key, value in ops:
            if family == "meta" and key[:1] == HELD:
                if operation == "put":
                    self.held[key] = _payload(value)
                    self.ever_held[False].add(self.held[key])
                else:
                    self.held.pop(key, None)

    def synced(self, ops: Ops) -> None:
        """A commit survives the loss of power."""
        rows = [value for operation, family, key, value in ops if family == "meta" and key[:1] == HELD and operation == "put"]
        self.ever_held[True].update(map(_payload, rows))

    def published(self, message: Message) -> None:
        """It was sent to the node, once more perhaps."""
        self._published[message.payload] += 1

    def is_repeat(self, payload: bytes) -> bool:
        """Whether it may have been left out when it came first, and crosses now that it was published again."""
        return self.on and self._published[payload] > 1

    def acknowledged(self, payload: bytes, ledgers: Iterable[Ledger]) -> None:
        """It is not queued: it was held, or is counted as left out by ``ledgers``, which are written."""
        self._left_out.add(payload)
        counted = sum(count_of(ledger) for ledger in ledgers)
        if len(self._left_out) > counted:
            raise Violation("P1", f"{len(self._left_out)} are acknowledged and not queued, {counted} are counted as left out")

    def judge(
        self, missing: Collection[Message], messages: Iterable[Message], arrived: Collection[bytes], place: dict[bytes, int]
    ) -> None:
        """Each of those that are ``missing``, and for no other reason, has one that stands for it."""
        of_topic: dict[str, list[Message]] = defaultdict(list)
        for message in messages:
            if self._published[message.payload]:
                of_topic[message.topic].append(message)
        for message in missing:
            others = [other for other in of_topic[message.topic] if other is not message]
            if any(self.is_repeat(other.payload) for other in (message, *others)):
                continue
            alike = self._thinning.changed and any(
                _likeness(other.payload) == _likeness(message.payload) and other.qos and other.payload in arrived
                for other in others
            )
            newer = (self._thinning.period_ms or self._thinning.keep_last) and any(
                other.payload in arrived and place[other.payload] > place[message.payload] for other in others
            )
            if not alike and not newer:
                raise Violation("P6", f"m{message.number} is left out, and nothing of {message.topic} stands for it")


def count_of(ledger: Ledger) -> int:
    """How many were left out as their rules say, or purged while they were held."""
    return sum(ledger.dropped.get(reason, 0) for reason in (*THINNED, Loss.PURGED))


def _payload(row: bytes) -> bytes:
    payload: bytes = msgpack.unpackb(row[_CHECK_BYTES:])[2]
    return payload
