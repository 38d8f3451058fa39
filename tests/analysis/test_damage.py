"""Reading of damage: it is named and refused, or named and skipped; everything else is read; nothing goes missing."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner

from analysis.tables.reader import Problem, SnapshotDamaged, plan
from storage.engine.engine import Write
from storage.engine.keys import chunk_key, lane_key
from storage.queue.history import settlement_key
from storage.snapshots.manifest import MANIFEST_NAME, find_snapshots, read_manifest
from supervisor.cli.main import cli
from tests.analysis.rows import Row, table
from tests.analysis.test_columns import resealed
from tests.storage.building import batch, bridge, node
from tests.support.made_snapshots.generate import Made
from tests.support.made_snapshots.node_model import NodeModel
from wire.errors import ConfigError

QUEUE = "bridge:cloud:0"
START_MS = 1_700_000_000_000
RECORD_HEAD_BYTES = 7  # of a record of RocksDB's logs: checksum, length, kind


def copied(snapshot: Path, to: Path) -> Path:
    """A copy that may be damaged."""
    return Path(shutil.copytree(snapshot, to / snapshot.name))


def flip(snapshot: Path, *, part: float = 0.3, count: int = 16) -> None:
    """Change bytes in the largest table of the store."""
    path = max((snapshot / "store").glob("*.sst"), key=lambda each: each.stat().st_size)
    content = bytearray(path.read_bytes())
    at = int(len(content) * part)
    content[at : at + count] = bytes(value ^ 0xFF for value in content[at : at + count])
    path.write_bytes(content)


def queue_of(tmp_path: Path, *, chunks: int = 400, rows: int = 5) -> tuple[NodeModel, list[Row]]:
    """A node with one queue of many chunks, and its messages."""
    model = NodeModel(tmp_path / "node", node(bridge()), start_ms=START_MS)
    rnd = Random(3)
    for number in range(chunks):
        payloads = [b"%d/%d " % (number, row) + rnd.randbytes(300) for row in range(rows)]
        model.publish({QUEUE: batch(payloads, accepted_ms=model.wall_ms)})
        model.advance(10)
    return model, table(model.snapshot(tmp_path / "sound"), "messages", ["seq", "payload"])


def put(model: NodeModel, key: bytes, value: bytes | None, family: str = "msg") -> None:
    write = Write()
    if value is None:
        write.delete(family, key)  # type: ignore[arg-type]
    else:
        write.put(family, key, value)  # type: ignore[arg-type]
    model.engine.commit(write, sync=False)


def lost(expected: list[Row], found: list[Row]) -> list[int]:
    seqs = {row["seq"] for row in found}
    assert [row for row in expected if row["seq"] in seqs] == found, "what was read is what was there, in order"
    return [row["seq"] for row in expected if row["seq"] not in seqs]


def covers(problems: list[Problem], seqs: list[int]) -> bool:
    return all(any(problem.first_seq <= seq <= problem.last_seq for problem in problems) for seq in seqs)


@pytest.mark.parametrize("part", [0.02, 0.3, 0.6, 0.9])
def test_flipped_bytes_in_a_table_are_named_with_the_sequences_that_are_lost(tmp_path: Path, part: float) -> None:
    model, expected = queue_of(tmp_path)
    with model:
        model.wall_ms += 1
        snapshot = model.snapshot(tmp_path / "snapshots")
    flip(snapshot, part=part)

    with pytest.raises(SnapshotDamaged) as refused:
        table(snapshot, "messages")
    problems: list[Problem] = []
    found = table(snapshot, "messages", ["seq", "payload"], problems=problems)

    gone = lost(expected, found)
    assert 0 < len(gone) < len(expected) / 4
    assert problems
    assert covers(problems, gone)
    assert all(problem.queue == QUEUE and problem.snapshot_id == snapshot.name for problem in problems)
    assert refused.value.problem == problems[0]
    assert sum(problem.last_seq - problem.first_seq + 1 for problem in problems) < len(gone) + 20, "and hardly more is named"


def test_damage_that_splits_meet_is_named_by_the_one_that_reads_it(tmp_path: Path) -> None:
    model, expected = queue_of(tmp_path)
    with model:
        model.wall_ms += 1
        snapshot = model.snapshot(tmp_path / "snapshots")
    flip(snapshot, part=0.5)
    problems: list[Problem] = []

    found = table(snapshot, "messages", ["seq", "payload"], target_rows=150, problems=problems)

    gone = lost(expected, found)
    assert gone
    assert covers(problems, gone)


def test_a_chunk_with_a_bad_checksum_is_named_and_its_neighbours_are_read(tmp_path: Path) -> None:
    model, expected = queue_of(tmp_path, chunks=20)
    with model:
        value = bytearray(model.engine.get("msg", chunk_key(1, 25)) or b"")
        value[-1] ^= 1
        put(model, chunk_key(1, 25), bytes(value))
        model.wall_ms += 1
        snapshot = model.snapshot(tmp_path / "snapshots")
    problems: list[Problem] = []

    found = table(snapshot, "messages", ["seq", "payload"], problems=problems)

    assert lost(expected, found) == [25, 26, 27, 28, 29]
    assert [(each.queue, each.first_seq, each.last_seq, each.why) for each in problems] == [(QUEUE, 25, 29, "a chunk is damaged")]
    with pytest.raises(SnapshotDamaged, match="a chunk is damaged"):
        table(snapshot, "messages")


@pytest.mark.parametrize("target_rows", [250_000, 30])
@pytest.mark.parametrize("seq", [25, 95])
def test_a_chunk_that_is_missing_is_named(tmp_path: Path, seq: int, target_rows: int) -> None:
    model, expected = queue_of(tmp_path, chunks=20)
    with model:
        put(model, chunk_key(1, seq), None)
        model.wall_ms += 1
        snapshot = model.snapshot(tmp_path / "snapshots")
    problems: list[Problem] = []

    found = table(snapshot, "messages", ["seq", "payload"], target_rows=target_rows, problems=problems)

    assert lost(expected, found) == list(range(seq, seq + 5))
    assert [(each.first_seq, each.last_seq, each.why) for each in problems] == [(seq, seq + 4, "chunks are missing")]


def test_a_chunk_of_a_newer_version_is_refused_as_that(tmp_path: Path) -> None:
    model, expected = queue_of(tmp_path, chunks=10)
    with model:
        value = model.engine.get("msg", chunk_key(1, 20)) or b""
        put(model, chunk_key(1, 20), resealed(b"\x02" + value[1:]))
        model.wall_ms += 1
        snapshot = model.snapshot(tmp_path / "snapshots")
    problems: list[Problem] = []

    with pytest.raises(ConfigError, match="newer version"):
        table(snapshot, "messages")
    assert len(lost(expected, table(snapshot, "messages", ["seq", "payload"], problems=problems))) == 5
    assert [each.why for each in problems] == ["a chunk was written by a newer version: 2"]


@pytest.mark.parametrize("pattern", ["*.sst", "*.blob", "MANIFEST-*", "CURRENT"])
def test_a_file_that_is_missing_is_named(tmp_path: Path, pattern: str) -> None:
    with NodeModel(tmp_path / "node", node(bridge()), start_ms=START_MS) as model:
        model.publish({QUEUE: batch([bytes(5000)] * 3, accepted_ms=START_MS)})
        snapshot = model.snapshot(tmp_path / "snapshots")
    victim = max((snapshot / "store").glob(pattern), key=lambda each: each.stat().st_size)
    victim.unlink()
    problems: list[Problem] = []

    with pytest.raises(SnapshotDamaged) as refused:
        table(snapshot, "messages")
    assert table(snapshot, "messages", ["seq"], problems=problems) == []

    assert victim.name in str(refused.value.problem) + refused.value.problem.why
    assert problems
    assert [row["path"] for row in table(snapshot, "damage")] == [str(snapshot)] * len(problems)


def test_an_index_of_the_store_that_ends_early_is_named(day: Made, tmp_path: Path) -> None:
    """RocksDB opens the store as it was before the last flushes: that is a sound one, but not what the snapshot was made of."""
    snapshot = copied(day.snapshots[1], tmp_path)
    (index,) = (snapshot / "store").glob("MANIFEST-*")
    content = index.read_bytes()
    ends = [0]
    while ends[-1] < len(content):
        ends.append(ends[-1] + RECORD_HEAD_BYTES + int.from_bytes(content[ends[-1] + 4 : ends[-1] + 6], "little"))
    assert ends[-1] == len(content)

    for end in ends[-5:-1]:
        index.write_bytes(content[:end])
        for name in ("messages", "events", "retained"):
            problems: list[Problem] = []
            assert table(snapshot, name, problems=problems) == [], "an older state of the store is not passed off as this one"
            assert [index.name in problem.why for problem in problems] == [True]
            with pytest.raises(SnapshotDamaged, match=index.name):
                table(snapshot, name)


def test_a_damaged_row_of_a_queue_takes_that_queue_only(day: Made, tmp_path: Path) -> None:
    with NodeModel(tmp_path / "node", node(bridge("a"), bridge("b")), start_ms=START_MS) as model:
        for name in ("a", "b"):
            model.publish({f"bridge:{name}:0": batch([b"x"] * 3, accepted_ms=START_MS)})
        put(model, lane_key(1), b"\xc1", "meta")
        snapshot = model.snapshot(tmp_path / "snapshots")
    problems: list[Problem] = []

    found = table(snapshot, "messages", ["queue", "seq"], problems=problems)

    assert [row["queue"] for row in found] == ["bridge:b:0"] * 3
    assert [each.queue for each in problems] == ["bridge:a:0"]
    assert [row["depth"] for row in table(snapshot, "queues", problems=[])] == [3, 3], "the manifest knows how deep it was"


def test_settlements_that_are_missing_are_named(tmp_path: Path) -> None:
    with NodeModel(tmp_path / "node", node(replace(bridge(), retention_s=3600.0)), start_ms=START_MS) as model:
        lane = model.open_lane(QUEUE)
        for _ in range(10):
            model.publish({QUEUE: batch([b"x"] * 4, accepted_ms=model.wall_ms)})
            model.settle(lane, [("delivered", lane.in_hand.ranges())], session="s")
        put(model, settlement_key(1, 4), None, "history")
        put(model, settlement_key(1, 7), b"\xc1", "history")
        snapshot = model.snapshot(tmp_path / "snapshots")
    problems: list[Problem] = []

    found = table(snapshot, "settlements", ["number"], problems=problems)

    assert [row["number"] for row in found] == [0, 1, 2, 3, 5, 6, 8, 9]
    assert ["4 to 4" in each.why or "7 to 7" in each.why for each in problems] == [True, True]
    with pytest.raises(SnapshotDamaged):
        table(snapshot, "messages", ["outcome"])
    assert {row["seq"] for row in table(snapshot, "messages", ["seq", "outcome"], problems=[]) if row["outcome"] is None} == {
        *range(16, 20),
        *range(28, 32),
    }


def test_half_made_damaged_and_newer_manifests_are_refused_or_told(day: Made, tmp_path: Path) -> None:
    sound, half, damaged, newer = (copied(path, tmp_path / str(at)) for at, path in enumerate([*day.snapshots, day.snapshots[0]]))
    (half / MANIFEST_NAME).unlink()
    (damaged / MANIFEST_NAME).write_bytes((damaged / MANIFEST_NAME).read_bytes().replace(b'"box-1"', b'"box-2"', 1))
    manifest = read_manifest(newer)
    (newer / MANIFEST_NAME).write_bytes(replace(manifest, versions={**manifest.versions, "chunk": 99}).to_json())
    found = {path: find_snapshots(path) for path in (sound, half, damaged, newer)}
    everything = [each for one in found.values() for each in one]

    for path in (half, damaged):
        with pytest.raises(SnapshotDamaged):
            plan(found[path], "messages", newer="skip")
    with pytest.raises(ConfigError, match="newer version"):
        plan(found[newer], "messages", damaged="skip")
    problems: list[Problem] = []
    splits = plan(everything, "queues", damaged="skip", newer="skip", on_problem=problems.append)

    assert [part.path for split in splits for part in split.parts] == [str(sound)]
    assert [each.path for each in problems] == [str(half), str(damaged), str(newer)]


@pytest.mark.parametrize("name", ["{}.part", ".part-{}"])
def test_a_copy_under_way_is_left_out_and_named_and_real_damage_beside_it_is_refused(day: Made, tmp_path: Path, name: str) -> None:
    share, target = tmp_path / "share", tmp_path / "exported"
    sound, coming, damaged = (copied(path, share) for path in day.snapshots)
    damaged = damaged.rename(tmp_path / damaged.name)
    coming = coming.rename(share / name.format(coming.name))  # its manifest is there: only the name tells
    problems: list[Problem] = []

    splits = plan(find_snapshots(share), "queues", on_problem=problems.append)
    assert [part.path for split in splits for part in split.parts] == [str(sound)]
    assert [(each.path, each.why) for each in problems] == [(str(coming), "is half made")]
    rows = table(share, "snapshots", ["path", "problem"])
    assert {(row["path"], row["problem"]) for row in rows} == {(str(sound), None), (str(coming), "is half made")}
    command = CliRunner().invoke(cli, ["export", str(share), "--to", str(target), "--tables", "queues"], standalone_mode=False)
    assert (command.exception, command.return_value) == (None, 0)
    assert f"left out: {coming}: is half made" in command.stderr
    assert [path.name.partition(".")[0] for path in target.rglob("*.parquet")] == [sound.name]

    (damaged.rename(share / damaged.name) / MANIFEST_NAME).unlink()
    with pytest.raises(SnapshotDamaged, match="no manifest"):
        plan(find_snapshots(share), "queues")


def test_the_table_of_damage_reads_everything_and_finds_nothing_in_a_sound_snapshot(day: Made, tmp_path: Path) -> None:
    assert [table(path, "damage") for path in day.snapshots] == [[], [], []]

    snapshot = copied(day.snapshots[2], tmp_path)
    flip(snapshot)

    found = table(snapshot, "damage")
    assert found
    assert all(row["snapshot_id"] == snapshot.name and row["why"] for row in found)
