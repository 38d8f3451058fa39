"""Snapshots on disks that refuse or are short of room: nothing half made is taken for whole, and messages come first."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from storage.snapshots.manifest import find_snapshots
from tests.faults.test_commit_held_back import disk_of, fill, small_disk
from tests.faults.test_disk_faults import shim
from tests.snapshots.opened import check
from tests.snapshots.test_node import ask, find_in, finished, folder, make, publish
from tests.support.node import Node, bridge_config, node_config
from tests.support.ports import free_port
from tests.support.shim import NO_SPACE, ON_CHANGE, ON_SYNC, DiskFaults
from tests.support.waiting import wait_until

pytestmark = pytest.mark.process

__all__ = ["shim", "small_disk"]  # fixtures

MIB = 1 << 20


@pytest.mark.parametrize("process", [None, "supervisor.tree.run"], ids=["store", "supervisor"])
def test_a_disk_that_refuses_at_any_step_leaves_nothing_half_made_and_no_message_is_held_up(
    shim: Path, tmp_path: Path, process: str | None
) -> None:
    """snapshots.named-when-whole: the store makes the checkpoint, the supervisor the rest: each of their first calls below the
    folder fails in turn.
    """
    data_dir = tmp_path / "data"
    faults = DiskFaults(shim, tmp_path / "control", data_dir / "snapshots", process)
    failed = made = 0
    config = node_config(bridge_config("away", free_port()))
    with Node(config, tmp_path / "node", data_dir=data_dir, environment=faults.environment) as node, faults.healed_at_last():
        publish(node, 200, size=500)
        check(make(node))
        for step in range(14):
            calls, error = ((NO_SPACE, errno.ENOSPC), (ON_CHANGE | ON_SYNC, errno.EIO))[step % 2]
            before = find_in(node)
            faults.fail(calls, error, after=step // 2, times=1)
            number = ask(node)
            publish(node, 20)
            result = finished(node, number)
            faults.heal()
            wait_until(lambda: not list(folder(node).glob(".part-*")), 10.0, "the rest to be removed")
            if result["state"] == "failed":
                failed += 1
                assert find_in(node) == before
            else:
                made += 1
                check(Path(result["path"]))
        check(make(node))
        assert failed >= 3
        assert node.lane("away")["accepted"] == 200 + 14 * 20
        assert not node.events("child.exited")


def test_snapshots_go_and_none_is_made_when_the_disk_runs_short(tmp_path: Path) -> None:
    """min_free_disk near: those there are go, one on order is refused, one on schedule is left out, and intake goes on."""
    config = node_config(bridge_config("away", free_port()), limits={"min_free_disk": "2MiB"}, snapshots={"every": "1s"})
    with disk_of(tmp_path / "disk", 128 * MIB) as disk, Node(config, tmp_path / "node", data_dir=disk / "data") as node:
        wait_until(lambda: node.events("snapshot.made"), 20.0, "a snapshot")
        for made in folder(node).glob("edge-*"):
            (made / "store" / "old.sst").write_bytes(bytes(2 * MIB))  # as a table that the store has released
        fill(disk, leave_bytes=40 * MIB)
        wait_until(lambda: node.events("snapshot.removed"), 20.0, lambda: f"the snapshots to go\n{node.output[-3000:]}")
        wait_until(lambda: node.events("snapshot.skipped"), 20.0, "a snapshot that is left out")
        refused = finished(node, ask(node))
        assert refused["state"] == "failed"
        assert "too little room" in refused["message"]
        assert {event["reason"] for event in node.events("snapshot.removed")} == {"min_free_disk"}
        publish(node, 20)
        assert node.lane("away")["accepted"] == 20


def test_a_checkpoint_on_a_slow_disk_is_not_taken_for_a_store_that_hangs(shim: Path, tmp_path: Path) -> None:
    """Each sync takes 50 ms: the store stands still for a while, and its heartbeats are in time all the same."""
    data_dir = tmp_path / "data"
    faults = DiskFaults(shim, tmp_path / "control", data_dir)
    config = node_config(bridge_config("away", free_port()))
    with Node(config, tmp_path / "node", data_dir=data_dir, environment=faults.environment) as node, faults.healed_at_last():
        publish(node, 200, size=500)
        store = node.pid("store")
        faults.slow_syncs(50)
        check(make(node))
        faults.heal()
        assert node.pid("store") == store


def test_a_folder_on_another_file_system_than_the_store_is_refused(tmp_path: Path) -> None:
    """The checkpoint would be a copy of everything, and the store would stand still meanwhile."""
    config = node_config(bridge_config("away", free_port()))
    with Node(config, tmp_path / "node") as node, disk_of(folder(node), 48 * MIB):
        publish(node, 20)
        refused = finished(node, ask(node))
        assert refused["state"] == "failed"
        assert "must be on the store's file system" in refused["message"]


def test_a_target_that_is_full_holds_up_nothing_and_is_shipped_to_when_there_is_room(small_disk: Path, tmp_path: Path) -> None:
    target = small_disk / "copies"
    config = node_config(bridge_config("away", free_port()), snapshots={"to": str(target)})
    filler = fill(small_disk)
    with Node(config, tmp_path / "node") as node:
        publish(node, 100, size=1000)
        made = make(node)
        wait_until(lambda: node.status()["snapshots"]["ship_failure"], 20.0, "a copy that fails")
        assert "make room" in node.status()["snapshots"]["ship_failure"]["message"]
        check(make(node))
        filler.unlink()
        made = make(node)
        wait_until(lambda: (node.status()["snapshots"]["shipped"] or {}).get("id") == made.name, 20.0, "the copies")
        assert len([found for found in find_snapshots(target) if not found.half_made]) == 3
        check(target / made.name)
