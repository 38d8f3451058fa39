"""The disk gets back what was drained within a minute, whatever the pace and whoever died.

A small disk is filled until intake is refused and drained by a remote that is fast, again and again: intake goes on each time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.devices import make_device, mounted
from tests.support.mosquitto import Mosquitto
from tests.support.mqtt_client import MqttClient
from tests.support.mqtt_packets import PUBACK, publish_bytes
from tests.support.node import Config, Node, bridge_config, node_config
from tests.support.ports import free_port
from tests.support.waiting import wait_until

DISK_BYTES = 400 << 20
MIN_FREE_BYTES = 50 << 20
UNDER_WAY_BYTES = 16 << 20  # what comes between two looks at the disk, and what RocksDB writes before it deletes
ANEW_BYTES = 16 << 20  # what is alive in a quarter of the large files, written anew where much is dead while the disk fills
EMPTY_BYTES = 110 << 20  # RocksDB's logs, which are written over and over, and what may be dead
QUOTA_EXCEEDED = 0x97
WINDOW = 32
MESSAGE_BYTES = 20_000
ROUNDS, SOAK_ROUNDS = 2, 10
GIVEN_BACK_S = 60.0
DRAIN_S = 300.0


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small ext4 of its own."""
    make_device(tmp_path / "device", "ext4", DISK_BYTES)
    with mounted(tmp_path / "device", tmp_path / "disk") as place:
        yield place


def config_of(*bridges: Config) -> Config:
    return node_config(*bridges, limits={"min_free_disk": "50MiB", "max_messages": "unlimited", "max_bytes": "10GiB"})


class Filled:
    """A node whose data are on a small ``disk``."""

    def __init__(self, node: Node, disk: Path) -> None:
        self.node = node
        self._disk = disk

    @property
    def free_bytes(self) -> int:
        disk = os.statvfs(self._disk)
        return disk.f_bavail * disk.f_frsize

    @property
    def used_bytes(self) -> int:
        """The bytes of the data folder on the disk, open files that have no name any more included."""
        disk = os.statvfs(self._disk)
        return (disk.f_blocks - disk.f_bfree) * disk.f_frsize

    def fill(self, anew_bytes: int = 0) -> None:
        """Publish until the first message is refused: until then a good part was taken, and as much room is left as is to stay."""
        payload, taken, free_bytes, codes = os.urandom(MESSAGE_BYTES), 0, self.free_bytes, [0]
        with MqttClient(self.node.port, "filler", version=5) as client:
            assert client.connect().reason_code == 0
            while QUOTA_EXCEEDED not in codes:
                client.send(*(publish_bytes(5, "plant/1", payload, 1, number + 1) for number in range(WINDOW)))
                codes = [client.expect(PUBACK).reason_code or 0 for _ in range(WINDOW)]
                taken += MESSAGE_BYTES * sum(code != QUOTA_EXCEEDED for code in codes)
                free_bytes = min(free_bytes, self.free_bytes)
        assert taken > DISK_BYTES // 4
        assert free_bytes > MIN_FREE_BYTES - UNDER_WAY_BYTES - anew_bytes

    def takes(self) -> bool:
        """Whether a message is taken."""
        with MqttClient(self.node.port, "asker", version=5) as client:
            assert client.connect().reason_code == 0
            client.publish("plant/asks", "m", qos=1, packet_id=1)
            return client.expect(PUBACK).reason_code != QUOTA_EXCEEDED

    def wait_taking(self, used_bytes: float) -> None:
        """Within a minute intake goes on, and the folder takes no more than ``used_bytes``."""
        wait_until(self.takes, GIVEN_BACK_S, lambda: f"intake goes on; {self.used_bytes} bytes are taken", period_s=0.2)
        wait_until(
            lambda: self.used_bytes < used_bytes,
            GIVEN_BACK_S,
            lambda: f"{self.used_bytes} of {used_bytes}: {self.node.status()['store']}",
            period_s=0.2,
        )


def test_a_disk_that_was_full_and_is_drained_takes_again_within_a_minute_whoever_dies(
    disk: Path, tmp_path: Path, remote: Mosquitto, soak: bool
) -> None:
    """Killed as soon as nothing waits any more: what is to be given back is in no memory."""
    with Node(config_of(bridge_config("cloud", remote.port)), tmp_path / "node", data_dir=disk / "data") as node:
        filled, used_bytes = Filled(node, disk), EMPTY_BYTES / 1.3
        for _ in range(SOAK_ROUNDS if soak else ROUNDS):
            remote.stop()
            node.wait_lane_until(lambda lane: lane["state"] != "up", "the link is down")
            filled.fill()
            remote.start()
            node.wait_lane("cloud", depth=0, deadline_s=DRAIN_S)
            node.kill_supervisor()
            node.start()
            filled.wait_taking(used_bytes * 1.3)


def test_what_waits_for_another_remote_keeps_nothing_that_was_drained(disk: Path, tmp_path: Path, remote: Mosquitto) -> None:
    """Two bridges take the same; the messages of both stand side by side in each file."""
    config = config_of(bridge_config("cloud", remote.port), bridge_config("away", free_port()))
    with Node(config, tmp_path / "node", data_dir=disk / "data") as node:
        filled = Filled(node, disk)
        remote.stop()
        filled.fill()
        remote.start()
        node.wait_lane("cloud", depth=0, deadline_s=DRAIN_S)
        filled.wait_taking(EMPTY_BYTES + node.lane("away")["bytes"] * 1.25)


def test_what_an_ended_session_had_is_given_back(disk: Path, tmp_path: Path, remote: Mosquitto) -> None:
    """Its client comes back for it, and leaves without reading it."""
    sessions = {"queue_max_messages": 10**9, "queue_max_bytes": "10GiB"}
    config = {**config_of(bridge_config("cloud", remote.port)), "sessions": sessions}
    with Node(config, tmp_path / "node", data_dir=disk / "data") as node:
        filled = Filled(node, disk)
        with MqttClient(node.port, "reader", version=5, clean=False, session_expiry_s=3600) as reader:
            assert reader.connect().reason_code == 0
            reader.subscribe("plant/#", qos=1)
        filled.fill(ANEW_BYTES)  # the bridge's are dead meanwhile
        node.wait_lane("cloud", depth=0, deadline_s=DRAIN_S)
        with MqttClient(node.port, "reader", version=5) as reader:
            assert reader.connect().reason_code == 0
        filled.wait_taking(EMPTY_BYTES)
