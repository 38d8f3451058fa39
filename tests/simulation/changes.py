"""Configurations that change, in the running node or as it starts again: a bridge away for a time, lanes, rules, limits (P7).

At the end the bridge is back, with the lanes that it had last: those that it had before have to run until they are empty.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tests.simulation.rules import rules_of
from tests.simulation.world import World
from wire.config_settings import NodeSettings

if TYPE_CHECKING:
    from tests.simulation.control import Operator
    from tests.simulation.node import Machine
    from tests.simulation.plan import Fault, Plan

RECONFIGURE, LIVE = "reconfigure", "reconfigure-live"
_PATIENCE_S = 5.0
RELOADS = 3


@dataclass(frozen=True, slots=True)
class Change:
    """The changes of a step:

    ``bridge no``, ``bridge yes``, ``lanes N``, ``rule NAME``, ``rules SET``, ``limit N`` (0: none) or ``retention S``.
    """

    what: str
    value: str

    @classmethod
    def of(cls, fault: Fault) -> Change:
        """The change that ``fault`` is."""
        return cls(*fault.target.split())


def changes_of(plan: Plan) -> set[str]:
    """The parts that are changed in ``plan``: of ``bridge``, ``lanes``, ``rule``, ``rules``, ``limit`` and ``retention``."""
    return {Change.of(fault).what for fault in plan.faults if fault.kind in (RECONFIGURE, LIVE)}


class Changes:
    """Carries out the faults that change the configuration."""

    def __init__(self, world: World, machine: Machine, operator: Operator) -> None:
        self._world = world
        self._machine = machine
        self._operator = operator
        self._began_with = machine.settings
        self._bridge, *self._others = machine.settings.bridges
        self._present = True
        self._impatient = False

    def reconfigure(self, fault: Fault) -> None:
        """target: see ``Change``; amount: seconds until the node is started again."""
        self._change(Change.of(fault))
        self._machine.stop(fault.amount)

    def reconfigure_live(self, fault: Fault) -> None:
        """target: see ``Change``. The node is asked to read it, which nobody does again while others are broken."""
        self._change(Change.of(fault))
        self._operator.reload()

    def _change(self, change: Change) -> None:
        match change.what:
            case "bridge":
                self._present = change.value == "yes"
            case "lanes":
                self._lanes(int(change.value))
            case "rule":
                *others, last = self._bridge.local_subscriptions
                self._bridge = replace(self._bridge, local_subscriptions=(*others, replace(last, name=change.value)))
            case "rules":
                rules = rules_of(change.value, self._bridge.local_subscriptions[0])
                self._bridge = replace(self._bridge, local_subscriptions=rules)
            case "retention":
                self._bridge = replace(self._bridge, retention_s=float(change.value))
            case "limit":
                limits = replace(self._bridge.limits, max_messages=int(change.value) or None)
                self._bridge = replace(self._bridge, limits=limits)
        self._machine.next_settings = self._settings()

    def heal(self) -> None:
        """The bridge is there."""
        self._present = True
        self._machine.next_settings = self._settings()
        self._bring_there(RELOADS)

    def _lanes(self, lanes: int) -> None:
        self._machine.oracle.lanes_most = max(self._machine.oracle.lanes_most, lanes)
        self._bridge = replace(self._bridge, lanes=lanes)

    def _settings(self) -> NodeSettings:
        bridges = (self._bridge, *self._others) if self._present else tuple(self._others)
        return replace(self._began_with, bridges=bridges)

    def _bring_there(self, reloads: int) -> None:
        """Until the node runs as it is configured. reloads: how often it is asked, before it is started again."""
        machine = self._machine
        if machine.is_as_configured():  # for now: what was asked for before may be under way
            self._world.after(_PATIENCE_S, self._bring_there, reloads)
            return
        if reloads:
            self._operator.reload()
        elif self._impatient and machine.supervisor is not None:
            machine.kill(machine.supervisor)
        else:
            machine.stop(0.1)
            self._impatient = True
        self._world.after(_PATIENCE_S, self._bring_there, max(0, reloads - 1))
