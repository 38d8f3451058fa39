"""The table of ``persist`` x QoS x mode: what is queued, marked, redelivered and on disk.

One node a mode has all its rows: a bridge for each ``persist``, whose remotes are told apart by their topics, and a topic for each
QoS. A *disconnect* is of the remote: all QoS are queued meanwhile and arrive. A *restart* is of the node, with the remote away:
only ``file-native`` with ``persist: true`` and QoS 1 or 2 survives it, and all of that does.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import StartNode
from tests.support.mosquitto import Mosquitto, mosquitto_pub
from tests.support.mqtt_client import MqttClient
from tests.support.node import Config, Node, bridge_config, node_config
from tests.support.proxy import Proxy
from tests.support.subscriber import Subscriber
from tests.support.waiting import holds_for

COUNT = 100
FIRST = [str(number) for number in range(COUNT)]
LATER = [str(number) for number in range(COUNT, 2 * COUNT)]

MODES = ["file-native", "in-memory"]
BRIDGES = {"kept": True, "passing": False}  # name -> persist
QUALITIES = (0, 1, 2)


def applied_qos(persist: bool, qos: int) -> int:
    """The column *applied* of the table."""
    return qos if persist else 0


def publish_all(node: Node, numbers: list[str], qos: int) -> None:
    """Publish with mosquitto_pub and wait until the queue's count includes all of it (QoS 0 has no acknowledgement)."""
    before = node.lane("cloud")["accepted"]
    mosquitto_pub(node.port, "t", numbers, qos=qos)
    node.wait_lane("cloud", accepted=before + len(numbers))


def of_all_rows(port: int, mode: str) -> Config:
    """A node with a bridge to ``port`` for each ``persist``, which puts its own name in front of the topics."""
    bridges = [
        bridge_config(name, port, persist=persist, local_subscriptions=[{"filters": ["#"], "destination": f"{name}/{{#}}"}])
        for name, persist in BRIDGES.items()
    ]
    return node_config(*bridges, mode=mode)


def publish_at_all(node: Node, numbers: list[str]) -> None:
    """Publish ``numbers`` at each QoS, each with a topic of its own, and wait until both queues' counts include all of it."""
    before = {name: node.lane(name)["accepted"] for name in BRIDGES}
    for qos in QUALITIES:
        mosquitto_pub(node.port, f"q{qos}", numbers, qos=qos)
    for name, accepted in before.items():
        node.wait_lane(name, accepted=accepted + len(QUALITIES) * len(numbers))


def judge_rows(subscriber: Subscriber, expected: Callable[[bool, int], list[str]]) -> None:
    """Each row's messages arrive once, in order, at the applied QoS; ``expected`` is asked for each ``persist`` and QoS."""
    for name, persist in BRIDGES.items():
        for qos in QUALITIES:
            arrivals = subscriber.wait_for(f"{name}/q{qos}", expected(persist, qos))
            assert arrivals.are_exact(), (name, qos, arrivals)
            applied = {packet.qos for packet in subscriber.packets if packet.topic == f"{name}/q{qos}"}
            assert applied == {applied_qos(persist, qos)}, (name, qos)


@pytest.fixture
def patient(tmp_path: Path) -> Mosquitto:
    """A Mosquitto, not started, without limits: with them, 2.0 drops and reorders on the way to its own subscriber."""
    return Mosquitto(tmp_path / "patient", max_inflight_messages=0, max_queued_messages=0)


@pytest.mark.parametrize("mode", MODES)
def test_every_row_survives_a_disconnect(patient: Mosquitto, start_node: StartNode, mode: str) -> None:
    with patient, Proxy(patient.port) as proxy, Subscriber(patient.port, "#") as subscriber:
        node = start_node(of_all_rows(proxy.port, mode))
        publish_at_all(node, FIRST)
        judge_rows(subscriber, lambda persist, qos: FIRST)
        for name in BRIDGES:
            node.wait_lane(name, depth=0)
        proxy.cut()
        for name in BRIDGES:
            node.wait_lane_until(lambda row: row["state"] != "connected", "the bridge notices the cut", name)
        publish_at_all(node, LATER)
        for name in BRIDGES:
            assert node.lane(name)["depth"] == 3 * COUNT
        proxy.restore()
        judge_rows(subscriber, lambda persist, qos: FIRST + LATER)
        for name in BRIDGES:
            node.wait_lane(name, depth=0, delivered=6 * COUNT, ledger_closes=True)


@pytest.mark.parametrize("mode", MODES)
def test_only_what_is_on_disk_survives_a_restart(patient: Mosquitto, start_node: StartNode, mode: str) -> None:
    def survivors(persist: bool, qos: int) -> list[str]:
        return FIRST if mode == "file-native" and persist and qos > 0 else []

    with Proxy(patient.port) as proxy:
        node = start_node(of_all_rows(proxy.port, mode))
        publish_at_all(node, FIRST)
        node.restart()
        for name, persist in BRIDGES.items():
            lane = node.lane(name)
            assert lane["depth"] == sum(len(survivors(persist, qos)) for qos in QUALITIES), name
            assert lane["ledger_closes"] is True
        proxy.cut()  # so that nothing crosses before the subscription stands
        with patient, Subscriber(patient.port, "#") as subscriber:
            proxy.restore()
            publish_at_all(node, LATER)
            judge_rows(subscriber, lambda persist, qos: survivors(persist, qos) + LATER)


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("mode", MODES)
def test_what_is_in_flight_is_marked_and_redelivered(remote: Mosquitto, start_node: StartNode, qos: int, mode: str) -> None:
    """The remote takes messages and says nothing (half-open): they stay in the queue, marked, and go out again after the cut."""
    with Proxy(remote.port) as proxy, Subscriber(remote.port, "#") as subscriber:
        node = start_node(node_config(bridge_config("cloud", proxy.port), mode=mode))
        node.wait_lane("cloud", state="connected")
        proxy.stall()
        publish_all(node, FIRST, qos)
        lane = node.wait_lane("cloud", depth=COUNT)
        node.wait_lane_until(lambda row: row["in_flight"] > 0, "messages in flight")
        assert lane["delivered"] == 0
        proxy.cut()
        node.wait_lane_until(lambda row: row["state"] != "connected", "the bridge notices the cut")
        proxy.restore()
        arrivals = subscriber.wait_for("t", FIRST)
        lane = node.wait_lane("cloud", depth=0, in_flight=0)
        assert arrivals.are_complete(), arrivals
        if qos == 2:
            assert arrivals.are_exact(), arrivals
        assert lane["redelivered"] > 0
        assert lane["ledger_closes"] is True


@pytest.mark.parametrize(("persist", "qos"), [(True, 0), (False, 0), (False, 1), (False, 2)])
def test_what_goes_at_qos_0_is_neither_marked_nor_redelivered(
    remote: Mosquitto, start_node: StartNode, persist: bool, qos: int
) -> None:
    with Proxy(remote.port) as proxy, Subscriber(remote.port, "#") as subscriber:
        node = start_node(node_config(bridge_config("cloud", proxy.port, persist=persist)))
        node.wait_lane("cloud", state="connected")
        proxy.stall()
        publish_all(node, FIRST, qos)
        lane = node.wait_lane("cloud", depth=0)  # the attempt to send it ended
        assert lane["in_flight"] == 0
        proxy.cut()
        node.wait_lane_until(lambda row: row["state"] != "connected", "the bridge notices the cut")
        proxy.restore()
        publish_all(node, LATER, qos)
        subscriber.wait_for("t", LATER)
        holds_for(lambda: set(subscriber.payloads("t")) <= set(FIRST + LATER), 0.2, "nothing else arrives")
        arrivals = subscriber.arrivals("t", FIRST + LATER)
        assert not arrivals.duplicates, arrivals
        assert not arrivals.out_of_order, arrivals
        assert node.lane("cloud")["redelivered"] == 0


def test_a_qos_2_exchange_that_was_received_is_not_taken_twice_after_a_restart(tmp_path: Path, start_node: StartNode) -> None:
    """PUBLISH, PUBREC, the node restarts, PUBLISH with DUP again: PUBREC, PUBREL, PUBCOMP, and one message in the queue."""
    broker = Mosquitto(tmp_path / "remote")
    node = start_node(node_config(bridge_config("cloud", broker.port)))
    client = MqttClient(node.port, "publisher", clean=False)
    assert client.connect().session_present is False
    client.publish("t", "m", qos=2, packet_id=11)
    client.expect(5, packet_id=11)
    node.restart()
    assert client.connect().session_present is True
    client.publish("t", "m", qos=2, packet_id=11, dup=True)
    client.expect(5, packet_id=11)
    client.acknowledge(6, 11)
    client.expect(7, packet_id=11)
    client.publish("t", "n", qos=2, packet_id=11)
    client.expect(5, packet_id=11)
    client.close()
    assert node.lane("cloud")["depth"] == 2


def test_a_session_lives_as_long_as_its_client_has_asked_for(start_node: StartNode) -> None:
    """MQTT 5: Clean Start says what is forgotten, and Session Expiry Interval what is kept; neither implies the other."""
    node = start_node(node_config())

    def present(*, clean: bool, session_expiry_s: int) -> bool:
        client = MqttClient(node.port, "c", version=5, clean=clean, session_expiry_s=session_expiry_s)
        found = client.connect().session_present
        client.close()
        return found

    assert not present(clean=True, session_expiry_s=60)
    assert present(clean=False, session_expiry_s=60), "MQTT-3.1.2-5"
    assert present(clean=False, session_expiry_s=0)
    assert not present(clean=False, session_expiry_s=0), "it ended with its connection"
    assert not present(clean=False, session_expiry_s=60)
    assert not present(clean=True, session_expiry_s=60), "MQTT-3.1.2-4"
