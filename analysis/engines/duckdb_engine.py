"""DuckDB as the engine of reports: in this process, in memory, with what does not fit in a folder that goes when it ends.

Rows come as Arrow batches from the readers of ``analysis/tables``, or from Parquet, and are DuckDB's columns from then on. Times
are UTC without a zone, so that no library of time zones is asked.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from analysis.engines.engine import Frame, Judgement, Row, Type
from analysis.engines.spark_functions import SPARK_FUNCTIONS
from analysis.tables.reader import SplitFilters, read_table
from analysis.tables.schemas import Type as ColumnType
from analysis.tables.schemas import arrow_schema, columns_of
from storage.files import PRIVATE, PRIVATE_FOLDER, local_path
from storage.snapshots.manifest import find_snapshots
from wire.errors import BasculeError, Unavailable

MEMORY_MB = 100  # of DuckDB's own; what is beyond goes to disk
_TIME, _UTC = pa.timestamp("us"), pa.timestamp("us", tz="UTC")
_TYPES: dict[Type, pa.DataType] = {"string": pa.string(), "long": pa.int64()}
_SQL_TYPES: dict[ColumnType, str] = {
    "string": "VARCHAR",
    "int": "INTEGER",
    "long": "BIGINT",
    "double": "DOUBLE",
    "boolean": "BOOLEAN",
    "timestamp": "TIMESTAMP",
    "binary": "BLOB",
    "map<string,long>": "MAP(VARCHAR, BIGINT)",
}
_EXPORTED = "read_parquet(?, hive_partitioning = true, hive_types_autocast = false, union_by_name = true)"
_EPOCH = datetime(1970, 1, 1)
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


class DuckDbEngine:
    """``analysis.engines.engine.Engine``. Use it in one thread."""

    name = "DuckDB"

    def __init__(self, *, cores: int | None = None, memory_mb: int | None = None) -> None:
        """cores: how many threads work; None: all. memory_mb: what DuckDB may hold before it uses the disk."""
        pa.set_memory_pool(pa.system_memory_pool())  # others keep what was read for the next batch, as much as all of it again
        self._scratch = tempfile.TemporaryDirectory(prefix="bascule-report-")
        settings: dict[str, Any] = {
            "memory_limit": f"{memory_mb or MEMORY_MB}MB",
            "temp_directory": self._scratch.name,
            "default_null_order": "NULLS_FIRST_ON_ASC_LAST_ON_DESC",  # as Spark's
            "autoinstall_known_extensions": "false",  # nothing is fetched from anywhere
            "autoload_known_extensions": "false",
        }
        if cores is not None:
            settings["threads"] = cores
        self._db = duckdb.connect(config=settings)
        self._db.execute("SET TimeZone = 'UTC'")
        for head, body in SPARK_FUNCTIONS.items():
            self._db.execute(f"CREATE MACRO {head} AS {body}")
        self._numbers = count()

    def frame(self, query: str) -> Frame:
        """``Engine.frame``."""
        return self._made("VIEW", query)

    def keep(self, query: str) -> Frame:
        """``Engine.keep``."""
        return self._made("TABLE", query)

    found = keep

    def rows(self, rows: Iterable[tuple[Any, ...]], columns: Mapping[str, Type]) -> Frame:
        """``Engine.rows``."""
        schema = pa.schema([(name, _TYPES[kind]) for name, kind in columns.items()])
        made = pa.Table.from_pylist([dict(zip(columns, row, strict=True)) for row in rows], schema)
        return self._taken(schema, made.to_batches())

    def collect(self, query: str) -> list[Row]:
        """``Engine.collect``."""
        result = self._run(query)
        names = [str(column[0]) for column in result.description or ()]
        return [dict(zip(names, map(_plain, row), strict=True)) for row in result.fetchall()]

    def snapshots(
        self, paths: Sequence[str], table: str, columns: Sequence[str], states: Sequence[str] | None, damaged: Judgement
    ) -> Frame:
        """``Engine.snapshots``.

        Raises:
            StorageDamaged, Unavailable: as ``analysis.tables.reader.read``.
        """
        found = [each for path in paths for each in find_snapshots(path)]
        filters = SplitFilters(states=None if states is None else tuple(states))
        return self._taken(arrow_schema(table, columns), read_table(found, table, columns, filters, damaged=damaged))

    def exports(self, folders: Sequence[str], table: str, columns: Sequence[str], where: Mapping[str, Sequence[str]]) -> Frame:
        """``Engine.exports``. Files of other snapshots are skipped by their statistics."""
        places = (Path(local_path(folder)) for folder in folders)
        paths = [str(path) for place in places for path in sorted(place.glob(f"{table}/date=*/node=*/*.parquet"))]
        if not paths:
            return self._taken(arrow_schema(table, columns), [])
        there = {row[0] for row in self._run(f"DESCRIBE SELECT * FROM {_EXPORTED}", [paths]).fetchall()}
        kinds = {column.name: _SQL_TYPES[column.type] for column in columns_of(table, columns)}
        chosen = (f"CAST({f'e.{name}' if name in there else 'NULL'} AS {kind}) AS {name}" for name, kind in kinds.items())
        wanted = " AND ".join(f"{name} IN (SELECT unnest(?))" for name in where) or "true"
        query = f"SELECT {', '.join(chosen)} FROM {_EXPORTED} e WHERE {wanted}"
        return self._made("TABLE", query, [paths, *map(list, where.values())])

    def write_parquet(self, frame: Frame, folder: str) -> None:
        """``Engine.write_parquet``."""
        rows = self._db.sql(f"SELECT * FROM {frame.name} ORDER BY date, node").to_arrow_table()
        rows = rows.cast(pa.schema([(each.name, _written(each.type)) for each in rows.schema]))
        ends = self._run(f"SELECT date, node, count(*) FROM {frame.name} GROUP BY 1, 2 ORDER BY 1, 2").fetchall()
        start = 0
        for date, node, many in ends:
            place = Path(local_path(folder)) / f"date={date or _NO_VALUE}" / f"node={quote(node, safe='')}"
            _make_private(place)
            for old in place.glob("*.parquet"):
                old.unlink()
            part = place / "part-0.parquet.part"
            part.touch(PRIVATE)
            pq.write_table(rows.slice(start, many).drop_columns(["date", "node"]), part, compression="zstd")
            part.replace(place / "part-0.parquet")
            start += many

    def expect(self, messages: int) -> None:
        """``Engine.expect``: DuckDB needs no telling."""

    def release(self) -> None:
        """``Engine.release``: all of the database goes."""
        self._db.close()
        self._scratch.cleanup()

    def _made(self, kind: str, query: str, values: Sequence[object] = ()) -> Frame:
        frame = Frame(f"bascule_{next(self._numbers)}")
        self._run(f"CREATE {kind} {frame.name} AS {query}", values)
        return frame

    def _run(self, query: str, values: Sequence[object] = ()) -> duckdb.DuckDBPyConnection:
        """Run ``query``.

        Raises:
            Unavailable: it wants more memory, or more room on the disk, than there is.
        """
        try:
            return self._db.execute(query, values)
        except (duckdb.OutOfMemoryException, duckdb.IOException) as error:
            why = str(error).partition("\n")[0]
            raise Unavailable("DuckDB wants more memory (--memory-mb), or room in the folder TMPDIR", error=why) from error

    def _taken(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Frame:
        """The rows of ``batches`` as a table; DuckDB takes one after the other."""
        without_zone = pa.schema([(each.name, _TIME if each.type == _UTC else each.type) for each in schema])
        failed: list[BaseException] = []
        self._db.register("incoming", pa.RecordBatchReader.from_batches(without_zone, _without_zone(batches, without_zone, failed)))
        try:
            return self.keep("SELECT * FROM incoming")
        except (duckdb.Error, Unavailable):
            if failed:
                raise failed[0] from None
            raise
        finally:
            self._db.unregister("incoming")


def _without_zone(batches: Iterable[pa.RecordBatch], schema: pa.Schema, failed: list[BaseException]) -> Iterator[pa.RecordBatch]:
    """``batches`` with their times as UTC without a zone, nothing copied. failed: gets the error that ends them, which DuckDB would
    tell as a text of its own.
    """
    try:
        for batch in batches:
            columns = [column.view(_TIME) if column.type == _UTC else column for column in batch.columns]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)
    except (BasculeError, OSError) as error:
        failed.append(error)
        raise


def _make_private(folder: Path) -> None:
    """Have ``folder`` and those above it, what is made for the owner only. A report is made anew, so nothing waits for the disk."""
    if not folder.is_dir():
        _make_private(folder.parent)
        folder.mkdir(PRIVATE_FOLDER, exist_ok=True)


def _written(kind: pa.DataType) -> pa.DataType:
    """The type that a column has in a file: sums are wider in DuckDB than any count of messages is."""
    if pa.types.is_decimal(kind):
        return pa.int64()
    return _UTC if kind == _TIME else kind


def _plain(value: Any) -> Any:
    """A value of a result; a time as milliseconds."""
    if isinstance(value, datetime):
        since = value - _EPOCH
        return (since.days * 86_400 + since.seconds) * 1000 + since.microseconds // 1000
    return value
