"""The share of one Spark task, for a query in batches and for a stream: one split of ``analysis.reader``."""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from analysis.spark.options import Options
from analysis.tables.reader import Problem, Split, SplitFilters, plan, read
from storage.snapshots.manifest import Found

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger("bascule")


@dataclass
class SplitPartition(InputPartition):
    """The split of one task, and the wanted part of it."""

    split: Split
    filters: SplitFilters


class SplitReading:
    """How a task reads a partition; the batch reader's and the stream reader's."""

    whole = False  # whether the snapshots were found to be, see ``reader.read``

    def __init__(self, options: Options, columns: tuple[str, ...]) -> None:
        """columns: those to build, in that order."""
        self.options = options
        self._columns = columns

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of ``partition``. Runs in a Python worker of an executor."""
        if not isinstance(partition, SplitPartition):
            return iter(())  # Spark's way to say that there is nothing to read
        _spare_the_collector()
        return read(
            partition.split, self._columns, partition.filters, damaged=self.options.damaged, whole=self.whole, on_problem=tell
        )

    def splits(self, found: Sequence[Found], filters: SplitFilters) -> list[SplitPartition]:
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


@cache
def _spare_the_collector() -> None:
    """Once in each worker: what it has imported stays. Spark has the garbage collector look at everything after every task."""
    gc.collect()
    gc.freeze()


def tell(problem: Problem) -> None:
    """Name in the log what was left out; the tables ``snapshots`` and ``damage`` have it as rows."""
    log.warning("snapshot.skipped: %s", problem)
