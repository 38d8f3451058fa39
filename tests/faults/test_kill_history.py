"""kill -9 of the store and of others while a history is kept: what lives and what is kept add up, and the events tell of it."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from storage.engine.engine import RocksEngine
from storage.engine.queue_numbers import QueueNumbers
from tests.conftest import StartNode
from tests.support.history_audit import audit
from tests.support.mosquitto import Mosquitto
from tests.support.node import Node, bridge_config, node_config
from tests.support.publisher import Publisher
from tests.support.subscriber import Subscriber
from tests.support.waiting import wait_until

KILLS = 6
PROGRESS = 40


def events(node: Node) -> list[dict[str, Any]]:
    done = node.cli("events", str(node.config_path), "--json", "--last", "0")
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def wait_progress(subscriber: Subscriber) -> None:
    target = subscriber.count() + PROGRESS
    wait_until(lambda: subscriber.count() >= target, 20.0, "messages at the far end")


def wait_lives(node: Node, lives: tuple[str, str], count: int) -> None:
    """Wait until the events tell of so many lives."""
    wait_until(
        lambda: [(event["kind"], event["actor"]) for event in events(node)].count(lives) == count, 15.0, f"{count} of {lives}"
    )


def test_kills_leave_a_history_that_adds_up(tmp_path: Path, start_node: StartNode) -> None:
    with ExitStack() as stack:
        remote = stack.enter_context(Mosquitto(tmp_path / "remote", max_inflight_messages=0, max_queued_messages=0))
        node = start_node(node_config(bridge_config("cloud", remote.port, retention="24h")))
        subscriber = stack.enter_context(Subscriber(remote.port, "#"))
        crowd = [stack.enter_context(Publisher(node.port, f"q{qos}", qos=qos, rate_per_s=200.0)) for qos in (0, 1, 2)]
        store, lane_process = node.place_of("store"), node.place_of("bridge:cloud:0")
        killed: Counter[str] = Counter()
        for kill in range(KILLS):
            wait_progress(subscriber)
            wait_lives(node, ("process.started", store), 1 + killed[store])  # a kill may take what is not on record
            process, place = ("bridge", lane_process) if kill == KILLS // 2 else ("store", store)
            killed[place] += 1
            node.wait_replaced(process, node.kill(process))
            if process == "bridge":
                wait_lives(node, ("process.ended", place), killed[place])
        sent = [publisher.finish() for publisher in crowd]
        for qos in (1, 2):
            subscriber.wait_for(f"q{qos}", sent[qos], deadline_s=30.0)
        lane = node.wait_lane("cloud", depth=0, in_flight=0)
        wait_until(lambda: any(event["kind"] == "messages.dropped" for event in events(node)) or not lane["dropped"], 15.0, "drops")
        wait_lives(node, ("process.started", store), 1 + killed[store])
        told = events(node)
        assert node.stop() == 0

    engine = RocksEngine(node.data_dir / "store")
    kept = audit(engine, QueueNumbers(engine).number("bridge:cloud:0"))
    engine.close()
    assert kept is not None
    assert kept.problems == []
    assert kept.row.history.begins == 0
    assert len(kept.settled("delivered")) == kept.row.ledger.delivered == lane["delivered"]
    assert {settlement.by.partition(":")[0] for _, settlement in kept.settlements} >= {"connection", "forwarder"}
    assert lane["retained"]["messages"] == kept.row.tail

    assert sorted(event["number"] for event in told) == [*range(len(told))]
    assert [event["at_ms"] for event in told] == sorted(event["at_ms"] for event in told)
    ended = [(event["actor"], event["reason"]) for event in told if event["kind"] == "process.ended"]
    assert Counter(place for place, reason in ended if reason == "SIGKILL") == killed
    started = [event["actor"] for event in told if event["kind"] == "process.started"]
    assert started.count(store) == 1 + killed[store]
    assert [event["kind"] for event in told if event["actor"] == "supervisor"] == ["node.started"]
    links = [event for event in told if event["kind"] == "link.up"]
    assert (links[0]["bridge"], links[0]["lane"], links[0]["details"]) == ("cloud", 0, {"address": f"127.0.0.1:{remote.port}"})


def test_the_life_of_a_node_is_in_its_events(tmp_path: Path, start_node: StartNode) -> None:
    with Mosquitto(tmp_path / "remote") as remote:
        node = start_node(node_config(bridge_config("cloud", remote.port)))
        node.wait_lane("cloud", state="connected")
        assert node.cli("bridge", "pause", str(node.config_path), "cloud").returncode == 0
        node.wait_lane("cloud", state="paused")
        assert node.cli("bridge", "resume", str(node.config_path), "cloud").returncode == 0
        node.wait_lane("cloud", state="connected")
        assert node.stop() == 0
        node.start()
        node.wait_lane("cloud", state="connected")
        wait_until(lambda: [event["kind"] for event in events(node)].count("link.up") == 3, 10.0, "the events are kept")

        told = events(node)
        kinds = [event["kind"] for event in told if not str(event["kind"]).startswith("process.")]
        first = kinds[: kinds.index("node.stopped") + 1]
        assert sorted(first) == sorted(
            ["store.begun", "node.started", "link.up", "bridge.paused", "link.down", "bridge.resumed", "link.up", "node.stopped"]
        )
        assert next(event["reason"] for event in told if event["kind"] == "node.stopped") == "0"
        shown = node.cli("events", str(node.config_path), "--kind", "link", "--last", "2").stdout.splitlines()
        assert [line.split()[1] for line in shown] == ["link.down", "link.up"]
