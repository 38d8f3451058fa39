"""The process of the HTTP interface in a real node: it is watched as the others are, and the node does without it."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.supervisor.http.client import request
from tests.support.node import HANGS_SOON, Node, node_config
from tests.support.ports import accepts, free_port
from tests.support.waiting import wait_until

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Node, int]]:
    port = free_port()
    config = node_config(http={"bind": f"127.0.0.1:{port}"})
    config["supervision"] |= HANGS_SOON
    with Node(config, tmp_path_factory.mktemp("node")) as node:
        wait_until(lambda: process(node)["state"] == "ready", 20.0, "the HTTP interface is ready")
        yield node, port


def process(node: Node) -> dict[str, Any]:
    """The row of the HTTP interface's process."""
    return next(row for row in node.status()["processes"] if row["name"] == "http")


def test_it_answers_of_itself_and_of_the_node(served: tuple[Node, int]) -> None:
    node, port = served

    assert request(port, "/health/live").json == {"live": True}
    ready = request(port, "/health/ready")
    assert (ready.status, ready.json) == (200, {"ready": True, "state": "ready", "reasons": []})
    status = request(port, "/api/v1/status")
    assert (status.status, status.json["node"]) == (200, "edge")
    assert set(status.json) == set(node.status())


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "hung"])
def test_it_is_started_again_and_the_node_stays_ready(served: tuple[Node, int], number: signal.Signals) -> None:
    node, port = served
    before = process(node)

    os.kill(before["pid"], number)

    wait_until(lambda: process(node)["pid"] not in (before["pid"], None), 20.0, "another life")
    assert node.status()["ready"]
    wait_until(lambda: accepts(port) and request(port, "/health/live").status == 200, 20.0, "it answers again")
    assert process(node)["restarts"] == before["restarts"] + 1
    assert (
        process(node)["last_cause"]
        == {
            signal.SIGKILL: "it was killed by SIGKILL",
            signal.SIGSTOP: "it said nothing for too long, and was killed",
        }[number]
    )


def test_no_other_process_has_its_libraries(served: tuple[Node, int]) -> None:
    node, _ = served
    own = process(node)["pid"]

    having = [pid for pid in node.pids() if "pydantic_core" in Path(f"/proc/{pid}/maps").read_text()]

    assert having == [own]


def test_a_taken_port_is_told_and_tried_again_while_the_node_works(tmp_path: Path) -> None:
    with socket.socket() as taken:
        port = free_port()
        taken.bind(("127.0.0.1", port))
        taken.listen()
        with Node(node_config(http={"bind": f"127.0.0.1:{port}"}), tmp_path) as node:
            wait_until(lambda: process(node)["last_cause"], 20.0, "the reason")
            assert process(node)["state"] == "starting"
            assert f"the port is taken by {Path('/proc/self/comm').read_text().strip()}" in process(node)["last_cause"]
            assert node.status()["ready"]

            taken.close()

            wait_until(lambda: process(node)["state"] == "ready", 20.0, "it has the port")
            assert request(port, "/health/live").status == 200
            assert node.stop() == 0


def test_while_the_node_stops_it_says_so_and_how_long_that_takes(tmp_path: Path) -> None:
    """The store hangs, so that the node takes its time; HTTP ends last, and in good order."""
    port = free_port()
    with Node(node_config(http={"bind": f"127.0.0.1:{port}"}), tmp_path) as node:
        wait_until(lambda: process(node)["state"] == "ready", 20.0, "the HTTP interface is ready")
        store = node.kill("store", signal.SIGSTOP)
        node.supervisor.send_signal(signal.SIGTERM)

        def stopping() -> bool:
            ready = request(port, "/health/ready")
            return ready.status == 503 and ready.json["state"] == "stopping"

        wait_until(stopping, 20.0, "it says that the node stops", period_s=0.1)
        ready = request(port, "/health/ready").json
        assert 0 < ready["stop_left_s"] <= 3 * 60
        assert ready["reasons"] == [f"the node is stopping, and has stopped within {ready['stop_left_s']:g} s"]
        assert request(port, "/health/live").status == 200

        os.kill(store, signal.SIGCONT)
        assert node.wait_ended() == 0
        assert [event["child"] for event in node.events("child.exited")][-1] == "http"
        assert {event["exit_status"] for event in node.events("child.exited")} == {0}
