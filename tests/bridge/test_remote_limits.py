"""Limits of a remote: seen by its closing the connection, or said in its CONNACK; with real brokers where one does so."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from supervisor.cli.main import main
from supervisor.demo.log_servers import found_program
from supervisor.doctor.running_node import examine_status
from tests.bridge.test_remote_subscriptions import figures, taking
from tests.conftest import StartNode
from tests.support.fake_remote import FakeRemote
from tests.support.mosquitto import Mosquitto
from tests.support.mqtt_client import MqttClient
from tests.support.mqtt_packets import PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL, Packet
from tests.support.node import Node, bridge_config, node_config
from tests.support.ports import accepts, free_port
from tests.support.scripted_remote import ScriptedRemote
from tests.support.subscriber import Subscriber
from tests.support.waiting import PATIENCE_S, wait_until
from wire.figure import of_map
from wire.status.node_status import Status

WITHIN_S = 15.0
QUICK = {"initial": "5ms", "max": "20ms"}
WILDCARDS, SHARED, IDENTIFIERS = 0x28, 0x2A, 0x29
Message = tuple[str, int, bool]
EVEN: Message = ("u/even", 1, False)


def publish(node: Node, *messages: Message, size: int = 0) -> None:
    """Publish (topic, QoS, RETAIN), each with its number as payload, and return when the node has acknowledged all."""
    with MqttClient(node.port, "publisher") as client:
        for number, (topic, qos, retain) in enumerate(messages):
            packet_id = client.publish(topic, str(number).ljust(size), qos=qos, retain=retain)
            client.answer(PUBACK if qos == 1 else PUBREC, packet_id)
            if qos == 2:
                client.acknowledge(PUBREL, packet_id)
                client.answer(PUBCOMP, packet_id)


def events(node: Node, capsys: pytest.CaptureFixture[str], kind: str) -> list[dict[str, Any]]:
    """The events of ``kind`` in ``bascule events``."""
    capsys.readouterr()
    assert main(["events", str(node.config_path), "--kind", kind, "--json"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def doctor(node: Node) -> str:
    """The findings of ``bascule doctor`` on the node's own words."""
    return "; ".join(finding.found for finding in examine_status(of_map(Status, node.status())))


@pytest.mark.parametrize(
    ("line", "odd", "what", "key"),
    [
        ("max_qos 1", ("u/odd", 2, False), "QoS above 1", "local_subscriptions[].max_qos: 1"),
        ("retain_available false", ("u/odd", 1, True), "RETAIN", "local_subscriptions[].preserve_retain: false"),
    ],
)
def test_thirty_messages_of_which_mosquitto_closes_on_ten_all_arrive(
    tmp_path: Path,
    start_node: StartNode,
    capsys: pytest.CaptureFixture[str],
    line: str,
    odd: Message,
    what: str,
    key: str,
) -> None:
    """exchange.lowered-before-given-up, with default delays. An operator has it tried again."""
    with Mosquitto(tmp_path / "remote", lines=[line]) as remote, Subscriber(remote.port, "u/#") as subscriber:
        node = start_node(node_config(bridge_config("cloud", remote.port)))
        publish(node, *[odd if number % 3 == 2 else EVEN for number in range(30)])
        row = node.wait_lane("cloud", depth=0, delivered=30, dead_lettered=0, ledger_closes=True, deadline_s=WITHIN_S)
        assert subscriber.wait_for("u/odd", [str(number) for number in range(2, 30, 3)]).are_complete()
        assert row["link"]["lacks"] == [{"what": what, "key": key, "learnt": True}]
        assert row["exchange"]["qos_lowered"] + row["exchange"]["retain_stripped"] == 10
        [event] = wait_until(lambda: events(node, capsys, "remote.limited"), PATIENCE_S, "an event")
        assert (event["reason"], event["details"]["key"]) == (what, key)
        assert f"the remote was seen to take no {what}" in doctor(node)
        assert main(["status", str(node.config_path)]) == 0
        assert f"remote was seen to take no {what}" in capsys.readouterr().out

        for verb in ("pause", "resume"):
            assert main(["bridge", verb, str(node.config_path), "cloud"]) == 0
        node.wait_lane_until(lambda row: row["state"] == "connected" and row["link"]["lacks"] == [], "it is to be tried again")


def test_what_is_too_large_for_mosquitto_is_learnt_as_a_size(tmp_path: Path, start_node: StartNode) -> None:
    """exchange.class-covers-convicted-only: a few connections for the first, and none for those behind them."""
    with Mosquitto(tmp_path / "remote", lines=["max_packet_size 1000"]) as remote, Subscriber(remote.port, "u/#") as subscriber:
        node = start_node(node_config(bridge_config("cloud", remote.port, backoff=QUICK)))
        for _ in range(3):
            publish(node, ("u/large", 1, False), size=1200)
            publish(node, *[EVEN] * 4)
        row = node.wait_lane("cloud", depth=0, dead_lettered=3, ledger_closes=True, deadline_s=60.0)
        [lacking] = row["link"]["lacks"]
        assert lacking["what"].startswith("messages with a topic that begins with u/large, ")
        lost = row["link"]["connections_lost"]
        publish(node, *[("u/large", 1, False)] * 5, size=1300)
        publish(node, ("u/large", 1, False), size=900)
        row = node.wait_lane("cloud", depth=0, dead_lettered=8, ledger_closes=True)
        assert row["link"]["connections_lost"] == lost
        assert row["dead_letters"]["reasons"] == {"connection_closed": 8}
        assert subscriber.wait_for("u/large", ["0".ljust(900)]).are_complete()


@contextmanager
def nats_with_mqtt(folder: Path) -> Iterator[int]:
    """A NATS server that speaks MQTT 3.1.1; its port."""
    program = found_program("nats-server")
    if program is None:
        pytest.skip("nats-server is not installed beside this Python")
    port = free_port()
    folder.mkdir()
    (folder / "nats.conf").write_text(
        json.dumps(
            {
                "server_name": "remote",
                "listen": f"127.0.0.1:{free_port()}",
                "jetstream": {"store_dir": str(folder)},
                "mqtt": {"listen": f"127.0.0.1:{port}"},
            }
        )
    )
    with (folder / "nats.log").open("ab") as log:
        process = subprocess.Popen([program, "-c", str(folder / "nats.conf")], stdout=log, stderr=log)
    try:
        wait_until(lambda: accepts(port), PATIENCE_S, "NATS listens")
        yield port
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def test_a_space_in_a_topic_on_which_nats_closes_is_learnt(tmp_path: Path, start_node: StartNode) -> None:
    """exchange.class-covers-convicted-only, with another broker."""
    with nats_with_mqtt(tmp_path / "nats") as port:
        node = start_node(node_config(bridge_config("cloud", port, backoff=QUICK)))
        spaced = [(f"{number}/a b", 1, False) for number in range(10)]
        for message in spaced[:3]:
            publish(node, message, *[EVEN] * 4)
        node.wait_lane("cloud", depth=0, dead_lettered=3, delivered=12, ledger_closes=True, deadline_s=60.0)
        publish(node, *spaced[3:], *[EVEN] * 8)
        row = node.wait_lane("cloud", depth=0, dead_lettered=10, delivered=20, ledger_closes=True)
        assert [one["what"] for one in row["link"]["lacks"]] == ["messages with white space in the topic"]


@pytest.mark.parametrize("protocol", ["mqtt311", "mqtt5"])
def test_links_that_flap_teach_nothing(start_node: StartNode, protocol: str) -> None:
    """A remote that dies on each of some connections, whatever is sent, and one that is cut off: all arrive as they are."""
    with FakeRemote() as remote:
        left = iter(range(12))
        remote.closes_on = lambda _packet: next(left, None) is not None
        node = start_node(node_config(bridge_config("cloud", remote.port, backoff=QUICK, remote={"protocol": protocol})))
        publish(node, *[("u/odd", 2, True)] * 20)
        row = node.wait_lane("cloud", depth=0, delivered=20, ledger_closes=True)
        assert row["link"]["lacks"] == []
        tried = (row["exchange"]["qos_lowered"], row["exchange"]["retain_stripped"])
        assert max(tried) <= 4, "tried with each of those in doubt, and refuted"
        for _ in range(6):
            publish(node, ("u/odd", 2, True))
            remote.drop()
        row = node.wait_lane("cloud", depth=0, delivered=26, ledger_closes=True)
        assert row["link"]["lacks"] == []


# --- what a CONNACK says ---


def closing_on_qos_2(packet: Packet) -> bool:
    """As a remote of MQTT 5 that says nothing of its Maximum QoS."""
    return packet.qos == 2


def test_an_mqtt_5_remote_that_closes_and_says_nothing_is_the_same(start_node: StartNode) -> None:
    """exchange.lowered-before-given-up"""
    with FakeRemote() as remote:
        remote.closes_on = closing_on_qos_2
        node = start_node(node_config(bridge_config("cloud", remote.port, backoff=QUICK, remote={"protocol": "mqtt5"})))
        publish(node, *[("u/odd", 2, False)] * 20)
        row = node.wait_lane("cloud", depth=0, delivered=20, ledger_closes=True)
        assert [one["what"] for one in row["link"]["lacks"]] == ["QoS above 1"]
        assert {packet.payload.decode() for packet in remote.received(PUBLISH) if packet.qos == 1} == set(map(str, range(20)))


@pytest.mark.parametrize("says", ["connack", "disconnect"])
def test_a_remote_without_wildcard_subscriptions_grants_the_others(start_node: StartNode, says: str) -> None:
    """exchange.filter-asked-once: it said so, or ended the first connection with that reason."""
    with ScriptedRemote(5) as remote:
        rules = ({"filters": ["d/#"]}, {"filters": ["e/1"]}, {"filters": ["d/1"]})
        node = start_node(node_config(taking(remote.port, *rules, protocol="mqtt5", backoff=QUICK)))
        if says == "disconnect":
            end = remote.accept()
            end.read()
            end.send(b"\xe0\x01\xa2")
            end = remote.accept()
        else:
            end = remote.accept(lacks=(WILDCARDS, SHARED, IDENTIFIERS))
        asked = end.answer_subscribe(1, 1)
        assert [topic_filter for topic_filter, _ in asked.filters] == ["e/1", "d/1"]
        wait_until(lambda: figures(node)["granted"] == 2, PATIENCE_S, "the others are granted")
        assert figures(node)["refused"] == {"d/#": "0xa2"}
        assert "the remote refuses the subscription d/# (0xa2)" in doctor(node)
        end.publish("d/1", "x", qos=1, packet_id=1)
        assert end.read().kind == PUBACK


@pytest.mark.parametrize(
    ("properties", "what"), [([(0x24, 0)], "QoS above 0"), ([(0x25, 0)], "RETAIN"), ([(0x24, 0), (0x25, 0)], "RETAIN")]
)
def test_what_a_connack_says_is_named_where_it_costs_durability(
    start_node: StartNode, capsys: pytest.CaptureFixture[str], properties: list[tuple[int, int]], what: str
) -> None:
    """Durable messages leave at QoS 0, or without RETAIN."""
    with FakeRemote(properties=list(properties)) as remote:
        node = start_node(node_config(bridge_config("cloud", remote.port, remote={"protocol": "mqtt5"})))
        node.wait_lane("cloud", state="connected")
        assert "takes no" not in doctor(node), "it costs nothing yet"
        publish(node, *[("u/odd", 1, True)] * 3)
        row = node.wait_lane("cloud", depth=0, ledger_closes=True)
        assert {"what": what, "learnt": False}.items() <= row["link"]["lacks"][-1].items()
        assert f"takes no {what}" in doctor(node)
        assert main(["status", str(node.config_path)]) == 0
        assert f"remote takes no {what}" in " ".join(capsys.readouterr().out.split())
