"""What is measured of a node's cluster and of the log that it shares; nodes that are of none have none of it. Pure."""

from __future__ import annotations

from typing import Any

from supervisor.metrics.metric import Metric, count


def _gauge(name: str, path: str, text: str) -> Metric:
    return Metric(f"bascule_replication_{name}", "gauge", f"replication.{path}", text)


def _is_ready(value: Any) -> float:
    return float(value == "ready")


def _is_said(value: Any) -> float:
    return float(bool(value))


REPLICATION = (
    Metric(
        "bascule_replication_role",
        "states",
        "replication.role",
        "1 for the role that the node has, 0 for the other.",
        known=("leader", "standby"),
        label="role",
    ),
    Metric(
        "bascule_replication_info",
        "info",
        "replication",
        "Which member of which cluster the node is, and who leads.",
        words={"stream": "stream", "member": "member", "leader": "leader"},
    ),
    Metric("bascule_replication_error_info", "info", "replication", "Why the log cannot be used.", words={"error": "error"}),
    Metric(
        "bascule_replication_log_ready",
        "gauge",
        "replication.log",
        "Whether the log can be used. While it cannot, a leader acknowledges nothing.",
        read=_is_ready,
    ),
    _gauge("term", "term", "How often somebody has begun to lead."),
    _gauge("lease_left_seconds", "lease_left_s", "Of a leader: for how long nobody else leads."),
    _gauge("silent_seconds", "silent_s", "Of a standby: for how long it has heard nothing of who leads."),
    _gauge("behind_messages", "behind", "Of a standby: messages of the log that it does not have."),
    Metric(
        "bascule_replication_needs_base",
        "gauge",
        "replication.needs_base",
        "Of a standby: whether the log has not all that it lacks, so that it begins with the leader's store.",
        read=_is_said,
    ),
    Metric(
        "bascule_replication_records_total", "counter", "replication.records", "Records that the node has put on the log as leader."
    ),
    Metric(
        "bascule_replication_applied_records_total",
        "counter",
        "replication.applied",
        "Records of the log that the node has applied as standby.",
    ),
    _gauge("sequence", "sequence", "The number of the last message of the log that the node has."),
    _gauge("log_first", "log_first", "Of a leader: the number of the first message that the log still has."),
    Metric("bascule_replication_members", "gauge", "replication.members", "Members that are known.", read=count),
    _gauge("member_sequence", "members{member}.sequence", "The last message of the log that the member had when it spoke."),
    _gauge("member_synced", "members{member}.synced", "The last message that it had on its disk."),
    _gauge("member_term", "members{member}.term", "The term that it knew of."),
    _gauge("member_behind_messages", "members{member}.behind", "Messages that it did not have when it spoke."),
    _gauge("member_silent_seconds", "members{member}.silent_s", "How long ago it spoke, by its clock and this node's."),
    Metric(
        "bascule_replication_member_needs_base",
        "gauge",
        "replication.members{member}.needs_base",
        "Whether it waits for the leader's store to begin with.",
    ),
)
