"""The Supervisor: the loop that joins the parts of a node's supervision, and the course of the node's start and end.

Which child lives is ``child_lives.py``'s business, what children are told of each other ``peers.py``'s; requests of the control
socket are answered by ``status_requests.py``, ``store_requests.py`` and ``bridge_orders.py``, whose words are
``supervisor/control/control_socket.py``'s.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from actors.process.actor import PolledActor
from actors.process.mailbox import READ, Mailbox
from supervisor.control.control_socket import Answers, Asker, ControlError, Request, encode_error, encode_result
from supervisor.control.store_commands import is_queue_command
from supervisor.history import node_history
from supervisor.history.node_history import NodeHistory
from supervisor.reload import file_questions
from supervisor.reload.file_questions import FileQuestions
from supervisor.reload.plan import Plan
from supervisor.reload.source import Source
from supervisor.snapshots import node_snapshots
from supervisor.snapshots.node_snapshots import STANDS_BY, Snapshots
from supervisor.tree import (
    bridge_orders,
    child_lives,
    control_endpoints,
    message_traces,
    reloads,
    rollout,
    status_requests,
    store_requests,
)
from supervisor.tree.child_lives import Ended, Lives
from supervisor.tree.control_endpoints import ControlEndpoints
from supervisor.tree.current_settings import CurrentSettings
from supervisor.tree.event_notes import Detail, Notes
from supervisor.tree.message_traces import MessageTraces
from supervisor.tree.peers import Peers
from supervisor.tree.reloads import Reloads
from supervisor.tree.rollout import Rollout
from supervisor.tree.running_children import Child, RunningChildren
from supervisor.tree.service_manager import ServiceManager, announce
from supervisor.tree.signals import SignalPipe
from supervisor.tree.status_requests import OwnFigures, StatusRequests
from supervisor.tree.store_requests import StoreRequests
from supervisor.units import write_time
from supervisor.version import VERSION
from supervisor.workers import Then
from wire.config_settings import NodeSettings
from wire.frames.frame import Frame
from wire.frames.names import CLIENTS, LISTENER, QUEUE_STORE, STORE, SUPERVISOR, child_of, lane_of_actor
from wire.frames.supervision import Heartbeat, LinkStands, NodeFigures, NodeTopics, QueueAnswer, RoleChanged, SnapshotMade
from wire.frames.traces import TopicCounts, TraceStep
from wire.routing.link_states import StandingLinks
from wire.routing.node_topics import KnownTopics
from wire.status.answers import BridgeOrdered, Ping, SnapshotBegun, SnapshotState, Stopping, TraceSteps
from wire.status.event_kinds import EventKind
from wire.status.refusals import Refusal
from wire.status.states import ChildState

log = logging.getLogger("bascule")

_OF_STANDBY = frozenset({"ping", "status", "history", "stop", "reload", "reload.plan", "cluster.promote", "cluster.remove"})


class Supervisor(PolledActor):
    """One a node."""

    def __init__(
        self,
        mailbox: Mailbox,
        signals: SignalPipe,
        settings: CurrentSettings,
        children: RunningChildren,
        source: Source,
        has_folder: Callable[[], bool] = lambda: True,
    ) -> None:
        """source: where the settings are read from again. has_folder: as in ``Lives``."""
        super().__init__(mailbox)
        self._signals = signals
        self.exit_status = 0
        self.next_role: RoleChanged | None = None  # the node is not to end, but to go on as that
        self.starts_again = False  # or to go on as what it is, placed otherwise
        self._settings = settings
        self._source = source
        self._children = children
        self._announced = False
        self._service = ServiceManager(os.environ)
        self._notes = Notes(mailbox.wall_ms)
        self._links = StandingLinks(settings)
        self._topics = KnownTopics(settings, self._links.states)
        self._peers = Peers(mailbox, settings, children)
        self._lives = Lives(mailbox, settings, children, self._notes, self._end_node, has_folder)
        self._snapshots = Snapshots(self, settings, self._store_state, self._note_snapshot)
        self._doors = ControlEndpoints(mailbox, settings.now)
        self._rollout = Rollout(mailbox, settings, children, self._lives)
        self._reloads = Reloads(self, source, settings, self._store_works, self._notes, self._apply, self._doors.answer)
        self._files = FileQuestions(self, source, lambda: settings.now, self._doors.answer)
        self._status = StatusRequests(mailbox, settings, children)
        self._history = NodeHistory(self, settings, self._status.sample, self._answer)
        self._store_requests = StoreRequests(mailbox, children)
        self._traces = MessageTraces(mailbox, children)

    # --- events ---

    def on_start(self) -> None:
        self.mailbox.watch(self._signals.fileno(), READ, "signals")
        self._doors.open()
        self._notes.note(EventKind.NODE_STARTED, actor=SUPERVISOR, details={"version": VERSION})
        if self._settings.now.replication is not None and CLIENTS in self._children:
            self._notes.note(EventKind.NODE_LEADER, actor=SUPERVISOR, reason=self._settings.now.replication.member)
        for bridge in self._settings.now.bridges:
            if (since_ms := self._children.paused_since_ms(bridge.name)) is not None:
                since = write_time(since_ms)
                self._notes.note(EventKind.BRIDGE_PAUSED, bridge=bridge.name, actor=SUPERVISOR, reason=f"since {since}")
                remedy = f"bascule bridge resume {self._source.path} {bridge.name}"
                log.warning("bridge.paused", extra={"bridge": bridge.name, "since": since, "remedy": remedy})
        for child in self._children:
            self._lives.spawn(child)
        self._snapshots.start()
        self._history.start()
        self.mailbox.set_timer("tick", self._status.started_s + self._settings.now.supervision.heartbeat_period_s)
        self._service.say("starting")
        if self._service.watchdog_period_s is not None:
            self.mailbox.set_timer("watchdog", self._status.started_s)

    def on_stop(self) -> None:
        super().on_stop()
        self._doors.close()
        self._service.close()

    def on_sockets(self, ready: list[tuple[Any, int]]) -> None:
        for token, _ in ready:
            match token:
                case control_endpoints.FILE | control_endpoints.REMOTE:
                    for whom, request in self._doors.requests(token):
                        self._serve(whom, request)
                case "signals":
                    for number in self._signals.read():
                        self._signalled(number)
                case ("exit", process):
                    if (ended := self._lives.reap(process)) is not None:
                        self._on_lives_ended(ended)

    def on_turn_end(self, now_s: float) -> None:  # noqa: ARG002  # the actor's name
        while asked := self._doors.waited():
            for whom, request in asked:
                self._serve(whom, request)

    def on_thread_message(self, message: Any) -> None:
        if isinstance(message, Then):
            message.do()
        else:
            super().on_thread_message(message)

    def on_timer(self, name: str, now_s: float) -> None:
        if self._snapshots.on_timer(name, now_s):
            return
        verb, _, child_name = name.partition(" ")
        match verb:
            case "tick":
                self.mailbox.set_timer("tick", now_s + self._settings.now.supervision.heartbeat_period_s)
                self._send_notes()
                if self._lives.check_folder():
                    self._children.kill_hung(now_s)
                    self._peers.send_acl_changes()
                    self._rollout.remind()
                    self._reloads.check_files()
            case "watchdog":
                self._service.alive()
                self.mailbox.set_timer("watchdog", now_s + (self._service.watchdog_period_s or 1.0))
            case "restart":
                self._lives.restart_waiting(child_name)
            case child_lives.QUIET:
                if not self._reloads.rejoin():
                    self._lives.wait_for_quiet()
            case "kill":
                self._children.kill(self._children[child_name])
            case node_history.TIMER:
                self._history.on_due(now_s)
            case status_requests.TIMER:
                self._on_collected()
            case store_requests.TIMER:
                self._answer(self._store_requests.timed_out(now_s))
            case message_traces.TIMER:
                self._answer(self._traces.timed_out(now_s))
            case control_endpoints.TIMER:
                self._doors.bind()
            case reloads.TIMER:
                self._reloads.go_on()
            case rollout.TIMER:
                self._rollout.go_on()
            case "sys":
                self._send_figures(now_s)

    def on_frame(self, frame: Frame) -> None:
        match frame:
            case QueueAnswer():
                self._answer(self._store_requests.on_answered(frame))
            case SnapshotMade():
                self._snapshots.on_made(frame)
            case TraceStep():
                self._answer(self._traces.on_stepped(frame))
            case RoleChanged():
                self._turn_into(frame)
            case TopicCounts():
                self._answer(self._traces.on_counted(frame))
            case LinkStands():
                self._on_link(frame)
            case NodeTopics():
                self._topics.on_notices(frame)
                self._tell_topics()
            case Heartbeat():
                child = self._children.on_heard(frame)
                if child is not None:
                    self._on_heard(child, frame)
            case _:
                log.error("frame.refused", extra={"error": "only heartbeats and answers come here", "kind": frame.KIND})

    def _on_heard(self, child: Child, heartbeat: Heartbeat) -> None:
        if heartbeat.state == ChildState.STOPPED:
            if (ended := self._lives.has_stopped(child)) is not None:
                self._on_lives_ended(ended)
            return
        self._peers.herald(child)
        if heartbeat.state == ChildState.STARTING:
            if child.name == CLIENTS:  # before it can accept anyone
                self.send(LISTENER, self._topics.all())
            self._peers.brief(child)
        if child.says(heartbeat.state):
            self._became_ready(child)
        if child.name == STORE and child.state is ChildState.READY and not self._lives.stopping:
            self._lives.run_former_lanes()
        self._rollout.on_heard(child)
        if heartbeat.request == reloads.REPORT:
            self._reloads.go_on(self._children.store_report)
        if self._status.on_reported(heartbeat):
            self._on_collected()

    def _on_link(self, frame: LinkStands) -> None:
        """A Connection says whether its link stands; a late word of a dead one does not count."""
        name, lane = child_of(frame.actor), lane_of_actor(frame.actor)
        if name in self._children and lane is not None:
            child = self._children[name]
            if child.life is not None and child.epoch == frame.epoch:
                self._links.note(lane.bridge, stands=frame.stands)
                self._tell_topics()

    def _tell_topics(self) -> None:
        """Have the Listener publish what the node itself has to tell, if that is news."""
        serves = CLIENTS in self._children and self._children[CLIENTS].is_working
        if (news := self._topics.news(serves=serves)) is not None and CLIENTS in self._children:
            self.send(LISTENER, news)

    def _on_lives_ended(self, ended: Ended) -> None:
        children, ending = ended
        gone = [self._status.on_gone(child.name) for child in children]
        if any(gone):
            self._on_collected()
        self._links.on_gone(child.lane.bridge for child in children if child.lane is not None and not child.lane.label)
        self._tell_topics()
        names = {child.name for child in children}
        if STORE in names:
            self._answer(self._store_requests.on_store_ended(starts_again=not self._lives.stopping))
            self._snapshots.on_store_ended()
        if CLIENTS in names:
            self._answer(self._store_requests.on_listener_ended())
        if self._lives.follow(children, ending):
            self._on_ended()
        elif self._announced and not self._lives.stopping:
            self._service.say(self._state())
        for child in children:
            self._rollout.on_heard(child)

    # --- the beginning ---

    def _became_ready(self, child: Child) -> None:
        assert child.life is not None
        if child.name == STORE or not child.shares:  # of those that share a process, the store is the first
            pid, count = child.life.pid, child.restart_count
            self._notes.note(EventKind.PROCESS_STARTED, actor=child.process, count=count, details={"pid": pid})
        if child.name == STORE:
            self._send_notes()
            self._answer(self._store_requests.on_store_ready())
        if child.name == CLIENTS:
            self._lives.on_clients_served()
            self._tell_topics()
            if self._settings.now.clients.sys_period_s:
                self.mailbox.set_timer("sys", self.mailbox.now_s())
        if not self._announced and self._lives.all_ready:
            self._announced = True
            self._service.ready(self._state())
            took_s = self.mailbox.now_s() - self._status.started_s
            announce(self._settings.now, took_s, stands_by=self._children.stands_by)
        elif self._announced:
            self._service.say(self._state())

    def _send_figures(self, now_s: float) -> None:
        """Give the Listener what the children report, for the $SYS topics; a new Listener begins the periods anew."""
        period_s = self._settings.now.clients.sys_period_s
        if (
            self._lives.stopping
            or not period_s
            or CLIENTS not in self._children
            or self._children[CLIENTS].state is not ChildState.READY
        ):
            return
        self.mailbox.set_timer("sys", now_s + period_s)
        uptime_s = int(now_s - self._status.started_s)
        self.send(LISTENER, NodeFigures(version=VERSION, uptime_s=uptime_s, values=self._status.sys_values()))

    # --- the end ---

    def _signalled(self, number: signal.Signals) -> None:
        if number is not signal.SIGHUP:
            log.info("node.signalled", extra={"signal": number.name})
            self._end_node(0)
            return
        self._service.reloading()
        self._reloads.hang_up(lambda: self._service.ready(self._state()))

    def _apply(self, plan: Plan, done: Callable[[], None]) -> None:
        """The settings have changed by ``plan``: make anew what is made of them; all, where all actors go to other processes."""
        if plan.moves_all:
            self._start_again()
            done()
            return
        settings = self._settings.now
        self._peers.watch_files()
        self._tell_topics()
        self._snapshots.on_settings_changed()
        self._history.on_settings_changed()
        self._doors.rebind(settings.control)
        if settings.clients.sys_period_s:
            self.mailbox.set_timer("sys", self.mailbox.now_s())
        self._rollout.begin(plan, done)

    def _turn_into(self, change: RoleChanged) -> None:
        """End all children, so that the node goes on in another role."""
        if self._lives.stopping:
            return
        log.warning("node.role", extra={"role": change.role, "reason": change.reason})
        if change.role == "standby":  # who comes to lead says so in the store that it opens then
            self._notes.note(EventKind.NODE_STANDBY, actor=SUPERVISOR, reason=change.reason)
        self.next_role = change
        if change.at_once:
            self._children.kill_all_but(STORE)
        self._end_node(0)

    def _start_again(self) -> None:
        """End all children, so that the node goes on with its actors in other processes."""
        if not self._lives.stopping:
            log.warning("node.placed_anew", extra={"placement": self._settings.now.supervision.placement})
            self.starts_again = True
            self._end_node(0)

    def _end_node(self, exit_status: int) -> None:
        """Stop the children in reverse start order, then this actor; the first reason to stop gives the exit status."""
        if self._lives.stopping:
            self.next_role, self.starts_again = None, False  # it ends, even if it was about to go on as something else
            return
        self.exit_status = exit_status
        log.info("node.stopping", extra={"exit_status": exit_status})
        self._snapshots.stop()
        self._history.stop()
        goes_on = self.next_role is not None or self.starts_again
        if not goes_on:
            self._notes.note(EventKind.NODE_STOPPED, actor=SUPERVISOR, reason=str(exit_status))
        self._send_notes()
        ended = self._lives.stop_all()
        if not goes_on:
            self._service.stopping(self._lives.stop_left_s(self.mailbox.now_s()) or 0.0)
        if ended:
            self._on_ended()

    def fail(self, exit_status: int) -> None:
        """The node ends with that: what happened in its own process nobody above can judge."""
        self.exit_status, self.next_role, self.starts_again = exit_status, None, False

    def _on_ended(self) -> None:
        """No child runs any more."""
        self._on_collected()
        log.info("node.stopped", extra={"exit_status": self.exit_status})
        self.stop()

    # --- control ---

    def _serve(self, whom: Asker, request: Request) -> None:
        try:
            refuse(request, self._settings.now, self._children)
            if request.command == "status":
                self._status.ask(whom, request)
            elif request.command == "history":
                self._history.ask(whom, request)
            elif request.command in reloads.COMMANDS:
                self._reloads.ask(whom, request)
            elif request.command in file_questions.COMMANDS:
                self._files.ask(whom, request)
            elif request.command == "topics":
                self._traces.ask_topics(whom, request)
            elif request.command == "trace":
                self._traces.ask(whom, request)
            elif is_queue_command(request.command):
                self._store_requests.ask(whom, request)
            else:
                self._doors.answer(whom, encode_result(request.request_id, self._obey(request)))
        except ControlError as error:
            self._doors.answer(whom, encode_error(error))

    def _answer(self, answers: Answers) -> None:
        for whom, payload in answers:
            self._doors.answer(whom, payload)

    def _on_collected(self) -> None:
        """All have reported, or the time is up: answer with what is known."""
        self._answer(self._status.on_collected(self._own_figures))
        self._status.collect()

    def _obey(self, request: Request) -> Ping | Stopping | TraceSteps | SnapshotBegun | SnapshotState | BridgeOrdered:
        match request.command:
            case "ping":
                return Ping(node=self._settings.now.node.name, pid=os.getpid(), ready=self._lives.all_ready)
            case "stop":
                self._end_node(0)
                return Stopping(stopping=True, pid=os.getpid(), stop_timeout_s=self._settings.now.supervision.stop_timeout_s)
            case "trace.result":
                return self._traces.result(request)
            case "snapshot" | "snapshot.result":
                return node_snapshots.obey(self._snapshots, request)
        return bridge_orders.obey(request, self._children, self._lives, self._notes, Path(self._settings.now.run_dir))

    def _own_figures(self) -> OwnFigures:
        return OwnFigures(
            ready=self._lives.all_ready,
            stop_left_s=self._lives.stop_left_s(self.mailbox.now_s()),
            history=self._history.figures(),
            snapshots=self._snapshots.figures(),
            control=self._doors.figures(),
            configuration=self._reloads.figures(self._rollout.pending()),
        )

    def _send_notes(self) -> None:
        """Send what was noted, if the store is ready; else it waits."""
        if self._store_works() and (frame := self._notes.take()) is not None:
            self.send(QUEUE_STORE, frame)

    def _store_works(self) -> bool:
        return self._children[STORE].is_working

    def _note_snapshot(self, reason: str, messages: int, details: dict[str, Detail]) -> None:
        self._notes.note(EventKind.SNAPSHOT_MADE, actor=SUPERVISOR, reason=reason, count=messages, details=details)

    def _state(self) -> str:
        """The state for the service manager: that the node does its work, or which of its processes do not."""
        if self._lives.all_ready:
            return STANDS_BY if self._children.stands_by else "ready"
        return self._children.not_ready() or "starting"

    def _store_state(self) -> str:
        if self._children.stands_by:
            return STANDS_BY
        store = self._children[STORE]
        return store.state if store.life is not None else "not running"


def refuse(request: Request, settings: NodeSettings, children: RunningChildren) -> None:
    """See whether ``request`` is for a node such as this, of a cluster or none, which leads or stands by.

    Raises:
        ControlError: it is not; nothing was done.
    """
    if settings.replication is None:
        if request.command.startswith("cluster."):
            text = f"persistence.mode is {settings.persistence.mode}: the node is of no cluster; nothing was done"
            raise ControlError(Refusal.NOT_REPLICATED, text, request.request_id)
    elif request.command not in _OF_STANDBY and children.stands_by:
        text = f"this node stands by: {request.command} is for the one that leads; {_leader(children)}; nothing was done"
        raise ControlError(Refusal.STANDBY, text, request.request_id)


def _leader(children: RunningChildren) -> str:
    figures = None if children.store_report is None else children.store_report.replication
    if figures is None or not figures.leader:
        return "nobody leads, as far as is known here"
    return f"the leader is {figures.leader}" + (f" at {figures.leader_address}" if figures.leader_address else "")
