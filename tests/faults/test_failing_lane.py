"""A lane that crashes, hangs, or waits for a name in vain: what else of the node stands still, in each placement.

The fault is planted in the real process by a module that Python imports as it begins. Nodes are forked from one process that has
imported it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.support.mosquitto import Mosquitto
from tests.support.mqtt_client import MqttClient
from tests.support.node import HANGS_SOON, ROOT, Node, bridge_config, node_config
from tests.support.ports import free_port
from tests.support.subscriber import Subscriber
from tests.support.waiting import wait_until

PLANTED = """
import os, socket, time
from pathlib import Path
from actors.bridge.connection import Connection

begin, due, look_up = Connection.on_start, Connection.on_timer, socket.getaddrinfo

def on_start(self):
    begin(self)
    if self.name == "connection:bad:0":
        self.mailbox.set_timer("planted", self.mailbox.now_s() + 0.3)

def on_timer(self, name, now_s):
    fault = Path(os.environ["PLANTED_FAULT"])
    if name == "planted" and fault.exists():
        if fault.read_text() == "crash":
            raise RuntimeError("planted")
        while True:
            time.sleep(0.01)
    due(self, name, now_s)

def getaddrinfo(host, *words, **keys):
    while host == "hangs.example":
        time.sleep(0.01)
    return look_up(host, *words, **keys)

Connection.on_start, Connection.on_timer, socket.getaddrinfo = on_start, on_timer, getaddrinfo

if "PLANTED_QUIET_S" in os.environ:
    import supervisor.tree.restart_limit
    supervisor.tree.restart_limit.QUIET_S = float(os.environ["PLANTED_QUIET_S"])
"""


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the module that Python imports."""
    folder = tmp_path_factory.mktemp("planted")
    (folder / "sitecustomize.py").write_text(PLANTED)
    return folder


class Planted(Node):
    """A node with a good bridge and ``bad``, in which ``fault`` is: crash, hang, or nothing. quiet_s: a day, for this node."""

    def __init__(
        self,
        folder: Path,
        planted: Path,
        remote: Mosquitto,
        placement: str,
        bad: dict[str, Any] | None = None,
        quiet_s: float | None = None,
    ) -> None:
        self.fault_path = folder / "fault"
        config = node_config(
            bridge_config("good", remote.port),
            bad or bridge_config("bad", free_port()),
            placement=placement,
        )
        config["supervision"] |= HANGS_SOON
        environment = {"PYTHONPATH": f"{planted}{os.pathsep}{ROOT}", "PLANTED_FAULT": str(self.fault_path)}
        environment |= {} if quiet_s is None else {"PLANTED_QUIET_S": str(quiet_s)}  # which is read as the module is imported
        super().__init__(config, folder, environment=environment, preloaded=quiet_s is None)

    def fails(self, fault: str) -> None:
        """From now on the lane fails as it begins, and it begins anew."""
        self.fault_path.write_text(fault)
        self.cli("bridge", "restart", str(self.config_path), "bad")

    def told(self, kind: str) -> list[dict[str, Any]]:
        """The stored events of that kind."""
        lines = self.cli("events", str(self.config_path), "--json", "--last", "0").stdout.splitlines()
        return [event for event in map(json.loads, lines) if event["kind"] == kind]


def flows(node: Node, remote: Mosquitto, text: str) -> None:
    """A message of a local client is acknowledged, and passes the good bridge."""
    with Subscriber(remote.port, "#") as subscriber, MqttClient(node.port, f"client {text}") as client:
        client.publish_burst("t", [text], qos=1)
        wait_until(lambda: subscriber.count() == 1, 30.0, f"{text} at the remote")


def row(node: Node, name: str) -> dict[str, Any]:
    found: dict[str, Any] = next((row for row in node.status()["processes"] if row["name"] == name), {})
    return found


@pytest.mark.parametrize(("fault", "quiet_s"), [("crash", 5.0), ("hang", None)])
def test_together_a_lane_that_fails_twice_has_a_process_of_its_own_until_the_next_reload_or_a_day_of_quiet(
    fault: str, quiet_s: float | None, tmp_path: Path, planted: Path, remote: Mosquitto
) -> None:
    with Planted(tmp_path / "node", planted, remote, "together", quiet_s=quiet_s) as node:
        flows(node, remote, "before")
        node.fails(fault)
        wait_until(lambda: row(node, "bridge:bad:0"), 30.0, lambda: f"a process of its own\n{node.output[-3000:]}")
        wait_until(lambda: row(node, "site")["state"] == "ready", 30.0, "the others are back")
        flows(node, remote, "while it fails")
        assert "connection:bad:0" in row(node, "site")["last_cause"]
        site, restarts = node.pid("site"), row(node, "site")["restarts"]
        assert restarts == 2
        wait_until(lambda: row(node, "bridge:bad:0")["restarts"] > restarts + 1, 30.0, "it fails on, alone")
        flows(node, remote, "while it fails alone")
        assert node.pid("site") == site
        (event,) = node.told("lane.apart")
        assert (event["bridge"], event["lane"], event["actor"]) == ("bad", 0, "bridge:bad:0")
        # Asked of the log: the store is in the process that fails, and what it is told of the first end may go with the second.
        ended = [event["failed"] for event in node.events("child.exited") if event["child"] == "site"]
        assert ended == ["connection:bad:0"] * 2, node.output[-3000:]
        assert {event["details"]["failed"] for event in node.told("process.ended") if event["actor"] == "site"} == {
            "connection:bad:0"
        }

        node.fault_path.unlink()
        if quiet_s is None:
            planned = json.loads(node.cli("reload", str(node.config_path), "--plan", "--json").stdout)["changes"]
            assert [(change["how"], change["target"]) for change in planned] == [("reconnect", "bad")]
            assert node.cli("reload", str(node.config_path), "--wait").returncode == 0
        wait_until(lambda: "connection:bad:0" in row(node, "site")["actors"], 30.0, "it is back with the others")
        wait_until(lambda: node.status()["configuration"]["pending"] == [], 30.0, "all know of it")
        assert row(node, "bridge:bad:0") == {}
        assert node.pid("site") == site
        flows(node, remote, "after")


@pytest.mark.parametrize("fault", ["crash", "hang"])
def test_isolated_a_lane_that_fails_stops_itself_alone(fault: str, tmp_path: Path, planted: Path, remote: Mosquitto) -> None:
    with Planted(tmp_path / "node", planted, remote, "isolated") as node:
        others = [node.pid("store"), node.pid("clients"), node.pid("bridge", "good")]
        node.fails(fault)
        wait_until(lambda: row(node, "bridge:bad:0")["restarts"] >= 2, 30.0, "it fails again and again")
        flows(node, remote, "while it fails")
        assert others == [node.pid("store"), node.pid("clients"), node.pid("bridge", "good")]


@pytest.mark.parametrize("placement", ["isolated", "together"])
def test_a_look_up_of_a_name_that_hangs_stops_no_other_lane_and_no_client(
    placement: str, tmp_path: Path, planted: Path, remote: Mosquitto
) -> None:
    bad = bridge_config("bad", 1, remote={"addresses": ["hangs.example:1883"], "connect_timeout": "600s"})
    with Planted(tmp_path / "node", planted, remote, placement, bad) as node:
        node.wait_lane("bad", state="connecting")
        flows(node, remote, "while it looks for the name")
        assert [process["restarts"] for process in node.status()["processes"]] == [0] * len(node.status()["processes"])
