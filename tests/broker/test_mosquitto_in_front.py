"""A real Mosquitto whose bridge connects into a node: the four lines that its users write, with everything else as it comes.

``BASCULE_BENCH_MOSQUITTO21`` may name a mosquitto 2.1, with which they are done again.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.mosquitto import Mosquitto
from tests.support.mqtt_client import MqttClient, publish_once, take
from tests.support.node import Config, Node, bridge_config, node_config
from tests.support.proxy import Proxy
from tests.support.publisher import Publisher
from tests.support.subscriber import Subscriber
from tests.support.waiting import PATIENCE_S, holds_for, wait_still, wait_until

PROTOCOLS = pytest.mark.parametrize("protocol", ["mqttv311", "mqttv50"])
QUICK = ("restart_timeout 1", "max_queued_messages 0")  # not to wait 5 to 30 s for it after each cut, and to keep more than 1000


def in_front(
    folder: Path,
    port: int,
    *lines: str,
    name: str = "x",
    protocol: str = "mqttv311",
    persistence: bool = False,
    path: str | None = None,
) -> Mosquitto:
    """A Mosquitto whose bridge goes to ``port``. 3.1.1 is its default."""
    version = [] if protocol == "mqttv311" else [f"bridge_protocol_version {protocol}"]
    bridge = [f"connection {name}", f"address 127.0.0.1:{port}", "topic # both 2", *version]
    return Mosquitto(folder, persistence=persistence, lines=[*bridge, *lines], path=path)


def a_node(folder: Path, *bridges: Config) -> Node:
    return Node(node_config(*bridges, clients={"sys_period": "1s"}), folder)


def wait_bridged(node: Node, count: int = 1) -> None:
    """``count`` Mosquittos have subscribed."""
    wait_until(lambda: node.status()["distributor"].get("subscriptions", 0) >= count, PATIENCE_S, lambda: node.output[-3000:])


@PROTOCOLS
def test_four_lines_bridge_both_ways(tmp_path: Path, protocol: str, mosquitto_path: str | None) -> None:
    """Each message once on both sides at each QoS, what is retained included, and the bridge says how it is."""
    with a_node(tmp_path / "node") as node:
        publish_once(node.port, "kept/there", "before", retain=True)
        with in_front(tmp_path / "front", node.port, protocol=protocol, path=mosquitto_path) as front:
            wait_bridged(node)
            with Subscriber(front.port, "#", version=5) as here, Subscriber(node.port, "#", version=5) as there:
                for qos in (0, 1, 2):
                    publish_once(front.port, f"from/here/{qos}", "here", qos=qos)
                    publish_once(node.port, f"from/there/{qos}", "there", qos=qos)
                publish_once(front.port, "kept/here", "behind", retain=True)
                publish_once(node.port, "kept/there", "behind", retain=True)
                topics = [f"from/{way}/{qos}" for way in ("here", "there") for qos in (0, 1, 2)]
                for side in (here, there):
                    for topic in topics:  # QoS 2 is passed on only when it is released, and so later than what was behind it
                        side.wait_for(topic, [topic.split("/")[1]])
                    side.wait_for("kept/here", ["behind"])
                    side.wait_for("kept/there", ["before", "behind"])
                    wait_still(side.count, period_s=1.0)
                    came = sorted((one.topic, one.payload.decode()) for one in side.packets if not one.topic.startswith("kept"))
                    assert came == [(topic, topic.split("/")[1]) for topic in topics]
                    assert side.payloads("kept/here") == ["behind"]
                    assert side.payloads("kept/there") == ["before", "behind"]
                    assert all(one.retain for one in side.packets if one.topic.startswith("kept"))
            for port in (front.port, node.port):
                with MqttClient(port, "late") as late:
                    late.subscribe("kept/#", qos=1)
                    assert sorted((one.topic, one.payload) for one in take(late, 2)) == [
                        ("kept/here", b"behind"),
                        ("kept/there", b"behind"),
                    ]
            with MqttClient(node.port, "watcher") as watcher:
                watcher.subscribe("$SYS/broker/connection/#", qos=1)
                (state,) = take(watcher, 1)
                assert (state.payload, state.retain) == (b"1", True)
                front.kill()
                assert take(watcher, 1)[0].payload == b"0"
        assert node.status()["listener"]["reserved_publishes"] == 0


def cut(proxy: Proxy, _front: Mosquitto, node: Node) -> None:
    proxy.cut()
    wait_until(lambda: node.status()["listener"]["clients"] <= 2, PATIENCE_S, "only the test's own clients are left")
    proxy.restore()


def restart_front(_proxy: Proxy, front: Mosquitto, _node: Node) -> None:
    front.stop()
    front.start()


def restart_node(_proxy: Proxy, _front: Mosquitto, node: Node) -> None:
    node.restart()


def kill_node(_proxy: Proxy, _front: Mosquitto, node: Node) -> None:
    node.kill_supervisor()
    node.start()


@pytest.mark.parametrize("trouble", [cut, restart_front, restart_node, kill_node], ids=lambda one: one.__name__)
def test_each_message_crosses_once_over(
    tmp_path: Path, mosquitto_path: str | None, trouble: Callable[[Proxy, Mosquitto, Node], None]
) -> None:
    """At QoS 2, both ways, published while the trouble comes twice. A Mosquitto 2.0 that has started again sends again itself."""
    exchange(tmp_path, trouble, "mqttv311", mosquitto_path, up_once=trouble is not restart_front)


def test_what_mosquitto_2_sends_over_mqtt_5_comes_at_least_once_over_a_cut(tmp_path: Path, mosquitto_path: str | None) -> None:
    """It asks for no session expiry, so each of its connections has a session of its own."""
    exchange(tmp_path, cut, "mqttv50", mosquitto_path, up_once=False)


def exchange(
    folder: Path, trouble: Callable[[Proxy, Mosquitto, Node], None], protocol: str, path: str | None, *, up_once: bool
) -> None:
    with a_node(folder / "node") as node, Proxy(node.port) as proxy:
        front = in_front(folder / "front", proxy.port, *QUICK, protocol=protocol, persistence=True, path=path)
        with front, Subscriber(front.port, "down/#") as here, Subscriber(node.port, "up/#") as there:
            wait_bridged(node, 2)
            # Mosquitto 2.0 closes on a client of MQTT 3.1.1 that has more than 20 under way at QoS 2.
            up = Publisher(front.port, "up/1", qos=2, rate_per_s=300, window=20)
            down = Publisher(node.port, "down/1", qos=2, rate_per_s=300)
            with up, down:
                for _ in range(2):
                    up.wait_acknowledged(60)
                    down.wait_acknowledged(60)
                    trouble(proxy, front, node)
                up.wait_acknowledged(60)
                down.wait_acknowledged(60)
                sent_up, sent_down = up.finish(), down.finish()
            came_up = there.wait_for("up/1", sent_up)
            assert came_up.are_exact() if up_once else not came_up.unexpected
            if protocol == "mqttv311":
                assert here.wait_for("down/1", sent_down).are_exact()


@PROTOCOLS
def test_two_mosquittos_in_front_share_what_they_have(tmp_path: Path, protocol: str) -> None:
    """A message that one publishes comes to the other once, and does not come back."""
    with a_node(tmp_path / "node") as node:
        fronts = [in_front(tmp_path / name, node.port, name=name, protocol=protocol) for name in ("x", "y")]
        with fronts[0] as one, fronts[1] as other:
            wait_bridged(node, 2)
            with Subscriber(one.port, "#") as at_one, Subscriber(other.port, "#") as at_other, Subscriber(node.port, "#") as there:
                for number in range(20):
                    publish_once(one.port, "from/one", str(number), qos=number % 3)
                    publish_once(other.port, "from/other", str(number), qos=number % 3)
                wanted = [str(number) for number in range(20)]
                for side in (at_one, at_other, there):
                    for topic in ("from/one", "from/other"):
                        side.wait_for(topic, wanted)
                    wait_still(side.count, period_s=1.0)
                    assert sorted(side.payloads("from/one")) == sorted(side.payloads("from/other")) == sorted(wanted)


def test_a_bridge_of_ours_to_the_same_mosquitto_makes_no_endless_circle(tmp_path: Path) -> None:
    """Over MQTT 5 the hops are counted, so a message that goes out by our bridge and comes in by theirs goes no further."""
    node = a_node(tmp_path / "node")
    front = in_front(tmp_path / "front", node.port, protocol="mqttv50")
    node.configure(node_config(bridge_config("back", front.port, protocol="mqtt5")))
    with front, node, Subscriber(node.port, "#") as there:
        wait_bridged(node, 2)
        node.wait_lane("back", state="connected")
        publish_once(node.port, "a", "ours")
        publish_once(front.port, "b", "theirs")
        there.wait_for("a", ["ours"])
        there.wait_for("b", ["theirs"])
        count = wait_still(there.count, period_s=2.0)
        assert count <= 4
        holds_for(lambda: there.count() == count, 1.0, "nothing goes round")
