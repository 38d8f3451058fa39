"""P3: kill -9 of any one process under load, many times in a row. Acknowledged messages arrive, in order; QoS 2 exactly once."""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.conftest import StartNode
from tests.support.mosquitto import Mosquitto
from tests.support.node import Node, bridge_config, node_config
from tests.support.publisher import Publisher
from tests.support.subscriber import Subscriber
from tests.support.waiting import wait_until

KILLS = 20
PROCESSES = ["clients", "store", "bridge"]
PROGRESS = 20  # messages that must get through between two kills


def publishers(stack: ExitStack, node: Node) -> list[Publisher]:
    """One publisher for each QoS, publishing."""
    return [stack.enter_context(Publisher(node.port, f"q{qos}", qos=qos, rate_per_s=150.0)) for qos in (0, 1, 2)]


def wait_progress(subscriber: Subscriber, crowd: list[Publisher]) -> None:
    """Wait until every acknowledged quality makes progress, at the publisher and at the far end."""
    for publisher in crowd[1:]:
        publisher.wait_acknowledged(PROGRESS)
    target = subscriber.count() + PROGRESS
    wait_until(lambda: subscriber.count() >= target, 20.0, "messages at the far end")


def judge(node: Node, subscriber: Subscriber, crowd: list[Publisher], *, remote_repeats: bool = False) -> None:
    """Everything that was acknowledged is there; the promises of each QoS hold; the ledger closes."""
    quality_0, quality_1, quality_2 = crowd
    sent_1, sent_2 = quality_1.finish(), quality_2.finish()
    sent_0 = quality_0.finish()
    arrivals_1 = subscriber.wait_for("q1", sent_1, deadline_s=30.0)
    arrivals_2 = subscriber.wait_for("q2", sent_2, deadline_s=30.0)
    lane = node.wait_lane("cloud", depth=0, in_flight=0)
    arrivals_0 = subscriber.arrivals("q0", sent_0)
    assert arrivals_1.are_complete(), arrivals_1
    assert remote_repeats or subscriber.arrivals("q2", sent_2).are_exact(), arrivals_2
    assert arrivals_2.are_complete(), arrivals_2
    assert not arrivals_0.duplicates, arrivals_0
    assert not arrivals_0.out_of_order, arrivals_0
    assert quality_2.sessions_lost == 0, "the node forgot a session that it had acknowledged"
    assert lane["ledger_closes"] is True, lane


@pytest.fixture
def patient_remote(tmp_path: Path) -> Mosquitto:
    """A Mosquitto without limits: with them, 2.0 drops and reorders on the way to its own subscriber."""
    return Mosquitto(tmp_path / "remote", max_inflight_messages=0, max_queued_messages=0)


@pytest.mark.parametrize("protocol", ["mqtt311", "mqtt5"])
@pytest.mark.parametrize("process", PROCESSES)
def test_twenty_kills_in_a_row(patient_remote: Mosquitto, start_node: StartNode, process: str, protocol: str) -> None:
    kills = KILLS if protocol == "mqtt311" else KILLS // 4
    with ExitStack() as stack:
        remote = stack.enter_context(patient_remote)
        node = start_node(node_config(bridge_config("cloud", remote.port, protocol=protocol)))
        subscriber = stack.enter_context(Subscriber(remote.port, "#"))
        crowd = publishers(stack, node)
        for _ in range(kills):
            wait_progress(subscriber, crowd)
            node.wait_replaced(process, node.kill(process))
        wait_progress(subscriber, crowd)
        judge(node, subscriber, crowd)
        restarts = {row["name"]: row["restarts"] for row in node.status()["processes"]}
    name = process if process in restarts else f"{process}:cloud:0"
    assert restarts == {other: kills if other == name else 0 for other in restarts}, "only what was killed is started again"


def test_all_processes_killed_at_once_again_and_again(patient_remote: Mosquitto, start_node: StartNode) -> None:
    """Every child dies at the same moment, five times."""
    with ExitStack() as stack:
        remote = stack.enter_context(patient_remote)
        node = start_node(node_config(bridge_config("cloud", remote.port)))
        subscriber = stack.enter_context(Subscriber(remote.port, "#"))
        crowd = publishers(stack, node)
        for _ in range(5):
            wait_progress(subscriber, crowd)
            killed = {process: node.kill(process) for process in PROCESSES}
            for process, pid in killed.items():
                node.wait_replaced(process, pid)
        wait_progress(subscriber, crowd)
        judge(node, subscriber, crowd)


def test_a_remote_that_restarts_gets_each_qos_2_message_once(tmp_path: Path, start_node: StartNode) -> None:
    """It keeps its sessions on disk: nothing is lost, and nothing that was released is ever published to it again.

    Mosquitto 2.0.11 itself sends QoS 2 messages to its subscriber again after a restart, also those whose PUBREC it had, so what
    the bridge did is read from its log.
    """
    with ExitStack() as stack:
        broker = Mosquitto(tmp_path / "remote", persistence=True, max_inflight_messages=0, max_queued_messages=0)
        remote = stack.enter_context(broker)
        node = start_node(node_config(bridge_config("cloud", remote.port)))
        subscriber = stack.enter_context(Subscriber(remote.port, "#"))
        crowd = publishers(stack, node)
        for _ in range(3):
            wait_progress(subscriber, crowd)
            remote.stop()
            crowd[1].wait_acknowledged(PROGRESS)
            remote.start()
        wait_progress(subscriber, crowd)
        judge(node, subscriber, crowd, remote_repeats=True)
        assert published_after_release(remote.log) == []
        assert all(event["session_present"] for event in node.events("bridge.connected")[1:]), "the remote kept its session"


def published_after_release(log: str) -> list[str]:
    """The packet identifiers that the bridge published again after it had released them (there are fewer than 65,000 messages)."""
    released: set[str] = set()
    again = []
    for line in log.splitlines():
        if found := re.search(r"Received PUBREL from bridge-cloud \(Mid: (\d+)\)", line):
            released.add(found[1])
        elif (found := re.search(r"Received PUBLISH from bridge-cloud \(d\d, q2, r0, m(\d+),", line)) and found[1] in released:
            again.append(found[1])
    assert released, "the remote's log says what it received"
    return again
