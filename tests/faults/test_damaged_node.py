"""A real node whose files were damaged while it was down: it starts, says what is lost, and delivers the rest to a Mosquitto."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import StartNode
from tests.faults.test_damaged_files import flip
from tests.support.mosquitto import Mosquitto, mosquitto_pub
from tests.support.node import Node, bridge_config, node_config
from tests.support.proxy import Proxy
from tests.support.subscriber import Subscriber
from tests.support.waiting import wait_until

COUNT = 200
BURST = 20
PAYLOADS = [f"message-{number:04d}-".ljust(5000, "x") for number in range(COUNT)]


def file_with(node: Node, pattern: str, content: bytes) -> tuple[Path, int]:
    """The file of the store that has ``content``, and where in it."""
    for path in sorted((node.data_dir / "store").glob(pattern)):
        at = path.read_bytes().find(content)
        if at >= 0:
            return path, at
    pytest.fail(f"no {pattern} with {content!r}")


def damage_log(node: Node) -> None:
    path, at = file_with(node, "*.log", b"message-0100-")
    flip(path, at + 2, 3)


def damage_blob(node: Node) -> None:
    path, at = file_with(node, "*.blob", b"message-0100-")
    flip(path, at + 2, 3)


def damage_table(node: Node) -> None:
    path = max((node.data_dir / "store").glob("*.sst"), key=lambda path: path.stat().st_size)
    flip(path, 20, 3)


def damage_manifest(node: Node) -> None:
    path = node.data_dir / "store" / (node.data_dir / "store" / "CURRENT").read_text().strip()
    flip(path, path.stat().st_size // 2, 3)


def damage_current_and_manifest(node: Node) -> None:
    damage_manifest(node)
    flip(node.data_dir / "store" / "CURRENT", 4, 3)


@pytest.mark.parametrize(
    ("damage", "flushed", "event", "loses"),
    [
        (damage_log, False, "store.commits_missing", True),
        (damage_blob, True, "queue.messages_damaged", True),
        (damage_table, True, "queue.messages_damaged", True),
        (damage_current_and_manifest, True, "store.damaged", False),
    ],
)
def test_a_node_serves_what_is_sound_and_counts_the_rest(
    remote: Mosquitto, start_node: StartNode, damage: Callable[[Node], None], flushed: bool, event: str, loses: bool, soak: bool
) -> None:
    """kill -9 with a backlog, a bit flips, and it is started: an event, a count, everything else delivered in order."""
    if damage is damage_table and not soak:
        pytest.skip("with --soak only: tests/faults/test_damaged_files.py does the same without a node")
    with Proxy(remote.port) as proxy, Subscriber(remote.port, "#") as subscriber:
        proxy.cut()
        node = start_node(node_config(bridge_config("cloud", proxy.port)))
        for start in range(0, COUNT, BURST):
            mosquitto_pub(node.port, "t", PAYLOADS[start : start + BURST], qos=1)
        node.wait_lane("cloud", depth=COUNT)
        if flushed:
            node.restart()  # what stood in the log is in tables now
            node.wait_lane("cloud", depth=COUNT)
        node.kill_supervisor()
        damage(node)
        node.start()
        assert node.lane("cloud")["accepted"] == COUNT, "no acknowledged message is forgotten"
        proxy.restore()
        row = node.wait_lane("cloud", depth=0)
        wait_until(lambda: node.events(event), 10.0, lambda: f"{event}, at the latest with the next commit\n{node.output[-4000:]}")
        lost = row["dropped"].get("damaged", 0)
        assert row["delivered"] + lost == COUNT
        assert row["ledger_closes"] is True
        assert (lost > 0) == loses
        mosquitto_pub(node.port, "t", ["after"], qos=1)
        subscriber.wait_for("t", ["after"])
        arrivals = subscriber.arrivals("t", [*PAYLOADS, "after"])
        assert (arrivals.unexpected, arrivals.out_of_order) == ([], []), "intact and in order"
        assert len(arrivals.missing) == lost
        assert node.find_pid("store") == node.pid("store")
        node.restart()
        assert not node.events("store.damaged"), "the next start finds nothing"
        assert not node.events("store.commits_missing")
        row = node.wait_lane("cloud", depth=0)
        assert (row["accepted"], row["ledger_closes"]) == (COUNT + 1, True)
