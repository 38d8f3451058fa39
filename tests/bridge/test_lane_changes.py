"""Another number of lanes while messages wait: everything comes, in order, and former lanes run until they are empty."""

from __future__ import annotations

import signal

import pytest

from tests.conftest import StartNode
from tests.support.mosquitto import Mosquitto
from tests.support.mqtt_client import MqttClient
from tests.support.node import Config, Node, bridge_config, node_config
from tests.support.proxy import Proxy
from tests.support.subscriber import Subscriber
from tests.support.waiting import wait_until

TOPICS = [f"t/{number}" for number in range(8)]
EACH = 40


def with_lanes(port: int, lanes: int) -> Config:
    return node_config(bridge_config("cloud", port, lanes=lanes))


def publish(node: Node, numbers: range) -> None:
    """Each number to every topic, at QoS 2, acknowledged."""
    with MqttClient(node.port, "filler") as client:
        for number in numbers:
            for topic in TOPICS:
                client.publish_burst(topic, [str(number)], qos=2)


def actors(node: Node) -> set[str]:
    """The lanes' actors."""
    return {row["name"] for row in node.status()["actors"] if ":" in row["name"]}


@pytest.mark.parametrize(("before", "after"), [(3, 1), (1, 3)])
def test_lanes_may_be_changed_while_messages_wait(remote: Mosquitto, start_node: StartNode, before: int, after: int) -> None:
    """QoS 2, each once, in the order of its topic; the process of a former lane is killed on the way."""
    with Proxy(remote.port) as proxy, Subscriber(remote.port, "#") as subscriber:
        proxy.cut()
        node = start_node(with_lanes(proxy.port, before))
        publish(node, range(EACH))
        assert node.stop() == 0
        node.configure(with_lanes(proxy.port, after))
        node.start()
        publish(node, range(EACH, 2 * EACH))
        every = {f"{kind}:cloud:{lane}" for kind in ("forwarder", "connection") for lane in range(3)}
        wait_until(lambda: actors(node) == every, 20.0, lambda: f"{every}, not {actors(node)}")
        assert node.status()["unserved"] == []
        if after < before:
            node.wait_lane("cloud", 2, state="backoff")
            node.kill("bridge", signal.SIGKILL, "cloud", 2)
        else:
            said = node.cli("status", str(node.config_path)).stdout
            assert "wait until other lanes have sent messages from before the change of lanes: cloud:1 for 0; cloud:2 for 0" in said
        proxy.restore()

        for topic in TOPICS:
            arrivals = subscriber.wait_for(topic, [str(number) for number in range(2 * EACH)])
            assert arrivals.are_exact(), (topic, arrivals)
        rows = {f"{kind}:cloud:{lane}" for kind in ("forwarder", "connection") for lane in range(after)}
        wait_until(lambda: actors(node) == rows, 20.0, lambda: f"{rows}, not {actors(node)}\n{node.output[-3000:]}")
        status = node.status()
        assert [row["lane"] for row in status["bridges"]] == list(range(after))
        assert (status["ready"], status["unserved"]) == (True, [])
        for lane in range(after):
            assert node.wait_lane("cloud", lane, depth=0)["ledger_closes"] is True
