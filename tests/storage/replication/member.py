"""A member of the simulated cluster: the real follower, leader and engine, over doubles of its disk and of the log.

The work of the actors around them (``actors/store``) is done here in few words: tell, sync, lead, offer a base and begin with one.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

from storage.replication.follower import Follower
from storage.replication.leader import Leader
from storage.replication.lease import RENEWALS, LeaseFile
from storage.replication.log import LogAway
from storage.replication.members import MemberReport, read_reports
from storage.replication.replica import Replica
from storage.replication.replicated_engine import Replaced
from tests.storage.replication.disk_double import DiskDouble, Rows, rows
from tests.storage.replication.judge import Judge, Violation
from tests.storage.replication.shelf import Shelf
from tests.support.log_double import LogDouble, Servers
from wire.config_settings import ReplicationSettings, TrimSettings
from wire.errors import Unavailable

LEASE_S = 2.0
Clock = Callable[[], float]


class JudgedLog(LogDouble):
    """The log as a member sees it; the judge sees what it does."""

    def __init__(self, servers: Servers, member: Member, judge: Judge) -> None:
        super().__init__(servers, member.name)
        self._owner = member
        self._judge = judge

    def append(self, messages: Sequence[bytes], after: int) -> int:
        self._judge.sends(messages)
        return super().append(messages, after)

    def trim(self, before: int) -> None:
        self._judge.trims(before, self._owner.waited_for)
        super().trim(before)


class Member:
    """life: up or not; a process that is up follows or leads. runs: a step of it is under way. sleeps_until_s: it is stopped."""

    def __init__(
        self,
        name: str,
        folder: Path,
        servers: Servers,
        judge: Judge,
        began_with: Rows,
        clock: Clock,
        chance: Random,
    ) -> None:
        self.name = name
        self.node = f"node-{name}-0"
        self.disk = DiskDouble(chance)
        self.disk.install(began_with)
        self.began_with = began_with
        self.log = JudgedLog(servers, self, judge)
        folder.mkdir(exist_ok=True)
        self.lease = LeaseFile(folder, clock)
        self.lease.hold(0.0)
        self.up = self.runs = False
        self.wants = False
        self.sleeps_until_s = 0.0
        self.follower: Follower | None = None
        self.leader: Leader | None = None
        self.shelf: Shelf | None = None
        self.leading = False
        self.peers: list[Member] = []
        self._servers = servers
        self._judge = judge
        self._clock = clock
        self._settings = ReplicationSettings(
            servers=(),
            stream="s",
            member=name,
            lease_s=LEASE_S,
            trim=TrimSettings(max_bytes=None, max_age_s=None),
        )
        judge.disks[self.node] = self.disk
        self._reported_s = self._synced_s = 0.0
        self._members: dict[str, MemberReport] = {}
        self._checked = 0  # of the disk's changes
        self._was_waited_for = False  # the log keeps what this node lacks

    # --- what befalls it ---

    def start(self) -> None:
        """Its process begins."""
        self.up, self.leading = True, False

    def die(self, *, power: bool) -> None:
        """Its process dies, with the power or without."""
        if power:
            self.disk.lose_power()
        self.up = self.leading = False
        self._begin_again()

    def wipe(self) -> None:
        """Another box takes its place, with nothing on its disk."""
        self.die(power=False)
        self.disk.install({})
        self.began_with = {}
        self.node = f"{self.node}'"
        self._judge.disks[self.node] = self.disk
        self._was_waited_for = False

    def _leads_no_more(self) -> None:
        self.leading = False
        self._begin_again()

    def _begin_again(self) -> None:
        self.follower, self.leader, self.shelf = None, None, None

    # --- a step ---

    def step(self) -> None:
        """The next step of its process."""
        try:
            if self.leading:
                self._lead()
            else:
                self._follow()
        except Replaced:
            self._leads_no_more()
        except Unavailable:  # tried again with the next step
            pass

    def _follow(self) -> None:
        if self.follower is None:
            self.disk.reopen()
            self.follower = Follower(Replica(self.disk, self.node), self.log, self._settings, self._clock)
            self._was_waited_for &= self.node == self._told_node()
        follower, now_s = self.follower, self._clock()
        follower.wants = self.wants
        follower.follow()
        if now_s - self._synced_s >= 1.0:
            self._synced_s = now_s
            follower.replica.sync()
        if now_s - self._reported_s >= LEASE_S / RENEWALS:
            self._reported_s = now_s
            follower.poll()
            self._tell(follower)
        if follower.needs_base:
            if self._was_waited_for:
                raise Violation(
                    "replication.trimmed-when-kept", f"{self.name} has told where it is, and the log has gone on without"
                )
            self._seek_base(follower)
        elif follower.is_due() and follower.lead(1):
            follower.replica.sync()
            self.leading, self.wants = True, False
            self._begin_again()

    def _tell(self, follower: Follower) -> None:
        replica, needs_base = follower.replica, bool(follower.needs_base)
        own = self._report("standby", replica)
        own = MemberReport(**{name: getattr(own, name) for name in MemberReport.__dataclass_fields__} | {"needs_base": needs_base})
        self.log.report(self.name, own.encode())
        self._was_waited_for = not needs_base and bool(replica.position.log)
        self._members = read_reports(self.log.reports())

    def _report(self, role: str, replica: Replica) -> MemberReport:
        return MemberReport(
            node=self.node,
            role=role,
            sequence=replica.position.sequence,
            synced=replica.synced.sequence,
            number=replica.position.number,
            term=replica.position.term,
            at_ms=self._wall_ms(),
            wants=self.wants,
        )

    def _seek_base(self, follower: Follower) -> None:
        offers = [report for report in self._members.values() if report.base]
        found = max(offers, key=lambda report: report.base_sequence, default=None)
        if found is None or found.base_sequence <= follower.replica.position.sequence or found.base not in self._servers.objects:
            return
        content = self._servers.objects[found.base]
        self.log.ends()  # takes time, or fails
        self.disk.install(_unpacked(content))
        self.follower = None

    def _lead(self) -> None:
        if self.leader is None:
            self.lease.hold(0.0)
            self.disk.reopen()
            replica = Replica(self.disk, self.node)
            self.leader = Leader(replica, self.log, self._settings, self.lease, self._clock)
            if self.lease.is_held():
                self._judge.leads(self.name, self.disk)
            self.shelf = Shelf(self.leader.engine)
        leader = self.leader
        leader.tick(self._wall_ms())
        if leader.lease_left_s <= 0:
            raise Replaced("the lease has ended")
        if wanted := leader.wanted():
            self.step_down(wanted)
        elif leader.needs_base():
            self._offer(leader)
        elif leader.offered[0] and not leader.base_is_needed():
            self._servers.objects.clear()
            leader.offered = ("", 0)

    def _offer(self, leader: Leader) -> None:
        sequence = leader.engine.replica.position.sequence
        content = rows(self.disk)
        leader.begin_offer(sequence)
        try:
            self.log.ends()
        except LogAway:
            leader.offered = ("", 0)
            raise
        name = f"{self.node}-at-{sequence}"
        self._servers.objects = {name: _packed(content)}
        leader.offered = (name, sequence)

    def step_down(self, successor: str = "") -> None:
        """Let another lead."""
        leader = self.leader
        if leader is not None and leader.lease_left_s > 0:
            try:
                leader.engine.sync()
                leader.engine.step_down(successor)
            except (Unavailable, Replaced):
                pass
        self._leads_no_more()

    def serve(self, wanted: Sequence[tuple[int, int, int]]) -> None:
        """Clients send messages: (client, number, how large)."""
        shelf, node, judge, lease, leader = self.shelf, self.node, self._judge, self.lease, self.leader
        if shelf is None or leader is None:
            return

        def told(client: int, number: int) -> Callable[[], None]:
            return lambda: judge.acknowledges(node, (client, number), held=lease.is_held())

        try:
            for client, number, payload_bytes in wanted:
                shelf.put(client, number, payload_bytes, told(client, number))
            shelf.commit()
        except Replaced:
            self._leads_no_more()

    # --- for the judge ---

    def check(self) -> None:
        """Its store is what the log says."""
        if self._checked != self.disk.changes:
            self._checked = self.disk.changes
            self._judge.holds(self.name, self.disk, self.began_with)

    def waited_for(self) -> dict[str, int]:
        """Up to where each has the log on its disk that this leader has heard of, and waits for."""
        assert self.leader is not None
        heard = self.leader.members
        found = {
            peer.name: peer.disk.synced_position.sequence
            for peer in self.peers
            if peer.name in heard and heard[peer.name].node == peer.node and not heard[peer.name].needs_base
        }
        return found | {f"the base of {name}": report.base_sequence for name, report in heard.items() if report.base_sequence}

    def _told_node(self) -> str:
        reports = read_reports(self._servers.reports)
        return reports[self.name].node if self.name in reports else ""

    def _wall_ms(self) -> int:
        return int(self._clock() * 1000)


def _packed(content: Rows) -> bytes:
    return repr(content).encode()


def _unpacked(packed: bytes) -> Rows:
    found: Rows = ast.literal_eval(packed.decode())
    return found
