"""Runs one plan: sets the scene, lets the events happen, heals everything, and waits until all is quiet."""

from __future__ import annotations

import hashlib
import logging
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pykka

from storage.engine.engine import FAMILIES
from tests.simulation.broker import Broker
from tests.simulation.changes import changes_of
from tests.simulation.disk import Ops, SimDisk
from tests.simulation.faults import Faults
from tests.simulation.node import Machine, small_constants
from tests.simulation.oracle import Oracle
from tests.simulation.plan import CLIENT_ID, LINK_STATE, Plan
from tests.simulation.publisher import Message, Publisher
from tests.simulation.remote_publisher import RemotePublisher
from tests.simulation.subscriber import Subscriber, SubscriberFaults
from tests.simulation.world import Violation, World
from wire.frames.supervision import Heartbeat

EVENTS_MAX = 60_000
HEALED_FOR_S = 150.0
QUIET_LOOKS = 3
_LINK_STATE = LINK_STATE.replace("{client_id}", CLIENT_ID)


@dataclass(slots=True)
class Outcome:
    """The result of a schedule."""

    seed: int
    violation: Violation | None
    events: int
    simulated_s: float
    trace: list[tuple[Any, ...]] = field(default_factory=list)
    node_ends: int = 0

    def trace_hash(self) -> str:
        """The same for the same course of events; only this test's own process identifier is left out."""
        lines = [repr([replace(fact, pid=0) if isinstance(fact, Heartbeat) else fact for fact in facts]) for facts in self.trace]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()


class _Disk(SimDisk):
    """Has the oracle start afresh from what survived."""

    def lose_power(self) -> None:
        super().lose_power()
        ops: Ops = []
        for family in FAMILIES:
            ops += [("put", family, key, value) for key, value in self.view.scan(family, b"", b"\xff" * 16)]
        assert isinstance(self.watcher, Oracle)
        self.watcher.rebuild(ops)


class Simulation:
    """One schedule."""

    def __init__(self, plan: Plan, *, tracing: bool = False) -> None:
        shape = plan.shape
        self.plan = plan
        self.world = World(str(plan.seed), tracing=tracing)
        self.oracle = Oracle(plan)
        self.disk = _Disk(self.world, self.oracle, durable=shape.mode == "file-native")
        self.oracle.disk = self.disk
        self.oracle.now_s = lambda: self.world.now_s
        window = min(shape.window, shape.remote_window) if shape.level == 5 and not shape.may_be_older else shape.window
        self.broker = Broker(
            self.world,
            self.oracle,
            receive_maximum=window,
            told_maximum=shape.remote_window,
            qos2_maximum=shape.qos2_maximum,
            assumes_delivered=shape.on_session_loss == "assume-delivered",
            publisher=RemotePublisher(self.world, shape.incoming, self.oracle),
        )
        self.machine = Machine(self.world, shape, self.disk, self.broker, self.oracle)
        if "lanes" in changes_of(plan):
            self.machine.remotes.may_be_left()
        self.oracle.sessions_lost = self.machine.remotes.sessions_lost
        self.publishers = [
            Publisher(self.world, number, level, window, self.machine, self.oracle)
            for number, (level, window) in enumerate(shape.publishers)
        ]
        self.oracle.exchange_of = self._exchange_of
        self.subscribers: list[Subscriber] = []
        if shape.subscribers is not None and self.oracle.sessions is not None:
            self.subscribers = [
                Subscriber(self.world, number, client, self.machine, self.oracle.sessions)
                for number, client in enumerate(shape.subscribers.clients)
            ]
        self.faults = Faults(self.world, self.machine, self.broker, self.publishers, SubscriberFaults(self.world, self.subscribers))
        self._healed = False
        self._quiet = 0
        self._done = False

    def run(self) -> None:
        """Raises ``Violation``."""
        self.machine.boot()
        for message in self.plan.messages:
            self.world.after(message.at_s, self.publishers[message.publisher].publish, message)
        for incoming in self.plan.incoming:
            self.world.after(incoming.message.at_s, self.broker.publisher.publish, incoming)
        for fault in self.plan.faults:
            self.world.after(fault.at_s, self.faults.happen, fault)
        times_s = [fault.at_s for fault in self.plan.faults] + [message.at_s for message in self.plan.messages]
        times_s += [incoming.message.at_s for incoming in self.plan.incoming]
        last_s = max(times_s, default=0.0)
        self.world.after(last_s + 0.5, self._heal)
        while not self._done:
            if self.world.events >= EVENTS_MAX:
                raise Violation("not quiescent", f"{EVENTS_MAX} events and no end: {self._state()}")
            self.world.step()
        self.oracle.judge_the_whole()

    def _exchange_of(self, client_id: str, packet_id: int) -> Message | None:
        """What a publisher has open under that identifier."""
        for publisher in self.publishers:
            if publisher.client_id == client_id and packet_id in publisher.exchanges:
                return publisher.exchanges[packet_id].message
        return None

    def _heal(self) -> None:
        self.world.note("healed")
        self.faults.heal()
        self.world.after(HEALED_FOR_S, self._too_late)
        self._look()

    def _look(self) -> None:
        quiet = all(publisher.idle for publisher in self.publishers) and self.oracle.empty() and self.broker.publisher.idle
        quiet = quiet and (self.oracle.amnesia or self.machine.remotes.quiet())
        quiet = quiet and not self.oracle.late  # QoS 0 that waits is nobody's but the Connection's
        quiet = quiet and not self.oracle.thinned.in_memory
        quiet = quiet and not self.oracle.uncommitted  # with acknowledge: fast nobody else waits for that
        quiet = quiet and self.machine.is_as_configured()
        quiet = quiet and self._is_shared_out()
        quiet = quiet and all(subscriber.quiet for subscriber in self.subscribers)
        quiet = quiet and (not self.plan.shape.link_state or self._is_link_told())
        self._quiet = self._quiet + 1 if quiet else 0
        if self._quiet >= QUIET_LOOKS:
            self._done = True
        else:
            self.world.after(0.1 if quiet else 0.25, self._look)

    def _is_shared_out(self) -> bool:
        """Whether each lane that is configured has its share of what the remote publishes, and no other one has."""
        incoming = self.plan.shape.incoming
        if incoming is None or not incoming.shared or self.oracle.relaxed:
            return True
        return len(self.broker.publisher.members) == self.machine.settings.bridges[0].lanes

    def _is_link_told(self) -> bool:
        """Whether the remote and local clients are told that the link stands."""
        return self.machine.remotes.are_told(_LINK_STATE, CLIENT_ID) and self.oracle.link_told(_LINK_STATE) == b"1"

    def _too_late(self) -> None:
        raise Violation("not quiescent", f"{HEALED_FOR_S} s after all was healed: {self._state()}")

    def _state(self) -> str:
        busy = [publisher.client_id for publisher in self.publishers if not publisher.idle]
        remote = f"remote quiet: {self.machine.remotes.quiet()}, its own messages delivered: {self.broker.publisher.idle}"
        unquiet = [subscriber.client_id for subscriber in self.subscribers if not subscriber.quiet]
        waits = (
            f"link here: {self.oracle.link_told(_LINK_STATE)!r}, late: {self.oracle.late}, held: {self.oracle.thinned.in_memory}"
        )
        return f"not done: {busy}, not quiet: {unquiet}; {waits}; queues: {self.oracle.depths()}; {remote}"


def run(plan: Plan, *, tracing: bool = False) -> Outcome:
    """Run ``plan``."""
    violation = None
    with patched(plan):
        simulation = Simulation(plan, tracing=tracing)
        try:
            simulation.run()
        except Violation as error:
            violation = error
            simulation.world.note("VIOLATION", error.kind, error.text)
    world = simulation.world
    return Outcome(plan.seed, violation, world.events, world.now_s - 1_000.0, world.trace, simulation.machine.node_ends)


@contextmanager
def patched(plan: Plan) -> Iterator[None]:
    """Small constants, simulated system calls, and no log, while a schedule runs."""
    log = logging.getLogger("bascule")
    disabled, log.disabled = log.disabled, True
    handlers = signal.getsignal(signal.SIGTERM)
    kept = []
    for owner, name, value in small_constants(plan.shape):
        kept.append((owner, name, getattr(owner, name)))
        setattr(owner, name, value)
    try:
        yield
    finally:
        for actor in pykka.ActorRegistry.get_all():  # who was killed did not take itself off
            pykka.ActorRegistry.unregister(actor)
        for owner, name, value in kept:
            setattr(owner, name, value)
        log.disabled = disabled
        assert signal.getsignal(signal.SIGTERM) is handlers
