"""Snapshots that arrive in a folder, as a stream: each snapshot once, each settlement, settled message and event once.

``snapshot_arrivals`` decides what is new, kept in Spark's offsets; this module finds the folders and plans the batches. The table
``messages`` has as a stream the settled messages only: what waits is in the next snapshot again.

spark.taken-when-whole [reports]: a snapshot is taken, and what is in it counted as had, once all of its files are there. With
    ``damaged`` skip one that is not whole is tried again with each batch, and its content is compared with its checksums before. A
    batch that is repeated when a snapshot of it has gone takes the same numbers from another one that still has them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow

from analysis.spark.options import Options, WrongOption
from analysis.spark.splits import SplitPartition, SplitReading, tell
from analysis.tables.reader import Problem, gap_split, wants_gap
from analysis.tables.schemas import SETTLED
from analysis.tables.snapshot_arrivals import EVENTS, NUMBERED, ArrivalProgress, Gap, Key, News, key
from analysis.tables.splits import Trouble
from storage.snapshots.manifest import Fault, Found, Manifest, NoManifest, not_whole
from wire.errors import Unavailable
from wire.ranges import Ranges, RangeSet

log = logging.getLogger("bascule")

FAULTS_TOLD = 3

There = dict[Key, tuple[Manifest, Found]]


class DataLoss(Unavailable):
    """The snapshot that the stream should have read next cannot be read any more."""


class ArrivalReader(SplitReading, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the snapshots that were not there before."""

    whole = True

    def __init__(self, options: Options, columns: tuple[str, ...]) -> None:
        super().__init__(options, columns)
        self._filters = options.filters
        if options.table == "messages":
            if options.filters.states not in (None, (SETTLED,)):
                raise WrongOption(f"a stream has settled messages only: the option states may be {SETTLED}")
            self._filters = replace(options.filters, states=(SETTLED,))
        self._only: frozenset[Key] | None = None
        self._looked_at: dict[Key, tuple[object, list[Fault]]] = {}  # what its files were like, and what was wrong

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 (Spark's name)
        """A new stream begins with all that is there."""
        return ArrivalProgress().to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 (Spark's name)
        """``maxSnapshotsPerTrigger``."""
        limit = self.options.snapshots_per_trigger
        return ReadMaxFiles(limit) if limit else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 (Spark's name)
        """Snapshots that arrive from now on are left to the next query."""
        self._only = frozenset(self._there())

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 (Spark's name)
        """The offset behind the next batch; ``start`` if nothing has arrived.

        Raises:
            DataLoss: what is to come next can't be read any more, and ``failOnDataLoss`` is on.
        """
        progress, there = ArrivalProgress.from_json(start), self._there()
        most = limit.max_files if isinstance(limit, ReadMaxFiles) else None
        while True:
            following = progress.next((manifest for manifest, _ in there.values()), most, self._only)
            if following is progress:
                return start
            broken = [each for each in following.batch if not self._check_whole(each, *there[each])]
            if not broken:
                break
            for each in broken:
                del there[each]
        for gap in self._gaps(progress.news(there[each][0] for each in following.batch)):
            if self.options.table in NUMBERED and (gap.queue == EVENTS) == (self.options.table == "events"):
                self._on_lost(str(gap))
        return following.to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """A reader of the batch that ends at ``end``: of the snapshots that it names, whatever else has arrived.

        Raises:
            DataLoss: one of them has gone, nothing else has what was in it, and ``failOnDataLoss`` is on.
        """
        if start == end:
            return []
        there, progress, behind = self._there(), ArrivalProgress.from_json(start), ArrivalProgress.from_json(end)
        batch = [there[each] for each in behind.batch if each in there]
        gone = [each for each in behind.batch if each not in there]
        every = progress.news(manifest for manifest, _ in batch)
        if self.options.table == "gaps":
            return [SplitPartition(split, self._filters) for split in gap_split(self._gaps(every))]
        if self.options.table not in NUMBERED:
            for _, name in gone:
                self._on_lost(f"the snapshot {name}, which has gone before it was read")
            return self.splits([found for _, found in batch], self._filters)
        partitions: list[SplitPartition] = []
        for news in every:
            partitions += self._numbered(there[key(news.manifest)], news.numbers)
        for store in sorted({store for store, _ in gone}):
            partitions += self._instead(store, progress, behind, every, there)
        return partitions

    def _instead(
        self, store: str, start: ArrivalProgress, end: ArrivalProgress, every: Sequence[News], there: There
    ) -> list[SplitPartition]:
        """A reader of the rest of a batch of which snapshots of ``store`` have gone: of other snapshots that have the same
        numbers."""
        known, partitions = start.stores.get(store), []
        rest: dict[str, RangeSet] = {}
        for queue, had in end.stores[store].had.items():
            rest[queue] = RangeSet(had.numbers)
            read = [numbers for news in every if news.manifest.store_id == store for numbers in news.numbers.get(queue, ())]
            for first, stop in (*(known.had[queue].numbers if known is not None and queue in known.had else ()), *read):
                rest[queue].discard(first, stop)
        for manifest, found in sorted((each for name, each in there.items() if name[0] == store), key=lambda each: each[0].at_ms):
            numbers: dict[str, Ranges] = {}
            for queue, (low, high) in {
                EVENTS: manifest.events,
                **{each.name: each.settlements for each in manifest.queues},
            }.items():
                left = rest.get(queue, RangeSet())
                numbers[queue] = tuple((max(low, first), min(high, stop)) for first, stop in left if first < high and stop > low)
                left.discard(low, high)
            partitions += self._numbered((manifest, found), numbers)
        for queue, left in rest.items():
            if left and (queue == EVENTS) == (self.options.table == "events"):
                self._on_lost(
                    f"the numbers {left.ranges()} of {queue or 'the events'} in a snapshot that has gone before it was read"
                )
        return partitions

    def _numbered(self, snapshot: tuple[Manifest, Found], numbers: Any) -> list[SplitPartition]:
        """A reader of these ``numbers`` of a snapshot, as far as they are wanted."""
        names = {EVENTS} if self.options.table == "events" else {name for name in numbers if name != EVENTS}
        wanted = {name: ranges for name, ranges in numbers.items() if name in names and ranges}
        queues = self._filters.queues
        if names != {EVENTS}:
            wanted = {name: ranges for name, ranges in wanted.items() if queues is None or name in queues}
            queues = tuple(wanted)
        return self.splits([snapshot[1]], replace(self._filters, queues=queues, numbers=wanted)) if wanted else []

    def _gaps(self, every: Iterable[News]) -> list[Gap]:
        return [gap for news in every for gap in news.gaps if wants_gap(self._filters, gap)]

    def _on_lost(self, what: str) -> None:
        if self.options.fail_on_data_loss:
            raise DataLoss(
                f"can't be read any more: {what}; failOnDataLoss=false goes on without it, and the table gaps has it as a row"
            )
        log.warning("stream.data_lost: %s", what)

    def _check_whole(self, name: Key, manifest: Manifest, found: Found) -> bool:
        """Whether all of the snapshot is there (spark.taken-when-whole); if not it is an error, or told, by option."""
        faults = not_whole(found.path, manifest, content=False)
        if not faults and self.options.damaged == "skip":
            like = tuple(_like(found.path / entry.name) for entry in manifest.files)
            known, faults = self._looked_at.get(name, ((), []))
            if known != like:
                faults = not_whole(found.path, manifest, content=True)
                self._looked_at[name] = like, faults
        if faults:
            why = "; ".join(map(str, faults[:FAULTS_TOLD]))
            Trouble(self.options.damaged, tell).meet(Problem(str(found.path), manifest.id, f"it is not all there: {why}"))
        return not faults

    def _there(self) -> There:
        """The snapshots. Half-made ones are on their way; what else has no manifest is an error or told, by option."""
        try:
            found = [each for each in self.options.find() if not each.half_made]
        except NoManifest:
            return {}  # the first is still to come
        self.splits([each for each in found if each.manifest is None], self._filters)
        return {key(each.manifest): (each.manifest, each) for each in found if each.manifest is not None}


def _like(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except OSError:
        return -1, time.monotonic_ns()  # like nothing that was looked at
    return status.st_size, status.st_mtime_ns
