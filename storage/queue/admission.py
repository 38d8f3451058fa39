"""Limits: how much room there is, and what becomes of the rows of an Append where they do not all fit. Pure.

Fast path: everything fits and nothing is looked at row by row. Slow path: each part is decided by itself, row by row. A queue whose
policy is to drop drops. One that refuses takes QoS 1 and 2 all the same: who publishes knew of its room before his message was
taken, and what is taken is not refused (store.taken-is-kept). What came at QoS 0 was promised nothing, and is dropped there, also
where a rule has raised it. A row that is
larger than a limit by itself would wait for room that never comes: it is dropped at once, and nothing makes room for it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from wire.config_settings import LimitSettings
from wire.frames.batch import QOS_MASK, UNPROMISED, Batch, raised_rows
from wire.frames.intake import Append

REJECT, DROP_OLDEST = "reject", "drop-oldest"
_VOLATILE = "volatile"
DAMAGED = "damaged"  # of a queue that takes nothing: it refuses, and what was under way is dropped
REFUSING = (REJECT, DAMAGED)


@dataclass(slots=True)
class AdmissionRoom:
    """The room for one bridge or for the node; None is unlimited. ``disk_full`` behaves as full.

    max_messages, max_bytes: what comes in when nothing is there.
    """

    messages: int | None
    size_bytes: int | None
    overflow: str
    disk_full: bool = False
    max_messages: int | None = None
    max_bytes: int | None = None

    @classmethod
    def of(cls, limits: LimitSettings, messages: int, size_bytes: int, *, disk_full: bool) -> AdmissionRoom:
        """The room that ``limits`` leave above what is there already."""
        return cls(
            messages=None if limits.max_messages is None else limits.max_messages - messages,
            size_bytes=None if limits.max_bytes is None else limits.max_bytes - size_bytes,
            overflow=limits.overflow,
            disk_full=disk_full,
            max_messages=limits.max_messages,
            max_bytes=limits.max_bytes,
        )

    def fits(self, messages: int, size_bytes: int) -> bool:
        """Whether so much more fits."""
        return (
            not self.disk_full
            and (self.messages is None or messages <= self.messages)
            and (self.size_bytes is None or size_bytes <= self.size_bytes)
        )

    def ever_fits(self, messages: int, size_bytes: int) -> bool:
        """Whether so much would fit if nothing were there."""
        return (self.max_messages is None or messages <= self.max_messages) and (
            self.max_bytes is None or size_bytes <= self.max_bytes
        )

    @property
    def refuses(self) -> bool:
        """Whether its publishers are to know when it is full."""
        return self.overflow in REFUSING

    @property
    def empty(self) -> bool:
        """Whether nothing is there."""
        return self.messages == self.max_messages and self.size_bytes == self.max_bytes

    def take(self, messages: int, size_bytes: int) -> None:
        """Use room, or give it back when negative."""
        if self.messages is not None:
            self.messages -= messages
        if self.size_bytes is not None:
            self.size_bytes -= size_bytes


@dataclass(slots=True)
class Admitted:
    """The rest of one part: its rows, bytes, QoS 0 rows and batch, and how many rows were dropped for want of room.

    refused: rows that came at QoS 0 for which a queue that refuses had no room. too_large: bytes of the largest that can never come
    in. raised: rows with a higher QoS than they came with.
    """

    queue: str
    count: int
    size_bytes: int
    qos0: int
    body: bytes
    dropped: int = 0
    refused: int = 0
    too_large: int = 0
    raised: int = 0


Amount = tuple[int, int]  # messages and bytes
_NOTHING: Amount = (0, 0)


class _Part:
    """One part of an Append, row by row.

    keeps: what came at QoS 1 and 2 comes in although a room that refuses has no room. overflow: what becomes of it if not. ahead:
    by identity of a room, what has to find room in it before anything that is promised nothing.
    """

    def __init__(self, queue: str, body: bytes, rooms: Sequence[AdmissionRoom], overflow: str, ahead: dict[int, Amount]) -> None:
        self.queue = queue
        self.body = body
        self.batch = Batch.decode(body)
        self.rooms = rooms
        self.overflow = overflow
        self.keeps = overflow == REJECT
        self.ahead = ahead
        topics, properties = self.batch.topics, self.batch.properties
        self.sizes = [
            length + len(topics[topic]) + len(properties.get(row, b""))
            for row, (length, topic) in enumerate(zip(self.batch.lengths, self.batch.topic_of, strict=True))
        ]
        self.kept: deque[int] = deque()
        self.dropped = self.refused = self.too_large = 0
        if self.keeps:
            sizes = [size for size, flags in zip(self.sizes, self.batch.flags, strict=True) if _was_promised(flags)]
            self._go_ahead(len(sizes), sum(sizes))

    def decide(self, drop_oldest: Callable[[str, int, int], int]) -> None:
        """Say of each row whether it comes in."""
        for row, (flags, size_bytes) in enumerate(zip(self.batch.flags, self.sizes, strict=True)):
            promised = _was_promised(flags)
            keeps = self.keeps and promised
            if keeps:
                self._go_ahead(-1, -size_bytes)
            policy = self._policy(size_bytes, keeps=keeps, volatile=not promised)
            if policy in ("", REJECT) or (policy == DROP_OLDEST and self._make_room(row, drop_oldest)):
                self.kept.append(row)
                self._reserve(row, 1)
            elif policy == _VOLATILE:
                self.refused += 1
            else:
                self.dropped += 1

    def _go_ahead(self, messages: int, size_bytes: int) -> None:
        for room in self.rooms:
            known = self.ahead.get(id(room), _NOTHING)
            self.ahead[id(room)] = known[0] + messages, known[1] + size_bytes

    def _policy(self, size_bytes: int, *, keeps: bool, volatile: bool) -> str:
        """What becomes of a row; empty if it fits, and ``reject`` if it is kept, though it does not."""
        full = [room.overflow for room in self.rooms if not self._has_room(room, size_bytes, keeps=keeps)]
        if not full:
            return ""
        if not all(room.ever_fits(1, size_bytes) for room in self.rooms):
            self.too_large = max(size_bytes, self.too_large)
            return "too large"
        if REJECT not in full:
            return full[0]
        drops = [policy for policy in full if policy != REJECT]
        return drops[0] if drops else _VOLATILE if volatile else self.overflow

    def _has_room(self, room: AdmissionRoom, size_bytes: int, *, keeps: bool) -> bool:
        ahead = self.ahead.get(id(room), _NOTHING) if room.refuses and not keeps else _NOTHING
        return room.fits(1 + ahead[0], size_bytes + ahead[1])

    def _reserve(self, row: int, times: int) -> None:
        """Take the room that ``row`` needs, or give it back when ``times`` is -1."""
        for room in self.rooms:
            room.take(times, times * self.sizes[row])

    def _make_room(self, row: int, drop_oldest: Callable[[str, int, int], int]) -> bool:
        """Drop what is older until ``row`` fits; whether it does."""
        size_bytes = self.sizes[row]
        while not all(room.fits(1, size_bytes) for room in self.rooms):
            if any(room.disk_full for room in self.rooms):
                # Dropping gives back no space at once: one goes for one that comes.
                return self._drop_one(1, size_bytes, drop_oldest)
            messages_short = max((1 - room.messages for room in self.rooms if room.messages is not None), default=0)
            bytes_short = max((size_bytes - room.size_bytes for room in self.rooms if room.size_bytes is not None), default=0)
            if not self._drop_one(max(0, messages_short), max(0, bytes_short), drop_oldest):
                return False
        return True

    def _drop_one(self, messages: int, size_bytes: int, drop_oldest: Callable[[str, int, int], int]) -> bool:
        if drop_oldest(self.queue, messages, size_bytes):
            return True
        if not self.kept:
            return False
        oldest = self.kept.popleft()
        self.dropped += 1
        self._reserve(oldest, -1)
        return True

    def admitted(self) -> Admitted:
        if len(self.kept) == len(self.batch):
            batch, body = self.batch, self.body
        else:
            batch = self.batch.select(self.kept)
            body = batch.encode()
        return Admitted(
            queue=self.queue,
            count=len(batch),
            size_bytes=sum(self.sizes[row] for row in self.kept),
            qos0=sum(1 for flags in batch.flags if not flags & QOS_MASK),
            body=body,
            dropped=self.dropped,
            refused=self.refused,
            too_large=self.too_large,
            raised=raised_rows(batch.flags)[0],
        )


def _was_promised(flags: int) -> bool:
    """Whether its publisher had, or will have, an answer."""
    return bool(flags & QOS_MASK) and not flags & UNPROMISED


def admit_all(frame: Append, rooms: Mapping[str, Sequence[AdmissionRoom]]) -> list[Admitted]:
    """Take the room for every row of ``frame``, which ``fits``."""
    for queue, count, size_bytes, _, _ in frame.parts:
        for room in rooms[queue]:
            room.take(count, size_bytes)
    return [
        Admitted(queue, count, size_bytes, qos0, body, raised=frame.raised[queue][0] if queue in frame.raised else 0)
        for (queue, count, size_bytes, qos0, _), body in zip(frame.parts, frame.bodies, strict=True)
    ]


def admit_rows(
    frame: Append,
    rooms: Mapping[str, Sequence[AdmissionRoom]],
    overflow_of: Callable[[str], str],
    held: Mapping[int, Amount],
    drop_oldest: Callable[[str, int, int], int],
) -> list[Admitted]:
    """Decide on every row of ``frame``, and take the room that the admitted ones need.

    rooms: for each queue, the rooms of its bridge and of the node. overflow_of: what a queue does with QoS 1 and 2 where its rooms
    refuse: ``reject`` keeps them. held: by identity of a room, what is held ready there for other batches. drop_oldest: (queue,
    messages, bytes) makes room in a queue and in ``rooms``, and says how many messages it dropped.
    """
    ahead = dict(held)
    parts = [
        _Part(queue, body, rooms[queue], overflow_of(queue), ahead)
        for (queue, *_), body in zip(frame.parts, frame.bodies, strict=True)
    ]
    for part in parts:
        part.decide(drop_oldest)
    return [part.admitted() for part in parts]


def fits(frame: Append, rooms: Mapping[str, Sequence[AdmissionRoom]]) -> bool:
    """Whether the whole of ``frame`` fits, all its parts together."""
    if len(frame.parts) == 1:
        queue, count, size_bytes, _, _ = frame.parts[0]
        for room in rooms[queue]:  # without a call: each batch comes by here
            if (
                room.disk_full
                or (room.messages is not None and count > room.messages)
                or (room.size_bytes is not None and size_bytes > room.size_bytes)
            ):
                return False
        return True
    return all(room.fits(messages, size_bytes) for room, messages, size_bytes in wanted(frame, rooms))


def wanted(
    frame: Append, rooms: Mapping[str, Sequence[AdmissionRoom]], *, volatile: bool = True
) -> Iterable[tuple[AdmissionRoom, int, int]]:
    """Each room that ``frame`` needs, with the messages and bytes that it needs of it; volatile: what came at QoS 0 included."""
    found: dict[int, tuple[AdmissionRoom, int, int]] = {}
    for queue, count, size_bytes, qos0, _ in frame.parts:
        needed = count if volatile else count - qos0 - (frame.raised[queue][1] if queue in frame.raised else 0)
        if needed:
            for room in rooms[queue]:
                _, messages, total_bytes = found.get(id(room), (room, 0, 0))
                found[id(room)] = (room, messages + needed, total_bytes + size_bytes)
    return found.values()
