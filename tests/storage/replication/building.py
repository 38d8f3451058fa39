"""Builders for the tests of replication: a clock that is told the time, and nodes over doubles of the log and of their disks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from storage.engine.engine import Operation, Write
from storage.replication.follower import Follower
from storage.replication.leader import Leader
from storage.replication.lease import LeaseFile
from storage.replication.records import COMMIT, TERM, Record, Term, encode_operations
from storage.replication.replica import Replica
from storage.replication.replicated_engine import ReplicatedEngine
from tests.storage.replication.disk_double import DiskDouble
from tests.support.log_double import Servers
from wire.config_settings import ReplicationSettings, TrimSettings

LEASE_S = 10.0
PUT: Operation = ("put", "msg", b"rows1", b"one")


class Clock:
    """Stands still between two readings, unless it is told."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


NO_TRIM = TrimSettings(max_bytes=None, max_age_s=None)


def settings(member: str = "a", **changed: Any) -> ReplicationSettings:
    """Of a member without limits."""
    plain: dict[str, Any] = {"servers": (), "stream": "s", "lease_s": LEASE_S, "trim": NO_TRIM}
    return ReplicationSettings(member=member, **plain | changed)


class Node:
    """One node, which may follow and lead. held: what it said of its lease."""

    def __init__(self, servers: Servers, clock: Clock, name: str = "a", **changed: Any) -> None:
        self.clock = clock
        self.disk = DiskDouble()
        self.log = servers.client(name)
        self.settings = settings(name, **changed)
        self.held: list[float] = []
        self.begin()

    def begin(self) -> None:
        """Its process starts again."""
        self.replica = Replica(self.disk, f"node-{self.settings.member}")
        self.follower = Follower(self.replica, self.log, self.settings, self.clock)

    def follow(self) -> None:
        """Apply all that there is."""
        while self.follower.follow():
            pass

    def engine(self) -> ReplicatedEngine:
        """That of a node which leads already."""
        return ReplicatedEngine(self.replica, self.log, self.held.append, self.clock)

    def lead(self) -> ReplicatedEngine:
        """Begin to lead."""
        assert self.follower.lead(1)
        return self.engine()

    def leader(self, folder: Path) -> Leader:
        """Begin to lead, with a lease in ``folder``."""
        assert self.follower.lead(1)
        return Leader(self.replica, self.log, self.settings, LeaseFile(folder, self.clock), self.clock)


def put(value: bytes = b"one", *, promised: bool = True) -> tuple[Write, list[str]]:
    """A write, and what is told once it is committed."""
    write, told = Write(), list[str]()
    write.put("msg", b"rows1", value)
    write.promised = promised
    write.on_commit(lambda: told.append("committed"))
    return write, told


def term_record(node: str = "node-x", *, number: int = 1, term: int = 1, log: str = "log", based: bool = False) -> Record:
    """``node`` begins to lead."""
    body = Term(log, node[5:], node, f"{node}:1883", LEASE_S, based).encode()
    return Record(TERM, term, number, 1, body)


def commit_record(number: int, term: int = 1, *operations: Operation) -> Record:
    return Record(COMMIT, term, number, 1, encode_operations(operations or (PUT,)))
