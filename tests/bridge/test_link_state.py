"""``link_state``: who looks at the topic, at the remote or here, sees 1 while the link stands and 0 while it does not."""

from __future__ import annotations

from typing import Any

from tests.conftest import StartNode
from tests.support.mosquitto import Mosquitto
from tests.support.mqtt_client import MqttClient
from tests.support.mqtt_packets import PUBLISH
from tests.support.node import Config, Node, bridge_config, node_config
from tests.support.proxy import Proxy
from tests.support.subscriber import Subscriber
from tests.support.waiting import wait_until
from wire.frames.names import BRIDGE, CLIENTS

MOSQUITTOS = "$SYS/broker/connection/bridge-cloud/state"


def told(port: int, **keys: Any) -> Config:
    """A node with a bridge that tells the state of its link."""
    return node_config(bridge_config("cloud", port, **{"link_state": {}, **keys}))


def wait_told(subscriber: Subscriber, *states: str, topic: str = MOSQUITTOS) -> None:
    """Wait until exactly these states were told, in this order."""
    wait_until(lambda: subscriber.payloads(topic) == list(states), 20.0, lambda: f"{states}, not {subscriber.payloads(topic)}")


def kept_here(node: Node) -> bytes:
    """What a client that comes now is told."""
    with MqttClient(node.port, "looks") as client:
        client.subscribe(MOSQUITTOS)
        return client.expect(PUBLISH).payload


def test_the_remote_is_told_by_a_will_and_a_retained_word(remote: Mosquitto, start_node: StartNode) -> None:
    """The link is cut: the Will says 0. It is mended: 1. The node pauses the bridge, and stops: 0, and nothing more."""
    with Proxy(remote.port) as proxy, Subscriber(remote.port, MOSQUITTOS) as subscriber:
        node = start_node(told(proxy.port))
        wait_told(subscriber, "1")
        proxy.cut()
        wait_told(subscriber, "1", "0")
        proxy.restore()
        wait_told(subscriber, "1", "0", "1")
        assert node.lane("cloud")["exchange"]["unexpected_acknowledgements"] == 0
        node.cli("bridge", "pause", str(node.config_path), "cloud")
        wait_told(subscriber, "1", "0", "1", "0")
        node.cli("bridge", "resume", str(node.config_path), "cloud")
        wait_told(subscriber, "1", "0", "1", "0", "1")
        with Subscriber(remote.port, MOSQUITTOS, client_id="late") as late:
            wait_told(late, "1")
            assert late.packets[0].retain
        assert node.stop() == 0
        wait_told(subscriber, "1", "0", "1", "0", "1", "0")
        with Subscriber(remote.port, MOSQUITTOS, client_id="later") as later:
            wait_told(later, "0")


def test_a_killed_lane_says_so_by_its_will(remote: Mosquitto, start_node: StartNode) -> None:
    """MQTT 5, a topic of one's own, two lanes: the first speaks for both."""
    topic = "bridges/cloud"
    with Subscriber(remote.port, topic) as subscriber:
        config = told(remote.port, protocol="mqtt5", lanes=2, link_state={"topic": "bridges/{bridge}", "local": False})
        node = start_node(config)
        wait_told(subscriber, "1", topic=topic)
        node.kill(BRIDGE, bridge="cloud", lane=0)
        wait_told(subscriber, "1", "0", "1", topic=topic)


def test_local_clients_are_told_whoever_dies(remote: Mosquitto, start_node: StartNode) -> None:
    """The link is cut and mended; its process is killed, then that of the clients, then the node: nobody sees a 1 of before
    (broker.link-states-before-clients).
    """
    with Proxy(remote.port) as proxy:
        node = start_node(told(proxy.port))
        wait_until(lambda: kept_here(node) == b"1", 20.0, lambda: f"the link to stand; {kept_here(node)!r}")
        with Subscriber(node.port, MOSQUITTOS) as subscriber:
            wait_told(subscriber, "1")
            assert subscriber.packets[0].retain
            proxy.cut()
            wait_told(subscriber, "1", "0")
            proxy.restore()
            wait_told(subscriber, "1", "0", "1")
            if node.placement == "isolated":
                node.kill(BRIDGE, bridge="cloud", lane=0)
                wait_told(subscriber, "1", "0", "1", "0", "1")
                node.kill(CLIENTS)
                node.wait_actors_ready()
                with Subscriber(node.port, MOSQUITTOS, client_id="after the clients' process") as late:
                    wait_told(late, "1")
        proxy.cut()
        node.kill_supervisor()
        node.start()
        with Subscriber(node.port, MOSQUITTOS, client_id="after the node") as later:
            wait_told(later, "0")
            proxy.restore()
            wait_told(later, "0", "1")


def test_the_topic_of_a_bridge_that_is_gone_says_0(remote: Mosquitto, start_node: StartNode) -> None:
    """Whoever reloads a configuration without it leaves no 1 behind."""
    node = start_node(told(remote.port, link_state={"topic": "bridges/{bridge}", "remote": False}))
    with Subscriber(node.port, "bridges/cloud") as subscriber:
        wait_until(lambda: subscriber.payloads("bridges/cloud")[-1:] == ["1"], 20.0, "the link to stand")
        other = bridge_config("other", remote.port, link_state={"topic": "bridges/{bridge}", "remote": False})
        node.configure(node_config(other))
        assert node.cli("reload", str(node.config_path), "--wait", "--yes").returncode == 0
        wait_until(lambda: subscriber.payloads("bridges/cloud")[-1:] == ["0"], 20.0, "the bridge to be gone")
