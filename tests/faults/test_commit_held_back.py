"""P1: an acknowledgement never leaves before its commit. The commit is held back in three ways, and service resumes each time."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.conftest import StartNode
from tests.support.mosquitto import Mosquitto
from tests.support.mqtt_client import MqttClient
from tests.support.mqtt_packets import PUBACK, PUBCOMP, PUBREC, PUBREL
from tests.support.node import Config, Node, bridge_config, node_config
from tests.support.placements import one_process_alone
from tests.support.publisher import Publisher
from tests.support.subscriber import Subscriber
from tests.support.waiting import PATIENCE_S, wait_until

PATIENT = {"heartbeat_period": "200ms", "heartbeat_timeout": "60s", "restart_backoff": {"initial": "20ms", "max": "200ms"}}
DISK_BYTES = 48 << 20


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of ``DISK_BYTES`` of its own."""
    with disk_of(tmp_path / "disk", DISK_BYTES) as path:
        yield path


@contextmanager
def disk_of(path: Path, size_bytes: int) -> Iterator[Path]:
    """A file system of that size, mounted at the new folder ``path``; skips the test where that is not allowed."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    path.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "tmpfs", str(path)]
    mounted = subprocess.run(words, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    if mounted.returncode != 0:
        pytest.skip(f"this environment does not allow mounting: {mounted.stderr.strip()}")
    yield path
    subprocess.run(["umount", "-l", str(path)], check=True, timeout=PATIENCE_S)


def fill(disk: Path, *, leave_bytes: int = 0) -> Path:
    """Fill ``disk`` with one file until only ``leave_bytes`` are free; the file."""
    path = disk / "filler"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
    try:
        while (free := os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize - leave_bytes) > 0:
            os.write(descriptor, b"\0" * min(free, 1 << 20))
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
    finally:
        os.close(descriptor)
    return path


@one_process_alone
def test_no_acknowledgement_while_the_store_stands_still(remote: Mosquitto, start_node: StartNode) -> None:
    """SIGSTOP: no PUBACK, no PUBREC. SIGCONT: both, and the messages arrive."""
    node = start_node(node_config(bridge_config("cloud", remote.port), supervision=PATIENT))
    with Subscriber(remote.port, "#") as subscriber, MqttClient(node.port) as client:
        client.publish("t", "before", qos=1, packet_id=1)
        client.expect(PUBACK, packet_id=1)
        node.kill("store", signal.SIGSTOP)
        client.publish("t", "one", qos=1, packet_id=2)
        client.publish("t", "two", qos=2, packet_id=3)
        assert client.is_silent_for(1.5), "nothing is committed, so nothing may be acknowledged"
        node.kill("store", signal.SIGCONT)
        client.expect(PUBACK, packet_id=2)
        client.expect(PUBREC, packet_id=3)
        client.acknowledge(PUBREL, 3)
        client.expect(PUBCOMP, packet_id=3)
        assert subscriber.wait_for("t", ["before", "one", "two"]).are_exact()


@one_process_alone
def test_no_pubcomp_while_the_store_stands_still(remote: Mosquitto, start_node: StartNode) -> None:
    """The removal of the identifier is committed before PUBCOMP."""
    node = start_node(node_config(bridge_config("cloud", remote.port), supervision=PATIENT))
    with MqttClient(node.port) as client:
        client.publish("t", "m", qos=2, packet_id=1)
        client.expect(PUBREC, packet_id=1)
        node.kill("store", signal.SIGSTOP)
        client.acknowledge(PUBREL, 1)
        assert client.is_silent_for(1.0), "the release is not committed"
        node.kill("store", signal.SIGCONT)
        client.expect(PUBCOMP, packet_id=1)


@one_process_alone
def test_a_qos_2_message_sent_again_after_its_connection_broke_before_the_commit_is_taken_once(
    remote: Mosquitto, start_node: StartNode
) -> None:
    """Its batch was not sent yet when its connection ended; its identifier is committed with it all the same."""
    node = start_node(node_config(bridge_config("cloud", remote.port), supervision=PATIENT))
    with Subscriber(remote.port, "#") as subscriber, MqttClient(node.port) as other:
        other.publish("t", "before", qos=1, packet_id=1)
        other.expect(PUBACK, packet_id=1)
        first = MqttClient(node.port, "publisher", clean=False)
        first.connect()
        node.kill("store", signal.SIGSTOP)
        other.publish("t", "holds", qos=1, packet_id=2)  # its batch is on its way, so the next one waits
        wait_until(lambda: node.status()["listener"]["outstanding_batches"] == 1, 10.0, "a batch on its way")
        first.publish("t", "once", qos=2, packet_id=7)
        first.close()
        wait_until(lambda: node.status()["listener"]["clients"] == 1, 10.0, "the publisher's connection is gone")
        again = MqttClient(node.port, "publisher", clean=False)
        connecting = threading.Thread(target=again.connect)
        connecting.start()
        wait_until(lambda: node.status()["listener"]["clients"] == 2, 10.0, "the publisher is back")
        node.kill("store", signal.SIGCONT)
        connecting.join(PATIENCE_S)
        assert not connecting.is_alive()
        again.publish("t", "once", qos=2, packet_id=7, dup=True)
        again.expect(PUBREC, packet_id=7)
        again.acknowledge(PUBREL, 7)
        again.expect(PUBCOMP, packet_id=7)
        assert subscriber.wait_for("t", ["before", "holds", "once"]).are_exact()
        assert node.lane("cloud")["accepted"] == 3
        again.close()


@one_process_alone
def test_a_store_killed_while_it_stands_still_loses_nothing(remote: Mosquitto, start_node: StartNode) -> None:
    """A message that it had read and not committed is resent to its successor: one PUBACK, one delivery."""
    node = start_node(node_config(bridge_config("cloud", remote.port), supervision=PATIENT))
    with Subscriber(remote.port, "#") as subscriber, MqttClient(node.port) as client:
        stopped = node.kill("store", signal.SIGSTOP)
        client.publish("t", "one", qos=1, packet_id=1)
        assert client.is_silent_for(0.5), "nothing is committed"
        os.kill(stopped, signal.SIGKILL)
        node.wait_replaced("store", stopped)
        client.expect(PUBACK, packet_id=1)
        assert subscriber.wait_for("t", ["one"]).are_exact()
        assert client.is_silent_for(0.2), "one PUBACK"


def on_disk(start_on: Path, tmp_path: Path, config: Config) -> Node:
    """A node, not started, whose data is on ``start_on``."""
    return Node(config, tmp_path / "edge", data_dir=start_on / "data")


@pytest.mark.parametrize("qos", [1, 2])
def test_a_full_disk_stops_acknowledgements_and_loses_nothing(
    tmp_path: Path, small_disk: Path, remote: Mosquitto, qos: int
) -> None:
    """ENOSPC in the middle of intake: no acknowledgement until there is room, then service resumes by itself."""
    with (
        on_disk(small_disk, tmp_path, node_config(bridge_config("cloud", remote.port))) as node,
        Subscriber(remote.port, "#") as subscriber,
        Publisher(node.port, "t", qos=qos, size_bytes=2000, rate_per_s=500) as publisher,
    ):
        publisher.wait_acknowledged(100)
        filler = fill(small_disk)
        stalled = wait_until_stalled(publisher)
        filler.unlink()
        publisher.wait_acknowledged(100, deadline_s=40.0)
        sent = publisher.finish()
        arrivals = subscriber.wait_for("t", sent, deadline_s=30.0)
        assert arrivals.are_exact() if qos == 2 else arrivals.are_complete(), (stalled, arrivals)
        assert publisher.sessions_lost == 0
        assert node.wait_lane("cloud", depth=0)["ledger_closes"] is True


def wait_until_stalled(publisher: Publisher) -> int:
    """Wait until a second passes without an acknowledgement; how many there were by then."""
    seen, since_s = publisher.acknowledged, time.monotonic()

    def stalled() -> bool:
        nonlocal seen, since_s
        if publisher.acknowledged != seen:
            seen, since_s = publisher.acknowledged, time.monotonic()
        return time.monotonic() - since_s > 1.0

    wait_until(stalled, 60.0, lambda: f"a disk that is really full; {publisher.acknowledged} were acknowledged")
    return seen


def test_min_free_disk_refuses_before_the_disk_is_full(tmp_path: Path, small_disk: Path, remote: Mosquitto) -> None:
    config = node_config(bridge_config("cloud", remote.port), limits={"min_free_disk": "8MiB"})
    with on_disk(small_disk, tmp_path, config) as node, Subscriber(remote.port, "#") as subscriber:
        with MqttClient(node.port, version=5) as client:
            client.publish("t", "before", qos=1, packet_id=1)
            assert client.expect(PUBACK, packet_id=1).reason_code < 0x80
            filler = fill(small_disk, leave_bytes=4 << 20)
            answers = Answers(client)
            answers.until(0x97)
            filler.unlink()
            answers.until(0x00)
        assert set(subscriber.wait_for("t", ["before", *answers.accepted]).unexpected) == set()


class Answers:
    """Publishes one message after another and remembers which were accepted."""

    def __init__(self, client: MqttClient) -> None:
        self._client = client
        self._count = 1
        self.accepted: list[str] = []

    def until(self, reason_code: int) -> None:
        """Publish until a PUBACK carries ``reason_code``."""
        wait_until(lambda: self._publish() == reason_code, 20.0, f"a PUBACK with 0x{reason_code:02x}")

    def _publish(self) -> int:
        self._count += 1
        payload = str(self._count)
        self._client.publish("t", payload, qos=1, packet_id=self._count)
        code = self._client.expect(PUBACK, packet_id=self._count).reason_code
        if code < 0x80:
            self.accepted.append(payload)
        return code
