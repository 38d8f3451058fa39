"""P1, P3: the store of a node is removed, moved away, swapped, covered or made read-only: at rest, under load and before a start.

Nothing that is published afterwards is acknowledged, a sentence says what is not there and what helps, and that helps. ``--soak``
does each of it 20 times.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import pytest

from tests.conftest import StartNode
from tests.support.mqtt_client import MqttClient
from tests.support.mqtt_packets import PUBACK
from tests.support.node import Config, Node, bridge_config, node_config
from tests.support.ports import free_port
from tests.support.waiting import PATIENCE_S, wait_until

TURNS = 20
BEFORE = 5  # messages that are acknowledged before anything happens
SILENCE_S = 0.7  # of the node: long enough for a commit and a look at the folder
DEVICE_BYTES = 64 << 20


class OneAtATime:
    """Publishes one message after the other, each once, and notes when each was sent that was acknowledged."""

    def __init__(self, port: int) -> None:
        self.sent_s: dict[int, float] = {}  # of those that were acknowledged
        self._client = MqttClient(port, "one-at-a-time")
        self._next = 0
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._client.connect()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join(PATIENCE_S)
        self._client.close()

    def publish(self, count: int) -> None:
        """Publish ``count`` messages that are acknowledged."""
        for _ in range(count):
            self._send()
            self._take(PATIENCE_S)

    def load(self) -> None:
        """Publish in a thread, until the end."""
        self._thread.start()
        wait_until(lambda: len(self.sent_s) > 3 * BEFORE, PATIENCE_S, "acknowledgements under load")

    def send_one(self) -> None:
        """Publish one message in a thread that waits for its acknowledgement until the end."""
        self._thread.start()

    def wait_acknowledged(self) -> None:
        """Wait until the message that waits is acknowledged."""
        before = len(self.sent_s)
        wait_until(lambda: len(self.sent_s) > before, PATIENCE_S, "an acknowledgement")

    def _run(self) -> None:
        with suppress(ConnectionError, OSError):
            while not self._ending.is_set():
                self._send()
                while not self._ending.is_set():
                    with suppress(TimeoutError):
                        self._take(0.1)
                        break

    def _send(self) -> None:
        self._at_s = time.monotonic()
        self._client.publish("u/a", f"{self._next}", qos=1)

    def _take(self, deadline_s: float) -> None:
        self._client.expect(PUBACK, deadline_s=deadline_s)
        self.sent_s[self._next] = self._at_s
        self._next += 1


@dataclass(frozen=True)
class Trick:
    """What is done to a data folder, and what undoes it; None: nothing does. says: a part of the sentence that tells.

    ends: the status with which a running node ends; None: it goes on and waits.
    """

    do: Callable[[Path, Path], None]
    undo: Callable[[Path, Path], None] | None
    says: str
    ends: int | None = None


def put_back(data: Path, aside: Path) -> None:
    shutil.rmtree(data / "store", ignore_errors=True)
    (aside / "store").rename(data / "store")


def move(data: Path, aside: Path) -> None:
    (data / "store").rename(aside / "store")


def empty(data: Path, aside: Path) -> None:
    move(data, aside)
    (data / "store").mkdir()


def another(data: Path, aside: Path) -> None:
    move(data, aside)
    shutil.copytree(aside.parent / "other" / "data" / "store", data / "store")


def older(data: Path, aside: Path) -> None:
    move(data, aside)
    shutil.copytree(aside.parent / "older", data / "store")


def remove_file(pattern: str) -> Callable[[Path, Path], None]:
    def remove(data: Path, aside: Path) -> None:
        shutil.copytree(data / "store", aside / "store", dirs_exist_ok=True)
        for path in (data / "store").glob(pattern):
            path.unlink()

    return remove


def move_all(data: Path, aside: Path) -> None:
    data.rename(aside / "data")


def move_all_back(data: Path, aside: Path) -> None:
    (aside / "data").rename(data)


TRICKS = {
    "rm -r store": Trick(lambda data, _: shutil.rmtree(data / "store"), None, "nothing of a store"),
    "mv store": Trick(move, put_back, "nothing of a store"),
    "an empty folder": Trick(empty, put_back, "nothing of a store"),
    "another node's store": Trick(another, put_back, "is in its place"),
    "an older copy": Trick(older, put_back, "an older copy of it is in its place"),
    "rm -r data": Trick(lambda data, _: shutil.rmtree(data), None, "data_folder_gone", ends=65),
    "mv data": Trick(move_all, move_all_back, "data_folder_gone", ends=65),
}


def config(**node: str) -> Config:
    """A node whose bridge reaches nobody: everything that was acknowledged waits."""
    return node_config(bridge_config("cloud", free_port()))


def turns(soak: bool) -> range:
    return range(TURNS if soak else 1)


def prepare(node: Node, client: OneAtATime, folder: Path) -> Path:
    """A node with some messages, of which an older copy is kept; a place for what is moved aside."""
    aside = folder / "aside"
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir()
    client.publish(BEFORE)
    return aside


def keep_older(node: Node, folder: Path) -> None:
    """Copy the store as it is between two runs, and have another node's store beside it."""
    assert node.stop() == 0
    shutil.rmtree(folder / "older", ignore_errors=True)
    shutil.copytree(node.data_dir / "store", folder / "older")
    node.start()


@pytest.fixture(scope="module")
def other_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of another node, which has ended."""
    folder = tmp_path_factory.mktemp("other")
    with Node(config(), folder) as node, MqttClient(node.port) as client:
        client.publish_burst("u/a", ["other's"] * 50, 1)
        client.close()
        node.stop()
    return folder


def judge_gone(node: Node, trick: Trick, client: OneAtATime, gone_s: float) -> None:
    """What is published from ``gone_s`` on is not acknowledged, and the node says why."""
    if trick.ends is None:
        store = wait_until(lambda: gone(node), PATIENCE_S, lambda: f"the store is gone\n{node.output[-4000:]}")
        assert store is not None
        assert trick.says in store["error"], store
        assert "bascule run CONFIG --new-store" in store["error"]
        assert trick.says in node.cli("doctor", str(node.config_path)).stdout
    else:
        assert node.wait_ended() == trick.ends
        assert trick.says in node.output
        assert "bascule run CONFIG --new-store" in node.output
    late = [number for number, sent_s in client.sent_s.items() if sent_s > gone_s]
    assert not late, f"acknowledged although the store was gone: {late}"


def gone(node: Node) -> dict[str, str] | None:
    store: dict[str, str] = node.status()["store"]
    return store if store.get("state") == "store_gone" else None


def judge_cured(node: Node, trick: Trick, aside: Path, acknowledged: int, *, waits: OneAtATime, load: bool) -> None:
    """What undoes it does, and all that was acknowledged is there; where nothing does, a new store says what went with the old."""
    if trick.undo is None:
        if node.runs:
            assert node.stop() == 0
        node.start("--new-store")
        store = node.status()["store"]
        assert store["lost"] <= acknowledged
        assert load or store["lost"] == (acknowledged if trick.ends is None else 0), "as the note beside it had it, if it is there"
        assert store["since_ms"] > 0
        return
    trick.undo(node.data_dir, aside)
    if not node.runs:
        node.start()
    node.wait_actors_ready()
    if trick.ends is None:
        waits.wait_acknowledged()
        acknowledged = len(waits.sent_s)
        waits.__exit__()
    node.wait_lane_until(lambda lane: lane["depth"] in (acknowledged, acknowledged + 1), f"{acknowledged} messages")


@pytest.mark.parametrize("load", [False, True], ids=["at rest", "under load"])
@pytest.mark.parametrize("name", TRICKS)
def test_nothing_is_acknowledged_once_the_store_is_gone(
    start_node: StartNode, other_store: Path, tmp_path: Path, name: str, load: bool, soak: bool
) -> None:
    (tmp_path / "other").symlink_to(other_store)
    trick = TRICKS[name]
    for _ in turns(soak):
        with ExitStack() as stack:
            node = start_node(config())
            if trick.do is older:
                keep_older(node, tmp_path)
            client = stack.enter_context(OneAtATime(node.port))
            aside = prepare(node, client, tmp_path)
            if load:
                client.load()
            else:
                wait_noted(node, BEFORE)
            trick.do(node.data_dir, aside)
            gone_s = time.monotonic()
            if not load:
                client.send_one()
            judge_gone(node, trick, client, gone_s)
            acknowledged = len(client.sent_s)
            judge_cured(node, trick, aside, acknowledged, waits=client, load=load)
            if node.runs:
                node.kill_supervisor()


def wait_noted(node: Node, waiting: int) -> None:
    """Wait until the note beside the store has all that waits."""
    wait_until(lambda: f'"waiting": {waiting},'.encode() in (node.data_dir / "store.identity").read_bytes(), 10.0, "the note")
