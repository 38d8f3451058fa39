"""Messages to subscribers while each process of the node is killed under load; they are paho's, and come back by themselves."""

from __future__ import annotations

import threading

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from tests.conftest import StartNode
from tests.support.arrivals import Arrivals
from tests.support.node import Node, node_config
from tests.support.placements import ISOLATED
from tests.support.publisher import Publisher
from tests.support.waiting import PATIENCE_S, wait_until

MORE = 60  # messages between two kills


class Subscriber:
    """A paho client whose session lasts, unless ``clean``; it counts what it got."""

    def __init__(self, node: Node, name: str, version: int, qos: int, topic_filter: str = "t", *, clean: bool = False) -> None:
        self.got: list[str] = []
        self.subscribed = threading.Event()
        protocol = MQTTProtocolVersion.MQTTv5 if version == 5 else MQTTProtocolVersion.MQTTv311
        self._client = _client(name, protocol, clean=clean)
        self._client.on_message = lambda client, data, message: self.got.append(message.payload.decode())
        self._client.on_connect = lambda client, data, flags, reason, properties: client.subscribe(topic_filter, qos)
        self._client.on_subscribe = lambda client, data, mid, reasons, properties: self.subscribed.set()
        _connect(self._client, node.port, protocol)
        assert self.subscribed.wait(PATIENCE_S)

    def stop(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


def _client(name: str, protocol: MQTTProtocolVersion, *, clean: bool) -> paho.Client:
    if protocol == MQTTProtocolVersion.MQTTv5:
        client = paho.Client(CallbackAPIVersion.VERSION2, name, protocol=protocol)
    else:
        client = paho.Client(CallbackAPIVersion.VERSION2, name, clean_session=clean, protocol=protocol)
    client.reconnect_delay_set(0.1, 0.2)  # type: ignore[arg-type]  # paho takes fractions
    client.max_queued_messages_set(0)
    return client


def _connect(client: paho.Client, port: int, protocol: MQTTProtocolVersion) -> None:
    if protocol == MQTTProtocolVersion.MQTTv5:
        properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        properties.SessionExpiryInterval = 3600
        client.connect("127.0.0.1", port, clean_start=False, properties=properties)
    else:
        client.connect("127.0.0.1", port)
    client.loop_start()


@pytest.mark.parametrize("version", [4, 5])
def test_no_message_is_lost_and_none_of_qos_2_comes_twice(start_node: StartNode, version: int) -> None:
    node = start_node(node_config())
    once, at_least = Subscriber(node, "once", version, 2), Subscriber(node, "at-least", version, 1)
    with Publisher(node.port, "t", qos=2, rate_per_s=300.0) as publisher:
        for process in ("store", "clients", "clients", "store", "clients"):
            publisher.wait_acknowledged(MORE)
            node.wait_replaced(process, node.kill(process))
        publisher.wait_acknowledged(MORE)
        sent = publisher.finish()
        count = len(sent)

    wait_until(lambda: len(set(once.got)) == count, 20.0, lambda: f"all {count} at QoS 2, not {len(set(once.got))}")
    wait_until(lambda: len(set(at_least.got)) == count, 20.0, lambda: f"all {count} at QoS 1, not {len(set(at_least.got))}")

    assert Arrivals.of(once.got, sent).are_exact()
    assert Arrivals.of(at_least.got, sent).are_complete(), "in order, when they come first"
    for client in (once, at_least):
        client.stop()


def test_a_shared_subscription_loses_nothing_though_its_members_get_their_messages_in_different_ways(
    start_node: StartNode,
) -> None:
    """One live, the other through its queue; what is sent to a new store again was dealt before.

    A clean session ends with the process that has its connection, what it was sent at QoS 2 goes to nobody else (MQTT 5, 4.8.2).
    So where the store shares that process both members keep their sessions.
    """
    node = start_node(node_config())
    clean = node.placement == ISOLATED
    live, kept = (Subscriber(node, name, 4, 2, "$share/g/t", clean=clean and name == "live") for name in ("live", "kept"))
    with Publisher(node.port, "t", qos=2, rate_per_s=2000.0) as publisher:
        for _ in range(3):
            publisher.wait_acknowledged(5 * MORE)
            node.wait_replaced("store", node.kill("store"))
        publisher.wait_acknowledged(5 * MORE)
        sent = publisher.finish()
        count = len(sent)

    wait_until(lambda: len({*live.got, *kept.got}) == count, 20.0, lambda: f"all {count}, not {len({*live.got, *kept.got})}")

    assert Arrivals.of(live.got + kept.got, sent).duplicates == []
    assert min(len(live.got), len(kept.got)) > count // 4
    for client in (live, kept):
        client.stop()
