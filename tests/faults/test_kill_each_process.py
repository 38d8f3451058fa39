"""P3: kill -9 of any one process under load, many times in a row. Acknowledged messages arrive, in order; QoS 2 exactly once."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.conftest import StartNode
from tests.faults.under_load import PROGRESS, published_after_release, under_load

KILLS, SOAK_KILLS = 5, 20
ACTOR_OF = {"clients": "listener", "store": "queue_store", "bridge": "connection:cloud:0"}  # one of each process
PROCESSES = list(ACTOR_OF)


@pytest.mark.parametrize("protocol", ["mqtt311", "mqtt5"])
@pytest.mark.parametrize("process", PROCESSES)
def test_kills_in_a_row(tmp_path: Path, start_node: StartNode, process: str, protocol: str, soak: bool) -> None:
    kills = SOAK_KILLS if soak else KILLS if protocol == "mqtt311" else KILLS // 2
    with under_load(tmp_path, start_node, protocol=protocol) as loaded:
        for _ in range(kills):
            loaded.node.wait_replaced(process, loaded.node.kill(process))
            loaded.wait_progress()
        loaded.judge()
        restarts = {row["name"]: row["restarts"] for row in loaded.node.status()["processes"]}
        name = loaded.node.hosts()[ACTOR_OF[process]]
    assert restarts == {other: kills if other == name else 0 for other in restarts}, "only what was killed is started again"


def test_all_processes_killed_at_once_again_and_again(tmp_path: Path, start_node: StartNode) -> None:
    """Every child dies at the same moment, three times."""
    with under_load(tmp_path, start_node) as loaded:
        for _ in range(3):
            killed = {process: loaded.node.pid(process) for process in PROCESSES}
            for pid in set(killed.values()):  # of one process, where they share it
                os.kill(pid, signal.SIGKILL)
            for process, pid in killed.items():
                loaded.node.wait_replaced(process, pid)
            loaded.wait_progress()
        loaded.judge()


def test_a_remote_that_restarts_gets_each_qos_2_message_once(tmp_path: Path, start_node: StartNode) -> None:
    """It keeps its sessions on disk: nothing is lost, and nothing that was released is ever published to it again.

    Mosquitto 2.0.11 itself sends QoS 2 messages to its subscriber again after a restart, also those whose PUBREC it had, so what
    the bridge did is read from its log.
    """
    with under_load(tmp_path, start_node, persistence=True) as loaded:
        for _ in range(3):
            loaded.remote.stop()
            loaded.crowd[1].wait_acknowledged(PROGRESS)
            loaded.remote.start()
            loaded.wait_progress()
        loaded.judge(remote_repeats=True)
        assert published_after_release(loaded.remote.log) == []
        connected = loaded.node.events("bridge.connected")
        assert all(event["session_present"] for event in connected[1:]), "the remote kept its session"
