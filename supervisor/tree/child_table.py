"""The supervision tree: the table of children as data, made from the settings.

One row a child: what it is, where it stands in the start order (and, reversed, in the stop order), how often it may crash, how
long it may take to stop. ``child_lives.py`` acts on it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from wire.config_settings import BackoffSettings, NodeSettings
from wire.frames.names import (
    BRIDGE,
    CLIENTS,
    HTTP,
    NOTIFY,
    OPTIONAL_PROCESSES,
    STORE,
    TELEMETRY,
    LaneLabel,
    LaneName,
    child_name,
    lane_of_queue,
    lane_order,
    queue_name,
)
from wire.status.bridges import QueueFigures

# Start order; stop is the reverse. Children of one order start and stop together. HTTP answers from the first to the last.
START_ORDER = (*OPTIONAL_PROCESSES, STORE, BRIDGE, CLIENTS)
# The module of a process that has one of its own. No other process imports that: no other has its libraries.
_MODULES = {HTTP: "supervisor.http.process", TELEMETRY: "supervisor.telemetry.process", NOTIFY: "supervisor.notify.process"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildSpec:
    """One row of the tree: a process. command: the module and the arguments to run, where that is not the one of the actors.

    flags: further words for it. needed: without it the node is not ready, and cannot go on for long. former: of a lane that the
    configuration has no more; it runs until its queue is empty, and what it subscribed to at its remote is given up.
    """

    kind: str
    order: int
    restarts_max: int
    restart_period_s: float
    restart_backoff: BackoffSettings
    stop_timeout_s: float
    bridge: str | None = None
    lane: LaneLabel | None = None
    command: tuple[str, ...] | None = None
    flags: tuple[str, ...] = ()
    needed: bool = True
    former: bool = False

    @property
    def name(self) -> str:
        """The name of the process: ``clients``, or ``bridge:cloud:0`` for a lane's."""
        return child_name(self.kind, self.bridge, self.lane)

    @property
    def queue(self) -> str | None:
        """The queue of the child's lane; None for those that belong to the whole node."""
        return None if self.bridge is None or self.lane is None else queue_name(self.bridge, self.lane)


Table = Callable[[NodeSettings], tuple[ChildSpec, ...]]


def child_specs(settings: NodeSettings) -> tuple[ChildSpec, ...]:
    """The table in start order: HTTP and telemetry if they are wanted, the store, each lane's bridge, the clients."""
    wanted = {HTTP: settings.http is not None, TELEMETRY: settings.telemetry is not None, NOTIFY: bool(settings.notify)}
    lanes = [(bridge.name, lane) for bridge in settings.bridges for lane in bridge.lane_labels]
    specs: list[ChildSpec] = []
    for kind in START_ORDER:
        if not wanted.get(kind, True):
            continue
        for bridge, lane in lanes if kind == BRIDGE else [(None, None)]:
            specs.append(_spec(settings, kind, bridge, lane))
    return tuple(specs)


def standby_specs(settings: NodeSettings) -> tuple[ChildSpec, ...]:
    """The table of a node that stands by: its store follows another node's, and nobody speaks to clients or remotes."""
    return tuple(
        replace(spec, flags=("--standby",)) if spec.kind == STORE else spec
        for spec in child_specs(settings)
        if spec.kind in (*OPTIONAL_PROCESSES, STORE)
    )


def former_spec(settings: NodeSettings, lane: LaneName) -> ChildSpec:
    """The row of a lane that the configuration has no more."""
    return replace(_spec(settings, BRIDGE, *lane), former=True)


def former_lanes(settings: NodeSettings, queues: Mapping[str, QueueFigures]) -> list[LaneName]:
    """The lanes of configured bridges that are not configured any more, and have messages in ``queues``, the store's figures, or
    subscriptions at their remote.
    """
    labels = {bridge.name: bridge.lane_labels for bridge in settings.bridges}
    busy = [name for name, queue in queues.items() if queue.depth or queue.remote_filters]
    lanes = [lane for name in busy if (lane := lane_of_queue(name)) is not None]
    former = [lane for lane in lanes if lane.bridge in labels and lane.label not in labels[lane.bridge]]
    return sorted(former, key=lambda lane: (lane.bridge, lane_order(lane.label)))


def _spec(settings: NodeSettings, kind: str, bridge: str | None, lane: LaneLabel | None) -> ChildSpec:
    return ChildSpec(
        kind=kind,
        order=START_ORDER.index(kind),
        restarts_max=settings.supervision.restarts_max,
        restart_period_s=settings.supervision.restart_period_s,
        restart_backoff=settings.supervision.restart_backoff,
        stop_timeout_s=settings.supervision.stop_timeout_s,
        bridge=bridge,
        lane=lane,
        command=(_MODULES[kind], "--process", kind) if kind in _MODULES else None,
        needed=kind not in OPTIONAL_PROCESSES,
    )
