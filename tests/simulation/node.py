"""The simulated machine: the node's processes, its disk, its listening socket and its way to the remote broker.

The classes below are the product's with the few methods replaced that touch the system: how the Listener binds, where the store's
engine comes from, and what the Supervisor prints.
"""

from __future__ import annotations

import os
import signal
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from actors.access.listening_sockets import ListeningSocket
from actors.bridge.connection import Connection
from actors.bridge.forwarder import Forwarder
from actors.broker.distributor import Distributor
from actors.broker.listener import Listener
from actors.process.actor import MailboxActor
from actors.process.host import ChildHost, Host
from actors.process.local_messages import Passed, PublishedMessages
from actors.process.mailbox import READ, Mailbox
from actors.remote.credentials import NO_LOGIN, Login
from actors.remote.remote_dialer import ASKS
from actors.remote.remote_socket import NOTHING_SUBSCRIBED, Connack, InputLimits, Remote
from actors.store.queue_store import QueueStore
from actors.system.receive_buffer import receive
from storage.engine.engine import Engine
from supervisor.reload.source import Source
from supervisor.tree.child_processes import ChildProcesses, Ending, Life
from supervisor.tree.child_table import ChildSpec, child_specs
from supervisor.tree.current_settings import CurrentSettings
from supervisor.tree.epochs import Epochs
from supervisor.tree.pauses import Pauses
from supervisor.tree.running_children import RunningChildren
from supervisor.tree.signals import SignalPipe
from supervisor.tree.supervisor import Supervisor
from tests.simulation import snapshots
from tests.simulation.broker import Broker
from tests.simulation.disk import SimDisk, SimEngine
from tests.simulation.echoes import SUBSCRIBED, TO_OTHERS
from tests.simulation.failover import Remotes
from tests.simulation.mailbox import ProcessPost
from tests.simulation.mqtt import LEVEL_5
from tests.simulation.oracle import Oracle
from tests.simulation.plan import BRIDGE, Shape, settings_of
from tests.simulation.post import SimPost
from tests.simulation.process import KILLED, Process, current
from tests.simulation.tcp import Far, Link, SimSocket
from tests.simulation.thinned import LikePayloads
from tests.simulation.world import Pollable, Violation, World
from wire.config_settings import ListenerSettings, NodeSettings, RemoteSettings
from wire.errors import Unavailable
from wire.exchange.announcements import Announcement
from wire.exchange.remote_dialects import Dialect
from wire.frames.frame import Frame
from wire.frames.intake import Publishes
from wire.frames.lanes import HandOut, LaneClose, LaneOpen, LaneOpened
from wire.frames.names import CLIENTS, LISTENER, STORE, SUPERVISOR, actors_of, child_of, session_of_queue
from wire.frames.placement import SITE, Placement
from wire.frames.supervision import Command, NodeTopics, SnapshotMade
from wire.mqtt.reason_codes import ReasonCode
from wire.routing.link_states import told_here
from wire.status.link_faults import LinkFault

BACKLOG_MS = 300  # what has waited for longer is of a backlog


class SimListening(Pollable):
    """A listening socket: clients that wait to be accepted."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.waiting: deque[SimSocket] = deque()
        self.closed = False

    def readiness(self) -> int:
        return READ if self.waiting and not self.closed else 0

    def accept(self) -> tuple[SimSocket, tuple[str, int]]:
        if not self.waiting:
            raise BlockingIOError
        return self.waiting.popleft(), ("127.0.0.1", 40_000)

    def close(self) -> None:
        self.closed = True
        for sock in self.waiting:
            sock.close()


class SimListener(Listener):
    """Binds in the simulated network."""

    def listen(self) -> None:
        process = current()
        machine = machine_of(process)
        if any(map(told_here, machine.settings.bridges)) and not machine.links_told:
            raise Violation(
                "broker.link-states-before-clients", "clients are let in, and nobody has told of the links in this life"
            )
        listening = SimListening(process.world)
        process.opened.append(listening)
        self.reception.add(ListeningSocket(listening, ListenerSettings(bind="127.0.0.1:1883")))
        machine.listening = listening


class SimQueueStore(QueueStore):
    """Keeps its store on the simulated disk."""

    def _open(self, now_s: float) -> None:
        super()._open(now_s)
        machine = machine_of(current())
        if self._store is not None and machine.engine is not None:
            machine.oracle.store_opened(machine.engine.rows_read, len(machine.shape.publishers))

    def _open_engine(self) -> Engine:
        machine = machine_of(current())
        machine.engine = SimEngine(machine.disk)
        return machine.engine


class SimDistributor(Distributor):
    """Says by which rules it routes."""

    def route_by(self, settings: NodeSettings) -> None:
        super().route_by(settings)
        machine_of(current()).routes_by(settings)


class SimSettings(CurrentSettings):
    """The file that children read is a field of the machine. It is gone with the node's end."""

    def __init__(self, machine: Machine) -> None:
        self.now = machine.settings
        self._machine = machine

    def write(self) -> None:
        self._machine.settings = self.now

    def change(self, settings: NodeSettings) -> None:
        current().effect("settings file, the next")
        self.now = replace(settings, number=self.now.number + 1)

    def publish(self) -> None:
        if self._machine.settings.number < self.now.number:
            current().effect("settings file")
            self._machine.settings = self.now


class SimSupervisor(Supervisor):
    """Has the snapshots judged that were ordered in its name."""

    def on_frame(self, frame: Frame) -> None:
        if isinstance(frame, SnapshotMade):
            snapshots.judge(machine_of(current()), frame)
        else:
            super().on_frame(frame)


class SimSignals(Pollable):
    """Stands for the pipe of signals."""

    def __init__(self) -> None:
        process = current()
        super().__init__(process.world)
        self._came: list[signal.Signals] = []
        machine_of(process).signals = self

    def readiness(self) -> int:
        return READ if self._came else 0

    def tell(self, number: signal.Signals) -> None:
        self._came.append(number)
        self.changed()

    def read(self) -> list[signal.Signals]:
        came, self._came = self._came, []
        return came


class SimEpochs(Epochs):
    """Its file is a field of the disk, replaced as a whole and synced."""

    def __init__(self, disk: SimDisk, wall_s: float) -> None:
        self._disk = disk
        super().__init__(Path("/nonexistent"), wall_s)

    def _read(self) -> int | None:
        return self._disk.epoch_reserved

    def _reserve(self) -> None:
        self._reserved = self._next + 32
        current().effect("epoch file")
        self._disk.epoch_reserved = self._reserved


class _Exit(Pollable):
    """A pidfd."""

    status: int | None = None

    def readiness(self) -> int:
        return READ if self.status is not None else 0


class SimLife(Life):
    """One life of a child, as its Supervisor sees it."""

    def __init__(self, machine: Machine, process: Process, pid: int) -> None:
        self.pid = pid
        self.epoch = process.epoch
        self.exit = _Exit(machine.world)
        self.pidfd = self.exit.fileno()
        self._machine = machine
        self._life = process

    def kill(self) -> None:
        self._machine.kill(self._life)

    def ask(self) -> None:
        """A process that hangs says nothing here."""

    def reap(self) -> Ending | None:
        status = self.exit.status
        if status is None:
            return None
        return Ending(status, signal.Signals(-status).name if status < 0 else None)


def _make_actors(post: ProcessPost, child: str, settings: NodeSettings, epoch: int, flags: tuple[str, ...]) -> list[MailboxActor]:
    """As ``actors.process.main`` does."""
    made = []
    for name in actors_of(child):
        kind = name.partition(":")[0]
        made.append(_CLASSES[kind](Mailbox(post, name), settings, epoch))
        if "--paused" in flags and kind == "connection":
            post.tell(name, Command(verb="pause"))
    return made


class SimSpawner(ChildProcesses):
    """Starts simulated processes."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def spawn(self, spec: ChildSpec, epoch: int, *, paused: bool = False) -> Life:
        current().effect("spawn")
        return self._machine.spawn(spec.name, epoch, ("--paused",) if paused else ())

    def spawn_shared(self, process: str, epoch: int) -> Life:
        current().effect("spawn")
        return self._machine.spawn(process, epoch)

    def tend(self, *, needed: bool) -> None:
        """There is no template."""


class SimPauses(Pauses):
    """Pauses that a machine keeps over all lives of its node."""

    def __init__(self, machine: Machine) -> None:
        self._world = machine.world
        self._since_ms = machine.paused_since_ms

    def pause(self, bridge: str) -> None:
        self._since_ms.setdefault(bridge, int(self._world.wall_s() * 1000))

    def resume(self, bridge: str) -> None:
        self._since_ms.pop(bridge, None)


class SimRemote(Remote):
    """A connection to the broker's model."""

    def __init__(self, sock: SimSocket, connack: Connack, address: str, dialect: Dialect) -> None:
        self.dialect = dialect
        self._socket = sock
        self._read = partial(receive, sock)
        self._pending = None
        self._websocket = False
        self._near = sock
        self.connack = connack
        self.address = address

    def unsent_bytes(self) -> int:
        return self._near.unsent_bytes()


class AskedRemote(Remote):
    """A connection on which the broker's model has told its limits, and nothing else happens."""

    def __init__(self, connack: Connack, address: str) -> None:
        self.connack = connack
        self.address = address

    def send(self, data: memoryview) -> int:
        return len(data)

    def close(self) -> None:
        """Nothing is open."""


_CLASSES: dict[str, type[MailboxActor]] = {
    "queue_store": SimQueueStore,
    "distributor": SimDistributor,
    "forwarder": Forwarder,
    "connection": Connection,
    "listener": SimListener,
}


_machines: list[Machine] = []


def machine_of(process: Process) -> Machine:
    """The machine that runs ``process``; there is one at a time."""
    assert process.world is _machines[-1].world
    return _machines[-1]


def probe_remote(settings: RemoteSettings, address: tuple[str, int]) -> None:
    """Takes the place of ``actors.remote.remote_socket.probe_remote``."""
    machine_of(current()).probe_remote(address)


def open_remote(
    settings: RemoteSettings,
    identifier: str,
    address: tuple[str, int],
    *,
    clean: bool,
    limits: InputLimits = NOTHING_SUBSCRIBED,
    login: Login,
    private: bool = False,
    will: Announcement | None = None,
) -> Remote:
    """Takes the place of ``actors.remote.remote_socket.open_remote``."""
    machine = machine_of(current())
    tokens = machine.broker.tokens
    assert tokens is not None or login.is_same(NO_LOGIN), "nobody has credentials there"
    if private and not machine.knows_bridges:
        raise Unavailable("connack: refused", reason_code=ReasonCode.UNSUPPORTED_PROTOCOL_VERSION)
    if tokens is not None and not tokens.lets_in(login):
        raise Unavailable("connack: not authorized", reason_code=ReasonCode.NOT_AUTHORIZED, fault=LinkFault.NOT_AUTHORIZED)
    remote = machine.open_remote(settings, identifier, address, clean=clean, limits=limits, private=private, will=will)
    if tokens is not None:
        tokens.on_connected(machine.broker.connection_of(identifier), identifier, login)
    return remote


class Machine:
    """One node on its machine, across all its lives."""

    def __init__(self, world: World, shape: Shape, disk: SimDisk, broker: Broker, oracle: Oracle) -> None:
        self.world = world
        self.shape = shape
        self.disk = disk
        self.broker = broker
        self.oracle = oracle
        self.settings = self.next_settings = settings_of(shape)  # of this life of the node, and of the next
        self.listening: SimListening | None = None
        self.signals: SimSignals | None = None
        self.engine: SimEngine | None = None
        self.supervisor: Process | None = None
        self.remotes = Remotes(world, shape, broker)
        self.post = SimPost(world, self.living, self._seen)
        self.flaky_until_s = 0.0
        self.half_open_next = ""
        self.node_ends = 0
        self.ends: list[int] = []
        self.snapshots_judged = 0
        self.paused_since_ms: dict[str, int] = {}
        self.knows_bridges = shape.incoming is not None and shape.incoming.echoes == TO_OTHERS  # the remote, by their bit
        self._processes: dict[str, Process] = {}
        self._lives: dict[int, SimLife] = {}
        self.links_told = False  # to this life of the Listener
        self._lane_openings: set[tuple[str, int]] = set()
        self._pids = 100
        self._rng = world.chance("machine")
        self._restart_delay_s = 0.3
        _machines[:] = [self]

    # --- the node ---

    def boot(self) -> None:
        """Start the node, as an init system does."""
        if self.supervisor is not None and self.supervisor.alive:
            return
        self.settings = self.next_settings

        def make(post: ProcessPost) -> Host:
            mailbox = Mailbox(post, SUPERVISOR)
            epochs = SimEpochs(self.disk, self.world.wall_s())
            settings = SimSettings(self)
            children = RunningChildren(mailbox, settings, child_specs, SimSpawner(self), epochs.next, SimPauses(self))
            post.place(children.process_of)
            host = Host(post)
            source = Source(Path(), lambda: self.next_settings)
            signals = cast(SignalPipe, SimSignals())
            host.add(SimSupervisor(mailbox, signals, settings, children, source))
            return host

        self.supervisor = self._process(SUPERVISOR, 0, make)
        self.supervisor.start()
        self.post.bound(SUPERVISOR)

    def routes_by(self, settings: NodeSettings) -> None:
        """Messages from now on go by the rules of ``settings``."""
        rules = [bridge.local_subscriptions for bridge in settings.bridges if bridge.name == BRIDGE]
        self.oracle.routes_by(rules[0] if rules else None)

    def is_as_configured(self) -> bool:
        """Whether all that runs goes by what is configured now."""
        number = self.settings.number
        for name in (STORE, CLIENTS):
            process = self.living(self.process_of(name))
            host = process.host if process is not None else None
            if not isinstance(host, ChildHost) or name not in host._children or host._children[name].settings.number != number:
                return False
        return replace(self.settings, number=1) == self.next_settings

    def stop(self, restart_delay_s: float) -> None:
        """SIGTERM; the node is started again that long after its end."""
        self._restart_delay_s = restart_delay_s
        if self.signals is not None and self.supervisor is not None and self.supervisor.alive:
            self.signals.tell(signal.SIGTERM)

    def lose_power(self, restart_delay_s: float) -> None:
        """Everything stops at this instant, and what was not synced may be gone."""
        self._restart_delay_s = restart_delay_s
        if self.disk.durable:
            self.disk.lose_power()
        else:
            self.oracle.store_died()
        if self.supervisor is not None and self.supervisor.alive:
            self.supervisor.die(KILLED)

    def living(self, name: str) -> Process | None:
        """The process called ``name``, if it takes frames now."""
        process = self.supervisor if name == SUPERVISOR else self._processes.get(name)
        return process if process is not None and process.bound else None

    def process_of(self, name: str) -> str:
        """The name of the process in which the actor or child ``name`` lives, or is to live."""
        own = self._processes.get(child_of(name))
        return own.name if own is not None and own.alive else Placement(self.settings).process_of(name)

    def process(self, name: str) -> Process | None:
        """The process that has the child ``name``, started or not."""
        assert child_of(name) == name, f"{name} is no process that a fault could befall"
        process = self.supervisor if name == SUPERVISOR else self._processes.get(self.process_of(name))
        return process if process is not None and process.alive else None

    def all_processes(self) -> list[Process]:
        """Every life there is."""
        return [process for process in (self.supervisor, *self._processes.values()) if process is not None and process.alive]

    def kill(self, process: Process) -> None:
        """kill -9 between two effects."""
        if process.alive:
            process.die(KILLED)

    def spawn(self, name: str, epoch: int, flags: tuple[str, ...] = ()) -> SimLife:
        """Start a process."""

        def make(post: ProcessPost) -> Host:
            host = ChildHost(post, self.settings, epoch, partial(_make_actors, post))
            if name != SITE:
                host.add_children(_make_actors(post, name, self.settings, epoch, flags))
            return host

        process = self._process(name, epoch, make)
        self._processes[name] = process
        self._pids += 1
        life = SimLife(self, process, self._pids)
        self._lives[id(process)] = life
        self.world.after(0.002 + self._rng.random() * 0.03, self._start, process)
        return life

    def _start(self, process: Process) -> None:
        process.start()
        if process.alive and process.bound:
            self.post.bound(process.name)
        elif process.alive:
            self.world.after(0.05, self._start, process)

    def _process(self, name: str, epoch: int, make: Callable[[ProcessPost], Host]) -> Process:
        return Process(self.world, self.post, name, epoch, make, ended=self._ended, turn_ended=self._turn_ended)

    def _ended(self, process: Process, status: int) -> None:
        self.post.died(process)
        if self.oracle.rings is not None:
            self.oracle.rings.died(distributor=process.name == self.process_of(CLIENTS))
        if process.name == SUPERVISOR:
            self._node_ended(status)
            return
        if process.name == self.process_of(CLIENTS):
            self.listening = None
            self.links_told = False
        if process.name == self.process_of(STORE):
            self._store_ended()
        if process.name != CLIENTS and status:
            self.remotes.no_first_lives()
        life = self._lives.get(id(process))
        if life is not None:
            life.exit.status = status
            life.exit.changed()

    def _store_ended(self) -> None:
        self.oracle.store_died()
        if not self.disk.durable:
            self.disk.forget()

    def _node_ended(self, status: int) -> None:
        self.remotes.no_first_lives()
        self.node_ends += 1
        self.ends.append(status)
        for process in list(self._processes.values()):  # PR_SET_PDEATHSIG
            process.die(KILLED)
        self._processes.clear()
        self._lives.clear()
        self.world.after(self._restart_delay_s, self.boot)
        self._restart_delay_s = 0.3

    def _turn_ended(self, process: Process) -> None:
        if process.host is not None:
            for name, actor in process.host._actors.items():
                self.oracle.turn_ended(name.partition(":")[0], actor)

    def _seen(self, sender: str, receiver: str, frame: Frame) -> None:
        if isinstance(frame, PublishedMessages | Publishes):
            self.oracle.offered(frame)
            if self.oracle.echoes is not None and isinstance(frame, Publishes):
                self.oracle.echoes.offered(frame, self.world.now_s)
        elif isinstance(frame, HandOut):
            self.oracle.handed_out(frame)
            if receiver != LISTENER:
                self.oracle.handed_rows_max = max(self.oracle.handed_rows_max, frame.count)
        elif isinstance(frame, NodeTopics):
            self.links_told = True
        elif isinstance(frame, Passed):
            self.oracle.passed(receiver, frame)
            if self.oracle.echoes is not None and receiver == SUBSCRIBED:
                self.oracle.echoes.passed(self._life_of(receiver), frame.batch, int(self.world.wall_s() * 1000))
        elif isinstance(frame, LaneClose):
            self.oracle.lane_closed(frame)
        elif isinstance(frame, LaneOpen | LaneOpened) and session_of_queue(frame.queue) is not None:
            self.oracle.session_lane(frame)
        elif isinstance(frame, LaneOpened) and receiver.startswith("connection"):
            self.oracle.handed_to_connection.pop(receiver, None)
        elif isinstance(frame, LaneOpened):
            self._lane_openings.add((frame.queue, frame.epoch))
            if len(self._lane_openings) > sum(len(bridge.lane_labels) for bridge in self.settings.bridges):
                self.remotes.no_first_lives()

    def _life_of(self, actor: str) -> int:
        """The epoch of the actor that lives under that name."""
        process = self.living(self.process_of(child_of(actor)))
        assert process is not None
        assert process.host is not None
        found = process.host._actors[actor]
        assert isinstance(found, Connection)
        return found.epoch

    # --- the network ---

    def dial(self, far: Far, name: str = "clients") -> Link | None:
        """A local client connects. name: of its kind."""
        listening = self.listening
        process = self.process(CLIENTS)
        if listening is None or listening.closed or process is None:
            return None
        link = self._link(process, far, name)
        listening.waiting.append(link.near)
        listening.changed()
        if self.half_open_next == "client" and name == "clients":
            self.half_open_next = ""
            self.world.after(0.2, setattr, link, "silent", True)
        return link

    def open_remote(
        self,
        settings: RemoteSettings,
        identifier: str,
        address: tuple[str, int],
        *,
        clean: bool,
        limits: InputLimits,
        private: bool,
        will: Announcement | None,
    ) -> Remote:
        """A Connection connects, or asks for the limits."""
        if identifier.endswith(ASKS):
            return self._asked(address)
        try:
            return self._open_remote(settings, identifier, address, clean=clean, limits=limits, private=private, will=will)
        except Unavailable:
            self.remotes.refused(identifier, address)
            raise

    def _asked(self, address: tuple[str, int]) -> Remote:
        """An MQTT 3.1.1 broker is asked for its limits, which it may have by MQTT 5."""
        current().effect("ask")
        broker = self.remotes.at(address)
        if broker is None or not broker.accepts():
            raise Unavailable("tcp: connection refused")
        if self.shape.asked == "unknown":
            raise Unavailable("connack: refused", step="connack")
        connack = Connack(session_present=False, receive_maximum=self.shape.qos2_maximum)
        return AskedRemote(connack, f"{address[0]}:{address[1]}")

    def probe_remote(self, address: tuple[str, int]) -> None:
        """A Connection looks whether anybody listens there, which says little of whether it will be let in."""
        current().effect("probe")
        if self.remotes.at(address) is None:
            raise Unavailable("tcp: connection refused")

    def _open_remote(
        self,
        settings: RemoteSettings,
        identifier: str,
        address: tuple[str, int],
        *,
        clean: bool,
        limits: InputLimits,
        private: bool,
        will: Announcement | None,
    ) -> Remote:
        process = current()
        process.effect("connect")
        broker = self.remotes.at(address)
        if broker is None or not broker.accepts():
            raise Unavailable("tcp: connection refused")
        level = settings.protocol
        if level == LEVEL_5 and self.shape.may_be_older and self._rng.random() < 0.5:
            raise Unavailable("connack: refused", reason_code=ReasonCode.UNSUPPORTED_PROTOCOL_VERSION)
        place = f"{address[0]}:{address[1]}"
        if clean and level != LEVEL_5:
            broker.end_session(identifier)
            process.effect("connect again")
            if self._rng.random() < 0.05:
                raise Unavailable("tcp: connection refused")
            clean = False
        maximum = limits.receive_maximum if level == LEVEL_5 and limits.receive_maximum is not None else 65_535
        connection, present = broker.accept(identifier, level, clean=clean, receive_maximum=maximum)
        connection.came_in_at(place)
        connection.will = will
        self.oracle.remote_accepted(identifier, connection.session.number, place)
        self.remotes.accepted(identifier, place)
        if self.world.now_s < self.flaky_until_s and self._rng.random() < 0.5:
            connection.close()
            raise Unavailable("connack: closed")
        connection.link = self._link(process, connection, "remote")
        self.world.after(self.shape.latency_s, connection.delivery.resume, connection.link)
        connack = Connack(session_present=present, receive_maximum=self.shape.remote_window if level == LEVEL_5 else 65_535)
        return SimRemote(connection.link.near, connack, place, Dialect(level, private))

    def _link(self, process: Process, far: Far, name: str) -> Link:
        link = Link(
            self.world,
            self.world.chance(f"network {name}"),
            process.effect,
            far,
            window_bytes=self.shape.socket_window,
            latency_s=self.shape.latency_s,
        )
        process.opened.append(link.near)
        return link


def small_constants(shape: Shape) -> list[tuple[Any, str, Any]]:
    """(module or table, name, value): what is patched while a schedule runs."""
    import actors.bridge.remote_intake
    import actors.bridge.settlement_reports
    import actors.broker.client_batches
    import actors.remote.remote_dialer
    import storage.queue.chunk_reader
    import storage.queue.history
    import storage.queue.thinned_topics
    import storage.queue.waiting_messages
    import storage.store.client_room
    import storage.store.history_retention
    import storage.store.lanes
    import supervisor.tree.supervisor
    import supervisor.workers
    import wire.exchange.client_outbox
    import wire.frames.sending_link
    import wire.routing.live_lanes

    incoming, subscribers = shape.incoming, shape.subscribers
    inbox = [] if incoming is None else [(actors.bridge.remote_intake, "BATCH_ROWS_MAX", incoming.inbox_rows)]
    outbox = [] if subscribers is None else [(wire.exchange.client_outbox, "MESSAGES_IN_HAND_MIN", subscribers.in_hand)]
    return [
        *outbox,
        *inbox,
        (storage.store.client_room, "UNDER_WAY_ROWS", 5 * shape.batch_rows),
        (actors.remote.remote_dialer, "open_remote", open_remote),
        (actors.remote.remote_dialer, "probe_remote", probe_remote),
        (actors.bridge.settlement_reports, "MESSAGES_IN_HAND_MIN", shape.in_hand),
        (actors.broker.client_batches, "BATCH_ROWS_MAX", shape.batch_rows),
        (wire.frames.sending_link, "OVERLAPPING_ROWS_MIN", shape.overlap_rows),
        (storage.store.lanes, "CACHE_BYTES", shape.cache_bytes),
        (storage.queue.history, "TRIM_MESSAGES", shape.trim_messages),
        (storage.store.history_retention, "CUT_PERIOD_S", 0.5),
        (storage.store.history_retention, "SETTLEMENTS_A_PASS", shape.settlements_a_pass),
        (storage.queue.waiting_messages, "SPLIT_ROWS", shape.split_rows),
        (storage.queue.chunk_reader, "READ_AHEAD_CHUNKS", shape.read_ahead),
        (storage.queue.thinned_topics, "blake2b", LikePayloads),
        (wire.routing.live_lanes, "BACKLOG_MS", BACKLOG_MS),
        (supervisor.tree.supervisor, "announce", lambda *_, **__: None),
        (supervisor.workers, "THREAD_NICE", os.nice(0)),
        *few_identifiers(shape.packet_ids),
    ]


def few_identifiers(count: int) -> list[tuple[Any, str, Any]]:
    """Patches that make ``count`` packet identifiers all there are, so that they come round again within a schedule."""
    import storage.queue.sent_record
    import wire.exchange.packet_identifiers
    import wire.exchange.publish_encoder
    from tests.wire.outbound_model import IDENTIFIER_MODULES

    if count == wire.exchange.packet_identifiers.PACKET_IDS:
        return []
    return [
        (module, "PACKET_IDS", count)
        for module in (
            storage.queue.sent_record,
            *IDENTIFIER_MODULES,
            wire.exchange.publish_encoder,
            wire.exchange.packet_identifiers,
        )
    ]
