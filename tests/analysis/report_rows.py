"""Rows of the analysis tables made by hand, and an export of them, which any engine reads."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from analysis.reports.report_model import Report
from analysis.reports.sources import ExportSource
from analysis.tables.schemas import TABLES, arrow_schema

Row = dict[str, Any]
QUEUE = "bridge:cloud:0"
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


def trouble(seed: int) -> Rows:
    """Links that flap, numbers that are missing, a queue that fills: in four snapshots over a day and a half."""
    random, rows = Random(seed), Rows()
    missing = {5, 6, 40}
    for hours, depth in ((0, 100), (12, 400), (24, 450), (36, 900)):
        rows.snapshot("n", hours * 3600, max_messages=5000, min_free_disk_bytes=100, disk_free_bytes=10_000 - depth * 5)
        rows.queue(
            QUEUE, head=50, tail=50 + depth, depth=depth, bytes=depth * 10, history_from=0, accepted=50 + depth, delivered=50,
            redelivered=7 if hours else 0, retention_s=60.0, max_messages=2000, max_bytes=100_000,
        )  # fmt: skip
    for number in range(50):
        if number not in missing:
            rows.settled(QUEUE, number, number * 1000, number, number, "delivered" if number % 9 else "dropped:no-session")
    rows.settled(QUEUE, 49, 49_000, 20, 22, "redelivered")
    at_s, number = 0.0, 10
    for step in range(160):
        at_s += random.choice([1, 20, 60, 200, 299.5, 600, 601, 4000]) * random.random()
        lane = str(random.randrange(2))
        kind = random.choice(
            ["link.down", "link.down", "link.up", "node.started", "node.stopped", "process.ended"][: 3 if step % 7 else 6]
        )
        of_link = (
            {"bridge": "cloud", "lane": lane, "reason": random.choice(["timeout", "refused"])} if kind.startswith("link") else {}
        )
        actor = {"actor": "bridge:cloud:0", "reason": "signal"} if kind == "process.ended" else {}
        if number not in (30, 31, 77):
            rows.event(number, at_s, kind, **of_link, **actor)
        number += 1
    return rows


def exported(rows: Rows, folder: Path) -> ExportSource:
    """``rows`` as ``bascule export`` would have written them."""
    for name, of_table in rows.tables.items():
        for (node, snapshot, made_at), some in groupby(of_table, lambda row: (row["node"], row["snapshot_id"], row["snapshot_at"])):
            place = folder / name / f"date={made_at.date()}" / f"node={quote(node, safe='')}"
            place.mkdir(parents=True, exist_ok=True)
            schema = arrow_schema(name)
            made = pa.Table.from_pylist([{**row, **_maps(row)} for row in some], schema)
            pq.write_table(made.drop_columns(["node"]), place / f"{snapshot}.parquet")
    return ExportSource([str(folder)])


def _maps(row: Row) -> Row:
    return {name: list(value.items()) for name, value in row.items() if isinstance(value, dict)}


def us(moment: datetime | None) -> int | None:
    """A time as microseconds."""
    return None if moment is None else int((moment - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(microseconds=1))


def where(rows: Iterable[Row], **columns: Any) -> list[Row]:
    """The rows that have all these values."""
    return [row for row in rows if all(row.get(name) == value for name, value in columns.items())]


def rounded(report: Report) -> Any:
    """A report as plain values, whenever it was made, with floats to nine digits: those of a sum depend on which comes first."""
    return _rounded(json.loads(replace(report, made_at_ms=0).to_json()))


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_rounded(one) for one in value]
    return float(f"{value:.9g}") if isinstance(value, float) else value
