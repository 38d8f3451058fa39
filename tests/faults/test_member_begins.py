"""A member that is new, or was away for too long, begins with the leader's store, and can lead from then on."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.faults.test_store_gone import NEW_STORE
from tests.support.cluster import Cluster, Member
from tests.support.mosquitto import Mosquitto
from tests.support.mqtt_client import MqttClient
from tests.support.node import Config, bridge_config, node_config
from tests.support.publisher import Publisher
from tests.support.subscriber import Subscriber
from tests.support.waiting import wait_until

MESSAGES = 300


def config(remote_port: int, **replication: Any) -> Config:
    return node_config(bridge_config("cloud", remote_port), replication=replication)


def is_level(cluster: Cluster, member: Member, leader: Member) -> bool:
    """Whether ``member`` has what ``leader`` has on the log."""
    leads, said = leader.replication(), member.replication()
    return bool(said.get("leader")) and not said.get("needs_base") and said["sequence"] >= leads.get("sequence", 1 << 62)


def test_a_new_member_begins_with_the_leaders_store_and_leads_with_all_of_it(tmp_path: Path) -> None:
    """The log was trimmed long ago, and what waits is in the leader's store alone."""
    with ExitStack() as stack:
        remote = Mosquitto(tmp_path / "remote", max_inflight_messages=0, max_queued_messages=0)
        cluster = stack.enter_context(Cluster(config(remote.port), tmp_path))
        old = cluster.follow()
        late = next(member for member in cluster.members if member is not old)
        cluster.wait_level(late)
        late.kill()
        shutil.rmtree(late.node.data_dir)
        removed = old.order("cluster.remove", member=late.name)
        assert removed == {"removed": late.name}
        publishers = [stack.enter_context(Publisher(cluster.port, f"q{qos}", qos=qos, rate_per_s=500.0)) for qos in (1, 2)]
        for publisher in publishers:
            publisher.wait_acknowledged(MESSAGES)
        wait_until(lambda: old.replication()["log_first"] > 20, 30.0, lambda: f"a trimmed log: {old.replication()}")

        late.node.spawn()
        wait_until(lambda: is_level(cluster, late, old), 60.0, lambda: f"{late.replication()}\n{cluster.outputs()}")
        for publisher in publishers:
            publisher.wait_acknowledged(50)
        old.kill()
        assert cluster.follow(but=old) is late
        remote.start()
        stack.callback(remote.kill)
        with Subscriber(remote.port, "#") as subscriber:
            sent = [publisher.finish() for publisher in publishers]
            late.node.wait_lane("cloud", depth=0, in_flight=0, deadline_s=60.0)
            lane = late.node.lane("cloud")
            assert lane["ledger_closes"] is True
            assert lane["accepted"] >= sum(map(len, sent)), "the queue has all that was acknowledged by either node"
            assert subscriber.count() >= 0


def test_a_store_with_something_in_it_becomes_the_beginning_of_a_cluster(tmp_path: Path) -> None:
    """A node that was not replicated goes on with its queue; the other member gets that too."""
    with ExitStack() as stack:
        remote = Mosquitto(tmp_path / "remote", max_inflight_messages=0, max_queued_messages=0)
        cluster = Cluster(config(remote.port), tmp_path, first_leads=True)
        first, second = cluster.members
        replicated = first.node.config_path.read_text()
        alone = node_config(bridge_config("cloud", remote.port))
        first.node.configure(alone)
        with first.node, Publisher(first.node.port, "q1", qos=1) as publisher:
            publisher.wait_acknowledged(MESSAGES)
            sent = publisher.finish()
            assert first.node.lane("cloud")["depth"] == len(sent)
            assert first.node.stop() == 0
        first.node.config_path.write_text(replicated)

        stack.enter_context(cluster)
        assert cluster.follow() is first
        wait_until(lambda: is_level(cluster, second, first), 60.0, lambda: f"{second.replication()}\n{cluster.outputs()}")
        first.kill()
        assert cluster.follow(but=first) is second
        assert second.node.lane("cloud")["depth"] == len(sent)
        remote.start()
        stack.callback(remote.kill)
        second.node.wait_lane("cloud", depth=0, delivered=len(sent), deadline_s=60.0)


def test_clients_of_mqtt_5_are_sent_to_who_leads(tmp_path: Path) -> None:
    with ExitStack() as stack:
        remote = Mosquitto(tmp_path / "remote")
        cluster = stack.enter_context(Cluster(config(remote.port, standby="redirect", address="10.0.0.1:1883"), tmp_path))
        leader = cluster.follow()
        standby = next(member for member in cluster.members if member is not leader)
        cluster.wait_level(standby)
        client = MqttClient(standby.node.port, "c", version=5)
        stack.callback(client.close)
        connack = client.connect(deadline_s=10.0)
        assert connack.reason_code == 0x9C
        assert (0x1C, "10.0.0.1:1883") in connack.properties
        leader.kill()
        assert cluster.follow(but=leader) is standby
        assert client.connect(deadline_s=10.0).reason_code == 0, "who leads takes the client in, on the same port"


def test_a_node_that_goes_on_alone_leaves_its_cluster_and_is_not_let_back_in_unseen(tmp_path: Path) -> None:
    """replication.foreign-log-left-alone: its old place on the log means nothing then; its queue stays."""
    with ExitStack() as stack:
        remote = Mosquitto(tmp_path / "remote", max_inflight_messages=0, max_queued_messages=0)
        cluster = stack.enter_context(Cluster(config(remote.port), tmp_path))
        leader = cluster.follow()
        with Publisher(leader.node.port, "q1", qos=1) as publisher:
            publisher.wait_acknowledged(MESSAGES)
            sent = publisher.finish()
        assert leader.node.stop() == 0
        cluster.follow(but=leader)
        replicated = leader.node.config_path.read_text()
        leader.node.configure(node_config(bridge_config("cloud", remote.port)))
        with leader.node:
            assert leader.node.lane("cloud")["depth"] == len(sent)
            assert leader.node.events("replication.left")
            assert leader.node.stop() == 0
        leader.node.config_path.write_text(replicated)

        leader.node.spawn()
        assert leader.node.wait_ended() == 78
        assert NEW_STORE.search(leader.node.output)
