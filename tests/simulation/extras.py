"""Further decisions of a seed besides ``plan``: commands of an operator, a second address of the remote, changes of the
configuration.

Drawn by chance of its own, so that the rest of a plan stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from tests.simulation.changes import LIVE, RECONFIGURE
from tests.simulation.rules import SETS
from wire.exchange.qos2_window import UNKNOWN

if TYPE_CHECKING:
    from tests.simulation.plan import Shape

LEVEL_4 = 4
Step = tuple[float, str, str, float]  # when, kind, target, amount: see ``control.py`` and ``faults.py``

_COMMANDS = (
    ("purge:",),
    ("purge:0",),
    ("purge:in-flight",),
    ("cut", "purge:", "kill"),
    ("cut", "purge:in-flight", "kill"),
    ("stall", "purge:in-flight"),
    ("stall", "purge:", "session"),
    ("disk", "purge:", "kill"),
    ("disk", "purge:in-flight"),
    ("reject", "replay"),
    ("reject", "replay", "kill"),
    ("reject", "kill", "replay", "replay"),
    ("reject", "disk", "replay", "kill"),
    ("reject", "replay", "power"),
    ("reject", "purge:dead", "replay"),
    ("reject", "replay", "reject", "replay"),
    ("pause", "purge:", "kill"),
    ("restart-bridge", "cut"),
)

_CHANGES = (
    ("refuse", "bridge no", "bridge yes"),
    ("refuse", "bridge no", "bridge yes"),
    ("stall", "bridge no", "bridge yes"),
    ("stall", "bridge no", "session", "bridge yes"),
    ("cut", "bridge no", "kill", "bridge yes"),
    ("bridge no",),
    ("bridge no", "power", "bridge yes"),
    ("reject", "bridge no", "bridge yes", "replay"),
    ("refuse", "bridge no", "purge:", "bridge yes"),
    ("refuse", "lanes"),
    ("stall", "lanes", "lanes"),
    ("lanes", "cut", "kill", "lanes"),
    ("lanes", "refuse", "bridge no", "bridge yes", "lanes"),
    ("refuse", "rule renamed"),
    ("stall", "rule renamed", "kill", "rule plant"),
    ("refuse", "limit"),
    ("limit", "stall", "limit"),
    ("retention", "kill", "retention"),
    ("stall", "retention", "purge:", "retention", "power"),
    ("refuse", "bridge no", "limit", "bridge yes"),
)


def reshape(rng: Random, shape: Shape) -> Shape:
    """``shape`` with what came later into the simulation."""
    second = rng.choice(("same", "other", "other")) if rng.random() < 0.15 else ""
    if rng.random() < 0.15:
        shape = replace(shape, packet_ids=rng.choice((16, 20, 30)))
    if rng.random() < 0.3:
        shape = replace(
            shape,
            retention_s=rng.choice((0.5, 3.0, 3600.0, 3600.0)),
            retention_max_bytes=rng.choice((1 << 30, 1 << 30, 2000, 300)),
            settlements_a_pass=rng.choice((1, 3, 2000)),
        )
    asked = rng.choice(("told", "told", "unknown")) if rng.random() < 0.3 and shape.level == LEVEL_4 else ""
    if asked == "unknown":
        shape = replace(shape, qos2_maximum=UNKNOWN)
    return replace(shape, second=second, asked=asked)


def failovers(rng: Random, span_s: float) -> Iterator[Step]:
    """Addresses that go down, in turn or at once, and processes that die meanwhile."""
    at_s = 0.25 + rng.random() * span_s
    for _ in range(rng.choice((1, 2, 3, 4))):
        yield at_s, "address-down", rng.choice("001"), rng.choice((0.3, 1.0, 4.0))
        if rng.random() < 0.3:
            yield _step(rng, at_s + rng.choice((0.001, 0.1, 0.4)), "kill", "")
        at_s += rng.choice((0.1, 0.5, 1.5))


def changes(rng: Random, span_s: float) -> Iterator[Step]:
    """The configuration changes, and what makes that interesting."""
    at_s = 0.3 + rng.random() * span_s
    for link in rng.choice(_CHANGES):
        kind, _, target = link.partition(":")
        yield _step(rng, at_s, kind, target)
        at_s += rng.choice((0.03, 0.4, 0.4, 1.0, 2.0))


def rule_changes(rng: Random, span_s: float) -> Iterator[Step]:
    """Other rules while messages wait, and again before they have gone; some are dead letters by then."""
    at_s = 0.3 + rng.random() * span_s
    kind = rng.choice(("refuse", "refuse", "stall", "reject"))
    yield _step(rng, max(0.25, at_s - rng.choice((0.1, 0.5))), kind, "")
    for _ in range(rng.choice((1, 1, 2, 3))):
        yield at_s, RECONFIGURE, f"rules {rng.choice(tuple(SETS))}", 0.1
        if rng.random() < 0.3:
            yield _step(rng, at_s + 0.2 + rng.random(), "kill", "")
        at_s += rng.choice((0.3, 1.0, 2.0, 4.0))
    if kind == "reject":
        yield _step(rng, at_s, "replay", "")


def lane_changes(rng: Random, span_s: float) -> Iterator[Step]:
    """Another number of lanes while messages wait, and again before they have gone; and lanes that are faster than others."""
    at_s = 0.3 + rng.random() * span_s
    yield max(0.25, at_s - rng.choice((0.1, 0.5))), "refuse", "", rng.choice((0.5, 2.0, 4.0))
    for _ in range(rng.choice((1, 1, 2, 3))):
        yield at_s, RECONFIGURE, f"lanes {rng.choice('123')}", 0.1
        for _ in range(rng.choice((0, 1, 1, 2))):
            bridge = "bridge:cloud:"
            target = rng.choice((f"{bridge}{rng.choice('012')}", f"{bridge}{rng.choice('012')}", "store", "supervisor"))
            yield at_s + 0.2 + rng.random() * rng.choice((0.3, 2.0)), "kill", target, float(rng.choice((0, 1, 2, 5, 8)))
        at_s += rng.choice((0.3, 1.0, 2.0, 4.0))


def shared(rng: Random, span_s: float) -> Iterator[Step]:
    """What befalls lanes that share a subscription: some are taken out, with what the remote keeps for them, and come back."""
    for _ in range(rng.choice((0, 0, 1, 2))):
        at_s = 0.3 + rng.random() * span_s
        yield at_s, rng.choice((RECONFIGURE, LIVE, LIVE)), f"lanes {rng.choice('123')}", 0.1
        for _ in range(rng.choice((0, 1, 2))):
            target = rng.choice(("bridge:cloud:1", "bridge:cloud:1", "bridge:cloud:0", "store", "supervisor"))
            yield at_s + rng.random() * rng.choice((0.1, 2.0, 6.0)), "kill", target, float(rng.choice((0, 1, 2, 5, 8)))
        if rng.random() < 0.4:
            yield _step(rng, at_s + rng.random() * 2.0, rng.choice(("session", "cut", "stall", "refuse", "disk", "power")), "")


def live_changes(rng: Random, span_s: float) -> Iterator[Step]:
    """Changes in the running node, close upon each other and upon what is broken."""
    at_s = 0.3 + rng.random() * span_s
    if rng.random() < 0.7:
        yield _step(rng, max(0.25, at_s - rng.choice((0.1, 0.5))), rng.choice(("refuse", "refuse", "stall", "reject")), "")
    for _ in range(rng.choice((1, 2, 2, 3, 4))):
        what = rng.choice(("rules", "rules", "lanes", "lanes", "limit", "retention", "bridge no", "bridge yes"))
        if what == "rules":
            yield at_s, LIVE, f"rules {rng.choice(tuple(SETS))}", 0.0
        else:
            _, _, target, _ = _step(rng, at_s, what, "")
            yield at_s, LIVE, target, 0.0
        for _ in range(rng.choice((0, 0, 1, 2))):
            target = rng.choice(("store", "store", "clients", "clients", "supervisor", "bridge:cloud:0", "bridge:cloud:1"))
            yield at_s + rng.choice((0.0005, 0.002, 0.01, 0.03, 0.2)), "kill", target, float(rng.choice((0, 0, 1, 2, 3, 5, 8)))
        if rng.random() < 0.2:
            yield at_s, "delay", rng.choice(("store", "clients")), rng.choice((0.05, 0.3))
        at_s += rng.choice((0.01, 0.1, 0.4, 1.0, 2.0))


def live_lane(rng: Random, span_s: float) -> Iterator[Step]:
    """A backlog comes about, and what leaves it or leaves beside it is held up, or dies."""
    at_s = 0.3 + rng.random() * span_s / 2
    yield at_s, rng.choice(("refuse", "stall")), "", rng.choice((0.5, 2.0, 4.0))
    for _ in range(rng.choice((0, 1, 1, 2, 3))):
        at_s += rng.random() * rng.choice((0.5, 2.0))
        kind = rng.choice(("kill", "kill", "kill", "cut", "slow-broker", "delay", "refuse", "power"))
        target = rng.choice(("bridge:cloud:live", "bridge:cloud:live", "bridge:cloud:0", "store", "clients"))
        if kind == "kill":
            yield at_s, kind, target, float(rng.choice((0, 1, 2, 5, 8, 13)))
        elif kind == "slow-broker":
            yield at_s, kind, "", 3.0
        elif kind == "delay":
            yield at_s, kind, target, rng.choice((0.3, 2.0))
        else:
            yield _step(rng, at_s, kind, "")


def retained(rng: Random, span_s: float) -> Iterator[Step]:
    """Other rules, a bridge that comes back, sessions that are lost, and who dies while what was retained is brought."""
    for _ in range(rng.choice((1, 1, 2, 3))):
        at_s = 0.3 + rng.random() * span_s
        for kind in rng.choice(
            (("session",), ("rules",), ("bridge no", "bridge yes"), ("session", "session"), ("refuse", "rules"))
        ):
            if kind == "rules":
                yield at_s, LIVE, f"rules {rng.choice(tuple(SETS))}", 0.0
            elif kind.startswith("bridge"):
                yield at_s, LIVE, kind, 0.0
            else:
                yield _step(rng, at_s, kind, "")
            at_s += rng.choice((0.001, 0.03, 0.4))
        for _ in range(rng.choice((0, 1, 1, 2))):
            yield (
                at_s + rng.random() * 0.3,
                "kill",
                rng.choice(("store", "store", "bridge:cloud:0")),
                float(rng.choice((0, 1, 2, 5))),
            )


def resends(rng: Random, span_s: float) -> Iterator[Step]:
    """Runs through the history and through a file: page by page, asked again, and by who never hears the answer."""
    for _ in range(rng.choice((1, 1, 2))):
        at_s = 0.5 + rng.random() * (span_s + 1.0)
        kind, run = rng.choice(("resend", "resend", "import")), rng.choice(("one", "other"))
        for _ in range(rng.choice((1, 2, 3, 4))):
            if rng.random() < 0.4:
                target = rng.choice(("store", "store", "supervisor", "bridge:cloud:0"))
                yield at_s - 0.0001, "kill", target, float(rng.choice((0, 1, 2, 3, 5, 8)))
            elif rng.random() < 0.2:
                yield _step(rng, at_s, rng.choice(("disk", "power", "session", "cut")), "")
            yield at_s, kind, run, float(rng.choice((1, 2, 500)))
            at_s += rng.choice((0.001, 0.3, 1.0))


def late_words(rng: Random, span_s: float) -> Iterator[Step]:
    """A process's frames are late, and it dies meanwhile: its next life is heard first."""
    for _ in range(rng.choice((1, 1, 2))):
        at_s = 0.3 + rng.random() * span_s
        target = rng.choice(("bridge:cloud:0", "bridge:cloud:0", "store", "clients"))
        yield at_s, "delay", target, rng.choice((0.3, 1.0, 2.0))
        for _ in range(rng.choice((1, 1, 2))):
            at_s += rng.choice((0.03, 0.1, 0.3))
            yield at_s, "kill", target, float(rng.choice((0, 1, 2, 5)))


def commands(rng: Random, span_s: float) -> Iterator[Step]:
    """One or two chains of commands and of the faults that make them interesting."""
    for _ in range(rng.choice((1, 1, 2))):
        at_s = 0.3 + rng.random() * span_s
        for link in rng.choice(_COMMANDS):
            kind, _, target = link.partition(":")
            yield _step(rng, at_s, kind, target)
            at_s += rng.choice((0.001, 0.03, 0.1, 0.4, 1.0))


def dislikes(rng: Random, span_s: float) -> Iterator[Step]:
    """For a while the remote closes the connection on some messages, of a class or by chance, or on every one; and what makes that
    interesting.
    """
    at_s = 0.3 + rng.random() * span_s
    lasts_s = rng.choice((3.0, 15.0, 30.0))
    yield at_s, "dislike", rng.choice(("qos", "retain", "", "", "")), float(rng.choice((1, 2, 4, 8, 8, 16)))
    for _ in range(rng.choice((0, 0, 1, 3))):
        yield _step(rng, at_s + rng.random() * lasts_s, rng.choice(("cut", "cut", "kill", "session", "stall", "disk")), "")
    yield at_s + lasts_s, "dislike", "", 0.0


def _step(rng: Random, at_s: float, kind: str, target: str) -> Step:
    match kind:
        case "kill":
            target = rng.choice(("store", "store", "bridge:cloud:0", "bridge:cloud:0", "supervisor"))
            return at_s, kind, target, float(rng.choice((0, 1, 2, 3, 5, 8)))
        case "cut":
            return at_s, kind, rng.choice(("in", "out")), float(rng.randrange(0, 200))
        case "disk":
            return at_s, "disk-full", "", rng.choice((0.05, 0.5, 3.0))
        case "session":
            return at_s, "session-loss", "", 0.0
        case "stall" | "pause" | "refuse":
            return at_s, kind, target, rng.choice((0.3, 2.0))
        case "power":
            return at_s, kind, target, 0.1
        case "reject":
            return at_s, kind, target, float(rng.choice((2, 5, 9)))
        case "replay":
            return at_s, kind, target, float(rng.choice((1, 2, 500)))
        case "lanes":
            return at_s, RECONFIGURE, f"lanes {rng.choice('123')}", 0.1
        case "limit":
            return at_s, RECONFIGURE, f"limit {rng.choice((0, 1, 4, 20))}", 0.1
        case "retention":
            return at_s, RECONFIGURE, f"retention {rng.choice((0, 0, 1, 3600))}", 0.1
        case "bridge no" | "bridge yes" | "rule renamed" | "rule plant":
            return at_s, RECONFIGURE, kind, rng.choice((0.1, 0.5))
    return at_s, kind, target, 0.0
