"""Exports snapshots to Parquet, with pyarrow alone: what a box without Java can do, and what a fleet's questions are asked of.

One file for each table and snapshot: ``<table>/date=<day of the snapshot>/node=<node>/<snapshot>.<store>.parquet``. ``date`` and
``node`` are in the path and not in the file, as readers of partitioned folders want it. A file has its name only once it is whole,
so an export that was cut can be run again; what is there already is not made again. ``_SUCCESS`` says how the last run went, and is
missing while one goes on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from analysis.tables.reader import Damaged, Newer, Problem, plan, read
from analysis.tables.schemas import TABLES, arrow_schema
from storage import files
from storage.snapshots.manifest import Found, Manifest
from wire.errors import StorageDamaged, Unavailable

EXPORTED = tuple(name for name in TABLES if name not in ("damage", "gaps"))
SUCCESS_NAME = "_SUCCESS"
ROW_GROUP_ROWS = 128 << 10
ROW_GROUP_BYTES = 64 << 20
_MADE_OF = b"bascule.export"
_FORMAT = 1


@dataclass(slots=True)
class Exported:
    """The result of a run: files written and their rows and bytes, files that were there, parts that could not be read."""

    files: int = 0
    rows: int = 0
    size_bytes: int = 0
    there_already: int = 0
    problems: int = 0


def export(
    found: Sequence[Found],
    to: Path,
    *,
    tables: Sequence[str] = EXPORTED,
    payload: bool = True,
    damaged: Damaged = "fail",
    newer: Newer = "fail",
    on_problem: Callable[[Problem], None] | None = None,
    on_file: Callable[[Path, int], None] | None = None,
    on_rows: Callable[[int], None] | None = None,
) -> Exported:
    """Export ``tables`` of the snapshots ``found`` below ``to``. on_file: told of a file and its rows; on_rows: of all rows so far.

    A snapshot that cannot be read is told to ``on_problem``, and all others are exported.

    Raises:
        ValueError: there is no such table.
        StorageDamaged: ``damaged`` is fail, and some were left out; there is no ``_SUCCESS`` then.
        ConfigError: ``newer`` is fail, and a newer build wrote one.
        Unavailable: the folder cannot be written.
    """
    done = Exported()

    def tell(problem: Problem) -> None:
        done.problems += 1
        if on_problem is not None:
            on_problem(problem)

    schemas = {table: _schema(table, payload) for table in tables}
    try:
        files.make_folder(to)
        (to / SUCCESS_NAME).unlink(missing_ok=True)
        usable = _usable(found, newer, tell)
        left_out = [each.path for each in found if each.manifest is None and not each.half_made and not each.newer]
        for each, manifest in usable:
            for table, schema in schemas.items():
                path = path_of(to, table, manifest)
                made_of = _made_of(manifest, schema)
                if _is_there(path, made_of):
                    done.there_already += 1
                    continue
                try:
                    rows = _write(each, table, schema.with_metadata(made_of), path, damaged, tell, done, on_rows)
                except (StorageDamaged, Unavailable) as error:
                    tell(Problem(str(each.path), manifest.id, str(error)))
                    left_out.append(each.path)
                    break
                done.files += 1
                done.rows += rows
                done.size_bytes += path.stat().st_size
                if on_file is not None:
                    on_file(path, rows)
        if left_out and damaged == "fail":
            raise StorageDamaged("not all snapshots could be read; the others are exported", left_out=len(left_out))
        result = {"snapshots": len(usable), "tables": list(tables), "problems": done.problems}
        files.write(to / SUCCESS_NAME, json.dumps(result).encode() + b"\n")
    except OSError as error:
        raise files.unwritable(to, error) from error
    return done


def path_of(to: Path, table: str, manifest: Manifest) -> Path:
    """The place of the rows of ``table`` of a snapshot below ``to``."""
    day = datetime.fromtimestamp(manifest.at_ms / 1000, UTC).date().isoformat()
    name = f"{manifest.id}.{manifest.store_id[:8]}.parquet"  # two boxes of one name may make theirs in the same millisecond
    return to / table / f"date={day}" / f"node={quote(manifest.node, safe='')}" / name


def _usable(found: Sequence[Found], newer: Newer, tell: Callable[[Problem], None]) -> list[tuple[Found, Manifest]]:
    """The snapshots that can be read, sorted by name; the others are told."""
    paths = {part.path for split in plan(found, "queues", damaged="skip", newer=newer, on_problem=tell) for part in split.parts}
    return [(each, each.manifest) for each in found if each.manifest is not None and str(each.path) in paths]


def _schema(table: str, payload: bool) -> pa.Schema:
    schema = arrow_schema(table, payload=payload)
    return schema.remove(schema.get_field_index("node"))


def _made_of(manifest: Manifest, schema: pa.Schema) -> dict[bytes, bytes]:
    """The source of a file; equal for files that are equal."""
    facts: dict[str, Any] = {
        "format": _FORMAT,
        "snapshot": manifest.id,
        "node": manifest.node,
        "store": manifest.store_id,
        "columns": schema.names,
    }
    return {_MADE_OF: json.dumps(facts, sort_keys=True).encode()}


def _is_there(path: Path, made_of: dict[bytes, bytes]) -> bool:
    try:
        there = pq.read_metadata(path).metadata or {}
    except (FileNotFoundError, pa.ArrowInvalid):
        return False
    return bool(there.get(_MADE_OF) == made_of[_MADE_OF])


def _write(
    found: Found,
    table: str,
    schema: pa.Schema,
    path: Path,
    damaged: Damaged,
    tell: Callable[[Problem], None],
    done: Exported,
    on_rows: Callable[[int], None] | None,
) -> int:
    """Write one file; how many rows. A file from which something was left out is not marked as whole, and made again next time."""
    problems = done.problems
    files.make_folder(path.parent)
    part = path.with_name(path.name + ".part")
    rows = 0
    plain = schema.remove_metadata()
    files.touch(part)  # with its mode
    try:
        with pq.ParquetWriter(part, plain, compression="zstd") as writer:
            group = _Group(writer, plain)
            for split in plan([found], table, 1 << 62, damaged=damaged, on_problem=None):
                for batch in read(split, plain.names, damaged=damaged, on_problem=tell):
                    rows += batch.num_rows
                    group.add(batch)
                    if on_rows is not None:
                        on_rows(done.rows + rows)
            group.flush()
            if done.problems == problems:
                writer.add_key_value_metadata(schema.metadata)
        files.sync(part)
        files.rename(part, path)
    finally:
        part.unlink(missing_ok=True)
    return rows


class _Group:
    """Gathers batches to row groups."""

    def __init__(self, writer: pq.ParquetWriter, schema: pa.Schema) -> None:
        self._writer = writer
        self._schema = schema
        self._batches: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0

    def add(self, batch: pa.RecordBatch) -> None:
        self._batches.append(batch)
        self._rows += batch.num_rows
        self._bytes += batch.nbytes
        if self._rows >= ROW_GROUP_ROWS or self._bytes >= ROW_GROUP_BYTES:
            self.flush()

    def flush(self) -> None:
        if self._batches:
            self._writer.write_table(pa.Table.from_batches(self._batches, self._schema), row_group_size=2 * ROW_GROUP_ROWS)
            self._batches, self._rows, self._bytes = [], 0, 0
