"""Messages handed to a Connection, kept as they came until they are settled, and their encoding as PUBLISH packets.

A segment is one ``HandOut``, or its like for a local client: the batch's columns and the runs in it, which are rows of
consecutive sequences with the same flags.
A run is encoded column by column; nothing is made per message but the bytes that leave. Which rows may leave is the business of
``wire/exchange/publish_gate.py``.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from itertools import accumulate, groupby
from typing import NamedTuple

from wire.clock_steps import elapsed_ms
from wire.exchange.packet_identifiers import PACKET_IDS, id_fields
from wire.frames.batch import QOS_MASK, RETAIN, Batch, unpack_column
from wire.frames.lanes import HandOut
from wire.mqtt.aliases import Names, OutgoingAliases
from wire.mqtt.encoder import encode_with_length
from wire.mqtt.message_expiry import aged, waited_s
from wire.mqtt.primitives import encode_variable_byte_integer
from wire.mqtt.publish_properties import message_expiry_s
from wire.ranges import Ranges, ranges_of

_HEADS_MAX = 50_000
_DUP = 0x08


class Style(NamedTuple):
    """How the remote wants its PUBLISHes: the protocol level (4 or 5), its highest QoS, and whether it takes RETAIN."""

    level: int
    maximum_qos: int
    retain_available: bool


class Run(NamedTuple):
    """Rows ``[start, stop)`` with consecutive sequences from ``first_seq`` on and the same ``flags`` (QoS, RETAIN)."""

    start: int
    stop: int
    first_seq: int
    flags: int


class _Heads(dict[int, bytes]):
    """Payload length -> what precedes the packet identifier, for one topic name and one first byte."""

    __slots__ = ("_cache", "_first", "_fixed", "_tail")

    def __init__(self, cache: HeadCache, first_byte: int, topic: bytes, field_bytes: int) -> None:
        self._cache = cache
        self._first = bytes([first_byte])
        self._tail = len(topic).to_bytes(2, "big") + topic
        self._fixed = len(self._tail) + (2 if first_byte & 0x06 else 0) + field_bytes

    def __missing__(self, length: int) -> bytes:
        head = self[length] = self._first + encode_variable_byte_integer(self._fixed + length) + self._tail
        self._cache.heads += 1
        return head


class HeadCache:
    """The heads of PUBLISH packets of one connection; emptied when there are more than some tens of thousands."""

    def __init__(self, level: int, aliases: OutgoingAliases | None = None) -> None:
        """aliases: those of the connection, if the peer takes any; what may be larger than ``packet_max_bytes`` gets none."""
        self.level = level
        self.aliases = aliases
        self.packet_max_bytes: int | None = None
        self.heads = 0
        self._of: dict[tuple[int, bytes, int], _Heads] = {}

    def limit(self, packet_max_bytes: int | None) -> None:
        """The peer takes no larger packet from now on."""
        self.packet_max_bytes = packet_max_bytes

    def of(self, first_byte: int, topic: bytes, field_bytes: int) -> _Heads:
        """The heads of ``topic`` under ``first_byte``, for a property field (length and properties) of ``field_bytes`` bytes."""
        key = (first_byte, topic, field_bytes)
        heads = self._of.get(key)
        if heads is None:
            if self.heads + len(self._of) > _HEADS_MAX:
                self._of.clear()
                self.heads = 0
            heads = self._of[key] = _Heads(self, first_byte, topic, field_bytes)
        return heads


class Columns:
    """The columns of one batch as its PUBLISH packets need them; read only, so any number of segments may share them.

    offsets: the rows' sequences, counted from that of the hand-out; None: 0, 1, 2, ... shared: what one segment encodes is kept for
    the next one that wants the same rows under the same packet identifiers, as when many clients get the same messages in step.
    """

    __slots__ = (
        "accepted_ms",
        "common",
        "count",
        "ends",
        "fields",
        "first_seq",
        "lengths",
        "made",
        "payloads",
        "properties",
        "runs",
        "shortest_s",
        "topic_of",
        "topics",
    )

    def __init__(self, batch: Batch, offsets: array[int] | None = None, *, first_seq: int = 0, shared: bool = False) -> None:
        """first_seq: the sequence that the offsets count from, where all segments count from the same."""
        self.first_seq = first_seq
        self.count = len(batch.flags)
        self.accepted_ms = batch.accepted_ms
        self.shortest_s = _shortest_interval(batch) if batch.properties else None
        self.topics = batch.topics
        self.topic_of = batch.topic_of
        self.lengths = batch.lengths
        self.payloads = batch.payloads
        self.properties = batch.properties
        self.common = batch.topic_properties
        self.fields = _property_fields(batch) if batch.topic_properties else [b"\x00"] * len(batch.topics)
        self.ends = list(accumulate(batch.lengths, initial=0))
        self.runs = _runs(batch.flags, self.count, first_seq, offsets)
        self.made: dict[tuple[int, int, int, bool, Style, tuple[int, ...]], bytes] | None = {} if shared else None


class PublishSegment:
    """Rows in hand from sequence ``first_seq`` on, with the place up to which they have been looked at on this connection.

    That is ``row`` of the run ``run``, with the sequence ``next_seq``; it is past the last run when all were looked at.
    """

    __slots__ = (
        "_common",
        "_fields",
        "_heads",
        "_lengths",
        "_longest",
        "_made",
        "_max_age_ms",
        "_passed",
        "_passed_bytes",
        "_payloads",
        "_properties",
        "_shortest_s",
        "_too_old",
        "_topic_of",
        "_topics",
        "_waited_s",
        "accepted_ms",
        "count",
        "ends",
        "expires",
        "first_seq",
        "next_seq",
        "row",
        "run",
        "runs",
        "size_bytes",
        "stop_seq",
    )

    def __init__(self, columns: Columns, first_seq: int, size_bytes: int, max_age_ms: float | None = None) -> None:
        """first_seq: the sequence that the columns' offsets count from. max_age_ms: what is older has expired, whatever it says."""
        self.count = columns.count
        self.size_bytes = size_bytes
        self._topics = columns.topics
        self._topic_of = columns.topic_of
        self._lengths = columns.lengths
        self._payloads = columns.payloads
        self._properties = columns.properties
        self._common = columns.common
        self._fields = columns.fields
        self.ends = columns.ends
        self._longest = 0  # what of a packet is not its payload, at most; 0: nobody has asked
        self._made = columns.made if columns.shortest_s is None else None  # what tells its age differs from second to second
        self.runs = columns.runs
        if first_seq != columns.first_seq:
            self.runs = [Run(run.start, run.stop, first_seq + run.first_seq - columns.first_seq, run.flags) for run in self.runs]
        self.first_seq = self.next_seq = self.runs[0].first_seq
        last = self.runs[-1]
        self.stop_seq = last.first_seq + last.stop - last.start
        self._heads: dict[int, list[_Heads]] = {}
        self.run = 0
        self.row = 0
        self._passed = 0
        self._passed_bytes = 0
        self.accepted_ms = columns.accepted_ms
        self._shortest_s = columns.shortest_s
        self._max_age_ms = max_age_ms
        self.expires = columns.shortest_s is not None or max_age_ms is not None  # any row can become too old
        self._waited_s = 0
        self._too_old = False

    @classmethod
    def of(cls, frame: HandOut, max_age_ms: float | None = None) -> PublishSegment:
        """The segment that is one hand-out."""
        offsets = unpack_column("I", frame.offsets) if frame.offsets else None
        columns = Columns(Batch.decode(frame.bodies[0]), offsets, first_seq=frame.first_seq)
        return cls(columns, frame.first_seq, frame.size_bytes, max_age_ms)

    def age(self, wall_ms: int) -> None:
        """Messages from now on leave at ``wall_ms`` (UTC epoch)."""
        if self._shortest_s is not None:
            self._waited_s = waited_s(self.accepted_ms, wall_ms)
        self._too_old = self._max_age_ms is not None and elapsed_ms(self.accepted_ms, wall_ms) > self._max_age_ms

    def alike_in_time(self, rows: int) -> tuple[int, bool]:
        """How many of the next ``rows`` rows have time left, as of ``age``, or else have none; and which of the two it is."""
        if self._all_in_time():
            return rows, True
        if self._too_old:
            return rows, False
        first = self._has_time(self.row)
        stop = self.row + 1
        while stop < self.row + rows and self._has_time(stop) == first:
            stop += 1
        return stop - self.row, first

    def expired(self) -> Ranges:
        """The sequences of QoS 1 and 2 that have no time left, as of ``age``, among the rows that are still to be looked at."""
        if self._all_in_time():
            return ()
        return ranges_of(
            run.first_seq + row - run.start
            for run in self.runs[self.run :]
            if run.flags & QOS_MASK
            for row in range(max(run.start, self.row), run.stop)
            if not self._has_time(row)
        )

    def _all_in_time(self) -> bool:
        return not self._too_old and (self._shortest_s is None or self._waited_s < self._shortest_s)

    def _has_time(self, row: int) -> bool:
        if self._too_old:
            return False
        interval_s = message_expiry_s(self._properties.get(row, b""))
        return interval_s is None or interval_s > self._waited_s

    def rewind(self) -> None:
        """Begin again at the first row, for a new connection."""
        self.run = 0
        self.row = 0
        self.next_seq = self.first_seq
        self._heads = {}

    def advance(self, rows: int) -> tuple[int, int]:
        """Pass ``rows`` rows of the current run: how many were never passed before, and their share of ``size_bytes``."""
        self.row += rows
        self.next_seq += rows
        if self.row == self.runs[self.run].stop:
            self.run += 1
            if self.row < self.count:
                self.next_seq = self.runs[self.run].first_seq
        messages = self.row - self._passed
        if messages <= 0:
            return 0, 0
        self._passed = self.row
        share = self.size_bytes * self._passed // self.count
        size_bytes, self._passed_bytes = share - self._passed_bytes, share
        return messages, size_bytes

    def rows_within(self, rows: int, size_bytes: int) -> int:
        """How many of the next ``rows`` rows fit into a burst of about ``size_bytes``; at least one."""
        row = self.row
        fit = bisect_right(self.ends, self.ends[row] + size_bytes, row, row + rows + 1) - 1 - row
        return max(1, min(rows, fit, size_bytes // self._head_bytes_max() + 1))

    def _head_bytes_max(self) -> int:
        if not self._longest:
            self._longest = max(map(len, self._topics)) + max(map(len, self._fields)) + 16
        return self._longest

    def may_exceed(self, size_bytes: int) -> bool:
        """Whether any row's packet could be larger than ``size_bytes``."""
        largest = max(self._lengths) + self._head_bytes_max()
        if self._properties:
            largest += max(map(len, self._properties.values()))
        return largest > size_bytes

    def packet_bytes(self, row: int, flags: int, style: Style) -> int:
        """The size of the PUBLISH packet of ``row``. Source: MQTT-3.1.2-24."""
        return self._packet_bytes(self._topic_of[row], self._lengths[row], flags, style, self._properties.get(row))

    def _packet_bytes(self, topic: int, length: int, flags: int, style: Style, own: bytes | None) -> int:
        remaining = 2 + len(self._topics[topic]) + length
        if min(flags & QOS_MASK, style.maximum_qos):
            remaining += 2
        if style.level == 5:
            remaining += len(self._fields[topic] if own is None else encode_with_length(own))
        return 1 + len(encode_variable_byte_integer(remaining)) + remaining

    def describe(self, seq: int, style: Style) -> tuple[str, int]:
        """The topic name of the message ``seq``, which is here, and the size of its PUBLISH packet."""
        run = next(run for run in self.runs if run.first_seq <= seq < run.first_seq + run.stop - run.start)
        row = run.start + seq - run.first_seq
        return self._topics[self._topic_of[row]].decode(errors="replace"), self.packet_bytes(row, run.flags, style)

    def publishes(self, rows: int, seq: int, dup: bool, style: Style, cache: HeadCache) -> list[bytes]:
        """The next ``rows`` rows, which begin at sequence ``seq``, as PUBLISH packets in pieces to be joined.

        Source: MQTT 5.0 section 3.3; DUP only with QoS 1 and 2 [MQTT-3.3.1-2].
        """
        start, stop = self.row, self.row + rows
        if cache.aliases is not None and (cache.packet_max_bytes is None or not self.may_exceed(cache.packet_max_bytes)):
            return [self._aliased(rows, seq, dup, style, cache.aliases)]
        key = (start, rows, seq % PACKET_IDS, dup, style, ())
        if self._made is not None and (known := self._made.get(key)) is not None:
            return [known]
        flags = self.runs[self.run].flags
        qos = flags & QOS_MASK
        if qos > style.maximum_qos:
            qos = style.maximum_qos
        first_byte = 0x30 | qos << 1 | (1 if flags & RETAIN and style.retain_available else 0)
        if dup and qos:
            first_byte |= _DUP
        lengths, ends, payloads = self._lengths[start:stop], self.ends, self._payloads
        with_fields = style.level == 5
        topic_of = self._topic_of[start:stop]
        if len(self._topics) == 1:
            field_bytes = len(self._fields[0]) if with_fields else 0
            heads = list(map(cache.of(first_byte, self._topics[0], field_bytes).__getitem__, lengths))
        else:
            by_topic = self._heads.get(first_byte)
            if by_topic is None:
                sizes = [len(field) if with_fields else 0 for field in self._fields]
                by_topic = self._heads[first_byte] = [cache.of(first_byte, *of) for of in zip(self._topics, sizes, strict=True)]
            heads = [by_topic[topic][length] for topic, length in zip(topic_of, lengths, strict=True)]
        columns = [heads, id_fields(seq, rows)] if qos else [heads]
        if with_fields:
            columns.append(self._fields * rows if len(self._fields) == 1 else [self._fields[topic] for topic in topic_of])
        bodies = [payloads]
        if self.count > 1:
            bodies = [payloads[begin:end] for begin, end in zip(ends[start:stop], ends[start + 1 : stop + 1], strict=True)]
        columns.append(bodies)
        stride = len(columns)
        parts = [b""] * (stride * rows)
        for place, column in enumerate(columns):
            parts[place::stride] = column
        if self._properties and with_fields:
            self._put_properties(parts, start, stop, first_byte)
        if self._made is not None:
            self._made[key] = b"".join(parts)
            return [self._made[key]]
        return parts

    def _aliased(self, rows: int, seq: int, dup: bool, style: Style, aliases: OutgoingAliases) -> bytes:
        """``publishes`` for a client that takes topic aliases. Clients with the same plan are sent the same bytes."""
        start, stop = self.row, self.row + rows
        indexes = list(dict.fromkeys(self._topic_of[start:stop])) if len(self._topics) > 1 else [0]
        plan = aliases.plan([self._topics[index] for index in indexes])
        key = (start, rows, seq % PACKET_IDS, dup, style, plan)
        if self._made is not None and (known := self._made.get(key)) is not None:
            return known
        flags = self.runs[self.run].flags
        qos = min(flags & QOS_MASK, style.maximum_qos)
        retain = flags & RETAIN and style.retain_available
        first = bytes([0x30 | qos << 1 | (1 if retain else 0) | (_DUP if dup and qos else 0)])
        names, ends = Names(self._topics, indexes, plan), self.ends
        packet_ids = id_fields(seq, rows) if qos else [b""] * rows
        parts: list[bytes] = []
        for row, packet_id in zip(range(start, stop), packet_ids, strict=True):
            index = self._topic_of[row]
            topic_field, alias = names.take(index)
            own = self._properties.get(row)
            common = self._common[index] if self._common else b""
            field = encode_with_length(alias + (common if own is None else aged(own, self._waited_s)))
            payload = self._payloads[ends[row] : ends[row + 1]]
            length = encode_variable_byte_integer(len(topic_field) + len(packet_id) + len(field) + len(payload))
            parts += (first, length, topic_field, packet_id, field, payload)
        packets = b"".join(parts)
        if self._made is not None:
            self._made[key] = packets
        return packets

    def _put_properties(self, parts: list[bytes], start: int, stop: int, first_byte: int) -> None:
        """Make the heads and property fields of those rows of ``[start, stop)`` anew that have properties of their own."""
        properties = self._properties
        rows = range(start, stop) if len(properties) > stop - start else sorted(properties)
        stride = len(parts) // (stop - start)
        first = bytes([first_byte])
        id_bytes = stride - 3 and 2  # head, (identifier,) property field, payload
        for row in rows:
            own = properties.get(row)
            if own is None or not start <= row < stop:
                continue
            topic = self._topics[self._topic_of[row]]
            field = encode_with_length(aged(own, self._waited_s) if self._waited_s else own)
            remaining = 2 + len(topic) + id_bytes + len(field) + self._lengths[row]
            place = (row - start) * stride
            parts[place] = first + encode_variable_byte_integer(remaining) + len(topic).to_bytes(2, "big") + topic
            parts[place + stride - 2] = field


def _shortest_interval(batch: Batch) -> int | None:
    """The shortest message expiry interval of ``batch``; None if no row has one."""
    intervals = (message_expiry_s(raw) for raw in set(batch.properties.values()))
    return min((interval for interval in intervals if interval is not None), default=None)


def _property_fields(batch: Batch) -> list[bytes]:
    """Per topic the property field (length and properties) of its rows that have no properties of their own."""
    return [encode_with_length(properties) for properties in batch.topic_properties]


def _runs(flags: bytes, rows: int, first_seq: int, offsets: array[int] | None) -> list[Run]:
    """The rows as runs of consecutive sequences with the same QoS and RETAIN."""
    if rows == 1:
        return [Run(0, 1, first_seq + (0 if offsets is None else offsets[0]), _PLAIN_FLAGS[flags[0]])]
    flags = flags.translate(_PLAIN_FLAGS)
    alike = flags.count(flags[0]) == rows
    if alike and offsets is None:
        return [Run(0, rows, first_seq, flags[0])]
    runs = []
    start = 0
    for flag, group in [(flags[0], flags)] if alike else groupby(flags):
        stop = start + (rows if group is flags else len(list(group)))
        if offsets is None:
            runs.append(Run(start, stop, first_seq + start, flag))
        else:
            begin = start
            for row in range(start + 1, stop + 1):
                if row == stop or offsets[row] != offsets[row - 1] + 1:
                    runs.append(Run(begin, row, first_seq + offsets[begin], flag))
                    begin = row
        start = stop
    return runs


_PLAIN_FLAGS = bytes(value & (QOS_MASK | RETAIN) for value in range(256))
