"""Mosquitto with its file, and a node with what ``bascule convert`` makes of it, side by side: each before a remote of its own.

What is published at either end comes to the other under the same topic, with the same QoS and RETAIN.
"""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path

import pytest

from supervisor.cli.main import main
from supervisor.config.loading import load
from tests.support.mosquitto import Mosquitto
from tests.support.mqtt_client import MqttClient, publish
from tests.support.node import Node
from tests.support.subscriber import Subscriber
from tests.support.waiting import PATIENCE_S, wait_still, wait_until

CONFIGS = Path(__file__).parents[1] / "supervisor" / "convert" / "configs"
BRIDGES = re.compile(
    r"(connection|topic|try_private|bridge_protocol_version|bridge_outgoing_retain|cleansession|remote_clientid)\b.*"
)
Came = dict[tuple[str, bytes, bool], list[int]]  # topic, payload and RETAIN: the QoS of each time


@pytest.mark.parametrize(
    "name",
    [
        "02-both-whole",
        pytest.param("05-fleet-with-prefixes", marks=pytest.mark.soak),
        pytest.param("06-one-topic-renamed", marks=pytest.mark.soak),
        "07-system-authorities",
        "15-prefix-inside-a-level",
        "17-overlapping-topics",
    ],
)
def test_each_message_goes_where_mosquitto_sent_it(tmp_path: Path, name: str) -> None:
    text = (CONFIGS / f"{name}.conf").read_text()
    lines = [line for line in text.splitlines() if BRIDGES.match(line)]
    with ExitStack() as ends:
        far = [ends.enter_context(Mosquitto(tmp_path / f"far-{place}")) for place in range(2)]
        remote = next(place for place, line in enumerate(lines) if line.startswith("connection")) + 1
        front = Mosquitto(tmp_path / "front", lines=[*lines[:remote], f"address 127.0.0.1:{far[0].port}", *lines[remote:]])
        node = as_converted(front, tmp_path, far[0].port, far[1].port)
        reads = [ends.enter_context(Subscriber(each.port, "#", version=5)) for each in far]
        ends.enter_context(front)
        ends.enter_context(node)
        subscribed_by(front, sum(line.split()[2:3] in (["in"], ["both"]) for line in lines if line.startswith("topic")), node)
        reads += [ends.enter_context(Subscriber(port, "#", version=5)) for port in (front.port, node.port)]

        for ports, direction in (((front.port, node.port), "out"), ((far[0].port, far[1].port), "in")):
            for port in ports:
                with MqttClient(port, "publisher") as client:
                    for topic in topics_of(lines, direction):
                        for qos, retain in ((0, False), (1, False), (2, False), (1, True)):
                            publish(client, topic, f"{direction} {qos}{retain}", qos=qos, retain=retain)
                    client.disconnect()

        wait_still(lambda: sum(each.count() for each in reads), period_s=0.7)
        for mosquitto, ours in (reads[:2], reads[2:]):
            assert best(came(ours)) == best(came(mosquitto))
            assert came(ours), "something has come at either end"
            more = [key for key, times in came(ours).items() if len(times) > len(came(mosquitto)[key])]
            assert more == [], "nothing comes more often"


def as_converted(front: Mosquitto, folder: Path, remote: int, other: int) -> Node:
    """A node, not started yet, with what the file of ``front`` becomes, but for its ports."""
    node = Node({}, folder / "node")
    site = folder / "site.conf"
    written = (front.folder / "mosquitto.conf").read_text().replace(f":{remote}", f":{other}")
    site.write_text(written.replace(f"listener {front.port}", f"listener {node.port}").replace("log_type all", "log_type notice"))
    assert main(["convert", str(site), "-o", str(node.config_path), "--force"]) == 0
    return node


def subscribed_by(front: Mosquitto, count: int, node: Node) -> None:
    """Both bridges are connected, and have the subscriptions of ``count`` lines at their remotes."""
    wait_until(
        lambda: front.log.count("Received SUBACK") >= count and "Received CONNACK" in front.log, PATIENCE_S, lambda: front.log
    )
    bridge = load(node.config_path).bridges[0]
    node.wait_lane(bridge.name, state="connected")
    if bridge.remote_subscriptions:
        wait_until(lambda: is_subscribed(node, bridge.name), PATIENCE_S, lambda: str(node.lane(bridge.name)))


def is_subscribed(node: Node, bridge: str) -> bool:
    """Whether the remote has granted every filter."""
    figures = node.lane(bridge)["remote_subscriptions"]
    return bool(figures and figures["granted"] == figures["filters"])


def topics_of(lines: list[str], direction: str) -> list[str]:
    """Topics that the ``topic`` lines take at the site (out) or at the remote (in), and some that none may take."""
    found = ["elsewhere/x"]
    for line in lines:
        if line.startswith("topic "):
            _, pattern, *more = line.replace('""', "-").split()
            way, _, local, remote = (*more, *("out", "0", "-", "-")[len(more) :])[:4]
            prefix, pattern = (local if direction == "out" else remote).strip("-"), pattern if pattern != "-" else ""
            if way in (direction, "both"):
                taken = prefix + pattern
                found += [
                    taken.replace("+", "p").replace("#", "q/r"),
                    taken.removesuffix("/#").replace("+", "p"),
                    f"{taken[:2]}other",
                ]
    return [topic for topic in dict.fromkeys(found) if topic and "#" not in topic and "+" not in topic]


def came(reader: Subscriber) -> Came:
    """What ``reader`` was sent, but for the other end's own state."""
    found: Came = {}
    for one in reader.packets:
        found.setdefault((one.topic, one.payload, one.retain), []).append(one.qos)
    return found


def best(found: Came) -> dict[tuple[str, bytes, bool], int]:
    """The highest QoS of each: Mosquitto sends a message once for each line that takes it."""
    return {key: max(times) for key, times in found.items()}
