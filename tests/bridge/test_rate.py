"""``rate``: a backlog leaves no faster than the bridge may send, by two lanes together, and slower once the remote says so."""

from __future__ import annotations

import time
from pathlib import Path

from tests.conftest import StartNode
from tests.support.mosquitto import Mosquitto
from tests.support.mqtt_client import MqttClient
from tests.support.node import Node, bridge_config, node_config
from tests.support.proxy import Proxy
from tests.support.subscriber import Subscriber
from tests.support.waiting import wait_until

COUNT, PER_S = 100, 50
NUMBERS = [str(number) for number in range(COUNT)]
TOPICS = ("a/0", "b")  # each has a lane of its own


def test_a_backlog_leaves_at_the_rate_of_the_bridge_over_its_lanes_in_order(remote: Mosquitto, start_node: StartNode) -> None:
    """Then the limit goes, while the node runs and stays connected, and as much leaves as fast as it can."""
    with Proxy(remote.port) as proxy, Subscriber(remote.port, "#") as subscriber:
        proxy.cut()
        rate = {"messages_per_s": PER_S, "burst": "100ms"}
        bridge = bridge_config("cloud", proxy.port, lanes=2, rate=rate)
        node = start_node(node_config(bridge))
        with MqttClient(node.port) as client:
            client.send(b"".join(client.encode_publish(topic, number, 1) for number in NUMBERS for topic in TOPICS))
            lanes = [node.wait_lane("cloud", lane, depth=COUNT) for lane in range(2)]
            assert [lane["rate"]["messages"] for lane in lanes] == [PER_S / 2] * 2
            before_s = time.monotonic()
            proxy.restore()
            for topic in TOPICS:
                assert subscriber.wait_for(topic, NUMBERS).are_exact()
            least_s = (COUNT - 1 - PER_S / 2 * 0.1) / (PER_S / 2)
            assert time.monotonic() - before_s >= least_s, "however slow the machine is"
            connections = node.lane("cloud")["link"]["connections"]
            bridge.pop("rate")
            node.configure(node_config(bridge))
            assert node.cli("reload", str(node.config_path), "--wait").returncode == 0
            wait_until(lambda: not node.lane("cloud")["rate"], 10.0, "the limit to be gone")
            client.send(b"".join(client.encode_publish("c", number, 1) for number in NUMBERS))
            assert subscriber.wait_for("c", NUMBERS).are_exact()
        assert node.lane("cloud")["link"]["connections"] == connections


def test_the_rate_falls_when_the_remote_says_quota_exceeded(tmp_path: Path, start_node: StartNode) -> None:
    """A node with a full queue is such a remote: it refuses by 0x97, and the message is sent again."""
    full = node_config(bridge_config("nowhere", 1, limits={"max_messages": 5}, loop_prevention={"enabled": False}))
    with Node(full, tmp_path / "full") as remote:
        bridge = bridge_config("cloud", remote.port, protocol="mqtt5", rate={"messages_per_s": PER_S})
        node = start_node(node_config(bridge))
        with MqttClient(node.port) as client:
            client.send(b"".join(client.encode_publish("t", number, 1) for number in NUMBERS[:20]))
            lane = node.wait_lane_until(lambda lane: lane["exchange"]["rate_lowered"] > 0, "the rate to fall")
        assert lane["exchange"]["refused"] > 0
        assert 0 < lane["rate"]["part"] < 1
        assert lane["dead_lettered"] == 0
