"""A cluster on one clock: members that crash, sleep and are cut off, clients that send again, and a log that loses answers.

One seed is one schedule. A member that waits for the log or its disk may be killed there, or sleep while the others go on.
``python -m tests.storage.replication.simulation SEED`` replays one, and tells what happens.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random

from tests.simulation.world import SimKilled
from tests.storage.replication.disk_double import Rows
from tests.storage.replication.judge import Judge, Violation
from tests.storage.replication.member import LEASE_S, Member
from tests.support.log_double import LANDED_UNANSWERED, LATE, LOST, Fate, Servers

STEPS = 220
HEALED_S = 60.0
CLIENTS = 2
_DEEP_MAX = 2
BEGAN_WITH: Rows = {("meta", b"of-old"): b"kept"}


class Cluster:
    """The schedule of ``seed``, over files in ``folder``."""

    def __init__(self, seed: int, folder: Path, *, tells: bool = False) -> None:
        self.now_s = 1000.0
        self.servers = Servers()
        self.chance = Random(seed)
        self._tells = tells
        self._deep = 0
        self._healed = False
        self._dies_at: dict[str, int] = {}  # member -> how many waits it lives through
        self._wakes: list[tuple[float, str]] = []
        based = self.chance.random() < 0.2
        self.judge = Judge(self.servers, BEGAN_WITH if based else {})
        count = self.chance.choice((2, 3, 3))
        self.members = [
            Member(
                f"m{place}",
                folder / f"m{place}",
                self.servers,
                self.judge,
                BEGAN_WITH if based and not place else {},
                lambda: self.now_s,
                Random(f"{seed}/{place}"),
            )
            for place in range(count)
        ]
        for member in self.members:
            member.peers = self.members
            member.disk.pause = self._disk_pause(member)
        self.servers.fate = self._fate
        self.servers.hidden = self._hidden
        self.servers.pause = self._pause
        self.based = based
        self.late_member = self.members[-1] if count == 3 and self.chance.random() < 0.4 else None
        self._acknowledged = dict.fromkeys(range(CLIENTS), 0)
        self._at: dict[int, Member] = {}
        self.trouble = self.chance.choice((0.0, 0.05, 0.15))

    # --- the whole ---

    def run(self) -> None:
        """Live through the schedule, then heal everything, and see that the cluster serves.

        Raises:
            Violation: a promise was broken.
        """
        for member in self.members:
            if member is not self.late_member and not (self.based and member is not self.members[0]):
                member.start()
        for turn in range(STEPS):
            self._turn()
            if turn == STEPS // 4:
                self._start_others()
            if turn == STEPS // 2:
                self.late_member = None
                self._start_others()
        self._heal()

    def _start_others(self) -> None:
        """The member that has something to begin the log with has done that."""
        for member in self.members:
            begins = not self.based or member is self.members[0] or len(self.judge.states) > 1
            if not member.up and member is not self.late_member and begins:
                member.start()

    def _turn(self) -> None:
        self._pass(self.chance.choice((0.01, 0.05, 0.2)))
        self._befall()
        if self.chance.random() < 0.3:
            self._serve()
        for _ in range(3):
            self._step(self.chance.choice(self.members))
        self._serve()

    def _heal(self) -> None:
        servers, until_s = self.servers, self.now_s + HEALED_S
        self._healed = True
        servers.away = servers.full = False
        servers.read_messages = 100
        servers.cut.clear()
        self._dies_at.clear()
        for member in self.members:
            member.sleeps_until_s, member.disk.refuses = 0.0, False
        wanted = {client: number + 3 for client, number in self._acknowledged.items()}
        while self.now_s < until_s:
            self._pass(0.05)
            self._start_others()
            for member in self.members:
                self._step(member)
            if any(self._acknowledged[client] < number for client, number in wanted.items()):
                self._serve()
            elif self._level():
                return
        raise Violation("alive", f"{self._acknowledged} of {wanted}, {[member.disk.position.number for member in self.members]}")

    def _level(self) -> bool:
        return all(member.disk.position.number >= len(self.judge.states) - 2 for member in self.members)

    # --- time ---

    def _pass(self, duration_s: float, *, arrives: float = 0.05) -> None:
        """Time goes by; what was late may arrive."""
        self._leases()
        self.now_s += duration_s
        if not self.servers.away:
            while self.servers.late and self.chance.random() < arrives:
                self.servers.land_late(self.chance.randrange(len(self.servers.late)))
        while self._wakes and self._wakes[0][0] <= self.now_s:
            _, what = self._wakes.pop(0)
            self._end(what)

    def _leases(self) -> None:
        self.judge.one_leads([member.name for member in self.members if member.lease.is_held()])

    def _step(self, member: Member) -> None:
        if not member.up or member.runs or member.sleeps_until_s > self.now_s:
            return
        self._does(member, member.step)

    def _does(self, member: Member, act: Callable[[], None]) -> None:
        member.runs = True
        led = member.leading
        try:
            act()
        except SimKilled:
            self._say(f"{member.name} dies while it waits")
            member.die(power=self.chance.random() < 0.5)
            self._later(self.chance.uniform(0.1, 2 * LEASE_S), f"start {member.name}")
        finally:
            member.runs = False
        if led != member.leading:
            self._say(f"{member.name} {'leads' if member.leading else 'leads no more'}")
        member.check()
        self._leases()

    def _serve(self) -> None:
        """Each client sends what it has no answer for to the member that it takes for the leader."""
        for client in range(CLIENTS):
            at = self._at.get(client)
            if at is None or not at.leading or not at.up or self.chance.random() < 0.02:
                leading = [member for member in self.members if member.leading and member.up]
                at = self._at[client] = self.chance.choice(leading or self.members)
            if at.runs or not at.up or not at.leading or at.sleeps_until_s > self.now_s:
                continue
            first = self._acknowledged[client] + 1
            wanted = [
                (client, number, self.chance.choice((0, 10, 400))) for number in range(first, first + self.chance.choice((1, 1, 3)))
            ]
            self._does(at, partial(at.serve, wanted))
            while (client, self._acknowledged[client] + 1) in self.judge.acknowledged and self.chance.random() < 0.7:
                self._acknowledged[client] += 1

    # --- what goes wrong ---

    def _fate(self, member: str, count: int) -> Fate:
        if self._healed or self.chance.random() >= self.trouble:
            return Fate()
        some = self.chance.randrange(count)
        kind = self.chance.choice(
            (LANDED_UNANSWERED, LOST, LATE, Fate(landed=some, answered=False), Fate(landed=some, late=True, answered=False))
        )
        self._say(f"{member} appends {count}: {kind}")
        return kind

    def _hidden(self) -> int:
        return 0 if self._healed or self.chance.random() > 0.05 else 2

    def _pause(self, member: str, moment: str) -> None:
        """``member`` waits at ``moment``: time goes by, and it may be the end of it."""
        self._waits(member)
        self._pass(0.001, arrives=0.5 if moment == "part" else 0.05)
        if self._healed:
            return
        if moment == "answer" and self.chance.random() < self.trouble / 4:  # and often it was the last one for a while
            self._sleeps_within(member, self.chance.uniform(0.5, 1.8))
            if self.chance.random() < 0.5:
                self._later(0.0005, f"cut {member}")
                self._later(2 * LEASE_S, f"uncut {member}")
        elif self.chance.random() < 0.01:
            self._sleeps_within(member, self.chance.uniform(0.2, 2.5 * LEASE_S))

    def _disk_pause(self, member: Member) -> Callable[[str], None]:
        def pause(moment: str) -> None:
            self._waits(member.name)
            if not self._healed and moment == "committed" and self.chance.random() < 0.005:
                self._sleeps_within(member.name, self.chance.uniform(0.2, 2.5 * LEASE_S))

        return pause

    def _waits(self, member: str) -> None:
        if member in self._dies_at:
            self._dies_at[member] -= 1
            if self._dies_at[member] < 0:
                del self._dies_at[member]
                raise SimKilled

    def _sleeps_within(self, member: str, duration_s: float) -> None:
        """It is stopped where it is, and the others go on."""
        if self._deep >= _DEEP_MAX:
            return
        self._deep += 1
        self._say(f"{member} sleeps for {duration_s:.1f} s where it is")
        until_s = self.now_s + duration_s
        try:
            while self.now_s < until_s:
                self._pass(0.1)
                for one in self.members:
                    self._step(one)
                self._serve()
        finally:
            self._deep -= 1
        self._say(f"{member} wakes")

    def _befall(self) -> None:
        """Something happens, or not."""
        if self.chance.random() >= 0.08:
            return
        member, servers, chance = self.chance.choice(self.members), self.servers, self.chance
        leading = [one for one in self.members if one.leading]
        if leading and chance.random() < 0.5:
            member = chance.choice(leading)
        what = chance.choice(("die", "die within", "sleep", "cut", "cut", "away", "full", "disk", "step down", "promote", "wipe"))
        if not member.up or member.runs:
            return
        self._say(f"{member.name}: {what}")
        if what == "die":
            member.die(power=chance.random() < 0.5)
            self._later(chance.uniform(0.1, 2 * LEASE_S), f"start {member.name}")
        elif what == "die within":
            self._dies_at[member.name] = chance.randrange(12)
        elif what == "sleep":
            member.sleeps_until_s = self.now_s + chance.uniform(0.5, 3 * LEASE_S)
            self._later(member.sleeps_until_s - self.now_s, f"asks {member.name}")
        elif what == "cut":
            servers.cut.add(member.name)
            self._later(chance.uniform(0.1, 3 * LEASE_S), f"uncut {member.name}")
        elif what in ("away", "full"):
            setattr(servers, what, True)
            self._later(chance.uniform(0.1, 2 * LEASE_S), what)
        elif what == "disk":
            member.disk.refuses = True
            self._later(chance.uniform(0.1, LEASE_S), f"disk {member.name}")
        elif what == "promote":
            member.wants = not member.leading
        elif what == "step down" and member.leader is not None:
            self._does(member, member.step_down)
        elif what == "wipe" and not member.leading and any(one.lease.is_held() for one in self.members if one is not member):
            member.wipe()
            member.start()

    def _later(self, delay_s: float, what: str) -> None:
        self._wakes.append((self.now_s + delay_s, what))
        self._wakes.sort()

    def _end(self, what: str) -> None:
        """Something is over."""
        if what in ("away", "full"):
            setattr(self.servers, what, False)
            return
        verb, name = what.split()
        member = next(one for one in self.members if one.name == name)
        if verb == "start" and not member.up:
            member.start()
        elif verb == "cut" and not self._healed:
            self.servers.cut.add(name)
        elif verb == "uncut":
            self.servers.cut.discard(name)
        elif verb == "asks" and member.up and not member.runs:
            self._does(member, lambda: self._asked_again(member))
        elif verb == "disk":
            member.disk.refuses = False

    def _asked_again(self, member: Member) -> None:
        """Its clients send once more what they had an answer to."""
        member.serve([(client, number, 0) for client, number in self._acknowledged.items() if number])

    def _say(self, text: str) -> None:
        if self._tells:
            sys.stdout.write(f"{self.now_s:9.3f} {text}; record {len(self.judge.states) - 1}\n")


def simulate(seed: int, folder: Path, *, tells: bool = False) -> Cluster:
    """Live through the schedule of ``seed``.

    Raises:
        Violation: a promise was broken.
    """
    cluster = Cluster(seed, folder, tells=tells)
    try:
        cluster.run()
    except Violation as violation:
        violation.add_note(f"replay it: python -m tests.storage.replication.simulation {seed}")
        raise
    finally:
        for member in cluster.members:
            member.lease.close()
    return cluster


def main(argv: list[str]) -> int:
    """Replay a seed."""
    with tempfile.TemporaryDirectory() as folder:
        cluster = simulate(int(argv[0]), Path(folder), tells=True)
    judge = cluster.judge
    sys.stdout.write(f"{len(judge.states) - 1} records, {judge.terms} terms, {len(judge.acknowledged)} acknowledged\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
