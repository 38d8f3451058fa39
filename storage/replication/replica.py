"""A store that follows the log: records are applied in their order, each with the position that it brings.

replication.applied-once [P2, P4]: a record is applied if it is the one that follows what the store has, and never else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from storage.engine.engine import Engine, Operation, RocksEngine, Write
from storage.replication.log import Entry
from storage.replication.members import MemberReport, member_id
from storage.replication.position import POSITION_KEY, Position, read_position
from storage.replication.records import (
    COMMIT,
    RENEWAL,
    STEP_DOWN,
    TERM,
    Record,
    RecordAssembly,
    Term,
    decode_operations,
)
from wire.errors import BasculeError, ConfigError, StorageDamaged, Unavailable


class NeedsBase(Unavailable):
    """Records that the store lacks are not in the log any more, or never were: it begins with another member's store."""


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
        self._assembly = RecordAssembly()
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
        """Apply ``record``, whose ``operations`` are given; not synced, since the log has it.

        Raises:
            NeedsBase, StorageDamaged, ConfigError: it does not follow what is here.
            Unavailable: the disk refuses; what is here is as before, until ``reopen`` has found more.
        """
        self._put(operations, self._behind(record))
        self._read_to = record.sequence
        self.applied += 1

    def _put(self, operations: Sequence[Operation], position: Position) -> None:
        """Commit ``operations`` with the row of ``position``."""
        write = Write()
        write.extend(operations)
        write.put("meta", POSITION_KEY, position.encode())
        try:
            self.engine.commit(write, sync=False)
        except Unavailable:
            self._refused = True
            raise
        self.position = position

    # --- where it stands ---

    def refuse_foreign(self) -> None:
        """Refuse to go on with what others have on the log, where the store has something in it that is not of any log.

        Raises:
            ConfigError: so it is.
        """
        if not self.position.log and not self.is_empty:
            raise ConfigError(
                "this node's store has something in it that is not of the cluster's log;"
                " bascule run CONFIG --new-store keeps it aside, and takes the leader's",
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
        self._assembly = RecordAssembly()
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

    def report(self, role: str, at_ms: int, address: str) -> MemberReport:
        """The node's report of itself, at ``at_ms``; ``address`` is where clients are to go while it leads."""
        position = self.position
        return MemberReport(
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
        """The position of the store once it has ``record``."""
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
        if record.kind not in (COMMIT, RENEWAL):
            raise ConfigError("the log has a record of a kind that this version does not know", kind=record.kind)
        return replace(now, sequence=record.sequence, number=record.number, epoch=epoch)

    def _begun(self, record: Record, epoch: int) -> Position:
        """The position of the store once another leader, or its own node, has begun to lead."""
        term, now = Term.decode(record.body), self.position
        if not now.log and term.node != self.node:
            self.refuse_foreign()
            if term.based:
                raise NeedsBase("the log begins with a store that had something in it", log=term.log)
        if now.log and term.log != now.log:
            raise ConfigError("this store belongs to another log", store=now.log, found=term.log)
        return Position(
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
        if engine.missing is not None or engine.kept:
            raise StorageDamaged(
                "this member's store has lost what it had on disk;"
                " bascule run CONFIG --new-store keeps it aside, and takes the leader's",
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
