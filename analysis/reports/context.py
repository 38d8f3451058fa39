"""The input of all reports: the tables of the snapshots, each fact in them once.

State comes from the newest snapshot of each node, by what its store says and not by its clock alone, history from the fewest
snapshots that hold all of it (``choice``), settlements and events by their numbers, so that what several snapshots have is counted
once. Messages are read once, without payloads, and kept by the engine as columns; nothing per message comes to the driver.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from analysis.engines.engine import Engine, Frame, Row, Type
from analysis.reports.report_model import Problem, SnapshotUsed
from analysis.reports.report_parts import ROWS_SHOWN, Thresholds, duration
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

_LEDGER = ("accepted", "delivered", "expired", "redelivered", "dropped", "dead", "dead_letters")
COLUMNS: dict[str, tuple[str, ...]] = {
    "snapshots": (
        *("node", "snapshot_id", "snapshot_at", "store_id", "epoch", "path", "problem"),
        *("max_messages", "max_bytes", "min_free_disk_bytes", "disk_free_bytes"),
    ),
    "queues": (
        *("node", "snapshot_id", "snapshot_at", "queue", "bridge", "lane", "head", "tail", "history_from", "depth"),
        *("depth_volatile", "bytes", *_LEDGER, "oldest_at", "max_messages", "max_bytes", "settled_above", "volatile_ranges"),
    ),
    "messages": (
        *("node", "snapshot_id", "snapshot_at", "queue", "bridge", "seq", "state", "topic", "rule", "accepted_at", "settled_at"),
        *("outcome", "payload_bytes"),
    ),
    "inflight": ("node", "snapshot_at", "queue", "bridge", "lane", "seq", "packet_id", "state", "topic", "accepted_at"),
    "settlements": (
        *("node", "snapshot_id", "queue", "bridge", "number", "settled_at", "first_seq", "last_seq", "messages", "outcome"),
        "reason",
    ),
    "events": ("node", "snapshot_id", "number", "at", "kind", "bridge", "lane", "actor", "reason", "details"),
    "dead_letters": ("node", "snapshot_at", "bridge", "letter", "reason", "at", "remote", "topic", "payload_bytes"),
}
SETTLED = "settled"
STORE_DIGITS = 8  # of a store's identity, where a node had several


class Source(Protocol):
    """The source of the tables: checkpoints, or the files of ``bascule export``."""

    @property
    def problems(self) -> Sequence[Problem]:
        """What cannot be read, and is left out."""
        ...

    def table(
        self,
        engine: Engine,
        name: str,
        columns: Sequence[str],
        *,
        snapshots: Sequence[str] | None = None,
        states: Sequence[str] | None = None,
    ) -> Frame:
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
    newest of each node; ``endings``: what ``queues`` count by reason; ``messages`` that are there, and those that are settled and
    still kept, each once; ``settlements`` and ``events``, each once; ``seqs_from``: from where on a queue's sequences must add up.
    """

    def __init__(self, engine: Engine, source: Source, period: Period = EVER, thresholds: Thresholds | None = None) -> None:
        """Read what is needed to choose; the rest when a report asks for it.

        Raises:
            NoSnapshots: none is usable.
        """
        self.engine = engine
        self.period = period
        self.thresholds = thresholds or Thresholds()
        self._source = source
        self._read_snapshots()
        self._read_queues()
        self._read_settlements()
        self._read_messages()
        self._read_events()
        self.inflight = self._newest("inflight")
        self.dead_letters = self._newest("dead_letters")
        self.width_s = self._width_s()

    def sql(self, query: str, **frames: Frame) -> str:
        """``query`` with names in place of ``{messages}``, ``{queues}`` and so on, and of ``{name}`` for each of ``frames``."""
        for name, frame in {**vars(self), **frames}.items():
            if isinstance(frame, Frame):
                query = query.replace(f"{{{name}}}", frame.name)
        return query

    def frame(self, query: str, **frames: Frame) -> Frame:
        """The result of ``query``, computed each time that it is asked for."""
        return self.engine.frame(self.sql(query, **frames))

    def keep(self, query: str, **frames: Frame) -> Frame:
        """The result of ``query``, computed once and kept."""
        return self.engine.keep(self.sql(query, **frames))

    def found(self, query: str, **frames: Frame) -> Frame:
        """The result of ``query``, of few rows, computed now: what is asked of it is planned at once."""
        return self.engine.found(self.sql(query, **frames))

    def rows(self, rows: Sequence[tuple[Any, ...]], columns: Mapping[str, Type]) -> Frame:
        """A small frame made here."""
        return self.engine.rows(rows, columns)

    def collect(self, query: str, **frames: Frame) -> list[Row]:
        """The rows of a result that is known to be small, timestamps as milliseconds UTC."""
        return self.engine.collect(self.sql(query, **frames))

    def top(self, query: str, **frames: Frame) -> tuple[list[Row], int]:
        """The first ``ROWS_SHOWN`` rows of an ordered result, and how many it has in all."""
        query = self.sql(query, **frames)
        rows = self.engine.collect(f"{query} LIMIT {ROWS_SHOWN + 1}")
        if len(rows) <= ROWS_SHOWN:
            return rows, len(rows)
        return rows[:ROWS_SHOWN], self.engine.collect(f"SELECT count(*) AS n FROM ({query})")[0]["n"]

    def bucket(self, column: str) -> str:
        """SQL for the start of the stretch of time that ``column`` lies in."""
        return f"timestamp_seconds(unix_seconds({column}) - unix_seconds({column}) % {self.width_s})"

    # --- inside ---

    def _table(self, name: str, snapshots: Sequence[str], states: Sequence[str] | None = None) -> Frame:
        columns = COLUMNS[name]  # no other is decoded
        if not self._labels:
            return self._source.table(self.engine, name, columns, snapshots=snapshots, states=states)
        read = self._source.table(self.engine, name, (*columns, "store_id"), snapshots=snapshots, states=states)
        labels = self.rows(list(self._labels.items()), {"store_id": "string", "label": "string"})
        others = ", ".join(f"r.{column}" for column in columns if column != "node")
        return self.frame(
            f"SELECT /*+ BROADCAST(l) */ coalesce(l.label, r.node) AS node, {others} FROM {{read}} r"
            " LEFT JOIN {labels} l ON r.store_id = l.store_id",
            read=read,
            labels=labels,
        )

    def _newest(self, name: str) -> Frame:
        return self._table(name, self.newest)

    def _read_snapshots(self) -> None:
        every = self.collect("SELECT * FROM {read}", read=self._source.table(self.engine, "snapshots", COLUMNS["snapshots"]))
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
        self.queues_all = self._table("queues", sorted(self._usable))
        held = "SELECT sum(greatest(0, tail - coalesce(history_from, head))) AS messages FROM {queues_all}"
        self.engine.expect(self.collect(held)[0]["messages"] or 0)
        stood = self.collect(
            "SELECT node, snapshot_id, queue, coalesce(history_from, head) AS history_from, head, tail,"
            " tail + head + delivered AS progress FROM {queues_all} WHERE bridge IS NOT NULL"
        )
        self._order(stood)
        newest = self.rows([(one,) for one in self.newest], {"snapshot_id": "string"})
        self.queues = self.frame(
            "SELECT /*+ BROADCAST(n) */ q.* FROM {queues_all} q JOIN {newest} n ON q.snapshot_id = n.snapshot_id", newest=newest
        )
        self.endings = self.found(
            " UNION ALL ".join(
                f"SELECT node, snapshot_at, queue, bridge, '{column}' AS ledger, e.key AS reason, e.value AS messages FROM"
                f" (SELECT node, snapshot_at, queue, bridge, explode(map_entries({column})) AS e FROM {{queues}})"
                for column in ("dropped", "dead", "dead_letters")
            )
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

    def _frame_of_places(self) -> Frame:
        return self.rows(list(self._places.items()), {"snapshot_id": "string", "place": "long"})

    def _read_settlements(self) -> None:
        read = self._table("settlements", [*self.newest, *self._older_ids])
        numbers: list[Row] = []
        self.settlements = read
        if self._older:
            numbers = self.collect(
                "SELECT node, snapshot_id, queue, min(number) AS low, max(number) AS high FROM {read} GROUP BY ALL", read=read
            )
            # The newest snapshot that has a number has all rows of it.
            self.settlements = self.keep(
                f"SELECT {', '.join(COLUMNS['settlements'])} FROM (SELECT /*+ BROADCAST(p) */ r.*, p.place, max(p.place) OVER"
                " (PARTITION BY r.node, r.queue, r.number) AS newest FROM {read} r JOIN {places} p"
                " ON r.snapshot_id = p.snapshot_id) WHERE newest = place",
                read=read,
                places=self._frame_of_places(),
            )
        self.seqs_from = self._frame_of_covered(covered(self._states, [Numbers(**row) for row in numbers]))

    def _frame_of_covered(self, found: Sequence[Covered]) -> Frame:
        rows = [(one.node, one.queue, one.seq_from) for one in found]
        return self.rows(rows, {"node": "string", "queue": "string", "seq_from": "long"})

    def _read_messages(self) -> None:
        self.messages = self._table("messages", self.newest)
        if self._older:
            self.messages = self.frame(
                "SELECT * FROM {newest} UNION ALL SELECT /*+ BROADCAST(t) */ o.* FROM {older} o JOIN {takes} t ON o.node = t.node"
                " AND o.snapshot_id = t.snapshot_id AND o.queue = t.queue AND o.seq >= t.seq_from AND o.seq < t.seq_to",
                newest=self.messages,
                older=self._table("messages", self._older_ids, states=(SETTLED,)),
                takes=self._frame_of_takes(self._older),
            )

    def _frame_of_takes(self, chosen: Sequence[Take]) -> Frame:
        rows = [(one.node, one.snapshot_id, one.queue, one.seq_from, one.seq_to) for one in chosen]
        return self.rows(rows, {"node": "string", "snapshot_id": "string", "queue": "string", "seq_from": "long", "seq_to": "long"})

    def _read_events(self) -> None:
        """Events: those of the newest snapshot; older ones are asked only where it has no longer all of them."""
        self.events = self._newest("events")
        cut = {row["node"] for row in self.collect("SELECT node, min(number) AS low FROM {events} GROUP BY node") if row["low"]}
        older_ids = [one.snapshot_id for one in self.used if not one.newest and one.node in cut]
        if older_ids:
            self.events = self.keep(
                f"SELECT {', '.join(f'o.{column}' for column in COLUMNS['events'])} FROM"
                " (SELECT /*+ BROADCAST(p) */ e.*, row_number() OVER (PARTITION BY e.node, e.number ORDER BY p.place DESC) AS age"
                " FROM"
                " (SELECT * FROM {events} UNION ALL SELECT * FROM {older}) e JOIN {places} p ON e.snapshot_id = p.snapshot_id)"
                " o WHERE age = 1",
                older=self._table("events", older_ids),
                places=self._frame_of_places(),
            )

    def _width_s(self) -> int:
        """How wide a point of a plot over time is: from the first thing known, in the period, to the newest snapshot."""
        first = self.collect(
            "SELECT min(known) AS first FROM"
            f" (SELECT min(settled_at) AS known FROM {{settlements}} WHERE {self.period.sql('settled_at')}"
            f" UNION ALL SELECT min(e.at) FROM {{events}} e WHERE kind LIKE 'link.%' AND {self.period.sql('e.at')}"
            " UNION ALL SELECT min(snapshot_at) FROM {queues_all})"
        )
        start = first[0]["first"]
        newest_ms = max(row["snapshot_at"] for row in self.newest_rows)
        return bucket_s(max(0, newest_ms - (start if start is not None else newest_ms)) / 1000)


def utc(at_ms: int | None) -> str:
    """A time as a person reads it, to the second."""
    return "-" if at_ms is None else datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
