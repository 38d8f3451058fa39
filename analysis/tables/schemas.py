"""The tables that a snapshot is read as: their columns, types and meaning. Plain Python; Arrow is imported only when asked for.

Every row begins with the node, the snapshot and its time, so that many snapshots make one table. Times are UTC in microseconds. All
columns may be null for Arrow and Spark, whose readers want it so; ``nullable`` says which really may be. The tables are filled by
``reader``; this module decides nothing but what they look like.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    import pyarrow as pa

Type = Literal["string", "int", "long", "double", "boolean", "timestamp", "binary", "map<string,long>"]

QUEUED, IN_FLIGHT, RELEASED, SETTLED = "queued", "in_flight", "released", "settled"
STATES = (QUEUED, IN_FLIGHT, RELEASED, SETTLED)


class Column(NamedTuple):
    """One column; ``type`` in Spark's words."""

    name: str
    type: Type
    nullable: bool
    doc: str


def _columns(*columns: tuple[str, Type, str]) -> tuple[Column, ...]:
    """Columns from (name, type, doc); a name that ends in ``?`` may be null."""
    return tuple(Column(name.rstrip("?"), kind, name.endswith("?"), doc) for name, kind, doc in columns)


_SNAPSHOT = _columns(
    ("node", "string", "The node's name."),
    ("store_id", "string", "The identity of its store: another one under the same name is another store."),
    ("snapshot_id", "string", "The snapshot: node, time and epoch of the store."),
    ("snapshot_at", "timestamp", "Time at which the snapshot was made."),
)

_QUEUE = _columns(
    ("queue", "string", "The queue's name: bridge:<bridge>:<lane> or session:<number>:<client>."),
    ("bridge?", "string", "The bridge; null for a session's queue."),
    ("lane?", "string", "The lane of the bridge, its number or its class; null for a session's queue."),
)

_MESSAGES = _columns(
    ("seq", "long", "The sequence in the queue."),
    ("state", "string", "queued, in_flight, released (PUBREC is on record, PUBCOMP is not) or settled."),
    ("topic", "string", "The topic name."),
    ("rule?", "string", "Name of the rule that took it, as of then: its name, or its filters; null where none did."),
    ("destination?", "string", "Remote topic that that rule gave it then; null where none did."),
    ("qos", "int", "0, 1 or 2."),
    ("retain", "boolean", "The RETAIN flag."),
    ("accepted_at", "timestamp", "Time at which the node took it."),
    ("expires_at?", "timestamp", "From the Message Expiry Interval; null without one."),
    ("settled_at?", "timestamp", "Time at which it was settled; null unless it was, or where no record of it is kept."),
    ("outcome?", "string", "delivered, expired, dropped:<reason> or dead:<reason>; null as settled_at."),
    ("settled_by?", "string", "Actor that settled it; null as settled_at."),
    ("settlement?", "long", "The number of the settlement; null as settled_at."),
    ("payload_bytes", "int", "The payload's length."),
    ("properties_bytes", "int", "Length of the MQTT 5 properties, as they are encoded."),
    ("payload", "binary", "The payload; read only if asked for."),
)

_QUEUES = _columns(
    ("number", "long", "The queue's number in the store."),
    ("configured", "boolean", "Whether the configuration still knows it."),
    ("head", "long", "The sequence that is next to settle."),
    ("tail", "long", "The next free sequence."),
    ("handed", "long", "Sequences below it may have been handed out."),
    ("history_from?", "long", "First sequence from which settled messages are kept, with their settlements; null: none are."),
    ("depth", "long", "Durable messages that are not settled."),
    ("depth_volatile", "long", "QoS 0 messages in memory: not in the snapshot."),
    ("bytes", "long", "Bytes of the messages in the queue."),
    ("in_flight", "long", "Messages handed out and not settled."),
    ("released", "long", "Of these, PUBREC is on record."),
    ("accepted", "long", "The ledger: messages ever accepted."),
    ("delivered", "long", "The ledger: delivered."),
    ("expired", "long", "The ledger: expired."),
    ("redelivered", "long", "The ledger: sendings beyond the first; no messages."),
    ("dropped", "map<string,long>", "The ledger: dropped, by reason."),
    ("dead", "map<string,long>", "The ledger: dead-lettered, by reason."),
    (
        "dead_letters",
        "map<string,long>",
        "Fate of the bridge's dead letters, on its first lane: held, evicted, purged, replayed, damaged.",
    ),
    ("refused", "long", "Beside the ledger: refused for want of room and not offered again, so never accepted."),
    ("raised", "long", "Of accepted: came with less than min_qos of their rule."),
    ("generation", "long", "The number of the remote session; it differs from those at other addresses."),
    ("remote_session", "string", "The remote session on record."),
    ("oldest_at?", "timestamp", "Time at which the oldest durable message that is not settled was accepted; null without one."),
    ("max_messages?", "long", "The limit of the bridge; null without one."),
    ("max_bytes?", "long", "The limit of the bridge; null without one."),
    ("retention_s", "double", "How long settled messages are kept, in seconds; 0: not at all."),
    ("settled_above", "string", "The ranges above the head that are settled, as JSON: [[start, stop], ...], half-open."),
    ("volatile_ranges", "string", "The sequences of the QoS 0 messages in memory, in the same form."),
    ("purged_ranges", "string", "The ranges above the head whose messages were purged, in the same form."),
)

_INFLIGHT = _columns(
    ("seq", "long", "The sequence in the queue."),
    ("packet_id?", "int", "The packet identifier that it has at the remote; null for QoS 0."),
    ("state", "string", "in_flight or released."),
    ("topic?", "string", "The topic name; null where the message is not in the snapshot (QoS 0)."),
    ("qos?", "int", "0, 1 or 2; null as topic."),
    ("accepted_at?", "timestamp", "Time at which the node took it; null as topic."),
)

_SETTLEMENTS = _columns(
    ("number", "long", "The settlement's number in the queue, from 0; one commit of a queue has one."),
    ("settled_at", "timestamp", "Time at which it was committed."),
    ("first_seq", "long", "First sequence of the range."),
    ("last_seq", "long", "Last sequence of the range."),
    ("messages", "long", "How many sequences that is."),
    ("outcome", "string", "delivered, expired, redelivered (settles nothing), dropped or dead."),
    ("reason?", "string", "Why, for dropped and dead."),
    ("settled_by", "string", "Actor that settled it: connection:..., forwarder:..., store or operator."),
)

_EVENTS = _columns(
    ("number", "long", "The event's number on the node; never repeats."),
    ("at", "timestamp", "Time of the event."),
    ("kind", "string", "link.up, link.down, link.failed, process.ended, messages.dropped, ..."),
    ("bridge?", "string", "The bridge it is about."),
    ("lane?", "string", "The lane it is about."),
    ("actor?", "string", "The actor it is about."),
    ("reason?", "string", "Why."),
    ("count?", "long", "How many messages, where it is about messages."),
    ("details", "string", "All else, as JSON."),
)

_DEAD_LETTERS = _columns(
    ("bridge", "string", "The bridge."),
    ("lane?", "string", "The lane in whose queue it was."),
    ("seq", "long", "The sequence that it had there."),
    ("letter", "long", "Its place among the bridge's dead letters."),
    ("reason", "string", "Why the remote would not have it."),
    ("at", "timestamp", "Time at which it was dead-lettered."),
    ("remote?", "string", "The remote's session, client@host:port, where known."),
    ("topic", "string", "The topic name."),
    ("qos", "int", "0, 1 or 2."),
    ("accepted_at", "timestamp", "Time at which the node took it."),
    ("payload_bytes", "int", "The payload's length."),
    ("payload", "binary", "The payload; read only if asked for."),
)

_SESSIONS = _columns(
    ("session", "string", "The client identifier; for a lane's session at a remote: Connection, client@host:port, number."),
    ("kind", "string", "local or remote."),
    ("connected", "boolean", "Whether a local client was connected."),
    ("since?", "timestamp", "Since when none is connected."),
    ("expires_at?", "timestamp", "Time at which it ends unless a client connects; null: never, or a client is connected."),
    ("queue?", "string", "Its queue; null without one."),
    ("subscriptions", "int", "How many it has."),
    ("received", "int", "QoS 2 identifiers received and not released."),
    ("has_will", "boolean", "Whether a Will waits."),
)

_RETAINED = _columns(
    ("topic", "string", "The topic name."),
    ("qos", "int", "0, 1 or 2."),
    ("accepted_at", "timestamp", "Time at which the node took it."),
    ("expires_at?", "timestamp", "From the Message Expiry Interval; null without one."),
    ("payload_bytes", "int", "The payload's length."),
    ("payload", "binary", "The payload; read only if asked for."),
)

_SNAPSHOTS = _columns(
    ("at?", "timestamp", "Time at which it was made; null where the manifest cannot be read."),
    ("epoch?", "long", "The store's epoch."),
    ("version?", "string", "The version of Bascule that made it."),
    ("files?", "long", "How many files it has."),
    ("bytes?", "long", "Their bytes."),
    ("queues?", "long", "How many queues are in it."),
    ("boot_id?", "string", "The boot of the machine."),
    ("max_messages?", "long", "The limit of the node; null without one."),
    ("max_bytes?", "long", "The limit of the node; null without one."),
    ("min_free_disk_bytes?", "long", "How much of the disk the node leaves free."),
    ("disk_free_bytes?", "long", "Free space on the node's disk; null where it is not known."),
    ("path", "string", "The folder."),
    ("problem?", "string", "Why it was skipped; null where it was not."),
)

_DAMAGE = _columns(
    ("queue?", "string", "The queue; null where the damage is not in one."),
    ("first_seq?", "long", "From this sequence on messages cannot be read, if it is known."),
    ("last_seq?", "long", "The last one that cannot be read, if it is known."),
    ("path", "string", "The folder of the snapshot."),
    ("why", "string", "Kind of the fault."),
)

_GAPS = _columns(
    ("queue?", "string", "The queue; null where it is events that are gone."),
    ("first_seq", "long", "Some or all from this sequence on are gone; of events, from this number on."),
    ("last_seq", "long", "Up to this one."),
    ("snapshot_before?", "string", "The last snapshot made before that; null where there is none of this store."),
)

TABLES: dict[str, tuple[Column, ...]] = {
    "messages": _SNAPSHOT + _QUEUE + _MESSAGES,
    "queues": _SNAPSHOT + _QUEUE[:1] + _QUEUES[:1] + _QUEUE[1:] + _QUEUES[1:],
    "inflight": _SNAPSHOT + _QUEUE + _INFLIGHT,
    "settlements": _SNAPSHOT + _QUEUE + _SETTLEMENTS,
    "events": _SNAPSHOT + _EVENTS,
    "dead_letters": _SNAPSHOT + _DEAD_LETTERS,
    "sessions": _SNAPSHOT + _SESSIONS,
    "retained": _SNAPSHOT + _RETAINED,
    "snapshots": _SNAPSHOT + _SNAPSHOTS,
    "damage": _SNAPSHOT + _DAMAGE,
    "gaps": _SNAPSHOT + _GAPS,
}

PAYLOAD = "payload"


def columns_of(table: str, columns: Sequence[str] | None = None, *, payload: bool = True) -> tuple[Column, ...]:
    """The columns of ``table`` that are called ``columns``, in that order; all of them for None, ``payload`` only if wanted.

    Raises:
        ValueError: there is no such table or column.
    """
    if table not in TABLES:
        raise ValueError(f"there is no table {table!r}; there are {', '.join(TABLES)}")
    every = {column.name: column for column in TABLES[table]}
    if columns is None:
        return tuple(column for column in every.values() if payload or column.name != PAYLOAD)
    unknown = [name for name in columns if name not in every]
    if unknown:
        raise ValueError(f"table {table} has no column {unknown[0]!r}; it has {', '.join(every)}")
    return tuple(every[name] for name in columns)


def arrow_schema(table: str, columns: Sequence[str] | None = None, *, payload: bool = True) -> pa.Schema:
    """The Arrow schema of ``columns_of``: what ``reader.read`` yields, and equal to what Spark makes of the same types.

    Raises:
        ValueError: there is no such table or column.
    """
    import pyarrow as pa

    types: dict[Type, pa.DataType] = {
        "string": pa.string(),
        "int": pa.int32(),
        "long": pa.int64(),
        "double": pa.float64(),
        "boolean": pa.bool_(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "binary": pa.binary(),
        "map<string,long>": pa.map_(pa.string(), pa.int64()),
    }
    return pa.schema([pa.field(column.name, types[column.type]) for column in columns_of(table, columns, payload=payload)])
