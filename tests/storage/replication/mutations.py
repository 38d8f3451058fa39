"""Planted bugs in replication: each takes one safeguard out, and the simulation of a cluster has to notice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from storage.engine.engine import Write
from storage.replication import leader, records, replicated_engine
from storage.replication.follower import Follower
from storage.replication.lease import LeaseFile, Watch
from storage.replication.log import Entry
from storage.replication.members import MemberReport
from storage.replication.records import TERM, Record, Term, split
from storage.replication.replica import Replica
from storage.replication.replicated_engine import ReplicatedEngine
from tests.simulation.mutations import Mutation
from tests.storage.replication.member import LEASE_S, Member
from tests.support.log_double import LogDouble

MUTATIONS: dict[str, Mutation] = {}


def _mutation(name: str, what: str, *patches: tuple[Any, str, Any]) -> None:
    MUTATIONS[name] = Mutation(what, patches)


def _answered_when_sent(original: Any) -> Any:
    def commit(self: ReplicatedEngine, write: Write, *, sync: bool) -> Any:
        write.committed()
        return original(self, write, sync=sync)

    return commit


def _own_disk_first(original: Any) -> Any:
    def commit(self: ReplicatedEngine, write: Write, *, sync: bool) -> Any:
        before = Write()
        before.ops = list(write.ops)
        self.replica.engine.commit(before, sync=False)
        return original(self, write, sync=sync)

    return commit


def _behind_whatever_is_there(original: Any) -> Any:
    def append(self: LogDouble, messages: Sequence[bytes], after: int) -> Any:
        return original(self, messages, self.servers.last)

    return append


def _taken_twice(original: Any) -> Any:
    def take(self: Replica, entry: Entry) -> Any:
        found = original(self, entry)
        if found is not None and found.number > 1:
            self.position = replace(self.position, number=found.number - 1)
            self.apply(found, records.decode_operations(found.body) if found.kind == records.COMMIT else [])
        return found

    return take


def _too_soon(original: Any) -> Any:
    def is_over(self: Watch, lease_s: float, now_s: float) -> Any:
        return original(self, lease_s / 4, now_s)

    return is_over


def _from_the_answer(original: Any) -> Any:
    def hold(self: LeaseFile, until_s: float) -> None:
        original(self, until_s)
        if self.left_s() > 0:
            original(self, until_s + LEASE_S - self.left_s())

    return hold


def _unread(original: Any) -> Any:
    def lead(self: Follower, epoch: int) -> Any:
        replica, position = self.replica, self.replica.position
        member = LEADS[id(replica.engine)]
        last = member.log.ends()[1]
        if last == replica.read_to or not position.log:
            return original(self, epoch)
        term = Term(position.log, member.name, replica.node, "", LEASE_S, False)
        record = Record(TERM, position.term + 1, position.number + 1, epoch, term.encode())
        replica.apply(record.at(member.log.append(split(record, member.log.part_bytes), last)), ())
        return True

    return lead


LEADS: dict[int, Member] = {}


def _known(original: Any) -> Any:
    def start(self: Member) -> None:
        LEADS[id(self.disk)] = self
        original(self)

    return start


def _what_was_read(original: Any) -> Any:
    def keep_from(reports: Iterable[MemberReport], **named: Any) -> Any:
        return original([replace(report, synced=report.sequence) for report in reports], **named)

    return keep_from


def _nobody_is_asked(original: Any) -> Any:
    def commit(self: ReplicatedEngine, write: Write, *, sync: bool) -> Any:
        if write.ops:
            return original(self, write, sync=sync)
        write.committed()
        return 0.0

    return commit


def _part_alone(original: Any) -> Any:
    def parts(of: Record, part_bytes: int) -> list[bytes]:
        return [message[:28] + bytes(4) + message[32:] for message in original(of, part_bytes)]

    return parts


_COMMIT = (ReplicatedEngine, "commit")
_mutation(
    "replication.log-before-answer/answered-when-sent", "who waits is told before the log answers", (*_COMMIT, _answered_when_sent)
)
_mutation(
    "replication.log-before-answer/own-disk-first", "the leader's disk has a commit before the log", (*_COMMIT, _own_disk_first)
)
_mutation(
    "replication.expected-sequence/behind-whatever-is-there",
    "a record goes to the end of the log, whatever that is",
    (LogDouble, "append", _behind_whatever_is_there),
)
_mutation("replication.applied-once/taken-twice", "a record that was applied is applied again", (Replica, "take", _taken_twice))
_mutation("replication.lease-before-take-over/too-soon", "a member leads before the lease ends", (Watch, "is_over", _too_soon))
_mutation(
    "replication.lease-before-take-over/from-the-answer", "the lease counts from the answer", (LeaseFile, "hold", _from_the_answer)
)
_mutation(
    "replication.whole-before-lead/unread",
    "a member leads without having read to the end",
    (Follower, "lead", _unread),
    (Member, "start", _known),
)
_mutation(
    "replication.trimmed-when-kept/what-was-read",
    "the log is trimmed below what members have read, be it on disk or not",
    (leader, "keep_from", _what_was_read),
)
_mutation(
    "replication.record-of-its-own-parts/part-alone",
    "a part says what it is a part of, and not of which record's sending",
    (replicated_engine, "split", _part_alone),
)
_mutation(
    "replication.no-word-without-lease/nobody-is-asked",
    "where nothing is to be written, clients are answered without a look at the lease",
    (*_COMMIT, _nobody_is_asked),
)
