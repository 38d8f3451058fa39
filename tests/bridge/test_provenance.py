"""``provenance``: a real remote's subscriber reads when and where each message was accepted, and which waited through an outage."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.conftest import StartNode
from tests.support.mosquitto import Mosquitto
from tests.support.mqtt_client import MqttClient, publish
from tests.support.mqtt_packets import Packet
from tests.support.node import bridge_config, node_config
from tests.support.proxy import Proxy
from tests.support.subscriber import Subscriber
from tests.support.waiting import PATIENCE_S, wait_until

NUMBERS = [str(number) for number in range(20)]
FORMS = {"mqtt311": "envelope", "mqtt5": "user-properties"}


@pytest.mark.parametrize("protocol", FORMS)
def test_a_message_tells_when_and_where_it_was_accepted_and_whether_it_waited(
    remote: Mosquitto, start_node: StartNode, protocol: str
) -> None:
    """Half comes while the remote is away and outlives a kill of the node, half afterwards; another rule's messages say nothing."""
    rules = [{"filters": ["plant/#"], "destination": "site/{#}", "provenance": FORMS[protocol]}, {"filters": ["#"]}]
    with Proxy(remote.port) as proxy, Subscriber(remote.port, "#", version=5) as subscriber:
        proxy.cut()
        node = start_node(node_config(bridge_config("cloud", proxy.port, protocol=protocol, local_subscriptions=rules)))
        before = datetime.now(UTC)
        with MqttClient(node.port) as client:
            publish(client, "plant/a", *NUMBERS[:10], qos=1)
        node.wait_lane("cloud", depth=10)
        between = datetime.now(UTC)
        node.kill_supervisor()
        node.start()
        proxy.restore()
        node.wait_lane("cloud", delivered=10)
        with MqttClient(node.port) as client:
            publish(client, "plant/a", *NUMBERS[10:], qos=1)
            publish(client, "other", "bare", qos=1)
        subscriber.wait_for("other", ["bare"])
        node.wait_lane("cloud", delivered=21, depth=0, ledger_closes=True)
        *came, bare = subscriber.packets
    told = [read(packet) for packet in came]
    assert [packet.topic for packet in came] == ["site/plant/a"] * 20
    assert [each["payload"] for each in told] == NUMBERS
    assert [each["sequence"] for each in told] == list(range(20))
    assert [each["stored"] for each in told] == [True] * 10 + [False] * 10
    assert {(each["node"], each["bridge"], each["lane"]) for each in told} == {("edge", "cloud", 0)}
    times = [datetime.fromisoformat(each["time"]) for each in told]
    assert times == sorted(times)
    assert before.timestamp() - 0.001 <= times[0].timestamp()
    assert times[9] <= between
    assert times[10].timestamp() >= between.timestamp() - 0.001
    if protocol == "mqtt311":
        assert {each["topic"] for each in told} == {"plant/a"}
    assert (own_properties(bare), bare.payload) == ([], b"bare")


@pytest.mark.parametrize("protocol", FORMS)
def test_what_a_message_tells_counts_for_the_packet_size_of_the_remote(
    remote: Mosquitto, start_node: StartNode, protocol: str
) -> None:
    """The same payload fits by another rule."""
    rules = [{"filters": ["plant/#"], "provenance": FORMS[protocol]}, {"filters": ["#"]}]
    with Subscriber(remote.port, "#", version=5) as subscriber:
        limited = {"packet_max_bytes": "1000B"}
        node = start_node(
            node_config(bridge_config("cloud", remote.port, protocol=protocol, remote=limited, local_subscriptions=rules))
        )
        with MqttClient(node.port) as client:
            for topic in ("plant/a", "other/a"):
                publish(client, topic, "x" * 900, qos=1)
            publish(client, "plant/a", "small", qos=1)
        lane = node.wait_lane("cloud", delivered=2, depth=0, ledger_closes=True)
        wait_until(lambda: len(subscriber.packets) == 2, PATIENCE_S, "both that fit")
    assert (lane["dead_lettered"], lane["exchange"]["too_large"]) == (1, 1)
    assert [packet.topic for packet in subscriber.packets] == ["other/a", "plant/a"]


def own_properties(packet: Packet) -> list[tuple[str, str]]:
    return [pair for pair in packet.user_properties if pair[0] != "bascule-hops"]


def read(packet: Packet) -> dict[str, Any]:
    """What ``packet`` tells, in the envelope's form, whichever it has."""
    pairs = own_properties(packet)
    if not pairs:
        return dict(json.loads(packet.payload))
    told = {name.removeprefix("bascule-"): value for name, value in pairs}
    numbers = {name: json.loads(told[name]) for name in ("lane", "sequence", "stored")}
    return told | numbers | {"payload": packet.payload.decode()}
