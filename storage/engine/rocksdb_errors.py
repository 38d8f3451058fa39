"""RocksDB's errors, which rocksdict raises as plain exceptions with a text, and those of the file system, as ours."""

from __future__ import annotations

from types import TracebackType

from wire.errors import BasculeError, DiskFull, StorageDamaged, Unavailable


class RocksdbStalled(Unavailable):
    """RocksDB takes no write until it has written tables."""


class _Translated:
    """Turns rocksdict's errors, which are plain exceptions with a text, into ours."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if error is not None:
            translate(error)


def translate(error: BaseException) -> None:
    """Raise ``error`` as ours; return where it is none of RocksDB's and of the file system's.

    No variable has what is raised: with its traceback it would live until the next collection, and iterators in that hold the lock.
    """
    if isinstance(error, BasculeError):
        return
    text, plain = str(error), type(error) is Exception
    if plain and _STALLED in text:
        raise RocksdbStalled("the store waits for its tables", error=text) from error
    if plain and _is_damage(text):
        raise StorageDamaged("the store is damaged", error=text) from error
    if (isinstance(error, OSError) or plain) and any(sign in text for sign in _FULL):
        raise DiskFull("the disk is full", error=text) from error
    if isinstance(error, OSError) or (plain and any(sign in text for sign in _UNAVAILABLE)):
        raise Unavailable("the disk refuses", error=text) from error


def _is_damage(text: str) -> bool:
    return any(sign in text for sign in _DAMAGED)


TRANSLATED = _Translated()
_STALLED = "Write stall"
_FULL = ("No space left", "Disk quota exceeded")
_UNAVAILABLE = ("IO error", "(os error ", "Direct I/O is not supported", "Shutdown in progress", "Result incomplete")
_DAMAGED = ("Corruption", "No such file or directory")
