"""Bridges that connect when something is to be sent, or within certain hours: at a real Mosquitto, by a real clock."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

from supervisor.doctor.findings import OK
from tests.bridge.test_lane_changes import actors
from tests.bridge.test_remote_subscriptions import publish
from tests.conftest import StartNode
from tests.support.mosquitto import Mosquitto
from tests.support.node import Config, Node, bridge_config, node_config
from tests.support.subscriber import Subscriber
from tests.support.waiting import wait_until

OUT = [{"filters": ["out/#"]}]


def is_no_trouble(node: Node, bridge: str) -> None:
    """A link that is closed by choice is told as that, and by nobody as a fault."""
    row = node.lane(bridge)
    assert (row["state"], row["down_s"], row["last_error"], row["cure"]) == ("closed", None, "", "")
    doctor = node.cli("doctor", str(node.config_path), "--json")
    findings = [json.loads(line) for line in doctor.stdout.splitlines()]
    assert {one["verdict"] for one in findings if one["about"] == f"bridge {bridge}:0"} == {OK}, findings


def connections(node: Node, lane: int) -> int | None:
    """How often the lane has connected in this life of its process."""
    link = node.lane("lazy", lane)["link"]
    return None if link is None else int(link["connections"])


def test_a_bridge_that_dials_when_needed_comes_for_enough_or_old_messages_and_goes_again(
    tmp_path: Path, start_node: StartNode
) -> None:
    with Mosquitto(tmp_path / "remote") as remote, Subscriber(remote.port, "out/#") as at_remote:
        keys = {"dial": "when-needed", "when_needed": {"messages": 3, "age": "4s", "idle": "1s"}}
        lazy = bridge_config("lazy", remote.port, remote=keys, local_subscriptions=OUT, lanes=2)
        node = start_node(node_config(lazy))
        for lane in range(2):
            node.wait_lane("lazy", lane, state="closed", reason="nothing is to be sent")
        is_no_trouble(node, "lazy")

        publish(node.port, "out/a", ["1", "2", "3"], qos=2)
        assert at_remote.wait_for("out/a", ["1", "2", "3"]).are_exact()
        rows = [node.wait_lane("lazy", lane, state="closed", depth=0) for lane in range(2)]
        assert sorted(row["link"]["connections"] for row in rows) == [0, 1], "the lane that had nothing stayed where it was"

        publish(node.port, "out/a", ["4"], qos=1)
        at_remote.wait_for("out/a", ["1", "2", "3", "4"])
        lane = next(number for number, row in enumerate(rows) if row["link"]["connections"])
        wait_until(lambda: connections(node, lane) == 2, 20.0, "it came for one that is old")
        node.wait_lane("lazy", lane, state="closed")
        assert "not correctly" not in remote.log, "it left in good order, twice"
        is_no_trouble(node, "lazy")

        assert node.cli("bridge", "restart", str(node.config_path), "lazy").returncode == 0
        for number in range(2):
            wait_until(lambda: connections(node, number) == 1, 20.0, "it connects in its new life, as an operator wants")  # noqa: B023
            node.wait_lane("lazy", number, state="closed", reason="nothing is to be sent")

        node.wait_replaced("store", node.kill("store"))
        node.wait_lane("lazy", state="closed")
        publish(node.port, "out/a", ["5", "6", "7"], qos=1)
        at_remote.wait_for("out/a", ["5", "6", "7"])


def test_lanes_that_are_gone_connect_to_give_up_their_subscriptions_though_nothing_is_to_be_sent(
    tmp_path: Path, start_node: StartNode
) -> None:
    """One that goes while the node runs, and one that is gone at its next start. They take what the remote has kept for them."""
    lines = [f"m{number}" for number in range(30)]
    keys = {"dial": "when-needed", "when_needed": {"messages": 3, "idle": "2s"}, "connect_timeout": "3s"}
    rules: Config = {"local_subscriptions": OUT, "remote_subscriptions": [{"filters": ["in/#"], "shared": "edge"}]}

    def lazy(lanes: int) -> Config:
        return node_config(bridge_config("lazy", remote.port, remote=keys, lanes=lanes, **rules), placement="isolated")

    def last_lane_is(lane: int) -> None:
        wanted = {f"{kind}:lazy:{number}" for kind in ("forwarder", "connection") for number in range(lane + 1)}
        wait_until(lambda: actors(node) == wanted, 30.0, lambda: f"the lanes from {lane + 1} on end, {actors(node)}")

    with Mosquitto(tmp_path / "remote") as remote:
        node = start_node(lazy(3))
        for lane in range(3):
            node.wait_lane("lazy", lane, state="closed", reason="nothing is to be sent")
        assert node.cli("bridge", "restart", str(node.config_path), "lazy").returncode == 0
        for name in ("", "-1", "-2"):
            wait_until(lambda name=name: f"Received SUBSCRIBE from bridge-lazy{name}\n" in remote.log, 20.0, "SUBSCRIBE")  # type: ignore[misc]
        for lane in range(3):
            node.wait_lane("lazy", lane, state="closed", reason="nothing is to be sent")
        with Subscriber(node.port, "in/#", version=5, client_id="late") as here:
            publish(remote.port, "in/a", lines, qos=1)
            node.configure(lazy(2))
            assert node.cli("reload", str(node.config_path), "--wait").returncode == 0
            last_lane_is(1)
            wait_until(lambda: here.count() == 10, 20.0, lambda: f"its part, {here.count()}")
        assert node.stop() == 0
        node.configure(lazy(1))
        node.spawn()
        node.wait_ready()
        last_lane_is(0)
        with Subscriber(node.port, "in/#", version=5, client_id="late") as here:
            wait_until(lambda: here.count() == 10, 20.0, lambda: f"its part, {here.count()}")
        for name in ("-1", "-2"):
            assert f"Received UNSUBSCRIBE from bridge-lazy{name}\n" in remote.log


def test_a_bridge_with_hours_waits_for_them_and_says_until_when(tmp_path: Path, start_node: StartNode) -> None:
    now = datetime.now(UTC)

    def hours(begins_h: int, ends_h: int) -> str:
        return "-".join((now + timedelta(hours=offset)).strftime("%H:%M") for offset in (begins_h, ends_h))

    with Mosquitto(tmp_path / "remote") as remote, Subscriber(remote.port, "out/#") as at_remote:
        bridges = [
            bridge_config(
                name,
                remote.port,
                remote={"hours": [hours(*span)], "time_zone": "UTC"},
                local_subscriptions=[{"filters": [f"out/{name}"]}],
            )
            for name, span in (("open", (-2, 2)), ("shut", (2, 4)))
        ]
        node = start_node(node_config(*bridges))
        node.wait_lane("open", state="connected")
        row = node.wait_lane("shut", state="closed")
        begins = (now + timedelta(hours=2)).strftime("%Y-%m-%d %H:%M UTC")
        assert row["reason"].startswith("outside its hours until ")
        assert row["reason"].endswith(begins)
        is_no_trouble(node, "shut")

        publish(node.port, "out/open", ["a"], qos=1)
        publish(node.port, "out/shut", ["b"], qos=1)
        at_remote.wait_for("out/open", ["a"])
        node.wait_lane("shut", state="closed", depth=1)

        bridges[1]["remote"]["hours"] = [hours(-1, 1)]
        node.configure(node_config(*bridges))
        assert node.cli("reload", str(node.config_path), "--yes").returncode == 0
        at_remote.wait_for("out/shut", ["b"])
