"""The figures of a node's cluster and of the log that it shares."""

from __future__ import annotations

from typing import ClassVar

from wire.figure import FigureMetric, count, counter, equals, figure, figures, gauge, given, info, states


@figures
class MemberFigures:
    """A member as it was when it spoke last, which it does four times in a lease, and every 10 s at least."""

    role: str = figure("`leader` or `standby`.")
    sequence: int = figure("The last message of the log that the member had when it spoke.", gauge("replication_member_sequence"))
    synced: int = figure("The last message that it had on its disk.", gauge("replication_member_synced"))
    behind: int = figure("Messages that it did not have when it spoke.", gauge("replication_member_behind_messages"))
    term: int = figure("The term that it knew of.", gauge("replication_member_term"))
    at_ms: int = figure("Time of its last report, by its own clock.")
    silent_s: float = figure("How long ago it spoke, by its clock and this node's.", gauge("replication_member_silent_seconds"))
    address: str = figure("The address for its clients while it leads.")
    needs_base: bool = figure("Whether it waits for the leader's store to begin with.", gauge("replication_member_needs_base"))


@figures
class ReplicationFigures:
    """The cluster of a replicated node; empty where the mode is another. A standby says as much as it knows."""

    METRICS: ClassVar[tuple[FigureMetric, ...]] = (
        info(
            "replication",
            "Which member of which cluster the node is, and who leads.",
            stream="stream",
            member="member",
            leader="leader",
        ),
        info("replication_error", "Why the log cannot be used.", error="error"),
    )

    role: str = figure("`leader` or `standby`.", states("replication_role", ("leader", "standby"), by="role"))
    member: str = figure("The name of this node in its cluster.")
    stream: str = figure("The stream that is the log.")
    log: str = figure(
        "`ready`, or `away` while the log cannot be used.",
        equals("replication_log_ready", "Whether the log can be used. While it cannot, a leader acknowledges nothing.", "ready"),
    )
    error: str = figure("Why the log cannot be used.")
    leader: str = figure("The member that leads: the one whose record came last. Empty where nobody is known to.", default="")
    leader_address: str = figure("The address for its clients.", default="")
    term: int | None = figure(
        "How often somebody has begun to lead; each take-over counts.", gauge("replication_term"), default=None
    )
    sequence: int | None = figure(
        "The number of the last message of the log that the node has.", gauge("replication_sequence"), default=None
    )
    members: dict[str, MemberFigures] = figure(
        "The members that have spoken and were not forgotten, by name.",
        count("replication_members"),
        default_factory=dict,
        by="member",
    )
    records: int | None = figure(
        "Of a leader: records that it has put on the log, in this life.", counter("replication_records"), default=None
    )
    lease_left_s: float | None = figure(
        "Of a leader: for how long nobody else leads.", gauge("replication_lease_left_seconds"), default=None
    )
    log_first: int | None = figure(
        "Of a leader: the number of the first message that the log still has.", gauge("replication_log_first"), default=None
    )
    behind: int | None = figure(
        "Of a standby: messages of the log that it does not have.", gauge("replication_behind_messages"), default=None
    )
    silent_s: float | None = figure(
        "Of a standby: for how long it has heard nothing of who leads.", gauge("replication_silent_seconds"), default=None
    )
    applied: int | None = figure(
        "Of a standby: records of the log that it has applied, in this life.",
        counter("replication_applied_records"),
        default=None,
    )
    needs_base: str | None = figure(
        "Of a standby: why the log alone does not bring it level, so that it waits for the leader's store; else empty.",
        given(
            "replication_needs_base",
            "Of a standby: whether the log has not all that it lacks, so that it begins with the leader's store.",
        ),
        default=None,
    )
