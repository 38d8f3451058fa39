"""Limits: whether an Append fits, and what becomes of its rows where it does not. Pure.

Fast path: everything fits and nothing is looked at row by row. Slow path: in order, a row is refused when a queue it goes to has
``reject`` and is full; then nothing of it is enqueued anywhere. A queue may get more than one copy of a row: all of them count. A
refused row whose publisher cannot be told (MQTT 3.1.1) stalls its source: every later row of it is refused until it is resumed, so
that order holds [MQTT-4.6.0-6]. A row that is larger than a limit by itself, its copies included, would wait for room that never
comes: unless it is refused and its publisher told, it is dropped at once, and nothing makes room for it.

Each refusal is put down to the queues that had no room. It is for good where the publisher is told, at QoS 0 too, where nobody
hears of it. Else the message is held back by its sender, and offered again: so is a Will, which stays on record meanwhile.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from wire.frames.batch import QOS_MASK, Batch, unpack_column
from wire.frames.intake import Append
from wire.settings import LimitSettings


@dataclass(slots=True)
class Room:
    """What may still come in, for one bridge or for the node; None is unlimited. ``disk_full`` behaves as full.

    max_messages, max_bytes: what comes in when nothing is there.
    """

    messages: int | None
    size_bytes: int | None
    overflow: str
    disk_full: bool = False
    max_messages: int | None = None
    max_bytes: int | None = None

    @classmethod
    def of(cls, limits: LimitSettings, messages: int, size_bytes: int, *, disk_full: bool) -> Room:
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

    def take(self, messages: int, size_bytes: int) -> None:
        """Use room, or give it back when negative."""
        if self.messages is not None:
            self.messages -= messages
        if self.size_bytes is not None:
            self.size_bytes -= size_bytes


@dataclass(slots=True)
class Admitted:
    """What is left of one part: its rows, bytes, QoS 0 rows and batch, and how many rows were dropped for want of room."""

    queue: str
    count: int
    size_bytes: int
    qos0: int
    body: bytes
    dropped: int = 0


@dataclass(slots=True)
class HeldBack:
    """How many messages of one source wait for room, and in which queues: those that the newest of them was refused by."""

    queues: tuple[str, ...] = ()
    messages: int = 0


class Admission:
    """What becomes of an Append: its parts, and the rows of the original batch that were refused.

    for_good: for each queue that had no room, the messages that nobody offers again. held: for each source that is not told, the
    others. too_large: for each queue with rows that can never come in, the bytes of the largest.
    """

    __slots__ = ("for_good", "held", "parts", "refused", "too_large")

    def __init__(self, parts: list[Admitted]) -> None:
        self.parts = parts
        self.refused: list[int] = []
        self.for_good: dict[str, int] = {}
        self.held: dict[int, HeldBack] = {}
        self.too_large: dict[str, int] = {}

    def end(self, full: Sequence[str]) -> None:
        """One more is refused for good by the queues that are ``full``."""
        for queue in full:
            self.for_good[queue] = self.for_good.get(queue, 0) + 1

    def hold(self, source: int, full: Sequence[str]) -> None:
        """One more of ``source`` is held back, by the queues that are ``full``; none: it waits behind another."""
        held = self.held.setdefault(source, HeldBack())
        held.messages += 1
        held.queues = tuple(full) or held.queues


class _Part:
    """One part of an Append, row by row."""

    def __init__(self, queue: str, body: bytes, rows: bytes, rooms: Sequence[Room]) -> None:
        self.queue = queue
        self.body = body
        self.batch = Batch.decode(body)
        self.rooms = rooms
        of_rows = unpack_column("H", rows) if rows else range(len(self.batch))
        self.copies_of: dict[int, list[int]] = {}  # one row has several where a shared subscription brings it too
        for row, original in enumerate(of_rows):
            self.copies_of.setdefault(original, []).append(row)
        topics, properties = self.batch.topics, self.batch.properties
        self.sizes = [
            length + len(topics[topic]) + len(properties.get(row, b""))
            for row, (length, topic) in enumerate(zip(self.batch.lengths, self.batch.topic_of, strict=True))
        ]
        self.kept: deque[int] = deque()
        self.dropped = 0

    def overflow(self, row: int) -> str | None:
        """What its limits say when ``row`` does not fit; None when it does."""
        full = [room.overflow for room in self.rooms if not room.fits(1, self.sizes[row])]
        return "reject" if "reject" in full else full[0] if full else None

    def keep(self, row: int) -> None:
        self.kept.append(row)
        self.reserve(row, 1)

    def reserve(self, row: int, times: int) -> None:
        """Take the room that ``row`` needs, or give it back when ``times`` is -1."""
        for room in self.rooms:
            room.take(times, times * self.sizes[row])

    def make_room(self, row: int, drop_oldest: Callable[[str, int, int], int]) -> bool:
        """Drop what is older until ``row`` fits; whether it does."""
        size_bytes = self.sizes[row]
        while self.overflow(row) is not None:
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
        self.reserve(oldest, -1)
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
        )


_Place = tuple[_Part, int]  # a queue and a row of what it gets


def admit_all(frame: Append, rooms: Mapping[str, Sequence[Room]]) -> Admission:
    """Take the room for every row of ``frame``, which ``fits``, and of which no row is of a stalled source."""
    for queue, count, size_bytes, _, _ in frame.parts:
        for room in rooms[queue]:
            room.take(count, size_bytes)
    return Admission(
        [
            Admitted(queue, count, size_bytes, qos0, body)
            for (queue, count, size_bytes, qos0, _), body in zip(frame.parts, frame.bodies, strict=True)
        ]
    )


def fits(frame: Append, rooms: Mapping[str, Sequence[Room]]) -> bool:
    """Whether the whole of ``frame`` fits, all its parts together."""
    if len(frame.parts) == 1:
        queue, count, size_bytes, _, _ = frame.parts[0]
        return all(room.fits(count, size_bytes) for room in rooms[queue])
    return all(room.fits(messages, size_bytes) for room, messages, size_bytes in _wanted(frame, rooms))


def _wanted(frame: Append, rooms: Mapping[str, Sequence[Room]]) -> Iterable[tuple[Room, int, int]]:
    """Each room that ``frame`` needs, with the messages and bytes that it needs of it."""
    wanted: dict[int, tuple[Room, int, int]] = {}
    for queue, count, size_bytes, _, _ in frame.parts:
        for room in rooms[queue]:
            _, messages, total_bytes = wanted.get(id(room), (room, 0, 0))
            wanted[id(room)] = (room, messages + count, total_bytes + size_bytes)
    return wanted.values()


def _split(places: Sequence[_Place]) -> tuple[list[_Place], list[_Place], list[str]]:
    """Of ``places``, those that could take the row if nothing were there, and those that never can; which of these reject it.

    One after another, since a room that they share must hold the row once for each.
    """
    possible, hopeless, rejecting = [], [], []
    wanted: dict[int, tuple[int, int]] = {}
    for part, row in places:
        needs = {}
        too_small = []
        for room in part.rooms:
            messages, size_bytes = wanted.get(id(room), (0, 0))
            needs[id(room)] = messages + 1, size_bytes + part.sizes[row]
            if not room.ever_fits(*needs[id(room)]):
                too_small.append(room)
        if too_small:
            hopeless.append((part, row))
            if any(room.overflow == "reject" for room in too_small):
                rejecting.append(part.queue)
        else:
            possible.append((part, row))
            wanted.update(needs)
    return possible, hopeless, rejecting


def _rejecting(places: Sequence[_Place]) -> list[str]:
    """Which of the queues that a row goes to reject it; a room that they share must hold it once for each."""
    reserved = []
    rejecting = []
    for part, row in places:
        if part.overflow(row) == "reject":
            rejecting.append(part.queue)
        else:
            part.reserve(row, 1)
            reserved.append((part, row))
    for part, row in reserved:
        part.reserve(row, -1)
    return list(dict.fromkeys(rejecting))  # copies of one row count once


def admit_rows(
    frame: Append, rooms: Mapping[str, Sequence[Room]], stalled: dict[int, int], drop_oldest: Callable[[str, int, int], int]
) -> Admission:
    """Decide on every row of ``frame``, and take the room that the admitted ones need.

    rooms: for each queue, the rooms of its bridge and of the node. stalled: the sender's stalled sources, and the last number that
    had a refused row of them; it may be added to. drop_oldest: (queue, messages, bytes) makes room in a queue and in ``rooms``, and
    says how many messages it dropped.
    """
    sources: array[int] = unpack_column("I", frame.sources)
    parts = [_Part(queue, body, rows, rooms[queue]) for (queue, _, _, _, rows), body in zip(frame.parts, frame.bodies, strict=True)]
    may_be_too_large = not all(room.ever_fits(messages, size_bytes) for room, messages, size_bytes in _wanted(frame, rooms))
    wills = {row for _, row, _, _ in frame.wills}
    admission = Admission([])
    for original, source in enumerate(sources):
        places = [(part, row) for part in parts for row in part.copies_of.get(original, ())]
        hopeless: Sequence[_Place] = ()
        full: list[str] = []
        refusable = bool(frame.refusable[original])
        if may_be_too_large:
            places, hopeless, rejecting = _split(places)
            full = list(dict.fromkeys(rejecting)) if refusable else []
            for part, row in hopeless:
                admission.too_large[part.queue] = max(part.sizes[row], admission.too_large.get(part.queue, 0))
        waits = source in stalled
        if not waits:
            full = full or _rejecting(places)
        if waits or full:
            admission.refused.append(original)
            if not refusable:
                stalled[source] = frame.number
                admission.hold(source, full)
            elif original not in wills:
                admission.end(full)
            continue
        for part, _ in hopeless:
            part.dropped += 1
        for part, row in places:
            overflow = part.overflow(row)
            if overflow is None or (overflow == "drop-oldest" and part.make_room(row, drop_oldest)):
                part.keep(row)
            else:
                part.dropped += 1
    admission.parts = [part.admitted() for part in parts]
    return admission
