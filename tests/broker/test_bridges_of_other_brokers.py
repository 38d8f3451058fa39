"""Other brokers' bridges at our door: the bridge bit of MQTT 3.1.1, what a CONNECT of a foreign level is told, and $SYS topics.

``test_mosquitto_in_front.py`` has the same with a real Mosquitto.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker.raw import read_to_end
from tests.support.mosquitto import Mosquitto
from tests.support.mqtt_client import MqttClient, publish, publish_once, take, take_one
from tests.support.mqtt_packets import Packet, Will, packet_bytes, string
from tests.support.node import Node, bridge_config, node_config
from tests.support.subscriber import Subscriber
from tests.support.waiting import PATIENCE_S, wait_until

STATE = "$SYS/broker/connection/site.x/state"
REFUSED_4, REFUSED_5 = bytes.fromhex("20 02 00 01"), bytes.fromhex("20 03 00 84 00")


class BridgeClient(MqttClient):
    """A client that says that it is a bridge: level 0x84."""

    def __init__(self, port: int, client_id: str, *, clean: bool = True, will: Will | None = None) -> None:
        super().__init__(port, client_id, clean=clean, will=will)
        self._greeting = self._greeting.replace(b"\0\4MQTT\4", b"\0\4MQTT\x84", 1)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with Node(node_config(), tmp_path) as node:
        yield node


def first_words(port: int, name: bytes, level: int, rest: bytes = b"\x02\0\x3c\0\3brx") -> bytes:
    """All that a CONNECT of that protocol name and level is told until the node closes."""
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as client:
        client.sendall(packet_bytes(1, 0, string(name) + bytes((level,)) + rest))
        return read_to_end(client)


def facts(packets: list[Packet]) -> list[tuple[str, bytes, bool]]:
    return sorted((one.topic, one.payload, one.retain) for one in packets)


# --- levels ---


@pytest.mark.parametrize(
    ("name", "level", "answer"),
    [
        *((b"MQTT", level, REFUSED_4) for level in (0, 1, 3, 6, 0x80, 0x83, 0x85, 0x86, 0xFF)),
        *((b"MQIsdp", level, REFUSED_4) for level in (3, 4, 0x83, 0x84)),
        (b"mqtt", 4, REFUSED_4),
        (b"", 4, REFUSED_4),
        (b"MQTTS", 0x84, REFUSED_4),
        (b"MQIsdp", 5, REFUSED_5),
        (b"mqtt", 5, REFUSED_5),
    ],
)
def test_who_speaks_another_protocol_is_told_so_in_the_form_that_it_reads(
    node: Node, name: bytes, level: int, answer: bytes
) -> None:
    assert first_words(node.port, name, level) == answer


@pytest.mark.parametrize("rest", [b"\x03\0\x3c\0\3brx", b"\x02\0\x3c\0\x09brx", b"\x02"], ids=["flags", "length", "short"])
def test_a_malformed_connect_of_a_bridge_is_told_nothing_that_only_mqtt_5_reads(node: Node, rest: bytes) -> None:
    assert first_words(node.port, b"MQTT", 0x84, rest) == b""


def test_a_bridge_whose_will_breaks_a_limit_is_told_so_as_mqtt_3_1_1_reads_it(tmp_path: Path) -> None:
    will = string("a/b/c/d") + string("x")
    with Node(node_config(clients={"topic_levels_max": 3}), tmp_path) as node:
        assert first_words(node.port, b"MQTT", 0x84, b"\x06\0\x3c\0\3brx" + will) == b"\x20\x02\0\5"


# --- what the bit means ---


def test_the_bytes_of_a_bridge_are_welcomed(node: Node) -> None:
    with socket.create_connection(("127.0.0.1", node.port), PATIENCE_S) as client:
        client.sendall(bytes.fromhex("10 0f 00 04 4d 51 54 54 84 02 00 3c 00 03 62 72 78"))
        assert client.recv(100) == bytes.fromhex("20 02 00 00")


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_bridge_gets_no_echo_and_retain_as_published(node: Node, qos: int) -> None:
    """broker.bridge-is-no-local, by any subscription, also one that it shares; an ordinary client of 3.1.1 gets both as ever."""
    with BridgeClient(node.port, "site.x") as bridge, MqttClient(node.port, "plain") as plain:
        for client in (bridge, plain):
            assert client.subscribe("a/#", "+/b", "$share/g/c", qos=qos).reason_codes == (qos,) * 3
        publish(bridge, "a/b", "mine", qos=qos)
        assert facts(take(plain, 1)) == [("a/b", b"mine", False)]
        publish_once(node.port, "a/1", "kept", retain=True)
        publish_once(node.port, "x/b", "passing")
        assert facts(take(bridge, 2)) == [("a/1", b"kept", True), ("x/b", b"passing", False)]
        assert facts(take(plain, 2)) == [("a/1", b"kept", False), ("x/b", b"passing", False)]
        plain.disconnect()
        publish_once(node.port, "c", "shared", retain=True)
        assert facts(take(bridge, 1)) == [("c", b"shared", True)]
        bridge.ping()


def test_a_session_of_a_bridge_stays_one(node: Node) -> None:
    """Over kill -9 of all: what it published last does not wait for it, and what waits has its RETAIN."""
    with BridgeClient(node.port, "site.x", clean=False) as bridge:
        bridge.subscribe("#", qos=1)
        publish(bridge, "from/bridge", "before", qos=1)
        bridge.drain()
    node.kill_supervisor()
    node.start()
    publish_once(node.port, "t", "kept", retain=True)
    publish_once(node.port, "t", "passing")
    with BridgeClient(node.port, "site.x", clean=False) as bridge:
        assert bridge.connack.session_present
        assert facts(take(bridge, 2)) == [("t", b"kept", True), ("t", b"passing", False)]
        publish(bridge, "from/bridge", "after", qos=1)
        bridge.ping()


# --- $SYS ---


@pytest.mark.parametrize("version", [4, 5])
def test_what_bridges_say_of_themselves_is_readable_kept_and_bridged(tmp_path: Path, version: int) -> None:
    """A Will and a PUBLISH below $SYS/broker/connection/, of a bridge and of any client; # takes neither."""
    with Mosquitto(tmp_path / "remote") as remote, Subscriber(remote.port, "states/#") as far:
        states = [{"filters": ["$SYS/broker/connection/#"], "destination": "states/{4-#}"}]
        node = Node(node_config(bridge_config("cloud", remote.port, local_subscriptions=states)), tmp_path / "node")
        with node, MqttClient(node.port, "all") as everything:
            everything.subscribe("#")
            will = Will(topic=STATE, payload=b"0", qos=1, retain=True)
            client = BridgeClient(node.port, "site.x", will=will)
            if version == 5:
                client = MqttClient(node.port, "site.x", version=5, will=will)  # type: ignore[assignment]
            with client:
                assert client.connack.reason_code == 0
                publish(client, STATE, "1", qos=1, retain=True)
                with MqttClient(node.port, "watcher") as watcher:
                    watcher.subscribe("$SYS/broker/connection/#", qos=1)
                    assert facts([take_one(watcher)]) == [(STATE, b"1", True)]
                    client.vanish()
                    assert facts([take_one(watcher)]) == [(STATE, b"0", False)]
            assert far.wait_for("states/site.x/state", ["1", "0"]).are_exact()
            everything.ping()
            assert node.status()["listener"]["reserved_publishes"] == 0


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("topic", ["$SYS/broker/uptime", "$SYS/brokers/connected", "$SYS/"])
def test_a_will_for_the_nodes_own_topics_is_dropped_with_a_word_and_its_client_let_in(node: Node, topic: str, version: int) -> None:
    """routing.sys-stays-here"""
    with MqttClient(node.port, "watcher") as watcher:
        watcher.subscribe(topic if topic.count("/") == 2 else "$SYS/none", qos=1)
        before = len(watcher.drain())
        with MqttClient(node.port, "hive", version=version, will=Will(topic=topic, payload=b"spoofed", retain=True)) as client:
            assert client.connack.reason_code == 0
            publish(client, "ordinary", "x")
            client.vanish()
        wait_until(lambda: node.status()["listener"]["clients"] == 1, PATIENCE_S, "the client is gone")
        assert b"spoofed" not in [one.payload for one in watcher.drain()]
        assert before <= 1
    said_everywhere(node, topic, 1)


@pytest.mark.parametrize("version", [4, 5])
def test_a_publish_to_the_nodes_own_topics_is_dropped_with_a_word(node: Node, version: int) -> None:
    with MqttClient(node.port, "hive", version=version) as client:
        for _ in range(3):
            answer = client.deliver("$SYS/broker/load", "x", 1)
            assert answer is not None
            assert answer.reason_code == (0x87 if version == 5 else 0)
    said_everywhere(node, "$SYS/broker/load", 3)


def test_a_will_that_an_access_list_forbids_refuses_no_bridge(tmp_path: Path) -> None:
    """The bridge did not ask for it. A Will for an ordinary topic is its client's wish, and refused as ever."""
    access = {"allow_anonymous": True, "acl": [{"topics": ["plant/#"]}]}
    with Node(node_config(access=access), tmp_path) as node:
        with BridgeClient(node.port, "site.x", will=Will(topic=STATE, payload=b"0")) as bridge:
            assert bridge.connack.reason_code == 0
        with BridgeClient(node.port, "site.y", will=Will(topic="other/x", payload=b"0")) as bridge:
            assert bridge.connack.reason_code == 5
        said_everywhere(node, STATE, 1)


def said_everywhere(node: Node, topic: str, dropped: int) -> None:
    """The log and the events name the topic and its client once a minute; status and doctor count all."""
    (line,) = node.events("publish.reserved")
    assert (line["topic"], line["count"]) == (topic, 1)
    assert node.status()["listener"]["reserved_publishes"] == dropped
    found = node.cli("doctor", str(node.config_path)).stdout
    assert f"topics below $SYS/, not taken: {dropped}" in " ".join(found.split())
    kept = wait_until(lambda: kept_events(node), PATIENCE_S, "the event is kept")
    assert len(kept) == 1
    assert line["client_id"] in kept[0]


def kept_events(node: Node) -> list[str]:
    lines = node.cli("events", str(node.config_path), "--json").stdout.splitlines()
    return [line for line in lines if "publish.reserved" in line]
