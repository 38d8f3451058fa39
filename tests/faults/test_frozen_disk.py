"""A disk that answers nothing for a while: the node says so, kills nobody for it in time, and goes on."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from supervisor.control.client import call
from tests.support.devices import make_device, mounted, run
from tests.support.mosquitto import Mosquitto
from tests.support.mqtt_client import MqttClient
from tests.support.mqtt_packets import PUBACK
from tests.support.node import Node, bridge_config, node_config
from tests.support.waiting import wait_until


@contextmanager
def frozen(place: Path) -> Iterator[None]:
    """The file system at ``place`` lets whoever writes wait."""
    run("fsfreeze", "--freeze", str(place))
    try:
        yield
    finally:
        subprocess.run(["fsfreeze", "--unfreeze", str(place)], check=True)


@pytest.mark.parametrize(("placement", "process"), [("isolated", "store"), ("together", "site")])
def test_a_node_whose_disk_hangs_does_not_say_that_it_is_ready(
    placement: str, process: str, tmp_path: Path, remote: Mosquitto
) -> None:
    make_device(tmp_path / "device", "ext4", 64 << 20)
    with (
        mounted(tmp_path / "device", tmp_path / "disk") as disk,
        Node(
            node_config(bridge_config("cloud", remote.port), placement=placement), tmp_path / "node", data_dir=disk / "data"
        ) as node,
    ):
        with MqttClient(node.port, "publisher") as client:
            client.connect()
            with frozen(disk):
                client.publish("t", "m", qos=1, packet_id=1)

                def silent() -> bool:
                    """The process that has the store, and no other, by all who tell; asked while it is told of no fresh figures."""
                    status = call(node.data_dir / "run", "status", timeout_s=20.0)
                    states = {row["name"]: row["state"] for row in status["processes"]}
                    return not status["ready"] and states.pop(process) == "silent" and set(states.values()) == {"ready"}

                wait_until(silent, 15.0, lambda: node.cli("status", str(node.config_path)).stdout)
                said = node.cli("status", str(node.config_path)).stdout
            client.expect(PUBACK, packet_id=1)
            wait_until(lambda: node.status()["ready"], 15.0, "it is ready again")
        assert "not ready" in said
        assert "has said nothing for" in said
        node.wait_lane("cloud", depth=0)
