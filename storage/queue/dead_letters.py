"""The dead-letter queue of a bridge: messages that the remote will not have, with the reason, when and where. Pure over the engine.

A message is put here by the same commit that settles it in its queue, and goes back by the same commit that appends it there again.
The exchange decides that a message is dead (``wire/exchange/sender.py``); operators' commands on dead letters are in
``storage/store/queue_commands.py``.

queue.dead-letters-add-up [P6]: ever = held + evicted + purged + replayed + damaged, in memory and in every row that is written;
    ``ever`` is what the ledgers of the bridge's queues count as dead.
queue.dead-or-queued-never-both [P2, P3, P6]: after any crash a message is in its queue or in the dead-letter queue, never in both,
    never in neither.
queue.dead-letters-bounded [P5]: at most ``max_messages`` and ``max_bytes`` are held; the oldest give way. A letter leaves once:
    while a write that takes letters out is not committed, the engine still shows them, and none gives way.

Format, for readers of a snapshot. The queue is called ``dead:<bridge>`` and has a number like any queue (``meta``, ``N<name>``).
Family ``msg``, key ``number u32 | dead sequence u64``, big endian, one key a message. The value: version u8, CRC-32 u32 little
endian of (key, version, rest), rest: the msgpack array [reason, at_ms, queue, seq, remote, topic, payload, flags, properties, way,
accepted_ms]: ``at_ms`` is when it was dead-lettered, ``queue`` and ``seq`` where it was, ``remote`` the session there
(``client@host:port``, empty where unknown), the others as in a batch. Family ``meta``, key ``D<number>``: the msgpack array
[version, head, tail, trimmed, held, bytes, evicted, purged, replayed, damaged, {reason: held}]. Keys below ``head`` are gone
already, even if they are still there.
"""

from __future__ import annotations

import logging
import struct
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from zlib import crc32

import msgpack

from storage.engine.engine import Engine, Write
from storage.engine.keys import chunk_key, dead_key, first_seq_of
from storage.queue.chunk import Message
from storage.queue.ledger import unpack_row
from wire.clock_steps import elapsed_ms
from wire.config_settings import DeadLetterSettings
from wire.errors import ConfigError, StorageDamaged, Unavailable
from wire.status.bridges import DeadLetterFigures

log = logging.getLogger("bascule")

ROW_VERSION = 1
LETTER_VERSION = 1
TRIM_LETTERS = 1000
TRIM_BYTES = 4 << 20
FATES = ("held", "evicted", "purged", "replayed", "damaged")  # of what was ever dead-lettered: fields of its row

_HEAD = struct.Struct("<BI")


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message and why, when (UTC epoch) and where it died. ``seq`` is its place here, ``message.seq`` that in its queue."""

    seq: int
    reason: str
    at_ms: int
    queue: str
    remote: str
    message: Message

    def encode(self, key: bytes) -> bytes:
        """The value to store under ``key``."""
        message = self.message
        fields = (
            self.reason,
            self.at_ms,
            self.queue,
            message.seq,
            self.remote,
            message.topic,
            message.payload,
            message.flags,
            message.properties,
            message.route,
            message.accepted_ms,
        )
        rest: bytes = msgpack.packb(fields)
        return _HEAD.pack(LETTER_VERSION, _check(key, LETTER_VERSION, rest)) + rest

    @classmethod
    def decode(cls, key: bytes, value: bytes) -> DeadLetter:
        """The letter that ``encode`` made.

        Raises:
            StorageDamaged: it is not what was written.
            ConfigError: a newer build wrote it.
        """
        seq = first_seq_of(key)
        if len(value) < _HEAD.size:
            raise StorageDamaged("a dead letter is cut short", seq=seq)
        version, check = _HEAD.unpack_from(value)
        rest = value[_HEAD.size :]
        if _check(key, version, rest) != check:
            raise StorageDamaged("a dead letter is damaged", seq=seq)
        if version != LETTER_VERSION:
            raise ConfigError("a dead letter was written by another version", seq=seq, version=version)
        reason, at_ms, queue, was, remote, topic, payload, flags, properties, route, accepted_ms = msgpack.unpackb(
            rest, max_bin_len=len(rest)
        )
        return cls(seq, reason, at_ms, queue, remote, Message(was, topic, payload, flags, properties, route, accepted_ms))


def _check(key: bytes, version: int, rest: bytes) -> int:
    return crc32(rest, crc32(bytes([version]), crc32(key)))


@dataclass(slots=True)
class DeadRow:
    """The durable row of a dead-letter queue beside its letters. ``reasons``: how many of those held died of what."""

    head: int = 0
    tail: int = 0
    trimmed: int = 0
    held: int = 0
    size_bytes: int = 0
    evicted: int = 0
    purged: int = 0
    replayed: int = 0
    damaged: int = 0
    reasons: dict[str, int] = field(default_factory=dict)

    def encode(self) -> bytes:
        """The row's value."""
        packed: bytes = msgpack.packb(
            (
                ROW_VERSION,
                self.head,
                self.tail,
                self.trimmed,
                self.held,
                self.size_bytes,
                self.evicted,
                self.purged,
                self.replayed,
                self.damaged,
                self.reasons,
            )
        )
        return packed

    @classmethod
    def decode(cls, value: bytes, *, queue: str) -> DeadRow:
        """The row that ``encode`` made.

        Raises:
            StorageDamaged: it is not a row, or contradicts itself.
            ConfigError: a newer build wrote it.
        """
        fields = unpack_row(value, ROW_VERSION, what="dead-letter queue", name=queue)
        try:
            head, tail, trimmed, held, size_bytes, evicted, purged, replayed, damaged, reasons = fields
            row = cls(head, tail, trimmed, held, size_bytes, evicted, purged, replayed, damaged, dict(reasons))
            sound = row.trimmed <= row.head <= row.tail and 0 <= row.held <= row.tail - row.head
        except (TypeError, ValueError) as error:
            raise StorageDamaged("the row of a dead-letter queue is damaged", queue=queue) from error
        if not sound:
            raise StorageDamaged("the row of a dead-letter queue contradicts itself", queue=queue)
        return row

    @property
    def ever(self) -> int:
        """How many messages were ever dead-lettered (queue.dead-letters-add-up)."""
        return self.held + self.evicted + self.purged + self.replayed + self.damaged


class DeadLetters:
    """The dead letters of one bridge. Changes memory at once and disk with the next ``write``."""

    def __init__(self, engine: Engine, bridge: str, number: int) -> None:
        """Open it as the engine has it, or new.

        Raises:
            StorageDamaged, ConfigError, Unavailable: its row cannot be read.
        """
        self.name = dead_queue_name(bridge)
        self.number = number
        self._engine = engine
        value = engine.get("meta", dead_key(number))
        self._row = DeadRow() if value is None else DeadRow.decode(value, queue=self.name)
        self._pending: deque[tuple[int, str, str, str, Message]] = deque()  # not yet in a write: seq, reason, queue, remote
        self._pending_from = self._row.tail
        self._untrimmed_bytes = 0
        self._changed = False
        self._unreadable = False
        self._leaving = False  # the open write takes letters out

    # --- figures ---

    @property
    def held(self) -> int:
        """How many messages are here."""
        return self._row.held

    @property
    def size_bytes(self) -> int:
        """Of the messages that are here."""
        return self._row.size_bytes

    @property
    def next_seq(self) -> int:
        """One past the newest letter's place."""
        return self._row.tail

    @property
    def changed(self) -> bool:
        """Whether something waits for ``write``."""
        return self._changed

    def figures(self) -> DeadLetterFigures:
        """For ``status`` and ``queue list``."""
        row = self._row
        return DeadLetterFigures(
            held=row.held,
            bytes=row.size_bytes,
            reasons=dict(row.reasons),
            evicted=row.evicted,
            purged=row.purged,
            replayed=row.replayed,
            damaged=row.damaged,
        )

    # --- in ---

    def add(self, messages: Iterable[Message], *, reason: str, queue: str, remote: str) -> int:
        """Take ``messages``, which ``queue`` settles in the same commit; how many they were."""
        row = self._row
        added = 0
        for message in messages:
            self._pending.append((row.tail, reason, queue, remote, message))
            row.tail += 1
            added += 1
        row.held += added
        if added:
            row.reasons[reason] = row.reasons.get(reason, 0) + added
            self._changed = True
        return added

    def lose(self, messages: int) -> None:
        """Count messages that died and could not be read to be kept."""
        self._row.damaged += messages
        self._changed = True

    def write(self, write: Write, now_ms: int, limits: DeadLetterSettings, *, evict: bool) -> int:
        """Put what changed into ``write``; how many letters gave way to the limits.

        evict: whether the engine has everything of former writes, so that the oldest can be looked up.
        """
        fresh: deque[tuple[bytes, bytes, str]] = deque()
        for seq, reason, queue, remote, message in self._pending:
            key = chunk_key(self.number, seq)
            value = DeadLetter(seq, reason, now_ms, queue, remote, message).encode(key)
            fresh.append((key, value, reason))
            self._row.size_bytes += len(value)
        evicted = self._evict(now_ms, fresh, limits) if evict else 0
        for key, value, _ in fresh:
            write.put("msg", key, value)
        self._pending.clear()
        self._pending_from = self._row.tail
        if self._changed:
            self._trim(write, TRIM_LETTERS, TRIM_BYTES)
            write.put("meta", dead_key(self.number), self._row.encode())
            self._changed = False
        return evicted

    def tick(self, write: Write, now_ms: int, limits: DeadLetterSettings) -> int:
        """Housekeeping: letters that grew too old, limits that were lowered, and space given back; how many gave way."""
        evicted = self._evict(now_ms, deque(), limits)
        self._trim(write, 1, 1)
        return evicted

    # --- out ---

    def read(self, start: int = 0) -> Iterator[tuple[int, DeadLetter | None]]:
        """The committed letters from place ``start`` on, oldest first: (place, letter); None for one that is damaged.

        Raises:
            StorageDamaged, ConfigError, Unavailable: the rest cannot be read.
        """
        low = chunk_key(self.number, max(start, self._row.head))
        for key, value in self._engine.scan("msg", low, chunk_key(self.number, self._pending_from)):
            try:
                yield first_seq_of(key), DeadLetter.decode(key, value)
            except StorageDamaged:
                yield first_seq_of(key), None

    def on_replayed(self, letters: Iterable[DeadLetter], write: Write) -> None:
        """Take ``letters``, which ``write`` appends to their queue, out."""
        self._row.replayed += self._take_out(letters, write)

    def remove(self, letters: Iterable[DeadLetter], write: Write) -> int:
        """Take ``letters`` out for good; how many they were."""
        gone = self._take_out(letters, write)
        self._row.purged += gone
        return gone

    def _take_out(self, letters: Iterable[DeadLetter], write: Write) -> int:
        taken = 0
        for letter in letters:
            key = chunk_key(self.number, letter.seq)
            write.delete("msg", key)
            self._leave(len(letter.encode(key)), letter.reason)
            if letter.seq == self._row.head:
                self._row.head += 1
            taken += 1
        self._leaving = True
        write.on_commit(self._on_left)
        self._settle_down()
        return taken

    def purge(self, write: Write) -> int:
        """Remove every letter; how many they were. Nothing is read."""
        assert not self._pending, "a purge comes after a commit"
        row = self._row
        purged = row.held
        write.delete_range("msg", chunk_key(self.number, row.trimmed), chunk_key(self.number, row.tail))
        row.purged += purged
        row.held = 0
        self._settle_down()
        row.trimmed = row.tail
        self._unreadable = False
        return purged

    # --- inside ---

    def _on_left(self) -> None:
        self._leaving = False

    def _over(self, limits: DeadLetterSettings) -> bool:
        row = self._row
        return (limits.max_messages is not None and row.held > limits.max_messages) or (
            limits.max_bytes is not None and row.size_bytes > limits.max_bytes
        )

    def _evict(self, now_ms: int, fresh: deque[tuple[bytes, bytes, str]], limits: DeadLetterSettings) -> int:
        """queue.dead-letters-bounded; ``fresh`` are letters (key, value, reason) that no write has yet. If the oldest cannot be
        read, the newest go.
        """
        if self._leaving:
            return 0  # they go another time
        row = self._row
        before = row.evicted
        if row.held and (limits.max_age_s is not None or self._over(limits)):
            try:
                self._evict_oldest(now_ms, limits)
            except Unavailable:
                return row.evicted - before  # they go another time
            except (StorageDamaged, ConfigError) as error:
                if not self._unreadable:
                    self._unreadable = True
                    log.error("dead_letters.damaged", extra={"queue": self.name, "error": str(error)})
        while self._over(limits) and fresh:
            _, value, reason = fresh.pop() if self._unreadable else fresh.popleft()
            self._leave(len(value), reason)
            row.evicted += 1
        if row.evicted != before:
            self._settle_down()
        return row.evicted - before

    def _evict_oldest(self, now_ms: int, limits: DeadLetterSettings) -> None:
        row, max_age_s = self._row, limits.max_age_s
        low, high = chunk_key(self.number, row.head), chunk_key(self.number, self._pending_from)
        for key, value in self._engine.scan("msg", low, high):
            letter = None
            with suppress(StorageDamaged):  # it gives way like any other; of what it died is not known
                letter = DeadLetter.decode(key, value)
            expires = max_age_s is not None and (letter is None or elapsed_ms(letter.at_ms, now_ms) > max_age_s * 1000)
            if not self._over(limits) and not expires:
                return
            row.head = first_seq_of(key) + 1
            self._leave(len(value), letter.reason if letter is not None else None)
            self._untrimmed_bytes += len(value)
            row.evicted += 1

    def _leave(self, size_bytes: int, reason: str | None) -> None:
        row = self._row
        row.held -= 1
        row.size_bytes -= size_bytes
        if reason is not None and reason in row.reasons:
            row.reasons[reason] -= 1
            if row.reasons[reason] <= 0:
                del row.reasons[reason]

    def _settle_down(self) -> None:
        """After letters have left: an empty queue begins at its tail."""
        row = self._row
        if not row.held:
            row.head = row.tail
            row.size_bytes = 0
            row.reasons.clear()
        self._changed = True

    def _trim(self, write: Write, letters: int, size_bytes: int) -> None:
        row = self._row
        if row.head > row.trimmed and (row.head - row.trimmed >= letters or self._untrimmed_bytes >= size_bytes):
            write.delete_range("msg", chunk_key(self.number, row.trimmed), chunk_key(self.number, row.head))
            row.trimmed = row.head
            self._untrimmed_bytes = 0
            self._changed = True


def dead_queue_name(bridge: str) -> str:
    """The name of the dead-letter queue of ``bridge``."""
    return f"dead:{bridge}"
