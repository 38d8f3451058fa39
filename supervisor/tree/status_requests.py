"""Requests for ``status``: fresh figures are collected from all children, and what is known then is the answer."""

from __future__ import annotations

import os
from collections.abc import Callable
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
from supervisor.tree.status_figures import ProcessView, process_rows, status_map
from supervisor.tree.store_requests import Answers, Asker
from wire.frames.names import CLIENTS, QUEUE_STORE, SUPERVISOR, connection_name, queue_name
from wire.frames.supervision import Heartbeat, ReportNow

TIMER = "collect"
COLLECT_TIMEOUT_S = 0.5


class StatusRequests:
    """Who waits for the status, and what it is. started_s: since when the node runs.

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
        control: Callable[[], dict[str, Any]],
        configuration: Callable[[], dict[str, Any]],
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

    def reported(self, heartbeat: Heartbeat) -> bool:
        """A process has reported, maybe as it was asked to; whether that completes the collection, so that it is to be ended."""
        store = heartbeat.status.get(QUEUE_STORE)
        if store is not None:
            self._rates.note(self._mailbox.now_s(), store.get("queues", {}))
        for actor, figures in heartbeat.status.items():
            if link := figures.get("link"):
                self._downs.note(actor, link, self._mailbox.now_s())
        self._collection.reported(heartbeat.name, heartbeat.request)
        return self._collection.complete

    def gone(self, name: str) -> bool:
        """``name`` has ended; whether that completes the collection."""
        self._collection.gone(name)
        return self._collection.complete

    def collected(self) -> Answers:
        """End the collection: whom to answer, with what is known; ``collect`` then begins the next one."""
        self._mailbox.cancel_timer(TIMER)
        served = self._collection.end()
        if not served:
            return []
        status = {**self.status(), "processes": process_rows(self._processes(), usage_of), "control": self._control()}
        status["configuration"] = self._configuration()
        return [(whom, encode_result(request_id, status)) for whom, request_id in served]

    def status(self) -> dict[str, Any]:
        """What is known now, without the processes' memory and processor time."""
        now_s, lanes = self._mailbox.now_s(), self._lanes()
        return status_map(
            node=self._settings.now.node.name,
            pid=os.getpid(),
            ready=self._lives.all_ready,
            uptime_s=now_s - self.started_s,
            started_at_ms=self._started_at_ms,
            traffic=self._mailbox.traffic(),
            actors=self._children.views(now_s),
            lanes=lanes,
            snapshots=self._snapshots.figures(),
            paused_since_ms={bridge.name: self._pauses.since_ms(bridge.name) for bridge in self._settings.now.bridges},
            stop_left_s=self._lives.stop_left_s(now_s),
            limits={bridge.name: bridge.limits for bridge in self._settings.now.bridges},
            down_s={name: self._downs.down_s(name, now_s) for name in (connection_name(*lane) for lane in lanes)},
            rates={queue: self._rates.rates(queue) for queue in (queue_name(*lane) for lane in lanes)},
        )

    def _processes(self) -> list[ProcessView]:
        own = ProcessView(name=SUPERVISOR, pid=os.getpid(), state="stopping" if self._lives.stopping else "ready")
        return [own, *self._children.processes()]

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
