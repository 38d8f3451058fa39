"""Faults of one run of the random faults, drawn from one seed. Pure: ``troubles`` does it."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

PROCESSES = ("clients", "store", "bridge")
KILLS = 10  # SIGKILLs a run, at least
FLAPS = 8  # broken links a run of a flapping link, at least
PAUSE_S = (0.1, 0.6)  # between two faults
FLAP_PAUSE_S = (0.2, 0.9)  # so that the remote has sent something again by then
HANG_S = 3.0  # longer than the heartbeat timeout of ``test_random_faults``; who only starts is given longer, and goes on then

# Possible faults, and how often each comes beside the others. The first five count as kills.
_WEIGHTS = {
    "kill": 38,
    "kill together": 14,
    "kill supervisor": 7,
    "kill remote": 8,
    "kill twice": 5,  # and again while it starts
    "stop": 8,
    "hang": 3,
    "end remote": 4,
    "suspend remote": 3,
    "cut": 6,
    "tear": 6,
    "stall": 5,
    "abandon": 4,
    "delay": 4,
    "cut near": 3,
    "tear near": 3,
}
# The same where it is the link that flaps, and processes and the whole node die now and then.
_FLAPPING = {
    "cut": 24,
    "tear": 30,
    "abandon": 5,
    "stall": 3,
    "delay": 8,
    "kill": 10,
    "kill together": 4,
    "kill supervisor": 8,
    "stop": 4,
}
Thinning = tuple[str, Any]  # keys of a rule: a name, and what it says
THINNINGS: tuple[Thinning, ...] = (("keep_last", True), ("only", {"one_per": "1s"}))  # no payload comes twice, so none is unchanged

_KILLS = ("kill", "kill together", "kill supervisor", "kill remote", "kill twice")
_REMOTE = ("kill remote", "end remote", "suspend remote")
_LINK = ("cut", "tear", "stall", "abandon", "delay")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """At ``at_s`` after the start ``what`` befalls ``processes``, the remote or a link, for ``for_s``.

    A tear comes after ``size_bytes``.
    """

    at_s: float
    what: str
    processes: tuple[str, ...] = ()
    for_s: float = 0.0
    size_bytes: int = 0

    def __str__(self) -> str:
        words = [f"{self.at_s:6.3f} s  {self.what}", *self.processes]
        if self.for_s:
            words.append(f"for {self.for_s:.3f} s")
        if self.what.startswith("tear"):
            words.append(f"after {self.size_bytes} bytes")
        return " ".join(words)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One run. ``stock``: the remote has Mosquitto's own limits. ``snapshots``: it saves now and then, not each change.

    rate: messages a second for the remote; None: any number. provenance: of the rule; payloads stay as they were published. urgent:
    what has QoS 2 has a lane of its own. link_state: the bridge tells the remote of its link. live_first: there is a lane beside a
    backlog. thinning: what the rule of QoS 1 says of that, if it does. brings: a rule that comes while all this goes on brings
    what was retained before it. again: what has left is sent again at the end, and a file of what waits is imported. shared: two
    lanes share what the remote publishes; not where it starts again, since Mosquitto 2.0 has forgotten then what is shared, until a
    lane says so anew; nor beside a live lane.
    """

    seed: int
    protocol: str
    on_session_loss: str
    remote_dies: bool
    stock: bool
    snapshots: bool
    faults: tuple[Fault, ...]
    rate: int | None = None
    provenance: str = "none"
    urgent: bool = False
    link_state: bool = False
    live_first: bool = False
    thinning: Thinning | None = None
    brings: bool = False
    again: bool = False
    shared: bool = False

    def __str__(self) -> str:
        remote = (
            f"remote{' killed at times' * self.remote_dies}{', stock limits' * self.stock}{', saves now and then' * self.snapshots}"
        )
        flags = ("urgent", "link_state", "live_first", "brings", "again", "shared")
        options = f"rate {self.rate}, provenance {self.provenance}, thinning {self.thinning}"
        options += "".join(f", {flag}" for flag in flags if getattr(self, flag))
        head = f"seed {self.seed}: {self.protocol}, on_session_loss {self.on_session_loss}, {options}, {remote}"
        return "\n  ".join([head, *map(str, self.faults)])


def plan_of(seed: int) -> Plan:
    """The plan of ``seed``: protocol and policy alternate with it, the rest is drawn."""
    chance = random.Random(seed)
    remote_dies = chance.random() < 0.5
    rate = random.Random(f"rate {seed}").choice((None, None, None, 400))  # more than is published, less than follows a break
    live_first = _chosen("live first", seed)
    provenance = random.Random(f"bridge {seed}").choice(("none", "none", "user-properties"))
    stock = remote_dies and chance.random() < 0.5
    snapshots = remote_dies and chance.random() < 0.5
    faults = tuple(_faults(chance, _WEIGHTS, remote_dies=remote_dies))
    stays = not remote_dies and all(fault.what != "end remote" for fault in faults)
    return Plan(
        seed=seed,
        protocol=("mqtt311", "mqtt5")[seed % 2],
        on_session_loss=("assume-delivered", "republish")[seed // 2 % 2],
        remote_dies=remote_dies,
        stock=stock,
        snapshots=snapshots,
        faults=faults,
        rate=rate,
        provenance=provenance if seed % 2 else "none",  # MQTT 3.1.1 has no properties
        urgent=_chosen("urgent", seed),
        link_state=_chosen("link state", seed),
        live_first=live_first,
        thinning=random.Random(f"thinning {seed}").choice((None, None, *THINNINGS)),
        brings=_chosen("brings", seed),
        again=_chosen("again", seed),
        shared=stays and not live_first and _chosen("shares", seed),
    )


def _chosen(option: str, seed: int) -> bool:
    return random.Random(f"{option} {seed}").random() < 0.4


def flapping_plan_of(seed: int) -> Plan:
    """The plan of ``seed`` for a remote that lives while the link to it flaps; half of the time it has Mosquitto's own limits."""
    chance = random.Random(seed)
    return Plan(
        seed=seed,
        protocol=("mqtt311", "mqtt5")[seed % 2],
        on_session_loss="assume-delivered",
        remote_dies=False,
        stock=bool(seed // 2 % 2),
        snapshots=False,
        faults=tuple(_faults(chance, _FLAPPING, remote_dies=False)),
    )


def _faults(chance: random.Random, weights: dict[str, int], *, remote_dies: bool) -> list[Fault]:
    """Until there are enough of what the weights are about."""
    faults: list[Fault] = []
    at_s, kills, flaps, remote_free_s, link_free_s = 0.0, 0, 0, 0.0, 0.0
    flapping = weights is _FLAPPING
    while flaps < FLAPS if flapping else kills < KILLS:
        at_s += chance.uniform(*(FLAP_PAUSE_S if flapping else PAUSE_S))
        what = chance.choices(list(weights), list(weights.values()))[0]
        for_s = chance.uniform(0.05, 0.5)
        barred = what == "kill remote" and not remote_dies
        if barred or (what in _REMOTE and at_s < remote_free_s) or (what in _LINK and at_s < link_free_s):
            what = "kill"  # one trouble at a time for the remote, and for its link
        processes: tuple[str, ...] = ()
        if what in ("kill", "kill twice", "stop", "hang"):
            processes = (chance.choice(PROCESSES),)
        elif what == "kill together":
            processes = tuple(chance.sample(PROCESSES, chance.randint(2, len(PROCESSES))))
        if what in _REMOTE:
            remote_free_s = at_s + for_s
        elif what in _LINK:
            link_free_s = at_s + for_s
        lasts = what not in (*_KILLS, "tear", "abandon", "tear near") or what == "kill remote"
        faults.append(
            Fault(
                at_s=at_s,
                what=what,
                processes=processes,
                for_s=HANG_S if what == "hang" else for_s if lasts else 0.0,
                size_bytes=chance.randint(1, 3000) if what.startswith("tear") else 0,
            )
        )
        flaps += what in _LINK
        kills += 2 if what == "kill twice" else len(processes) or 1 if what in _KILLS else 0
    return faults
