"""The Spark data source ``bascule``: the tables of snapshots as data frames, in batches and as a stream.

    spark.read.format("bascule").option("table", "messages").load("/snapshots/*")
    spark.readStream.format("bascule").option("table", "settlements").load("/snapshots")

What the tables are is ``analysis.tables``', how they are read ``analysis.reader``'s; this module says it in Spark's words. Planning
reads manifests alone, one partition is one split of the reader, and rows cross as Arrow batches. Spark passes no list of wanted
columns to a Python data source, so ``.schema("queue string, seq bigint")`` is what prunes them. ``options`` understands the
options, ``filters`` pushes filters down, ``splits`` is what a task reads, ``stream`` reads what arrives.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence
from typing import TYPE_CHECKING

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

from storage.analysis.spark.filters import Narrowed
from storage.analysis.spark.options import Options, WrongOption
from storage.analysis.spark.splits import SplitReading
from storage.analysis.spark.stream import ArrivalReader
from storage.analysis.tables.schemas import TABLES, columns_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME = "bascule"
PUSHDOWN_SETTING = "spark.sql.python.filterPushdown.enabled"

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
        return ArrivalReader(self._options, columns_wanted(self._options.table, schema))


class PushdownSource(BasculeSource):
    """The same, for a session in which filters may be pushed down to Python data sources."""

    pushdown_default = True


def register(spark: SparkSession, *, pushdown: bool = True) -> None:
    """Make ``bascule`` known to ``spark``. An installed Bascule is known without; its filters are then pushed down on request only.

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
    """A reader that takes filters. A class of its own: Spark refuses it where the session does not allow them."""

    def pushFilters(self, filters: list[SparkFilter]) -> Iterator[SparkFilter]:  # noqa: N802 (Spark's name)
        """Narrow the reading as far as ``filters`` allow. Spark evaluates all of them once more on what is left."""
        for each in filters:
            self.narrowed.push(each)
        return iter(filters)
