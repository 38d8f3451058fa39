"""The supervision tree: the table of children as data, made from the settings.

One row a child: what it is, where it stands in the start order (and, reversed, in the stop order), how often it may crash, how
long it may take to stop. The loop that acts on it is ``supervisor.py``.
"""

from __future__ import annotations

from dataclasses import dataclass

from wire.names import CONNECTION, DISTRIBUTOR, FORWARDER, LISTENER, QUEUE_STORE, actor_name, queue_name
from wire.settings import BackoffSettings, NodeSettings

# Start order; stop is the reverse. Children of one order start and stop together.
START_ORDER = (QUEUE_STORE, DISTRIBUTOR, FORWARDER, CONNECTION, LISTENER)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildSpec:
    """One row of the tree. command: what to run instead of the actor's own process, for tests of the supervisor."""

    kind: str
    order: int
    restarts_max: int
    restart_period_s: float
    restart_backoff: BackoffSettings
    stop_timeout_s: float
    bridge: str | None = None
    lane: int | None = None
    command: tuple[str, ...] | None = None

    @property
    def name(self) -> str:
        """The actor's name on the mailboxes: ``listener``, or ``forwarder:cloud:0`` for a lane's."""
        return actor_name(self.kind, self.bridge, self.lane)

    @property
    def queue(self) -> str | None:
        """The queue of the child's lane; None for those that belong to the whole node."""
        return None if self.bridge is None or self.lane is None else queue_name(self.bridge, self.lane)


def child_specs(settings: NodeSettings) -> tuple[ChildSpec, ...]:
    """The table in start order: the store, the Distributor, each lane's Forwarder, each lane's Connection, the Listener."""
    lanes = [(bridge.name, lane) for bridge in settings.bridges for lane in range(bridge.lanes)]
    specs: list[ChildSpec] = []
    for order, kind in enumerate(START_ORDER):
        for bridge, lane in lanes if kind in (FORWARDER, CONNECTION) else [(None, None)]:
            specs.append(
                ChildSpec(
                    kind=kind,
                    order=order,
                    restarts_max=settings.supervision.restarts_max,
                    restart_period_s=settings.supervision.restart_period_s,
                    restart_backoff=settings.supervision.restart_backoff,
                    stop_timeout_s=settings.supervision.stop_timeout_s,
                    bridge=bridge,
                    lane=lane,
                )
            )
    return tuple(specs)
