"""Sources of the tables of a report: snapshots, through the data source, or Parquet that ``bascule export`` wrote."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from analysis.reports.report_model import Problem
from storage.files import local_path
from storage.snapshots.manifest import Found, NoManifest, find_snapshots
from wire.errors import ConfigError, StorageDamaged

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Judgement = Literal["fail", "skip"]
SNAPSHOTS = "snapshots"


class MixedInputs(ConfigError):
    """Snapshots and exports were given together; they overlap in ways that nobody checks."""


class CheckpointSource:
    """Snapshots that lie in folders. A snapshot and its copies are read once."""

    def __init__(
        self, spark: SparkSession, found: Sequence[Found], *, damaged: Judgement = "fail", newer: Judgement = "fail"
    ) -> None:
        """Sort out what can be read; ``problems`` are what cannot. Half-made snapshots never can, and never fail.

        Raises:
            StorageDamaged, ConfigError: one is damaged, or of a newer version, and that is to fail.
        """
        self._spark = spark
        self._damaged = damaged
        self._paths: dict[str, str] = {}
        self.problems: list[Problem] = []
        stores: dict[str, str] = {}
        for one in sorted(found, key=lambda each: str(each.path)):
            if one.manifest is not None:
                known = stores.setdefault(one.manifest.id, one.manifest.store_id)
                if known == one.manifest.store_id:
                    self._paths.setdefault(one.manifest.id, str(one.path))
                else:
                    self.problems.append(Problem(path=str(one.path), queue="", why="another store has a snapshot of that name"))
                continue
            if one.newer and newer == "fail":
                raise ConfigError("a snapshot is of a newer version of Bascule", path=str(one.path), why=one.problem)
            if not one.newer and not one.half_made and damaged == "fail":
                raise StorageDamaged("a snapshot is damaged", path=str(one.path), why=one.problem)
            self.problems.append(Problem(path=str(one.path), queue="", why=one.problem))
        if not self._paths:
            raise NoManifest("no snapshot can be used", problems=len(self.problems))

    def table(
        self, name: str, columns: Sequence[str], *, snapshots: Sequence[str] | None = None, states: Sequence[str] | None = None
    ) -> DataFrame:
        """``Source.table``. Only ``columns`` are decoded."""
        from analysis.spark.source import NAME, spark_schema

        paths = list(self._paths.values()) if snapshots is None else [self._paths[one] for one in snapshots]
        reader = self._spark.read.format(NAME).schema(spark_schema(name, columns)).option("table", name)
        reader = reader.option("damaged", self._damaged).option("paths", json.dumps(paths))
        if states is not None:
            reader = reader.option("states", json.dumps(list(states)))
        return reader.load()

    def damage(self) -> list[Problem]:
        """The parts of these snapshots that cannot be read, and were left out: a scan of all of them."""
        from analysis.spark.source import NAME

        reader = self._spark.read.format(NAME).option("table", "damage").option("damaged", "skip")
        rows = reader.option("paths", json.dumps(list(self._paths.values()))).load().limit(1000).collect()
        found = []
        for row in rows:
            seqs = f" (sequences {row.first_seq} to {row.last_seq})" if row.first_seq is not None else ""
            found.append(Problem(path=row.path, queue=row.queue or "", why=row.why + seqs))
        return found


class ParquetSource:
    """Files of ``bascule export``, here or far away: a folder of ``<table>/date=<day>/node=<node>/<snapshot>.parquet``."""

    def __init__(self, spark: SparkSession, folders: Sequence[str]) -> None:
        self._spark = spark
        self._folders = tuple(folders)
        self.problems: list[Problem] = []

    def table(
        self, name: str, columns: Sequence[str], *, snapshots: Sequence[str] | None = None, states: Sequence[str] | None = None
    ) -> DataFrame:
        """``Source.table``. Files of other snapshots are skipped by their statistics; columns that an export lacks are null."""
        from pyspark.errors import AnalysisException
        from pyspark.sql import functions as f

        from analysis.spark.source import spark_schema

        schema = spark_schema(name, columns)
        frames = []
        for folder in self._folders:
            try:
                frames.append(self._spark.read.schema(schema).parquet(f"{folder}/{name}").select(*columns))
            except AnalysisException as error:
                if error.getCondition() != "PATH_NOT_FOUND" or name == SNAPSHOTS:
                    raise
        frame = frames[0] if frames else self._spark.createDataFrame([], schema)
        for more in frames[1:]:
            frame = frame.unionByName(more)
        if snapshots is not None:
            frame = frame.where(f.col("snapshot_id").isin(list(snapshots)))
        return frame if states is None else frame.where(f.col("state").isin(list(states)))

    def damage(self) -> list[Problem]:
        """Nothing: an export is made of what could be read, and said so then."""
        return []


def open_source(
    spark: SparkSession, inputs: Sequence[str], *, damaged: Judgement = "fail", newer: Judgement = "fail"
) -> CheckpointSource | ParquetSource:
    """The source of ``inputs``: paths of snapshots, folders of them and globs, or else folders of exports.

    Raises:
        MixedInputs: both kinds were given.
        NoManifest: there is no snapshot at one of them.
        StorageDamaged, ConfigError: as ``CheckpointSource``.
    """
    exports = [one for one in inputs if is_export(one)]
    if exports and len(exports) < len(inputs):
        raise MixedInputs("give snapshots or exports, not both", exports=exports)
    if exports:
        return ParquetSource(spark, exports)
    found: Mapping[Path, Found] = {each.path.resolve(): each for one in inputs for each in find_snapshots(one)}
    return CheckpointSource(spark, list(found.values()), damaged=damaged, newer=newer)


def is_export(where: str) -> bool:
    """Whether ``where`` is, or is taken for, what ``bascule export`` wrote: snapshots lie in file systems only."""
    if "://" in where and not where.startswith("file:"):
        return True
    return any(Path(local_path(where)).glob(f"{SNAPSHOTS}/date=*"))
