"""Promises of a cluster, judged from the log's whole history: trimming, crashes and partitions do not change what was."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from storage.replication.log import Entry
from storage.replication.records import COMMIT, HEAD_BYTES, STEP_DOWN, TERM, Record, RecordAssembly, Term, decode_operations
from tests.storage.replication.disk_double import DiskDouble, Rows, rows
from tests.storage.replication.shelf import read_row, read_shelf
from tests.support.log_double import Servers

Number = tuple[int, int]  # of a client, of a message


class Violation(BaseException):
    """A promise was broken. No product code may catch it."""

    def __init__(self, rule: str, text: str) -> None:
        super().__init__(f"{rule}: {text}")
        self.rule = rule


class Judge:
    """Reads the log beside all members.

    states: what a store holds after each record; the first is what it began with. acknowledged: what clients were told.
    """

    def __init__(self, servers: Servers, began_with: Rows) -> None:
        self.states: list[Rows] = [began_with]
        self.acknowledged: set[Number] = set()
        self.leader = ""  # the node that led last, as of the log
        self.terms = 0
        self.disks: dict[str, DiskDouble] = {}  # of each node
        self._sent: set[bytes] = set()
        self._on_log: set[Number] = set()
        self._assembly = RecordAssembly()
        self._servers = servers
        servers.landed = self._landed

    # --- the log ---

    def sends(self, messages: Sequence[bytes]) -> None:
        """A member sends the messages of a record."""
        self._sent.add(b"".join(message[HEAD_BYTES:] for message in messages))

    def _landed(self, entry: Entry) -> None:
        record = self._assembly.take(entry)
        if record is None:
            return
        if record.body not in self._sent:
            raise Violation("replication.record-of-its-own-parts", f"nobody sent what record {record.number} says")
        if record.number != len(self.states):
            raise Violation("replication.expected-sequence", f"record {record.number} follows record {len(self.states) - 1}")
        if record.kind == TERM:
            self.leader, self.terms = Term.decode(record.body).node, self.terms + 1
        elif record.term != self.terms:
            raise Violation("replication.expected-sequence", f"a record of term {record.term} in term {self.terms}")
        if record.kind == STEP_DOWN:
            self.leader = ""
        self.states.append(self._after(record))

    def _after(self, record: Record) -> Rows:
        if record.kind != COMMIT:
            return self.states[-1]
        content = dict(self.states[-1])
        for operation, family, key, value in decode_operations(record.body):
            assert operation == "put", "the shelf does nothing else"
            content[family, key] = value
            if family == "msg":
                self._on_log.add(read_row(value))
        return content

    # --- members ---

    def acknowledges(self, node: str, number: Number, *, held: bool) -> None:
        """``node`` tells a client that ``number`` is kept."""
        if self.leader != node:
            raise Violation(
                "replication.no-word-without-lease", f"{node} acknowledges {number}, and {self.leader or 'nobody'} leads"
            )
        if not held:
            raise Violation("replication.no-word-without-lease", f"{node} acknowledges {number} without a lease")
        if number not in self._on_log:
            raise Violation("replication.log-before-answer", f"{node} acknowledges {number}, which the log has not")
        self.acknowledged.add(number)

    def holds(self, member: str, disk: DiskDouble, began_with: Rows) -> None:
        """The store of ``member`` is the prefix of the log that it says it is, and nothing was applied twice."""
        position = disk.position
        if not position.log:
            if rows(disk) != began_with:
                raise Violation("replication.log-before-answer", f"{member} has what no record brought")
            return
        if position.number >= len(self.states) or rows(disk, position=False) != self.states[position.number]:
            raise Violation("replication.log-before-answer", f"the store of {member} is not the log up to record {position.number}")
        if any(later != earlier + 1 for earlier, later in zip(disk.numbers, disk.numbers[1:], strict=False)):
            raise Violation("replication.applied-once", f"{member} has applied records {disk.numbers[-5:]}")

    def leads(self, member: str, disk: DiskDouble) -> None:
        """``member`` begins to lead: what was acknowledged is there, once and in order (P1, P2, P4)."""
        shelf = read_shelf(rows(disk))
        if missing := self.acknowledged - set(shelf):
            raise Violation("P1", f"{member} leads without {sorted(missing)}")
        for client in {client for client, _ in shelf}:
            numbers = [number for one, number in shelf if one == client]
            if numbers != list(range(1, len(numbers) + 1)):
                raise Violation("P2", f"{member} leads with {numbers} of client {client}")

    def one_leads(self, holders: list[str]) -> None:
        """These hold a lease now."""
        if len(holders) > 1:
            raise Violation("replication.lease-before-take-over", f"{' and '.join(holders)} lead")

    def trims(self, before: int, waited_for: Callable[[], dict[str, int]]) -> None:
        """The log is trimmed; ``waited_for`` says up to where each member has it on its disk."""
        for member, synced in waited_for().items():
            if before > synced + 1:
                raise Violation("replication.trimmed-when-kept", f"trimmed below {before}, and {member} has it up to {synced}")
