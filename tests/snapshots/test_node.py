"""Snapshots of a real node: under load, while the store or the supervisor dies, on a schedule, with a disk that refuses."""

from __future__ import annotations

import json
import os
import signal
import stat
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from analysis.reports.report_model import Report
from storage.snapshots.manifest import find_snapshots, read_manifest
from supervisor.cli.main import main
from supervisor.control.client import call
from supervisor.control.control_socket import ControlError
from tests.conftest import StartNode
from tests.snapshots.opened import check
from tests.support.mosquitto import Mosquitto
from tests.support.mqtt_client import MqttClient
from tests.support.mqtt_packets import PUBACK
from tests.support.node import Node, bridge_config, node_config
from tests.support.ports import free_port
from tests.support.publisher import Publisher
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.process


def folder(node: Node) -> Path:
    return node.data_dir / "snapshots"


def ask(node: Node) -> int:
    """Order a snapshot; its number."""
    number: int = call(node.data_dir / "run", "snapshot")["number"]
    return number


def result(node: Node, number: int) -> dict[str, Any]:
    found: dict[str, Any] = call(node.data_dir / "run", "snapshot.result", {"number": str(number)})
    return found


def finished(node: Node, number: int, deadline_s: float = 30.0) -> dict[str, Any]:
    """The state of the snapshot."""
    wait_until(lambda: result(node, number)["state"] != "making", deadline_s, lambda: f"an end of it\n{node.output[-3000:]}")
    return result(node, number)


def make(node: Node) -> Path:
    """Make a snapshot."""
    made = finished(node, ask(node))
    assert made["state"] == "made", made
    return Path(made["path"])


def publish(node: Node, count: int, *, qos: int = 1, size: int = 100, topic: str = "a/b") -> None:
    with MqttClient(node.port, version=5) as client:
        for first in range(0, count, 50):
            ids = range(first + 1, min(first + 50, count) + 1)
            for packet_id in ids:
                client.publish(topic, b"x" * size, qos=qos, packet_id=packet_id if qos else None)
            if qos:
                for packet_id in ids:
                    client.expect(PUBACK, packet_id=packet_id)


def test_a_snapshot_of_a_node_under_load_is_whole_and_holds_what_its_manifest_says(
    remote: Mosquitto, start_node: StartNode
) -> None:
    """store.snapshot-as-rows-say: messages of each QoS to a bridge that delivers and to one that waits, and a client's session."""
    raises = bridge_config("dead", 1, local_subscriptions=[{"filters": ["#"], "min_qos": 1}])
    node = start_node(node_config(bridge_config("cloud", remote.port, retention="1h"), bridge_config("away", free_port()), raises))
    with MqttClient(node.port, "sleeper", clean=False) as client:
        client.subscribe("load/#", qos=1)
    running = [Publisher(node.port, f"load/{qos}", qos=qos, size_bytes=200) for qos in (1, 2)]
    ended = threading.Event()

    def qos0() -> None:
        with MqttClient(node.port, "qos0") as client:
            while not ended.wait(0.002):
                client.publish("load/0", b"y" * 50, qos=0)

    thread = threading.Thread(target=qos0, daemon=True)
    with running[0], running[1]:
        thread.start()
        node.wait_lane_until(lambda row: row["delivered"] > 200, "messages on their way")
        made = [make(node) for _ in range(3)]
        before = node.lane("cloud")["accepted"]
        node.wait_lane_until(lambda row: row["accepted"] > before + 200, "intake that goes on")
        made += [make(node)]
        for publisher in running:
            publisher.finish()
        ended.set()
        thread.join(PATIENCE_S)
    for snapshot in made:
        check(snapshot)
    manifests = [read_manifest(snapshot) for snapshot in made]
    accepted = [next(queue.ledger.accepted for queue in each.queues if queue.name == "bridge:cloud:0") for each in manifests]
    assert accepted == sorted(accepted)
    assert accepted[0] > 0
    last = manifests[-1]
    assert {queue.bridge for queue in last.queues} == {"cloud", "away", "dead", None}
    assert any(queue.volatile.messages for queue in last.queues)
    assert {queue.bridge for queue in last.queues if queue.ledger.raised} == {"dead"}, "a rule raises QoS 0 there"
    assert last.sessions == 3  # the publishers keep theirs, too
    cloud = next(queue for queue in last.queues if queue.bridge == "cloud")
    assert cloud.settlements[1] > cloud.settlements[0]
    assert cloud.retention_s == 3600
    assert last.events[1] >= 3, "the snapshots before are events"
    assert node.status()["snapshots"]["count"] == len(made)
    assert not node.events("child.killed")


def test_a_snapshot_is_for_its_owner_only(start_node: StartNode) -> None:
    """snapshots.read-by-owner-only"""
    node = start_node(node_config(bridge_config("away", free_port())))
    publish(node, 10)
    made = make(node)
    for path in (folder(node), made, *made.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


@pytest.mark.parametrize("moment", ["flush", "checkpoint"])
def test_a_store_that_is_killed_meanwhile_leaves_nothing_that_is_taken_for_a_snapshot(start_node: StartNode, moment: str) -> None:
    node = start_node(node_config(bridge_config("away", free_port())))
    publish(node, 500, size=2000)
    store = node.pid("store")
    os.kill(store, signal.SIGSTOP)
    number = ask(node)
    wait_until(lambda: result(node, number).get("stage") == "checkpoint", 10.0, "the order to the store")
    if moment == "checkpoint":
        os.kill(store, signal.SIGCONT)
    os.kill(store, signal.SIGKILL)
    node.wait_replaced("store", store)
    ended = finished(node, number)
    wait_until(lambda: not list(folder(node).glob(".part-*")), 10.0, "the rest to be removed")
    if ended["state"] == "made":  # it was quicker
        check(Path(ended["path"]))
    else:
        assert "store ended" in ended["message"]
        assert find_in(node) == []
    check(make(node))


def find_in(node: Node) -> list[Path]:
    """The snapshots there are, half-made ones included."""
    return [found.path for found in find_snapshots(folder(node))] if any(folder(node).iterdir()) else []


def test_what_a_supervisor_leaves_half_made_goes_at_the_next_start(start_node: StartNode) -> None:
    """snapshots.named-when-whole"""
    node = start_node(node_config(bridge_config("away", free_port())))
    publish(node, 500, size=20_000)
    for _ in range(3):
        ask(node)
        wait_until(lambda: list(folder(node).glob(".part-*/store")) or list(folder(node).glob("edge-*")), 10.0, "a checkpoint")
        node.kill_supervisor()
        for found in find_snapshots(folder(node)):
            assert found.half_made or found.manifest is not None
            if found.manifest is not None:
                check(found.path)
        node.start()
        wait_until(lambda: not list(folder(node).glob(".part-*")), 10.0, "the rest to be removed")
    check(make(node))


def test_a_second_snapshot_is_refused_while_the_first_is_being_made(start_node: StartNode) -> None:
    node = start_node(node_config(bridge_config("away", free_port())))
    publish(node, 10)
    store = node.kill("store", signal.SIGSTOP)
    number = ask(node)
    with pytest.raises(ControlError, match="being made already"):
        ask(node)
    os.kill(store, signal.SIGCONT)
    assert finished(node, number)["state"] == "made"
    check(make(node))


def test_a_node_that_is_stopped_while_one_is_being_made_stops_in_good_order(start_node: StartNode) -> None:
    node = start_node(node_config(bridge_config("away", free_port())))
    publish(node, 300, size=20_000)
    ask(node)
    assert node.stop() == 0
    node.start()
    check(make(node))
    wait_until(lambda: not list(folder(node).glob(".part-*")), 10.0, "the rest to be removed")


def test_snapshots_are_made_on_schedule_and_old_ones_go(start_node: StartNode, tmp_path: Path) -> None:
    target = tmp_path / "share" / "snapshots"
    keys = {"every": "300ms", "keep": 2, "to": str(target), "keep_in_target": 3}
    node = start_node(node_config(bridge_config("away", free_port()), snapshots=keys))
    publish(node, 20)
    wait_until(lambda: len(node.events("snapshot.made")) >= 6, 30.0, lambda: f"six snapshots\n{node.output[-3000:]}")
    wait_until(lambda: len(node.events("snapshot.shipped")) >= 5, 30.0, lambda: f"five copies\n{node.output[-3000:]}")
    node.stop()
    assert len(list(folder(node).glob("edge-*"))) <= 3
    copies = [found for found in find_snapshots(target) if not found.half_made]
    assert 3 <= len(copies) <= 4
    for found in copies:
        check(found.path)


def test_a_report_is_of_the_snapshot_that_the_node_makes_for_it_and_of_its_newest_when_it_is_away(
    start_node: StartNode, capsys: pytest.CaptureFixture[str]
) -> None:
    node = start_node(node_config(bridge_config("away", free_port())))
    publish(node, 100)
    words = ["report", str(node.config_path), "--report", "reconciliation", "--report", "backlog", "--format", "json"]

    assert main(words) == 0
    first, said = capsys.readouterr()
    report = Report.from_json(first)
    assert said.splitlines()[0] == "node edge makes a snapshot"
    assert report.headline == "Everything adds up."
    assert report.section("backlog").summary.startswith("100 messages (10.1 KiB) wait in 1 place")
    assert main([*words, "--last"]) == 0
    assert Report.from_json(capsys.readouterr().out).snapshots == report.snapshots
    assert main([*words, "--last", str(folder(node))]) == 2
    capsys.readouterr()
    publish(node, 10)
    assert main(words) == 0
    newer = Report.from_json(capsys.readouterr().out)
    assert (len(newer.snapshots), newer.cards[0].facts) != (1, report.cards[0].facts)
    assert node.stop() == 0

    assert main(words) == 0
    second, said = capsys.readouterr()
    assert said.splitlines()[0] == "the newest snapshot of node edge, which does not run"
    assert Report.from_json(second).snapshots == newer.snapshots


def test_no_snapshot_is_made_for_a_report_that_nothing_could_make(
    start_node: StartNode, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    node = start_node(node_config(bridge_config("away", free_port())))
    words = ["report", str(node.config_path)]
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.delitem(sys.modules, "analysis.engines.duckdb_engine", raising=False)
    monkeypatch.setitem(sys.modules, "duckdb", None)

    for more, status, why in (
        ([], 78, "a report needs duckdb: "),
        (["--spark"], 78, "JAVA_HOME names a folder without a Java that runs"),
        (["--to", "s3a://bucket/report"], 78, "JAVA_HOME names a folder without a Java that runs"),
        (["--format", "html"], 2, "--format parquet and html want --to DIR"),
    ):
        assert main([*words, *more]) == status
        said = capsys.readouterr().err
        assert said.startswith("bascule report: ")
        assert why in said
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    assert main([*words, "--spark"]) == 78
    assert "Spark needs pyspark" in capsys.readouterr().err
    assert list(folder(node).glob("*")) == []


def test_an_in_memory_store_has_no_snapshots_and_says_so(start_node: StartNode, capsys: pytest.CaptureFixture[str]) -> None:
    node = start_node(node_config(bridge_config("away", free_port()), mode="in-memory"))
    assert main(["snapshot", "make", str(node.config_path)]) == 1
    assert "in-memory" in capsys.readouterr().err


def test_the_command_makes_copies_lists_and_verifies(
    start_node: StartNode, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    node = start_node(node_config(bridge_config("away", free_port())))
    publish(node, 100)
    config, target = str(node.config_path), tmp_path / "copies"

    assert main(["snapshot", "make", config, "--to", str(target), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["messages"] == 100
    check(Path(facts["copy"]))
    assert main(["snapshot", "list", config, "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [row["id"] for row in listed["snapshots"]] == [facts["id"]]
    assert main(["snapshot", "verify", str(target), str(folder(node) / "*")]) == 0
    assert capsys.readouterr().out.count(": whole") == 2

    assert node.stop() == 0
    assert main(["snapshot", "make", config]) == 69
    assert main(["snapshot", "copy", config, "--to", str(target)]) == 0
    assert "was there already" in capsys.readouterr().out
    table = max((target / facts["id"] / "store").glob("*.sst"), key=lambda path: path.stat().st_size)
    content = bytearray(table.read_bytes())
    content[len(content) // 2] ^= 1
    table.write_bytes(content)
    assert main(["snapshot", "verify", str(target)]) == 65
    said = capsys.readouterr().out
    assert f"store/{table.name} is damaged" in said
