"""Both engines keep the protocol's promises, and RocksDB's damage and refusals become our errors."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from storage.engine import dead_bytes
from storage.engine.engine import FAMILY_PROPERTIES, PROPERTIES, Engine, RocksEngine, Write
from storage.engine.keys import chunk_key, open_format
from storage.engine.memory_engine import MemoryEngine
from storage.engine.queue_numbers import QueueNumbers
from tests.storage.building import wait_idle
from tests.support.present import present
from tests.support.waiting import wait_until
from wire.errors import ConfigError, StorageDamaged, Unavailable
from wire.figure import to_map


def put(engine: Engine, *keys: bytes, sync: bool = False) -> None:
    write = Write()
    for key in keys:
        write.put("msg", key, b"value of " + key)
    engine.commit(write, sync=sync)


def keys_of(engine: Engine, start: bytes, stop: bytes) -> list[bytes]:
    return [key for key, _ in engine.scan("msg", start, stop)]


def test_a_scan_gives_its_range_in_order_and_no_more(engine: Engine) -> None:
    keys = [chunk_key(queue, seq) for queue in (1, 2, 256) for seq in (0, 5, 255, 256, 1 << 40)]
    put(engine, *reversed(keys))

    assert keys_of(engine, chunk_key(0, 0), chunk_key(1 << 31, 0)) == keys
    assert keys_of(engine, chunk_key(2, 5), chunk_key(2, 256)) == [chunk_key(2, 5), chunk_key(2, 255)]
    assert keys_of(engine, chunk_key(3, 0), chunk_key(4, 0)) == []
    assert list(engine.scan("meta", b"", b"\xff")) == []


def test_seek_before_finds_the_chunk_that_may_hold_a_sequence(engine: Engine) -> None:
    put(engine, chunk_key(1, 9), chunk_key(2, 5), chunk_key(2, 8))

    assert engine.seek_before("msg", chunk_key(2, 7), chunk_key(2, 0)) == (chunk_key(2, 5), b"value of " + chunk_key(2, 5))
    assert engine.seek_before("msg", chunk_key(2, 8), chunk_key(2, 0)) == (chunk_key(2, 8), b"value of " + chunk_key(2, 8))
    assert engine.seek_before("msg", chunk_key(2, 4), chunk_key(2, 0)) is None, "another queue's chunk is not ours"
    assert engine.seek_before("msg", chunk_key(9, 0), chunk_key(9, 0)) is None


def test_operations_take_effect_in_order_and_callbacks_after_them(engine: Engine) -> None:
    put(engine, *[chunk_key(1, seq) for seq in range(6)])
    seen: list[bytes | None] = []
    write = Write()
    write.delete_range("msg", chunk_key(1, 0), chunk_key(1, 4))
    write.put("msg", chunk_key(1, 2), b"again")
    write.delete("msg", chunk_key(1, 5))
    write.on_commit(lambda: seen.append(engine.get("msg", chunk_key(1, 2))))
    engine.commit(write, sync=True)

    assert keys_of(engine, chunk_key(1, 0), chunk_key(2, 0)) == [chunk_key(1, 2), chunk_key(1, 4)]
    assert seen == [b"again"]


def test_numbers_of_queues_last_and_differ(engine: Engine) -> None:
    """engine.number-never-twice"""
    numbers = QueueNumbers(engine)
    given = [numbers.number(name) for name in ("bridge:a:0", "bridge:b:0", "bridge:a:0")]

    assert given == [1, 2, 1]
    again = QueueNumbers(engine)
    assert again.names() == ["bridge:a:0", "bridge:b:0"]
    assert again.number("bridge:c:0") == 3


def test_a_store_of_a_newer_version_is_refused(engine: Engine) -> None:
    open_format(engine)
    open_format(engine)
    write = Write()
    write.put("meta", b"F", b"\x02")
    engine.commit(write, sync=True)

    with pytest.raises(ConfigError, match="newer"):
        open_format(engine)


def test_a_store_keeps_the_identity_that_its_first_write_gave_it(engine: Engine) -> None:
    first, new = open_format(engine)

    assert new
    assert len(bytes.fromhex(first)) == 16
    assert open_format(engine) == (first, False)
    assert open_format(MemoryEngine())[0] != first


def test_a_store_that_has_lost_its_identity_is_damaged(engine: Engine) -> None:
    open_format(engine)
    write = Write()
    write.delete("meta", b"I")
    engine.commit(write, sync=True)

    with pytest.raises(StorageDamaged, match="identity"):
        open_format(engine)


def test_two_stores_in_one_folder_are_refused_and_a_closed_one_frees_it(tmp_path: Path) -> None:
    first = RocksEngine(tmp_path)
    with pytest.raises(Unavailable):
        RocksEngine(tmp_path)
    put(first, b"1234key")
    first.close()
    with pytest.raises(Unavailable):
        first.get("msg", b"1234key")

    second = RocksEngine(tmp_path)
    second.reopen()
    assert second.get("msg", b"1234key") == b"value of 1234key"
    second.close()


def test_a_damaged_block_is_told_and_never_a_silent_gap(tmp_path: Path) -> None:
    engine = RocksEngine(tmp_path)
    put(engine, *[chunk_key(1, seq) for seq in range(20_000)])
    engine.flush()
    engine.close()
    tables = sorted(tmp_path.glob("*.sst"), key=lambda path: path.stat().st_size)
    data = bytearray(tables[-1].read_bytes())
    middle = len(data) // 2
    data[middle : middle + 16] = bytes(byte ^ 0xFF for byte in data[middle : middle + 16])
    tables[-1].write_bytes(data)

    engine = RocksEngine(tmp_path)
    with pytest.raises(StorageDamaged):
        keys_of(engine, chunk_key(1, 0), chunk_key(2, 0))
    engine.close()


def test_damage_met_in_the_background_stops_nothing_for_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """RocksDB cannot compact over a damaged block and refuses all writing; the store is copied without it and goes on."""
    monkeypatch.setattr("storage.engine.engine.MEMTABLE_BYTES", 128 << 10)
    engine = RocksEngine(tmp_path / "store")
    for first in range(0, 1000, 100):
        put_large(engine, range(first, first + 100))
    engine.close()
    table = max((tmp_path / "store").glob("*.sst"), key=lambda path: path.stat().st_size)
    data = bytearray(table.read_bytes())
    data[len(data) // 2] ^= 1
    table.write_bytes(data)

    engine = RocksEngine(tmp_path / "store")
    refusals, behind = 0, 1000
    while behind < 7000 or (not refusals and behind < 70_000):  # a loaded machine takes its time to compact
        new = range(behind, behind + 100)
        try:
            put_large(engine, new)
        except Unavailable:
            refusals += 1
            engine.reopen()
            put_large(engine, new)
        behind += 100
    keys = keys_of(engine, chunk_key(1, 0), chunk_key(2, 0))
    engine.close()

    assert refusals == 1, "once, and then it is mended"
    assert keys == sorted(keys)
    assert behind - 100 < len(keys) < behind, "all but one block"
    assert len(list(tmp_path.glob("store.damaged-*"))) == 1, "the damaged files are kept"


def put_large(engine: Engine, seqs: range) -> None:
    """Put incompressible values, in an order that makes tables overlap."""
    write = Write()
    for seq in seqs:
        write.put("msg", chunk_key(1, seq), os.urandom(500))
    write.put("msg", chunk_key(0, 0), b"overlaps")
    engine.commit(write, sync=False)


def test_rocksdb_tells_what_it_has_in_memory_on_disk_and_to_do(tmp_path: Path) -> None:
    engine = RocksEngine(tmp_path / "store")
    empty = engine.figures()
    write = Write()
    for number in range(100):
        write.put("msg", b"%012d" % number, os.urandom(8_000))
    engine.commit(write, sync=True)

    written = engine.figures()
    engine.flush()
    wait_idle(engine)
    flushed = engine.figures()
    engine.close()

    assert set(to_map(empty)) == {*FAMILY_PROPERTIES, *PROPERTIES, "log_bytes"}
    assert present(written).memtable_bytes > present(empty).memtable_bytes
    assert present(present(written).log_bytes) > 800_000
    assert present(flushed).blob_bytes > 800_000
    assert present(flushed).blob_files == 1
    assert present(flushed).keys >= 100
    assert present(flushed).live_bytes >= present(flushed).blob_bytes
    assert (present(flushed).compactions_running, present(flushed).flushes_running, present(flushed).background_errors) == (0, 0, 0)
    assert engine.figures() is None, "it is closed"


def taken_bytes(engine: RocksEngine) -> int:
    figures = engine.figures()
    return present(figures).table_bytes + present(figures).blob_bytes


def fill(engine: RocksEngine, queues: range, size_bytes: int, total_bytes: int) -> None:
    """Chunks of ``size_bytes`` for all ``queues`` in turn, as when several bridges take the same."""
    for seq in range(total_bytes // size_bytes // len(queues)):
        write = Write()
        for queue in queues:
            write.put("msg", chunk_key(queue, seq), os.urandom(size_bytes))
        engine.commit(write, sync=False)
    engine.flush()


@pytest.mark.parametrize("size_bytes", [3000, 20_000])
@pytest.mark.parametrize("dies", [False, True])
def test_what_was_deleted_between_what_is_kept_is_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size_bytes: int, *, dies: bool
) -> None:
    """In tables and in blob files, whoever died since; nothing says what was deleted but the tables themselves."""
    monkeypatch.setattr(dead_bytes, "DEAD_BYTES", 4 << 20)
    engine = RocksEngine(tmp_path / "store")
    total = 48 << 20
    fill(engine, range(1, 5), size_bytes, total)
    write = Write()
    write.delete_range("msg", chunk_key(2, 0), chunk_key(4, 0))
    engine.commit(write, sync=True)
    if dies:
        wait_idle(engine)
        shutil.copytree(tmp_path / "store", tmp_path / "copy", ignore=shutil.ignore_patterns("LOCK"))
        engine.close()
        engine = RocksEngine(tmp_path / "copy")
    assert taken_bytes(engine) > total * 3 // 4
    kept = total // 2

    def given_back() -> bool:
        engine.tidy(kept, pressed=False)
        return taken_bytes(engine) <= kept + kept // 4 + dead_bytes.DEAD_BYTES

    wait_until(given_back, 60.0, lambda: f"{taken_bytes(engine)} bytes for {kept}", period_s=0.05)
    assert len(keys_of(engine, chunk_key(1, 0), chunk_key(9, 0))) == 2 * (total // size_bytes // 4)
    for _ in range(3):  # and a store that is closed meanwhile is closed
        engine.tidy(0, pressed=True)
        engine.reopen()
    put(engine, chunk_key(1, 0))
    engine.close()


def test_small_tables_are_merged_whatever_they_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each snapshot leaves one in each family, and RocksDB does not merge those whose keys follow one another."""
    monkeypatch.setattr(dead_bytes, "TABLES", 8)
    engine = RocksEngine(tmp_path / "store")

    def tables() -> int:
        return len([*(tmp_path / "store").glob("*.sst"), *(tmp_path / "store").glob("*.blob")])

    most = 0
    for number in range(100):
        write = Write()
        write.put("history", b"T" + chunk_key(1, number), b"row")
        write.put("msg", chunk_key(1, number), os.urandom(5000))
        write.put("meta", b"L", b"row")
        engine.commit(write, sync=False)
        engine.flush()
        engine.tidy(1 << 30, pressed=False)
        wait_until(lambda: not engine.database.is_merging, 60.0, "merged")
        most = max(most, tables())

    assert most <= 3 * (dead_bytes.TABLES + 8)
    assert len(keys_of(engine, chunk_key(1, 0), chunk_key(2, 0))) == 100
    engine.close()


def test_a_recycled_log_torn_anywhere_keeps_a_prefix(tmp_path: Path) -> None:
    """A power cut may tear the last record, and behind it stand records of the log's former life; none of them comes back."""
    engine = RocksEngine(tmp_path / "live")
    payload = os.urandom(64 << 10)
    count, former_bytes = 0, 0
    while count < 1400 or former_bytes <= 0:  # several logs, until the last is one written over: RocksDB may not be done with it
        former_bytes = 0
        for seq in range(count, count + 100):
            write = Write()
            write.put("msg", chunk_key(1, seq), b"message %d begins here, " % seq + payload)
            write.put("meta", b"tail", seq.to_bytes(8, "big"))
            engine.commit(write, sync=False)
        count += 100
        _trim_to(engine, count - 3)
        log = max((tmp_path / "live").glob("*.log"), key=lambda path: int(path.stem))
        at = log.read_bytes().rfind(b"message %d begins here, " % (count - 1))
        if at > 0:
            former_bytes = log.stat().st_size - at - 2 * len(payload)
    wait_idle(engine)
    for cut in range(at - 40, at + 64, 13):
        copy = tmp_path / f"copy{cut}"
        shutil.copytree(tmp_path / "live", copy, ignore=shutil.ignore_patterns("LOCK"))
        with (copy / log.name).open("r+b") as torn:
            torn.seek(cut)
            torn.write(b"\x5a" * 5)
        recovered = RocksEngine(copy)
        tail = int.from_bytes(recovered.get("meta", b"tail") or b"", "big")
        assert tail in (count - 2, count - 1), "all but what was torn"
        assert keys_of(recovered, chunk_key(1, count - 3), chunk_key(2, 0)) == [
            chunk_key(1, seq) for seq in range(count - 3, tail + 1)
        ]
        recovered.close()
        shutil.rmtree(copy)
    engine.close()


def _trim_to(engine: Engine, seq: int) -> None:
    write = Write()
    write.delete_range("msg", chunk_key(1, 0), chunk_key(1, seq))
    engine.commit(write, sync=False)


def test_what_becomes_a_table_while_the_disk_is_looked_at_is_not_taken_for_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was in memory when the disk was looked at, and on the disk when the memory was."""
    engine = RocksEngine(tmp_path / "store")
    write = Write()
    write.put("meta", b"key", os.urandom(1 << 20))
    engine.commit(write, sync=False)
    looks = iter([100 << 20, 99 << 20])

    def look(_path: object) -> SimpleNamespace:
        free_bytes = next(looks)
        engine.flush()
        return SimpleNamespace(f_bavail=free_bytes, f_frsize=1)

    with monkeypatch.context() as patched:
        patched.setattr(os, "statvfs", look)
        free_bytes = engine.free_bytes()

    assert present(free_bytes) <= 99 << 20
    engine.close()


def test_large_values_of_which_none_is_dead_are_not_written_anew_when_tables_are_merged(tmp_path: Path) -> None:
    """A disk with little room would have to hold them twice meanwhile."""
    engine = RocksEngine(tmp_path / "store")
    written: set[Path] = set()
    for number in range(8):
        write = Write()
        write.put("msg", chunk_key(1, number), os.urandom(64 << 10))
        engine.commit(write, sync=False)
        engine.flush()
        written.update((tmp_path / "store").glob("*.blob"))

    engine.database.columns["msg"].compact_range(None, None)

    assert len(written) == 8
    assert {*(tmp_path / "store").glob("*.blob")} == written
    engine.close()


def test_what_rocksdb_writes_down_of_its_own_work_does_not_grow_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its log, and the MANIFEST, of which there is a spare: the one that it starts again has one as well."""
    monkeypatch.setattr("storage.engine.engine.LOG_MAX_BYTES", 64 << 10)
    monkeypatch.setattr("storage.engine.engine.MANIFEST_MAX_BYTES", 4 << 10)
    engine = RocksEngine(tmp_path / "store")
    first = (tmp_path / "store" / "CURRENT").read_text()
    for number in range(120):
        put(engine, chunk_key(1, number))
        engine.flush()
        engine.free_bytes()  # as about once a second
    logs = sum(path.stat().st_size for path in (tmp_path / "store").glob("LOG*"))
    current = (tmp_path / "store" / "CURRENT").read_text()
    manifest = tmp_path / "store" / current.strip()
    size_bytes = manifest.stat().st_size
    engine.close()
    manifest.write_bytes(manifest.read_bytes()[: size_bytes // 2] + bytes(size_bytes // 2))

    engine = RocksEngine(tmp_path / "store")

    assert current != first
    assert size_bytes < 64 << 10
    assert logs < 5 * (64 << 10)
    assert len(keys_of(engine, chunk_key(1, 0), chunk_key(2, 0))) == 120
    engine.close()
