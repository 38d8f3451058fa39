"""A real node is backed up under load, destroyed and restored elsewhere: no message is lost or taken for a repeat."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from supervisor.control.client import call
from tests.conftest import StartNode
from tests.support.fake_remote import FakeRemote
from tests.support.mosquitto import Mosquitto, mosquitto_pub
from tests.support.mqtt_client import MqttClient
from tests.support.mqtt_packets import PUBLISH
from tests.support.node import Node, bridge_config, node_config
from tests.support.publisher import Publisher
from tests.support.subscriber import Subscriber
from tests.support.waiting import wait_until

pytestmark = pytest.mark.process


def backed_up(node: Node, folder: Path) -> Path:
    """``bascule backup``; where it is."""
    done = node.cli("backup", str(node.config_path), "--to", str(folder), "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    return Path(json.loads(done.stdout)["path"])


def restored(node: Node, backup: Path, tmp_path: Path) -> Node:
    """``bascule restore`` to a new folder, and the node of it, which runs while its context lasts."""
    config = json.loads(node.config_path.read_text())
    again = Node({key: value for key, value in config.items() if key not in ("node", "listeners")}, tmp_path / "elsewhere")
    again.configure(
        {key: value for key, value in json.loads(node.config_path.read_text()).items() if key not in ("node", "listeners")}
    )
    done = node.cli("restore", str(again.config_path), str(backup), "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "must never run again" in done.stdout
    return again


def test_a_destroyed_node_goes_on_elsewhere_in_a_new_session(start_node: StartNode, tmp_path: Path) -> None:
    """store.restored-begins-anew: the remote holds identifiers of what was sent after the backup; later messages have them."""
    with FakeRemote() as remote:
        node = start_node(node_config(bridge_config("cloud", remote.port, protocol="mqtt5")))
        with Publisher(node.port, "load/2", qos=2, mark="old ") as publisher:
            publisher.wait_acknowledged(100)
            before = publisher.acknowledged
            backup = backed_up(node, tmp_path / "backups")
            publisher.wait_acknowledged(100)
            remote.stalled = True
            seen = len(remote.delivered)
            publisher.wait_acknowledged(100)
            wait_until(lambda: len(remote.delivered) > seen + 5, 20.0, "messages that the remote holds and answers not")
            node.kill_supervisor()
            sent = publisher.sent
        shutil.rmtree(node.data_dir)
        remote.stalled = False

        with restored(node, backup, tmp_path) as again:
            with Publisher(again.port, "load/2", qos=2, mark="new ") as publisher:
                publisher.wait_acknowledged(len(sent))
                new = publisher.finish()
            again.wait_lane("cloud", depth=0, ledger_closes=True, deadline_s=40.0)
        came = [packet.payload.decode() for packet in remote.delivered]
        assert True in remote.connects, "the remote is made to end the session"
    lost = [payload for payload in sent if payload not in set(came)]
    assert all(payload in sent[before:] for payload in lost), "only what came after the backup was lost with the disk"
    assert [came.count(payload) for payload in new] == [1] * len(new), "and what came after the restore arrives once"


def test_what_a_remote_has_kept_for_a_destroyed_node_comes_to_the_one_that_was_restored(
    remote: Mosquitto, start_node: StartNode, tmp_path: Path
) -> None:
    """exchange.left-identifiers-released: the session goes on once the remote has released every identifier."""
    node = start_node(
        node_config(
            bridge_config(
                "cloud", remote.port, local_subscriptions=[{"filters": ["load/#"]}], remote_subscriptions=[{"filters": ["cmd/#"]}]
            )
        )
    )
    node.wait_lane("cloud", state="connected")
    with MqttClient(node.port, "commanded", clean=False) as client:
        client.subscribe("cmd/#", qos=1)
    with Publisher(node.port, "load/2", qos=2) as publisher:
        publisher.wait_acknowledged(50)
        backup = backed_up(node, tmp_path / "backups")
        publisher.wait_acknowledged(50)
        node.kill_supervisor()
    shutil.rmtree(node.data_dir)
    mosquitto_pub(remote.port, "cmd/1", ["kept for it"], qos=1)

    with Subscriber(remote.port, "load/#", qos=2) as subscriber, restored(node, backup, tmp_path) as again:
        with Publisher(again.port, "load/2", qos=2, mark="new ") as publisher:
            publisher.wait_acknowledged(200)
            new = publisher.finish()
        again.wait_lane("cloud", depth=0, ledger_closes=True, deadline_s=40.0)
        with MqttClient(again.port, "commanded", clean=False) as client:
            assert client.expect(PUBLISH).payload == b"kept for it"
        came = subscriber.wait_for("load/2", new)
        assert (came.missing, came.duplicates, came.out_of_order) == ([], [], [])
        assert [event["kind"] for event in call(again.data_dir / "run", "events")["events"]].count("node.restored") == 1
