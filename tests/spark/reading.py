"""How the tests of the data source read it: at once, directly, and as a stream of snapshots that arrive."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession

from analysis.spark.source import NAME
from analysis.tables.reader import SplitFilters, read_table
from storage.snapshots.manifest import find_snapshots, read_manifest
from tests.spark.nodes import copy_of


def load(spark: SparkSession, table: str, path: Path | str, **options: Any) -> DataFrame:
    return spark.read.format(NAME).options(table=table, **options).load(str(path))


def directly(path: Path, table: str, columns: list[str] | None = None, filters: SplitFilters | None = None) -> list[dict[str, Any]]:
    batches = read_table(find_snapshots(path), table, columns, filters or SplitFilters())
    return [row for batch in batches for row in batch.to_pylist()]


def rows_of(frame: DataFrame) -> list[dict[str, Any]]:
    return rows_in(frame.toArrow())


def rows_in(table: pa.Table) -> list[dict[str, Any]]:
    return list(table.to_pylist())


def in_order(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(str(sorted(row.items())) for row in rows)


class Arrivals:
    """A query that writes what is new in a folder as Parquet, and is started anew each time."""

    def __init__(self, spark: SparkSession, folder: Path, table: str, **options: str) -> None:
        self._spark, self._folder, self._table, self._options = spark, folder, table, options
        self.there = folder / "there"
        self.there.mkdir(parents=True)

    def set(self, **options: str) -> None:
        """From now on with these ``options``, too."""
        self._options |= options

    def run(self) -> int:
        """Read what has arrived, and end; how many batches that took."""
        frame = self._spark.readStream.format(NAME).options(table=self._table, **self._options).load(str(self.there))
        query = (
            frame.writeStream.format("parquet")
            .option("checkpointLocation", str(self._folder / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(self._folder / "out"))
        )
        try:
            assert query.awaitTermination(120)
        finally:
            query.stop()
        return sum(1 for progress in query.recentProgress if progress["numInputRows"])

    def rows(self) -> list[dict[str, Any]]:
        """All that was ever written."""
        return [row for path in self._written() for row in rows_in(parquet.read_table(path))]

    def _written(self) -> list[Path]:
        return sorted((self._folder / "out").glob("*.parquet"))

    def forget_last_batch(self) -> None:
        """As if the query had died before its last batch was written: it is repeated. Batches that were written before are gone
        from here."""
        for path in self._written():
            path.unlink()
        shutil.rmtree(self._folder / "out" / "_spark_metadata")
        commits = self._folder / "checkpoint" / "commits"
        last = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
        for path in (commits / str(last), commits / f".{last}.crc"):
            path.unlink(missing_ok=True)


def arrive(snapshot: Path, there: Path, node: str = "") -> None:
    if node:
        copy_of(snapshot, there, node, read_manifest(snapshot).at_ms)
    else:
        (there / snapshot.name).symlink_to(snapshot)


def numbers(rows: list[dict[str, Any]]) -> list[tuple[str, str, int, int]]:
    return sorted((row["node"], row["queue"], row["number"], row["first_seq"]) for row in rows)
