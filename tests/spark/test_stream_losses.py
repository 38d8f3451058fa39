"""Each settled message streams once or is named: whatever was trimmed, copied late, damaged, removed or replaced in between."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from storage.snapshots.manifest import Manifest, read_manifest
from tests.spark.nodes import CLOUD, START_MS, Edge, copy_of, damage_messages
from tests.spark.reading import Arrivals, arrive, directly, load, numbers, rows_of

RETENTION_S = 100.0


@pytest.fixture(scope="module")
def trimmed(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two snapshots of a node. Of what left it between them its history has the youngest only."""
    edge = Edge(tmp_path_factory.mktemp("trimmed") / "store", retention_s=RETENTION_S)
    with edge.model:
        there = edge.model.folder.parent / "there"
        edge.publish(500)
        edge.deliver(500)
        made = [edge.snapshot(there)]
        for wait_ms in (1000, 1000 * int(RETENTION_S)):
            for _ in range(4):
                edge.publish(250)
                edge.deliver(250)
            for _ in range(4):
                edge.model.advance(wait_ms // 2)
        edge.publish(500)
        edge.deliver(500)
        made.append(edge.snapshot(there))
    return made


@pytest.fixture(scope="module")
def hours(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Three snapshots of a node that goes on: each has the settlements of those before it, too."""
    edge = Edge(tmp_path_factory.mktemp("hours") / "store")
    with edge.model:
        made = []
        for _ in range(3):
            edge.publish(80)
            edge.deliver(30)
            made.append(edge.snapshot(edge.model.folder.parent / "there"))
    return made


def settled(manifest: Manifest) -> int:
    """How many messages have left the queue to the cloud."""
    return next(queue for queue in manifest.queues if queue.name == CLOUD).ledger.ended()


def given(rows: list[dict[str, Any]]) -> int:
    return sum(row["messages"] for row in rows if row["outcome"] != "redelivered")


def test_what_was_trimmed_between_two_snapshots_ends_a_stream_or_is_a_row(
    spark: SparkSession, trimmed: list[Path], tmp_path: Path
) -> None:
    """tables.gap-is-named"""
    strict, lax = (
        Arrivals(spark, tmp_path / "strict", "settlements"),
        Arrivals(spark, tmp_path / "lax", "settlements", failOnDataLoss="false"),
    )
    gaps = Arrivals(spark, tmp_path / "gaps", "gaps")
    for arrivals in (strict, lax, gaps):
        arrive(trimmed[0], arrivals.there)
        arrivals.run()
        arrive(trimmed[1], arrivals.there)
    with pytest.raises(PySparkException, match=rf"can't be read any more: sequences \d+ to \d+ of {CLOUD} of node edge"):
        strict.run()
    lax.run()
    gaps.run()
    gaps.run()

    (gap,) = gaps.rows()
    lost = gap["last_seq"] - gap["first_seq"] + 1
    every = settled(read_manifest(trimmed[1]))
    assert lost > 0
    assert given(lax.rows()) + lost == every
    assert given(strict.rows()) == settled(read_manifest(trimmed[0]))
    assert (gap["snapshot_before"], gap["snapshot_id"]) == tuple(path.name for path in trimmed)
    (by_query,) = rows_of(load(spark, "gaps", trimmed[0].parent))
    assert {**by_query, "snapshot_at": None} == {**gap, "snapshot_at": None}
    assert rows_of(load(spark, "gaps", trimmed[0].parent, queues="bridge:plant:0")) == []


def test_one_that_came_out_of_order_closes_the_gap(spark: SparkSession, tmp_path: Path) -> None:
    """A stream that ended at a gap goes on once the copy that was late is there."""
    edge = Edge(tmp_path / "store", retention_s=RETENTION_S)
    with edge.model:
        made = []
        for _ in range(3):
            edge.publish(100)
            edge.deliver(60)
            made.append(edge.snapshot(tmp_path / "made"))
            for _ in range(2):
                edge.model.advance(1000 * int(RETENTION_S))
    arrivals = Arrivals(spark, tmp_path / "stream", "settlements")
    for at in (0, 2):
        arrive(made[at], arrivals.there)
        if at == 0:
            arrivals.run()
    with pytest.raises(PySparkException, match="can't be read any more"):
        arrivals.run()
    arrive(made[1], arrivals.there)

    arrivals.run()

    rows = Counter(numbers(arrivals.rows()))
    assert set(rows.values()) == {1}
    assert given(arrivals.rows()) == settled(read_manifest(made[2]))


def test_one_whose_files_come_behind_its_manifest_is_taken_when_they_are_there(
    spark: SparkSession, hours: list[Path], tmp_path: Path
) -> None:
    """spark.taken-when-whole: neither a missing file, nor a short one, nor one of other bytes is counted as had."""
    arrivals = Arrivals(spark, tmp_path, "settlements", damaged="skip")
    arrive(hours[0], arrivals.there)
    arrivals.run()
    first = numbers(arrivals.rows())
    late = arrivals.there / hours[1].name
    shutil.copytree(hours[1], late)
    largest = max((entry.size_bytes, entry.name) for entry in read_manifest(late).files)[1]

    (late / largest).unlink()
    arrivals.run()
    (late / largest).write_bytes((hours[1] / largest).read_bytes()[:-1])
    arrivals.run()
    (late / largest).write_bytes((hours[1] / largest).read_bytes())
    damage_messages(late)
    arrivals.run()
    assert numbers(arrivals.rows()) == first

    (late / largest).write_bytes((hours[1] / largest).read_bytes())
    arrivals.run()
    assert numbers(arrivals.rows()) == numbers(directly(hours[1], "settlements"))

    (late / largest).unlink()
    strict = Arrivals(spark, tmp_path / "strict", "settlements")
    arrive(late, strict.there)
    with pytest.raises(PySparkException, match=f"it is not all there: {largest} is missing"):
        strict.run()


@pytest.mark.parametrize("table", ["settlements", *(pytest.param(name, marks=pytest.mark.soak) for name in ("messages", "queues"))])
def test_a_repeated_batch_whose_snapshot_has_gone_reads_the_same_from_another(
    spark: SparkSession, hours: list[Path], tmp_path: Path, table: str
) -> None:
    """spark.taken-when-whole; a table without numbers ends, or goes on without, by option."""
    arrivals = Arrivals(spark, tmp_path, table)
    arrive(hours[0], arrivals.there)
    arrivals.run()
    arrive(hours[1], arrivals.there)
    arrivals.run()
    had = {(row["queue"], row.get("number"), row.get("seq"), row.get("first_seq")) for row in arrivals.rows()}
    arrivals.forget_last_batch()
    (arrivals.there / hours[1].name).unlink()
    with pytest.raises(PySparkException, match=r"can't be read any more: .* has gone before it was read"):
        arrivals.run()
    arrive(hours[2], arrivals.there)
    if table == "queues":
        with pytest.raises(PySparkException, match="can't be read any more"):
            arrivals.run()
        arrivals.set(failOnDataLoss="false")
    arrivals.run()

    rows = arrivals.rows()
    if table == "queues":
        assert {row["snapshot_id"] for row in rows} == {hours[2].name}
    else:
        found = {(row["queue"], row.get("number"), row.get("seq"), row.get("first_seq")) for row in rows}
        last = {
            (row["queue"], row.get("number"), row.get("seq"), row.get("first_seq"))
            for row in directly(hours[2], table)
            if row.get("state") in (None, "settled")
        }
        before = {
            (row["queue"], row.get("number"), row.get("seq"), row.get("first_seq"))
            for row in directly(hours[0], table)
            if row.get("state") in (None, "settled")
        }
        assert found == last - before
        assert had - before <= found
        assert len(rows) == len(found)


def test_a_data_folder_that_was_replaced_streams_whole(spark: SparkSession, tmp_path: Path) -> None:
    """Under the same node name, by the same clock, and further on than the one before."""
    arrivals = {table: Arrivals(spark, tmp_path / table, table) for table in ("settlements", "events", "messages")}
    every = 0
    for turn, count in enumerate((120, 200)):
        edge = Edge(tmp_path / f"store-{turn}")
        with edge.model:
            edge.model.advance(turn * 3_600_000)
            edge.publish(count)
            edge.deliver(count)
            made = edge.snapshot(tmp_path / "made")
        every += settled(read_manifest(made))
        for each in arrivals.values():
            arrive(made, each.there)
            each.run()

    assert given(arrivals["settlements"].rows()) == every
    assert len({row["store_id"] for row in arrivals["messages"].rows()}) == 2
    for table in ("settlements", "events"):
        rows = Counter((row["store_id"], row.get("queue"), row["number"], row.get("first_seq")) for row in arrivals[table].rows())
        assert set(rows.values()) == {1}


def test_two_boxes_of_one_name_stream_both(spark: SparkSession, hours: list[Path], tmp_path: Path) -> None:
    arrivals = Arrivals(spark, tmp_path, "settlements")
    for at in (0, 1):
        arrive(hours[at], arrivals.there)
        copy_of(hours[at], arrivals.there / "twin", "edge", START_MS + 5000 + at, store_id="c" * 32)
        arrivals.run()

    assert numbers(arrivals.rows()) == sorted(2 * numbers(directly(hours[1], "settlements")))


def test_a_job_of_many_names_what_is_bad_and_leaves_it_out(spark: SparkSession, hours: list[Path], tmp_path: Path) -> None:
    for number in range(30):
        copy_of(hours[0], tmp_path, f"box-{number}", START_MS + number)
    without_store, without_index, damaged = sorted(tmp_path.iterdir())[:3]
    shutil.rmtree(without_store / "store")
    (without_index / "store" / "CURRENT").unlink()
    (damaged / "manifest.json").write_text("{}")

    nodes = {row["node"] for row in rows_of(load(spark, "messages", tmp_path, damaged="skip"))}
    named = {row["path"] for row in rows_of(load(spark, "damage", tmp_path, damaged="skip"))}

    assert len(nodes) == 27
    assert named == {str(without_store), str(without_index)}
    assert [row["path"] for row in rows_of(load(spark, "snapshots", tmp_path, damaged="skip")) if row["problem"]] == [str(damaged)]
    with pytest.raises(PySparkException, match=r"box-(0|1|10)-"):
        rows_of(load(spark, "messages", f"{tmp_path}/box-[!2]*"))
