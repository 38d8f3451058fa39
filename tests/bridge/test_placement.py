"""A real node with its actors in one process: the same promises, also where that dies and where the placement changes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.bridge.test_reload import hows, publish, reload
from tests.conftest import StartNode
from tests.support.mosquitto import Mosquitto
from tests.support.mqtt_client import MqttClient
from tests.support.node import Config, Node, bridge_config, node_config
from tests.support.ports import free_port
from tests.support.subscriber import Subscriber
from tests.support.waiting import wait_until

A: Config = {"name": "a", "filters": ["a/#"], "destination": "by-a/{#}"}


def arrived(subscriber: Subscriber, wanted: Counter[str], *, once: bool = True) -> None:
    wait_until(
        lambda: not wanted - Counter(packet.payload.decode() for packet in subscriber.packets),
        60.0,
        lambda: f"{subscriber.count()} of {wanted.total()}",
    )
    if once:
        assert Counter(packet.payload.decode() for packet in subscriber.packets) == wanted


def processes(node: Node) -> dict[str, tuple[str, ...]]:
    return {row["name"]: tuple(row["actors"]) for row in node.status()["processes"]}


def test_all_actors_share_a_process_that_status_names_and_nothing_is_lost_when_it_dies(
    remote: Mosquitto, start_node: StartNode
) -> None:
    config = node_config(
        bridge_config("cloud", remote.port, local_subscriptions=[A], lanes=2),
        bridge_config("alone", free_port(), local_subscriptions=[A], isolated=True),
        placement="together",
    )
    node = start_node(config)
    shared = ["queue_store", *(f"{kind}:cloud:{lane}" for lane in (0, 1) for kind in ("forwarder", "connection"))]
    known = processes(node)
    assert known["site"] == (*shared, "distributor", "listener")
    assert known["bridge:alone:0"] == ("forwarder:alone:0", "connection:alone:0")
    assert not known.keys() & {"store", "clients", "bridge:cloud:0"}

    wanted: Counter[str] = Counter()
    with Subscriber(remote.port, "#") as subscriber:
        for number in range(3):
            with MqttClient(node.port, "machine") as client:
                wanted += publish(client, f"before {number}", *(f"a/{topic}" for topic in range(8)))
            pid = node.kill("site")
            node.wait_replaced("site", pid)
        arrived(subscriber, wanted)
    row = next(row for row in node.status()["processes"] if row["name"] == "site")
    assert (row["restarts"], row["last_cause"]) == (3, "it was killed by SIGKILL")
    assert node.lane("alone")["depth"] == wanted.total()
    with MqttClient(node.port, "another") as client:
        publish(client, "after", "a/1")
    assert node.stop() == 0


@pytest.mark.parametrize("first", ["isolated", "together"])
def test_a_change_of_placement_keeps_backlog_and_session_and_loses_and_doubles_nothing(
    first: str, start_node: StartNode, tmp_path: Path
) -> None:
    second = "together" if first == "isolated" else "isolated"
    with Mosquitto(tmp_path / "remote") as remote:

        def config(placement: str) -> Config:
            return node_config(bridge_config("cloud", remote.port, local_subscriptions=[A]), placement=placement)

        node = start_node(config(first))
        node.wait_lane("cloud", state="connected")
        with Subscriber(remote.port, "#") as subscriber:
            with MqttClient(node.port, "machine") as client:
                wanted = publish(client, "delivered", "a/1")
                arrived(subscriber, wanted)
                node.wait_lane("cloud", depth=0)
                node.cli("bridge", "pause", str(node.config_path), "cloud")
                node.wait_lane("cloud", state="paused")
                wanted += publish(client, "backlog", "a/1", "a/2")
                client.publish_burst("a/3", [f"at least once {number}" for number in range(20)], qos=1)
                wanted += Counter(f"at least once {number}" for number in range(20))
            answer = reload(node, config(second))
            assert hows(answer) == {"supervision.placement": "restart"}
            assert "all processes start again" in answer["changes"][0]["detail"]
            assert ("site" in processes(node)) == (second == "together")
            assert node.lane("cloud")["depth"] == 40
            node.cli("bridge", "resume", str(node.config_path), "cloud")
            arrived(subscriber, wanted)
            with MqttClient(node.port, "machine") as client:
                wanted += publish(client, "after", "a/1")
            arrived(subscriber, wanted)
        assert node.lane("cloud")["ledger_closes"]
        assert node.stop() == 0


def test_in_one_process_a_bridge_comes_goes_moves_and_starts_again_and_clients_stay_connected(
    remote: Mosquitto, start_node: StartNode
) -> None:
    def config(*names: str, **keys: object) -> Config:
        made = [bridge_config(name, remote.port, local_subscriptions=[A | {"destination": f"{name}/{{#}}"}]) for name in names]
        made[-1] |= keys
        return node_config(*made, placement="together")

    node = start_node(config("one", "two"))
    pid = node.pid("site")
    with Subscriber(remote.port, "#") as subscriber, MqttClient(node.port, "machine") as client:
        for name in ("one", "two"):
            node.wait_lane(name, state="connected")
        sent = publish(client, "first", "a/1")
        node.wait_lane("two", depth=0)
        reload(node, config("one", "three"))
        node.wait_lane("three", state="connected")
        sent += publish(client, "second", "a/1")
        reload(node, config("one", "three", isolated=True))
        assert processes(node)["bridge:three:0"] == ("forwarder:three:0", "connection:three:0")
        sent += publish(client, "third", "a/1")
        reload(node, config("one", "three"))
        assert "bridge:three:0" not in processes(node)
        node.wait_lane("three", state="connected")
        node.cli("bridge", "restart", str(node.config_path), "one")
        sent += publish(client, "fourth", "a/1")
        topics = Counter(one.topic for one in subscriber.packets)
        wait_until(
            lambda: (Counter(one.topic for one in subscriber.packets)) == {"one/a/1": 40, "two/a/1": 10, "three/a/1": 30},
            30.0,
            lambda: f"{topics} {Counter(one.topic for one in subscriber.packets)}",
        )
    assert node.pid("site") == pid
    assert node.stop() == 0
