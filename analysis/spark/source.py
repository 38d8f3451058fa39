"""The Spark data source ``bascule``: the tables of snapshots as data frames, in batches and as a stream.

    spark.read.format("bascule").option("table", "messages").load("/snapshots/*")
    spark.readStream.format("bascule").option("table", "settlements").load("/snapshots")

The tables are ``analysis.tables``', read by ``analysis.reader``; this module says it in Spark's words. Planning reads manifests
alone, one partition is one split of the reader, and rows cross as Arrow batches. Spark passes no list of wanted columns to a Python
data source, so ``.schema("queue string, seq bigint")`` is what prunes them. ``options`` understands the options, ``splits`` is what
a task reads, ``stream`` reads what arrives.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any

import pyspark
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
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

from analysis.spark.options import Options, WrongOption, options_of_table
from analysis.spark.splits import SplitReading
from analysis.tables.schemas import TABLES, columns_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME = "bascule"

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

    def __init__(self, options: MutableMapping[str, str]) -> None:
        """Understand the options; raises ``WrongOption`` where that cannot be done.

        A query of a table is told none of those that CREATE TABLE was given, so they are kept in the schema, which it is told.
        """
        super().__init__(options)
        self._options = Options.parse(options) if options else None
        self._of_table = options_of_table(options)

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        options = self._options_for(StructType())
        schema = spark_schema(options.table, payload=options.payload)
        if self._of_table:
            schema.fields[0].metadata = {NAME: self._of_table}
        return schema

    def reader(self, schema: StructType) -> DataSourceReader:
        options = self._options_for(schema)
        return SnapshotReader(options, columns_wanted(options.table, schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 (Spark's name)
        if importlib.util.find_spec("pyspark.sql.streaming.datasource") is None:
            return _NoStream()
        from analysis.spark.arrival_stream import ArrivalReader

        options = self._options_for(schema)
        return ArrivalReader(options, columns_wanted(options.table, schema))

    def _options_for(self, schema: StructType) -> Options:
        if self._options is not None:
            return self._options
        kept = [field.metadata[NAME] for field in schema.fields if NAME in field.metadata]
        return Options.parse(kept[0] if kept else {})


def register(spark: SparkSession) -> None:
    """Make ``bascule`` known to ``spark``. An installed Bascule is known without."""
    from pyspark.errors import AnalysisException

    try:
        spark.dataSource.register(BasculeSource)
    except AnalysisException as error:
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":  # Spark 4.0 says so of one that it has found by itself
            raise


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


class _NoStream(DataSourceStreamReader):
    """The stream of a Spark that does not say from where on something is to be read."""

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 (Spark's name)
        raise WrongOption(f"a stream of snapshots needs Spark 4.2 or newer; this is {pyspark.__version__}")

    def latestOffset(self, *_: Any) -> dict[str, Any]:  # noqa: N802 (Spark's name)
        return self.initialOffset()

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:  # noqa: ARG002
        return iter(())


class SnapshotReader(SplitReading, DataSourceReader):
    """Reads the snapshots that are there when the query is planned.

    It takes no filters: Spark 4.1 to 4.3 keep what a frame has read with one query's filters, for all other queries of that frame.
    """

    def partitions(self) -> Sequence[InputPartition]:
        return self.splits(self.options.find(), self.options.filters)
