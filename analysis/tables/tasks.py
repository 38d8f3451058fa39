"""Reads a split: opens the snapshot of each part once, and hands each part to the reader of its table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

import pyarrow as pa

from analysis.tables import other_tables
from analysis.tables.arrow import rows_batch
from analysis.tables.message_table import read_messages
from analysis.tables.schemas import arrow_schema
from analysis.tables.snapshot import Snapshot
from analysis.tables.snapshot_arrivals import Gap
from analysis.tables.splits import EVERYTHING, Damaged, Part, Problem, SnapshotDamaged, Split, SplitFilters, Trouble
from storage.snapshots.manifest import Manifest, read_manifest
from wire.errors import BasculeError, ConfigError, StorageDamaged, Unavailable

Reader = Callable[[Snapshot, Part, pa.Schema, SplitFilters], Iterator[pa.RecordBatch]]

READERS: dict[str, Reader] = {
    "messages": read_messages,
    "queues": other_tables.read_queues,
    "inflight": other_tables.read_inflight,
    "settlements": other_tables.read_settlement_rows,
    "events": other_tables.read_events,
    "dead_letters": other_tables.read_dead_letters,
    "sessions": other_tables.read_sessions,
    "retained": other_tables.read_retained,
}


def read(
    split: Split,
    columns: Sequence[str] | None,
    filters: SplitFilters,
    damaged: Damaged,
    whole: bool,
    on_problem: Callable[[Problem], None] | None,
) -> Iterator[pa.RecordBatch]:
    """See ``reader.read``."""
    schema = arrow_schema(split.table, columns)
    for path, parts in groupby(split.parts, attrgetter("path")):
        if split.table == "snapshots":
            yield from _snapshots(path, list(parts), schema, filters)
        elif split.table == "damage":
            yield from _damage(path, schema, filters)
        elif split.table == "gaps":
            yield rows_batch(schema, [_gap_row(part.gap) for part in parts if part.gap is not None])
        else:
            yield from _rows(split.table, path, parts, schema, filters, Trouble(damaged, on_problem), whole)


def _rows(
    table: str, path: str, parts: Iterator[Part], schema: pa.Schema, filters: SplitFilters, trouble: Trouble, whole: bool
) -> Iterator[pa.RecordBatch]:
    """The rows of one snapshot. It may have gone since it was planned, or be another user's."""
    try:
        with Snapshot(path, trouble, whole=whole) as snapshot:
            if snapshot.store is not None:
                for part in parts:
                    yield from READERS[table](snapshot, part, schema, filters)
    except (BasculeError, OSError) as error:
        if isinstance(error, SnapshotDamaged | ConfigError) or (isinstance(error, BasculeError) and (whole or trouble.fails)):
            raise
        if whole or trouble.fails:
            raise Unavailable("the snapshot cannot be read", path=path, error=str(error)) from error
        trouble.meet(Problem(path, Path(path).name, str(error)))


def _snapshots(path: str, parts: list[Part], schema: pa.Schema, filters: SplitFilters) -> Iterator[pa.RecordBatch]:
    problem = parts[0].problem
    try:
        manifest = None if problem else read_manifest(Path(path))
    except (BasculeError, OSError) as error:
        manifest, problem = None, str(error)
    row = _snapshot_row(path, manifest, problem)
    at_us: int | None = row["snapshot_at"]
    wanted = at_us is None or (filters.since_us is None or at_us >= filters.since_us)
    if wanted and (at_us is None or filters.until_us is None or at_us < filters.until_us):
        yield rows_batch(schema, [row])


def _snapshot_row(path: str, manifest: Manifest | None, problem: str) -> dict[str, Any]:
    if manifest is None:
        unknown = dict.fromkeys(arrow_schema("snapshots").names)
        return {**unknown, "snapshot_id": Path(path).name, "path": path, "problem": problem}
    return {
        "node": manifest.node,
        "store_id": manifest.store_id,
        "snapshot_id": manifest.id,
        "snapshot_at": manifest.at_ms * 1000,
        "at": manifest.at_ms * 1000,
        "epoch": manifest.epoch,
        "version": str(manifest.versions.get("bascule", "")),
        "files": len(manifest.files),
        "bytes": manifest.size_bytes,
        "queues": len(manifest.queues),
        "boot_id": manifest.boot_id,
        "max_messages": manifest.limits.get("max_messages"),
        "max_bytes": manifest.limits.get("max_bytes"),
        "min_free_disk_bytes": manifest.limits.get("min_free_disk_bytes"),
        "disk_free_bytes": manifest.disk_free_bytes,
        "path": path,
        "problem": None,
    }


def _gap_row(gap: Gap) -> dict[str, Any]:
    return {
        "node": gap.node,
        "store_id": gap.store_id,
        "snapshot_id": gap.after,
        "snapshot_at": gap.at_ms * 1000,
        "queue": gap.queue or None,
        "first_seq": gap.first,
        "last_seq": gap.stop - 1,
        "snapshot_before": gap.before or None,
    }


def _damage(path: str, schema: pa.Schema, filters: SplitFilters) -> Iterator[pa.RecordBatch]:
    """Read all that is in the snapshot, and tell what cannot be read, and what should be there and is not."""
    problems: dict[Problem, None] = {}
    head: Mapping[str, Any] = {"node": None, "store_id": None, "snapshot_id": Path(path).name, "snapshot_at": None}
    try:
        with Snapshot(path, Trouble("skip", lambda problem: problems.setdefault(problem))) as snapshot:
            head = snapshot.head
            if filters.nodes and snapshot.manifest.node not in filters.nodes:
                return
            for table, reader in READERS.items() if snapshot.store is not None else ():
                parts = [Part(path)]
                if table == "messages":
                    parts = [Part(path, queue.number, 0, queue.tail) for queue in snapshot.queues(filters)]
                for part in parts:
                    for _ in reader(snapshot, part, arrow_schema(table, ["snapshot_id"]), EVERYTHING):
                        pass
    except (Unavailable, StorageDamaged, OSError) as error:
        problems[Problem(path, Path(path).name, str(error))] = None
    if problems:
        yield rows_batch(schema, [_damage_row(head, problem) for problem in problems])


def _damage_row(head: Mapping[str, Any], problem: Problem) -> dict[str, Any]:
    return {
        **head,
        "queue": problem.queue or None,
        "first_seq": problem.first_seq if problem.first_seq >= 0 else None,
        "last_seq": problem.last_seq if problem.last_seq >= 0 else None,
        "path": problem.path,
        "why": problem.why,
    }
