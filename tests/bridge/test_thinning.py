"""``only`` and ``keep_last``: what a real remote's subscriber gets, across a cut link, and a kill of the store."""

from __future__ import annotations

import json

import pytest

from tests.conftest import StartNode
from tests.support.mosquitto import Mosquitto
from tests.support.mqtt_client import MqttClient, publish
from tests.support.node import bridge_config, node_config
from tests.support.proxy import Proxy
from tests.support.subscriber import Subscriber
from tests.support.waiting import wait_until

RULES = [
    {"filters": ["state/#"], "only": "changed"},
    {"filters": ["power/#"], "only": {"one_per": "1s"}},
    {"filters": ["place/#"], "keep_last": True},
    {"filters": ["#"]},
]


@pytest.mark.parametrize("qos", [1, 2])
def test_what_rules_leave_out_does_not_arrive_and_the_last_of_each_topic_does(
    remote: Mosquitto, start_node: StartNode, qos: int
) -> None:
    """Before, in and after an outage, in which the store is killed: once each at QoS 2, and the ledger closes."""
    with Proxy(remote.port) as proxy, Subscriber(remote.port, "#") as subscriber:
        node = start_node(node_config(bridge_config("cloud", proxy.port, local_subscriptions=RULES)))
        node.wait_lane("cloud", state="connected")
        with MqttClient(node.port) as client:
            publish(client, "state/a", "on", "on", "on", "off", qos=qos)
            publish(client, "place/a", "1", "2", "3", qos=qos)
            publish(client, "power/a", *map(str, range(50)), qos=qos)
        subscriber.wait_for("power/a", ["49"])
        lane = node.wait_lane("cloud", depth=0, held=0, ledger_closes=True)
        assert lane["dropped"]["unchanged"] == 2
        assert lane["accepted"] == 57 == lane["delivered"] + sum(lane["dropped"].values())

        proxy.cut()
        node.wait_lane_until(lambda lane: lane["state"] != "connected", "the link is down")
        with MqttClient(node.port) as client:
            publish(client, "place/a", "4", "5", qos=qos)
            publish(client, "place/b", "x", "y", qos=qos)
            publish(client, "state/a", "off", "off", qos=qos)
        node.wait_lane("cloud", held=2)
        exported = node.cli("queue", "export", str(node.config_path), "cloud", "--to", "-").stdout.splitlines()
        held = [json.loads(line) for line in exported]
        assert [(row["topic"], row["payload_text"], row["state"]) for row in held] == [
            ("place/a", "5", "held"),
            ("place/b", "y", "held"),
        ]
        assert "held" in node.cli("queue", "peek", str(node.config_path), "cloud").stdout
        node.wait_replaced("store", node.kill("store"))
        node.wait_lane("cloud", held=0, depth=2, ledger_closes=True)
        with MqttClient(node.port) as client:
            publish(client, "place/a", "6", "7", qos=qos)
        proxy.restore()
        lane = node.wait_lane("cloud", depth=0, held=0, ledger_closes=True)
        assert lane["accepted"] == 65
        subscriber.wait_for("place/a", ["7"])
        subscriber.wait_for("place/b", ["y"])
        assert subscriber.payloads("state/a") == ["on", "off"]
        assert subscriber.payloads("place/a") == ["1", "2", "3", "5", "7"]
        assert subscriber.payloads("place/b") == ["y"]


def test_another_payload_that_a_changed_rule_let_through_is_the_last_one(remote: Mosquitto, start_node: StartNode) -> None:
    """store.last-payload-stands: else the remote keeps what is not the last of the topic."""
    with Subscriber(remote.port, "#") as subscriber:
        configs = [node_config(bridge_config("cloud", remote.port, local_subscriptions=rules)) for rules in (RULES, RULES[3:])]
        node = start_node(configs[0])
        for number, payload in enumerate(("on", "off", "on")):
            if number:
                node.configure(configs[number % 2])
                assert node.cli("reload", str(node.config_path), "--wait").returncode == 0
            with MqttClient(node.port) as client:
                publish(client, "state/a", payload, payload)
            node.wait_lane("cloud", depth=0, ledger_closes=True)
        came = ["on", "off", "off", "on"]
        wait_until(lambda: subscriber.payloads("state/a") == came, 20.0, lambda: str(subscriber.payloads("state/a")))
