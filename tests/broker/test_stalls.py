"""A client that does not acknowledge: who keeps its own messages waiting is closed, comes again and has them all, once each."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conftest import StartNode
from tests.support.mqtt_client import Closed, MqttClient, publish, publish_once, take
from tests.support.mqtt_packets import DISCONNECT, PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL, Packet
from tests.support.node import Config, Node, node_config
from tests.support.waiting import PATIENCE_S, wait_until

QUOTA_EXCEEDED = 0x97
IDENTIFIERS = 65_000


def stalling(**sessions: Any) -> Config:
    """A node without bridges that waits for acknowledgements for longer than the test that gives them may stand still."""
    return node_config(mode="in-memory", clients={"stall_timeout": "2s"}, sessions=sessions)


def keeping(node: Node, client_id: str, version: int) -> MqttClient:
    """A client whose session lasts."""
    return MqttClient(node.port, client_id, version=version, clean=False, session_expiry_s=1000 if version == 5 else 0)


def is_closed(client: MqttClient) -> None:
    """Wait until the node closes the connection, which must say why where it can."""
    if client.version == 5:
        assert client.expect(DISCONNECT).reason_code == QUOTA_EXCEEDED
    with pytest.raises((Closed, ConnectionResetError)):
        client.read()


def stalled(node: Node) -> int:
    """How many were closed for it."""
    count: int = node.status()["listener"]["limited"].get("stall_timeout", 0)
    return count


def shown(packets: list[Packet]) -> list[tuple[bytes, bool]]:
    return [(packet.payload, packet.dup) for packet in packets]


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("withheld", [PUBACK, PUBREC, PUBCOMP])
def test_one_unacknowledged_message_is_in_the_way_for_the_stall_timeout_only(
    start_node: StartNode, version: int, withheld: int
) -> None:
    qos = 1 if withheld == PUBACK else 2
    node = start_node(stalling(in_flight_max=1))
    with keeping(node, "s", version) as subscriber:
        subscriber.subscribe("t", qos=qos)
        publish_once(node.port, "t", "0", "1", "2", qos=qos)
        first = subscriber.expect(PUBLISH)
        assert (first.payload, first.dup) == (b"0", False)
        if withheld == PUBCOMP:
            subscriber.acknowledge(PUBREC, first.packet_id)
            subscriber.expect(PUBREL, packet_id=first.packet_id)
        is_closed(subscriber)
        assert stalled(node) == 1
        [event] = node.events("client.stalled")
        assert event["client_id"] == "s"

        assert subscriber.connect().session_present
        if withheld == PUBCOMP:
            subscriber.expect(PUBREL, packet_id=first.packet_id)
            subscriber.acknowledge(PUBCOMP, first.packet_id)
            assert shown(take(subscriber, 2)) == [(b"1", False), (b"2", False)]
        else:
            assert shown(take(subscriber, 3)) == [(b"0", True), (b"1", False), (b"2", False)]
        subscriber.ping()
    assert stalled(node) == 1


def test_who_never_acknowledges_is_closed_again_and_again_at_its_own_cost(start_node: StartNode) -> None:
    """Others are served, and where nothing waits behind what is not acknowledged, the client stays."""
    node = start_node(stalling(in_flight_max=2))
    with keeping(node, "never", 5) as never, keeping(node, "patient", 4) as patient, keeping(node, "good", 4) as good:
        for client in (never, patient, good):
            client.subscribe("all", qos=1)
        never.subscribe("more", qos=1)
        with MqttClient(node.port, "p") as publisher:
            for round_number in range(3):
                publish(publisher, "all" if round_number == 0 else "more", "x", "y", qos=1)
                dup = round_number > 0
                assert [never.expect(PUBLISH).dup for _ in range(2)] == [dup, dup]
                if round_number == 0:
                    publish(publisher, "more", "z", qos=1)
                is_closed(never)
                assert never.connect().session_present
        assert shown(take(good, 2)) == [(b"x", False), (b"y", False)]
        assert shown(take(never, 7)) == [(b"x", True), (b"y", True), *((payload, False) for payload in (b"z", *[b"x", b"y"] * 2))]
        assert [patient.expect(PUBLISH).payload for _ in range(2)] == [b"x", b"y"]
        patient.ping()
        assert stalled(node) == 3


@pytest.mark.parametrize("version", [4, 5])
def test_a_session_that_ends_with_its_connection_ends_so_too(start_node: StartNode, version: int) -> None:
    node = start_node(stalling(in_flight_max=1))
    with MqttClient(node.port, "s", version=version) as subscriber:
        subscriber.subscribe("t", qos=1)
        publish_once(node.port, "t", "0", "1")
        assert subscriber.expect(PUBLISH).payload == b"0"
        is_closed(subscriber)
        assert not subscriber.connect().session_present
        subscriber.subscribe("t", qos=1)
        publish_once(node.port, "t", "2")
        assert shown(take(subscriber, 1)) == [(b"2", False)]


def test_packet_identifiers_that_have_come_round_wait_for_the_stall_timeout_only(start_node: StartNode) -> None:
    """All but the first are acknowledged; the message that would have its identifier comes on the next connection."""
    node = start_node(stalling(queue_max_messages=100_000, in_flight_max=2_000))  # so that nothing waits for the window
    with keeping(node, "s", 5) as subscriber, MqttClient(node.port, "p") as publisher:
        subscriber.subscribe("t", qos=1)
        sent = 0
        while sent < IDENTIFIERS + 500:
            publisher.publish_burst("t", [str(sent + number) for number in range(500)], 1)
            sent += 500
            for _ in range(min(500, IDENTIFIERS - sent + 500)):
                packet = subscriber.expect(PUBLISH)
                if packet.payload != b"0":
                    subscriber.acknowledge(PUBACK, packet.packet_id)
                last = packet.payload
        assert last == str(IDENTIFIERS - 1).encode()
        is_closed(subscriber)
        assert subscriber.connect().session_present
        again = take(subscriber, 501)
        assert shown(again) == [(b"0", True), *((str(IDENTIFIERS + number).encode(), False) for number in range(500))]
        wait_until(lambda: node.status()["listener"]["in_flight"] == 0, PATIENCE_S, "all is acknowledged")
    assert stalled(node) == 1
