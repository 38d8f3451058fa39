"""Requests for ``status``: fresh figures are collected from all children, and what is known then is the answer.

One collection at a time is shared by all who asked before it began; who asks meanwhile is served by the next one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from actors.process.mailbox import Mailbox
from supervisor.control.control_socket import Answers, Asker, ControlError, Request, encode_result
from supervisor.history.sampling import LaneSample, Sample
from supervisor.machine_usage import RecentUsage
from supervisor.tree.process_rows import actor_rows, actor_states, process_rows
from supervisor.tree.running_children import RunningChildren
from supervisor.tree.status_figures import (
    FigureRates,
    FullQueues,
    LinkDowns,
    full_s,
    lane_row,
    rooms_of,
    store_part,
    unserved_rows,
)
from supervisor.version import VERSION
from wire.config_settings import BridgeSettings, SettingsNow
from wire.figure import of_values, to_map
from wire.frames.names import (
    CLIENTS,
    DISTRIBUTOR,
    HTTP_SERVER,
    LISTENER,
    METRICS_EXPORTER,
    NOTIFIER,
    QUEUE_STORE,
    LaneLabel,
    LaneName,
    connection_name,
    lane_order,
    queue_name,
)
from wire.frames.supervision import Heartbeat, ReportNow
from wire.routing.sys_topics import SysLane, node_values
from wire.status.actors import Reports, reported
from wire.status.bridges import BridgeLane, ConnectionFigures, QueueFigures, RoomFigures
from wire.status.client_figures import DistributorFigures, ListenerFigures
from wire.status.node_status import (
    ActorRow,
    ConfigurationFigures,
    ControlFigures,
    HistoryFigures,
    HttpFigures,
    NotifyFigures,
    SnapshotsFigures,
    Status,
    SupervisorFigures,
    SupervisorMailbox,
    TelemetryFigures,
)
from wire.status.refusals import Refusal
from wire.status.states import ChildState, LinkState
from wire.status.store import StoreReport

TIMER = "collect"
COLLECT_TIMEOUT_S = 0.5
ASKERS_MAX = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnFigures:
    """The supervisor's own part of the status; stop_left_s is None while the node goes on."""

    ready: bool
    stop_left_s: float | None
    history: HistoryFigures | None
    snapshots: SnapshotsFigures
    control: ControlFigures
    configuration: ConfigurationFigures


class StatusRequests:
    """The askers of the status, and the status itself. started_s: since when the node runs.

    The timer ``TIMER`` says that the time for a collection is up.
    """

    def __init__(self, mailbox: Mailbox, settings: SettingsNow, children: RunningChildren) -> None:
        self._mailbox = mailbox
        self._settings = settings
        self._children = children
        self.started_s = mailbox.now_s()
        self._started_at_ms = mailbox.wall_ms()
        self._served: list[tuple[Asker, Any]] = []
        self._waiting: list[tuple[Asker, Any]] = []
        self._unreported: set[str] = set()
        self._number = 0  # of the collection that runs, or of the last one
        self._rates = FigureRates()
        self._downs = LinkDowns()
        self._full = FullQueues()
        self._usage = RecentUsage()

    def ask(self, whom: Asker, request: Request) -> None:
        """Have ``whom`` answered when all have reported, or the time is up.

        Raises:
            ControlError: too many wait already.
        """
        if len(self._served) + len(self._waiting) >= ASKERS_MAX:
            raise ControlError(Refusal.BUSY, "too many status requests are waiting", request.request_id)
        self._waiting.append((whom, request.request_id))
        self.collect()

    def collect(self) -> None:
        """Begin to collect, if somebody waits for that and it is not under way."""
        if self._served or not self._waiting:
            return
        self._served, self._waiting = self._waiting, []
        self._unreported = {child.name for child in self._children.living()}
        self._number += 1
        for child in self._children.living():
            self._mailbox.send(child.name, ReportNow(request=self._number))
        self._mailbox.set_timer(TIMER, self._mailbox.now_s() + (COLLECT_TIMEOUT_S if self._unreported else 0.0))

    def on_reported(self, heartbeat: Heartbeat) -> bool:
        """A process has reported, maybe as it was asked to; whether that completes the collection, so that it is to be ended."""
        now_s = self._mailbox.now_s()
        for actor in heartbeat.figures:
            told = self._children[heartbeat.name].reports[actor]
            if isinstance(told, StoreReport):
                self._rates.note(now_s, told.queues)
                rooms = (rooms_of(bridge, lanes, told.queues) for bridge, lanes in self._lanes_of_bridges(self._lanes()))
                self._full.note({name: room for of_bridge in rooms for name, (room, _) in of_bridge.items()}, now_s)
            elif isinstance(told, ConnectionFigures) and told.link is not None:
                self._downs.note(actor, told.link, now_s)
        if heartbeat.request == self._number:
            self._unreported.discard(heartbeat.name)
        return self._is_complete

    def on_gone(self, name: str) -> bool:
        """``name`` has ended; whether that completes the collection."""
        self._unreported.discard(name)
        return self._is_complete

    @property
    def _is_complete(self) -> bool:
        """Whether a collection runs that waits for nobody."""
        return bool(self._served) and not self._unreported

    def on_collected(self, own: Callable[[], OwnFigures]) -> Answers:
        """End the collection: whom to answer, with what is known; ``collect`` then begins the next one. own: for whom that is."""
        self._mailbox.cancel_timer(TIMER)
        served, self._served = self._served, []
        if not served:
            return []
        told = to_map(self.status(own()))  # once for all
        return [(whom, encode_result(request_id, told)) for whom, request_id in served]

    def status(self, own: OwnFigures) -> Status:
        """The status as it is known now."""
        now_s, lanes, settings = self._mailbox.now_s(), self._lanes(), self._settings.now
        actors, reports = actor_rows(self._children), self._children.reports
        state = ChildState.READY if own.stop_left_s is None else ChildState.STOPPING
        store = reported(reports, QUEUE_STORE, StoreReport)
        return Status(
            node=settings.node.name,
            version=VERSION,
            ready=own.ready,
            stop_left_s=None if own.stop_left_s is None else round(own.stop_left_s, 3),
            supervisor=SupervisorFigures(
                pid=os.getpid(),
                started_at_ms=self._started_at_ms,
                uptime_s=round(now_s - self.started_s, 3),
                mailbox=of_values(SupervisorMailbox, self._mailbox.traffic()),
            ),
            processes=process_rows(
                self._children,
                state,
                lambda pid: self._usage.of(pid, now_s),
                isolated=settings.supervision.placement == "isolated",
            ),
            actors=actors,
            bridges=self._bridges(lanes, actors, reports, now_s),
            unserved=() if store is None else unserved_rows(lanes, store.queues),
            store=None if store is None else store_part(store),
            replication=None if store is None else store.replication,
            listener=reported(reports, LISTENER, ListenerFigures),
            distributor=reported(reports, DISTRIBUTOR, DistributorFigures),
            http=reported(reports, HTTP_SERVER, HttpFigures),
            telemetry=reported(reports, METRICS_EXPORTER, TelemetryFigures),
            notify=reported(reports, NOTIFIER, NotifyFigures),
            history=own.history,
            snapshots=own.snapshots,
            control=own.control,
            configuration=own.configuration,
        )

    def sample(self) -> Sample:
        """What the history has of the node now."""
        reports, now_s = self._children.reports, self._mailbox.now_s()
        store = reported(reports, QUEUE_STORE, StoreReport) or StoreReport()
        listener = reported(reports, LISTENER, ListenerFigures)
        names = [LaneName(*lane) for lane in self._lanes()]
        pids = {pid for child in self._children if (pid := self._children.pid_of(child.process)) is not None}
        return Sample(
            at_ms=self._mailbox.wall_ms(),
            now_s=now_s,
            lanes={
                name: LaneSample(
                    queue=store.queues.get(queue_name(*name)) or QueueFigures(),
                    down_s=self._downs.lasted_s(connection_name(*name), now_s),
                )
                for name in names
            },
            published=None if listener is None else listener.published,
            clients=None if listener is None else listener.clients,
            sessions_depth=None if store.sessions is None else store.sessions.depth,
            disk_free_bytes=store.disk_free_bytes,
            pids=(os.getpid(), *sorted(pids)),
        )

    def sys_values(self) -> dict[str, int]:
        """Topic -> figure, for the ``$SYS`` topics, as it is known now; nothing else of the status is made for them."""
        reports, states = self._children.reports, actor_states(self._children)
        store = reported(reports, QUEUE_STORE, StoreReport) or StoreReport()

        def lane_of(bridge: str, label: LaneLabel) -> SysLane:
            name = connection_name(bridge, label)
            told = reported(reports, name, ConnectionFigures)
            link = None if told is None else told.link
            stands = link is not None and link.state == LinkState.CONNECTED and states[name] == ChildState.READY
            return SysLane(bridge, label, stands, store.queues.get(queue_name(bridge, label)) or QueueFigures())

        return node_values(
            reported(reports, DISTRIBUTOR, DistributorFigures), store.sessions, [lane_of(*lane) for lane in self._lanes()]
        )

    def _bridges(
        self, lanes: list[tuple[str, LaneLabel]], actors: tuple[ActorRow, ...], reports: Reports, now_s: float
    ) -> tuple[BridgeLane, ...]:
        by_name = {row.name: row for row in actors}
        store = reported(reports, QUEUE_STORE, StoreReport) or StoreReport()
        rows: list[BridgeLane] = []
        for bridge, labels in self._lanes_of_bridges(lanes):
            full: dict[str, tuple[RoomFigures | None, float | None]] = {}
            for whose, (room, sharing) in rooms_of(bridge, labels, store.queues).items():
                depth = sum(queue.depth or 0 for name in sharing if (queue := store.queues.get(name)) is not None)
                told = None if room is None else replace(room, full_for_s=self._full.lasts_s(whose, now_s))
                full |= dict.fromkeys(sharing, (told, full_s(depth, [self._rates.rates(name) for name in sharing], room)))
            rows += [
                lane_row(
                    bridge.name,
                    label,
                    actors=by_name,
                    reports=reports,
                    rates=self._rates.rates(name),
                    room=full[name][0],
                    full_s=full[name][1],
                    paused_since_ms=self._children.paused_since_ms(bridge.name),
                    down_s=self._downs.down_s(connection_name(bridge.name, label), now_s),
                )
                for label in labels
                for name in [queue_name(bridge.name, label)]
            ]
        return tuple(rows)

    def _lanes_of_bridges(self, lanes: list[tuple[str, LaneLabel]]) -> Iterator[tuple[BridgeSettings, list[LaneLabel]]]:
        """Each bridge with its own of ``lanes``."""
        own: dict[str, list[LaneLabel]] = {}
        for name, label in lanes:
            own.setdefault(name, []).append(label)
        return ((bridge, own.get(bridge.name, [])) for bridge in self._settings.now.bridges)

    def _lanes(self) -> list[tuple[str, LaneLabel]]:
        """The lanes that run: bridge and number, a bridge's former ones behind its others."""
        bridges = self._settings.now.bridges if CLIENTS in self._children else ()  # a node that stands by has no lane
        places = {bridge.name: place for place, bridge in enumerate(bridges)}
        former = [child.spec for child in self._children if child.spec.former]
        lanes = [(bridge.name, lane) for bridge in bridges for lane in bridge.lane_labels]
        for spec in former:
            if spec.bridge in places and spec.bridge is not None and spec.lane is not None:
                lanes.append((spec.bridge, spec.lane))
        return sorted(lanes, key=lambda lane: (places[lane[0]], lane_order(lane[1])))
