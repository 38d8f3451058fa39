"""A store that follows the log: records are applied in their order, each with the position that it brings.

replication.applied-once [P2, P4]: a record is applied if it is the one that follows what the store has, and never else.
replication.alone-until-rebased [P1, P2, P4]: a store that went on without the log applies nothing of that; others begin anew with
    it, and where another member has led meanwhile it says so and ends.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from storage.engine.engine import Engine, Operation, RocksEngine, Write
from storage.replication.log import Entry, Log, LogAway
from storage.replication.members import Report, member_id
from storage.replication.position import POSITION_KEY, Position, read_position
from storage.replication.records import (
    COMMIT,
    REBASE,
    RENEWAL,
    STEP_DOWN,
    TERM,
    Assembly,
    Record,
    Term,
    decode_operations,
)
from wire.errors import BasculeError, ConfigError, StorageDamaged, Unavailable


class NeedsBase(Unavailable):
    """What the store lacks is not in the log any more, or never was: it begins with another member's store."""


class WentApart(ConfigError):
    """This store went on without the log, and another member has led meanwhile: each has what the other has not."""


class OwnEngine(Engine, Protocol):
    """This node's own store, in the folder ``path``."""

    path: Path

    def sync(self) -> None:
        """Have all that was committed survive the loss of power."""


class Replica:
    """The store ``engine`` of data folder ``node``, at its ``position``. is_empty: it belongs to no log, and has nothing in it.

    synced: the position up to which not even a loss of power takes anything back.
    """

    def __init__(self, engine: OwnEngine, node: str) -> None:
        """Raises:
        StorageDamaged: it is not known where the store stands.
        Unavailable: the disk refuses.
        """
        self.engine = engine
        self.node = node
        self.position = self.synced = read_position(engine)
        self.is_empty = not self.position.log and next(engine.scan("meta", b"", b"\xff"), None) is None
        self.applied = 0
        self._assembly = Assembly()
        self._read_to = self.position.sequence  # a record's parts may be read and not complete
        self._refused = False  # the disk has; the store is opened anew before it takes anything

    @property
    def read_to(self) -> int:
        """The number of the last message that was taken."""
        return self._read_to

    def take(self, entry: Entry) -> Record | None:
        """Take the next message of the log; the record that was applied with it, if it completes one.

        Raises:
            NeedsBase: it does not follow what is here, or the log began with more than an empty store.
            StorageDamaged, ConfigError: it cannot be a record of this log, or of this version.
            Unavailable: the disk refuses; the same message may be taken again.
        """
        if entry.sequence != self._read_to + 1:
            self.refuse_foreign()
            raise NeedsBase("the log goes on behind what this store has", has=self._read_to, sequence=entry.sequence)
        found = self._assembly.take(entry)
        if found is not None:
            try:
                self.apply(found, decode_operations(found.body) if found.kind == COMMIT else [])
            except BasculeError:
                self._read_to = self.position.sequence  # from its first part on, again
                raise
        self._read_to = entry.sequence
        return found

    def apply(self, record: Record, operations: Sequence[Operation]) -> None:
        """Apply ``record``, whose ``operations`` are given; not synced, since the log has it, unless this node may go on without
        that.

        Raises:
            NeedsBase, StorageDamaged, ConfigError: it does not follow what is here.
            Unavailable: the disk refuses; what is here is as before, until ``reopen`` has found more.
        """
        self._put(operations, self._behind(record))
        self._read_to = record.sequence
        self.applied += 1

    # --- without the log ---

    def may_go_alone(self) -> bool:
        """Whether nobody else leads before this node has said that it leads no more, however long the log is away."""
        return self._may_go_alone(self.position)

    def _may_go_alone(self, position: Position) -> bool:
        return position.node == self.node and math.isinf(position.lease_s) and not (position.released or position.leaving)

    def commit_alone(self, operations: Sequence[Operation]) -> None:
        """Apply what the log has not, and have the disk keep it.

        Raises:
            Unavailable: as ``apply``.
        """
        position = self.position
        if position.alone:
            self._put(operations, position)
        else:
            since_ms = position.alone_since_ms or time.time_ns() // 1_000_000
            self._put(operations, replace(position, alone=True, alone_since_ms=since_ms))

    def look_over(self, shared: Log) -> Position:
        """Where the log ends, of which nothing is applied: the one record that this node had no answer for is in the store, or was
        promised to nobody.

        Raises:
            WentApart: another member has led meanwhile, or may.
            LogAway: it is not known, or the log ends before what this store has.
            StorageDamaged: a message of the log is damaged.
        """
        if self.position.node != self.node:
            raise WentApart("this store went on without the log as another member's: run it without the cluster, or move it away")
        found, assembly, (first, last) = self.position, Assembly(), shared.ends()
        read_to, unanswered = found.sequence, 0
        if last < read_to:
            raise LogAway("the log ends before what this store has: it was deleted, or is an older one", last=last, has=read_to)
        while entries := shared.read(read_to):
            for entry in entries:
                if entry.sequence != read_to + 1:
                    raise self._apart()
                read_to = entry.sequence
                record = assembly.take(entry)
                if record is not None:
                    found = self._passed(found, record)
                    unanswered += record.kind != REBASE
        if first > read_to + 1 or unanswered > 1:
            raise self._apart()
        if read_to < last:
            raise LogAway("the log was not read to its end", last=last, read=read_to)
        return replace(found, sequence=read_to)

    def _passed(self, found: Position, record: Record) -> Position:
        """``found`` behind ``record``, which has to be one that this node sent."""
        of_others = record.kind == STEP_DOWN or record.number != found.number + 1
        if record.kind == TERM:
            of_others = of_others or Term.decode(record.body).node != self.node
        elif record.term != found.term:
            of_others = True
        if of_others:
            raise self._apart()
        return replace(found, number=record.number, term=record.term, epoch=max(found.epoch, record.epoch))

    def _apart(self) -> WentApart:
        return WentApart(
            "this node went on without the log, and another member has led meanwhile: each has what the other has not."
            " Run this one without the cluster until its bridges have sent what waits, then move its store away",
            store=str(self.engine.path),
        )

    def rejoin(self, position: Position) -> None:
        """Stand at ``position``, that of the record which says that others begin anew with this store.

        Raises:
            Unavailable: as ``apply``.
        """
        self._put((), replace(position, alone=False, rebased=position.sequence))
        self._read_to, self._assembly = position.sequence, Assembly()

    def shared(self) -> None:
        """Another member has what was committed alone.

        Raises:
            Unavailable: as ``apply``.
        """
        self._put((), replace(self.position, alone_since_ms=0, rebased=0))

    def note_leaving(self) -> None:
        """This node is about to say that it leads no more; it never goes on without the log from here on, whatever became of that.

        Raises:
            Unavailable: as ``apply``.
        """
        self._put((), replace(self.position, leaving=True))

    def _put(self, operations: Sequence[Operation], position: Position) -> None:
        """Commit ``operations`` with the row of ``position``; synced, where power that is lost must not take it back."""
        alone = position.leaving or self._may_go_alone(position)  # nobody else might have what is acknowledged
        write = Write()
        write.promised = alone
        write.ops = [*operations, ("put", "meta", POSITION_KEY, position.encode())]
        try:
            self.engine.commit(write, sync=alone)
        except Unavailable:
            self._refused = True
            raise
        self.position = position
        if alone:
            self.synced = position

    # --- where it stands ---

    def refuse_foreign(self) -> None:
        """Refuse to go on with what others have on the log, where the store has something in it that is not of any log.

        Raises:
            ConfigError: so it is.
        """
        if not self.position.log and not self.is_empty:
            raise ConfigError(
                "this node's store has something in it that is not of the cluster's log: move it away to have the leader's",
                store=str(self.engine.path),
            )

    def reopen(self) -> None:
        """Open the store anew if its disk has refused something, and see where it stands.

        Raises:
            StorageDamaged, Unavailable: as at the beginning.
        """
        if not self._refused:
            return
        self.engine.reopen()
        self.position = read_position(self.engine)
        self._refused = False
        self._assembly = Assembly()
        self._read_to = self.position.sequence

    def sync(self) -> None:
        """Have the disk keep all that was applied."""
        position = self.position
        if position is not self.synced:
            try:
                self.engine.sync()
            except Unavailable:
                self._refused = True
                raise
            self.synced = position

    def report(self, role: str, at_ms: int, address: str) -> Report:
        """What its node says of itself, at ``at_ms``; ``address`` is where clients are to go while it leads."""
        position = self.position
        return Report(
            node=self.node,
            role=role,
            sequence=position.sequence,
            synced=self.synced.sequence,
            number=position.number,
            term=position.term,
            at_ms=at_ms,
            address=address,
        )

    def _behind(self, record: Record) -> Position:
        """Where the store stands once it has ``record``."""
        now = self.position
        if record.number != now.number + 1:
            raise StorageDamaged("a record of the log is missing", has=now.number, found=record.number)
        epoch = max(now.epoch, record.epoch)
        if record.kind == TERM:
            return self._begun(record, epoch)
        if record.term != now.term:
            raise StorageDamaged("a record of the log is of another leader's", term=now.term, found=record.term)
        if record.kind == STEP_DOWN:
            return replace(
                now, sequence=record.sequence, number=record.number, epoch=epoch, released=True, successor=record.body.decode()
            )
        if record.kind == REBASE:
            raise NeedsBase("the leader went on without the log for a while, and has more than that")
        if record.kind not in (COMMIT, RENEWAL):
            raise ConfigError("the log has a record of a kind that this version does not know", kind=record.kind)
        return replace(now, sequence=record.sequence, number=record.number, epoch=epoch)

    def _begun(self, record: Record, epoch: int) -> Position:
        """Where the store stands once another leader, or its own node, has begun to lead."""
        term, now = Term.decode(record.body), self.position
        if not now.log and term.node != self.node:
            self.refuse_foreign()
            if term.based:
                raise NeedsBase("the log begins with a store that had something in it", log=term.log)
        if now.log and term.log != now.log:
            raise ConfigError("this store belongs to another log", store=now.log, found=term.log)
        goes_on = term.node == self.node == now.node  # what is here alone is so still
        return Position(
            alone_since_ms=now.alone_since_ms if goes_on else 0,
            rebased=now.rebased if goes_on else 0,
            log=term.log,
            sequence=record.sequence,
            number=record.number,
            term=record.term,
            leader=term.member,
            node=term.node,
            address=term.address,
            lease_s=term.lease_s,
            epoch=epoch,
        )


def open_replica(data_dir: Path) -> Replica:
    """That of this node, whose data are in ``data_dir``.

    Raises:
        StorageDamaged: the store is not what it was: it is no beginning of the log any more.
        Unavailable: the disk refuses.
    """
    engine = RocksEngine(data_dir / "store", begins=False)
    try:
        replica = Replica(engine, member_id(data_dir))
        alone = replica.position.alone or replica.position.rebased  # then it is as on one box: nobody has it whole
        if (engine.missing is not None or engine.kept) and not alone:
            raise StorageDamaged(
                "this member's store has lost what it had on disk: move it away, and it begins with what the leader has",
                store=str(engine.path),
                kept=engine.kept,
            )
        return replica
    except BasculeError:
        engine.close()
        raise
    except OSError as error:
        engine.close()
        raise Unavailable("the file that names this member cannot be read or made", error=str(error)) from error
