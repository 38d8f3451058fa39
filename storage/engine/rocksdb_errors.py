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
        if error is None or isinstance(error, BasculeError):
            return
        text = str(error)
        if kind is Exception and _STALLED in text:
            raise RocksdbStalled("the store waits for its tables", error=text) from error
        if kind is Exception and _is_damage(text):
            raise StorageDamaged("the store is damaged", error=text) from error
        if (isinstance(error, OSError) or kind is Exception) and any(sign in text for sign in _FULL):
            raise DiskFull("the disk is full", error=text) from error
        if isinstance(error, OSError) or (kind is Exception and any(sign in text for sign in _UNAVAILABLE)):
            raise Unavailable("the disk refuses", error=text) from error


def _is_damage(text: str) -> bool:
    return any(sign in text for sign in _DAMAGED)


TRANSLATED = _Translated()
_STALLED = "Write stall"
_FULL = ("No space left", "Disk quota exceeded")
_UNAVAILABLE = ("IO error", "(os error ", "Direct I/O is not supported", "Shutdown in progress", "Result incomplete")
_DAMAGED = ("Corruption", "No such file or directory")
