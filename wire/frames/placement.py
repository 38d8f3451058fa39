"""The placement: which process each child of the supervisor lives in. Pure.

Isolated, each has a process that is called as it is. Together, the store, the clients and the lanes share one, ``SITE``; a lane
that is to be on its own, or has failed too often, has its own all the same, and so has one whose bridge is configured no more, as
long as it goes on: within ``SITE`` such a lane has ended. HTTP and telemetry always have.

A process may have so many files open, and no more. Where clients share theirs, what the others in it need is kept from them: a
crowd lets neither the store run out of files nor a lane out of a connection.
"""

from __future__ import annotations

from wire.config_settings import NodeSettings
from wire.frames.names import BRIDGE, CLIENTS, STORE, bridge_of_child, child_name, child_of

SITE = "site"
_TABLES_OPEN_PART = 2  # of the files that the store's process may have open, half
_TABLES_OPEN_MAX = 2048
_DESCRIPTORS_OF_STORE = 64  # its logs, its folders, and what every process has open


def tables_open_max(descriptors_max: int) -> int:
    """How many tables the store keeps open in a process that may have ``descriptors_max`` files open."""
    return min(_TABLES_OPEN_MAX, descriptors_max // _TABLES_OPEN_PART)


class Placement:
    """The table of ``settings``."""

    __slots__ = ("_apart", "_bridges", "_sharing", "_together")

    def __init__(self, settings: NodeSettings) -> None:
        self._together = settings.supervision.placement == "together"
        self._sharing = frozenset(bridge.name for bridge in settings.bridges if not bridge.isolated)
        self._apart = frozenset(settings.apart)
        self._bridges = settings.bridges

    def process_of(self, name: str) -> str:
        """The process in which the actor or child ``name`` is to live."""
        child = child_of(name)
        if not self._together or child in self._apart:
            return child
        return SITE if child in (STORE, CLIENTS) or bridge_of_child(child) in self._sharing else child

    def kept_from_clients(self, descriptors_max: int) -> int:
        """How many of ``descriptors_max`` files of the clients' process are for the store and the lanes in it."""
        clients = self.process_of(CLIENTS)
        store = _DESCRIPTORS_OF_STORE + tables_open_max(descriptors_max) if self.process_of(STORE) == clients else 0
        lanes = (child_name(BRIDGE, bridge.name, lane) for bridge in self._bridges for lane in bridge.lane_labels)
        return store + sum(self.process_of(lane) == clients for lane in lanes)

    def wanted_for(self, clients: int) -> int:
        """How many files the clients' process must be allowed, so that ``clients`` are left beside ``kept_from_clients``."""
        wanted = clients + self.kept_from_clients(0)
        return wanted + min(_TABLES_OPEN_MAX, wanted) if self.process_of(STORE) == self.process_of(CLIENTS) else wanted
