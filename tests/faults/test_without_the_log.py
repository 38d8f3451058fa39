"""``on_loss: degrade`` with real nodes, servers and a remote: the leader goes on without the log; then all is on it again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.faults.test_take_over import Run
from tests.support.node import Node
from tests.support.waiting import wait_until

DEGRADE = {"on_loss": "degrade", "degrade_after": "2s"}
DEADLINE_S = 60.0


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    """A cluster under load; who stands by has all."""
    with ExitStack() as stack:
        run = Run(tmp_path, stack, replication=DEGRADE)
        run.progress()
        run.cluster.wait_level(run.standby)
        yield run


def test_a_leader_goes_on_without_the_log_and_another_begins_anew_with_its_store(run: Run) -> None:
    leader, standby = run.leader, run.standby
    assert leader.replication()["shared"]
    away = run.cluster.servers.servers[1:]
    for server in away:
        server.kill()
    wait_until(lambda: leader.replication().get("log") == "alone", DEADLINE_S, lambda: f"alone: {leader.replication()}")
    run.progress()

    said = leader.replication()
    assert (said["shared"], said["lease_left_s"], said["ready"]) == (False, None, True)
    assert said["alone_commits"] > 0
    assert said["alone_since_ms"] > 0
    assert accepted_alone(leader.node) > 0
    shown = leader.node.cli("cluster", "status", str(leader.node.config_path))
    assert (shown.returncode, "is on this node's disk alone" in shown.stdout) == (1, True), shown.stdout
    leader.kill()
    leader.node.spawn()
    wait_until(lambda: leader.replication().get("log") == "alone", DEADLINE_S, "it goes on alone after a crash of the whole node")
    run.progress()
    assert not standby.leads()

    for server in away:
        server.start()
    wait_until(
        lambda: is_shared(leader.replication()),
        DEADLINE_S,
        lambda: f"shared again: {leader.replication()}\n{leader.node.output[-2000:]}",
    )
    wait_until(
        lambda: is_level(standby.replication()),
        DEADLINE_S,
        lambda: f"level: {standby.replication()}\n{standby.node.output[-2000:]}",
    )
    wait_until(lambda: accepted_alone(leader.node) == 0, DEADLINE_S, "the ledger is nobody's alone any more")
    kinds = leader.node.cli("events", str(leader.node.config_path)).stdout
    assert "log.left" in kinds
    assert "log.rejoined" in kinds

    run.done["step down"] += 1
    leader.node.stop()
    run.leader = run.cluster.follow(but=leader)
    leader.node.spawn()
    run.judge()


def test_only_a_person_has_another_member_lead(run: Run) -> None:
    leader, standby = run.leader, run.standby
    leader.kill()
    wait_until(lambda: standby.replication().get("silent_s", 0.0) > 6.0, DEADLINE_S, "three leases without a word")
    assert not standby.leads()
    assert standby.replication()["takes_over"] is False

    said = standby.node.cli("cluster", "promote", str(standby.node.config_path), "--force")
    assert (said.returncode, "nobody is asked" in said.stdout) == (0, True), said.stdout
    run.leader = run.cluster.follow(but=leader)
    leader.node.spawn()
    wait_until(leader.stands_by, DEADLINE_S, "the former leader stands by")
    run.judge()


def test_who_went_on_alone_while_another_was_made_to_lead_says_so_and_ends(run: Run) -> None:
    leader, standby = run.leader, run.standby
    leader.cut_off()
    wait_until(lambda: leader.replication().get("log") == "alone", DEADLINE_S, lambda: f"alone: {leader.replication()}")
    assert standby.node.cli("cluster", "promote", str(standby.node.config_path), "--force").returncode == 0
    run.cluster.follow(but=leader)

    leader.reconnect()

    assert leader.node.wait_ended() == 78
    assert "another member has led meanwhile" in leader.node.output


def is_shared(said: dict[str, Any]) -> bool:
    """Whether a leader has the log, and others what it has."""
    return bool(said.get("log") == "ready" and said["shared"])


def is_level(said: dict[str, Any]) -> bool:
    """Whether a member stands by, and has all; while it takes a store it says less."""
    return bool(said.get("role") == "standby" and said["log"] == "ready" and said.get("needs_base") == "" and said["behind"] == 0)


def accepted_alone(node: Node) -> int:
    """Messages that no other member can take."""
    return sum(row["accepted_alone"] for row in node.status()["bridges"])
