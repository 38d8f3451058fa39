"""What is kept of the messages that have left a queue: settlements, their bytes on the disk, and when they go.

The rows of the column family ``history`` under ``T`` are settlements. Where a bridge has ``retention``, each commit that settled
something writes one row for each queue and each actor that settled, in the same write as the queue's own row:

    key    ``T`` u8 | number of the queue u32 | number of the row u64, big endian
    value  msgpack ``(1, settled_ms, by, ((outcome, ((start, stop), ...)), ...))``

Rows are numbered from 0 in each queue, without a gap, and a number is never given twice. ``settled_ms`` is UTC epoch. ``by``:
``connection:<bridge>:<lane>@<lane epoch>`` or ``forwarder:<bridge>:<lane>@<lane epoch>`` for an actor of the lane, ``store``, or
``operator``. ``outcome`` is as in the ledger: ``delivered``, ``expired``, ``dropped:<reason>``, ``dead:<reason>``, each sequence of
whose ranges left the queue by it; or ``redelivered``, which counts sendings and settles nothing.

H1  in ``[history_from, tail)`` of the queue's row, each sequence is in exactly one row, or still in the queue.
H2  the chunks of these sequences are kept, too, except where they were purged; below ``history_from`` nothing is promised.
H3  what becomes of the history never changes what is live.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgpack

from wire.errors import ConfigError, StorageDamaged
from wire.frames import Ranges

SETTLEMENT_VERSION = 1
SETTLES_NOTHING = "redelivered"

_KIND = b"T"


@dataclass(frozen=True, slots=True)
class Settlement:
    """One row: what ``by`` settled with one commit."""

    settled_ms: int
    by: str
    outcomes: tuple[tuple[str, Ranges], ...]

    def encode(self) -> bytes:
        """The row's value."""
        packed: bytes = msgpack.packb((SETTLEMENT_VERSION, self.settled_ms, self.by, self.outcomes))
        return packed

    @classmethod
    def decode(cls, value: bytes) -> Settlement:
        """The row that ``encode`` made.

        Raises:
            StorageDamaged: it is not a row.
            ConfigError: a newer build wrote it.
        """
        try:
            version, *fields = msgpack.unpackb(value, use_list=False)
        except (ValueError, TypeError, msgpack.UnpackException) as error:
            raise StorageDamaged("a settlement is damaged") from error
        if version != SETTLEMENT_VERSION:
            raise ConfigError("a settlement was written by another version", version=version, known=SETTLEMENT_VERSION)
        try:
            settled_ms, by, outcomes = fields
            return cls(
                settled_ms, by, tuple((outcome, tuple((start, stop) for start, stop in ranges)) for outcome, ranges in outcomes)
            )
        except (ValueError, TypeError) as error:
            raise StorageDamaged("a settlement is damaged") from error


def settlement_key(queue: int, number: int) -> bytes:
    """The key of row ``number`` of ``queue``."""
    return _KIND + queue.to_bytes(4, "big") + number.to_bytes(8, "big")


def settlement_of(key: bytes) -> tuple[int, int]:
    """The queue and the number of the row under ``key``."""
    return int.from_bytes(key[1:5], "big"), int.from_bytes(key[5:13], "big")
