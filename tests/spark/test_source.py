"""The tables of snapshots are the same through Spark as they are without; filters skip; what cannot be read is named."""

from __future__ import annotations

import datetime
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from storage.analysis.reader import Filters, read_table
from storage.analysis.tables import TABLES
from storage.manifest import find_snapshots
from storage.spark_source import NAME, spark_schema
from tests.spark.nodes import CLOUD, PLANT, START_MS, Edge, copy_of, damage_messages, make_newer

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


def load(spark: SparkSession, table: str, path: Path | str, **options: Any) -> DataFrame:
    return spark.read.format(NAME).options(table=table, **options).load(str(path))


def directly(path: Path, table: str, columns: list[str] | None = None, filters: Filters | None = None) -> list[dict[str, Any]]:
    batches = read_table(find_snapshots(path), table, columns, filters or Filters())
    return [row for batch in batches for row in batch.to_pylist()]


def rows_of(frame: DataFrame) -> list[dict[str, Any]]:
    return rows_in(frame.toArrow())


def rows_in(table: pa.Table) -> list[dict[str, Any]]:
    return list(table.to_pylist())


def in_order(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(str(sorted(row.items())) for row in rows)


@pytest.mark.parametrize("table", TABLES)
def test_a_table_is_the_same_through_spark_as_without(spark: SparkSession, snapshots: Path, table: str) -> None:
    payload = "payload" in spark_schema(table, payload=True).fieldNames()
    options = {"payload": "true", "rows_per_partition": "200"} if payload else {}

    through = rows_of(load(spark, table, snapshots, **options))

    assert in_order(through) == in_order(directly(snapshots, table))
    assert table in ("damage", "sessions", "events") or through


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


FILTERS = [
    ("messages", "node = 'other'", Filters(nodes=("other",))),
    ("messages", "queue in ('bridge:plant:0', 'nothing')", Filters(queues=(PLANT, "nothing"))),
    ("messages", "bridge = 'cloud' and state = 'settled'", Filters(bridges=("cloud",), states=("settled",))),
    ("messages", "seq between 250 and 400", Filters(seq_from=250, seq_to=401)),
    ("messages", "seq > 900 and queue = 'bridge:cloud:0'", Filters(seq_from=901, queues=(CLOUD,))),
    ("settlements", "last_seq >= 400 and first_seq < 600", Filters(seq_from=400, seq_to=600)),
    ("events", "at < timestamp '2026-05-28 20:26:45'", None),
    ("messages", "accepted_at >= timestamp '2026-05-28 20:26:45' and accepted_at < timestamp '2026-05-28 20:26:47'", None),
    ("messages", "snapshot_at > timestamp '2026-05-28 20:26:47'", None),
    ("messages", "queue = 'bridge:cloud:0' and queue = 'bridge:plant:0'", Filters(queues=())),
]


@pytest.mark.parametrize(("table", "condition", "filters"), FILTERS)
def test_a_filter_that_is_pushed_down_leaves_the_same_rows(
    spark: SparkSession, snapshots: Path, table: str, condition: str, filters: Filters | None
) -> None:
    pushed = rows_of(load(spark, table, snapshots).where(condition))
    not_pushed = rows_of(load(spark, table, snapshots, pushdown="false").where(condition))

    assert in_order(pushed) == in_order(not_pushed)
    if filters is not None:
        columns = load(spark, table, snapshots).columns
        assert in_order(pushed) == in_order(directly(snapshots, table, columns, filters))


def partitions(frame: DataFrame) -> int:
    return frame.rdd.getNumPartitions()


def test_a_filter_that_is_pushed_down_reads_fewer_partitions(spark: SparkSession, snapshots: Path) -> None:
    options = {"rows_per_partition": "100"}
    every = partitions(load(spark, "messages", snapshots, **options))

    one_node = partitions(load(spark, "messages", snapshots, **options).where("node = 'other'"))
    one_queue = partitions(load(spark, "messages", snapshots, **options).where("queue = 'bridge:plant:0' and seq < 100"))
    one_snapshot = partitions(load(spark, "messages", snapshots, **options).where("snapshot_at > timestamp '2027-01-01 00:00:00'"))
    not_pushed = partitions(load(spark, "messages", snapshots, pushdown="false", **options).where("node = 'other'"))

    assert every > 20
    assert one_node < every // 4
    assert one_queue < every // 4
    assert one_snapshot == 1  # Spark's way to read nothing
    assert not_pushed == every


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
    with pytest.raises(PySparkException, match="RocksDB opens local and mounted folders only"):
        load(spark, "messages", "s3a://bucket/snapshots").count()


def test_a_column_of_another_type_is_refused_by_name(spark: SparkSession, snapshots: Path) -> None:
    with pytest.raises(PySparkException, match="column seq of table messages is bigint, not int"):
        spark.read.format(NAME).schema("seq int").option("table", "messages").load(str(snapshots)).count()


def test_a_folder_without_a_snapshot_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(PySparkException, match="there is no snapshot here"):
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
