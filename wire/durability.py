"""How strongly a message is kept before its publisher is answered, by what it concerns: the strictest of all that.

The Distributor says it of a batch when it routes that. Processes hear of other settings one after the other, and a batch may be
sent again; but none goes to a bridge by some settings and is kept by others.
"""

from __future__ import annotations

from functools import reduce
from typing import NamedTuple

from wire.config_settings import NodeSettings, PersistenceSettings


class Durability(NamedTuple):
    """fast: the answer leaves before the commit. flush_period_s: how long that may wait. synced: it survives the loss of power."""

    fast: bool
    flush_period_s: float
    synced: bool

    @classmethod
    def of(cls, settings: PersistenceSettings) -> Durability:
        """That which ``settings`` ask for."""
        return cls(settings.acknowledge == "fast", settings.flush_period_s, settings.sync == "full")

    def with_that(self, other: Durability) -> Durability:
        """The strictest of both, by each of its parts."""
        if self == other:
            return self
        return Durability(self.fast and other.fast, min(self.flush_period_s, other.flush_period_s), self.synced or other.synced)

    def gives_less_than(self, other: Durability) -> bool:
        """Whether anything of it is weaker."""
        return self.with_that(other) != self

    def __str__(self) -> str:
        period = f"{self.flush_period_s:g}s"
        return (
            f"acknowledge {'fast' if self.fast else 'after-commit'}, flush_period {period}, sync {'full' if self.synced else 'os'}"
        )


class Durabilities:
    """What a node promises: ``own`` is the store's, and each listener and bridge may have another.

    differ: any has another. strictest: of all. any_fast, any_synced: for any of them an answer leaves before its commit, or commits
    are synced.
    """

    def __init__(self, settings: NodeSettings) -> None:
        self.own = Durability.of(settings.persistence)
        self.of_listeners = {listener.bind: self._of(listener.durability) for listener in settings.listeners}
        self.of_bridges = {bridge.name: self._of(bridge.durability) for bridge in settings.bridges}
        each = {self.own, *self.of_listeners.values(), *self.of_bridges.values()}
        self.differ = len(each) > 1
        self.strictest = reduce(Durability.with_that, each)
        self.any_fast = any(one.fast for one in each)
        self.any_synced = any(one.synced for one in each)

    def _of(self, settings: PersistenceSettings | None) -> Durability:
        return self.own if settings is None else Durability.of(settings)

    def by_place(self) -> dict[str, Durability]:
        """Of the store, each listener and each bridge, by its key in the configuration."""
        listeners = {f"listener {bind}": one for bind, one in self.of_listeners.items()}
        return {"persistence": self.own, **listeners, **{f"bridge {name}": one for name, one in self.of_bridges.items()}}

    def of_bridge(self, name: str) -> Durability:
        """That of a bridge; the store's, of one that is not configured."""
        return self.of_bridges.get(name, self.own)
