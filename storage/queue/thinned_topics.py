"""Messages of a rule that are left out: those that repeat their topic's last payload, and those for which a newer one stands. Pure.

It is decided when a message comes, before it takes room in its queue: a message that is left out is accepted, counted by its
reason, and ended. One for which a newer may stand soon is held: until the period of its rule has ended, or the link is there.

queue.held-gives-way-in-order [P4]: a held message enters the queue before anything of its topic that does not stand for it.
queue.never-thinned [P2, MQTT]: an empty message with RETAIN, which removes what is retained, is never left out. A message
    with RETAIN gives way only to one with RETAIN, and one of QoS 1 or 2 not to one that came at QoS 0, which may be lost, raised
    or not: nor is it left out because one of QoS 0 had its payload. A message stands for those alone that go the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

from wire.config_settings import ThinningSettings
from wire.frames.batch import RETAIN, Batch, is_promised
from wire.routing.message_route import Thinning
from wire.status.loss_reasons import Loss

DIGEST_BYTES = 16
BLOCK = 1024  # numbers of held messages that are looked up together
_KEPT = b"K"  # behind the digest of what is not lost with the memory or a link, nor for want of room


@dataclass(frozen=True, slots=True)
class HeldMessage:
    """A message for which a newer one may stand: as the queue is to have it. route: encoded. number: what is held later has a
    higher one.
    """

    topic: bytes
    flags: int
    payload: bytes
    properties: bytes
    route: bytes
    accepted_ms: int
    thinning: Thinning
    number: int = field(default=-1, compare=False)

    @property
    def size_bytes(self) -> int:
        """The bytes that count for limits."""
        return len(self.topic) + len(self.payload) + len(self.properties)

    def gives_way_to(self, newer: HeldMessage) -> str | None:
        """The reason for which it is left out where ``newer`` comes; None: it is not."""
        if self.route != newer.route or (self.flags & RETAIN and not newer.flags & RETAIN):
            return None
        if is_promised(self.flags) and not is_promised(newer.flags):
            return None
        if self.thinning.period_ms and self.thinning.same_period(self.accepted_ms, newer.accepted_ms):
            return Loss.ONE_PER.dropped
        return Loss.SUPERSEDED.dropped if self.thinning.keep_last else None

    def is_due(self, wall_ms: int, *, linked: bool) -> bool:
        """Whether it is to enter the queue now. linked: the link of its lane is there. A clock that was set back ends a period."""
        thinning = self.thinning
        if thinning.keep_last and not linked:
            return False
        return not thinning.period_ms or not thinning.same_period(self.accepted_ms, wall_ms)


@dataclass(slots=True)
class Sifted:
    """What becomes of the rows of one batch for one queue.

    rows: those that enter it. before: held ones that enter it before them. held: what is held from here on, by topic. gone: topics
    of which what was held is held no more. left_out: messages by outcome. untracked: how often there was no memory to look at a
    message by, so that it crosses. digests: of the last payloads. next_number: of what is held after it.
    """

    rows: list[int] = field(default_factory=list)
    before: list[HeldMessage] = field(default_factory=list)
    held: dict[bytes, HeldMessage] = field(default_factory=dict)
    gone: set[bytes] = field(default_factory=set)
    left_out: dict[str, int] = field(default_factory=dict)
    untracked: int = 0
    digests: dict[bytes, bytes] = field(default_factory=dict)
    next_number: int = 0


class ThinnedTopics:
    """The topics of one queue of which something is held, or the last payload is known.

    untracked: messages that crossed as they came, because there was no memory to be looked at by. next_number: of what is held
    next.
    """

    def __init__(self, limits: Callable[[], ThinningSettings]) -> None:
        """limits: those that hold now."""
        self.held: dict[bytes, HeldMessage] = {}
        self.size_bytes = 0  # of what is held
        self.untracked = 0
        self._limits = limits
        self._digests: dict[bytes, bytes] = {}
        self._blocks: dict[int, dict[bytes, None]] = {}  # topics in the order of ``held``, by ``BLOCK`` of their numbers
        self.next_number = 0

    def held_from(self, number: int) -> Iterator[tuple[int, HeldMessage]]:
        """What is held, by its numbers from ``number`` on. What has a lower one costs no more than a block of it."""
        for block, topics in self._blocks.items():
            if block >= number // BLOCK:
                yield from ((message.number, message) for message in map(self.held.__getitem__, topics) if message.number >= number)

    def forget_payloads(self) -> None:
        """The remote may not have what was sent last, or has something else since: the next message of each topic crosses."""
        self._digests.clear()

    def sift(self, batch: Batch, thinnings: Sequence[Thinning], *, linked: bool) -> Sifted:
        """What is to become of the rows of ``batch``; nothing changes before ``take``. thinnings: of each topic of it."""
        sifting = _Sifting(self.held, self.size_bytes, self._digests, self._limits())
        return sifting.sift(batch, thinnings, self.next_number, linked=linked)

    def take(self, sifted: Sifted) -> list[HeldMessage]:
        """It is so; those that were held and are held no more."""
        self.untracked += sifted.untracked
        self._digests.update(sifted.digests)
        gone = [self._let_go(topic) for topic in sifted.gone]
        self.held.update(sifted.held)
        for topic, message in sifted.held.items():
            self._blocks.setdefault(message.number // BLOCK, {})[topic] = None
        self.next_number = max(self.next_number, sifted.next_number)
        self.size_bytes += sum(message.size_bytes for message in sifted.held.values())
        return gone

    def release(self, wanted: Callable[[HeldMessage], bool]) -> list[HeldMessage]:
        """Those that are ``wanted``, which are held no more, the oldest first."""
        return [self._let_go(message.topic) for message in list(self.held.values()) if wanted(message)]

    def _let_go(self, topic: bytes) -> HeldMessage:
        message = self.held.pop(topic)
        block = message.number // BLOCK
        del self._blocks[block][topic]
        if not self._blocks[block]:
            del self._blocks[block]
        self.size_bytes -= message.size_bytes
        return message


class _Sifting:
    """Goes through one batch, and changes nothing of what was there before."""

    def __init__(
        self, held: dict[bytes, HeldMessage], size_bytes: int, digests: dict[bytes, bytes], limits: ThinningSettings
    ) -> None:
        self._standing = held
        self._size_bytes = size_bytes
        self._digests = digests
        self._limits = limits
        self._row_of: dict[bytes, int] = {}  # of those that are held newly
        self._found = Sifted()

    def sift(self, batch: Batch, thinnings: Sequence[Thinning], number: int, *, linked: bool) -> Sifted:
        found = self._found
        found.next_number = number + len(batch)
        for row, message in enumerate(_messages_of(batch, thinnings, number)):
            thinning = message.thinning
            clears = message.flags & RETAIN and not message.payload
            if thinning.changed and not self._is_new(message) and not clears:
                self._leave_out(Loss.UNCHANGED.dropped)
            elif clears or not (thinning.period_ms or (thinning.keep_last and not linked)):
                self._let_go(message.topic)
                found.rows.append(row)
            else:
                self._hold(row, message)
        found.rows.sort()
        return found

    def _is_new(self, message: HeldMessage) -> bool:
        """Whether it differs from the last one of its topic, or may not be lost as that may; it is the last one then."""
        digest = blake2b(message.payload, digest_size=DIGEST_BYTES, key=b"R" if message.flags & RETAIN else b"").digest()
        kept, promised = digest + _KEPT, is_promised(message.flags)
        last = self._found.digests.get(message.topic) or self._digests.get(message.topic)
        if last == kept or (last == digest and not promised):
            return False
        if last is not None or len(self._digests) + len(self._found.digests) < self._limits.max_topics:
            self._found.digests[message.topic] = kept if promised else digest
        else:
            self._found.untracked += 1
        return True

    def _hold(self, row: int, message: HeldMessage) -> None:
        topic = message.topic
        earlier = self._held(topic)
        reason = None if earlier is None else earlier.gives_way_to(message)
        if reason is not None:
            self._leave_out(reason)
            self._remove(topic)
            self._row_of.pop(topic, None)
        else:
            self._let_go(topic)
        if self._has_room(message):
            self._size_bytes += message.size_bytes
            self._found.held[topic] = message
            self._row_of[topic] = row
        else:
            self._found.untracked += 1
            self._found.rows.append(row)

    def _has_room(self, message: HeldMessage) -> bool:
        topics = len(self._standing) - len(self._found.gone) + len(self._found.held)
        return topics < self._limits.max_topics and self._size_bytes + message.size_bytes <= self._limits.max_bytes

    def _held(self, topic: bytes) -> HeldMessage | None:
        return self._found.held.get(topic) or (None if topic in self._found.gone else self._standing.get(topic))

    def _remove(self, topic: bytes) -> HeldMessage:
        """Hold what is held of ``topic`` no more."""
        if topic in self._found.held:
            message = self._found.held.pop(topic)
        else:
            message = self._standing[topic]
            self._found.gone.add(topic)
        self._size_bytes -= message.size_bytes
        return message

    def _let_go(self, topic: bytes) -> None:
        """What is held of ``topic`` enters the queue, in its place (queue.held-gives-way-in-order)."""
        if self._held(topic) is not None:
            message, row = self._remove(topic), self._row_of.pop(topic, None)
            if row is None:
                self._found.before.append(message)
            else:
                self._found.rows.append(row)

    def _leave_out(self, outcome: str) -> None:
        self._found.left_out[outcome] = self._found.left_out.get(outcome, 0) + 1


def _messages_of(batch: Batch, thinnings: Sequence[Thinning], number: int) -> Iterator[HeldMessage]:
    """The rows of ``batch``, numbered from ``number`` on."""
    routes, common = batch.routes_of_topics(), batch.topic_properties
    for row, (index, flags, payload) in enumerate(zip(batch.topic_of, batch.flags, batch.rows_payloads(), strict=True)):
        properties = batch.properties.get(row, common[index] if common else b"")
        topic, route, thinning = batch.topics[index], routes[index], thinnings[index]
        yield HeldMessage(topic, flags, payload, properties, route, batch.accepted_ms, thinning, number + row)
