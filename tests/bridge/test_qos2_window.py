"""The window of QoS 2 at real brokers of MQTT 3.1.1: as many as each takes, and nothing is lost where it takes few."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.conftest import StartNode
from tests.support.foreign_brokers import Aedes, ForeignBroker, NatsMqtt
from tests.support.mosquitto import Mosquitto, mosquitto_pub
from tests.support.node import Node, bridge_config, node_config
from tests.support.subscriber import Subscriber
from wire.exchange.qos2_window import UNKNOWN, UNSTATED_MAX

COUNT = 1_000
NUMBERS = [str(number) for number in range(COUNT)]


def cross(node: Node, subscriber: Subscriber) -> dict[str, object]:
    """Have a backlog of QoS 2 cross, each message once; the link then."""
    node.wait_lane("cloud", state="connected")
    assert node.cli("bridge", "pause", str(node.config_path), "cloud").returncode == 0
    mosquitto_pub(node.port, "q/t", NUMBERS, qos=2)
    assert node.cli("bridge", "resume", str(node.config_path), "cloud").returncode == 0
    arrivals = subscriber.wait_for("q/t", NUMBERS)
    row = node.wait_lane("cloud", delivered=COUNT, depth=0, ledger_closes=True)
    assert not arrivals.missing
    assert not arrivals.duplicates
    assert subscriber.count() == COUNT
    link: dict[str, object] = row["link"]
    assert link["connections_lost"] == 1, "by the pause"
    return link


@pytest.mark.parametrize(
    ("limit", "window", "reason"), [(None, UNKNOWN, "stated"), (7, 7, "stated"), (50, 50, "stated"), (0, UNSTATED_MAX, "stated")]
)
def test_mosquitto_states_its_limit_and_gets_no_more(
    tmp_path: Path, start_node: StartNode, limit: int | None, window: int, reason: str
) -> None:
    """exchange.qos2-maximum-kept: beyond its limit Mosquitto 2.0 acknowledges QoS 2 of an MQTT 3.1.1 client, and throws it away."""
    with Mosquitto(tmp_path / "remote", max_inflight_messages=limit) as remote, Subscriber(remote.port, "q/#") as subscriber:
        node = start_node(node_config(bridge_config("cloud", remote.port, remote={"qos2_maximum": "auto"})))
        link = cross(node, subscriber)
        assert (link["qos2_window"], link["qos2_window_by"]) == (window, reason)
        stated = {None: 20, 0: 65_535}.get(limit, limit)
        assert [told["receive_maximum"] for told in node.events("remote.limits_told")] == [stated]


@pytest.mark.parametrize("kind", [NatsMqtt, Aedes])
def test_a_remote_that_speaks_no_mqtt_5_gets_twenty(tmp_path: Path, start_node: StartNode, kind: type[ForeignBroker]) -> None:
    """exchange.qos2-maximum-kept: it is not asked again at the next connection."""
    with ExitStack() as stack:
        remote = stack.enter_context(kind(tmp_path / "remote"))
        subscriber = stack.enter_context(Subscriber(remote.port, "q/#"))
        node = start_node(node_config(bridge_config("cloud", remote.port, remote={"qos2_maximum": "auto"})))
        link = cross(node, subscriber)
        assert (link["qos2_window"], link["qos2_window_by"]) == (UNKNOWN, "unknown")
        assert len(node.events("remote.limits_unknown")) == 1
