"""Reports of each kind of actor to the supervisor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from wire.figure import of_values
from wire.frames.names import CONNECTION, DISTRIBUTOR, FORWARDER, HTTP_SERVER, LISTENER, METRICS_EXPORTER, NOTIFIER, QUEUE_STORE
from wire.status.bridges import ConnectionFigures, Tier2Figures
from wire.status.client_figures import DistributorFigures, ListenerFigures
from wire.status.node_status import HttpFigures, NotifyFigures, TelemetryFigures
from wire.status.store import StoreReport

ActorFigures = (
    StoreReport
    | ListenerFigures
    | DistributorFigures
    | ConnectionFigures
    | Tier2Figures
    | HttpFigures
    | TelemetryFigures
    | NotifyFigures
)
Reports = Mapping[str, ActorFigures]  # by the name of the actor
Wanted = TypeVar("Wanted", bound=ActorFigures)

_KINDS: dict[str, type[ActorFigures]] = {
    QUEUE_STORE: StoreReport,
    LISTENER: ListenerFigures,
    DISTRIBUTOR: DistributorFigures,
    HTTP_SERVER: HttpFigures,
    METRICS_EXPORTER: TelemetryFigures,
    NOTIFIER: NotifyFigures,
    CONNECTION: ConnectionFigures,
    FORWARDER: Tier2Figures,
}


def report_of(actor: str, told: Any) -> ActorFigures:
    """The report of ``actor``; ``told`` is as a frame brings it."""
    kind = _KINDS[actor.partition(":")[0]]
    return told if isinstance(told, kind) else of_values(kind, told)


def reported(reports: Reports, actor: str, kind: type[Wanted]) -> Wanted | None:
    """The report of ``actor``, if it has made one."""
    told = reports.get(actor)
    return told if isinstance(told, kind) else None


def error_of(figures: ActorFigures) -> str:
    """The reason that keeps it from its work, as it says; empty if none does."""
    return figures.error if isinstance(figures, StoreReport | ListenerFigures | HttpFigures | TelemetryFigures) else ""
