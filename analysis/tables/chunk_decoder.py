"""The columnar decoder: many chunks at once become columns, without a Python object for a message.

A chunk is a fixed header and a batch that has columns already (``storage/queue/chunk``, ``wire/frames/batch``); so chunks are
checked and unpacked by functions in C over whole lists, and what is left is joining columns and arithmetic on them. It costs some
microseconds a chunk and next to nothing a message, whether a chunk has one message or thousands. Each column is made only when it
is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial
from itertools import chain
from operator import itemgetter
from typing import NamedTuple
from zlib import crc32

import msgpack
import numpy as np
import numpy.typing as npt

from analysis.tables.checkpoint_reader import Bulk, uncollected
from storage.queue.chunk import CHUNK_VERSION, HEADER_BYTES, SPARSE
from wire.errors import StorageDamaged
from wire.frames.batch import BATCH_VERSION, NO_ROUTE, QOS_MASK, RETAIN
from wire.routing.message_route import MessageRoute

Longs = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

NONE = -1  # in a column of whole numbers: there is none

_HEAD = np.dtype(
    [
        ("version", "u1"),
        ("flags", "u1"),
        ("count", "<u4"),
        ("span", "<u4"),
        ("qos0", "<u4"),
        ("first_seq", "<u8"),
        ("bytes_before", "<u8"),
        ("size_bytes", "<u8"),
        ("accepted_ms", "<u8"),
        ("check", "<u4"),
    ]
)
_KEY = np.dtype([("queue", ">u4"), ("seq", ">u8")])
assert _HEAD.itemsize == HEADER_BYTES

_HEAD_OF = itemgetter(slice(0, HEADER_BYTES))
_CHECKED_HEAD_OF = itemgetter(slice(0, HEADER_BYTES - 4))
_REST_OF = itemgetter(slice(HEADER_BYTES, None))
_UNPACK = partial(msgpack.unpackb, strict_map_key=False, max_bin_len=0x7FFF_FFFF)


class BadChunk(NamedTuple):
    """A chunk that is not what was written: its sequence by its key, its value, and why. newer: another version wrote it."""

    seq: int
    value: bytes
    why: str
    newer: bool = False


class ChunkColumns:
    """The sound chunks of a bulk: the columns of their headers. ``bad`` are the others."""

    def __init__(self, bulk: Bulk) -> None:
        keys, values = bulk
        self.bad: list[BadChunk] = []
        head_bytes = b"".join(map(_HEAD_OF, values))
        if len(head_bytes) != len(values) * HEADER_BYTES:
            keys, values = self._without_short(keys, values)
            head_bytes = b"".join(map(_HEAD_OF, values))
        heads = np.frombuffer(head_bytes, _HEAD)
        seqs = np.frombuffer(b"".join(keys), _KEY)["seq"].astype(np.int64)
        rests = list(map(_REST_OF, values))
        checks = np.fromiter(map(crc32, rests, map(crc32, map(_CHECKED_HEAD_OF, values))), np.uint32, len(values))
        damaged = checks != heads["check"]
        newer = ~damaged & (heads["version"] != CHUNK_VERSION)
        misplaced = ~damaged & ~newer & (heads["first_seq"].astype(np.int64) != seqs)
        unsound = damaged | newer | misplaced
        if unsound.any():
            for at in np.flatnonzero(unsound):
                why = "a chunk is damaged" if damaged[at] else "a chunk is not where it belongs"
                why = f"a chunk was written by a newer version: {heads['version'][at]}" if newer[at] else why
                self.bad.append(BadChunk(int(seqs[at]), values[at], why, bool(newer[at])))
            sound = np.flatnonzero(~unsound)
            heads, rests = heads[sound], [rests[at] for at in sound]
        self._heads = heads
        self._rests = rests
        self.first_seq: Longs = heads["first_seq"].astype(np.int64)
        self.stop: Longs = self.first_seq + heads["span"].astype(np.int64)
        self.count: Longs = heads["count"].astype(np.int64)
        self.accepted_ms: Longs = heads["accepted_ms"].astype(np.int64)
        self.bytes_before: Longs = heads["bytes_before"].astype(np.int64)
        self.size_bytes: Longs = heads["size_bytes"].astype(np.int64)

    def __len__(self) -> int:
        return len(self._rests)

    def _without_short(self, keys: Sequence[bytes], values: Sequence[bytes]) -> tuple[list[bytes], list[bytes]]:
        kept_keys, kept = [], []
        for key, value in zip(keys, values, strict=True):
            if len(value) < HEADER_BYTES:
                self.bad.append(BadChunk(int.from_bytes(key[4:12], "big"), value, "a chunk is cut short"))
            else:
                kept_keys.append(key)
                kept.append(value)
        return kept_keys, kept

    def rows(self, chosen: Flags | None = None) -> ChunkRows:
        """The rows of the chunks that are ``chosen``; None: of all.

        Raises:
            StorageDamaged: a batch is not one, though its checksum is right.
        """
        heads, rests = self._heads, self._rests
        if chosen is not None and not chosen.all():
            places = np.flatnonzero(chosen)
            heads, rests = heads[places], [rests[at] for at in places]
        return ChunkRows(heads, rests)


class ChunkRows:
    """The messages of some chunks, in order, in columns; ``count`` of them."""

    def __init__(self, heads: npt.NDArray[np.void], rests: list[bytes]) -> None:
        self._heads = heads
        self._counts: Longs = heads["count"].astype(np.int64)
        self.count = int(self._counts.sum())
        self._starts: Longs = _starts(self._counts)  # the first row of each chunk
        sparse = (heads["flags"] & SPARSE) != 0
        self._offsets: list[tuple[int, bytes]] = []  # the chunks that have a column of offsets
        bodies = rests
        if sparse.any():
            bodies = list(rests)
            for at in np.flatnonzero(sparse):
                end = 4 * int(self._counts[at])
                self._offsets.append((int(at), rests[at][:end]))
                bodies[at] = rests[at][end:]
        try:
            with uncollected():
                self._unpack(bodies)
        except (ValueError, TypeError, msgpack.UnpackException) as error:
            raise StorageDamaged("a batch cannot be unpacked", error=repr(error)) from error

    def _unpack(self, bodies: list[bytes]) -> None:
        """Unpack the batches, and keep of them only what the garbage collector need not look at: bytes and arrays."""
        fields = tuple(zip(*map(_UNPACK, bodies), strict=True)) if bodies else ((),) * 11
        versions, _, routes, topics, route_of, topic_of, flags, lengths, payloads, own, common = fields
        sizes = np.fromiter(map(len, flags), np.int64, len(bodies))
        if versions.count(BATCH_VERSION) != len(bodies) or not (sizes == self._counts).all():
            raise StorageDamaged("a batch is of another version, or contradicts its chunk")
        self._topic_of: tuple[bytes, ...] = topic_of
        self._flags: tuple[bytes, ...] = flags
        self._lengths: tuple[bytes, ...] = lengths
        self._payloads: tuple[bytes, ...] = payloads
        self._topic_counts: Longs = np.fromiter(map(len, topics), np.int64, len(bodies))
        self.topics: list[bytes] = list(chain.from_iterable(topics))
        """The topic names that ``topic`` counts in: the distinct ones of each chunk, chunk after chunk."""
        self.routes: list[MessageRoute]
        """The distinct ways of all chunks."""
        self.topic_routes: Longs
        """For each of ``topics`` the place of its route in ``routes``; ``NO_ROUTE`` where it has none."""
        self.routes, self.topic_routes = _routes_of_topics(routes, route_of, self._topic_counts)
        self._common: list[bytes] = []  # for each of ``topics`` the properties of its rows that have none of their own, if any has
        if any(common):
            self._common = list(chain.from_iterable(each or [b""] * len(of) for each, of in zip(common, topics, strict=True)))
        self._own: list[bytes] = []  # the properties of the rows that have some of their own, and which rows these are
        self._own_rows: Longs = np.zeros(0, np.int64)
        if any(own):
            sizes = np.fromiter(map(len, own), np.int64, len(own))
            self._own_rows = np.repeat(self._starts, sizes) + np.fromiter(chain.from_iterable(own), np.int64, int(sizes.sum()))
            self._own = list(chain.from_iterable(map(dict.values, own)))

    # --- columns; each is made once, when it is asked for ---

    @cached_property
    def chunk(self) -> Longs:
        """The chunk of each row."""
        return np.repeat(np.arange(len(self._counts)), self._counts)

    @cached_property
    def seq(self) -> Longs:
        """The sequences."""
        first: Longs = self._heads["first_seq"].astype(np.int64)
        seq: Longs = np.repeat(first - self._starts, self._counts)
        seq += np.arange(self.count)
        for at, column in self._offsets:
            start = int(self._starts[at])
            seq[start : start + int(self._counts[at])] = int(first[at]) + np.frombuffer(column, "<u4").astype(np.int64)
        return seq

    @cached_property
    def accepted_ms(self) -> Longs:
        """Times of acceptance, UTC epoch."""
        return np.repeat(self._heads["accepted_ms"].astype(np.int64), self._counts)

    @cached_property
    def flags(self) -> npt.NDArray[np.uint8]:
        """QoS and RETAIN, among others."""
        return np.frombuffer(b"".join(self._flags), np.uint8)

    @property
    def qos(self) -> npt.NDArray[np.int32]:
        """0, 1 or 2."""
        return (self.flags & QOS_MASK).astype(np.int32)

    @property
    def retain(self) -> Flags:
        """The RETAIN flags."""
        retain: Flags = (self.flags & RETAIN) != 0
        return retain

    @cached_property
    def topic(self) -> Longs:
        """Per row the place of its topic in ``topics``."""
        base = _starts(self._topic_counts)
        of_chunk = np.frombuffer(b"".join(self._topic_of), "<u2")
        topic: Longs = np.repeat(base, self._counts)
        topic += of_chunk
        return topic

    @cached_property
    def lengths(self) -> Longs:
        """Payload bytes."""
        return np.frombuffer(b"".join(self._lengths), "<u4").astype(np.int64)

    @cached_property
    def payloads(self) -> bytes:
        """All payloads, joined."""
        return b"".join(self._payloads)

    @cached_property
    def properties_bytes(self) -> Longs:
        """Bytes of the properties, which are those of the row itself or of its topic."""
        column = np.zeros(self.count, np.int64)
        if self._common:
            column = np.fromiter(map(len, self._common), np.int64, len(self._common))[self.topic]
        column[self._own_rows] = np.fromiter(map(len, self._own), np.int64, len(self._own))
        return column

    @cached_property
    def expires_ms(self) -> Longs:
        """Times of expiry, UTC epoch, by their Message Expiry Interval; ``NONE`` where there is none."""
        column = expiry_s(self._common)[self.topic] if self._common else np.full(self.count, NONE, np.int64)
        column[self._own_rows] = expiry_s(self._own)
        return np.where(column == NONE, NONE, self.accepted_ms + column * 1000)


def _routes_of_topics(
    routes: Sequence[Sequence[bytes]], route_of: Sequence[Sequence[int]], topic_counts: Longs
) -> tuple[list[MessageRoute], Longs]:
    """The distinct ways of some chunks, and for each topic the place of its own, from the columns of the chunks."""
    places: dict[bytes, int] = {}
    given = np.fromiter((places.setdefault(route, len(places)) for route in chain.from_iterable(routes)), np.int64)
    before = _starts(np.fromiter(map(len, routes), np.int64, len(routes)))
    counts = np.fromiter(map(len, route_of), np.int64, len(route_of))  # one for each topic of the chunk, or none at all
    places_in_chunk = np.fromiter(chain.from_iterable(route_of), np.int64, int(counts.sum()))
    has = places_in_chunk != NO_ROUTE
    found = np.full(len(has), NO_ROUTE, np.int64)
    found[has] = given[(np.repeat(before, counts) + places_in_chunk)[has]]
    column = np.full(int(topic_counts.sum()), NO_ROUTE, np.int64)
    column[np.repeat(counts > 0, topic_counts)] = found
    return [MessageRoute.decode(route) for route in places], column


def _starts(sizes: Longs) -> Longs:
    """The start of each of joined columns of ``sizes``."""
    starts: Longs = np.cumsum(sizes) - sizes
    return starts


def expiry_s(properties: list[bytes]) -> Longs:
    """The Message Expiry Interval in each of ``properties`` of a PUBLISH, in seconds; ``NONE`` where there is none.

    All are walked side by side, a property of each at a time. Source: MQTT 5.0 section 2.2.2.2 for the widths.
    """
    found = np.full(len(properties), NONE, np.int64)
    joined = np.frombuffer(b"".join(properties) + bytes(8), np.uint8)  # a look beyond the end meets zeros
    sizes = np.fromiter(map(len, properties), np.int64, len(properties))
    ends = np.cumsum(sizes)
    at, rows = ends - sizes, np.arange(len(properties))
    while True:
        inside = at < ends[rows]
        at, rows = at[inside], rows[inside]
        if not len(rows):
            return found
        kind = joined[at]
        hit = kind == 0x02
        if hit.any():
            place = at[hit] + 1
            found[rows[hit]] = sum(joined[place + byte].astype(np.int64) << (24 - 8 * byte) for byte in range(4))
            at, rows, kind = at[~hit], rows[~hit], kind[~hit]
        at = at + 1 + _WIDTHS[kind]
        _skip_strings(joined, at, np.flatnonzero((kind == 0x03) | (kind == 0x08) | (kind == 0x09) | (kind == 0x26)))
        _skip_strings(joined, at, np.flatnonzero(kind == 0x26))
        varying = np.flatnonzero(kind == 0x0B)
        for _ in range(4):  # a variable byte integer ends with its first byte below 128
            varying_more = varying[joined[at[varying]] >= 0x80]
            at[varying] += 1
            varying = varying_more
            if not len(varying):
                break


def _skip_strings(joined: npt.NDArray[np.uint8], at: Longs, which: npt.NDArray[np.intp]) -> None:
    """Move ``at[which]`` behind the string with a length in front that begins there."""
    if len(which):
        place = np.minimum(at[which], len(joined) - 2)
        at[which] += 2 + (joined[place].astype(np.int64) << 8) + joined[place + 1]


_WIDTHS = np.zeros(256, np.int64)
_WIDTHS[[0x01, 0x23]] = 1, 2
