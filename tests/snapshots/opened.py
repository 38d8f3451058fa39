"""A snapshot, opened read-only as a stranger would, and compared with what its manifest says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rocksdict import AccessType, Options, Rdict

from storage.engine.engine import FAMILIES, Family
from storage.snapshots.manifest import read_manifest, verify
from tests.support.snapshot_audit import compare


class Families:
    """The store of a snapshot."""

    def __init__(self, families: dict[Family, Rdict]) -> None:
        self._families = families

    def get(self, family: Family, key: bytes) -> bytes | None:
        value: bytes | None = self._families[family].get(key)
        return value

    def scan(self, family: Family, start: bytes, stop: bytes) -> Iterator[tuple[bytes, bytes]]:
        iterator = self._families[family].iter()
        iterator.seek(start)
        while iterator.valid() and iterator.key() < stop:
            yield iterator.key(), iterator.value()
            iterator.next()
        iterator.status()


@contextmanager
def opened(snapshot: Path) -> Iterator[Families]:
    """The snapshot's store; nothing is written to its folder."""
    before = sorted(path.name for path in (snapshot / "store").iterdir())
    db = Rdict(str(snapshot / "store"), Options(raw_mode=True), access_type=AccessType.read_only(False))
    families: dict[Family, Rdict] = {family: db.get_column_family(family) for family in FAMILIES}
    try:
        yield Families(families)
    finally:
        for family in families.values():
            family.close()
        families.clear()
        db.close()
    assert sorted(path.name for path in (snapshot / "store").iterdir()) == before


def check(snapshot: Path) -> None:
    """The snapshot is whole, and its manifest says of every queue and dead-letter queue what the rows and the messages say."""
    assert verify(snapshot) == []
    manifest = read_manifest(snapshot)
    with opened(snapshot) as rows:
        compare(rows, manifest.queues, manifest.dead_letters, manifest.events)
