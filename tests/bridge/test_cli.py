"""Commands of an operator, on a real node: check, run, status, bridge pause, resume and restart."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.conftest import StartNode
from tests.support import programs
from tests.support.mosquitto import Mosquitto, mosquitto_pub
from tests.support.node import Node, bridge_config, node_config
from tests.support.subscriber import Subscriber
from tests.support.waiting import PATIENCE_S, wait_until

GOOD = """\
node: {name: edge, data_dir: ./data}
listeners:
  - bind: "127.0.0.1:0"
access: {allow_anonymous: true}
bridges:
  - name: cloud
    remote:
      addresses: ["127.0.0.1:1"]
      client_id: edge
    local_subscriptions:
      - filters: ["plant/#"]
"""

# (what is wrong, text in GOOD, its replacement, line of the fault, key in the message)
BAD = [
    ("an unknown key", "client_id: edge", "client_id: edge\n      colour: red", 10, "colour"),
    ("a number out of range", "  - name: cloud", "  - name: cloud\n    lanes: 0", 7, "lanes"),
    ("no such choice", "client_id: edge", "client_id: edge\n      protocol: mqtt4", 10, "protocol"),
    ("a bad topic filter", '["plant/#"]', '["plant/#/x"]', 11, "filters"),
    ("a duration without unit", "access:", "supervision: {stop_timeout: 5}\naccess:", 4, "stop_timeout"),
    ("a missing key", '      addresses: ["127.0.0.1:1"]\n', "", 8, "addresses"),
    ("YAML that does not parse", "access: {allow_anonymous: true}", "access: ]", 4, "YAML"),
]


COUNTS = {"accepted", "delivered", "expired", "dead_lettered", "redelivered", "depth", "bytes", "in_flight"}
ROW_KEYS = COUNTS | {"name", "lane", "state", "oldest_age_s", "dropped", "ledger_closes"}


def run(*words: str) -> subprocess.CompletedProcess[str]:
    """``bascule`` with ``words``."""
    return programs.run_bascule(*words, timeout_s=PATIENCE_S)


def test_check_accepts_a_good_configuration(tmp_path: Path) -> None:
    config = tmp_path / "edge.yaml"
    config.write_text(GOOD)
    done = run("check", str(config))
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "data").exists(), "check makes nothing"


@pytest.mark.parametrize("command", ["check", "run"])
@pytest.mark.parametrize(("old", "new", "line", "key"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_a_bad_configuration_is_refused_with_file_line_and_key(
    tmp_path: Path, command: str, old: str, new: str, line: int, key: str
) -> None:
    config = tmp_path / "edge.yaml"
    assert old in GOOD
    config.write_text(GOOD.replace(old, new))
    done = run(command, str(config))
    said = done.stdout + done.stderr
    assert done.returncode == 78, said
    assert f"edge.yaml:{line}" in said
    assert key in said
    assert "Traceback" not in said


def test_a_configuration_that_is_not_there_is_refused(tmp_path: Path) -> None:
    done = run("run", str(tmp_path / "none.yaml"))
    assert done.returncode == 78
    assert "none.yaml" in done.stdout + done.stderr


def test_status_of_a_node_that_does_not_run_says_so(tmp_path: Path) -> None:
    config = tmp_path / "edge.yaml"
    config.write_text(GOOD)
    done = run("status", str(config), "--json")
    assert done.returncode not in (0, 78)
    assert "Traceback" not in done.stderr


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
    assert processes == {
        "supervisor": [],
        "template": [],
        "store": ["queue_store"],
        "bridge:cloud:0": ["forwarder:cloud:0", "connection:cloud:0"],
        "bridge:cloud:1": ["forwarder:cloud:1", "connection:cloud:1"],
        "clients": ["distributor", "listener"],
    }
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
        assert (
            f"paused until bascule bridge resume {node.config_path} BRIDGE: cloud since"
            in node.cli("status", str(node.config_path)).stdout
        )
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


def test_bridge_restart_gives_the_lane_a_new_process_and_loses_nothing(remote: Mosquitto, start_node: StartNode) -> None:
    numbers = [str(number) for number in range(200)]
    node = start_node(node_config(bridge_config("cloud", remote.port)))
    with Subscriber(remote.port, "#") as subscriber:
        before = node.pid("bridge")
        mosquitto_pub(node.port, "t", numbers[:100], qos=2)
        assert node.cli("bridge", "restart", str(node.config_path), "cloud").returncode == 0
        mosquitto_pub(node.port, "t", numbers[100:], qos=2)
        node.wait_replaced("bridge", before)
        assert subscriber.wait_for("t", numbers).are_exact()


@pytest.mark.parametrize("verb", ["pause", "resume", "restart"])
def test_a_bridge_that_does_not_exist_is_named(start_node: StartNode, verb: str) -> None:
    node = start_node(node_config())
    done = node.cli("bridge", verb, str(node.config_path), "nowhere")
    assert done.returncode != 0
    assert "nowhere" in done.stderr + done.stdout
    assert "Traceback" not in done.stderr
