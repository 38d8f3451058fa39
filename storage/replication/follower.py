"""A member that follows: it applies what comes, knows how far it is, and says when it is to lead. Blocks; no actor, no thread.

replication.whole-before-lead [P1, P2]: nobody leads who has not applied all that is on the log.
replication.foreign-log-left-alone [P1, P2]: who has more than the log leads it never: it was deleted, or is an older one.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable

from storage.replication.lease import RENEWALS, Watch
from storage.replication.lease import clock_s as lease_clock_s
from storage.replication.log import Behind, Log
from storage.replication.records import TERM, Record, Term, split
from storage.replication.replica import NeedsBase, Replica
from wire.config_settings import ReplicationSettings
from wire.errors import ConfigError

log = logging.getLogger("bascule")

READ_WAIT_S = 0.2
STEPPED_DOWN_REST_S = 2.0  # others go first


class Follower:
    """Over ``replica``.

    behind: how many messages the log had, when it was looked at last, that are not here. needs_base: why the log alone does not do.
    """

    def __init__(
        self, replica: Replica, shared: Log, settings: ReplicationSettings, clock: Callable[[], float] = lease_clock_s
    ) -> None:
        self.replica = replica
        self.behind = 0
        self.needs_base = ""
        self.wants = False  # an operator has asked that this member leads
        self._log = shared
        self._settings = settings
        self._clock = clock
        self._watch = Watch(clock())
        self._short_since_s: float | None = None  # the log has ended before what is here
        self._short_looks = 0

    def follow(self) -> int:
        """Apply some of what the log has; how many messages it was.

        Raises:
            LogAway: the log cannot be used for now.
            StorageDamaged, ConfigError: the log and the store do not belong together.
            Unavailable: the disk refuses.
        """
        replica = self.replica
        replica.reopen()
        entries = self._log.read(replica.read_to, wait_s=READ_WAIT_S)
        try:
            for entry in entries:
                replica.take(entry)
                self._watch.on_heard(self._clock())
                self.needs_base = ""
        except NeedsBase as error:
            self.needs_base = str(error)
            self._watch.on_heard(self._clock())
            return 0
        return len(entries)

    def poll(self) -> None:
        """See how far it is, and whether the log still has what it lacks.

        Raises:
            LogAway: the log cannot be used for now.
            ConfigError: it is not the log that this store has followed, or not the whole of it.
        """
        first, last = self._log.ends()
        self._refuse_short(last)
        self.behind = max(0, last - self.replica.read_to)
        if last > self.replica.read_to and first > self.replica.read_to + 1:
            self.replica.refuse_foreign()
            self.needs_base = "the log does not reach back to what this store has"

    def _refuse_short(self, last: int) -> None:
        """A server that has just begun to answer for the log may not know its end; it does within a lease."""
        if last >= self.replica.read_to:
            self._short_since_s, self._short_looks = None, 0
            return
        self._short_looks += 1
        if self._short_since_s is None:
            self._short_since_s = self._clock()
        elif self._short_looks > RENEWALS and self._clock() - self._short_since_s >= self._settings.lease_s:
            raise ConfigError(
                "the log ends before what this store has: it was deleted, or is an older one", has=self.replica.read_to, last=last
            )

    def silent_s(self) -> float:
        """For how long nobody who leads has said anything."""
        return self._watch.silent_s(self._clock())

    def is_due(self) -> bool:
        """Whether nobody leads, as far as is known here."""
        position, now_s = self.replica.position, self._clock()
        if self.needs_base:
            return False
        if not position.log:  # of an empty log; who has something to begin it with goes first
            return not self.replica.is_empty or self._watch.is_over(self._settings.lease_s, now_s)
        mine = position.node == self.replica.node
        if position.released:
            if mine:
                return self._watch.silent_s(now_s) >= STEPPED_DOWN_REST_S
            return position.successor in ("", self._settings.member) or self._watch.is_over(self._settings.lease_s, now_s)
        return mine or self._watch.is_over(position.lease_s, now_s)

    def ask_to_lead(self) -> None:
        """An operator asks that this member leads; whoever leads is told by the next report."""
        self.wants = True

    def lead(self, epoch: int) -> bool:
        """Try to be the one that leads; whether this member does. ``epoch``: the highest of this node's processes so far.

        Raises:
            LogAway: it is not known; if it does, that is on the log.
        """
        replica, position = self.replica, self.replica.position
        last = self._log.ends()[1]
        if last != replica.read_to or (last and not position.log):
            return False
        term = Term(
            position.log or os.urandom(8).hex(),
            self._settings.member,
            replica.node,
            self._settings.address,
            self._settings.lease_s,
            not position.log and not replica.is_empty,
        )
        record = Record(TERM, position.term + 1, position.number + 1, max(epoch, position.epoch), term.encode())
        try:
            sequence = self._log.append(split(record, self._log.part_bytes), replica.read_to)
        except Behind:
            return False
        replica.apply(record.at(sequence), ())
        replica.sync()
        return True
