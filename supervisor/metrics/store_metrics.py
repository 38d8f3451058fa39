"""What is measured of the store: the disk, commits, RocksDB, and what is kept for local sessions. Pure."""

from __future__ import annotations

from supervisor.metrics.metric import Metric, seconds


def _gauge(name: str, path: str, text: str) -> Metric:
    return Metric(f"bascule_{name}", "gauge", f"store.{path}", text)


def _counter(name: str, path: str, text: str) -> Metric:
    return Metric(f"bascule_{name}_total", "counter", f"store.{path}", text)


DISK = (
    Metric(
        "bascule_store_state",
        "states",
        "store.state",
        "1 for the state that the store is in, 0 for the others.",
        known=("running", "disk_low", "disk_full", "disk_error", "log_away", "store_gone"),
    ),
    Metric(
        "bascule_store_error_info", "info", "store", "Why the disk, or the log of the cluster, refuses.", words={"error": "error"}
    ),
    Metric("bascule_store_start_time_seconds", "gauge", "store.since_ms", "Since when the store is in use.", read=seconds),
    _gauge("store_lost_messages", "lost", "Messages that waited in the store that was here before, when it was seen last."),
    _gauge("disk_free_bytes", "disk_free_bytes", "Free space on the disk of data_dir."),
    _gauge("disk_needed_bytes", "disk_needed_bytes", "Free space below which nothing is taken: limits.min_free_disk."),
    _counter("store_commits", "commits", "Commits since the process began."),
    _counter("store_written_bytes", "written_bytes", "Bytes of those."),
    Metric("bascule_store_commit_seconds", "histogram", "store.commit_seconds", "How long a commit took, the sync included."),
    Metric("bascule_store_commit_messages", "histogram", "store.commit_messages", "How many messages came with a commit."),
    _gauge("events_kept", "events.kept", "Events on record."),
    _counter("events", "events.next", "Events ever."),
)

ROCKSDB = (
    _gauge("rocksdb_memtable_bytes", "rocksdb.memtable_bytes", "What is in memory and in the log only."),
    _gauge("rocksdb_memtables_waiting", "rocksdb.memtables_waiting", "Full memtables that wait to be written."),
    _gauge("rocksdb_table_bytes", "rocksdb.table_bytes", "Tables on disk."),
    _gauge("rocksdb_blob_bytes", "rocksdb.blob_bytes", "Blobs on disk."),
    _gauge("rocksdb_blob_files", "rocksdb.blob_files", "Files of blobs."),
    _gauge("rocksdb_log_bytes", "rocksdb.log_bytes", "Logs on disk."),
    _gauge("rocksdb_live_bytes", "rocksdb.live_bytes", "RocksDB's estimate of what is not deleted."),
    _gauge("rocksdb_keys", "rocksdb.keys", "RocksDB's estimate of how many keys there are."),
    _gauge("rocksdb_compaction_pending_bytes", "rocksdb.compaction_pending_bytes", "What compactions have before them."),
    _gauge("rocksdb_compactions_running", "rocksdb.compactions_running", "Compactions under way."),
    _gauge("rocksdb_flushes_running", "rocksdb.flushes_running", "Flushes under way."),
    _gauge("rocksdb_block_cache_bytes", "rocksdb.block_cache_bytes", "Memory of the block cache."),
    _gauge("rocksdb_table_readers_bytes", "rocksdb.table_readers_bytes", "Memory of the tables that are open."),
    _counter("rocksdb_background_errors", "rocksdb.background_errors", "Errors that RocksDB met in the background."),
)

SESSIONS = (
    _gauge("sessions", "sessions.kept", "Sessions of local clients on record."),
    _gauge("sessions_connected", "sessions.connected", "Those whose client is connected."),
    _counter("sessions_expired", "sessions.expired", "Sessions that have expired."),
    _counter("sessions_ended", "sessions.ended", "Sessions that operators have ended."),
    _counter("sessions_purged_messages", "sessions.purged", "Messages that went with those."),
    _gauge("sessions_queue_messages", "sessions.depth", "Messages that wait for sessions."),
    _gauge("sessions_queue_bytes", "sessions.bytes", "Bytes of those."),
    _counter(
        "sessions_dropped_messages", "sessions.dropped_by_reason{reason}", "Messages for sessions that were dropped, by reason."
    ),
    _counter(
        "sessions_dealt_again_messages",
        "sessions.dealt_again",
        "Messages of sessions that have ended that went to other members of shared subscriptions.",
    ),
    _counter("sessions_refused_messages", "sessions.refused", "Messages for sessions that were refused."),
    _gauge("sessions_refused_wills", "sessions.refused_wills", "Wills that wait for room."),
    _counter("sessions_dropped_wills", "sessions.dropped_wills", "Wills dropped."),
    _counter("sessions_damaged_rows", "sessions.damaged_rows", "Rows of sessions that could not be read."),
    _gauge("retained_messages", "sessions.retained.messages", "Retained messages."),
    _gauge("retained_bytes", "sessions.retained.bytes", "Bytes of those."),
    _gauge("retained_owing", "sessions.retained.owing", "Sessions and connections to which retained messages are still brought."),
    _counter("retained_refused_messages", "sessions.retained.refused", "Retained messages for which there was no room."),
)
