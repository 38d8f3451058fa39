"""Requests for ``status``: fresh figures are collected from all children, and what is known then is the answer."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from actors.process.mailbox import Mailbox
from supervisor.control.control_socket import ControlError, Request, encode_result
from supervisor.snapshots.node_snapshots import Snapshots
from supervisor.tree.child_lives import Lives
from supervisor.tree.current_settings import CurrentSettings
from supervisor.tree.link_downs import LinkDowns
from supervisor.tree.pauses import Pauses
from supervisor.tree.process_usage import usage_of
from supervisor.tree.queue_rates import RateMeter
from supervisor.tree.running_children import RunningChildren
from supervisor.tree.status_collection import Collection
from supervisor.tree.status_figures import full_s, fullness, lane_row, store_part, unserved_rows
from supervisor.tree.store_requests import Answers, Asker
from supervisor.version import VERSION
from wire.figure import of_values, to_map
from wire.frames.names import (
    CLIENTS,
    DISTRIBUTOR,
    HTTP_SERVER,
    LISTENER,
    METRICS_EXPORTER,
    QUEUE_STORE,
    connection_name,
    queue_name,
)
from wire.frames.supervision import Heartbeat, ReportNow
from wire.routing.sys_topics import SysLane, node_values
from wire.status.actors import Reports, reported
from wire.status.bridges import BridgeLane, ConnectionFigures, QueueFigures
from wire.status.clients import DistributorFigures, ListenerFigures
from wire.status.node import (
    ActorRow,
    ConfigurationFigures,
    ControlFigures,
    HttpFigures,
    Status,
    SupervisorFigures,
    SupervisorMailbox,
    TelemetryFigures,
)
from wire.status.states import ChildState, LinkState
from wire.status.store import StoreReport

TIMER = "collect"
COLLECT_TIMEOUT_S = 0.5


class StatusRequests:
    """The askers of the status, and the status itself. started_s: since when the node runs.

    The timer ``TIMER`` says that the time for a collection is up.
    """

    def __init__(
        self,
        mailbox: Mailbox,
        settings: CurrentSettings,
        children: RunningChildren,
        lives: Lives,
        pauses: Pauses,
        snapshots: Snapshots,
        control: Callable[[], ControlFigures],
        configuration: Callable[[], ConfigurationFigures],
    ) -> None:
        """control: the figures of the control sockets. configuration: those of the configuration file."""
        self._mailbox = mailbox
        self._settings = settings
        self._children = children
        self._lives = lives
        self._pauses = pauses
        self._snapshots = snapshots
        self._control = control
        self._configuration = configuration
        self.started_s = mailbox.now_s()
        self._started_at_ms = mailbox.wall_ms()
        self._collection: Collection[tuple[Asker, Any]] = Collection()
        self._rates = RateMeter()
        self._downs = LinkDowns()

    def ask(self, whom: Asker, request: Request) -> None:
        """Have ``whom`` answered when all have reported, or the time is up.

        Raises:
            ControlError: too many wait already.
        """
        if not self._collection.ask((whom, request.request_id)):
            raise ControlError("busy", "too many status requests are waiting", request.request_id)
        self.collect()

    def collect(self) -> None:
        """Begin to collect, if somebody waits for that and it is not under way."""
        living = [child.name for child in self._children.living()]
        if self._collection.begin(living):
            for name in living:
                self._mailbox.send(name, ReportNow(request=self._collection.number))
            self._mailbox.set_timer(TIMER, self._mailbox.now_s() + (COLLECT_TIMEOUT_S if living else 0.0))

    def on_reported(self, heartbeat: Heartbeat) -> bool:
        """A process has reported, maybe as it was asked to; whether that completes the collection, so that it is to be ended."""
        now_s = self._mailbox.now_s()
        for actor in heartbeat.figures:
            told = self._children[heartbeat.name].reports[actor]
            if isinstance(told, StoreReport):
                self._rates.note(now_s, told.queues)
            elif isinstance(told, ConnectionFigures) and told.link is not None:
                self._downs.note(actor, told.link, now_s)
        self._collection.on_reported(heartbeat.name, heartbeat.request)
        return self._collection.complete

    def on_gone(self, name: str) -> bool:
        """``name`` has ended; whether that completes the collection."""
        self._collection.on_gone(name)
        return self._collection.complete

    def on_collected(self) -> Answers:
        """End the collection: whom to answer, with what is known; ``collect`` then begins the next one."""
        self._mailbox.cancel_timer(TIMER)
        served = self._collection.end()
        if not served:
            return []
        state = ChildState.STOPPING if self._lives.stopping else ChildState.READY
        status = replace(
            self.status(),
            processes=self._children.process_rows(state, usage_of),
            control=self._control(),
            configuration=self._configuration(),
        )
        told = to_map(status)  # once for all
        return [(whom, encode_result(request_id, told)) for whom, request_id in served]

    def status(self) -> Status:
        """The status as it is known now, without the processes' memory and processor time."""
        now_s, lanes, left_s = self._mailbox.now_s(), self._lanes(), self._lives.stop_left_s(self._mailbox.now_s())
        actors, reports = self._children.actor_rows(now_s), self._children.reports
        store = reported(reports, QUEUE_STORE, StoreReport)
        return Status(
            node=self._settings.now.node.name,
            version=VERSION,
            ready=self._lives.all_ready,
            stop_left_s=None if left_s is None else round(left_s, 3),
            supervisor=SupervisorFigures(
                pid=os.getpid(),
                started_at_ms=self._started_at_ms,
                uptime_s=round(now_s - self.started_s, 3),
                mailbox=of_values(SupervisorMailbox, self._mailbox.traffic()),
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
            snapshots=self._snapshots.figures(),
        )

    def sys_values(self) -> dict[str, int]:
        """Topic -> figure, for the ``$SYS`` topics, as it is known now; nothing else of the status is made for them."""
        reports, states = self._children.reports, self._children.actor_states()
        store = reported(reports, QUEUE_STORE, StoreReport) or StoreReport()

        def lane_of(bridge: str, number: int) -> SysLane:
            name = connection_name(bridge, number)
            told = reported(reports, name, ConnectionFigures)
            link = None if told is None else told.link
            stands = link is not None and link.state == LinkState.CONNECTED and states[name] == ChildState.READY
            return SysLane(bridge, number, stands, store.queues.get(queue_name(bridge, number)) or QueueFigures())

        return node_values(
            reported(reports, DISTRIBUTOR, DistributorFigures), store.sessions, [lane_of(*lane) for lane in self._lanes()]
        )

    def _bridges(
        self, lanes: list[tuple[str, int]], actors: tuple[ActorRow, ...], reports: Reports, now_s: float
    ) -> tuple[BridgeLane, ...]:
        by_name = {row.name: row for row in actors}
        store = reported(reports, QUEUE_STORE, StoreReport) or StoreReport()
        rows: list[BridgeLane] = []
        for bridge in self._settings.now.bridges:
            names = [queue_name(*lane) for lane in lanes if lane[0] == bridge.name]
            rates = [self._rates.rates(name) for name in names]
            queues = [store.queues.get(name) for name in names]
            full = fullness(queues, bridge.limits)
            fills_s = full_s(sum(queue.depth or 0 for queue in queues if queue is not None), rates, full)
            rows += [
                lane_row(
                    *lane,
                    actors=by_name,
                    reports=reports,
                    rates=own,
                    full=full,
                    full_s=fills_s,
                    paused_since_ms=self._pauses.since_ms(bridge.name),
                    down_s=self._downs.down_s(connection_name(*lane), now_s),
                )
                for lane, own in zip([lane for lane in lanes if lane[0] == bridge.name], rates, strict=True)
            ]
        return tuple(rows)

    def _lanes(self) -> list[tuple[str, int]]:
        """The lanes that run: bridge and number, a bridge's former ones behind its others."""
        bridges = self._settings.now.bridges if CLIENTS in self._children else ()  # a node that stands by has no lane
        places = {bridge.name: place for place, bridge in enumerate(bridges)}
        former = [child.spec for child in self._children if child.spec.former]
        lanes = [(bridge.name, lane) for bridge in bridges for lane in range(bridge.lanes)]
        for spec in former:
            if spec.bridge in places and spec.bridge is not None and spec.lane is not None:
                lanes.append((spec.bridge, spec.lane))
        return sorted(lanes, key=lambda lane: (places[lane[0]], lane[1]))
