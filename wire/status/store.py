"""The figures of the store: the disk, commits, RocksDB, and what is kept for local sessions."""

from __future__ import annotations

from typing import ClassVar

from wire.figure import FigureMetric, counter, figure, figures, gauge, histogram, info, part, states
from wire.status.bridges import DeadLetterFigures, QueueFigures
from wire.status.histogram import HistogramFigures
from wire.status.replication_figures import ReplicationFigures
from wire.status.states import StoreState


@figures
class EventFigures:
    """Events on record."""

    kept: int = figure("Events on record.", gauge("events_kept"))
    next: int = figure("The number of the next event, so many there ever were.", counter("events"))


@figures
class RocksFigures:
    """RocksDB's own figures; empty in memory and while it is closed."""

    memtable_bytes: int = figure("Bytes in memory and in the log only.", gauge("rocksdb_memtable_bytes"))
    memtables_waiting: int = figure("Full memtables that wait to be written.", gauge("rocksdb_memtables_waiting"))
    table_bytes: int = figure("Tables on disk.", gauge("rocksdb_table_bytes"))
    blob_bytes: int = figure("Blobs on disk.", gauge("rocksdb_blob_bytes"))
    blob_files: int = figure("Files of blobs.", gauge("rocksdb_blob_files"))
    log_bytes: int | None = figure("Logs on disk.", gauge("rocksdb_log_bytes"), default=None)
    live_bytes: int = figure("RocksDB's estimate of what is not deleted.", gauge("rocksdb_live_bytes"))
    keys: int = figure("RocksDB's estimate of how many keys there are.", gauge("rocksdb_keys"))
    compaction_pending_bytes: int = figure("Bytes that compactions have before them.", gauge("rocksdb_compaction_pending_bytes"))
    compactions_running: int = figure("Compactions under way.", gauge("rocksdb_compactions_running"))
    flushes_running: int = figure("Flushes under way.", gauge("rocksdb_flushes_running"))
    block_cache_bytes: int = figure("Memory of the block cache.", gauge("rocksdb_block_cache_bytes"))
    table_readers_bytes: int = figure("Memory of the tables that are open.", gauge("rocksdb_table_readers_bytes"))
    background_errors: int = figure("Errors that RocksDB met in the background.", counter("rocksdb_background_errors"))


@figures
class RetainedFigures:
    """Retained messages."""

    messages: int = figure("Retained messages.", gauge("retained_messages"))
    bytes: int = figure("Bytes of those.", gauge("retained_bytes"))
    refused: int = figure("Retained messages for which there was no room.", counter("retained_refused_messages"))
    owing: int = figure(
        "Sessions and connections to which retained messages are still brought.", gauge("retained_owing"), default=0
    )


@figures
class SessionQueueFigures:
    """The queues of all sessions together."""

    depth: int = figure("Messages that wait for sessions.", gauge("sessions_queue_messages"))
    bytes: int = figure("Bytes of those.", gauge("sessions_queue_bytes"))
    dropped: int = figure("The sum of `dropped_by_reason`.")
    dropped_by_reason: dict[str, int] = figure(
        "Messages for sessions that were dropped since the store is in use, those of sessions that have ended included: `overflow` "
        "(no room), `session_ended` (went with their session), `maybe_received` (QoS 2 of a shared subscription that a member "
        "whose session has ended may have), `forbidden` (by access rules), `damaged`.",
        counter("sessions_dropped_messages", by="reason"),
    )
    dealt_again: int = figure(
        "Messages of shared subscriptions that went to another member because a session ended.",
        counter("sessions_dealt_again_messages"),
    )
    refused: int = figure("Messages for sessions that were refused.", counter("sessions_refused_messages"))


@figures
class SessionFigures(SessionQueueFigures):
    """Sessions of local clients, and their queues."""

    kept: int = figure("Sessions of local clients on record.", gauge("sessions"))
    connected: int = figure("Those whose client is connected.", gauge("sessions_connected"))
    expired: int = figure("Sessions that have expired.", counter("sessions_expired"))
    ended: int = figure("Sessions that operators have ended.", counter("sessions_ended"))
    purged: int = figure("Messages that went with those.", counter("sessions_purged_messages"))
    damaged_rows: int = figure(
        "Subscriptions, Wills and received identifiers that could not be read when the store was opened; the log names their "
        "sessions, everything else of which is there.",
        counter("sessions_damaged_rows"),
    )
    retained: RetainedFigures = figure("Retained messages.")


@figures
class CommitFigures:
    """Commits since the process began."""

    commits: int | None = figure("Commits since the process began.", counter("store_commits"), default=None)
    written_bytes: int | None = figure("Bytes of those.", counter("store_written_bytes"), default=None)
    commit_seconds: HistogramFigures | None = figure(
        "How long a commit took, the sync included.", histogram("store_commit_seconds"), default=None
    )
    commit_messages: HistogramFigures | None = figure(
        "How many messages came with a commit.", histogram("store_commit_messages"), default=None
    )


@figures
class StoreFigures(CommitFigures):
    """The process that owns the disk."""

    METRICS: ClassVar[tuple[FigureMetric, ...]] = (
        info("store_error", "Why the disk, or the log of the cluster, refuses.", error="error"),
    )

    state: str | None = figure(
        "`running`; `disk_low`: less than `min_free_disk` is left; `disk_full` or `disk_error`, with `error` in words; `log_away` "
        "while the log of the cluster cannot be used; `store_gone` while the store is not there, or another one is; `opening`.",
        states("store_state", tuple(state for state in StoreState if state is not StoreState.OPENING)),
        default=None,
    )
    error: str = figure("Why the disk, or the log of the cluster, refuses.", default="")
    mode: str = figure("`file-native`, `in-memory` or `replicated`.", default="")
    durability: dict[str, str] = figure(
        "What an acknowledgement is worth: in `persistence`, at each listener and for each bridge. For a message the strictest of "
        "its listener and its bridges holds.",
        default_factory=dict,
    )
    store_id: str = figure("The identity of the store, 32 hexadecimal digits.", default="")
    since_ms: int | None = figure(
        "Since when the store is in use, from which its ledgers count.", gauge("store_start_time_seconds"), default=None
    )
    former_store: str = figure("The store that was here before, if one was.", default="")
    lost: int | None = figure(
        "Messages that waited in the store that was here before, when it was seen last.", gauge("store_lost_messages"), default=None
    )
    disk_free_bytes: int | None = figure(
        "Free space on the disk of `data_dir`, less what is in memory and will become tables.",
        gauge("disk_free_bytes"),
        default=None,
    )
    disk_needed_bytes: int | None = figure(
        "Free space below which nothing is taken: `limits.min_free_disk`.", gauge("disk_needed_bytes"), default=None
    )
    damaged_files: str | None = figure("The folder to which damaged files were moved.", default=None)
    events: EventFigures | None = part("Events on record.", default=None)
    rocksdb: RocksFigures | None = part("RocksDB's own figures.", default=None)
    sessions: SessionFigures | None = part("Sessions of local clients.", default=None)


@figures
class StoreReport(StoreFigures):
    """The report of a QueueStore: its own figures, those of the queues by name, of dead letters by bridge, and of the cluster."""

    queues: dict[str, QueueFigures] = figure("Of bridges.", default_factory=dict)
    dead_letters: dict[str, DeadLetterFigures] = figure("Of bridges.", default_factory=dict)
    replication: ReplicationFigures | None = part("Of the cluster.", default=None)
