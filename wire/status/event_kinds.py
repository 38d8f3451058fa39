"""The kinds of events: what happens to the processes, links and queues of a node, and is kept by its store."""

from __future__ import annotations

from enum import StrEnum
from typing import Self


class EventKind(StrEnum):
    """Of an event; ``tells``: what its fields say, for the reference."""

    tells: str

    def __new__(cls, kind: str, tells: str = "") -> Self:
        """The kind as it is written, and what its fields say."""
        member = str.__new__(cls, kind)
        member._value_ = kind
        member.tells = tells
        return member

    NODE_STARTED = "node.started", "actor: supervisor; details: version. Of a replicated node: it begins to lead"
    NODE_STOPPED = "node.stopped", "reason: the exit status"
    NODE_LEADER = "node.leader", "actor: supervisor; reason: the member that leads from here on"
    NODE_STANDBY = (
        "node.standby",
        "actor: supervisor; reason: why it leads no more. Where its lease had ended, only its log says so",
    )
    NODE_RELOADED = (
        "node.reloaded",
        "actor: operator, or supervisor after SIGHUP; reason: what has changed; count: changes; details: number (of the "
        "settings), live, reconnect, restart, destructive (how many of each)",
    )
    NODE_RELOAD_REFUSED = (
        "node.reload_refused",
        "actor as before; reason: what is wrong with the file, with its line, or what was not to be changed; details: valid, "
        "problems (how many)",
    )
    NODE_RESTORED = (
        "node.restored",
        "actor: operator; reason: the snapshot of the backup; count: messages in it; details: of_store (the identity of the "
        "store that it was made of)",
    )
    STORE_BEGUN = (
        "store.begun",
        "actor: store. The node has begun a new one; reason: the identity of the one before, if there was one; count: messages "
        "that waited in that when it was seen last",
    )
    PROCESS_STARTED = "process.started", "actor: the process; count: its restarts so far; details: pid"
    PROCESS_ENDED = (
        "process.ended",
        "actor: the process; reason: why, or ordered; details: status (as of waitpid; negative for a signal), pid, failed (the "
        "actor that had failed, where one had)",
    )
    LANE_APART = (
        "lane.apart",
        "bridge, lane, actor: its actors failed twice within a minute in a process that others share, and have one of their own "
        "since; reason: why the last time",
    )
    LINK_UP = (
        "link.up",
        "bridge, lane, actor; details: address, session_expiry_s (where the remote keeps the session less long than it was "
        "asked to), attempts_failed (since it was up, where any has)",
    )
    LINK_DOWN = "link.down", "bridge, lane, actor; reason; details: address, fault (why, in a word; empty if it was ordered)"
    LINK_FAILED = (
        "link.failed",
        "bridge, lane, actor; reason: why it could not connect, for each address; count: attempts since the last such row; "
        "details: attempt (how many failed since it was up), fault (in a word). The first of each cause at once, then each "
        "minute, and ever less, down to once an hour",
    )
    CREDENTIAL_RENEWED = (
        "credential.renewed",
        "bridge, lane, actor; details: ends_at (of the new password or token, where it says so)",
    )
    CREDENTIAL_UNREAD = "credential.unread", "bridge, lane, actor; reason: why none could be read, while the one before is used"
    CREDENTIAL_ENDS = "credential.ends", "bridge, lane, actor; reason: password or token, or certificate; details: ends_at"
    SESSION_UNKNOWN = (
        "session.unknown",
        "bridge, lane, actor; reason: new store, where this one had never begun any; details: address, which has one that is on "
        "no record, and is ended",
    )
    MESSAGE_SUSPECTED = (
        "message.suspected",
        "bridge, lane, actor; reason: connection_closed; count: how often the remote has closed the connection on it; details: "
        "seq, topic, bytes (of the PUBLISH)",
    )
    MESSAGE_GIVEN_UP = "message.given_up", "as before: the remote took others meanwhile; what became of it is on_refusal's"
    REMOTE_LIMITED = (
        "remote.limited",
        "bridge, lane, actor; reason: what the remote was seen not to take; details: address, key (of the configuration that "
        "says it for good)",
    )
    MESSAGES_DROPPED = (
        "messages.dropped",
        "bridge, lane, reason; count: messages since the last such row; details: total (of the ledger)",
    )
    MESSAGES_EXPIRED = "messages.expired", "bridge, lane; count, details as before"
    MESSAGES_DEAD = "messages.dead", "bridge, lane, reason; count, details as before"
    OVERFLOW_BEGAN = "overflow.began", "bridge (empty: the node); reason: the policy (reject, drop-oldest, drop-newest)"
    OVERFLOW_ENDED = "overflow.ended", "bridge; reason; count: messages refused or dropped; details: lasted_ms"
    DISK_FULL = "disk.full", "reason: what the disk says, or min_free_disk; details: free_bytes"
    DISK_AVAILABLE = "disk.available", "details: lasted_ms"
    LOG_AWAY = "log.away", "the log of the cluster cannot be used, so nothing is acknowledged; kept once it can be again"
    LOG_AVAILABLE = "log.available", "details: lasted_ms"
    BRIDGE_PAUSED = "bridge.paused", "bridge; actor: operator, or supervisor where a node begins with it; reason: then since when"
    BRIDGE_RESUMED = "bridge.resumed", "bridge; actor: operator"
    QUEUE_PURGED = "queue.purged", "bridge, lane (-1: all, or its dead letters); reason: queue, dead_letters; count"
    QUEUE_RESENT = (
        "queue.resent",
        "bridge, lane, whose history is sent again; reason: begun, ended; count: messages; details: run, into (who gets them)",
    )
    QUEUE_IMPORTED = "queue.imported", "bridge, whose queue has got all of a file; reason: the run's name; count: messages"
    SESSION_ENDED = (
        "session.ended",
        "reason: operator; count: messages that went with its queue; details: client_id, user, subscriptions, will",
    )
    SESSION_DISCONNECTED = "session.disconnected", "reason: operator; details: client_id, user, address"
    PUBLISH_RESERVED = (
        "publish.reserved",
        "actor: listener; reason: a topic below $SYS/ to which a client published, or left its Will; count: messages dropped so "
        "since the last such row, at most one a minute; details: client_id, user, address of this one",
    )
    CLOCK_JUMPED = "clock.jumped", "details: by_ms, how far the wall clock moved against the monotonic one"
    SNAPSHOT_MADE = "snapshot.made", "reason: the snapshot's id, or why there is none; details"
    HISTORY_CUT = "history.cut", "bridge, lane; reason: size, disk, damage, off; count: messages whose history went before its time"
    EVENTS_LOST = "events.lost", "count: events that found no room in memory while the disk refused"
