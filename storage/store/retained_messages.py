"""Retained messages on disk: one row a topic, changed in the commit of the batch that brought the message.

Topics, owners, sizes and expiry times are in memory, the messages are not. Which of them a subscription gets is the rule of
``wire/routing/retained_topics.py``.

How many there may be of one user, address or bridge is shared out (store.shared-out).
"""

from __future__ import annotations

import logging
from array import array
from collections.abc import Callable
from dataclasses import dataclass, replace

import msgpack

from storage.engine.engine import Engine, Write
from storage.engine.keys import retained_key
from wire.clock_steps import elapsed_ms
from wire.config_settings import SettingsNow
from wire.errors import StorageDamaged, Unavailable, UnknownFrame
from wire.frames.batch import QOS_MASK, RETAIN, Batch, concat
from wire.limit_shares import Shares
from wire.mqtt.message_expiry import aged_properties, expired_rows
from wire.mqtt.publish_properties import message_expiry_s
from wire.routing.retained_topics import CLEARED, RetainedTopics, pack_owned, retained_rows, unpack_owned
from wire.status.store import RetainedFigures

log = logging.getLogger("bascule")

LOOKS_MAX = 2000  # topics that are looked at for one piece, whether they match or not
SWEEP_S = 60.0
MAKE_ROOM_MS = 1000  # while there is no room, what has expired is looked for so often


@dataclass(slots=True)
class Allowance:
    """The limits of one piece: its bytes, and how many topics may be looked at for it; the last message may go beyond its bytes."""

    messages: int
    size_bytes: int
    looks: int = LOOKS_MAX

    @property
    def is_spent(self) -> bool:
        """Whether the piece ends here."""
        return self.messages <= 0 or self.size_bytes <= 0 or self.looks <= 0


class RetainedMessages:
    """The retained messages of the node. ``refused`` counts those for which there was no room."""

    def __init__(self, engine: Engine, settings: SettingsNow) -> None:
        """Read which there are. A message that cannot be read is taken out, and named.

        Raises:
            StorageDamaged, Unavailable: the rows cannot be read at all.
        """
        self._engine = engine
        self._settings = settings
        self._topics = RetainedTopics()
        self._kept: dict[bytes, tuple[str, int]] = {}  # in whose share, and its bytes
        self._messages, self._bytes = Shares(), Shares()
        self._lasts_ms: dict[bytes, tuple[int, int]] = {}  # of those that expire: from when, and how long
        self._at_qos0: set[bytes] = set()
        self._pending: dict[bytes, bytes] = {}  # in the open write
        self._swept_s = 0.0
        self._made_room_ms = 0
        self._damaged: list[bytes] = []
        self._unreadable: set[bytes] = set()  # the newest read of them was refused
        self.refused = 0
        for key, value in engine.scan("meta", retained_key(b""), b"S"):
            topic = key[1:]
            try:
                owner, batch = decode_row(topic, value)
            except StorageDamaged as error:
                log.error("retained.damaged", extra=error.fields)
                self._damaged.append(topic)
            else:
                self._note(topic, owner, batch, len(value))

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def kept_bytes(self) -> int:
        """About what the disk keeps of them."""
        return self._bytes.total

    def figures(self, *, owing: int = 0) -> RetainedFigures:
        """Figures for ``status``. owing: to how many queues not all was brought yet."""
        return RetainedFigures(messages=len(self._kept), bytes=self._bytes.total, refused=self.refused, owing=owing)

    def change(self, body: bytes, write: Write) -> None:
        """Take up the rows of ``body`` that have RETAIN; they hold once ``write`` is committed.

        Source: MQTT-3.3.1-5 to -8.
        """
        batch, owners = unpack_owned(body)
        payloads: list[bytes] | None = None
        for topic, row in retained_rows(batch).items():
            if row == CLEARED:
                self._remove(topic, write)
                continue
            if payloads is None:
                payloads = batch.rows_payloads()
            owner, kept = owners[row], _single(batch, row, payloads[row])
            value = pack_owned(kept, [owner])
            limit = self._limit(topic, owner, len(value))
            if limit and self._makes_room(batch.accepted_ms, write):
                limit = self._limit(topic, owner, len(value))
            if not limit:
                self._note(topic, owner, kept, len(value))
                write.put("meta", retained_key(topic), value)
                if not self._pending:
                    write.on_commit(self._pending.clear)
                self._pending[topic] = value
            else:
                self._refuse(topic, limit)

    def owner(self, topic: bytes) -> str:
        """In whose share the message counts that is retained under ``topic``."""
        return self._kept[topic][0] if topic in self._kept else ""

    def is_at_qos0(self, topic: bytes) -> bool:
        """Whether the message that is retained under ``topic`` has QoS 0."""
        return topic in self._at_qos0

    def piece(
        self, topic_filter: str, after: bytes, wanted: Callable[[bytes], bool], allowance: Allowance, wall_ms: int
    ) -> tuple[Batch | None, bytes | None]:
        """The retained messages under plain ``topic_filter`` behind the topic ``after``, and the topic behind which to go on.

        It takes from ``allowance`` what it needs. None instead of a batch: there is none in this piece; None instead of a topic:
        this was the last piece. wanted: tells of a topic that matches whether its message is to be in it.

        One that cannot be read is waited for once. If that is refused again it is left out, and named: its sector may be lost for
        good, and everything that comes in waits meanwhile.

        Raises:
            Unavailable: open the engine again, and call it again.
        """
        refusal: Unavailable | None = None
        found: list[Batch] = []
        place: bytes | None = after
        for topic, matches in self._topics.walk(topic_filter, after):
            if allowance.is_spent:
                break
            allowance.looks -= 1
            place = topic
            if not matches or not wanted(topic):
                continue
            try:
                batch = self.message(topic, wall_ms)
            except Unavailable as error:
                refusal = error
                continue
            if batch is not None:
                found.append(batch)
                allowance.messages -= 1
                allowance.size_bytes -= batch.size_bytes()
        else:
            place = None
        if refusal is not None:
            raise refusal
        return concat(found) if found else None, place

    def message(self, topic: bytes, wall_ms: int) -> Batch | None:
        """The message that is retained under ``topic``, its expiry told as of now; None if there is none, or it has expired or
        cannot be read.

        Raises:
            Unavailable: as ``piece``.
        """
        try:
            batch = self._read(topic)
        except Unavailable as error:
            if topic not in self._unreadable:
                self._unreadable.add(topic)
                raise
            log.error("retained.unreadable", extra={"topic": topic.decode(errors="replace"), "error": str(error)})
            return None
        self._unreadable.discard(topic)
        if batch is None or expired_rows(batch, wall_ms):
            return None
        return replace(batch, properties=aged_properties(batch, wall_ms), accepted_ms=wall_ms)

    def tick(self, write: Write, now_s: float, wall_ms: int) -> None:
        """Remove, now and then, what has expired [MQTT-3.3.2-5] and what was found damaged."""
        for topic in self._damaged:
            write.delete("meta", retained_key(topic))
        self._damaged.clear()
        if now_s - self._swept_s >= SWEEP_S:
            self._swept_s = now_s
            self._sweep(write, wall_ms)

    def _sweep(self, write: Write, wall_ms: int) -> None:
        for topic in [topic for topic, (since_ms, for_ms) in self._lasts_ms.items() if elapsed_ms(since_ms, wall_ms) >= for_ms]:
            self._remove(topic, write)

    def _read(self, topic: bytes) -> Batch | None:
        if topic not in self._kept:
            return None
        value = self._pending.get(topic)
        try:
            if value is None:
                value = self._engine.get("meta", retained_key(topic))
            return None if value is None else decode_row(topic, value)[1]
        except StorageDamaged as error:
            log.error("retained.damaged", extra=error.fields)
            return None

    def _limit(self, topic: bytes, owner: str, size_bytes: int) -> str:
        """Which limit keeps the message of ``owner`` out, empty for none (store.shared-out)."""
        settings, (former, old) = self._settings.now.sessions, self._kept.get(topic, (None, 0))
        if former == owner and size_bytes <= old:
            return ""  # it takes no more than what it replaces
        self._count(topic, -1)
        limit, percent = "", settings.user_share_percent
        if former != owner:
            limit = self._messages.broken(owner, 1, "retained_max_messages", settings.retained_max_messages, percent)
        limit = limit or self._bytes.broken(owner, size_bytes, "retained_max_bytes", settings.retained_max_bytes, percent)
        self._count(topic, 1)
        return limit

    def _makes_room(self, wall_ms: int, write: Write) -> bool:
        """Remove what has expired: nobody gets it any more, so it takes no room from others. Whether that was looked for."""
        if abs(wall_ms - self._made_room_ms) < MAKE_ROOM_MS:
            return False
        self._made_room_ms = wall_ms
        self._sweep(write, wall_ms)
        return True

    def _refuse(self, topic: bytes, limit: str) -> None:
        if not self.refused:
            log.warning("retained.refused", extra={"topic": topic.decode(errors="replace"), "limit": limit})
        self.refused += 1

    def _note(self, topic: bytes, owner: str, batch: Batch, size_bytes: int) -> None:
        if topic not in self._kept:
            self._topics.add(topic)
        self._count(topic, -1)
        self._kept[topic] = owner, size_bytes
        self._count(topic, 1)
        (self._at_qos0.discard if batch.flags[0] & QOS_MASK else self._at_qos0.add)(topic)
        expiry_s = message_expiry_s(batch.properties[0]) if 0 in batch.properties else None
        if expiry_s is None:
            self._lasts_ms.pop(topic, None)
        else:
            self._lasts_ms[topic] = batch.accepted_ms, expiry_s * 1000

    def _count(self, topic: bytes, messages: int) -> None:
        """The retained message of ``topic``, if there is one, counts for its owner: 1; or does not any more: -1."""
        if topic in self._kept:
            owner, size_bytes = self._kept[topic]
            self._messages.add(owner, messages)
            self._bytes.add(owner, messages * size_bytes)

    def _remove(self, topic: bytes, write: Write) -> None:
        if topic not in self._kept:
            return
        self._count(topic, -1)
        del self._kept[topic]
        self._lasts_ms.pop(topic, None)
        self._pending.pop(topic, None)
        self._at_qos0.discard(topic)
        self._topics.discard(topic)
        write.delete("meta", retained_key(topic))


def _single(batch: Batch, row: int, payload: bytes) -> Batch:
    index = batch.topic_of[row]
    properties = batch.properties.get(row) or (batch.topic_properties[index] if batch.topic_properties else b"")
    return Batch(
        accepted_ms=batch.accepted_ms,
        topics=[batch.topics[index]],
        topic_of=array("H", [0]),
        flags=bytes([batch.flags[row] & (QOS_MASK | RETAIN)]),
        lengths=array("I", [len(payload)]),
        payloads=payload,
        properties={0: properties} if properties else {},
    )


def decode_row(topic: bytes, value: bytes) -> tuple[str, Batch]:
    """The owner of the message that is retained under ``topic``, and the message, of its row ``value``.

    Raises:
        StorageDamaged: it is no message of ``topic``.
    """
    try:
        batch, (owner,) = unpack_owned(value)
        if len(batch) == 1 and batch.topics == [topic]:
            return owner, batch
    except (UnknownFrame, ValueError, TypeError, IndexError, msgpack.UnpackException):
        pass  # told below
    raise StorageDamaged("a retained message is damaged", topic=topic.decode(errors="replace"))
