"""Reads snapshots as tables: plans the work from manifests alone, and reads each part of it as Arrow record batches.

``plan`` opens no database, so a driver may plan hundreds of snapshots; ``read`` opens the checkpoint of a split read-only, and may
run anywhere the folder can be seen. What cannot be read is named: it fails, or is told to whoever asked, and never goes missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from wire.errors import StorageDamaged

if TYPE_CHECKING:
    import pyarrow as pa

    from storage.manifest import Found

Damaged = Literal["fail", "skip"]
Newer = Literal["fail", "skip"]

TARGET_ROWS = 250_000
BATCH_ROWS_MAX = 10_000
BATCH_BYTES_MAX = 8 << 20


@dataclass(frozen=True, slots=True)
class Filters:
    """Which rows are wanted; ``read`` applies all of them exactly. None: no matter which.

    since_us, until_us: UTC epoch in microseconds, ``[since, until)``, of the column ``tables.TIME_COLUMN`` names.
    seq_from, seq_to: ``[seq_from, seq_to)`` of ``seq``; of settlements, those that reach into it.
    states: of messages and inflight. numbers_from: queue -> the first ``number`` wanted of its settlements, and of settled messages
    the first ``settlement``; the queue "" stands for events.
    """

    nodes: tuple[str, ...] | None = None
    queues: tuple[str, ...] | None = None
    bridges: tuple[str, ...] | None = None
    seq_from: int | None = None
    seq_to: int | None = None
    since_us: int | None = None
    until_us: int | None = None
    states: tuple[str, ...] | None = None
    numbers_from: Mapping[str, int] = field(default_factory=dict)


EVERYTHING = Filters()


@dataclass(frozen=True, slots=True)
class Part:
    """What is read of one snapshot: the folder, and of its queue ``number`` the sequences ``[start, stop)`` (messages only)."""

    path: str
    number: int = -1
    start: int = 0
    stop: int = 0
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Split:
    """What one task reads: parts of snapshots, about ``rows`` rows in all. Plain values, so that it can be pickled."""

    table: str
    parts: tuple[Part, ...]
    rows: int


@dataclass(frozen=True, slots=True)
class Problem:
    """What could not be read, and was left out. queue: empty where it is in none. The sequences are -1 where they are not known."""

    path: str
    snapshot_id: str
    why: str
    queue: str = ""
    first_seq: int = -1
    last_seq: int = -1

    def __str__(self) -> str:
        where = f" queue {self.queue}" if self.queue else ""
        seqs = f" sequences {self.first_seq} to {self.last_seq}" if self.first_seq >= 0 else ""
        return f"{self.path}:{where}{seqs}: {self.why}"


class SnapshotDamaged(StorageDamaged):
    """A snapshot, or a part of it, is not what was written; ``problem`` says where."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.why, path=problem.path, queue=problem.queue, first_seq=problem.first_seq)
        self.problem = problem


def plan(
    found: Sequence[Found],
    table: str,
    target_rows: int = TARGET_ROWS,
    filters: Filters = EVERYTHING,
    *,
    damaged: Damaged = "fail",
    newer: Newer = "fail",
    on_problem: Callable[[Problem], None] | None = None,
) -> list[Split]:
    """The splits that together read ``table`` of the snapshots ``found``, of about ``target_rows`` rows each; [] for nothing.

    Reads manifests only. A large queue becomes several splits, many small ones become one. A snapshot whose manifest cannot be
    used is an error, or is told to ``on_problem`` and left out; the table ``snapshots`` has a row for it.

    Raises:
        ValueError: there is no such table.
        SnapshotDamaged: ``damaged`` is fail, and one is half-made or damaged.
        ConfigError: ``newer`` is fail, and a newer build wrote one.
    """
    raise NotImplementedError


def read(
    split: Split,
    columns: Sequence[str] | None = None,
    filters: Filters = EVERYTHING,
    *,
    damaged: Damaged = "fail",
    on_problem: Callable[[Problem], None] | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows of ``split`` in the schema ``tables.arrow_schema(split.table, columns)``.

    At most ``BATCH_ROWS_MAX`` rows and, but for a single large one, about ``BATCH_BYTES_MAX`` a batch. Only ``columns`` are built.

    Raises:
        SnapshotDamaged: ``damaged`` is fail, and something cannot be read. With skip it is told to ``on_problem``, and left out.
        ConfigError: a newer build wrote it.
        Unavailable: the folder cannot be read for now.
    """
    raise NotImplementedError


def read_table(
    found: Sequence[Found],
    table: str,
    columns: Sequence[str] | None = None,
    filters: Filters = EVERYTHING,
    *,
    damaged: Damaged = "fail",
    newer: Newer = "fail",
    on_problem: Callable[[Problem], None] | None = None,
) -> Iterator[pa.RecordBatch]:
    """All of ``table`` in this process: ``plan``, then ``read`` of each split."""
    for split in plan(found, table, TARGET_ROWS, filters, damaged=damaged, newer=newer, on_problem=on_problem):
        yield from read(split, columns, filters, damaged=damaged, on_problem=on_problem)
