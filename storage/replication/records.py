"""A record of the log: what one commit writes, or who leads. Made once, split where it is larger than a message may be.

Each message has a head (which record, which part of how many) with checksums of what follows and of the whole; a record counts when
its last part is there. Parts that no last one follows were cut short, and the next record begins in their place. A part that comes
late may follow one of the record that was sent instead.

replication.record-of-its-own-parts [P1, P2]: a record counts with all its parts, told by a checksum of the whole, and never with
    one of another's.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any
from zlib import crc32

import msgpack

from storage.engine.engine import FAMILIES, Operation
from storage.replication.log import Entry
from wire.errors import ConfigError, StorageDamaged
from wire.frozen_records import record

VERSION = 1
COMMIT, TERM, RENEWAL, STEP_DOWN = range(4)
_HEAD = struct.Struct(
    "<2sBBIQQHHII"
)  # magic, version, kind, term, number, epoch, part, parts, checksums of the whole and of the part
_MAGIC = b"BR"
HEAD_BYTES = _HEAD.size
_OPERATIONS = ("put", "delete", "delete_range")
_FAMILY_NUMBERS = {family: number for number, family in enumerate(FAMILIES)}
_OPERATION_NUMBERS = {operation: number for number, operation in enumerate(_OPERATIONS)}


@record
class Record:
    """kind: of a commit, of a new leader, of one that still leads, of one that leads no more.

    term: counts the leaders. number: counts the records. epoch: the highest that anybody of the leader's node had. body: what the
    kind says. sequence: of its last message in the log; 0 before it is there.
    """

    kind: int
    term: int
    number: int
    epoch: int
    body: bytes
    sequence: int = 0

    def at(self, sequence: int) -> Record:
        """This one, in its place in the log."""
        return Record(self.kind, self.term, self.number, self.epoch, self.body, sequence)


@record
class Term:
    """The body of a new leader's first record.

    log: names the log, so that a store that belongs to another one is told apart. member, node, address: who leads, in which data
    folder, and where its clients are to go. lease_s: how long nobody else leads after its newest record. based: whether the log
    begins with more than an empty store.
    """

    log: str
    member: str
    node: str
    address: str
    lease_s: float
    based: bool

    def encode(self) -> bytes:
        packed: bytes = msgpack.packb((self.log, self.member, self.node, self.address, self.lease_s, self.based))
        return packed

    @classmethod
    def decode(cls, body: bytes) -> Term:
        """Raises:
        StorageDamaged: it is not one.
        """
        log, member, node, address, lease_s, based = _unpacked(body, 6)
        return cls(log, member, node, address, float(lease_s), bool(based))


def encode_operations(operations: Iterable[Operation]) -> bytes:
    """The body of a commit."""
    packed: bytes = msgpack.packb(
        [(_OPERATION_NUMBERS[operation], _FAMILY_NUMBERS[family], key, value) for operation, family, key, value in operations]
    )
    return packed


def decode_operations(body: bytes) -> list[Operation]:
    """The input of ``encode_operations``.

    Raises:
        StorageDamaged: it is not the body of a commit.
    """
    try:
        rows = msgpack.unpackb(body, use_list=False)
        return [(_OPERATIONS[operation], FAMILIES[family], key, value) for operation, family, key, value in rows]
    except (ValueError, TypeError, IndexError, msgpack.UnpackException) as error:
        raise StorageDamaged("a record of the log is damaged") from error


def split(of: Record, part_bytes: int) -> list[bytes]:
    """The messages of a record, none larger than ``part_bytes``."""
    room = part_bytes - HEAD_BYTES
    pieces = [of.body[start : start + room] for start in range(0, len(of.body), room)] or [b""]
    whole = crc32(of.body)
    return [
        _HEAD.pack(_MAGIC, VERSION, of.kind, of.term, of.number, of.epoch, part, len(pieces), whole, crc32(piece)) + piece
        for part, piece in enumerate(pieces)
    ]


class RecordAssembly:
    """Puts records together from the messages of the log, which come in order."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._of: tuple[int, ...] = ()

    def take(self, entry: Entry) -> Record | None:
        """The record that ``entry`` is the last part of; None where more is to come, or the first part is missing.

        Raises:
            StorageDamaged: the message is damaged, or not one of ours.
            ConfigError: a newer version wrote it.
        """
        data = entry.data
        if len(data) < HEAD_BYTES or data[:2] != _MAGIC:
            raise StorageDamaged("a message of the log is not a record of ours", sequence=entry.sequence)
        _, version, kind, term, number, epoch, part, parts, whole, checksum = _HEAD.unpack_from(data)
        if version != VERSION:
            raise ConfigError("a record of the log was written by another version", version=version, known=VERSION)
        piece = data[HEAD_BYTES:]
        if crc32(piece) != checksum:
            raise StorageDamaged("a message of the log is damaged", sequence=entry.sequence)
        of = (kind, term, number, epoch, parts, whole)
        if part == 0:
            self._pieces, self._of = [], of
        if self._of != of or part != len(self._pieces):
            self._pieces, self._of = [], ()
            return None
        self._pieces.append(piece)
        if part + 1 < parts:
            return None
        body = piece if parts == 1 else b"".join(self._pieces)
        self._pieces, self._of = [], ()
        return Record(kind, term, number, epoch, body, entry.sequence)


def _unpacked(body: bytes, count: int) -> tuple[Any, ...]:
    try:
        fields = msgpack.unpackb(body, use_list=False)
    except (ValueError, msgpack.UnpackException) as error:
        raise StorageDamaged("a record of the log is damaged") from error
    if not isinstance(fields, tuple) or len(fields) != count:
        raise StorageDamaged("a record of the log is damaged")
    return fields
