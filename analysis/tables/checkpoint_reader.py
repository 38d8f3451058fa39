"""The store of a snapshot, opened read-only: bulks of rows as lists, for decoders that work on columns. A second user of rocksdict.

Nothing is written to the folder and no lock is taken, so any number of readers may have it open, of a read-only mount, too:
rocksdict writes a file of its own to whatever folder it opens, so it is given a folder of links to the snapshot's files. The traps
that ``storage/engine/engine`` steps around are here as well: the status is asked for at the end of every iteration, and bounds live
as long as their iterators.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import NamedTuple

from rocksdict import AccessType, Options, Rdict, RdictIter, ReadOptions

from storage.engine.engine import FAMILIES, Family
from storage.engine.rocksdb_errors import TRANSLATED
from wire.errors import BasculeError, StorageDamaged

READ_AHEAD_BYTES = 2 << 20
PROBES_BY_ONE = 256
WRITTEN_BY_ROCKSDICT = "rocksdict-config.json"  # whenever it opens a store, read-only or not


class Bulk(NamedTuple):
    """Rows that follow each other: keys and values side by side."""

    keys: list[bytes]
    values: list[bytes]


class CheckpointReader:
    """The checkpoint in ``path``. Use it in ``with``.

    Raises (each method, and opening):
        StorageDamaged: it is not what was written, or a file is missing.
        Unavailable: the disk refuses for now.
        OSError (opening): the folder cannot be read, or no temporary one be made.
    """

    def __init__(self, path: Path) -> None:
        self._db: Rdict | None = None
        self._families: dict[Family, Rdict | None] = {}
        self._path = path.absolute()
        self._links = TemporaryDirectory(prefix="bascule-read-")
        with ExitStack() as undone:
            undone.callback(self.close)
            self._open(self._path, Path(self._links.name))
            undone.pop_all()

    def _open(self, path: Path, links: Path) -> None:
        try:
            files = list(path.iterdir())
        except FileNotFoundError as error:
            raise StorageDamaged("there is no store in the snapshot", path=str(path)) from error
        for file in files:
            if file.name != WRITTEN_BY_ROCKSDICT:
                (links / file.name).symlink_to(file)
        with self._translated():
            options = Options(raw_mode=True)
            names = Rdict.list_cf(str(links), options)
            families = {name: Options(raw_mode=True) for name in names}  # else they are as the OPTIONS file has them, whole or not
            self._db = Rdict(str(links), options, column_families=families, access_type=AccessType.read_only(False))
            for family in FAMILIES:  # a store of an older version may lack one
                self._families[family] = self._db.get_column_family(family) if family in names else None

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """RocksDB's errors as ours, about the snapshot's files and not about the links to them."""
        try:
            with TRANSLATED:
                yield
        except BasculeError as error:
            said = str(error.fields.get("error", "")).replace(self._links.name, str(self._path))
            error.add(error=said)
            raise

    def __enter__(self) -> CheckpointReader:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Release every handle."""
        families, self._families = self._families, {}
        db, self._db = self._db, None
        try:
            with self._translated():
                for handle in (*families.values(), db):
                    if handle is not None:
                        handle.close()
        finally:
            self._links.cleanup()

    def get(self, family: Family, key: bytes) -> bytes | None:
        """The value of ``key``; None if there is none."""
        column = self._families[family]
        if column is None:
            return None
        with self._translated():
            value: bytes | None = column.get(key)
            return value

    def key_before(self, family: Family, key: bytes, low: bytes) -> bytes | None:
        """The last key in ``[low, key]``; None if there is none."""
        column = self._families[family]
        if column is None:
            return None
        with self._translated():
            iterator = column.iter(ReadOptions())
            iterator.seek_for_prev(key)
            if not iterator.valid():
                iterator.status()
                return None
            found: bytes = iterator.key()
            return found if found >= low else None

    def key_from(self, family: Family, key: bytes, stop: bytes) -> bytes | None:
        """The first key in ``[key, stop)``; None if there is none."""
        for bulk in self.bulks(family, key, stop, rows_max=1):
            return bulk.keys[0]
        return None

    def bulks(
        self, family: Family, start: bytes, stop: bytes, *, rows_max: int = 2_048, bytes_max: int = 2 << 20
    ) -> Iterator[Bulk]:
        """The rows of ``[start, stop)`` in order, as many at a time as ``rows_max`` or, by a row more, ``bytes_max`` allow.

        If a row cannot be read, all before it come first.
        """
        column = self._families[family]
        if column is None:
            return
        with self._translated():
            options = ReadOptions()
            options.set_iterate_upper_bound(stop)  # a bare pointer: ``stop`` and ``options`` live as long as this frame
            options.set_readahead_size(READ_AHEAD_BYTES)
            options.fill_cache(False)  # type: ignore[call-arg]  # its stub lacks the argument
            iterator = column.iter(options)
            iterator.seek(start)
        while True:
            keys: list[bytes] = []
            values: list[bytes] = []
            damage: StorageDamaged | None = None
            try:
                with self._translated(), uncollected():
                    more = _gather(iterator, keys, values, rows_max, bytes_max)
            except StorageDamaged as error:
                more, damage = False, error
            if keys:
                yield Bulk(keys, values)
            if damage is not None:
                raise damage
            if not more:
                return

    def bulks_around(
        self,
        family: Family,
        start: bytes,
        stop: bytes,
        width: int,
        damage: Callable[[bytes, bytes, str], None],
        *,
        rows_max: int = 2_048,
    ) -> Iterator[Bulk]:
        """``bulks``, but what cannot be read is left out: ``damage`` is told from which key to which, and why.

        width: bytes of a key that the end of the damage is looked for with.
        """
        at = start
        while at < stop:
            bulks = self.bulks(family, at, stop, rows_max=rows_max)
            while True:
                try:
                    bulk = next(bulks, None)
                except StorageDamaged as error:
                    why = str(error)
                    break
                if bulk is None:
                    return
                yield bulk
                at = bulk.keys[-1] + b"\0"
            behind = self.readable_from(family, at, stop, width)
            damage(at, behind, why)
            at = behind

    def readable_from(self, family: Family, key: bytes, stop: bytes, width: int) -> bytes:
        """The first key of ``width`` bytes behind ``key`` from which on rows can be read; ``stop`` if there is none before it.

        The engine cannot tell where a damaged block ends, so keys are tried: some one by one, then in doubling steps, the last of
        which is halved again. A shorter key counts as one that is filled up with zeros.
        """
        bad, end = int.from_bytes(key[:width].ljust(width, b"\0"), "big"), int.from_bytes(stop[:width].ljust(width, b"\0"), "big")
        at, step, tried = bad + 1, 1, 0
        while at < end and not self._can_read(family, at.to_bytes(width, "big"), stop):
            tried += 1
            if tried > PROBES_BY_ONE:
                step *= 2
            bad, at = at, at + step
        at = min(at, end)
        while at - bad > 1:
            middle = (bad + at) // 2
            bad, at = (bad, middle) if self._can_read(family, middle.to_bytes(width, "big"), stop) else (middle, at)
        return min(at.to_bytes(width, "big"), stop)

    def _can_read(self, family: Family, key: bytes, stop: bytes) -> bool:
        # Not ``key_from``: the next row may be beyond ``stop`` only because what is before it cannot be read.
        try:
            self.key_from(family, key, stop)
        except StorageDamaged:
            return False
        return True


def _gather(iterator: RdictIter, keys: list[bytes], values: list[bytes], rows_max: int, bytes_max: int) -> bool:
    """Move rows from ``iterator`` to the lists; whether there may be more."""
    valid, key, value, following = iterator.valid, iterator.key, iterator.value, iterator.next
    add_key, add_value = keys.append, values.append
    left = bytes_max
    for _ in range(rows_max):
        if not valid():
            iterator.status()  # a damaged block ends the iteration like the last key does
            return False
        add_key(key())
        read = value()
        add_value(read)
        left -= len(read)
        following()
        if left <= 0:
            return True
    return True


@contextmanager
def uncollected() -> Iterator[None]:
    """While many small objects are made that all stay, the garbage collector looks at them in vain again and again: not here."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
