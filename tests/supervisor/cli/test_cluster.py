"""Two real nodes of a cluster over a real log: who leads, what the other one refuses, and how an operator changes that."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from supervisor.control.client import ControlClient
from supervisor.control.control_socket import COMMANDS, ControlError, NotRunning
from tests.supervisor.http.client import request
from tests.support.nats import NatsServers
from tests.support.node import Config, Node, node_config
from tests.support.ports import free_port
from tests.support.waiting import wait_until

pytestmark = pytest.mark.process

DEADLINE_S = 60.0
# Commands that a node that stands by carries out itself.
OWN = {"ping", "status", "history", "stop", "reload", "reload.plan", "cluster.promote", "cluster.remove"}
ARGUMENTS = {"bridge": "cloud", "client_id": "c", "number": "1", "topic": "a", "member": "nobody", "lane": "0"}


class Cluster:
    """Two nodes, ``a`` and ``b``, and one server."""

    def __init__(self, nodes: dict[str, Node], servers: NatsServers) -> None:
        self.nodes = nodes
        self.servers = servers

    def status(self, member: str) -> dict[str, Any]:
        """The member's words; nothing while it changes its role."""
        try:
            return self.nodes[member].status()
        except NotRunning:
            return {"ready": False, "replication": {}}

    def replication(self, member: str) -> dict[str, Any]:
        figures: dict[str, Any] = self.status(member)["replication"]
        return figures

    def is_leader(self, member: str) -> bool:
        status = self.status(member)
        return bool(status["ready"] and status["replication"].get("role") == "leader")

    def leader(self) -> str:
        """The leader, once there is one and the other one knows."""

        def known() -> str:
            for member, other in (("a", "b"), ("b", "a")):
                one, two = self.replication(member), self.replication(other)
                knows = two.get("role") == "standby" and two.get("leader") == member
                roles = {member: "leader", other: "standby"}
                if knows and self.is_leader(member) and told_roles(one) == told_roles(two) == roles:
                    return member
            return ""

        return wait_until(known, DEADLINE_S, lambda: "\n".join(node.output[-2000:] for node in self.nodes.values()))

    def pair(self) -> tuple[Node, Node]:
        """The one that leads and the one that stands by."""
        leader = self.leader()
        return self.nodes[leader], self.nodes["b" if leader == "a" else "a"]


def told_roles(replication: dict[str, Any]) -> dict[str, str]:
    """Each member's word on its own part."""
    return {name: row["role"] for name, row in replication.get("members", {}).items()}


def config(servers: NatsServers, member: str, http_port: int) -> Config:
    replication = {"servers": servers.urls, "stream": "site", "member": member, "lease": "2s", "replicas": 1}
    replication["address"] = f"{member}.example:1883"
    return node_config(mode="replicated", replication=replication, http={"bind": f"127.0.0.1:{http_port}"})


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    with NatsServers(folder / "nats", 1) as servers:
        nodes = {member: Node(config(servers, member, free_port()), folder / member) for member in ("a", "b")}
        try:
            for node in nodes.values():
                node.spawn()
            wait_until(lambda: all("node.stands_by" in node.output for node in nodes.values()), DEADLINE_S, "both stand by")
            yield Cluster(nodes, servers)
        finally:
            for node in nodes.values():
                node.kill_supervisor()


def name(node: Node) -> str:
    return node.folder.name


def http_port(node: Node) -> int:
    port: int = int(json.loads(node.config_path.read_text())["http"]["bind"].rpartition(":")[2])
    return port


def test_the_status_tells_who_leads_and_how_far_the_others_are(cluster: Cluster) -> None:
    leader, standby = cluster.pair()
    for node, role in ((leader, "leader"), (standby, "standby")):
        done = node.cli("cluster", "show", str(node.config_path), "--json")
        told = json.loads(done.stdout)
        assert (done.returncode, told["role"], told["leader"], told["log"]) == (0, role, name(leader), "ready")
        assert told["leader_address"] == f"{name(leader)}.example:1883"
        assert {member: row["role"] for member, row in told["members"].items()} == {
            name(leader): "leader",
            name(standby): "standby",
        }

    shown = standby.cli("cluster", "show", str(standby.config_path)).stdout
    assert f"cluster site: {name(leader)} leads at {name(leader)}.example:1883, term" in shown
    assert f"is the member {name(standby)}: " in shown
    assert "log: ready" in shown
    assert "it leads, its lease for another" in leader.cli("cluster", "show", str(leader.config_path)).stdout


def test_the_nodes_status_says_first_that_it_stands_by(cluster: Cluster) -> None:
    leader, standby = cluster.pair()

    done = standby.cli("status", str(standby.config_path))
    lines = done.stdout.splitlines()
    assert done.returncode == 0
    assert "stands by" in lines[0]
    assert lines[1].startswith(f"cluster site: {name(leader)} leads at {name(leader)}.example:1883; this node is ")
    assert "no bridges" not in done.stdout
    assert "leads site, term" in leader.cli("status", str(leader.config_path)).stdout.splitlines()[1]


def test_load_balancers_and_prometheus_are_told(cluster: Cluster) -> None:
    leader, standby = cluster.pair()

    ready = request(http_port(standby), "/health/ready")
    assert (ready.status, ready.json["state"], ready.json["ready"]) == (503, "standby", False)
    assert "stands by" in ready.json["reasons"][0]
    assert request(http_port(standby), "/health/live").status == 200
    assert request(http_port(leader), "/health/ready").status == 200

    told = request(http_port(standby), "/metrics").body.decode()
    assert 'bascule_replication_role{role="standby"} 1.0' in told
    assert "bascule_replication_behind_messages 0.0" in told
    assert f'bascule_replication_member_silent_seconds{{member="{name(leader)}"}}' in told
    of_leader = request(http_port(leader), "/metrics").body.decode()
    assert 'bascule_replication_role{role="leader"} 1.0' in of_leader
    assert "bascule_replication_lease_left_seconds " in of_leader


@pytest.mark.parametrize("command", [command for command in COMMANDS if command not in OWN])
def test_what_is_for_the_leader_is_refused_and_says_who_that_is(cluster: Cluster, command: str) -> None:
    leader, standby = cluster.pair()
    before = standby.pids()

    with ControlClient.of_data_dir(standby.data_dir) as node, pytest.raises(ControlError) as refused:
        node.call(command, {argument: ARGUMENTS.get(argument, "1") for argument in COMMANDS[command]})

    assert refused.value.kind == "standby"
    assert f"this node stands by: {command} is for the one that leads; the leader is {name(leader)} at" in refused.value.message
    assert standby.pids() == before


def test_who_stands_by_reads_its_configuration_again(cluster: Cluster) -> None:
    _, standby = cluster.pair()
    before = standby.config_path.read_text()
    store = standby.pid("store")

    standby.config_path.write_text(json.dumps({**json.loads(before), "nonsense": 1}))
    assert standby.cli("reload", str(standby.config_path)).returncode != 0
    changed = json.loads(before)
    changed["log"] = {"level": "debug"}
    changed["snapshots"] = {"every": "1h"}
    standby.config_path.write_text(json.dumps(changed))
    done = standby.cli("reload", str(standby.config_path), "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    wait_until(lambda: not standby.status()["configuration"]["pending"], DEADLINE_S, "all go by it")
    status = standby.status()
    assert (status["configuration"]["number"], status["replication"]["role"]) == (2, "standby")
    assert status["snapshots"]["next_in_s"] is None, "of a cluster the leader makes them"
    assert standby.pid("store") == store

    changed["replication"]["lease"] = "4s"
    standby.config_path.write_text(json.dumps(changed))
    refused = standby.cli("reload", str(standby.config_path), "--yes")
    assert refused.returncode == 1
    assert "cannot change while the node runs" in refused.stdout + refused.stderr
    changed["replication"]["lease"] = "2s"
    standby.config_path.write_text(json.dumps(changed))


def test_the_doctor_looks_at_the_servers_and_asks_both_nodes(cluster: Cluster) -> None:
    for node in cluster.pair():
        told = [json.loads(line) for line in node.cli("doctor", str(node.config_path), "--json").stdout.splitlines()]
        by_about = {finding["about"]: finding for finding in told if finding["about"] != "log"}
        assert by_about[f"log server {cluster.servers.urls[0]}"]["verdict"] == "ok"
        assert by_about["stream site"]["verdict"] == by_about["log rights"]["verdict"] == "ok"
        assert by_about["log replicas"]["verdict"] == "warn", "one is for trying it out"
        assert "this node" in by_about["cluster site"]["found"]
        assert [finding for finding in told if finding["verdict"] == "fail"] == []


def test_a_member_that_is_not_known_is_said_so(cluster: Cluster) -> None:
    leader, standby = cluster.pair()
    for node in (leader, standby):
        refused = node.cli("cluster", "remove", str(node.config_path), "nobody")
        assert refused.returncode == 1
        assert "no member is called nobody" in refused.stderr
    refused = leader.cli("cluster", "step-down", str(leader.config_path), "--to", "nobody")
    assert (refused.returncode, "no member is called nobody" in refused.stderr) == (1, True)
    assert "that is the member that leads" in leader.cli("cluster", "remove", str(leader.config_path), name(leader)).stderr
    assert "cluster.step_down is for the one that leads" in standby.cli("cluster", "step-down", str(standby.config_path)).stderr
    removed = leader.cli("cluster", "remove", str(leader.config_path), name(standby))
    assert (removed.returncode, removed.stdout.startswith(f"{name(standby)}: removed")) == (0, True)
    cluster.leader()  # it has spoken again


def test_an_operator_says_who_leads(cluster: Cluster) -> None:
    leader, standby = cluster.pair()
    assert leader.cli("cluster", "promote", str(leader.config_path)).stdout == "it leads already\n"
    number = standby.status()["configuration"]["number"]

    done = standby.cli("cluster", "promote", str(standby.config_path))
    assert (done.returncode, f"{name(leader)} is asked to step down for it" in done.stdout) == (0, True), done
    wait_until(lambda: cluster.is_leader(name(standby)), DEADLINE_S, "the standby leads")
    now, before = cluster.pair()
    assert (now, before) == (standby, leader)
    assert now.status()["configuration"]["number"] == number, "what was read again before holds in the new role"

    done = now.cli("cluster", "step-down", str(now.config_path), "--to", name(before))
    assert (done.returncode, f"{name(before)} leads in a moment" in done.stdout) == (0, True)
    wait_until(lambda: cluster.is_leader(name(before)), DEADLINE_S, "the other one leads again")


def test_a_log_that_is_away_is_said_so_by_both(cluster: Cluster) -> None:
    leader, standby = cluster.pair()
    (server,) = cluster.servers.servers
    server.suspend()
    try:
        wait_until(lambda: cluster.replication(name(standby)).get("log") == "away", DEADLINE_S, "the log is away")
        done = standby.cli("cluster", "show", str(standby.config_path))
        assert (done.returncode, "log: away: " in done.stdout) == (1, True)
        assert "log away: " in standby.cli("status", str(standby.config_path)).stdout
        refused = standby.cli("cluster", "promote", str(standby.config_path))
        assert (refused.returncode, "nothing was done" in refused.stderr) == (1, True)
    finally:
        server.resume()
    assert name(leader) in cluster.nodes
    cluster.leader()
