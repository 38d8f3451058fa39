"""P1, P3: the store of a node is removed, moved away, swapped, covered or made read-only: at rest, under load and before a start.

Nothing that is published afterwards is acknowledged, a sentence says what is not there and what helps, and that helps. ``--soak``
does each of it 20 times; without, each trick is done once to a node that runs, at rest or under load, and some before a start.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from itertools import cycle, product
from pathlib import Path
from typing import Any, Self

import pytest

from supervisor.control.client import call
from tests.conftest import StartNode
from tests.support.devices import make_device, run
from tests.support.mqtt_client import MqttClient
from tests.support.mqtt_packets import PUBACK
from tests.support.node import Config, Node, bridge_config, node_config
from tests.support.placements import TOGETHER
from tests.support.ports import accepts, free_port
from tests.support.waiting import PATIENCE_S, wait_until
from wire.errors import BasculeError

TURNS = 20
BEFORE = 5  # messages that are acknowledged before anything happens
DEVICE_BYTES = 64 << 20
NEW_STORE = re.compile(r"bascule run \S+ --new-store")  # what helps, with the node's file where that is known


class OneAtATime:
    """Publishes one message after the other, and notes when each was sent that was acknowledged.

    Each is published once; but where the store shares its process with the clients, their connections end with that. It connects
    then, and publishes again what was not acknowledged, as MQTT has it: that may be there twice.
    """

    def __init__(self, node: Node) -> None:
        self.sent_s: dict[int, float] = {}  # of those that were acknowledged
        self._client = MqttClient(node.port, "one-at-a-time")
        self._port = node.port
        self._again = node.placement == TOGETHER
        self.repeats = 0
        self._next = 0
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._client.connect()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def waits(self) -> bool:
        """Whether a thread waits for acknowledgements."""
        return self._thread.is_alive()

    def close(self) -> None:
        """Publish nothing more, and wait for no more answers."""
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
        self._go_on()
        while self._again and not self._ending.is_set():
            wait_until(lambda: self._ending.is_set() or accepts(self._port), PATIENCE_S, "a Listener")
            with suppress(ConnectionError, OSError):
                self._client.connect()
                self.repeats += 1
                self._go_on()

    def _go_on(self) -> None:
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
    """A deed to a data folder, and its undoing; None: there is none. says: a part of the sentence that tells.

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


def move_all(data: Path, aside: Path) -> None:
    data.rename(aside / "data")


def move_all_back(data: Path, aside: Path) -> None:
    shutil.rmtree(data, ignore_errors=True)
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


def config() -> Config:
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
    """Messages that are published from ``gone_s`` on are not acknowledged, and the node says why."""
    if trick.ends is None:
        store = wait_until(lambda: gone(node), PATIENCE_S, lambda: f"the store is gone\n{node.output[-4000:]}")
        assert store is not None
        assert trick.says in store["error"], store
        assert NEW_STORE.search(store["error"])
        assert trick.says in node.cli("doctor", str(node.config_path)).stdout
    else:
        assert node.wait_ended() == trick.ends
        assert trick.says in node.output
        assert NEW_STORE.search(node.output)
    late = [number for number, sent_s in client.sent_s.items() if sent_s > gone_s]
    assert not late, f"acknowledged although the store was gone: {late}"


def gone(node: Node) -> dict[str, str] | None:
    try:
        store: dict[str, str] = node.status()["store"]
    except BasculeError:  # it does not listen yet
        return None
    return store if store.get("state") == "store_gone" else None


def judge_cured(node: Node, trick: Trick, aside: Path, client: OneAtATime, *, load: bool) -> None:
    """The undoing works, and all that was acknowledged is there; where there is none, a new store says what went with the old."""
    if trick.undo is None:
        acknowledged = len(client.sent_s)
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
    if client.waits and trick.ends is None:
        client.wait_acknowledged()
    client.close()
    acknowledged = len(client.sent_s)
    most = acknowledged + 1 + client.repeats  # one more was sent, and has no answer
    node.wait_lane_until(lambda lane: acknowledged <= lane["depth"] <= most, f"{acknowledged} to {most} messages")


def sparsely(every: Iterable[tuple[Any, ...]], step: int) -> list[Any]:
    """Parameters of which each ``step``-th runs always, the others in a soak."""
    marks = cycle([[], *[[pytest.mark.soak]] * (step - 1)])
    return [pytest.param(*values, marks=mark) for values, mark in zip(every, marks, strict=False)]


@pytest.mark.parametrize(("name", "load"), sparsely(product(TRICKS, (False, True)), 3))
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
            client = stack.enter_context(OneAtATime(node))
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
            judge_cured(node, trick, aside, client, load=load)
            if node.runs:
                node.kill_supervisor()


def wait_noted(node: Node, waiting: int) -> None:
    """Wait until the note beside the store has all that waits."""
    wait_until(lambda: f'"waiting": {waiting},'.encode() in (node.data_dir / "store.identity").read_bytes(), 10.0, "the note")


# --- before a start ---


@pytest.mark.parametrize("name", sparsely(product(TRICKS), 3))
def test_a_node_does_not_begin_with_another_store_than_its_own(
    start_node: StartNode, other_store: Path, tmp_path: Path, name: str, soak: bool
) -> None:
    (tmp_path / "other").symlink_to(other_store)
    trick = TRICKS[name]
    for _ in turns(soak):
        begin_without(start_node(config()), trick, tmp_path)


def begin_without(node: Node, trick: Trick, tmp_path: Path) -> None:
    """Start ``node`` after the trick was done to its folder."""
    refusing = {**config(), "node": {"name": "edge", "data_dir": str(node.data_dir), "new_store": "refuse"}}
    client = OneAtATime(node)
    with client:
        client.publish(BEFORE)
    if trick.do is older:
        keep_older(node, tmp_path)
    with client:
        aside = prepare(node, client, tmp_path)
    wait_noted(node, 2 * BEFORE)
    assert node.stop() == 0
    trick.do(node.data_dir, aside)
    node.configure(refusing)
    node.spawn()
    waits = trick.says.endswith("in its place")  # it must be opened to be known, and then is waited for
    if waits:
        store = wait_until(lambda: gone(node), PATIENCE_S, lambda: f"the store is gone\n{node.output[-4000:]}")
        assert store is not None
        assert trick.says in store["error"]
    else:
        assert node.wait_ended() == 75, "the service tries again: a disk may be mounted late"
        assert ("nothing of a store" if trick.ends is None else "node.new_store is refuse") in node.output
        assert NEW_STORE.search(node.output)
    judge_cured(node, trick, aside, client, load=False)
    if node.runs:
        node.kill_supervisor()


def test_the_folder_of_a_node_of_another_name_is_refused_unless_it_was_renamed(start_node: StartNode) -> None:
    node = start_node(config())
    with OneAtATime(node) as client:
        client.publish(BEFORE)
    assert node.stop() == 0
    node.configure({**config(), "node": {"name": "other", "data_dir": str(node.data_dir)}})
    node.spawn()
    assert node.wait_ended() == 65
    assert "of node edge" in node.output
    assert f"bascule run {node.config_path} --renamed" in node.output

    node.start("--renamed")
    assert node.wait_lane("cloud", depth=BEFORE)["ledger_closes"]
    node.restart()


def test_a_new_node_says_that_it_begins_and_what_is_in_the_way_of_a_new_store_is_kept(start_node: StartNode) -> None:
    node = start_node(config())
    assert [event["former"] for event in node.events("store.begins_new")] == [""]
    with OneAtATime(node) as client:
        client.publish(BEFORE)
    wait_noted(node, BEFORE)
    former = node.status()["store"]["store_id"]
    assert node.stop() == 0

    node.start("--new-store")

    store = node.status()["store"]
    assert (store["former_store"], store["lost"]) == (former, BEFORE)
    assert store["store_id"] != former
    (kept,) = node.data_dir.glob("store.before-*")
    assert (kept / "CURRENT").exists()
    found = call(node.data_dir / "run", "events", {"from": "0", "count": "100"})["events"]
    begun = [event for event in found if event["kind"] == "store.begun"]
    assert [(event["reason"], event["count"]) for event in begun] == [(former, BEFORE)]


# --- a disk of its own ---


def lazily(place: Path) -> None:
    run("umount", "-l", str(place))


def covered(place: Path) -> None:
    over = place.with_name("over")
    over.mkdir(exist_ok=True)
    run("mount", "--bind", str(over), str(place))


def read_only(place: Path) -> None:
    """As the kernel does it where it meets an error of the file system."""
    device = Path(os.path.realpath(f"/sys/dev/block/{os.major(place.stat().st_dev)}:{os.minor(place.stat().st_dev)}")).name
    trigger = Path(f"/sys/fs/ext4/{device}/trigger_fs_error")
    if not trigger.exists():
        pytest.skip("this machine does not let the test make an error of a file system")
    trigger.write_text("1")


@pytest.mark.parametrize(("load", "trick"), sparsely(product((False, True), (lazily, covered, read_only)), 2))
def test_nothing_is_acknowledged_once_the_disk_is_gone(
    tmp_path: Path, load: bool, trick: Callable[[Path], None], soak: bool
) -> None:
    for turn in turns(soak):
        lose_disk(tmp_path, trick, turn, load=load)


def lose_disk(tmp_path: Path, trick: Callable[[Path], None], turn: int, *, load: bool) -> None:
    """Do the trick to the disk of a node, and have the node begin again once the disk is back."""
    device, place = tmp_path / f"device-{turn}", tmp_path / f"place-{turn}"
    make_device(device, "ext4", DEVICE_BYTES)
    place.mkdir()
    with ExitStack() as stack:
        run("mount", "-o", "loop,errors=remount-ro", str(device), str(place))
        stack.callback(subprocess.run, ["sh", "-c", f"umount -l {place}; umount -l {place}"], capture_output=True, check=False)
        node = stack.enter_context(Node(config(), tmp_path / f"node-{turn}", data_dir=place / "data"))
        client = stack.enter_context(OneAtATime(node))
        client.publish(BEFORE)
        wait_noted(node, BEFORE)
        if load:
            client.load()
        trick(place)
        gone_s = time.monotonic()
        if not load:
            client.send_one()
        if trick is read_only:
            store = wait_until(lambda: node.status()["store"].get("error"), PATIENCE_S, lambda: f"trouble\n{node.output[-4000:]}")
            assert "Read-only file system" in store or "Input/output error" in store
        else:
            assert node.wait_ended() == 65
            assert "data_folder_gone" in node.output
            assert NEW_STORE.search(node.output)
        late = [number for number, sent_s in client.sent_s.items() if sent_s > gone_s]
        assert not late, f"acknowledged although the disk was gone: {late}"
        if node.runs:
            node.kill_supervisor()
    os.sync()
    again = device.with_suffix(".again")  # somebody else's mount namespace may still have the first one mounted, as it was left
    run("cp", "--sparse=always", str(device), str(again))
    run("mount", "-o", "loop", str(again), str(place))
    with ExitStack() as stack:
        stack.callback(subprocess.run, ["umount", "-l", str(place)], capture_output=True, check=False)
        node = stack.enter_context(Node(config(), tmp_path / f"node-{turn}", data_dir=place / "data"))
        acknowledged = len(client.sent_s)
        node.wait_lane_until(lambda lane: lane["depth"] >= acknowledged, f"{acknowledged} messages")
        node.stop()
