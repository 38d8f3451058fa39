"""Commands of an operator on a real node: status, bridge pause, resume and restart. Others are in tests/supervisor/cli."""

from __future__ import annotations

import json
from itertools import chain

from tests.conftest import StartNode
from tests.support.mosquitto import Mosquitto, mosquitto_pub
from tests.support.node import Node, bridge_config, node_config
from tests.support.placements import TOGETHER
from tests.support.subscriber import Subscriber
from tests.support.waiting import PATIENCE_S, wait_until

COUNTS = {"accepted", "delivered", "expired", "dead_lettered", "redelivered", "depth", "bytes", "in_flight"}
ROW_KEYS = COUNTS | {"name", "lane", "state", "oldest_age_s", "dropped", "ledger_closes"}


def test_status_names_every_process_every_actor_and_every_lane(remote: Mosquitto, start_node: StartNode) -> None:
    node = start_node(node_config(bridge_config("cloud", remote.port, lanes=2)))
    mosquitto_pub(node.port, "t", ["1", "2", "3"], qos=1)
    status = json.loads(node.cli("status", str(node.config_path), "--json").stdout)
    assert status["node"] == "edge"
    assert status["ready"] is True
    names = {actor["name"] for actor in status["actors"]}
    lanes = {f"{kind}:cloud:{lane}" for kind in ("forwarder", "connection") for lane in (0, 1)}
    assert {"listener", "distributor", "queue_store"} | lanes <= names
    for actor in status["actors"]:
        assert {"name", "pid", "state", "restarts", "heartbeat_age_s"} <= actor.keys()
    processes = {row["name"]: row["actors"] for row in status["processes"]}
    children = {
        "store": ["queue_store"],
        "bridge:cloud:0": ["forwarder:cloud:0", "connection:cloud:0"],
        "bridge:cloud:1": ["forwarder:cloud:1", "connection:cloud:1"],
        "clients": ["distributor", "listener"],
    }
    if node.placement == TOGETHER:
        assert sorted(processes.pop("site")) == sorted(chain.from_iterable(children.values()))
        processes.pop("template", None)  # while it is needed
        assert processes == {"supervisor": []}
    else:
        assert processes == {"supervisor": [], "template": [], **children}
    for row in status["processes"]:
        assert row["pss_bytes"] > 1 << 20, row
        assert row["cpu_s"] >= 0, row  # a process that does nothing has not had a tick
    for row in status["bridges"]:
        assert row.keys() >= ROW_KEYS
    human = node.cli("status", str(node.config_path))
    assert human.returncode == 0
    assert "cloud" in human.stdout


def test_a_paused_bridge_queues_whatever_ends_and_a_resumed_one_delivers(remote: Mosquitto, start_node: StartNode) -> None:
    numbers = [str(number) for number in range(100)]
    node = start_node(node_config(bridge_config("cloud", remote.port)))
    with Subscriber(remote.port, "#") as subscriber:
        node.wait_lane("cloud", state="connected")
        assert node.cli("bridge", "pause", str(node.config_path), "cloud").returncode == 0
        since_ms = node.wait_lane("cloud", state="paused")["paused_since_ms"]
        mosquitto_pub(node.port, "t", numbers, qos=1)
        assert node.wait_lane("cloud", depth=len(numbers))["delivered"] == 0
        assert subscriber.count() == 0
        node.restart()
        paused = node.wait_lane("cloud", state="paused", depth=len(numbers))
        said = node.cli("status", str(node.config_path)).stdout
        assert "paused by an operator: cloud since" in said
        assert f"-> bascule bridge resume {node.config_path} cloud" in said
        assert (paused["paused_since_ms"], remote.log.count("as bridge-cloud")) == (since_ms, 1), "it has not connected again"
        assert node.cli("bridge", "resume", str(node.config_path), "cloud").returncode == 0
        assert subscriber.wait_for("t", numbers).are_exact()
        row = node.wait_lane("cloud", state="connected", depth=0)
        assert row["paused_since_ms"] is None
        told = [("bridge.paused", "operator"), ("bridge.paused", "supervisor"), ("bridge.resumed", "operator")]
        wait_until(
            lambda: bridge_events(node) == told, 10.0, lambda: f"{told}, not {bridge_events(node)}"
        )  # on record a moment later


def bridge_events(node: Node) -> list[tuple[str, str]]:
    """Kind and actor of all that is on record of bridges."""
    lines = node.cli("events", str(node.config_path), "--kind", "bridge", "--json").stdout.splitlines()
    return [(event["kind"], event["actor"]) for event in map(json.loads, lines)]


def test_bridge_restart_gives_the_lane_a_new_life_and_loses_nothing(remote: Mosquitto, start_node: StartNode) -> None:
    numbers = [str(number) for number in range(200)]
    node = start_node(node_config(bridge_config("cloud", remote.port)))
    with Subscriber(remote.port, "#") as subscriber:
        mosquitto_pub(node.port, "t", numbers[:100], qos=2)
        assert node.cli("bridge", "restart", str(node.config_path), "cloud").returncode == 0
        mosquitto_pub(node.port, "t", numbers[100:], qos=2)
        restarted = wait_until(lambda: node.events("child.restarted"), PATIENCE_S, "a new life")
        assert [event["child"] for event in restarted] == ["bridge:cloud:0"]
        assert subscriber.wait_for("t", numbers).are_exact()
