"""Reading around damage: all keys and values that can be read although some files are damaged."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from wire.errors import StorageDamaged

PROBES_BY_ONE = 256

Scan = Callable[[bytes, bytes], Iterator[tuple[bytes, bytes]]]


def readable(scan: Scan, key_bytes: int) -> Iterator[tuple[bytes, bytes]]:
    """All keys and values that ``scan`` gives, in order, and those behind what it cannot read.

    key_bytes: the length of the longest keys; 0 where none may be lost.

    Raises:
        StorageDamaged: something cannot be read and none may be lost, or there is no end to the damage.
    """
    start, stop = b"", b"\xff" * (key_bytes + 64)
    while True:
        try:
            for key, value in scan(start, stop):
                yield key, value
                start = key + b"\0"
        except StorageDamaged:
            if not key_bytes:
                raise
            start = _behind_damage(scan, key_bytes, start)
        else:
            return


def _behind_damage(scan: Scan, key_bytes: int, key: bytes) -> bytes:
    """The first key behind ``key`` from which on ``scan`` can read: tried one by one, then in doubling steps."""
    bad, step, tried = int.from_bytes(key[:key_bytes].ljust(key_bytes, b"\0"), "big"), 1, 0
    at = bad + 1
    while not _can_read_from(scan, key_bytes, at):
        tried += 1
        if tried > PROBES_BY_ONE:
            step *= 2
        bad, at = at, at + step
    while at - bad > 1:
        middle = (bad + at) // 2
        bad, at = (bad, middle) if _can_read_from(scan, key_bytes, middle) else (middle, at)
    return at.to_bytes(key_bytes, "big")


def _can_read_from(scan: Scan, key_bytes: int, at: int) -> bool:
    if at >> 8 * key_bytes:
        raise StorageDamaged("no end of the damage is found")
    try:
        next(scan(at.to_bytes(key_bytes, "big"), b"\xff" * (key_bytes + 1)), None)
    except StorageDamaged:
        return False
    return True
