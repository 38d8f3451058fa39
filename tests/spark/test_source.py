"""The tables of snapshots are the same through Spark as they are without; filters skip; what cannot be read is named."""

from __future__ import annotations

import datetime
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from analysis.spark.source import NAME, spark_schema
from analysis.tables.reader import SplitFilters
from analysis.tables.schemas import TABLES
from tests.spark.nodes import CLOUD, PLANT, START_MS, Edge, copy_of, damage_messages, make_newer
from tests.spark.reading import Arrivals, arrive, directly, in_order, load, numbers, rows_of

DAY_MS = 86_400_000


@pytest.fixture(scope="module")
def snapshots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two snapshots of one node and one of another."""
    folder = tmp_path_factory.mktemp("snapshots")
    edge = Edge(folder / "edge-store")
    with edge.model:
        for _ in range(2):
            for _ in range(3):
                edge.publish(300, plant=100)
                edge.deliver(150)
            edge.snapshot(folder / "there")
    other = Edge(folder / "other-store", "other", retention_s=0.0)
    with other.model:
        other.publish(50, plant=50)
        other.snapshot(folder / "there")
    return folder / "there"


@pytest.mark.parametrize("table", TABLES)
def test_a_table_is_the_same_through_spark_as_without(spark: SparkSession, snapshots: Path, table: str) -> None:
    payload = "payload" in spark_schema(table, payload=True).fieldNames()
    options = {"payload": "true", "rows_per_partition": "200"} if payload else {}

    through = rows_of(load(spark, table, snapshots, **options))

    assert in_order(through) == in_order(directly(snapshots, table))
    assert table in ("damage", "gaps", "sessions", "events") or through


def test_columns_that_are_not_in_the_schema_are_not_built(spark: SparkSession, snapshots: Path) -> None:
    frame = spark.read.format(NAME).schema("topic string, seq bigint").option("table", "messages").load(str(snapshots))

    assert frame.columns == ["topic", "seq"]
    assert in_order(rows_of(frame)) == in_order(directly(snapshots, "messages", ["topic", "seq"]))


def test_the_payload_is_read_only_if_asked_for(spark: SparkSession, snapshots: Path) -> None:
    assert "payload" not in load(spark, "messages", snapshots).columns
    first = load(spark, "messages", snapshots, payload="true").where("state = 'queued'").first()
    assert first is not None
    assert (
        bytes(first["payload"]).startswith(b"%d " % (int(first["seq"]) if first["queue"] == CLOUD else 0))
        or first["queue"] == PLANT
    )


def partitions(frame: DataFrame) -> int:
    return frame.rdd.getNumPartitions()


def test_an_option_reads_fewer_partitions(spark: SparkSession, snapshots: Path) -> None:
    every, one_node, one_queue = (
        partitions(load(spark, "messages", snapshots, rows_per_partition="100", **options))
        for options in ({}, {"nodes": "other"}, {"queues": PLANT, "seq_to": "100"})
    )

    assert every > 20
    assert one_node < every // 4
    assert one_queue < every // 4


def test_options_narrow_as_filters_do(spark: SparkSession, snapshots: Path) -> None:
    by_option = load(spark, "messages", snapshots, queues=CLOUD, seq_from="100", seq_to="200", nodes="edge")

    assert in_order(rows_of(by_option)) == in_order(
        rows_of(load(spark, "messages", snapshots).where("queue = 'bridge:cloud:0' and seq >= 100 and seq < 200 and node = 'edge'"))
    )
    since = datetime.datetime.fromtimestamp((START_MS + 4000) / 1000, datetime.UTC)
    late = rows_of(load(spark, "messages", snapshots, since=since.isoformat()))
    assert late
    assert all(row["accepted_at"] >= since for row in late)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"table": "letters"}, "the option table is 'letters'; there are messages"),
        ({"table": "messages", "sinse": "2026-01-01"}, "'sinse' is no option"),
        ({"table": "messages", "since": "yesterday"}, "it is a time like"),
        ({"table": "messages", "damaged": "maybe"}, "it may be fail or skip"),
    ],
)
def test_a_wrong_option_is_refused_when_it_is_given(
    spark: SparkSession, snapshots: Path, options: dict[str, str], said: str
) -> None:
    with pytest.raises(PySparkException, match=said):
        spark.read.format(NAME).options(**options).load(str(snapshots))


def test_a_place_that_rocksdb_cannot_open_is_refused_by_name(spark: SparkSession) -> None:
    with pytest.raises(PySparkException, match="this takes local and mounted folders only"):
        load(spark, "messages", "s3a://bucket/snapshots").count()


def test_a_column_of_another_type_is_refused_by_name(spark: SparkSession, snapshots: Path) -> None:
    with pytest.raises(PySparkException, match="column seq of table messages is bigint, not int"):
        spark.read.format(NAME).schema("seq int").option("table", "messages").load(str(snapshots)).count()


def test_a_folder_without_a_snapshot_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(PySparkException, match="there is no snapshot at"):
        load(spark, "messages", tmp_path).count()


# --- many, damaged, half made, newer ---


def test_two_hundred_snapshots_are_one_job_of_few_partitions(spark: SparkSession, snapshots: Path, tmp_path: Path) -> None:
    """From a glob; small ones share a partition."""
    source = next(path for path in sorted(snapshots.iterdir()) if path.name.startswith("other"))
    for number in range(200):
        copy_of(source, tmp_path / f"day-{number % 5}", f"box-{number % 40}", START_MS + number * 60_000)

    frame = load(spark, "messages", f"{tmp_path}/day-*/*")
    counts = {(row["node"], row["count"]) for row in frame.groupBy("node").count().collect()}

    each = len(directly(source, "messages", ["seq"]))
    assert counts == {(f"box-{number}", 5 * each) for number in range(40)}
    assert partitions(frame) < 50
    assert load(spark, "snapshots", f"{tmp_path}/day-*/*").where("problem is null").count() == 200


@pytest.fixture
def mixed(snapshots: Path, tmp_path: Path) -> Path:
    """A sound snapshot, one with a damaged table, one with a damaged manifest, one of a newer version, and a half-made one."""
    first, *_ = sorted(snapshots.iterdir())
    copies = {name: copy_of(first, tmp_path, name, START_MS + DAY_MS) for name in ("sound", "table", "manifest", "newer")}
    damage_messages(copies["table"])
    path = copies["manifest"] / "manifest.json"
    path.write_bytes(path.read_bytes().replace(b'"manifest"', b'"manifesto"'))
    make_newer(copies["newer"])
    shutil.copytree(first / "store", tmp_path / f"{first.name}.part" / "store", copy_function=lambda a, b: Path(b).hardlink_to(a))
    return tmp_path


def test_what_cannot_be_read_fails_the_query_by_name(spark: SparkSession, mixed: Path) -> None:
    with pytest.raises(PySparkException, match="newer"):
        load(spark, "queues", mixed, damaged="skip").count()
    with pytest.raises(PySparkException, match=r"half made|does not have the check sum"):
        load(spark, "queues", mixed, newer="skip").count()
    only_table = next(path for path in mixed.iterdir() if path.name.startswith("table"))
    with pytest.raises(PySparkException, match="SnapshotDamaged"):
        rows_of(load(spark, "messages", only_table, payload="true"))


def test_what_cannot_be_read_is_skipped_by_option_and_named_in_a_table(spark: SparkSession, mixed: Path) -> None:
    skip = {"damaged": "skip", "newer": "skip"}

    assert {row["node"] for row in rows_of(load(spark, "queues", mixed, **skip))} == {"sound", "table"}
    problems = {row["path"]: row["problem"] for row in rows_of(load(spark, "snapshots", mixed, **skip)) if row["problem"]}
    assert len(problems) == 3
    assert sum("half made" in text for text in problems.values()) == 1
    assert sum("newer version" in text for text in problems.values()) == 1
    assert sum("check sum" in text for text in problems.values()) == 1

    sound, damaged = (
        {(row["queue"], row["seq"]) for row in rows_of(load(spark, "messages", mixed, nodes=name, **skip))}
        for name in ("sound", "table")
    )
    named = rows_of(load(spark, "damage", mixed, **skip))
    assert damaged < sound
    assert {row["node"] for row in named} == {"table"}
    assert sound - damaged <= {(row["queue"], seq) for row in named if row["queue"] for seq in _seqs(row)}


def _seqs(row: dict[str, Any]) -> Iterator[int]:
    if row["first_seq"] is not None:
        yield from range(row["first_seq"], row["last_seq"] + 1)


# --- snapshots that arrive ---


@pytest.fixture(scope="module")
def hours(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Four snapshots of a node that goes on: each has the settlements of those before it, too."""
    folder = tmp_path_factory.mktemp("hours")
    edge = Edge(folder / "store")
    with edge.model:
        made = []
        for _ in range(4):
            edge.publish(80, plant=10)
            edge.deliver(30)
            made.append(edge.snapshot(folder / "there"))
    return made


def test_each_settlement_streams_once_over_arrivals_and_restarts(spark: SparkSession, hours: list[Path], tmp_path: Path) -> None:
    arrivals = Arrivals(spark, tmp_path, "settlements", maxSnapshotsPerTrigger="2")
    assert arrivals.run() == 0  # nothing has arrived, and that is no error

    arrive(hours[0], arrivals.there)
    (arrivals.there / f"{hours[1].name}.part" / "store").mkdir(parents=True)  # the next is on its way
    arrivals.run()
    first = numbers(arrivals.rows())
    assert first == numbers(directly(hours[0], "settlements"))
    arrivals.run()
    assert numbers(arrivals.rows()) == first

    for snapshot in hours[1:]:
        arrive(snapshot, arrivals.there)
    arrive(hours[2], arrivals.there, "other")
    assert arrivals.run() == 2  # two by two

    assert numbers(arrivals.rows()) == sorted(
        numbers(directly(hours[3], "settlements")) + [("other", *row[1:]) for row in numbers(directly(hours[2], "settlements"))]
    )


def test_a_batch_that_is_repeated_reads_the_same_whatever_has_arrived_since(
    spark: SparkSession, hours: list[Path], tmp_path: Path
) -> None:
    """tables.snapshot-taken-once"""
    arrivals = Arrivals(spark, tmp_path, "settlements")
    arrive(hours[0], arrivals.there)
    arrivals.run()
    arrive(hours[2], arrivals.there)
    arrivals.run()
    arrivals.forget_last_batch()
    arrive(hours[1], arrivals.there)  # late, and between the two

    arrivals.run()

    first, third = (numbers(directly(hours[number], "settlements")) for number in (0, 2))
    assert numbers(arrivals.rows()) == sorted(set(third) - set(first))


def test_each_settled_message_streams_once(spark: SparkSession, hours: list[Path], tmp_path: Path) -> None:
    arrivals = Arrivals(spark, tmp_path, "messages")
    for snapshot in hours[:3]:
        arrive(snapshot, arrivals.there)
        if snapshot is not hours[1]:
            arrivals.run()

    rows = [(row["queue"], row["seq"], row["outcome"], row["settlement"]) for row in arrivals.rows()]

    settled = directly(hours[2], "messages", filters=SplitFilters(states=("settled",)))
    assert rows
    assert sorted(rows) == sorted((row["queue"], row["seq"], row["outcome"], row["settlement"]) for row in settled)


def test_a_table_without_numbers_streams_each_snapshot_once_late_ones_too(
    spark: SparkSession, hours: list[Path], tmp_path: Path
) -> None:
    arrivals = Arrivals(spark, tmp_path, "queues")
    for number in (0, 2, 1, 3):
        arrive(hours[number], arrivals.there)
        arrivals.run()

    expected = [(hour.name, row["queue"], row["tail"]) for hour in hours for row in directly(hour, "queues")]
    assert sorted((row["snapshot_id"], row["queue"], row["tail"]) for row in arrivals.rows()) == sorted(expected)


def test_events_stream_once(spark: SparkSession, hours: list[Path], tmp_path: Path) -> None:
    arrivals = Arrivals(spark, tmp_path, "events")
    for snapshot in hours[1:]:
        arrive(snapshot, arrivals.there)
        arrivals.run()

    assert sorted(row["number"] for row in arrivals.rows()) == sorted(row["number"] for row in directly(hours[3], "events"))


def test_a_damaged_snapshot_stops_a_stream_or_is_passed_by_option(spark: SparkSession, hours: list[Path], tmp_path: Path) -> None:
    for option in ("fail", "skip"):
        arrivals = Arrivals(spark, tmp_path / option, "queues", damaged=option)
        arrive(hours[0], arrivals.there)
        copied = copy_of(hours[1], arrivals.there, "bad", START_MS)
        (copied / "manifest.json").write_text("{}")
        if option == "fail":
            with pytest.raises(PySparkException, match="manifest"):
                arrivals.run()
        else:
            arrivals.run()
            assert {row["node"] for row in arrivals.rows()} == {"edge"}


@pytest.mark.parametrize("pushes", ["true", "false"])
def test_a_frame_that_is_used_again_has_all_its_rows(spark: SparkSession, snapshots: Path, pushes: str) -> None:
    """Spark 4.3 keeps what a frame has read with filters that were pushed down, for all queries of that frame; so none are.

    An installed source is known without being registered.
    """
    session = spark.newSession()
    session.conf.set("spark.sql.python.filterPushdown.enabled", pushes)
    frame = session.read.format(NAME).option("table", "queues").load(str(snapshots))
    one, two = (frame.where(f"queue = '{queue}'") for queue in (CLOUD, PLANT))

    assert (one.count(), two.count(), frame.count()) == (3, 3, 6)
    assert one.union(two).count() == 6
    frame.createOrReplaceTempView("frame")
    joined = "SELECT * FROM frame a JOIN frame b USING (snapshot_id) WHERE a.queue = '{}' AND b.queue = '{}'"
    assert session.sql(joined.format(CLOUD, PLANT)).count() == 3


def test_snapshots_are_a_table_by_sql(spark: SparkSession, snapshots: Path) -> None:
    expected = len(directly(snapshots, "messages"))
    for name, how in (
        ("by_option", f"OPTIONS (table 'messages', path '{snapshots}')"),
        ("by_place", f"OPTIONS (table 'messages', payload 'true') LOCATION '{snapshots}'"),
    ):
        spark.sql(f"CREATE TABLE {name} USING bascule {how}")
        try:
            assert spark.table(name).count() == expected
            rows = spark.sql(
                f"SELECT a.seq FROM {name} a JOIN {name} b ON a.snapshot_id = b.snapshot_id AND a.seq = b.seq"
                f" WHERE a.queue = '{CLOUD}' AND b.queue = '{PLANT}'"
            ).count()
            assert rows > 0
            assert ("payload" in spark.table(name).columns) == (name == "by_place")
        finally:
            spark.sql(f"DROP TABLE {name}")
    with pytest.raises(PySparkException, match="'tabel' is no option"):
        spark.sql(f"CREATE TABLE wrong USING bascule OPTIONS (tabel 'messages', path '{snapshots}')")
