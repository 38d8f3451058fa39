"""The log is away for long, and a person has the member that led last go on alone; later a cluster starts again with its store."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path

from tests.faults.test_take_over import Run
from tests.support.cluster import Member
from tests.support.node import bridge_config, node_config
from tests.support.waiting import wait_until

DEADLINE_S = 60.0


def test_by_hand_who_led_last_goes_on_alone_and_a_cluster_begins_anew_with_its_store(tmp_path: Path) -> None:
    """replication.foreign-log-left-alone: as the guide of clusters says it, under load."""
    with ExitStack() as stack:
        run = Run(tmp_path, stack)
        run.progress()
        leader, standby = run.leader, run.standby
        run.cluster.wait_level(standby)
        away = run.cluster.servers.servers[1:]
        for server in away:
            server.kill()
        members = run.cluster.members
        wait_until(
            lambda: all(named(member) == (leader.name, "standby", "away") for member in members),
            DEADLINE_S,
            lambda: f"each says who led last: {[member.replication() for member in members]}",
        )
        for member in members:
            assert member.node.stop() == 0
        replicated = {member.name: json.loads(member.node.config_path.read_text()) for member in members}
        leader.node.configure(node_config(bridge_config("cloud", run.remote.port)))
        leader.node.start()
        run.progress()
        assert leader.node.stop() == 0

        for server in away:
            server.start()
        for member in members:
            config = replicated[member.name]
            config["replication"]["stream"] += "-2"
            member.node.config_path.write_text(json.dumps(config))
        leader.node.spawn()
        run.leader = run.cluster.follow(but=standby)
        standby.node.spawn("--new-store")
        wait_until(lambda: is_level(standby), DEADLINE_S, lambda: f"level: {standby.replication()}\n{run.cluster.outputs()}")

        run.take_over("kill")
        assert run.leader is standby
        run.judge()


def named(member: Member) -> tuple[object, ...]:
    """The last leader, the part of ``member``, and whether it reaches the log, as it says itself."""
    said = member.replication()
    return said.get("leader"), said.get("role"), said.get("log")


def is_level(member: Member) -> bool:
    """Whether ``member`` stands by, and has all; while it takes a store it says less."""
    said = member.replication()
    return bool(said.get("role") == "standby" and said["log"] == "ready" and said.get("needs_base") == "" and said["behind"] == 0)
