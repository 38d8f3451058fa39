"""Rows of the analysis tables made by hand, and a source of reports over them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from analysis.spark.source import spark_schema
from analysis.tables.schemas import TABLES

Row = dict[str, Any]
NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def at(seconds: float) -> datetime:
    """That many seconds after noon."""
    return NOON + timedelta(seconds=seconds)


@dataclass
class Rows:
    """Tables by name; what a row does not say is null, and its snapshot is the one that was opened last."""

    tables: dict[str, list[Row]] = field(default_factory=lambda: {name: [] for name in TABLES})
    _head: Row = field(default_factory=dict)

    def snapshot(self, node: str, seconds: float, **columns: Any) -> str:
        """Open a snapshot; what is added from here on is of it."""
        made_at = at(seconds)
        name = f"{node}-{made_at:%Y%m%dT%H%M%S000Z}-7"
        self._head = {"node": node, "snapshot_id": name, "snapshot_at": made_at}
        self.add("snapshots", at=made_at, epoch=7, path=f"snapshots/{name}", **columns)
        return name

    def add(self, table: str, **columns: Any) -> None:
        """Add a row to ``table``."""
        known = {column.name for column in TABLES[table]}
        assert columns.keys() <= known, columns.keys() - known
        self.tables[table].append({**dict.fromkeys(known), **self._head, **columns})

    def queue(self, name: str, **columns: Any) -> None:
        """Add a queue; by default empty and never used."""
        kind, _, rest = name.partition(":")
        bridge, _, lane = rest.rpartition(":")
        row: Row = dict.fromkeys(("head", "tail", "handed", "depth", "depth_volatile", "bytes", "in_flight", "released"), 0)
        row |= dict.fromkeys(("accepted", "delivered", "expired", "redelivered", "refused", "generation", "number"), 0)
        row |= {
            "dropped": {},
            "dead": {},
            "dead_letters": {},
            "settled_above": "[]",
            "volatile_ranges": "[]",
            "purged_ranges": "[]",
            "retention_s": 0.0,
        }
        if kind == "bridge":
            row |= {"bridge": bridge, "lane": lane, "configured": True}
        self.add("queues", queue=name, **{**row, **columns})

    def message(self, queue: str, seq: int, accepted_s: float, **columns: Any) -> None:
        """Add a message that is queued, unless the columns say otherwise."""
        row: Row = {"state": "queued", "topic": "t", "qos": 1, "retain": False, "payload_bytes": 10, "properties_bytes": 0}
        self.add("messages", **{**_lane(queue), **row, "seq": seq, "accepted_at": at(accepted_s), **columns})

    def mark(self, queue: str, seq: int, **columns: Any) -> None:
        """Add a marker of what is in flight."""
        self.add("inflight", **{**_lane(queue), "seq": seq, "state": "in_flight", **columns})

    def settled(self, queue: str, number: int, seconds: float, first_seq: int, last_seq: int, outcome: str = "delivered") -> None:
        """Add a range of a settlement; ``outcome`` as in the ledger."""
        kind, _, reason = outcome.partition(":")
        self.add(
            "settlements",
            **_lane(queue),
            number=number,
            settled_at=at(seconds),
            first_seq=first_seq,
            last_seq=last_seq,
            messages=last_seq - first_seq + 1,
            outcome=kind,
            reason=reason or None,
            settled_by="connection:" + queue.partition(":")[2] + "@1",
        )

    def event(self, number: int, seconds: float, kind: str, **columns: Any) -> None:
        """Add an event."""
        self.add("events", **{"number": number, "at": at(seconds), "kind": kind, "details": "{}", **columns})


def _lane(queue: str) -> Row:
    kind, _, rest = queue.partition(":")
    bridge, _, lane = rest.rpartition(":")
    return {"queue": queue, "bridge": bridge, "lane": lane} if kind == "bridge" else {"queue": queue}


class RowsSource:
    """A source of reports over rows in memory."""

    def __init__(self, spark: SparkSession, tables: dict[str, list[Row]]) -> None:
        self._spark = spark
        self._tables = tables

    def table(
        self, name: str, columns: Sequence[str], *, snapshots: Sequence[str] | None = None, states: Sequence[str] | None = None
    ) -> DataFrame:
        """As the sources of real reports have it."""
        schema = spark_schema(name, columns)
        rows = [tuple(row.get(column) for column in columns) for row in self._tables[name]]
        frame = self._spark.createDataFrame(rows, schema)
        if snapshots is not None:
            frame = frame.where(f.col("snapshot_id").isin(list(snapshots)))
        return frame if states is None else frame.where(f.col("state").isin(list(states)))


def us(moment: datetime | None) -> int | None:
    """A time as microseconds."""
    return None if moment is None else int((moment - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(microseconds=1))


def where(rows: Iterable[Row], **columns: Any) -> list[Row]:
    """The rows that have all these values."""
    return [row for row in rows if all(row.get(name) == value for name, value in columns.items())]
