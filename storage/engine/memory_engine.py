"""The in-memory mode: the engine's protocol over dictionaries. Nothing outlives the process.

Keys of a queue share their first four bytes and come in rising order, so each such group is a dictionary beside a sorted list.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from storage.engine.commit_mark import Evidence
from storage.engine.engine import FAMILIES, Family, Write
from storage.engine.store_identity import KnownStore
from wire.errors import Unavailable
from wire.status.store import RocksFigures

_PREFIX = 4


class _Group:
    """The keys with one prefix, sorted, and their values."""

    __slots__ = ("keys", "values")

    def __init__(self) -> None:
        self.keys: list[bytes] = []
        self.values: dict[bytes, bytes] = {}

    def put(self, key: bytes, value: bytes) -> None:
        if key not in self.values:
            keys = self.keys
            if not keys or key > keys[-1]:
                keys.append(key)
            else:
                keys.insert(bisect_left(keys, key), key)
        self.values[key] = value

    def delete_range(self, start: bytes, stop: bytes) -> None:
        first, last = bisect_left(self.keys, start), bisect_left(self.keys, stop)
        for key in self.keys[first:last]:
            del self.values[key]
        del self.keys[first:last]


class MemoryEngine:
    """Ordered keys in memory."""

    durable = False
    missing: Evidence | None = None
    kept = ""
    known = KnownStore()

    def __init__(self) -> None:
        self._families: dict[Family, dict[bytes, _Group]] = {family: {} for family in FAMILIES}

    def commit(self, write: Write, *, sync: bool) -> float:  # noqa: ARG002  # there is nothing to sync
        self.apply(write)
        write.committed()
        return 0.0

    def apply(self, write: Write) -> None:
        """Change the keys as ``write`` says, without its callbacks."""
        for operation, family, key, value in write.ops:
            if operation == "put":
                self._group(family, key).put(key, value)
            elif operation == "delete":
                self._group(family, key).delete_range(key, key + b"\0")
            else:
                for prefix in [p for p in self._families[family] if key[:_PREFIX] <= p <= value[:_PREFIX]]:
                    self._families[family][prefix].delete_range(key, value)

    def get(self, family: Family, key: bytes) -> bytes | None:
        group = self._families[family].get(key[:_PREFIX])
        return group.values.get(key) if group is not None else None

    def scan(self, family: Family, start: bytes, stop: bytes) -> Iterator[tuple[bytes, bytes]]:
        groups = self._families[family]
        for prefix in sorted(p for p in groups if start[:_PREFIX] <= p <= stop[:_PREFIX]):
            group = groups[prefix]
            index = bisect_left(group.keys, start)
            while index < len(group.keys) and group.keys[index] < stop:
                yield group.keys[index], group.values[group.keys[index]]
                index += 1

    def seek_before(self, family: Family, key: bytes, low: bytes) -> tuple[bytes, bytes] | None:
        groups = self._families[family]
        for prefix in sorted((p for p in groups if low[:_PREFIX] <= p <= key[:_PREFIX]), reverse=True):
            group = groups[prefix]
            index = bisect_right(group.keys, key) - 1
            if index >= 0:
                found = group.keys[index]
                return (found, group.values[found]) if found >= low else None
        return None

    def tidy(self, kept_bytes: int, *, pressed: bool) -> None:
        """Nothing to do: what is deleted is gone."""

    def keep_evidence(self) -> str:
        """There are no files."""
        return ""

    def flush(self) -> None:
        """Nothing to do: there are no files."""

    def checkpoint(self, path: str) -> None:
        raise Unavailable("the store is in memory only: there is nothing to make a snapshot of", path=path)

    def figures(self) -> RocksFigures | None:
        """There is no RocksDB."""
        return None

    def free_bytes(self) -> int | None:
        return None

    def check_files(self, waiting: int | None = None) -> None:
        """There are no files."""

    def reserve(self, size_bytes: int) -> None:
        """There is no disk."""

    def reopen(self) -> None:
        """Nothing to do: memory does not refuse."""

    def close(self) -> None:
        """Nothing to release."""

    def _group(self, family: Family, key: bytes) -> _Group:
        groups = self._families[family]
        group = groups.get(key[:_PREFIX])
        if group is None:
            group = groups[key[:_PREFIX]] = _Group()
        return group
