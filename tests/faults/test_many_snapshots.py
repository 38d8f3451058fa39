"""Months of snapshots on a machine that allows few open files: intake never stops, and a restart opens the store."""

from __future__ import annotations

from pathlib import Path

from tests.snapshots.test_node import make
from tests.support.mosquitto import Mosquitto
from tests.support.mqtt_client import MqttClient
from tests.support.mqtt_packets import PUBACK
from tests.support.node import Node, bridge_config, node_config
from tests.support.ports import free_port

DESCRIPTORS = 160  # a shared process has 64 for the store, half of these for its tables, and one for each lane: some are left
SNAPSHOTS, SOAK_SNAPSHOTS = 90, 2000
MESSAGE = b"m" * 5000  # a blob file of its own in each snapshot, as well
FILES_MAX = 300


def publish(client: MqttClient, number: int) -> None:
    """One message, which is taken."""
    client.publish(f"t/{number}", MESSAGE, qos=1, packet_id=1)
    assert client.expect(PUBACK).reason_code in (0, 0x10)


def test_months_of_snapshots_do_not_use_up_the_descriptors(remote: Mosquitto, tmp_path: Path, soak: bool) -> None:
    """One bridge delivers, one waits all the time. Of the snapshots there are events, whose keys follow one another."""
    config = node_config(
        bridge_config("cloud", remote.port),
        bridge_config("away", free_port()),
        snapshots={"keep": 3},
        limits={"min_free_disk": "0B"},
    )
    count = SOAK_SNAPSHOTS if soak else SNAPSHOTS
    with Node(config, tmp_path / "node", descriptors_max=DESCRIPTORS) as node:
        with MqttClient(node.port, "publisher", version=5) as client:
            assert client.connect().reason_code == 0
            for number in range(count):
                publish(client, number)
                make(node)
        files = len([*(node.data_dir / "store").glob("*.sst"), *(node.data_dir / "store").glob("*.blob")])
        node.restart()

        assert node.wait_lane("away", depth=count)["ledger_closes"] is True
        assert files < FILES_MAX
