"""A remote that closes the connection on a message that it does not accept, which is all that MQTT 3.1.1 has to refuse one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from supervisor.cli.main import main
from tests.conftest import StartNode
from tests.support.fake_remote import FakeRemote
from tests.support.mosquitto import Mosquitto
from tests.support.mqtt_client import MqttClient
from tests.support.mqtt_packets import PUBLISH
from tests.support.node import Node, bridge_config, node_config
from tests.support.subscriber import Subscriber
from tests.support.waiting import wait_until

PACKET_MAX_BYTES = 1000
LARGE = "x" * PACKET_MAX_BYTES
QUICK = {"initial": "5ms", "max": "20ms"}


def bridged(start_node: StartNode, port: int, **keys: Any) -> Node:
    return start_node(node_config(bridge_config("cloud", port, backoff=QUICK, **keys)))


def publish(node: Node, qos: int, *payloads: str, topic: str = "t") -> None:
    """Publish ``payloads`` in one burst and return when the node has acknowledged all."""
    with MqttClient(node.port, "publisher") as client:
        client.publish_burst(topic, payloads, qos)


def kept_events(node: Node, capsys: pytest.CaptureFixture[str], kind: str) -> list[dict[str, Any]]:
    """The events of ``kind`` in ``bascule events``."""
    capsys.readouterr()
    assert main(["events", str(node.config_path), "--kind", kind, "--json"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_what_is_too_large_for_mosquitto_ends_as_a_dead_letter_and_the_lane_goes_on(
    tmp_path: Path, start_node: StartNode, capsys: pytest.CaptureFixture[str]
) -> None:
    """It closes the connection, and says nothing, at MQTT 3.1.1."""
    with (
        Mosquitto(tmp_path / "remote", lines=[f"max_packet_size {PACKET_MAX_BYTES}"]) as remote,
        Subscriber(remote.port, "t/#") as subscriber,
    ):
        node = bridged(start_node, remote.port)
        publish(node, 1, "1", "2", LARGE, "3", topic="t/1")
        publish(node, 2, "4", LARGE, "5", "6", "7", "8", "9", topic="t/2")
        row = node.wait_lane("cloud", depth=0, delivered=9, dead_lettered=2, ledger_closes=True, deadline_s=60.0)
        assert row["dead_letters"]["reasons"] == {"connection_closed": 2}
        assert row["exchange"]["closed_on"] == 2
        assert subscriber.wait_for("t/1", ["1", "2", "3"]).are_complete()
        assert subscriber.wait_for("t/2", ["4", "5", "6", "7", "8", "9"]).are_exact()

        given_up = node.events("message.given_up")
        assert [(event["lane"], event["topic"], event["seq"]) for event in given_up] == [(0, "t/1", 2), (0, "t/2", 5)]
        assert all(event["bytes"] > PACKET_MAX_BYTES for event in given_up)
        kept = wait_until(lambda: kept_events(node, capsys, "message.given_up")[1:], 20.0, "both events on record")
        assert kept[-1]["details"]["seq"] == 5
        assert kept_events(node, capsys, "message.suspected")[0]["details"]["topic"] == "t/1"


def test_what_is_known_to_be_too_large_costs_no_connection(tmp_path: Path, start_node: StartNode) -> None:
    """``packet_max_bytes`` tells of a remote what an MQTT 5 one says itself."""
    with (
        Mosquitto(tmp_path / "remote", lines=[f"max_packet_size {PACKET_MAX_BYTES}"]) as remote,
        Subscriber(remote.port, "t") as subscriber,
    ):
        node = bridged(start_node, remote.port, remote={"packet_max_bytes": f"{PACKET_MAX_BYTES}B"})
        publish(node, 1, "1", LARGE, "2", LARGE, "3")
        row = node.wait_lane("cloud", depth=0, delivered=3, dead_lettered=2, ledger_closes=True)
        assert row["dead_letters"]["reasons"] == {"packet_too_large": 2}
        assert subscriber.wait_for("t", ["1", "2", "3"]).are_exact()
        assert node.events("bridge.disconnected") == []


def test_where_policy_is_to_retry_the_message_holds_the_lane_and_status_names_it(
    start_node: StartNode, capsys: pytest.CaptureFixture[str]
) -> None:
    with FakeRemote() as remote:
        remote.closes_on = lambda packet: packet.topic == "forbidden"
        node = bridged(start_node, remote.port, on_refusal={"connection-closed": "retry"})
        publish(node, 1, "1", topic="allowed")
        publish(node, 1, "2", "3", topic="forbidden")
        publish(node, 1, "4", topic="allowed")
        row = node.wait_lane_until(
            lambda row: any(suspect["closed"] >= 12 for suspect in row["link"].get("suspects", ())), "a suspect", deadline_s=60.0
        )
        assert row["depth"] == 3
        [suspect] = row["link"]["suspects"]
        assert (suspect["seq"], suspect["topic"]) == (1, "forbidden")
        assert main(["status", str(node.config_path)]) == 0
        assert "remote closes on message 1 (forbidden" in capsys.readouterr().out
        remote.closes_on = lambda _packet: False
        node.wait_lane("cloud", depth=0, delivered=4, ledger_closes=True)
        assert [packet.payload.decode() for packet in remote.delivered] == ["1", "2", "3", "4"]
        assert node.lane("cloud")["link"]["note"] == ""
        remote.check()


def test_a_remote_that_closes_on_everything_has_nothing_given_up(start_node: StartNode) -> None:
    """It is sick, and well again later: all arrive once. Messages that were tried in place of another may be ahead of it."""
    with FakeRemote() as remote:
        sick = True
        remote.closes_on = lambda _packet: sick
        node = bridged(start_node, remote.port)
        numbers = [str(number) for number in range(8)]
        publish(node, 2, *numbers)
        wait_until(lambda: remote.connections > 40, 60.0, "many connections")
        assert node.lane("cloud")["depth"] == len(numbers)
        remote.refuse_connect = 3
        refused = wait_until(lambda: [event for event in node.events("bridge.retry") if "refused" in event["error"]][6:], 60.0, "7")
        assert refused[-1]["delay_s"] >= 0.015, "the backoff grows as ever"
        remote.refuse_connect = 0
        sick = False
        node.wait_lane("cloud", depth=0, delivered=len(numbers), dead_lettered=0, ledger_closes=True)
        assert sorted(packet.payload.decode() for packet in remote.delivered) == numbers
        assert len(remote.received(PUBLISH)) >= 40
        remote.check()
