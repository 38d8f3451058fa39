"""A store that follows the log has each record once, in order, and knows how far it is: over RocksDB and over a double."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from storage.engine.engine import RocksEngine, Write
from storage.replication.log import Entry
from storage.replication.position import POSITION_KEY, Position, read_position
from storage.replication.records import HEAD_BYTES, RENEWAL, STEP_DOWN, Record, split
from storage.replication.replica import NeedsBase, OwnEngine, Replica
from tests.storage.replication.building import LEASE_S, commit_record, term_record
from tests.storage.replication.disk_double import DiskDouble
from wire.errors import ConfigError, StorageDamaged, Unavailable


@pytest.fixture(params=["double", "rocksdb"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OwnEngine]:
    own: OwnEngine = DiskDouble() if request.param == "double" else RocksEngine(tmp_path / "store")
    yield own
    own.close()


def entries(*records: Record, part_bytes: int = 1000) -> list[Entry]:
    messages = [message for record in records for message in split(record, part_bytes)]
    return [Entry(place, message) for place, message in enumerate(messages, 1)]


def stands(replica: Replica) -> tuple[int, int]:
    return replica.position.sequence, replica.position.number


def test_what_is_applied_and_how_far_it_is_come_together(engine: OwnEngine) -> None:
    replica = Replica(engine, "node-a")
    assert replica.is_empty

    for entry in entries(term_record(), commit_record(2)):
        replica.take(entry)

    assert stands(replica) == (2, 2)
    assert engine.get("msg", b"rows1") == b"one"
    assert read_position(engine) == replica.position == Position("log", 2, 2, 1, "x", "node-x", "node-x:1883", LEASE_S, 1)
    again = Replica(engine, "node-a")
    assert (stands(again), again.read_to, again.is_empty) == ((2, 2), 2, False)


def test_a_record_that_is_there_is_not_applied_again(engine: OwnEngine) -> None:
    """replication.applied-once"""
    replica = Replica(engine, "node-a")
    first, second = entries(term_record(), commit_record(2))
    replica.take(first)
    replica.take(second)

    with pytest.raises(NeedsBase):
        replica.take(second)
    with pytest.raises(StorageDamaged):
        replica.apply(commit_record(2).at(3), ())
    with pytest.raises(StorageDamaged):
        replica.apply(commit_record(4).at(3), ())
    assert stands(replica) == (2, 2)
    assert replica.applied == 2


def test_the_parts_of_a_record_count_when_the_last_is_there(engine: OwnEngine) -> None:
    replica = Replica(engine, "node-a")
    large = commit_record(2, 1, ("put", "msg", b"rows1", bytes(100)))
    (first, *parts) = entries(term_record(), large, part_bytes=HEAD_BYTES + 90)
    replica.take(first)

    for part in parts[:-1]:
        assert replica.take(part) is None
    assert stands(replica) == (1, 1)
    again = Replica(engine, "node-a")  # what was read of it is forgotten, and read again
    for part in parts:
        again.take(part)
    assert stands(again) == (1 + len(parts), 2)


def test_a_gap_needs_a_base(engine: OwnEngine) -> None:
    replica = Replica(engine, "node-a")
    _, second = entries(term_record(), commit_record(2))

    with pytest.raises(NeedsBase):
        replica.take(second)
    assert replica.read_to == 0


def test_a_record_of_a_leader_that_was_replaced_is_damage(engine: OwnEngine) -> None:
    replica = Replica(engine, "node-a")
    *sound, stale = entries(term_record(), term_record("node-y", number=2, term=2), commit_record(3, 1))
    for entry in sound:
        replica.take(entry)

    with pytest.raises(StorageDamaged):
        replica.take(stale)


def test_a_kind_that_is_not_known_is_refused(engine: OwnEngine) -> None:
    replica = Replica(engine, "node-a")
    first, second = entries(term_record(), Record(9, 1, 2, 1, b""))
    replica.take(first)

    with pytest.raises(ConfigError):
        replica.take(second)


def test_a_store_of_another_log_is_refused(engine: OwnEngine) -> None:
    replica = Replica(engine, "node-a")
    first, second = entries(term_record(), term_record(number=2, term=2, log="another"))
    replica.take(first)

    with pytest.raises(ConfigError) as refused:
        replica.take(second)
    assert refused.value.fields == {"store": "log", "found": "another"}


def test_a_store_with_something_in_it_is_not_mixed_with_a_log(engine: OwnEngine) -> None:
    write = Write()
    write.put("meta", b"old", b"kept")
    engine.commit(write, sync=True)
    replica = Replica(engine, "node-a")
    assert not replica.is_empty

    with pytest.raises(ConfigError):
        replica.take(entries(term_record("node-x"))[0])
    replica.take(entries(term_record("node-a", based=True))[0])  # its own is the one that the log begins with

    assert replica.position.node == "node-a"


def test_a_log_that_begins_with_a_store_needs_that_store(engine: OwnEngine) -> None:
    replica = Replica(engine, "node-a")

    for _ in range(2):
        with pytest.raises(NeedsBase):
            replica.take(entries(term_record(based=True))[0])
    assert (replica.read_to, replica.position.log) == (0, "")


def test_a_renewal_changes_nothing_and_who_steps_down_says_for_whom(engine: OwnEngine) -> None:
    replica = Replica(engine, "node-a")
    for entry in entries(term_record(), Record(RENEWAL, 1, 2, 5, b""), Record(STEP_DOWN, 1, 3, 4, b"b")):
        replica.take(entry)

    position = replica.position
    assert (position.number, position.epoch, position.released, position.successor) == (3, 5, True, "b")


@pytest.mark.parametrize("seed", range(6))
def test_a_disk_that_refused_is_opened_anew_and_the_record_is_there_once(seed: int) -> None:
    """replication.applied-once: a refused write may be there all the same."""
    disk = DiskDouble(Random(seed))
    replica = Replica(disk, "node-a")
    first, second, third = entries(term_record(), commit_record(2), commit_record(3))
    replica.take(first)
    disk.refuses = True
    with pytest.raises(Unavailable):
        replica.take(second)
    with pytest.raises(Unavailable):
        replica.reopen()
    disk.refuses = False
    replica.reopen()

    for entry in (second, third):
        if entry.sequence > replica.read_to:
            replica.take(entry)

    assert disk.numbers == [1, 2, 3]


def test_what_was_synced_outlives_the_loss_of_power_and_the_rest_is_read_again() -> None:
    disk = DiskDouble()
    replica = Replica(disk, "node-a")
    first, second, third = entries(term_record(), commit_record(2), commit_record(3))
    replica.take(first)
    replica.take(second)
    replica.sync()
    replica.take(third)
    assert (replica.synced.number, replica.position.number) == (2, 3)

    disk.lose_power()

    assert Replica(disk, "node-a").position.number in (2, 3)


@pytest.mark.parametrize("row", [b"", b"\xc1", b"\x92\x09\x01", b"\x01"])
def test_a_store_that_does_not_know_how_far_it_is_is_damaged(tmp_path: Path, row: bytes) -> None:
    engine, write = RocksEngine(tmp_path / "store"), Write()
    write.put("meta", POSITION_KEY, row)
    engine.commit(write, sync=True)

    with pytest.raises(StorageDamaged):
        Replica(engine, "node-a")
    engine.close()
