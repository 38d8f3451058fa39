"""The Supervisor: tells the children of each other, restarts them, stops them, and answers the control socket.

It owns the order to reset markers and the course of the node's start and end. What a crash means is ``restart.py``'s decision, the
processes are in the ``nursery.py``, the words of the control socket in ``control.py``; this is the loop that joins them.
"""

from __future__ import annotations

import json
import logging
import os
import signal
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from actors.actor import PolledActor
from actors.mailbox import READ, Mailbox
from supervisor.acl_watch import AclWatch
from supervisor.cli_output import tell
from supervisor.collection import Collection
from supervisor.control import SOCKET_NAME, ControlError, Request, encode_error, encode_result, parse_request
from supervisor.event_queue import Detail, EventQueue
from supervisor.figures import ProcessView, process_rows, status_map
from supervisor.nursery import Child, Nursery
from supervisor.pauses import Pauses
from supervisor.queue_commands import CHANGES, Relay, is_queue_command, is_session_command
from supervisor.restart import Escalate, GiveUp, Restart
from supervisor.signals import SignalPipe
from supervisor.snapshots import Snapshots
from supervisor.tree import former_lanes, former_spec
from supervisor.units import write_time
from supervisor.usage import usage_of
from supervisor.version import version
from supervisor.workers import Then
from wire.errors import ConfigError, Unavailable
from wire.frames import Command, Frame, Heartbeat, NodeFigures, PeerUp, QueueAnswer, ReportNow, ResetMarkers, SnapshotMade
from wire.names import BRIDGE, CLIENTS, LISTENER, QUEUE_STORE, STORE, SUPERVISOR, connection_name, queue_name
from wire.settings import NodeSettings
from wire.sys_topics import node_values

log = logging.getLogger("bascule")

EXIT_ESCALATED = 70
COLLECT_TIMEOUT_S = 0.5
REASON_MAX = 500  # characters of a complaint about the configuration that go into an event


class Supervisor(PolledActor):
    """One a node. ``recheck`` validates the configuration file again and returns its problems."""

    def __init__(
        self, mailbox: Mailbox, settings: NodeSettings, nursery: Nursery, recheck: Callable[[], list[str]], pauses: Pauses
    ) -> None:
        super().__init__(mailbox)
        self.exit_status = 0
        self._settings = settings
        self._nursery = nursery
        self._recheck = recheck
        self._started_s = self.mailbox.now_s()
        self._period_s = settings.supervision.heartbeat_period_s
        self._announced = False
        self._stopping = False
        self._stop_orders = sorted({child.spec.order for child in nursery})  # taken from the end
        self._stop_waits: set[str] = set()
        self._pauses = pauses
        self._collection: Collection[tuple[list[bytes], Any]] = Collection()
        self._relay: Relay[list[bytes]] = Relay()
        self._acl_watch = AclWatch(settings)
        self._snapshots = Snapshots(self, settings, self._store_state, self._note_snapshot)
        self._events = EventQueue()

    # --- events ---

    def on_start(self) -> None:
        self._signals = SignalPipe((signal.SIGTERM, signal.SIGINT, signal.SIGHUP))
        self.mailbox.watch(self._signals.fileno(), READ, "signals")
        self._router = self.mailbox.router(Path(self._settings.run_dir) / SOCKET_NAME)
        self.note("node.started", actor=SUPERVISOR, details={"version": version()})
        for bridge in self._settings.bridges:
            if (since_ms := self._pauses.since_ms(bridge.name)) is not None:
                since = write_time(since_ms)
                self.note("bridge.paused", bridge=bridge.name, actor=SUPERVISOR, reason=f"since {since}")
                log.warning("bridge.paused", extra={"bridge": bridge.name, "since": since, "remedy": "bascule bridge resume"})
        for child in self._nursery:
            self._spawn(child)
        self._snapshots.start()
        self.mailbox.set_timer("tick", self._started_s + self._period_s)

    def on_stop(self) -> None:
        self._signals.close()

    def on_sockets(self, ready: list[tuple[Any, int]]) -> None:
        for token, _ in ready:
            match token:
                case "router":
                    for whom, payload in self._router.requests():
                        self._serve(whom, payload)
                case "signals":
                    for number in self._signals.read():
                        self._signalled(number)
                case ("exit", name):
                    self._exited(self._nursery[name])

    def on_told(self, message: Any) -> None:
        if isinstance(message, Then):
            message.do()
        else:
            super().on_told(message)

    def on_timer(self, name: str, now_s: float) -> None:
        if self._snapshots.on_timer(name, now_s):
            return
        verb, _, child_name = name.partition(" ")
        match verb:
            case "tick":
                self.mailbox.set_timer("tick", now_s + self._period_s)
                self._send_events()
                if not self._stopping:
                    self._nursery.kill_hung(now_s)
                    for frame in self._acl_watch.changes():
                        self.send(LISTENER, frame)
            case "restart":
                self._restart(self._nursery[child_name])
            case "kill":
                self._nursery.kill(self._nursery[child_name])
            case "collect":
                self._collected()
            case "queue_commands":
                self._refuse(self._relay.timed_out(now_s))
            case "sys":
                self._tell_figures(now_s)

    def on_frame(self, frame: Frame) -> None:
        if isinstance(frame, QueueAnswer):
            self._queue_answered(frame)
            return
        if isinstance(frame, SnapshotMade):
            self._snapshots.made(frame)
            return
        if not isinstance(frame, Heartbeat):
            log.error("frame.refused", extra={"error": "only heartbeats and answers come here", "kind": frame.KIND})
            return
        child = self._nursery.heard(frame)
        if child is None:
            return
        self._herald(child)
        if frame.state == "starting":
            self._brief(child)
        elif frame.state == "ready" and child.state == "starting":
            child.state = "ready"
            self._became_ready(child)
        elif frame.state == "stopping":
            child.state = "stopping"
        if child.name == STORE and child.state == "ready" and not self._stopping:
            self._empty_former_lanes(child.figures[QUEUE_STORE].get("queues", {}))
        self._collection.reported(child.name, frame.request)
        if self._collection.complete:
            self._collected()

    # --- lives ---

    def _spawn(self, child: Child) -> None:
        if not self._nursery.spawn(child, paused=self._is_paused(child)):
            self._judge(child, Unavailable.exit_status, self.mailbox.now_s())

    def _restart(self, child: Child) -> None:
        child.restart_count += 1
        self._spawn(child)
        if child.life is not None:
            log.info("child.restarted", extra={"child": child.name, "pid": child.life.pid, "restarts": child.restart_count})

    def _empty_former_lanes(self, queues: Mapping[str, Mapping[str, Any]]) -> None:
        """Run lanes that the configuration has no more until they are empty; what others got since then waits for them."""
        lanes = former_lanes(self._settings, queues)
        needed = {spec.name: (lane, spec) for lane in lanes for spec in [former_spec(self._settings, lane)]}
        for name, (lane, spec) in needed.items():
            if name not in self._nursery:
                log.info("lane.former", extra={"child": name, "messages": queues[queue_name(*lane)]["depth"]})
                self._spawn(self._nursery.add(spec))
        for child in [child for child in self._nursery if child.spec.former and child.wanted and child.name not in needed]:
            child.wanted = False
            self.mailbox.cancel_timer(f"restart {child.name}")
            if child.life is None:
                self._nursery.remove(child)
            else:
                self._nursery.order_stop(child)

    def _brief(self, child: Child) -> None:
        """Tell a child which peers are ready, and whether its bridge is paused; a repetition is harmless."""
        if child.name == CLIENTS:  # before it can accept anyone
            for frame in self._acl_watch.so_far():
                self.send(LISTENER, frame)
        for peer in self._nursery.living():
            if _knows(child, peer) and peer.life is not None:
                for actor in sorted(peer.heralded):
                    self.send(child.name, PeerUp(name=actor, epoch=peer.life.epoch))
        if self._is_paused(child):
            self._command([child], "pause")

    def _herald(self, child: Child) -> None:
        """Tell the others which actors of ``child`` have become ready."""
        assert child.life is not None
        for actor in [name for name, state in child.states.items() if state == "ready" and name not in child.heralded]:
            child.heralded.add(actor)
            for peer in self._nursery.living():
                if _knows(peer, child):
                    self.send(peer.name, PeerUp(name=actor, epoch=child.life.epoch))

    def _is_paused(self, child: Child) -> bool:
        bridge = child.spec.bridge
        return bridge is not None and self._pauses.since_ms(bridge) is not None

    def note(
        self,
        kind: str,
        *,
        child: Child | None = None,
        bridge: str = "",
        actor: str = "",
        reason: str = "",
        count: int = 0,
        details: dict[str, Detail] | None = None,
    ) -> None:
        """Have the store keep what happened; the fields are those of ``storage/events.py``, those of ``child`` are known."""
        lane = -1
        if child is not None:
            actor, bridge = child.name, child.spec.bridge or ""
            lane = -1 if child.spec.lane is None else child.spec.lane
        self._events.add(
            self.mailbox.wall_ms(), kind, bridge=bridge, lane=lane, actor=actor, reason=reason, count=count, details=details
        )

    def _send_events(self) -> None:
        if self._nursery[STORE].state == "ready" and (frame := self._events.take(self.mailbox.wall_ms())) is not None:
            self.send(QUEUE_STORE, frame)

    def _became_ready(self, child: Child) -> None:
        assert child.life is not None
        self.note("process.started", child=child, count=child.restart_count, details={"pid": child.life.pid})
        if child.name == STORE:
            self._send_events()
        if child.name == CLIENTS and self._settings.clients.sys_period_s:
            self.mailbox.set_timer("sys", self.mailbox.now_s())
        if not self._announced and self._is_ready():
            self._announced = True
            self._announce()

    def _tell_figures(self, now_s: float) -> None:
        """Give the Listener what the children report, for the $SYS topics; a new Listener begins the periods anew."""
        if self._stopping or self._nursery[CLIENTS].state != "ready":
            return
        self.mailbox.set_timer("sys", now_s + self._settings.clients.sys_period_s)
        uptime_s = int(now_s - self._started_s)
        self.send(LISTENER, NodeFigures(version=version(), uptime_s=uptime_s, values=node_values(self._status())))

    def _announce(self) -> None:
        listeners = [f"{listener.host}:{listener.port}" for listener in self._settings.listeners]
        took_s = round(self.mailbox.now_s() - self._started_s, 3)
        facts = {"pid": os.getpid(), "listeners": listeners, "took_s": took_s}
        log.info("node.ready", extra=facts)
        ts = datetime.now(UTC).isoformat(timespec="milliseconds")
        refusal = tell(json.dumps({"ts": ts, "event": "node.ready", "node": self._settings.name, **facts}))
        if refusal is not None:
            log.warning("output.refused", extra={"error": refusal, "why": "standard output did not take the line node.ready"})

    def _is_ready(self) -> bool:
        return not self._stopping and all(child.state == "ready" for child in self._nursery if not child.spec.former)

    def _exited(self, child: Child) -> None:
        expected = self._stopping or not child.wanted or child.ordered
        pid, epoch, hung = (child.life.pid, child.life.epoch, child.hung) if child.life is not None else (0, 0, child.hung)
        ending = self._nursery.bury(child, expected=expected)
        if ending is None:
            return
        reason = "hung" if hung else ending.signal or ("stopped" if not ending.status else "failed")
        self.note("process.ended", child=child, reason=reason, details={"status": ending.status, "pid": pid})
        if child.spec.queue is not None:
            self.send(QUEUE_STORE, ResetMarkers(queue=child.spec.queue, epoch=epoch))
            log.info("markers.reset", extra={"queue": child.spec.queue, "child": child.name})
        self._collection.gone(child.name)
        if self._collection.complete:
            self._collected()
        if child.name == STORE:
            self._refuse(self._relay.store_ended())
            self._snapshots.store_ended()
        elif child.name == CLIENTS:
            self._refuse(self._relay.listener_ended())
        if self._stopping or not child.wanted:
            child.state = "stopped"
            self._stop_waits.discard(child.name)
            if child.spec.former and not self._stopping:
                self._nursery.remove(child)
            if self._stopping and not self._stop_waits:
                self._stop_next()
        elif child.ordered:
            self._restart(child)
        else:
            self._judge(child, ending.status, self.mailbox.now_s())

    def _judge(self, child: Child, exit_status: int, now_s: float) -> None:
        match child.restarts.ended(exit_status, now_s):
            case Restart(delay_s):
                child.state = "restarting"
                self.mailbox.set_timer(f"restart {child.name}", now_s + delay_s)
            case GiveUp(state):
                child.state = state
                log.critical("child.abandoned", extra={"child": child.name, "state": state, "exit_status": exit_status})
                self._abandoned(child)
            case Escalate():
                child.state = "stopped"
                facts = {"child": child.name, "restarts_max": child.spec.restarts_max, "period_s": child.spec.restart_period_s}
                remedy = "the child's last log lines say why; what was committed is kept"
                log.critical("node.escalated", extra={**facts, "remedy": remedy})
                self._end_node(EXIT_ESCALATED)

    def _abandoned(self, child: Child) -> None:
        """A lane without its process leaves the others at work. Without a process of the whole node there is no intake."""
        if child.spec.bridge is not None:
            return
        if child.state == "misconfigured":
            self._end_node(ConfigError.exit_status)
            return
        log.critical("intake.stopped", extra={"child": child.name, "remedy": "status still answers; the files are kept"})
        clients = self._nursery[CLIENTS]
        clients.wanted = False
        self.mailbox.cancel_timer(f"restart {CLIENTS}")
        if clients.life is not None:
            self._nursery.order_stop(clients)
        elif clients is not child:
            clients.state = "stopped"

    # --- the end ---

    def _signalled(self, number: signal.Signals) -> None:
        if number is not signal.SIGHUP:
            log.info("node.signalled", extra={"signal": number.name})
            self._end_node(0)
            return
        problems = self._recheck()
        remedy = "a running node keeps its configuration; stop it and run it again: no queue is lost"
        log.warning("reload.refused", extra={"valid": not problems, "problems": problems, "remedy": remedy})
        reason = (problems[0] if problems else remedy)[:REASON_MAX]
        self.note(
            "node.reload_refused", actor=SUPERVISOR, reason=reason, details={"valid": not problems, "problems": len(problems)}
        )

    def _end_node(self, exit_status: int) -> None:
        """Stop the children in reverse start order, then this actor; the first reason to stop gives the exit status."""
        if self._stopping:
            return
        self._stopping = True
        self.exit_status = exit_status
        log.info("node.stopping", extra={"exit_status": exit_status})
        self._snapshots.stop()
        self.note("node.stopped", actor=SUPERVISOR, reason=str(exit_status))
        self._send_events()
        for child in self._nursery:
            self.mailbox.cancel_timer(f"restart {child.name}")
        self._stop_next()

    def _stop_next(self) -> None:
        """Tell the children of the last order that still has any to stop; end when there is none."""
        while self._stop_orders:
            order = self._stop_orders.pop()
            living = [child for child in self._nursery.living() if child.spec.order == order]
            if living:
                self._stop_waits = {child.name for child in living}
                for child in living:
                    self._nursery.order_stop(child)
                return
        self._collected()
        log.info("node.stopped", extra={"exit_status": self.exit_status})
        self.stop()

    # --- control ---

    def _serve(self, whom: list[bytes], payload: bytes) -> None:
        try:
            request = parse_request(payload)
            if request.command == "status":
                self._ask_status(whom, request)
                return
            if is_queue_command(request.command):
                self._ask_store(whom, request)
                return
            result = self._obey(request)
        except ControlError as error:
            self._router.answer(whom, encode_error(error))
            return
        self._router.answer(whom, encode_result(request.request_id, result))

    def _obey(self, request: Request) -> dict[str, Any]:
        match request.command:
            case "ping":
                return {"node": self._settings.name, "pid": os.getpid(), "ready": self._is_ready()}
            case "stop":
                self._end_node(0)
                return {"stopping": True, "pid": os.getpid(), "stop_timeout_s": self._settings.supervision.stop_timeout_s}
            case "snapshot" | "snapshot.result":
                return self._obey_snapshots(request)
        bridge = request.arguments["bridge"]
        lanes = [child for child in self._nursery if child.spec.bridge == bridge]
        if not lanes:
            known = ", ".join(bridge.name for bridge in self._settings.bridges) or "none"
            raise ControlError("unknown_bridge", f"there is no bridge {bridge!r}; known: {known}", request.request_id)
        if self._stopping:
            raise ControlError("stopping", "the node is stopping", request.request_id)
        match request.command:
            case "bridge.pause" | "bridge.resume":
                self._pause_or_resume(request, bridge, lanes)
            case "bridge.restart":
                self._restart_on_order(lanes)
        log.info("control.obeyed", extra={"command": request.command, "bridge": bridge})
        return {"bridge": bridge, "processes": [child.name for child in lanes]}

    def _pause_or_resume(self, request: Request, bridge: str, lanes: list[Child]) -> None:
        verb = request.command.removeprefix("bridge.")
        try:
            self._pauses.pause(bridge) if verb == "pause" else self._pauses.resume(bridge)
        except OSError as error:
            text = f"the disk refuses to keep that: {error.strerror}; nothing was done"
            raise ControlError("unavailable", text, request.request_id) from error
        self._command(lanes, verb)
        self.note(f"bridge.{verb}d", bridge=bridge, actor="operator")

    def _obey_snapshots(self, request: Request) -> dict[str, Any]:
        try:
            if request.command == "snapshot.result":
                return self._snapshots.result(request.arguments["number"])
            number = self._snapshots.take()
        except ControlError as error:
            raise ControlError(error.kind, error.message, request.request_id) from error
        log.info("control.obeyed", extra={"command": request.command, "number": number})
        return {"number": number}

    def _note_snapshot(self, reason: str, messages: int, details: dict[str, Detail]) -> None:
        self.note("snapshot.made", actor=SUPERVISOR, reason=reason, count=messages, details=details)

    def _store_state(self) -> str:
        store = self._nursery[STORE]
        return store.state if store.life is not None else "not running"

    def _command(self, lanes: list[Child], verb: str) -> None:
        for child in lanes:
            if child.life is not None and child.spec.bridge is not None and child.spec.lane is not None:
                self.send(connection_name(child.spec.bridge, child.spec.lane), Command(verb=verb))

    def _restart_on_order(self, children: list[Child]) -> None:
        for child in children:
            if child.life is None:
                self.mailbox.cancel_timer(f"restart {child.name}")
                self._restart(child)
            else:
                child.ordered = True
                self._nursery.order_stop(child)

    def _ask_store(self, whom: list[bytes], request: Request) -> None:
        store = self._nursery[STORE]
        if store.life is None or store.state != "ready":
            refusal = store.figures.get(QUEUE_STORE, {}).get("error") if store.life is not None else None
            why = f"cannot open its files for now: {refusal}" if refusal else f"is {store.state}"
            text = f"the queue store {why}; nothing was done"
            raise ControlError("unavailable", text, request.request_id)
        clients = self._nursery[CLIENTS]
        by_listener = is_session_command(request.command) and clients.life is not None and clients.state == "ready"
        frame = self._relay.ask(whom, request, self.mailbox.now_s(), by_listener=by_listener)
        self.send(LISTENER if by_listener else QUEUE_STORE, frame)
        self._watch_relay()
        if request.command in CHANGES:
            log.info("control.relayed", extra={"command": request.command, **request.arguments})

    def _queue_answered(self, answer: QueueAnswer) -> None:
        asked = self._relay.answered(answer)
        if asked is not None:
            whom, request_id, error = asked
            self._router.answer(whom, encode_error(error) if error is not None else encode_result(request_id, answer.result))
            self._watch_relay()

    def _refuse(self, refused: list[tuple[list[bytes], ControlError]]) -> None:
        for whom, error in refused:
            self._router.answer(whom, encode_error(error))
        self._watch_relay()

    def _watch_relay(self) -> None:
        deadline_s = self._relay.next_deadline_s()
        if deadline_s is None:
            self.mailbox.cancel_timer("queue_commands")
        else:
            self.mailbox.set_timer("queue_commands", deadline_s)

    def _ask_status(self, whom: list[bytes], request: Request) -> None:
        if not self._collection.ask((whom, request.request_id)):
            raise ControlError("busy", "too many status requests are waiting", request.request_id)
        self._collect()

    def _collect(self) -> None:
        living = [child.name for child in self._nursery.living()]
        if self._collection.begin(living):
            for name in living:
                self.send(name, ReportNow(request=self._collection.number))
            self.mailbox.set_timer("collect", self.mailbox.now_s() + (COLLECT_TIMEOUT_S if living else 0.0))

    def _collected(self) -> None:
        """All have reported, or the time is up: answer with what is known."""
        self.mailbox.cancel_timer("collect")
        served = self._collection.end()
        if served:
            status = {**self._status(), "processes": process_rows(self._processes(), usage_of)}
            for whom, request_id in served:
                self._router.answer(whom, encode_result(request_id, status))
        self._collect()

    def _status(self) -> dict[str, Any]:
        now_s = self.mailbox.now_s()
        return status_map(
            node=self._settings.name,
            pid=os.getpid(),
            ready=self._is_ready(),
            uptime_s=now_s - self._started_s,
            traffic=self.mailbox.traffic(),
            actors=self._nursery.views(now_s),
            lanes=self._lanes(),
            snapshots=self._snapshots.figures(),
            paused_since_ms={bridge.name: self._pauses.since_ms(bridge.name) for bridge in self._settings.bridges},
        )

    def _processes(self) -> list[ProcessView]:
        own = ProcessView(name=SUPERVISOR, pid=os.getpid(), state="stopping" if self._stopping else "ready")
        return [own, *self._nursery.processes()]

    def _lanes(self) -> list[tuple[str, int]]:
        """The lanes that run: bridge and number, a bridge's former ones behind its others."""
        former = [child.spec for child in self._nursery if child.spec.former]
        lanes = [(bridge.name, lane) for bridge in self._settings.bridges for lane in range(bridge.lanes)]
        for spec in former:
            if spec.bridge is not None and spec.lane is not None:
                lanes.append((spec.bridge, spec.lane))
        places = {bridge.name: place for place, bridge in enumerate(self._settings.bridges)}
        return sorted(lanes, key=lambda lane: (places[lane[0]], lane[1]))


def _knows(child: Child, peer: Child) -> bool:
    """Whether ``child`` is told when ``peer`` begins a life: one bridge has nothing to do with another."""
    return peer is not child and not child.spec.kind == peer.spec.kind == BRIDGE
