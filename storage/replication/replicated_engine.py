"""The engine of a leader's store: a commit is first a record of the log, and then what this node's own disk has.

So the disk never has anything that the log has not: another node has all that was promised, and what this one lacks after a crash
it reads from the log. It need not sync for a promise.

replication.log-before-answer [P1]: what waits for a commit is told once a majority has its record.
replication.expected-sequence [P1, P2]: each record says behind which message it belongs, so a leader that was replaced adds none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import perf_counter

from storage.engine.commit_mark import Evidence
from storage.engine.engine import Family, Write
from storage.engine.store_identity import KnownStore
from storage.replication.lease import clock_s as lease_clock_s
from storage.replication.log import Behind, Log, LogAway
from storage.replication.records import COMMIT, RENEWAL, STEP_DOWN, Record, encode_operations, split
from storage.replication.replica import Replica
from wire.errors import BasculeError, StorageDamaged
from wire.status.store import RocksFigures

RENEWALS_MAX = 3  # for one answer


class Replaced(BasculeError):
    """Another member leads."""

    exit_status = 75


class ReplicatedEngine:
    """Over the store of ``replica``. It leads from the beginning, or there is none.

    held: is told until when this node leads, by ``clock``.
    """

    durable = True

    def __init__(
        self,
        replica: Replica,
        shared: Log,
        held: Callable[[float], None],
        clock: Callable[[], float] = lease_clock_s,
    ) -> None:
        """Read what the log has and the store lacks, and go on leading.

        Raises:
            Replaced: another member leads.
            Unavailable: the log cannot be used for now, or the disk refuses.
            StorageDamaged, ConfigError: the log and the store do not belong together.
        """
        self.replica = replica
        self.epoch = 0  # the highest of this node's that has to do with the store
        self.records = 0
        self.renewed_s = 0.0  # when the newest record of ours was sent
        self._engine = replica.engine
        self._log = shared
        self._held = held
        self._clock = clock
        self._until_s = 0.0  # we lead until then
        self._reads_on = False  # the log is read on before the next record
        self.read_on()
        self.renew()

    @property
    def missing(self) -> Evidence | None:
        return self._engine.missing

    @property
    def kept(self) -> str:
        return self._engine.kept

    @property
    def known(self) -> KnownStore:
        return self._engine.known

    # --- write ---

    def commit(self, write: Write, *, sync: bool) -> float:  # noqa: ARG002  # a majority has it
        """Put ``write`` on the log, then into the store; a majority has it, so it is always as if ``sync``."""
        began_s = perf_counter()
        if write.ops:
            self._append(COMMIT, encode_operations(write.ops), write)
        if write.promised:
            self._lead_still()
        write.committed()
        return perf_counter() - began_s

    def _lead_still(self) -> None:
        """Nobody is answered by a node that does not lead, be it that nothing was to be kept, or that it took long."""
        for _ in range(RENEWALS_MAX):
            if self._clock() < self._until_s:
                return
            self.renew()
        raise LogAway("the log takes longer than the lease lasts")

    def renew(self) -> None:
        """Say that this node still leads, where no commit has.

        Raises:
            Replaced, Unavailable: as ``commit``.
        """
        self._append(RENEWAL, b"", Write())

    def meet(self, epoch: int) -> None:
        """``epoch`` is the highest of this node's that has to do with the store."""
        self.epoch = epoch

    def step_down(self, successor: str = "") -> None:
        """Say that this node leads no more; it may have sent nothing that is not committed, and must send nothing from now on.

        Raises:
            Replaced, Unavailable: as ``commit``.
        """
        self._hold(0.0)
        self._append(STEP_DOWN, successor.encode(), Write())

    def read_on(self) -> None:
        """Apply what the log has and this store lacks: what was appended without an answer.

        Raises:
            Replaced: another member leads.
            Unavailable: the log cannot be used for now, or the disk refuses.
        """
        replica = self.replica
        replica.reopen()
        while entries := self._log.read(replica.read_to):
            for entry in entries:
                replica.take(entry)
        self._reads_on = False
        self._see_who_leads()

    def _see_who_leads(self) -> None:
        replica, position = self.replica, self.replica.position
        if position.node != replica.node or position.released:
            self._hold(0.0)
            raise Replaced("another member leads", leader=position.leader, term=position.term)

    def _append(self, kind: int, body: bytes, write: Write) -> None:
        if self._reads_on:
            self.read_on()
        self._see_who_leads()  # or has stepped down
        replica, sent_s = self.replica, self._clock()
        position = replica.position
        made = Record(kind, position.term, position.number + 1, self.epoch, body)
        self._reads_on = True  # until it is known what became of it
        try:
            sequence = self._log.append(split(made, self._log.part_bytes), replica.read_to)
        except Behind as error:
            self.read_on()  # raises, if it was another member that went on
            if self._log.ends()[1] < replica.read_to:
                raise LogAway("the log ends before what this store has: it was deleted, or is an older one") from error
            raise
        self.renewed_s = sent_s
        self._hold(sent_s + position.lease_s if kind != STEP_DOWN else 0.0)
        replica.apply(made.at(sequence), write.ops)
        self._reads_on = False
        self.records += 1

    def _hold(self, until_s: float) -> None:
        self._until_s = until_s
        self._held(until_s)

    def sync(self) -> None:
        """Have this node's disk keep what it has: up to there the log may be trimmed."""
        self.replica.sync()

    # --- what the store below does ---

    def get(self, family: Family, key: bytes) -> bytes | None:
        return self._engine.get(family, key)

    def scan(self, family: Family, start: bytes, stop: bytes) -> Iterator[tuple[bytes, bytes]]:
        return self._engine.scan(family, start, stop)

    def seek_before(self, family: Family, key: bytes, low: bytes) -> tuple[bytes, bytes] | None:
        return self._engine.seek_before(family, key, low)

    def tidy(self, kept_bytes: int, *, pressed: bool) -> None:
        self._engine.tidy(kept_bytes, pressed=pressed)

    def keep_evidence(self) -> str:
        """Keep it, and lead no more: what is damaged here others have, and nobody is to be told that it is lost.

        Raises:
            StorageDamaged: always.
        """
        raise StorageDamaged("this member's store is damaged: another one is to lead", kept=self._engine.keep_evidence())

    def flush(self) -> None:
        self._engine.flush()

    def checkpoint(self, path: str) -> None:
        self._engine.checkpoint(path)

    def figures(self) -> RocksFigures | None:
        return self._engine.figures()

    def free_bytes(self) -> int | None:
        return self._engine.free_bytes()

    def check_files(self, waiting: int | None = None) -> None:
        self._engine.check_files(waiting)

    def reserve(self, size_bytes: int) -> None:
        self._engine.reserve(size_bytes)

    def reopen(self) -> None:
        """Start afresh: the store is opened anew where it was its disk, and the log is read on."""
        self.read_on()
        self.replica.reopen()

    def close(self) -> None:
        self._engine.close()
