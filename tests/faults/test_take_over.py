"""P1-P4, P6 over nodes: who leads is killed, stopped, cut off; servers of the log are killed. Another node goes on with everything.

Three publishers (QoS 0, 1, 2) go where the leader is, as real clients do. A few take-overs run always; ``--soak SECONDS`` goes on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from random import Random

from tests.conftest import Chances
from tests.faults.under_load import judge, wait_progress
from tests.support.cluster import LEASE_S, Cluster, Member
from tests.support.mosquitto import Mosquitto
from tests.support.mqtt_client import MqttClient
from tests.support.mqtt_packets import PUBACK
from tests.support.node import bridge_config, node_config
from tests.support.publisher import Publisher
from tests.support.subscriber import Subscriber
from tests.support.waiting import holds_for, wait_still, wait_until

RATE_PER_S = 80.0


class Run:
    """One cluster under load."""

    def __init__(
        self, folder: Path, stack: ExitStack, *, first_server: Path | None = None, replication: Mapping[str, str] | None = None
    ) -> None:
        """first_server: where the first server of the log keeps it. replication: keys of the nodes' own."""
        self.remote = stack.enter_context(Mosquitto(folder / "remote", max_inflight_messages=0, max_queued_messages=0))
        self.cluster = stack.enter_context(
            Cluster(
                node_config(bridge_config("cloud", self.remote.port), replication=dict(replication or {})),
                folder,
                first_server=first_server,
            )
        )
        self.subscriber = stack.enter_context(Subscriber(self.remote.port, "#"))
        self.leader = self.cluster.follow()
        self.crowd = [
            stack.enter_context(Publisher(self.cluster.port, f"q{qos}", qos=qos, rate_per_s=RATE_PER_S)) for qos in (0, 1, 2)
        ]
        self.done: Counter[str] = Counter()

    @property
    def standby(self) -> Member:
        """The member that does not lead."""
        return next(member for member in self.cluster.members if member is not self.leader)

    def progress(self) -> None:
        """Wait until each acknowledged QoS makes progress, at the publisher and at the far end."""
        wait_progress(self.subscriber, self.crowd)

    def take_over(self, kind: str) -> None:
        """One fault of that ``kind``, and what heals it."""
        self.progress()
        self.leader = self.cluster.follow()
        self.cluster.wait_level(self.standby)
        faults: dict[str, Callable[[Member], None]] = {
            "kill": self._kill,
            "stop": self._stop,
            "cut": self._cut,
            "server": self._kill_server,
            "log leader": self._kill_log_leader,
            "step down": self._step_down,
        }
        faults[kind](self.leader)
        self.done[kind] += 1

    def judge(self) -> None:
        """Everything acknowledged is there; the promises of each QoS hold; the ledger closes where the queue is now."""
        self.progress()
        self.leader = self.cluster.follow()
        judge(self.leader.node, self.subscriber, self.crowd)

    def _kill(self, leader: Member) -> None:
        leader.kill()
        self.leader = self.cluster.follow(but=leader)
        leader.node.spawn()

    def _stop(self, leader: Member) -> None:
        leader.suspend()
        self.leader = self.cluster.follow(but=leader)
        self.progress()
        leader.resume()

    def _cut(self, leader: Member) -> None:
        leader.cut_off()
        self.leader = self.cluster.follow(but=leader)
        leader.reconnect()

    def _kill_server(self, _: Member) -> None:
        server = self.cluster.servers.servers[sum(self.done.values()) % 3]
        server.kill()
        self.progress()
        server.start()

    def _kill_log_leader(self, _: Member) -> None:
        server = self.cluster.servers.log_leader("site")
        server.kill()
        self.progress()
        server.start()

    def _step_down(self, leader: Member) -> None:
        assert leader.node.stop() == 0
        self.leader = self.cluster.follow(but=leader)
        leader.node.spawn()


KINDS = ("kill", "stop", "cut", "server", "log leader", "step down")


def test_another_node_goes_on_with_everything(tmp_path: Path, chances: Chances) -> None:
    done: Counter[str] = Counter()
    for number in chances.seeds((1,)):
        random = Random(number)
        folder = tmp_path / str(number)
        with ExitStack() as stack:
            run = Run(folder, stack)
            for kind in random.sample(KINDS, len(KINDS)):
                run.take_over(kind)
            run.judge()
            done += run.done
    chances.say(f"take-overs: {dict(done)}")


def test_while_a_majority_is_away_nothing_is_acknowledged_and_it_goes_on_by_itself(tmp_path: Path) -> None:
    with ExitStack() as stack:
        run = Run(tmp_path, stack)
        run.progress()
        for server in run.cluster.servers.servers[1:]:
            server.kill()
        wait_until(
            lambda: all(member.replication().get("log") == "away" for member in run.cluster.members),
            60.0,
            lambda: f"the log is away: {[member.replication() for member in run.cluster.members]}",
        )
        wait_until(lambda: not any(member.leads() for member in run.cluster.members), 60.0, "nobody leads")
        acknowledged = wait_still(lambda: [publisher.acknowledged for publisher in run.crowd[1:]])
        holds_for(lambda: [publisher.acknowledged for publisher in run.crowd[1:]] == acknowledged, LEASE_S, "no acknowledgement")
        for server in run.cluster.servers.servers[1:]:
            server.start()
        run.judge()


def test_a_leader_that_is_cut_off_acknowledges_nothing_once_another_leads(tmp_path: Path) -> None:
    with ExitStack() as stack:
        run = Run(tmp_path, stack)
        old = run.leader
        run.cluster.wait_level(run.standby)
        client = MqttClient(old.node.port, "left-behind", version=4, clean=True)
        client.connect(deadline_s=10.0)
        stack.callback(client.close)
        client.publish("left", "0", qos=1, packet_id=1)
        assert client.read(10.0).kind == PUBACK
        old.cut_off()
        client.publish("left", "1", qos=1, packet_id=2)
        run.leader = run.cluster.follow(but=old)

        def is_silent() -> bool:
            try:
                return client.read(0.01).kind != PUBACK
            except (TimeoutError, OSError):
                return True

        holds_for(is_silent, 2 * LEASE_S, "no acknowledgement after the take-over")
        run.judge()
