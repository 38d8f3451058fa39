"""A member of a shared subscription whose session ends: what it leaves goes to another member and is counted, on a real node."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from supervisor.cli.main import main
from tests.broker.test_sessions import reconnect
from tests.conftest import StartNode
from tests.support.mqtt_client import MqttClient, publish_once
from tests.support.mqtt_packets import PUBLISH, RECEIVE_MAXIMUM
from tests.support.node import Node, node_config
from tests.support.waiting import PATIENCE_S, wait_until

WINDOW = 10  # that a member takes without an acknowledgement


def member(node: Node, name: str, *, expiry_s: int = 3600, window: int = 65_535) -> MqttClient:
    client = MqttClient(
        node.port, name, version=5, clean=False, session_expiry_s=expiry_s, properties=[(RECEIVE_MAXIMUM, window)], holds=True
    )
    client.connect()
    assert client.subscribe("$share/g/t", qos=2).reason_codes == (2,)
    return client


def sessions(node: Node) -> dict[str, Any]:
    figures: dict[str, Any] = node.status()["store"]["sessions"]
    return figures


def end(node: Node, how: str, client: MqttClient) -> None:
    client.vanish()
    if how == "clean start":
        with MqttClient(node.port, "one", version=5) as again:
            again.disconnect()
    elif how == "operator":
        assert main(["session", "end", str(node.config_path), "one", "--yes"]) == 0
    wait_until(lambda: "one" not in listed(node), PATIENCE_S, "the session has ended")


def listed(node: Node) -> Counter[str]:
    return Counter({"one": sessions(node)["kept"] - 1}) if sessions(node)["kept"] > 1 else Counter()


@pytest.mark.parametrize("how", ["expired", "clean start", "operator"])
def test_what_a_member_has_not_acknowledged_goes_to_another_when_its_session_ends(start_node: StartNode, how: str) -> None:
    """store.share-goes-to-another-member: all of QoS 1, and of QoS 2 what was not sent; store.ended-queue-counted"""
    node = start_node(node_config())
    one = member(node, "one", expiry_s=1 if how == "expired" else 3600, window=WINDOW)
    sent = [f"{qos} {number}" for number in range(20) for qos in (1, 2)]
    for payload in sent:
        publish_once(node.port, "t", payload, qos=int(payload[0]))
    had = [one.expect(PUBLISH).payload.decode() for _ in range(WINDOW)]
    assert had == sent[:WINDOW]
    two = member(node, "two")

    end(node, how, one)

    maybe_received = [payload for payload in had if payload[0] == "2"]
    wanted = [payload for payload in sent if payload not in maybe_received]
    got = [two.receive().payload.decode() for _ in wanted]
    assert got == wanted
    wait_until(lambda: sessions(node)["depth"] == 0, PATIENCE_S, "all are acknowledged")
    figures = sessions(node)
    assert (figures["dropped_by_reason"], figures["dropped"]) == ({"maybe_received": len(maybe_received)}, len(maybe_received))
    assert figures["dealt_again"] == len(wanted)
    two.close()


def test_it_is_dropped_and_counted_if_nobody_is_left(start_node: StartNode) -> None:
    """store.ended-queue-counted: a restart forgets none of it."""
    node = start_node(node_config())
    one = member(node, "one")
    one.vanish()
    publish_once(node.port, "t", *map(str, range(5)))
    with MqttClient(node.port, "two", version=5) as live:
        assert live.subscribe("$share/h/t", qos=1).reason_codes == (1,)
        with MqttClient(node.port, "one", version=5):
            wait_until(lambda: sessions(node)["dropped"] == 5, PATIENCE_S, "all are counted")
    node.restart()
    assert sessions(node)["dropped_by_reason"] == {"session_ended": 5}


def test_nothing_is_lost_and_nothing_of_qos_2_comes_twice_though_the_store_is_killed_on_the_way(start_node: StartNode) -> None:
    """store.share-goes-to-another-member"""
    node = start_node(node_config())
    one = member(node, "one", window=WINDOW)
    sent = [str(number) for number in range(2000)]
    publish_burst(node, sent)
    assert len([one.expect(PUBLISH) for _ in range(WINDOW)]) == WINDOW
    one.vanish()
    two = member(node, "two")
    two.vanish()
    with MqttClient(node.port, "one", version=5):
        for _ in range(3):
            node.wait_replaced("store", node.kill("store"))

    wait_until(lambda: sum(gone(node)) == len(sent), PATIENCE_S, lambda: f"all, not {gone(node)}")
    dealt_again, dropped = gone(node)
    assert dropped >= WINDOW
    reconnect(two)
    got = [two.receive().payload.decode() for _ in range(dealt_again)]
    assert len(set(got)) == dealt_again
    assert got == sorted(got, key=int), "in order"
    two.close()


def publish_burst(node: Node, payloads: list[str]) -> None:
    for start in range(0, len(payloads), 500):
        publish_once(node.port, "t", *payloads[start : start + 500], qos=2)


def gone(node: Node) -> tuple[int, int]:
    figures = node.status()["store"].get("sessions") or {"dealt_again": 0, "dropped": 0}  # nothing is told by a new store at first
    return figures["dealt_again"], figures["dropped"]


def test_what_a_client_leaves_whose_session_ends_with_its_connection_is_counted(start_node: StartNode) -> None:
    node = start_node(node_config())
    client = MqttClient(node.port, "live", version=5)
    client.connect()
    assert client.subscribe("$share/g/t", qos=2).reason_codes == (2,)
    publish_once(node.port, "t", "0", "1", "2")
    assert [client.expect(PUBLISH).payload for _ in range(3)] == [b"0", b"1", b"2"]
    client.vanish()
    wait_until(lambda: node.status()["listener"]["dropped"] == {"session_ended": 3}, PATIENCE_S, "what is gone is counted")
