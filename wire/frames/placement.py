"""The placement: which process each child of the supervisor lives in. Pure.

Isolated, each has a process that is called as it is. Together, the store, the clients and the lanes share one, ``SITE``; a lane
that is to be on its own, or has failed too often, has its own all the same. HTTP and telemetry always have.
"""

from __future__ import annotations

from wire.config_settings import NodeSettings
from wire.frames.names import BRIDGE, CLIENTS, STORE, bridge_of_child, child_of

SITE = "site"
_SHARING = (STORE, BRIDGE, CLIENTS)


class Placement:
    """The table of ``settings``."""

    __slots__ = ("_apart", "_isolated", "_together")

    def __init__(self, settings: NodeSettings) -> None:
        self._together = settings.supervision.placement == "together"
        self._isolated = frozenset(bridge.name for bridge in settings.bridges if bridge.isolated)
        self._apart = frozenset(settings.apart)

    def process_of(self, name: str) -> str:
        """The process in which the actor or child ``name`` is to live."""
        child = child_of(name)
        if not self._together or child.partition(":")[0] not in _SHARING:
            return child
        return child if child in self._apart or bridge_of_child(child) in self._isolated else SITE
