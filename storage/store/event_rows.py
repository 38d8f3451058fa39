"""The events of a node: what happened to its processes, links and queues, as rows of the column family ``history``. Bounded.

    key    ``E`` u8 | number of the event u64, big endian
    value  msgpack ``(1, at_ms, kind, bridge, lane, actor, reason, count, details)``

Events are numbered from 0, and a number is never given twice; a gap in the numbers is a loss. ``at_ms`` is UTC epoch, and that of
the event, not of its writing. Fields that do not apply are ``""`` (``bridge``, ``actor``, ``reason``), -1 (``lane``), 0 (``count``)
or ``{}`` (``details``: text -> text, number or truth value). Events never hold up a commit or an acknowledgement, and are not
synced by themselves: those on their way may be lost when a process is killed, those of the last second when the power goes.

    kind                what it tells
    node.started        actor: supervisor; details: version. Of a replicated node: it begins to lead
    node.stopped        reason: the exit status
    node.leader         actor: supervisor; reason: the member that leads from here on
    node.standby        actor: supervisor; reason: why it leads no more. Where its lease had ended, only its log says so
    node.reloaded       actor: operator, or supervisor after SIGHUP; reason: what has changed; count: changes; details: number (of
                        the settings), live, reconnect, restart, destructive (how many of each)
    node.reload_refused actor as before; reason: what is wrong with the file, with its line, or what was not to be changed; details:
                        valid, problems (how many)
    node.restored       actor: operator; reason: the snapshot of the backup; count: messages in it; details: of_store
                        (the identity of the store that it was made of)
    store.begun         actor: store. The node has begun a new one; reason: the identity of the one before, if there was one; count:
                        messages that waited in that when it was seen last
    process.started     actor: the process; count: its restarts so far; details: pid
    process.ended       actor: the process; reason: why, or ordered; details: status (as of waitpid; negative for a signal), pid,
                        failed (the actor that had failed, where one had)
    lane.apart          bridge, lane, actor: its actors failed twice within a minute in a process that others share, and have one of
                        their own since; reason: why the last time
    link.up             bridge, lane, actor; details: address, session_expiry_s (where the remote keeps the session less long
                        than it was asked to), attempts_failed (since it was up, where any has)
    link.down           bridge, lane, actor; reason; details: address, fault (why, in a word; empty if it was ordered)
    link.failed         bridge, lane, actor; reason: why it could not connect, for each address; count: attempts since the last such
                        row; details: attempt (how many failed since it was up), fault (in a word). The first of each cause at
                        once, then each minute, and ever less, down to once an hour
    session.unknown     bridge, lane, actor; reason: new store, where this one had never begun any; details: address, which has one
                        that is on no record, and is ended
    message.suspected   bridge, lane, actor; reason: connection_closed; count: how often the remote has closed the connection on it;
                        details: seq, topic, bytes (of the PUBLISH)
    message.given_up    as before: the remote took others meanwhile; what became of it is on_refusal's
    remote.limited      bridge, lane, actor; reason: what the remote was seen not to take; details: address, key (of the
                        configuration that says it for good)
    messages.dropped    bridge, lane, reason; count: messages since the last such row; details: total (of the ledger)
    messages.expired    bridge, lane; count, details as before
    messages.dead       bridge, lane, reason; count, details as before
    overflow.began      bridge (empty: the node); reason: the policy (reject, drop-oldest, drop-newest)
    overflow.ended      bridge; reason; count: messages refused or dropped; details: lasted_ms
    disk.full           reason: what the disk says, or min_free_disk; details: free_bytes
    disk.available      details: lasted_ms
    log.away            the log of the cluster cannot be used, so nothing is acknowledged; kept once it can be again
    log.available       details: lasted_ms
    bridge.paused       bridge; actor: operator, or supervisor where a node begins with it; reason: then since when
    bridge.resumed      bridge; actor: operator
    queue.purged        bridge, lane (-1: all, or its dead letters); reason: queue, dead_letters; count
    session.ended       reason: operator; count: messages that went with its queue; details: client_id, user, subscriptions, will
    session.disconnected  reason: operator; details: client_id, user, address
    publish.reserved    actor: listener; reason: a topic below $SYS/ to which a client published, or left its Will; count: messages
                        dropped so since the last such row, at most one a minute; details: client_id, user, address of this one
    clock.jumped        details: by_ms, how far the wall clock moved against the monotonic one
    snapshot.made       reason: the snapshot's id, or why there is none; details
    history.cut         bridge, lane; reason: size, disk, damage, off; count: messages whose history went before its time
    events.lost         count: events that found no room in memory while the disk refused
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgpack

from wire.errors import ConfigError, StorageDamaged

EVENT_VERSION = 1

_KIND = b"E"

Detail = str | int | float | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One row."""

    at_ms: int
    kind: str
    bridge: str = ""
    lane: int = -1
    actor: str = ""
    reason: str = ""
    count: int = 0
    details: Mapping[str, Detail] = field(default_factory=dict)

    def encode(self) -> bytes:
        """The row's value."""
        fields = (self.at_ms, self.kind, self.bridge, self.lane, self.actor, self.reason, self.count, dict(self.details))
        packed: bytes = msgpack.packb((EVENT_VERSION, *fields))
        return packed

    @classmethod
    def decode(cls, value: bytes) -> Event:
        """The row that ``encode`` made.

        Raises:
            StorageDamaged: it is not a row.
            ConfigError: a newer build wrote it.
        """
        try:
            version, *fields = msgpack.unpackb(value, use_list=False, strict_map_key=False)
            version += 0
        except (ValueError, TypeError, msgpack.UnpackException) as error:
            raise StorageDamaged("an event is damaged") from error
        if version != EVENT_VERSION:
            raise ConfigError("an event was written by another version", version=version, known=EVENT_VERSION)
        try:
            at_ms, kind, bridge, lane, actor, reason, count, details = fields
            return cls(
                at_ms=at_ms, kind=kind, bridge=bridge, lane=lane, actor=actor, reason=reason, count=count, details=dict(details)
            )
        except (ValueError, TypeError) as error:
            raise StorageDamaged("an event is damaged") from error


def event_key(number: int) -> bytes:
    """The key of event ``number``."""
    return _KIND + number.to_bytes(8, "big")


def event_number(key: bytes) -> int:
    """The number of the event under ``key``."""
    return int.from_bytes(key[1:9], "big")
