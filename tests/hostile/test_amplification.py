"""Packets that are to cost the disk many times their bytes: what is written is counted, and in proportion to what came."""

from __future__ import annotations

import pytest

from tests.conftest import StartNode
from tests.support.mqtt_client import MqttClient
from tests.support.mqtt_packets import PUBCOMP, PUBREC, PUBREL, Will
from tests.support.node import Node, node_config
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.process

FOR_EVER = 0xFFFFFFFF
FACTOR = 4  # bytes written for a byte received, at most
COMMIT_BYTES = 400  # and so many for a packet
LARGE = 64_000
WIDE = {"topic_max_bytes": "65535B"}


def written(node: Node) -> int:
    """Bytes of keys and values that the store has handed to RocksDB in this life."""
    count: int = node.status()["store"]["written_bytes"]
    return count


def received(node: Node) -> int:
    count: int = node.status()["listener"]["traffic"]["bytes_received"]
    return count


class Meter:
    """The bytes that came and that were written since it was made, or looked at last."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._seen = received(node), written(node)

    def check(self, packets: int, what: str) -> None:
        came, wrote = (now - then for now, then in zip((received(self._node), written(self._node)), self._seen, strict=True))
        assert wrote <= FACTOR * came + COMMIT_BYTES * packets, f"{what}: {came} bytes came, {wrote} were written"
        self._seen = received(self._node), written(self._node)


def lasting(node: Node, name: str = "c", will: Will | None = None) -> MqttClient:
    client = MqttClient(node.port, name, version=5, clean=False, session_expiry_s=FOR_EVER, will=will)
    client.connect()
    return client


@pytest.mark.parametrize("qos", [0, 1])
def test_a_session_with_many_long_filters_costs_what_its_packets_bring(start_node: StartNode, qos: int) -> None:
    """store.session-written-as-it-changes: with all filters in one row each packet would cost all of them."""
    node = start_node(node_config(clients=WIDE))
    meter = Meter(node)
    client = lasting(node, will=Will(topic="last", payload=b"w" * 10_000, qos=0, retain=False))
    for number in range(40):
        client.subscribe(f"{number}/" + "x" * LARGE, qos=qos)
    meter.check(41, "long filters")

    for _ in range(96):
        client.subscribe("z", qos=qos)
    meter.check(96, "the same SUBSCRIBE")

    for number in range(20):
        client.publish("t", b"m", qos=2, packet_id=number + 1)
        client.expect(PUBREC)
        client.acknowledge(PUBREL, number + 1)
        client.expect(PUBCOMP)
    meter.check(40, "QoS 2")

    for _ in range(5):
        client.close()
        client = lasting(node)
    meter.check(10, "reconnects")

    for number in range(20):
        client.unsubscribe(f"{number}/" + "x" * LARGE)
    meter.check(20, "UNSUBSCRIBE")
    before = written(node)
    node.wait_replaced("clients", node.kill("clients"))
    wait_until(lambda: node.status()["store"]["sessions"]["connected"] == 0, PATIENCE_S, "its client to be known as gone")
    assert written(node) - before <= 2 * COMMIT_BYTES, "clients that are gone with their process"

    meter = Meter(node)
    for _ in range(20):
        MqttClient(node.port, "c" * 1000, version=5, clean=True, session_expiry_s=FOR_EVER).connect()
    wait_until(lambda: node.status()["store"]["sessions"]["connected"] == 0, PATIENCE_S, "all to be gone")
    meter.check(40, "sessions that start again")
    MqttClient(node.port, "c", version=5, clean=True).connect()
    meter.check(40, "the end of the session")
