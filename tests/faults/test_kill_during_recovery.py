"""P3: kill -9 again while the store, or the whole node, still comes up from the last one. Nothing is lost, QoS 2 comes once."""

from __future__ import annotations

import threading
from pathlib import Path

from tests.conftest import StartNode
from tests.faults.under_load import under_load
from tests.support.chance import chance

MOMENT_MAX_S = 0.4  # a store is up after about a quarter of a second, a node after about a second


def test_a_store_killed_again_and_again_while_it_recovers(tmp_path: Path, start_node: StartNode, soak: bool) -> None:
    """At random moments of its start: while Python loads, while it replays its log, while it asks for what it missed."""
    moments = chance()
    with under_load(tmp_path, start_node) as loaded:
        pid = loaded.node.pid("store")
        kills = 300 if soak else 10
        for kill in range(kills):
            loaded.node.kill("store")
            pid = loaded.node.wait_replaced("store", pid, works=False)
            threading.Event().wait(moments.uniform(0.001, MOMENT_MAX_S))
            if kill % 5 == 4:
                loaded.wait_progress()
        loaded.judge()
        assert {row["name"]: row["restarts"] for row in loaded.node.status()["processes"]}[loaded.node.place_of("store")] == kills


def test_a_node_killed_again_and_again_while_it_starts(tmp_path: Path, start_node: StartNode, soak: bool) -> None:
    """The supervisor is killed at random moments of its start, and its children with it."""
    moments = chance()
    with under_load(tmp_path, start_node) as loaded:
        for _ in range(100 if soak else 8):
            loaded.node.kill_supervisor()
            loaded.node.spawn()
            threading.Event().wait(moments.uniform(0.05, 2 * MOMENT_MAX_S))
        loaded.node.kill_supervisor()
        loaded.node.start()
        loaded.judge()
