"""Reads snapshots as tables: plans the work from manifests alone, and reads each part of it as Arrow record batches.

``plan`` opens no database, so a driver may plan hundreds of snapshots; ``read`` opens the checkpoint of a split read-only, and may
run anywhere the folder can be seen. An unreadable part is named: it fails, or is reported to the caller, and never goes missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from analysis.tables.schemas import SETTLED, columns_of
from analysis.tables.snapshot_arrivals import Gap, gaps_between
from analysis.tables.splits import (
    EVERYTHING,
    Damaged,
    Newer,
    Part,
    Problem,
    SnapshotDamaged,
    Split,
    SplitFilters,
    Trouble,
    wants,
)
from storage.engine.keys import STORE_FORMAT
from storage.queue.chunk import CHUNK_VERSION
from storage.queue.dead_letters import LETTER_VERSION
from storage.queue.history import SETTLEMENT_VERSION
from storage.queue.ledger import ROW_VERSION
from storage.snapshots.manifest import Found, Manifest, QueueFacts, is_half_made
from wire.errors import ConfigError
from wire.frames.batch import BATCH_VERSION
from wire.frames.names import lane_of_queue

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "EVERYTHING",
    "TARGET_ROWS",
    "Damaged",
    "Newer",
    "Part",
    "Problem",
    "SnapshotDamaged",
    "Split",
    "SplitFilters",
    "plan",
    "read",
    "read_table",
]

TARGET_ROWS = 250_000
PARTS_A_SPLIT = 8  # into how many a large queue is cut for each split, so that splits become about equal
OPENING_ROWS = 10_000  # opening a snapshot costs as much time as reading so many rows
_END = 1 << 62

# The versions of what is in a store that this build reads, by their names in the manifest.
VERSIONS = {
    "store": STORE_FORMAT,
    "chunk": CHUNK_VERSION,
    "batch": BATCH_VERSION,
    "queue_row": ROW_VERSION,
    "history": SETTLEMENT_VERSION,
    "letter": LETTER_VERSION,
}


def plan(
    found: Sequence[Found],
    table: str,
    target_rows: int = TARGET_ROWS,
    filters: SplitFilters = EVERYTHING,
    *,
    damaged: Damaged = "fail",
    newer: Newer = "fail",
    on_problem: Callable[[Problem], None] | None = None,
) -> list[Split]:
    """The splits that together read ``table`` of the snapshots ``found``, of about ``target_rows`` rows each; [] for nothing.

    Reads manifests only. A large queue becomes several splits, many small ones become one. A snapshot whose manifest cannot be
    used is an error, or is told to ``on_problem`` and left out; the table ``snapshots`` has a row for it. A copy that is under way
    by its name is always left out and told: it is no damage, and where nodes ship to one place there is often one.

    Raises:
        ValueError: there is no such table.
        SnapshotDamaged: ``damaged`` is fail, and one is damaged, or has no manifest under the name of a whole one.
        ConfigError: ``newer`` is fail, and a newer build wrote one.
    """
    columns_of(table)
    usable = _usable(found, table, damaged, newer, on_problem)
    pieces: list[tuple[Part, int]] = []
    if table == "gaps":
        manifests = [each.manifest for each in usable if each.manifest is not None]
        return gap_split(gap for gap in gaps_between(manifests) if wants_gap(filters, gap))
    for each in usable:
        if each.manifest is None:
            pieces.append((Part(str(each.path), problem=each.problem), 1))
        elif filters.nodes is None or each.manifest.node in filters.nodes:
            pieces.extend(_parts(str(each.path), each.manifest, table, target_rows, filters))
    return _packed(table, pieces, target_rows)


def gap_split(gaps: Iterable[Gap]) -> list[Split]:
    """A reader that "reads" the rows of ``gaps``, which are known already; [] for none."""
    parts = tuple(Part("", gap=gap) for gap in gaps)
    return [Split("gaps", parts, len(parts))] if parts else []


def wants_gap(filters: SplitFilters, gap: Gap) -> bool:
    """Whether ``gap`` is wanted: by node, queue, bridge, and when the snapshot was made in which it shows."""
    lane = lane_of_queue(gap.queue)
    return (
        (filters.nodes is None or gap.node in filters.nodes)
        and (filters.queues is None or gap.queue in filters.queues)
        and (filters.bridges is None or (lane is not None and lane.bridge in filters.bridges))
        and (filters.since_us is None or gap.at_ms * 1000 >= filters.since_us)
        and (filters.until_us is None or gap.at_ms * 1000 < filters.until_us)
    )


def _usable(
    found: Sequence[Found], table: str, damaged: Damaged, newer: Newer, on_problem: Callable[[Problem], None] | None
) -> Iterator[Found]:
    """The snapshots that can be read; for the table ``snapshots`` the others as well, with their problem."""
    trouble = Trouble(damaged, on_problem)
    for each in found:
        why, is_newer = each.problem, each.newer
        if each.manifest is not None:
            why = _newer_versions(each.manifest)
            is_newer = bool(why)
        if not why:
            yield each
            continue
        if is_newer and newer == "fail":
            raise ConfigError("the snapshot is of a newer version of Bascule", path=str(each.path), problem=why)
        problem = Problem(str(each.path), each.manifest.id if each.manifest is not None else each.path.name, why)
        if is_newer or is_half_made(each.path.name):
            if on_problem is not None:
                on_problem(problem)
        else:
            trouble.meet(problem)
        if table == "snapshots":
            yield Found(path=each.path, manifest=None, problem=why)


def _newer_versions(manifest: Manifest) -> str:
    """Versions in the store that this build does not know; empty if all are known."""
    stated = ((name, manifest.versions.get(name)) for name in VERSIONS)
    newer = [f"{name} {version}" for name, version in stated if isinstance(version, int) and version > VERSIONS[name]]
    return f"it was written by a newer version of Bascule: {', '.join(newer)}" if newer else ""


def _parts(path: str, manifest: Manifest, table: str, target_rows: int, filters: SplitFilters) -> Iterator[tuple[Part, int]]:
    """The parts of one snapshot, with about how many rows each has."""
    if table == "messages":
        for queue in manifest.queues:
            if wants(filters, queue):
                yield from _queue_parts(path, queue, target_rows, filters)
    else:
        rows = {
            "queues": len(manifest.queues),
            "sessions": manifest.sessions,
            "retained": manifest.retained,
            "dead_letters": sum(letters.held for letters in manifest.dead_letters),
            "settlements": sum(stop - first for first, stop in (queue.settlements for queue in manifest.queues)),
            "events": manifest.events[1] - manifest.events[0],
            "inflight": sum(stop - start for queue in manifest.queues for start, stop in queue.in_flight),
            "damage": sum(queue.tail - queue.head for queue in manifest.queues),
        }
        yield Part(path), rows.get(table, 1)


def _queue_parts(path: str, queue: QueueFacts, target_rows: int, filters: SplitFilters) -> Iterator[tuple[Part, int]]:
    """The sequences of one queue in parts. How far its history goes back is known only when the store is opened."""
    settled_wanted = queue.retention_s > 0 and (filters.states is None or SETTLED in filters.states)
    start = max(queue.head, filters.seq_from or 0)
    stop = min(queue.tail, filters.seq_to if filters.seq_to is not None else queue.tail)
    if settled_wanted:
        low = max(filters.seq_from or 0, queue.tail - max(queue.tail - queue.head, queue.ledger.accepted))
        yield from _ranges(path, queue, low, min(queue.head, stop), target_rows, first=filters.seq_from or 0)
    yield from _ranges(path, queue, start, stop, target_rows, first=start)


def _ranges(path: str, queue: QueueFacts, start: int, stop: int, target_rows: int, *, first: int) -> Iterator[tuple[Part, int]]:
    """``[start, stop)`` in parts of equal size, some to a split; the first of them begins at ``first``."""
    if start >= stop:
        return
    count = -(-PARTS_A_SPLIT * (stop - start) // target_rows)
    bounds = [start + (stop - start) * place // count for place in range(count + 1)]
    for low, high in pairwise(bounds):
        yield Part(path, queue.number, first if low == start else low, high), high - low


def _packed(table: str, pieces: Sequence[tuple[Part, int]], target_rows: int) -> list[Split]:
    """The parts in splits of about equal cost, neighbours together: the slowest of some tasks decides how long all of them take.

    Several parts are an even number of them, as there is of the cores of most machines.
    """
    opening = min(OPENING_ROWS, target_rows)
    costs = [rows for _, rows in pieces]
    for at, (part, _) in enumerate(pieces):
        if not at or pieces[at - 1][0].path != part.path:
            costs[at] += opening
    count = -(-max(1, sum(costs) - opening) * 10 // (target_rows * 11))  # a tenth more than the target is still about it
    share = sum(costs) / (count + count % 2 if count > 1 else 1)
    splits: list[Split] = []
    parts: list[Part] = []
    rows = cost = 0
    for (part, part_rows), part_cost in zip(pieces, costs, strict=True):
        if parts and cost + part_cost / 2 > share * (len(splits) + 1):
            splits.append(Split(table, tuple(parts), rows))
            parts, rows = [], 0
        before = parts[-1] if parts else None
        if (
            before is not None
            and (before.path, before.number, before.stop) == (part.path, part.number, part.start)
            and part.number >= 0
        ):
            parts[-1] = replace(before, stop=part.stop)
        else:
            parts.append(part)
        rows += part_rows
        cost += part_cost
    if parts:
        splits.append(Split(table, tuple(parts), rows))
    return splits


def read(
    split: Split,
    columns: Sequence[str] | None = None,
    filters: SplitFilters = EVERYTHING,
    *,
    damaged: Damaged = "fail",
    whole: bool = False,
    on_problem: Callable[[Problem], None] | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows of ``split`` in the schema ``tables.arrow_schema(split.table, columns)``.

    At most ``BATCH_ROWS_MAX`` rows and, but for a single large one, about ``BATCH_BYTES_MAX`` a batch. Only ``columns`` are built.
    whole: the snapshots were found to be whole; one that is no longer there is an error, whatever ``damaged`` says.

    Raises:
        SnapshotDamaged: ``damaged`` is fail, and something cannot be read. With skip it is told to ``on_problem``, and left out.
        ConfigError: a newer build wrote it.
        Unavailable: ``damaged`` is fail, or it was ``whole``, and the snapshot cannot be read for now or has gone.
    """
    from analysis.tables import tasks  # needs Arrow, which planning does not

    return tasks.read(split, columns, filters, damaged, whole, on_problem)


def read_table(
    found: Sequence[Found],
    table: str,
    columns: Sequence[str] | None = None,
    filters: SplitFilters = EVERYTHING,
    *,
    damaged: Damaged = "fail",
    newer: Newer = "fail",
    on_problem: Callable[[Problem], None] | None = None,
) -> Iterator[pa.RecordBatch]:
    """All of ``table`` in this process: ``plan``, then ``read`` of each split."""
    for split in plan(found, table, TARGET_ROWS, filters, damaged=damaged, newer=newer, on_problem=on_problem):
        yield from read(split, columns, filters, damaged=damaged, on_problem=on_problem)
