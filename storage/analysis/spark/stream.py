"""Snapshots that arrive in a folder, as a stream: each snapshot once, each settlement, settled message and event once.

What is new is ``analysis.arrivals``' decision, kept in Spark's offsets; this module finds the folders and plans the batches. The
table ``messages`` has as a stream the settled messages only: what waits is in the next snapshot again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow

from storage.analysis.spark.options import Options, WrongOption
from storage.analysis.spark.splits import SplitPartition, SplitReading
from storage.analysis.tables.reader import Filters
from storage.analysis.tables.schemas import SETTLED
from storage.analysis.tables.snapshot_arrivals import EVENTS, NUMBERED, Progress
from storage.snapshots.manifest import Found, Manifest, NoManifest
from wire.errors import Unavailable


class ArrivalReader(SplitReading, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the snapshots that were not there before."""

    def __init__(self, options: Options, columns: tuple[str, ...]) -> None:
        super().__init__(options, columns)
        self._filters = options.filters
        if options.table == "messages":
            if options.filters.states not in (None, (SETTLED,)):
                raise WrongOption(f"a stream has settled messages only: the option states may be {SETTLED}")
            self._filters = replace(options.filters, states=(SETTLED,))
        self._only: frozenset[str] | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 (Spark's name)
        """A new stream begins with all that is there."""
        return Progress().to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 (Spark's name)
        """``maxSnapshotsPerTrigger``."""
        limit = self.options.snapshots_per_trigger
        return ReadMaxFiles(limit) if limit else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 (Spark's name)
        """What arrives from now on is left to the next query."""
        self._only = frozenset(manifest.id for manifest, _ in self._there())

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 (Spark's name)
        """The offset behind the next batch; ``start`` if nothing has arrived."""
        progress = Progress.from_json(start)
        most = limit.max_files if isinstance(limit, ReadMaxFiles) else None
        following = progress.next((manifest for manifest, _ in self._there()), most, self._only)
        return start if following is progress else following.to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """What reads the batch that ends at ``end``: the snapshots that it names, whatever else has arrived."""
        if start == end:
            return []
        there = {manifest.id: (manifest, found) for manifest, found in self._there()}
        batch = Progress.from_json(end).batch
        gone = [name for name in batch if name not in there]
        if gone:
            raise Unavailable(
                "a batch that is repeated needs a snapshot that is no longer there", snapshot=gone[0], missing=len(gone)
            )
        if self.options.table not in NUMBERED:
            return self.splits([there[name][1] for name in batch], self._filters)
        partitions: list[SplitPartition] = []
        for manifest, numbers in Progress.from_json(start).news(there[name][0] for name in batch):
            filters = self._narrowed(numbers)
            if filters is not None:
                partitions += self.splits([there[manifest.id][1]], filters)
        return partitions

    def _narrowed(self, numbers: dict[str, int]) -> Filters | None:
        """The filters that leave what is new in a snapshot; None if nothing is."""
        if self.options.table == "events":
            return replace(self._filters, numbers_from={EVENTS: numbers[EVENTS]}) if EVENTS in numbers else None
        wanted = self._filters.queues
        queues = tuple(name for name in numbers if name != EVENTS and (wanted is None or name in wanted))
        return replace(self._filters, queues=queues, numbers_from=numbers) if queues else None

    def _there(self) -> list[tuple[Manifest, Found]]:
        """The whole snapshots. Half-made ones are on their way; what else has no manifest is an error or told, by option."""
        try:
            found = [each for each in self.options.find() if not each.half_made]
        except NoManifest:
            return []  # the first is still to come
        self.splits([each for each in found if each.manifest is None], self._filters)
        return [(each.manifest, each) for each in found if each.manifest is not None]
