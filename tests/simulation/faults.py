"""Effects of each fault of a plan on the world, and how everything is healed at the end."""

from __future__ import annotations

from random import Random

from tests.simulation.broker import Broker
from tests.simulation.changes import Changes
from tests.simulation.control import Operator
from tests.simulation.node import Machine
from tests.simulation.options import named_lanes
from tests.simulation.plan import Fault
from tests.simulation.publisher import Publisher
from tests.simulation.snapshots import Snapshots
from tests.simulation.subscriber import SubscriberFaults
from tests.simulation.tcp import Link
from tests.simulation.world import World
from wire.frames.names import BRIDGE, CLIENTS, STORE, SUPERVISOR, child_name


class Faults:
    """Carries out faults."""

    def __init__(
        self, world: World, machine: Machine, broker: Broker, publishers: list[Publisher], subscribers: SubscriberFaults
    ) -> None:
        self._world = world
        self._machine = machine
        self._broker = broker
        self._publishers = publishers
        self._rng: Random = world.chance("faults")
        operator = Operator(world, machine, machine.oracle)
        self._more = (
            operator,
            machine.remotes,
            Changes(world, machine, operator),
            Snapshots(world, machine),
            subscribers,
        )

    def happen(self, fault: Fault) -> None:
        """Let ``fault`` happen now."""
        self._world.note("FAULT", str(fault))
        name = "import_" if fault.kind == "import" else fault.kind.replace("-", "_")
        happens = next((getattr(owner, name) for owner in self._more if hasattr(owner, name)), None)
        (happens or getattr(self, f"_{name}"))(fault)

    def heal(self) -> None:
        """Nothing is broken any more; links that were silent are closed as their time-outs would."""
        now_s = self._world.now_s
        machine, broker = self._machine, self._broker
        for process in machine.all_processes():
            process.kill_after = None
            process.freeze(False)
        machine.disk.refuses_until_s = machine.disk.slow_until_s = machine.flaky_until_s = now_s
        machine.post.slow.clear()
        for more in self._more:
            more.heal()
        machine.half_open_next = ""
        broker.refusing_until_s = broker.slow_until_s = now_s
        broker.stalled_until_s = min(broker.stalled_until_s, now_s + 1.0)
        broker.rejections = broker.disliked_one_in = 0
        broker.on_new_session = None
        broker.publisher.releases_held_until_s = now_s
        for link in self._links():
            link.cut_in = link.cut_out = None

    def _links(self) -> list[Link]:
        own = [publisher.link for publisher in self._publishers]
        return [*self._broker.links(), *(link for link in own if link is not None)]

    # --- processes ---

    def _kill(self, fault: Fault) -> None:
        process = self._machine.process(fault.target)
        if process is None:
            return
        if fault.amount < 1:
            self._machine.kill(process)
        else:
            process.kill_after = int(fault.amount) - 1

    def _freeze(self, fault: Fault) -> None:
        process = self._machine.process(fault.target)
        if process is not None:
            process.freeze(True)
            self._world.after(fault.amount, process.freeze, False)

    def _power(self, fault: Fault) -> None:
        self._machine.lose_power(fault.amount)

    def _stop(self, fault: Fault) -> None:
        self._machine.stop(fault.amount)

    # --- disk and clock ---

    def _disk_full(self, fault: Fault) -> None:
        self._machine.disk.refuses_until_s = self._world.now_s + fault.amount

    def _slow_disk(self, fault: Fault) -> None:
        self._machine.disk.slow_until_s = self._world.now_s + fault.amount

    def _clock(self, fault: Fault) -> None:
        self._world.wall_shift_s += fault.amount

    def _delay(self, fault: Fault) -> None:
        place = self._machine.process_of
        named = [child_name(BRIDGE, "cloud", lane) for lane in named_lanes(self._machine.shape)]
        for peer in (STORE, CLIENTS, SUPERVISOR, "bridge:cloud:0", "bridge:cloud:1", *named):
            self._machine.post.slow[place(fault.target), place(peer)] = self._world.now_s + fault.amount

    # --- the network and the remote ---

    def _cut(self, fault: Fault) -> None:
        for link in self._broker.links()[:1]:
            if fault.target == "in":
                link.cut_in = int(fault.amount)
            else:
                link.cut_out = int(fault.amount)

    def _client_cut(self, fault: Fault) -> None:
        number = int(fault.target)
        publisher = self._publishers[number] if number < len(self._publishers) else None
        if publisher is None or publisher.link is None:
            return
        if fault.amount < 0:
            publisher.hang_up()
        elif self._rng.random() < 0.5:
            publisher.link.cut_in = int(fault.amount)
        else:
            publisher.link.cut_out = int(fault.amount)

    def _half_open(self, fault: Fault) -> None:
        if fault.target == "client":
            for publisher in self._publishers[:1]:
                if publisher.link is not None:
                    publisher.link.silent = True
        else:
            for link in self._broker.links()[:1]:
                link.silent = True

    def _broker_restart(self, fault: Fault) -> None:
        self._broker.drop_all()
        self._broker.refusing_until_s = self._world.now_s + fault.amount

    def _session_loss(self, fault: Fault) -> None:
        self._broker.lose_sessions()

    def _session_loss_unseen(self, fault: Fault) -> None:
        """The session is lost, and the Connection that learns of it dies soon after, perhaps before that is on record."""

        def kill(client_id: str) -> None:
            self._broker.on_new_session = None
            process = self._machine.process(fault.target)
            if process is not None:
                process.kill_after = int(fault.amount)

        self._broker.on_new_session = kill
        self._broker.lose_sessions()

    def _hold_releases(self, fault: Fault) -> None:
        self._broker.publisher.releases_held_until_s = self._world.now_s + fault.amount

    def _refuse(self, fault: Fault) -> None:
        self._broker.refusing_until_s = self._machine.flaky_until_s = self._world.now_s + fault.amount

    def _stall(self, fault: Fault) -> None:
        self._broker.stalled_until_s = self._world.now_s + fault.amount

    def _reject(self, fault: Fault) -> None:
        self._broker.rejections += int(fault.amount)

    def _dislike(self, fault: Fault) -> None:
        """The remote closes the connection on one message in so many, or on none any more."""
        self._broker.disliked_one_in = int(fault.amount)
        self._broker.disliked_class = fault.target

    def _slow_broker(self, fault: Fault) -> None:
        self._broker.slow_until_s = self._world.now_s + fault.amount
