"""The Spark data source ``bascule``: the tables of snapshots as data frames, in batches and as a stream.

    spark.read.format("bascule").option("table", "messages").load("/snapshots/*")
    spark.readStream.format("bascule").option("table", "settlements").load("/snapshots")

What the tables are is ``analysis.tables``', how they are read ``analysis.reader``'s; this module says it in Spark's words. The planning
reads manifests alone, one partition is one split of the reader, and rows cross as Arrow batches. Spark passes no list of wanted
columns to a Python data source, so ``.schema("queue string, seq bigint")`` is what prunes them. ``spark_filters`` pushes filters
down, ``spark_stream`` reads what arrives.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Literal, cast
from urllib.parse import unquote, urlsplit

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.datasource import Filter as SparkFilter
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from storage.analysis.reader import TARGET_ROWS, Filters, Problem, Split, plan, read
from storage.analysis.tables import TABLES, columns_of
from storage.manifest import Found, find_snapshots
from storage.spark_filters import Narrowed, moment_us
from wire.errors import ConfigError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

log = logging.getLogger("bascule")

NAME = "bascule"
PUSHDOWN_SETTING = "spark.sql.python.filterPushdown.enabled"
Judgement = Literal["fail", "skip"]

_TYPES: dict[str, DataType] = {
    "string": StringType(),
    "int": IntegerType(),
    "long": LongType(),
    "double": DoubleType(),
    "boolean": BooleanType(),
    "timestamp": TimestampType(),
    "binary": BinaryType(),
    "map<string,long>": MapType(StringType(), LongType(), valueContainsNull=True),
}


class WrongOption(ConfigError):
    """An option of the data source is not one, or has no meaning."""


@dataclass(frozen=True)
class Options:
    """The options of ``spark.read.format("bascule")``, understood; their names are matched without regard to case.

    path (or load's argument): a snapshot, a folder of snapshots, or a glob over them; several as a list. table: one of
    ``tables.TABLES``. damaged, newer: ``fail`` (default) or ``skip`` what cannot be read, or was written by a newer version. payload:
    whether the default schema has the column. pushdown: see ``register``. nodes, queues, bridges, states: lists with commas, or JSON. seq_from, seq_to,
    since, until: half-open; times are ISO 8601, UTC unless they say otherwise, of the column ``tables.TIME_COLUMN``.
    rows_per_partition: about how many a task reads. maxSnapshotsPerTrigger: of a stream, 0 is no limit.
    """

    table: str
    paths: tuple[str, ...]
    damaged: Judgement
    newer: Judgement
    payload: bool
    pushdown: bool
    filters: Filters
    rows_per_partition: int
    snapshots_per_trigger: int

    @classmethod
    def parse(cls, given: Mapping[str, str], *, pushdown: bool) -> Options:
        """The options that Spark was ``given``; ``pushdown`` where they do not say.

        Raises:
            WrongOption: one is unknown, or its value is.
        """
        options = {name.lower(): value for name, value in given.items()}
        unknown = sorted(options.keys() - _OPTIONS)
        if unknown:
            raise WrongOption(f"{unknown[0]!r} is no option of the data source; there are {', '.join(sorted(_OPTIONS))}")
        table = options.get("table", "")
        if table not in TABLES:
            raise WrongOption(f"the option table is {table!r}; there are {', '.join(TABLES)}")
        return cls(
            table=table,
            paths=tuple(_local_path(path) for path in _list(options, "paths", options.get("path", "[]"), commas=False)),
            damaged=_judgement(options, "damaged"),
            newer=_judgement(options, "newer"),
            payload=_flag(options, "payload", default=False),
            pushdown=_flag(options, "pushdown", default=pushdown),
            filters=Filters(
                nodes=_names(options, "nodes"),
                queues=_names(options, "queues"),
                bridges=_names(options, "bridges"),
                states=_names(options, "states"),
                seq_from=_number(options, "seq_from"),
                seq_to=_number(options, "seq_to"),
                since_us=_time_us(options, "since"),
                until_us=_time_us(options, "until"),
            ),
            rows_per_partition=_number(options, "rows_per_partition", least=1) or TARGET_ROWS,
            snapshots_per_trigger=_number(options, "maxsnapshotspertrigger", least=0) or 0,
        )

    def find(self) -> list[Found]:
        """What lies at the paths, each folder once.

        Raises:
            WrongOption: no path was given.
            NoManifest: there is no snapshot at one of them.
        """
        if not self.paths:
            raise WrongOption("no path was given: load(path) takes a snapshot, a folder of snapshots, or a glob over them")
        found = {each.path.resolve(): each for path in self.paths for each in find_snapshots(path)}
        return list(found.values())


_OPTIONS = frozenset(
    "path paths table damaged newer payload pushdown nodes queues bridges states seq_from seq_to since until rows_per_partition".split()
) | {"maxsnapshotspertrigger"}


class BasculeSource(DataSource):
    """The data source. Spark makes one for every query, in a Python of its own."""

    pushdown_default = False

    def __init__(self, options: MutableMapping[str, str]) -> None:
        """Understand the options; raises ``WrongOption`` where that cannot be done."""
        super().__init__(options)
        self._options = Options.parse(options, pushdown=self.pushdown_default)

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        return spark_schema(self._options.table, payload=self._options.payload)

    def reader(self, schema: StructType) -> DataSourceReader:
        reader = PushdownReader if self._options.pushdown else SnapshotReader
        return reader(self._options, columns_wanted(self._options.table, schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 (Spark's name)
        from storage.spark_stream import ArrivalReader

        return ArrivalReader(self._options, columns_wanted(self._options.table, schema))


class PushdownSource(BasculeSource):
    """The same, for a session in which filters may be pushed down to Python data sources."""

    pushdown_default = True


def register(spark: SparkSession, *, pushdown: bool = True) -> None:
    """Make ``bascule`` known to ``spark``; an installed Bascule is known without, and its filters are then pushed down only on request.

    pushdown: let filters on node, queue, bridge, state, sequence and time reach the reader, for which the session's
    ``spark.sql.python.filterPushdown.enabled`` is switched on. Spark refuses the query of a source that would, while it is off.
    """
    if pushdown:
        spark.conf.set(PUSHDOWN_SETTING, "true")
    spark.dataSource.register(PushdownSource if pushdown else BasculeSource)


def spark_schema(table: str, columns: Sequence[str] | None = None, *, payload: bool = False) -> StructType:
    """The schema of ``table`` in Spark; needs no Java. For ``.schema(...)``: the reader builds these ``columns`` and no others."""
    return StructType([StructField(column.name, _TYPES[column.type]) for column in columns_of(table, columns, payload=payload)])


def columns_wanted(table: str, schema: StructType) -> tuple[str, ...]:
    """The names in ``schema``, once each is known to be a column of ``table`` with that type.

    Raises:
        WrongOption: one is not.
    """
    types = {column.name: _TYPES[column.type] for column in TABLES[table]}
    for field in schema.fields:
        if field.name not in types:
            raise WrongOption(f"table {table} has no column {field.name!r}; it has {', '.join(types)}")
        if field.dataType != types[field.name]:
            kind = types[field.name].simpleString()
            raise WrongOption(
                f"column {field.name} of table {table} is {kind}, not {field.dataType.simpleString()}: cast it afterwards"
            )
    return tuple(field.name for field in schema.fields)


@dataclass
class SplitPartition(InputPartition):
    """What one task reads, and of it what is wanted."""

    split: Split
    filters: Filters


class SplitReading:
    """How a task reads a partition; the batch reader's and the stream reader's."""

    def __init__(self, options: Options, columns: tuple[str, ...]) -> None:
        """columns: those to build, in that order."""
        self.options = options
        self._columns = columns

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of ``partition``. Runs in a Python worker of an executor."""
        if not isinstance(partition, SplitPartition):
            return iter(())  # Spark's way to say that there is nothing to read
        return read(partition.split, self._columns, partition.filters, damaged=self.options.damaged, on_problem=tell)

    def splits(self, found: Sequence[Found], filters: Filters) -> list[SplitPartition]:
        """The partitions that read ``found``; a snapshot that cannot be used is an error, or is told to the log."""
        splits = plan(
            found,
            self.options.table,
            self.options.rows_per_partition,
            filters,
            damaged=self.options.damaged,
            newer=self.options.newer,
            on_problem=tell,
        )
        return [SplitPartition(split, filters) for split in splits]


class SnapshotReader(SplitReading, DataSourceReader):
    """Reads the snapshots that are there when the query is planned."""

    def __init__(self, options: Options, columns: tuple[str, ...]) -> None:
        super().__init__(options, columns)
        self.narrowed = Narrowed(options.table, options.filters)

    def partitions(self) -> Sequence[InputPartition]:
        if self.narrowed.nothing:
            return []
        return self.splits([each for each in self.options.find() if self.narrowed.takes(each.manifest)], self.narrowed.filters)


class PushdownReader(SnapshotReader):
    """A reader that takes filters. A class of its own: Spark refuses one that could take them where the session does not allow it."""

    def pushFilters(self, filters: list[SparkFilter]) -> Iterator[SparkFilter]:  # noqa: N802 (Spark's name)
        """Narrow the reading as far as ``filters`` allow. Spark evaluates all of them once more on what is left."""
        for each in filters:
            self.narrowed.push(each)
        return iter(filters)


def tell(problem: Problem) -> None:
    """Name in the log what was left out; the tables ``snapshots`` and ``damage`` have it as rows."""
    log.warning("snapshot.skipped", extra={"problem": str(problem)})


def _local_path(path: str) -> str:
    url = urlsplit(path)
    if url.scheme == "file":
        return unquote(url.path)
    if "://" in path:
        raise WrongOption(
            f"{path!r} is not in a file system: RocksDB opens local and mounted folders only. Copy the snapshot, or read its export as Parquet"
        )
    return path


def _list(options: Mapping[str, str], name: str, default: str, *, commas: bool) -> tuple[str, ...]:
    text = options.get(name, default)
    if text.startswith("["):
        try:
            values = json.loads(text)
        except ValueError as error:
            raise WrongOption(f"the option {name} is no JSON list", value=text) from error
        return tuple(str(value) for value in values)
    return tuple(part for part in (text.split(",") if commas else [text]) if part)


def _names(options: Mapping[str, str], name: str) -> tuple[str, ...] | None:
    return _list(options, name, "", commas=True) if name in options else None


def _judgement(options: Mapping[str, str], name: str) -> Judgement:
    value = options.get(name, "fail")
    if value not in ("fail", "skip"):
        raise WrongOption(f"the option {name} is {value!r}; it may be fail or skip")
    return cast("Judgement", value)


def _flag(options: Mapping[str, str], name: str, *, default: bool) -> bool:
    value = options.get(name, str(default)).lower()
    if value not in ("true", "false"):
        raise WrongOption(f"the option {name} is {value!r}; it may be true or false")
    return value == "true"


def _number(options: Mapping[str, str], name: str, least: int = 0) -> int | None:
    if name not in options:
        return None
    try:
        value = int(options[name])
    except ValueError:
        value = least - 1
    if value < least:
        raise WrongOption(f"the option {name} is {options[name]!r}; it is a whole number of {least} or more")
    return value


def _time_us(options: Mapping[str, str], name: str) -> int | None:
    if name not in options:
        return None
    try:
        moment = datetime.fromisoformat(options[name])
    except ValueError as error:
        raise WrongOption(f"the option {name} is {options[name]!r}; it is a time like 2026-01-31T12:00:00Z") from error
    return moment_us(moment)
