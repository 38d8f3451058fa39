"""Sessions of local clients: they wait, go on, are taken over and end; and so do they when any process of the node dies."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.conftest import StartNode
from tests.support.mqtt_client import (
    DISCONNECT,
    PUBACK,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    PUBREL,
    Closed,
    MqttClient,
    Will,
)
from tests.support.node import Node, node_config
from tests.support.waiting import wait_until

BOTH = pytest.mark.parametrize("version", [4, 5])


def lasting(node: Node, name: str, version: int = 4, *, expiry_s: int = 3600) -> MqttClient:
    """A client whose session outlives its connections."""
    return MqttClient(node.port, name, version=version, clean=False, session_expiry_s=expiry_s)


def publish(node: Node, topic: str, *payloads: str, qos: int = 1, retain: bool = False) -> None:
    """Publish from a connection of its own; on return all of it is committed."""
    with MqttClient(node.port, "publisher") as client:
        for payload in payloads:
            packet_id = client.publish(topic, payload, qos=qos, retain=retain)
            if qos == 1:
                client.expect(PUBACK, packet_id=packet_id)
            elif qos == 2:
                client.expect(PUBREC, packet_id=packet_id)
                client.acknowledge(PUBREL, packet_id)
                client.expect(PUBCOMP, packet_id=packet_id)
        client.ping()


def reconnect(client: MqttClient) -> bool:
    """Connect as soon as the node takes it; whether the session was there."""
    present: list[bool] = []

    def connected() -> bool:
        try:
            connack = client.connect()
        except (OSError, TimeoutError):
            return False
        assert connack.reason_code == 0
        present.append(connack.session_present)
        return True

    wait_until(connected, 20.0, "the node takes a client", period_s=0.05)
    return present[0]


@BOTH
@pytest.mark.parametrize("qos", [1, 2])
def test_what_came_while_a_client_was_away_waits_for_it(start_node: StartNode, version: int, qos: int) -> None:
    node = start_node(node_config())
    client = lasting(node, "c", version)
    assert not client.connect().session_present
    client.subscribe("t/#", qos=2)
    client.close()
    publish(node, "t/a", "1", "2", "3", qos=qos)
    publish(node, "t/a", "not kept", qos=0)

    assert client.connect().session_present
    first = client.expect(PUBLISH)
    second = client.expect(PUBLISH)
    assert [(one.payload, one.qos, one.dup) for one in (first, second)] == [(b"1", qos, False), (b"2", qos, False)]
    client.expect(PUBLISH)

    client.close()  # nothing was acknowledged
    assert client.connect().session_present
    again = [client.expect(PUBLISH) for _ in range(3)]
    assert [(one.payload, one.dup) for one in again] == [(b"1", True), (b"2", True), (b"3", True)]
    assert [one.packet_id for one in again[:2]] == [first.packet_id, second.packet_id]
    client.ping()


@BOTH
@pytest.mark.parametrize("actor", [None, "listener", "queue_store", "distributor", "supervisor"])
def test_an_exchange_goes_on_where_it_was(start_node: StartNode, version: int, actor: str | None) -> None:
    """Dropped behind PUBREC: PUBREL comes again, and no PUBLISH; dropped behind PUBLISH: that comes again, with DUP."""
    node = start_node(node_config())
    client = lasting(node, "c", version)
    client.connect()
    client.subscribe("t", qos=2)
    publish(node, "t", "released", "unanswered", qos=2)
    released, unanswered = client.expect(PUBLISH), client.expect(PUBLISH)
    client.acknowledge(PUBREC, released.packet_id)
    client.expect(PUBREL, packet_id=released.packet_id)

    if actor == "queue_store" or actor == "distributor":
        node.kill(actor)
        node.wait_ready(actor) if hasattr(node, "wait_ready") else None
        client.close()
    elif actor == "listener":
        node.kill(actor)
    elif actor == "supervisor":
        node.kill_supervisor()
        node.start()
    else:
        client.close()
    assert reconnect(client)

    client.expect(PUBREL, packet_id=released.packet_id)
    client.acknowledge(PUBCOMP, released.packet_id)
    message = client.expect(PUBLISH, packet_id=unanswered.packet_id)
    assert (message.payload, message.dup) == (b"unanswered", True)
    client.acknowledge(PUBREC, message.packet_id)
    client.expect(PUBREL, packet_id=message.packet_id)
    client.acknowledge(PUBCOMP, message.packet_id)
    publish(node, "t", "next", qos=1)
    assert client.expect(PUBLISH).payload == b"next"
