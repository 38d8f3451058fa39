"""P3: kill -9 again while the store, or the whole node, still comes up from the last one. Nothing is lost, QoS 2 comes once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.conftest import StartNode
from tests.faults.test_kill_each_process import judge, publishers, wait_progress
from tests.support.chance import chance
from tests.support.mosquitto import Mosquitto
from tests.support.node import Node, bridge_config, node_config
from tests.support.publisher import Publisher
from tests.support.subscriber import Subscriber

MOMENT_MAX_S = 0.4  # a store is up after about a quarter of a second, a node after about a second


@contextmanager
def node_under_load(tmp_path: Path, start_node: StartNode) -> Iterator[tuple[Node, Subscriber, list[Publisher]]]:
    """A node whose messages of each QoS arrive at its remote."""
    with ExitStack() as stack:
        remote = stack.enter_context(Mosquitto(tmp_path / "remote", max_inflight_messages=0, max_queued_messages=0))
        node = start_node(node_config(bridge_config("cloud", remote.port)))
        subscriber = stack.enter_context(Subscriber(remote.port, "#"))
        crowd = publishers(stack, node)
        wait_progress(subscriber, crowd)
        yield node, subscriber, crowd


def test_a_store_killed_again_and_again_while_it_recovers(tmp_path: Path, start_node: StartNode, soak: bool) -> None:
    """At random moments of its start: while Python loads, while it replays its log, while it asks for what it missed."""
    moments = chance()
    with node_under_load(tmp_path, start_node) as (node, subscriber, crowd):
        pid = node.pid("store")
        kills = 300 if soak else 15
        for kill in range(kills):
            node.kill("store")
            pid = node.wait_replaced("store", pid)
            threading.Event().wait(moments.uniform(0.001, MOMENT_MAX_S))
            if kill % 5 == 4:
                wait_progress(subscriber, crowd)
        wait_progress(subscriber, crowd)
        judge(node, subscriber, crowd)
        assert {row["name"]: row["restarts"] for row in node.status()["processes"]}["store"] == kills


def test_a_node_killed_again_and_again_while_it_starts(tmp_path: Path, start_node: StartNode, soak: bool) -> None:
    """The supervisor is killed at random moments of its start, and its children with it."""
    moments = chance()
    with node_under_load(tmp_path, start_node) as (node, subscriber, crowd):
        for _ in range(100 if soak else 10):
            node.kill_supervisor()
            node.spawn()
            threading.Event().wait(moments.uniform(0.05, 2 * MOMENT_MAX_S))
        node.kill_supervisor()
        node.start()
        wait_progress(subscriber, crowd)
        judge(node, subscriber, crowd)
