"""Spark as the engine of reports: for a fleet's snapshots, on this machine or on a cluster."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

from pyspark import StorageLevel
from pyspark.errors import AnalysisException
from pyspark.sql import functions as f

from analysis.engines.engine import Frame, Judgement, Row, Type
from analysis.spark.session import QUICK_SETTINGS
from analysis.spark.source import NAME, spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FEW_MESSAGES = 200_000  # in all snapshots
_NUMBERS = count()


class SparkEngine:
    """``analysis.engines.engine.Engine`` in a session. Frames are views of it, kept in memory or on disk."""

    name = "Spark"

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self._kept: list[DataFrame] = []
        self._views: list[str] = []
        self._former: dict[str, str | None] = {}
        self._local = (spark.sparkContext.master or "").startswith("local")

    def frame(self, query: str) -> Frame:
        """``Engine.frame``."""
        return self._named(self.spark.sql(query))

    def keep(self, query: str) -> Frame:
        """``Engine.keep``."""
        return self._named(self._persisted(self.spark.sql(query)))

    def found(self, query: str) -> Frame:
        """``Engine.found``: cut off from what it was computed from.

        On a cluster it is kept as others are: there a lost executor would take what is cut off with it.
        """
        return self._named(self.spark.sql(query).localCheckpoint()) if self._local else self.keep(query)

    def rows(self, rows: Iterable[tuple[Any, ...]], columns: Mapping[str, Type]) -> Frame:
        """``Engine.rows``."""
        return self._named(self.spark.createDataFrame(list(rows), ", ".join(f"{name} {kind}" for name, kind in columns.items())))

    def collect(self, query: str) -> list[Row]:
        """``Engine.collect``."""
        frame = self.spark.sql(query)
        chosen = [
            f.unix_millis(f.col(f"`{name}`")).alias(name) if kind == "timestamp" else f.col(f"`{name}`")
            for name, kind in frame.dtypes
        ]
        return [row.asDict() for row in frame.select(*chosen).collect()]

    def snapshots(
        self, paths: Sequence[str], table: str, columns: Sequence[str], states: Sequence[str] | None, damaged: Judgement
    ) -> Frame:
        """``Engine.snapshots``, by the data source ``bascule``."""
        reader = self.spark.read.format(NAME).schema(spark_schema(table, columns)).option("table", table)
        reader = reader.option("damaged", damaged).option("paths", json.dumps(list(paths)))
        if states is not None:
            reader = reader.option("states", json.dumps(list(states)))
        return self._named(self._persisted(reader.load()))

    def exports(self, folders: Sequence[str], table: str, columns: Sequence[str], where: Mapping[str, Sequence[str]]) -> Frame:
        """``Engine.exports``. Files of other snapshots are skipped by their statistics."""
        schema = spark_schema(table, tuple(dict.fromkeys((*columns, *where))))
        frame = self.spark.createDataFrame([], schema)
        for folder in folders:
            try:
                frame = frame.unionByName(self.spark.read.schema(schema).parquet(f"{folder}/{table}").select(*schema.names))
            except AnalysisException as error:
                if error.getCondition() != "PATH_NOT_FOUND" or table == "snapshots":
                    raise
        for column, values in where.items():
            frame = frame.where(f.col(column).isin(list(values)))
        return self._named(self._persisted(frame.select(*columns)))

    def write_parquet(self, frame: Frame, folder: str) -> None:
        """``Engine.write_parquet``: one file for each day and node, since the rows of a report are few."""
        writer = self.spark.table(frame.name).repartition("date", "node").write.mode("overwrite")
        writer.option("partitionOverwriteMode", "dynamic").partitionBy("date", "node").parquet(folder)

    def expect(self, messages: int) -> None:
        """``Engine.expect``: with few, compiling queries and planning them again on the way takes longer than running them."""
        if messages <= FEW_MESSAGES:
            for name, value in QUICK_SETTINGS.items():
                self._former[name] = self.spark.conf.get(name, None)
                self.spark.conf.set(name, value)

    def release(self) -> None:
        """``Engine.release``."""
        for name, former in self._former.items():
            if former is None:
                self.spark.conf.unset(name)
            else:
                self.spark.conf.set(name, former)
        self._former.clear()
        for view in self._views:  # until now: with a view, Spark forgets what it keeps of its frame
            self.spark.catalog.dropTempView(view)
        self._views.clear()
        for frame in self._kept:
            frame.unpersist()
        self._kept.clear()

    def file_system(self, where: str) -> tuple[Any, Any]:
        """Hadoop's file system of ``where``, which Spark itself writes with, and the path in it."""
        java = self.spark.sparkContext._jvm
        assert java is not None
        path = java.org.apache.hadoop.fs.Path(where)
        return path.getFileSystem(self.spark.sparkContext._jsc.hadoopConfiguration()), path

    def _persisted(self, frame: DataFrame) -> DataFrame:
        self._kept.append(frame.persist(StorageLevel.MEMORY_AND_DISK))
        return self._kept[-1]

    def _named(self, frame: DataFrame) -> Frame:
        view = f"bascule_{next(_NUMBERS)}"
        frame.createOrReplaceTempView(view)
        self._views.append(view)
        return Frame(view)
