"""P2 and P4 over a cable that loses packets, is pulled, falls silent or swallows large packets; the remote is at its far end.

The kernel's own TCP meets the trouble here, in a network namespace: retransmission, backoff, a peer of whose end nobody hears.
Arrivals are judged over a second, clear cable.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.conftest import StartNode
from tests.faults.under_load import PROGRESS, judge, published_after_release, wait_progress
from tests.support.far import Far
from tests.support.mosquitto import Mosquitto
from tests.support.node import Config, Node, bridge_config, node_config
from tests.support.proxy import Proxy
from tests.support.publisher import Publisher
from tests.support.subscriber import Subscriber
from tests.support.waiting import wait_until

LOST_MIN = 30  # packets
RATE_PER_S = 60.0  # more than a window of 20 lets through such a link would only take longer


@pytest.fixture
def far() -> Iterator[Far]:
    """The far end of a cable."""
    with Far() as end:
        yield end


class Scene:
    """A node here, its remote at the far end, three publishers, and a subscriber on the clear cable."""

    def __init__(
        self,
        stack: ExitStack,
        tmp_path: Path,
        far: Far,
        start_node: StartNode,
        *,
        protocol: str = "mqtt5",
        stall_timeout: str = "1s",
    ) -> None:
        # Without limits of its own: with them, Mosquitto 2.0 drops and reorders on the way to its subscriber.
        broker = Mosquitto(tmp_path / "remote", persistence=True, max_inflight_messages=0, max_queued_messages=0, far=far)
        self.remote = stack.enter_context(broker)
        clear = stack.enter_context(Proxy(self.remote.port, target_host=far.clear_host))
        self.node: Node = start_node(node_config(far_bridge(far, self.remote.port, protocol, stall_timeout)))
        self.subscriber = stack.enter_context(Subscriber(clear.port, "#"))
        self.crowd = [
            stack.enter_context(Publisher(self.node.port, f"q{qos}", qos=qos, window=20, rate_per_s=RATE_PER_S))
            for qos in (0, 1, 2)
        ]

    def wait_acknowledged(self) -> None:
        """Wait until the node has taken more of each acknowledged quality."""
        for publisher in self.crowd[1:]:
            publisher.wait_acknowledged(PROGRESS)

    def wait_progress(self) -> None:
        """Wait until messages get through."""
        wait_progress(self.subscriber, self.crowd)

    def given_up(self) -> int:
        """How often the bridge noticed by itself that its connection was of no use."""
        return len(self.node.events("connection.stalled"))

    def wait_given_up(self, before: int = 0) -> None:
        """Wait until it has noticed that more than ``before`` times."""
        wait_until(lambda: self.given_up() > before, 20.0, "a stalled exchange is noticed")


def far_bridge(far: Far, port: int, protocol: str, stall_timeout: str) -> Config:
    """A bridge over the troubled cable."""
    remote = {"addresses": [f"{far.link_host}:{port}"], "stall_timeout": stall_timeout, "connect_timeout": "4s"}
    return bridge_config("cloud", port, protocol=protocol, remote=remote)


@pytest.mark.parametrize("protocol", ["mqtt311", "mqtt5"])
def test_a_link_that_loses_a_fifth_of_all_packets(tmp_path: Path, far: Far, start_node: StartNode, protocol: str) -> None:
    """In both directions, and the connection is made anew meanwhile."""
    with ExitStack() as stack:
        scene = Scene(stack, tmp_path, far, start_node, protocol=protocol, stall_timeout="5s")
        far.lose(20)
        scene.wait_progress()
        scene.node.wait_replaced("bridge", scene.node.kill("bridge"))
        wait_until(lambda: far.lost() >= LOST_MIN, 30.0, lambda: f"{LOST_MIN} lost packets, not {far.lost()}", period_s=0.1)
        scene.wait_progress()
        judge(scene.node, scene.subscriber, scene.crowd)


def test_a_cable_pulled_and_put_back(tmp_path: Path, far: Far, start_node: StartNode) -> None:
    """Intake goes on without it; afterwards everything crosses."""
    with ExitStack() as stack:
        scene = Scene(stack, tmp_path, far, start_node)
        for _ in range(2):
            scene.wait_progress()
            before = scene.given_up()
            far.pull()
            scene.wait_acknowledged()
            scene.wait_given_up(before)
            far.plug()
        scene.wait_progress()
        judge(scene.node, scene.subscriber, scene.crowd)


def test_a_remote_that_is_replaced_while_nobody_hears_of_it(tmp_path: Path, far: Far, start_node: StartNode) -> None:
    """Half-open: all packets are lost, also those that would tell of its end; the connection stands and is noticed to be dead.

    Mosquitto 2.0.11 repeats QoS 2 messages to its own subscriber after a restart, so what the bridge did is read from its log.
    """
    with ExitStack() as stack:
        scene = Scene(stack, tmp_path, far, start_node, protocol="mqtt311")
        scene.wait_progress()
        far.lose_all()
        scene.remote.stop()
        scene.wait_acknowledged()
        scene.remote.start()
        scene.wait_given_up()
        far.heal()
        scene.wait_progress()
        judge(scene.node, scene.subscriber, scene.crowd, remote_repeats=True)
        assert published_after_release(scene.remote.log) == []


def test_a_path_that_swallows_large_packets(tmp_path: Path, far: Far, start_node: StartNode) -> None:
    """CONNECT passes and the backlog does not: nothing is lost or doubled, and it crosses when the path is whole again."""
    with ExitStack() as stack:
        scene = Scene(stack, tmp_path, far, start_node)
        large = stack.enter_context(Publisher(scene.node.port, "large", qos=2, size_bytes=3000, rate_per_s=50.0))
        scene.wait_progress()
        far.lose_larger_than(600)
        scene.wait_acknowledged()
        scene.wait_given_up()
        assert far.lost(), "large packets were swallowed"
        large.wait_acknowledged(PROGRESS)
        far.heal()
        sent = large.finish()
        scene.wait_progress()
        judge(scene.node, scene.subscriber, scene.crowd)
        arrivals = scene.subscriber.wait_for("large", sent)
        assert arrivals.are_exact(), arrivals
