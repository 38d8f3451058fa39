"""Hung children are replaced, children never outlive their supervisor, a stop is in good order, one node a data folder."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.conftest import StartNode
from tests.support.mosquitto import Mosquitto, mosquitto_pub
from tests.support.node import HANGS_SOON, Node, bridge_config, node_config
from tests.support.placements import TOGETHER
from tests.support.ports import accepts
from tests.support.publisher import Publisher
from tests.support.subscriber import Subscriber
from tests.support.waiting import PATIENCE_S, wait_until

PROCESSES = ["clients", "store", "bridge"]


@pytest.mark.parametrize("process", PROCESSES)
def test_a_child_that_stands_still_is_noticed_and_replaced(remote: Mosquitto, start_node: StartNode, process: str) -> None:
    """SIGSTOP: silent for longer than ``heartbeat_timeout`` (2 s here), so it is killed and started again; nothing is lost."""
    config = node_config(bridge_config("cloud", remote.port))
    config["supervision"] |= HANGS_SOON
    node = start_node(config)
    with Subscriber(remote.port, "#") as subscriber, Publisher(node.port, "t", qos=2, rate_per_s=100.0) as publisher:
        publisher.wait_acknowledged(20)
        stopped = node.kill(process, signal.SIGSTOP)
        node.wait_replaced(process, stopped, deadline_s=15.0)
        publisher.wait_acknowledged(50)
        arrivals = subscriber.wait_for("t", publisher.finish())
        assert arrivals.are_exact(), arrivals
    assert node.events("child.hung"), "it is said in the log"


@pytest.mark.parametrize("end", ["kill -9 of the supervisor", "SIGTERM"])
def test_a_node_that_ends_under_load_leaves_no_process_and_goes_on_where_it_ended(
    remote: Mosquitto, start_node: StartNode, end: str
) -> None:
    node = start_node(node_config(bridge_config("cloud", remote.port)))
    with Subscriber(remote.port, "#") as subscriber, Publisher(node.port, "t", qos=2, rate_per_s=400.0) as publisher:
        for _ in range(3):
            publisher.wait_acknowledged(100)
            if end == "SIGTERM":
                assert node.stop() == 0
                assert node.events("node.stopped"), "the last word of a stop in good order"
                assert not node.events("child.killed"), "no child had to be killed"
            else:
                node.kill_supervisor()  # fails the test when a process of the node is left, as stop does
            node.start()
        publisher.wait_acknowledged(100)
        arrivals = subscriber.wait_for("t", publisher.finish())
        assert arrivals.are_exact(), arrivals
        assert publisher.sessions_lost == 0
        assert node.wait_lane("cloud", depth=0)["ledger_closes"] is True


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_node_stops_with_its_remote_away(tmp_path: Path, start_node: StartNode, number: signal.Signals) -> None:
    """Neither a missing remote nor a backlog keeps a node from ending."""
    away = Mosquitto(tmp_path / "remote")
    node = start_node(node_config(bridge_config("cloud", away.port)))
    mosquitto_pub(node.port, "t", [str(count) for count in range(100)], qos=1)
    node.supervisor.send_signal(number)
    assert node.wait_ended() == 0


def test_a_second_node_on_the_same_data_folder_is_refused(tmp_path: Path, remote: Mosquitto, start_node: StartNode) -> None:
    config = node_config(bridge_config("cloud", remote.port))
    first = start_node(config)
    second = Node(config, tmp_path / "other", data_dir=first.data_dir)
    second.spawn()
    assert second.wait_ended() not in (0, 78)
    assert str(first.data_dir) in second.output or "data" in second.output
    assert "Traceback" not in second.output
    with Subscriber(remote.port, "#") as subscriber:
        mosquitto_pub(first.port, "t", ["still here"], qos=1)
        assert subscriber.wait_for("t", ["still here"]).are_exact()


@pytest.mark.parametrize("kind", ["tcp", "unix"])
def test_an_address_that_is_taken_is_told_with_who_has_it_and_had_once_it_is_free(tmp_path: Path, kind: str) -> None:
    """By the log, once, and by ``status``, which ends with 1 until the node is ready. The Listener lives and tries again."""
    path = tmp_path / "taken"
    node = Node(node_config(), tmp_path / "node")
    bind = f"127.0.0.1:{node.port}" if kind == "tcp" else f"unix:{path}"
    if kind == "unix":
        node.configure(node_config(listeners=[{"bind": f"127.0.0.1:{node.port}"}, {"bind": bind}]))
    ourselves = f"{Path('/proc/self/comm').read_text().strip()}, pid {os.getpid()}"
    why = f"cannot listen on {bind}: the {'port' if kind == 'tcp' else 'socket'} is taken by {ourselves}"
    with ExitStack() as ends:
        with socket.socket(socket.AF_INET if kind == "tcp" else socket.AF_UNIX) as other:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            other.bind(("127.0.0.1", node.port) if kind == "tcp" else str(path))
            other.listen()
            node.spawn()
            ends.push(node)
            told = wait_until(lambda: node.events("listener.unavailable"), PATIENCE_S, lambda: f"a word\n{node.output[-3000:]}")[0]
            assert told["error"] == why
            clients = node.place_of("clients")
            cause = f"{clients} {why}"
            (shown,) = wait_until(lambda: _status_with(node, cause), PATIENCE_S, lambda: f"the cause\n{node.output[-3000:]}")
            assert (shown.returncode, "not ready" in shown.stdout) == (1, True)
            as_json = node.cli("status", str(node.config_path), "--json")
            told = json.loads(as_json.stdout)
            rows = {row["name"]: row for row in [*told["actors"], *told["processes"]]}
            assert (as_json.returncode, rows["listener"]["last_cause"], rows[clients]["last_cause"]) == (1, why, why)
            assert (rows["listener"]["state"], rows["listener"]["restarts"]) == ("starting", 0)
            assert (rows[clients]["state"], rows["distributor"]["state"]) == ("starting", "ready")
            assert kind == "tcp" or not accepts(node.port), "all listeners or none"
        node.wait_ready()
        assert [event["error"] for event in node.events("listener.unavailable")].count(why) == 1
        done = node.cli("status", str(node.config_path))
        assert (done.returncode, why in done.stdout) == (0, False)


def _status_with(node: Node, why: str) -> list[subprocess.CompletedProcess[str]]:
    """The answer of ``bascule status``, if ``why`` is in it."""
    done = node.cli("status", str(node.config_path))
    return [done] if why in done.stdout else []


def test_status_says_why_the_last_life_of_a_process_ended(start_node: StartNode) -> None:
    node = start_node(node_config())
    node.kill("clients")

    cause = f"{node.place_of('clients')} it was killed by SIGKILL"
    wait_until(lambda: _status_with(node, cause), PATIENCE_S, lambda: f"the cause\n{node.output[-3000:]}")


def test_a_child_that_keeps_crashing_takes_the_node_down_after_its_restarts(remote: Mosquitto, start_node: StartNode) -> None:
    """Restart intensity: one restart more than ``restarts_max`` in the period ends the node, and it says why."""
    supervision = {
        "heartbeat_period": "200ms",
        "heartbeat_timeout": "20s",
        "restarts_max": 2,
        "restart_backoff": {"initial": "10ms", "max": "20ms"},
    }
    node = start_node(node_config(bridge_config("cloud", remote.port), supervision=supervision))
    for _ in range(2):
        node.wait_replaced("clients", node.kill("clients"))
    node.kill("clients")
    assert node.wait_ended() != 0
    assert node.events("child.abandoned") or "restarts" in node.output


def test_the_processes_have_names_in_ps_and_ss(remote: Mosquitto, start_node: StartNode) -> None:
    node = start_node(node_config(bridge_config("cloud", remote.port, lanes=2)))
    titles = {pid: words[0] for pid, words in node.processes().items()}
    names = {pid: Path(f"/proc/{pid}/comm").read_text().strip() for pid in titles}
    assert (titles[node.supervisor.pid], names[node.supervisor.pid]) == ("bascule: supervisor", "bascule")
    if node.placement == TOGETHER:
        assert (titles[node.pid("store")], names[node.pid("store")]) == ("bascule: site", "bascule:site")
    else:
        assert (titles[node.pid("store")], names[node.pid("store")]) == ("bascule: store", "bascule:store")
        assert (titles[node.pid("clients")], names[node.pid("clients")]) == ("bascule: clients", "bascule:clients")
        lane = node.pid("bridge", "cloud", 1)
        assert (titles[lane], names[lane]) == ("bascule: bridge cloud/1", "bascule:cloud/1")
    found = {node.pid("bridge", "cloud", lane) for lane in (0, 1)} | {node.pid(process) for process in ("clients", "store")}
    assert len(found) == (1 if node.placement == TOGETHER else 4)
    assert {node.supervisor.pid} <= set(node.pids()) - found
    assert node.placement == TOGETHER or len(node.pids()) == 6, "and the template"
    wait_until(
        lambda: all(row["heartbeat_age_s"] < 2.0 for row in node.status()["actors"]), 5.0, "fresh heartbeats of all", period_s=0.05
    )
