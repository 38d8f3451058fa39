"""A leader's duties besides its commits: it keeps its lease, says how far it is, trims the log, offers its store to who needs it.

Blocks; no actor, no thread.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from storage.replication.lease import LeaseFile, renewal_s
from storage.replication.lease import clock_s as lease_clock_s
from storage.replication.log import Log
from storage.replication.members import MemberReport, exchange_reports, keep_from
from storage.replication.replica import Replica
from storage.replication.replicated_engine import ReplicatedEngine
from wire.config_settings import ReplicationSettings
from wire.errors import Unavailable

SYNC_S = 1.0


class Leader:
    """engine: for the store. members: what each said the last time. successor: who is to lead next, if it is not to be anybody.

    offered: the base that others may begin with, and where it stands. log_error: why the log cannot be used; empty while it can.
    """

    def __init__(
        self,
        replica: Replica,
        shared: Log,
        settings: ReplicationSettings,
        lease: LeaseFile,
        clock: Callable[[], float] = lease_clock_s,
    ) -> None:
        """Raises:
        Replaced, Unavailable, StorageDamaged, ConfigError: as the engine.
        """
        self.engine = ReplicatedEngine(replica, shared, lease.hold, clock)
        self.members: dict[str, MemberReport] = {}
        self.successor = ""
        self.offered: tuple[str, int] = ("", 0)
        self.log_error = ""
        self.log_first = self.log_last = 0
        self._replica = replica
        self._log = shared
        self._settings = settings
        self._lease = lease
        self._clock = clock
        self._synced_s = clock()
        self._reported_s = 0.0

    @property
    def period_s(self) -> float:
        """How often ``tick`` is to be called."""
        return min(renewal_s(self._settings.lease_s), SYNC_S)

    @property
    def lease_left_s(self) -> float:
        """For how long nobody else leads."""
        return self._lease.left_s()

    def tick(self, wall_ms: int) -> None:
        """Do what is due.

        Raises:
            Replaced: another member leads.
            ConfigError: another node goes by this one's name.
        """
        now_s = self._clock()
        try:
            if now_s - self.engine.renewed_s >= renewal_s(self._settings.lease_s):
                self.engine.renew()
            if now_s - self._synced_s >= SYNC_S:
                self._synced_s = now_s
                self.engine.sync()
            if now_s - self._reported_s >= renewal_s(self._settings.lease_s):
                self._reported_s = now_s
                self._speak(wall_ms)
            self.log_error = ""
        except Unavailable as error:
            self.log_error = str(error.fields.get("error") or error.message)

    def offer(self, name: str, sequence: int) -> None:
        """A base of that name is there, at ``sequence``, or none (an empty one); others are told at the next look."""
        self.offered = (name, sequence if name else 0)
        self._reported_s = 0.0

    def begin_offer(self, sequence: int) -> None:
        """A base at ``sequence`` is being made; the log keeps what follows it from now on."""
        self.offered = ("", sequence)

    def choose(self, successor: str) -> None:
        """``successor`` is to lead next; empty: anybody."""
        self.successor = successor

    def wanted(self) -> str:
        """The member that an operator wants to lead, if it is level enough."""
        for member, report in self.members.items():
            if report.wants and report.node != self._replica.node and not report.needs_base and report.role == "standby":
                return member
        return ""

    def needs_base(self) -> bool:
        """Whether a member waits for a store to begin with, and none is offered that the log goes on from."""
        return self.base_is_needed() and (not self.offered[0] or self.offered[1] + 1 < self.log_first)

    def base_is_needed(self) -> bool:
        """Whether a member waits for one, offered or not."""
        return any(report.needs_base for report in self._others())

    def _others(self) -> list[MemberReport]:
        return [report for report in self.members.values() if report.node != self._replica.node]

    def _speak(self, wall_ms: int) -> None:
        settings = self._settings
        name, at = self.offered
        own = replace(self._replica.report("leader", wall_ms, settings.address), base=name, base_sequence=at)
        self.members = exchange_reports(self._log, settings.member, own)
        self.log_first, self.log_last = self._log.ends()
        waits = settings.trim.max_bytes is None or self._log.size_bytes() <= settings.trim.max_bytes
        first = keep_from(
            self.members.values(),
            synced=self._replica.synced.sequence,
            now_ms=wall_ms,
            max_age_s=settings.trim.max_age_s,
            waits=waits,
        )
        if first > self.log_first:
            self._log.trim(first)
            self.log_first = first
