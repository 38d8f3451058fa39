"""Snapshots of the simulated node: ordered at any moment, made by the real store, and judged by the rows that are in them.

The folder, the manifest and the schedule are the supervisor's and need a real disk; here the order comes in its name.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from storage.snapshots.manifest import dead_of, queue_of
from tests.simulation.world import Violation, World
from tests.support.snapshot_audit import compare
from wire.frames.codec import encode
from wire.frames.names import QUEUE_STORE, STORE
from wire.frames.supervision import SnapshotMade, SnapshotWanted

if TYPE_CHECKING:
    from tests.simulation.node import Machine
    from tests.simulation.plan import Fault

_SHARE = 0.25  # of the seeds


def steps(rng: Random, span_s: float) -> list[tuple[float, str, str, float]]:
    """Times of snapshots in a plan, and what becomes of the store meanwhile."""
    if rng.random() >= _SHARE:
        return []
    found = []
    for _ in range(rng.choice((2, 5, 10))):
        at_s = 0.2 + rng.random() * span_s
        found.append((at_s, "snapshot", "", 0.0))
        if rng.random() < 0.3:
            found.append((at_s + rng.random() * 0.02, "kill", STORE, float(rng.choice((0, 1, 2, 3, 5)))))
        if rng.random() < 0.15:
            found.append((at_s, "disk-full", "", rng.choice((0.05, 0.5))))
    return found


class Snapshots:
    """Orders snapshots, and judges what comes back."""

    def __init__(self, world: World, machine: Machine) -> None:
        self._world = world
        self._machine = machine
        self._number = 0

    def snapshot(self, _fault: Fault) -> None:
        """The supervisor orders one; one that is down orders none."""
        supervisor = self._machine.supervisor
        if supervisor is not None and supervisor.alive:
            self._number += 1
            wanted = SnapshotWanted(request=self._number, path=f"/snapshots/{self._number}")
            self._machine.post.send(supervisor, self._machine.process_of(STORE), QUEUE_STORE, encode(wanted))

    def heal(self) -> None:
        """Nothing of it is ever broken."""


def judge(machine: Machine, frame: SnapshotMade) -> None:
    """The store's note of a checkpoint is what is in it."""
    if frame.error:
        machine.world.note("snapshot refused", frame.message)
        return
    facts: dict[str, Any] = frame.facts
    rows = machine.disk.checkpoints.pop(f"/snapshots/{frame.request}")
    dead = [dead_of(each) for each in facts["dead_letters"]]
    try:
        compare(rows, [queue_of(each) for each in facts["queues"]], dead, tuple(facts["events"]))
    except AssertionError as error:
        raise Violation(
            "store.snapshot-as-rows-say", f"what is said of checkpoint {frame.request} is not what is in it: {error}"
        ) from error
    machine.snapshots_judged += 1
