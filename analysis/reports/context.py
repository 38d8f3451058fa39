"""The input of all reports: the tables of the snapshots, each fact in them once.

State comes from the newest snapshot of each node, by what its store says and not by its clock alone, history from the fewest
snapshots that hold all of it (``choice``), settlements and events by their numbers, so that what several snapshots have is counted
once. Messages are read once, without payloads, and kept by Spark as columns, in memory or on disk; nothing per message comes to the
driver.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from typing import TYPE_CHECKING, Any, Protocol

from analysis.reports.report_model import SnapshotUsed
from analysis.reports.report_parts import Row, Thresholds, collect, duration
from analysis.reports.snapshot_choice import (
    Covered,
    Numbers,
    QueueAt,
    SnapshotAt,
    Take,
    bucket_s,
    covered,
    in_order,
    set_backs,
    takes,
)
from analysis.spark.session import QUICK_SETTINGS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_HEAD = ("node", "snapshot_id", "snapshot_at")
_QUEUE = ("queue", "bridge", "lane")
_LEDGER = ("accepted", "delivered", "expired", "redelivered", "dropped", "dead", "dead_letters")
COLUMNS: dict[str, tuple[str, ...]] = {
    "snapshots": (
        *_HEAD,
        "store_id",
        "epoch",
        "path",
        "problem",
        "max_messages",
        "max_bytes",
        "min_free_disk_bytes",
        "disk_free_bytes",
    ),
    "queues": (
        *(*_HEAD, *_QUEUE, "head", "tail", "history_from", "depth", "depth_volatile", "bytes", "in_flight", "released", *_LEDGER),
        *("generation", "oldest_at", "max_messages", "max_bytes", "retention_s", "settled_above", "volatile_ranges"),
    ),
    "messages": (
        *(*_HEAD, *_QUEUE, "seq", "state", "topic", "rule", "qos", "accepted_at", "expires_at", "settled_at"),
        *("outcome", "settlement", "payload_bytes"),
    ),
    "inflight": (*_HEAD, *_QUEUE, "seq", "packet_id", "state", "topic", "qos", "accepted_at"),
    "settlements": (
        *_HEAD,
        *_QUEUE,
        "number",
        "settled_at",
        "first_seq",
        "last_seq",
        "messages",
        "outcome",
        "reason",
        "settled_by",
    ),
    "events": (*_HEAD, "number", "at", "kind", "bridge", "lane", "actor", "reason", "count", "details"),
    "dead_letters": (*_HEAD, "bridge", "lane", "seq", "letter", "reason", "at", "remote", "topic", "qos", "payload_bytes"),
}
SETTLED = "settled"
STORE_DIGITS = 8  # of a store's identity, where a node had several
FEW_MESSAGES = 200_000  # in all snapshots
_NUMBERS = count()


class Source(Protocol):
    """The source of the tables: checkpoints, or the files of ``bascule export``."""

    def table(
        self, name: str, columns: Sequence[str], *, snapshots: Sequence[str] | None = None, states: Sequence[str] | None = None
    ) -> DataFrame:
        """``columns`` of a table, of these snapshots alone, and of messages in these states alone; None: no matter which."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """History of [``since_us``, ``until_us``) only; None: as far as there is any."""

    since_us: int | None = None
    until_us: int | None = None

    def sql(self, column: str) -> str:
        """The condition that ``column``, a timestamp, lies in it."""
        conditions = ["true"]
        if self.since_us is not None:
            conditions.append(f"{column} >= timestamp_micros({self.since_us})")
        if self.until_us is not None:
            conditions.append(f"{column} < timestamp_micros({self.until_us})")
        return " AND ".join(conditions)


EVER = Period()


class NoSnapshots(ValueError):
    """There is no usable snapshot in the period."""


class Context:
    """The tables, as frames: ``snapshots`` and ``queues_all`` of all snapshots; ``queues``, ``inflight``, ``dead_letters`` of the
    newest of each node; ``messages`` that are there, and those that are settled and still kept, each once; ``settlements`` and
    ``events``, each once; ``seqs_from``: from where on a queue's sequences must add up.
    """

    def __init__(self, spark: SparkSession, source: Source, period: Period = EVER, thresholds: Thresholds | None = None) -> None:
        """Read what is needed to choose; the rest when a report asks for it.

        Raises:
            NoSnapshots: none is usable.
        """
        self.spark = spark
        self.period = period
        self.thresholds = thresholds or Thresholds()
        self._source = source
        self._kept: list[DataFrame] = []
        self._views: dict[str, DataFrame] = {}
        self._former: dict[str, str | None] = {}
        self._local = (spark.sparkContext.master or "").startswith("local")
        self._read_snapshots()
        self._read_queues()
        self._read_settlements()
        self._read_messages()
        self._read_events()
        self.inflight = self._newest("inflight")
        self.dead_letters = self._newest("dead_letters")
        self.width_s = self._width_s()

    def sql(self, query: str, **frames: DataFrame) -> DataFrame:
        """Spark SQL; ``{messages}``, ``{queues}`` and so on are the tables, other names are those of ``frames``."""
        names = {name: self._view(frame) for name, frame in {**vars(self), **frames}.items() if f"{{{name}}}" in query}
        for name, view in names.items():
            query = query.replace(f"{{{name}}}", view)
        return self.spark.sql(query)

    def _view(self, frame: DataFrame) -> str:
        """The name of ``frame`` in SQL. It stays until ``close``: with a view, Spark forgets what it keeps of its frame."""
        for view, known in self._views.items():
            if known is frame:
                return view
        view = f"bascule_{next(_NUMBERS)}"
        frame.createOrReplaceTempView(view)
        self._views[view] = frame
        return view

    def keep(self, frame: DataFrame) -> DataFrame:
        """``frame``, computed once and kept until ``close``."""
        from pyspark import StorageLevel

        self._kept.append(frame.persist(StorageLevel.MEMORY_AND_DISK))
        return self._kept[-1]

    def found(self, frame: DataFrame) -> DataFrame:
        """``frame``, of few rows, computed now and cut off from what it was computed from: what is asked of it is planned at once.

        On a cluster it is kept as others are: there a lost executor would take what is cut off with it.
        """
        return frame.localCheckpoint() if self._local else self.keep(frame)

    def close(self) -> None:
        """Release what is kept, and leave the session as it was."""
        for name, former in self._former.items():
            if former is None:
                self.spark.conf.unset(name)
            else:
                self.spark.conf.set(name, former)
        self._former.clear()
        for view in self._views:
            self.spark.catalog.dropTempView(view)
        self._views.clear()
        for frame in self._kept:
            frame.unpersist()
        self._kept.clear()

    def bucket(self, column: str) -> str:
        """SQL for the start of the stretch of time that ``column`` lies in."""
        return f"timestamp_seconds(unix_seconds({column}) div {self.width_s} * {self.width_s})"

    def rows(self, name: str, rows: Sequence[tuple[Any, ...]], schema: str) -> DataFrame:
        """A small frame made here."""
        return self.spark.createDataFrame(list(rows), schema).alias(name)

    # --- inside ---

    def _table(self, name: str, snapshots: Sequence[str], states: Sequence[str] | None = None) -> DataFrame:
        from pyspark.sql import functions as f

        if not self._labels:
            return self._source.table(name, COLUMNS[name], snapshots=snapshots, states=states)
        frame = self._source.table(name, (*COLUMNS[name], "store_id"), snapshots=snapshots, states=states)
        labels = f.create_map(*(f.lit(word) for pair in self._labels.items() for word in pair))
        return frame.withColumn("node", f.coalesce(labels[f.col("store_id")], f.col("node"))).drop("store_id")

    def _newest(self, name: str) -> DataFrame:
        return self.keep(self._table(name, self.newest))

    def _read_snapshots(self) -> None:
        every = collect(self._source.table("snapshots", COLUMNS["snapshots"]))
        until_ms = None if self.period.until_us is None else self.period.until_us // 1000
        usable: dict[str, Row] = {}  # a snapshot and its copy are one
        for row in sorted(every, key=lambda row: row["path"]):
            if row["problem"] is None and (until_ms is None or row["snapshot_at"] <= until_ms):
                usable.setdefault(row["snapshot_id"], row)
        if not usable:
            raise NoSnapshots("there is no usable snapshot" + ("" if not every else ": all were left out"))
        self._usable = usable
        self._name_stores_apart()

    def _name_stores_apart(self) -> None:
        """A node with several stores is, from here on, several nodes by name: nothing of one store tells anything of another."""
        stores: dict[str, dict[str, list[Row]]] = {}
        for row in sorted(self._usable.values(), key=lambda row: row["snapshot_at"]):
            stores.setdefault(row["node"], {}).setdefault(row["store_id"] or "", []).append(row)
        self._labels: dict[str, str] = {}
        notes = []
        for node, found in stores.items():
            if len(found) < 2:
                continue
            for store, rows in found.items():
                self._labels[store] = f"{node} [{store[:STORE_DIGITS]}]"
                for row in rows:
                    row["node"] = self._labels[store]
            spans = (
                f"{self._labels[store]} from {utc(rows[0]['snapshot_at'])} to {utc(rows[-1]['snapshot_at'])}"
                for store, rows in found.items()
            )
            notes.append(
                f"Node {node} had {len(found)} stores: {'; '.join(spans)}. Its data folder was replaced, or several nodes have that"
                " name. Each store is judged by itself; what became of a store's messages after its last snapshot is not known."
            )
        self.store_notes = tuple(notes)

    def _read_queues(self) -> None:
        self.queues_all = self.keep(self._table("queues", sorted(self._usable)))
        lanes = self.sql(
            "SELECT node, snapshot_id, queue, coalesce(history_from, head) history_from, head, tail,"
            " tail + head + delivered progress FROM {queues_all} WHERE bridge IS NOT NULL"
        )
        self._be_quick()
        stood = collect(lanes)
        self._order(stood)
        newest = self.rows("newest", [(one,) for one in self.newest], "snapshot_id string")
        self.queues = self.sql(
            "SELECT /*+ BROADCAST(n) */ q.* FROM {queues_all} q JOIN {newest} n ON q.snapshot_id = n.snapshot_id", newest=newest
        )
        self._states = [
            QueueAt(place=self._places[row["snapshot_id"]], **{name: row[name] for name in row if name != "progress"})
            for row in stood
        ]
        newest_ids = set(self.newest)
        self._older = [take for take in takes(self._states) if take.snapshot_id not in newest_ids]
        self._older_ids = sorted({take.snapshot_id for take in self._older})

    def _order(self, stood: Sequence[Row]) -> None:
        """Bring the snapshots into the order in which they were made; the last of each node is its newest."""
        progress: dict[str, dict[str, int]] = {name: {} for name in self._usable}
        for row in stood:
            progress[row["snapshot_id"]][row["queue"]] = row["progress"]
        ordered = in_order(
            SnapshotAt(node=row["node"], snapshot_id=name, epoch=row["epoch"], at_ms=row["snapshot_at"], progress=progress[name])
            for name, row in self._usable.items()
        )
        self._places = {one.snapshot_id: place for place, one in enumerate(ordered)}
        self.snapshot_rows = [self._usable[one.snapshot_id] for one in ordered]
        newest = {row["node"]: row for row in self.snapshot_rows}
        self.newest = tuple(row["snapshot_id"] for row in newest.values())
        self.newest_rows = list(newest.values())
        self.notes = self.store_notes + tuple(
            f"The clock of {after.node} was set back by {duration((before.at_ms - after.at_ms) / 1000)} or more between its"
            f" snapshots {before.snapshot_id} and {after.snapshot_id}, the later one. What is counted is right; ages, rates"
            " and trends across that are not."
            for before, after in set_backs(ordered)
        )
        self.used = tuple(
            SnapshotUsed(
                node=row["node"],
                snapshot_id=row["snapshot_id"],
                at_ms=row["snapshot_at"],
                newest=row["snapshot_id"] in self.newest,
                path=row["path"],
            )
            for row in self.snapshot_rows
        )

    def _frame_of_places(self) -> DataFrame:
        return self.rows("places", list(self._places.items()), "snapshot_id string, place long")

    def _be_quick(self) -> None:
        """With few messages, compiling queries and planning them again on the way takes longer than running them."""
        held = "greatest(0L, tail - coalesce(history_from, head))"
        rows = collect(self.sql(f"SELECT sum({held}) messages FROM {{queues_all}}"))[0]["messages"] or 0
        if rows <= FEW_MESSAGES:
            for name, value in QUICK_SETTINGS.items():
                self._former[name] = self.spark.conf.get(name, None)
                self.spark.conf.set(name, value)

    def _read_settlements(self) -> None:
        read = self._table("settlements", [*self.newest, *self._older_ids])
        if not self._older:
            numbers: list[Row] = []
            self.settlements = self.keep(read)
        else:
            read = self.keep(read)
            numbers = collect(
                self.sql("SELECT node, snapshot_id, queue, min(number) low, max(number) high FROM {read} GROUP BY ALL", read=read)
            )
            # The newest snapshot that has a number has all rows of it.
            self.settlements = self.keep(
                self.sql(
                    "SELECT * EXCEPT (place, newest) FROM (SELECT /*+ BROADCAST(p) */ r.*, p.place, max(p.place) OVER (PARTITION BY"
                    " r.node, r.queue, r.number) newest FROM {read} r JOIN {places} p ON r.snapshot_id = p.snapshot_id)"
                    " WHERE newest = place",
                    read=read,
                    places=self._frame_of_places(),
                )
            )
        found = covered(self._states, [Numbers(**row) for row in numbers])
        self.seqs_from = self._frame_of_covered(found)

    def _frame_of_covered(self, found: Sequence[Covered]) -> DataFrame:
        return self.rows(
            "seqs_from", [(one.node, one.queue, one.seq_from) for one in found], "node string, queue string, seq_from long"
        )

    def _read_messages(self) -> None:
        messages = self._table("messages", self.newest)
        if self._older:
            older = self._table("messages", self._older_ids, states=(SETTLED,))
            messages = self.sql(
                "SELECT * FROM {newest} UNION ALL SELECT /*+ BROADCAST(t) */ o.* FROM {older} o JOIN {takes} t ON o.node = t.node"
                " AND o.snapshot_id = t.snapshot_id AND o.queue = t.queue AND o.seq >= t.seq_from AND o.seq < t.seq_to",
                newest=messages,
                older=older,
                takes=self._frame_of_takes(self._older),
            )
        self.messages = self.keep(messages)

    def _frame_of_takes(self, chosen: Sequence[Take]) -> DataFrame:
        rows = [(one.node, one.snapshot_id, one.queue, one.seq_from, one.seq_to) for one in chosen]
        return self.rows("takes", rows, "node string, snapshot_id string, queue string, seq_from long, seq_to long")

    def _read_events(self) -> None:
        """Events: those of the newest snapshot; older ones are asked only where it has no longer all of them."""
        newest = self.keep(self._table("events", self.newest))
        cut = {
            row["node"] for row in collect(self.sql("SELECT node, min(number) low FROM {e} GROUP BY node", e=newest)) if row["low"]
        }
        older_ids = [one.snapshot_id for one in self.used if not one.newest and one.node in cut]
        if older_ids:
            self.events = self.keep(
                self.sql(
                    "SELECT * EXCEPT (age) FROM (SELECT /*+ BROADCAST(p) */ e.*, row_number() OVER (PARTITION BY e.node, e.number"
                    " ORDER BY p.place DESC) age FROM {every} e JOIN {places} p ON e.snapshot_id = p.snapshot_id) WHERE age = 1",
                    every=newest.unionByName(self._table("events", older_ids)),
                    places=self._frame_of_places(),
                )
            )
        else:
            self.events = newest

    def _width_s(self) -> int:
        """How wide a point of a plot over time is: from the first thing known, in the period, to the newest snapshot."""
        first = self.sql(
            f"SELECT min(at) first FROM (SELECT min(settled_at) at FROM {{settlements}} WHERE {self.period.sql('settled_at')}"
            f" UNION ALL SELECT min(at) FROM {{events}} WHERE kind LIKE 'link.%' AND {self.period.sql('at')}"
            " UNION ALL SELECT min(snapshot_at) FROM {queues_all})"
        )
        start = collect(first)[0]["first"]
        newest_ms = max(row["snapshot_at"] for row in self.newest_rows)
        return bucket_s(max(0, newest_ms - (start if start is not None else newest_ms)) / 1000)


def utc(at_ms: int | None) -> str:
    """A time as a person reads it, to the second."""
    return "-" if at_ms is None else datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
