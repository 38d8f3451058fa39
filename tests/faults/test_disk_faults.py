"""Disks that refuse, fall short, are slow or hang: no acknowledgement, no loss, nothing twice, no crash loop; it ends by itself.

The faults are made by ``shim.c``, preloaded into a real node; one test has a file system that is really full.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.faults.test_commit_held_back import fill, on_disk, small_disk
from tests.support.chance import chance
from tests.support.mosquitto import Mosquitto
from tests.support.mqtt_client import MqttClient
from tests.support.mqtt_packets import PUBACK
from tests.support.node import ROOT, Node, bridge_config, node_config
from tests.support.ports import accepts
from tests.support.publisher import Publisher
from tests.support.shim import (
    NO_SPACE,
    ON_CHANGE,
    ON_OPEN,
    ON_READ,
    ON_SYNC,
    ON_WRITE,
    READ_ONLY,
    DiskFaults,
    compile_shim,
)
from tests.support.subscriber import Subscriber
from tests.support.waiting import PATIENCE_S, holds_for, wait_still, wait_until
from wire.frames.names import STORE

__all__ = ["small_disk"]  # a fixture

REFUSALS = {
    "eio_on_write": (ON_WRITE, errno.EIO, "disk_error"),
    "eio_on_sync": (ON_SYNC, errno.EIO, "disk_error"),
    "enospc": (NO_SPACE, errno.ENOSPC, "disk_full"),
    "read_only": (READ_ONLY, errno.EROFS, "disk_error"),
}


@pytest.fixture(scope="session")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled shim."""
    return compile_shim(tmp_path_factory.mktemp("shim"))


class FaultyNode:
    """A node whose store is on a disk of which ``faults`` says what is wrong, and its remote with a subscriber."""

    def __init__(self, shim: Path, folder: Path, *, supervision: Mapping[str, str] | None = None, **bridge_keys: Any) -> None:
        folder.mkdir(exist_ok=True)
        self._stack = ExitStack()
        self.remote = Mosquitto(folder / "remote", max_inflight_messages=0, max_queued_messages=0)
        data_dir = folder / "edge" / "data"
        self.faults = DiskFaults(shim, folder / "faults", data_dir / "store")
        config = node_config(bridge_config("cloud", self.remote.port, **bridge_keys))
        config["supervision"] |= supervision or {}
        self.node = Node(config, folder / "edge", environment=self.faults.environment)
        assert self.node.data_dir == data_dir
        self.publishers: list[Publisher] = []

    def __enter__(self) -> FaultyNode:
        self._stack.enter_context(self.remote)
        self._stack.enter_context(_Killed(self.node))
        self._stack.enter_context(self.faults.healed_at_last())
        self.subscriber = self._stack.enter_context(Subscriber(self.remote.port, "#"))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def publish(self, *, rate_per_s: float = 400.0, size_bytes: int = 300) -> None:
        """Two publishers begin, at QoS 1 and 2, and are acknowledged."""
        for qos in (1, 2):
            publisher = Publisher(self.node.port, f"q{qos}", qos=qos, rate_per_s=rate_per_s, size_bytes=size_bytes)
            self.publishers.append(self._stack.enter_context(publisher))
        self.progress()

    def progress(self, messages: int = 60) -> None:
        """Wait until each publisher gets further acknowledgements."""
        for publisher in self.publishers:
            publisher.wait_acknowledged(messages, deadline_s=30.0)

    def acknowledged(self) -> list[int]:
        """How many messages of each publisher are acknowledged."""
        return [publisher.acknowledged for publisher in self.publishers]

    def acknowledged_in_the_end(self) -> list[int]:
        """The same once no acknowledgement is on its way any more, of what was committed before the disk refused."""
        return wait_still(self.acknowledged, period_s=1.0)

    def store_state(self) -> str:
        """The store in ``status``."""
        state: str = self.node.status()["store"].get("state", "")
        return state

    def restarts(self) -> dict[str, int]:
        """The restarts that were, by process."""
        return {row["name"]: row["restarts"] for row in self.node.status()["processes"] if row["restarts"]}

    def judge(self) -> None:
        """All is acknowledged in the end and arrives, QoS 2 once; no session was lost; the ledger closes."""
        sent = {publisher.topic: publisher.finish(deadline_s=40.0) for publisher in self.publishers}
        for topic, payloads in sent.items():
            arrivals = self.subscriber.wait_for(topic, payloads, deadline_s=30.0)
            assert arrivals.are_exact() if topic == "q2" else arrivals.are_complete(), (topic, arrivals)
        assert [publisher.sessions_lost for publisher in self.publishers] == [0, 0]
        lane = self.node.wait_lane("cloud", depth=0, in_flight=0)
        assert lane["ledger_closes"] is True, lane
        published = sum(map(len, sent.values()))
        assert lane["accepted"] == lane["delivered"] >= published, lane
        if not any(publisher.reconnects for publisher in self.publishers):  # one that does sends QoS 1 again
            assert lane["accepted"] == published, lane


class _Killed:
    """Leaves a node that a test started killed."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self._node.__exit__(None, None, None)


@pytest.fixture
def faulty(shim: Path, tmp_path: Path) -> Iterator[FaultyNode]:
    """A node that runs, with publishers at QoS 1 and 2 under way, on a disk with which nothing is wrong yet."""
    with FaultyNode(shim, tmp_path) as faulty:
        faulty.node.start()
        faulty.publish()
        yield faulty


@pytest.fixture
def watchful(shim: Path, tmp_path: Path) -> Iterator[FaultyNode]:
    """The same, with a supervisor that soon takes a store that hangs for dead."""
    with FaultyNode(shim, tmp_path, supervision={"heartbeat_timeout": "4s"}) as faulty:
        faulty.node.start()
        faulty.publish()
        yield faulty


@pytest.mark.parametrize("refusal", REFUSALS)
def test_a_disk_that_refuses_for_long_stops_acknowledgements_and_nothing_else(faulty: FaultyNode, refusal: str) -> None:
    calls, error, state = REFUSALS[refusal]
    faulty.faults.fail(calls, error)
    wait_until(lambda: faulty.store_state() == state, 10.0, lambda: f"{state}, not {faulty.store_state()}")
    seen = faulty.acknowledged_in_the_end()
    faulty.faults.wait_hits(3)
    assert faulty.acknowledged() == seen, "nothing is committed, so nothing may be acknowledged"
    assert faulty.restarts() == {}
    assert [event["state"] for event in faulty.node.events("store.unavailable")] == [state], "it is said, and once"
    faulty.faults.heal()
    faulty.progress()
    assert faulty.store_state() == "running"
    faulty.judge()
    assert faulty.restarts() == {}
    assert len(faulty.node.events("store.available")) == 1


def test_single_refusals_and_kills_at_any_moment_lose_nothing(faulty: FaultyNode, soak: bool) -> None:
    """One call fails, again and again, at a random place; in a third of the rounds the store is killed (-9) just then."""
    choose = chance()
    for turn in range(300 if soak else 8):
        calls, error = choose.choice(
            [(ON_WRITE, errno.EIO), (ON_SYNC, errno.EIO), (NO_SPACE, errno.ENOSPC), (ON_SYNC, errno.ENOSPC)]
        )
        faulty.faults.fail(calls, error, after=choose.randrange(12), times=choose.choice([1, 1, 2, 5]))
        faulty.faults.wait_hits()
        if turn % 3 == 2:
            pid = faulty.node.kill("store")
            faulty.node.wait_replaced("store", pid, works=False)
        faulty.faults.heal()
        faulty.progress(5)
    faulty.judge()
    kills = 100 if soak else 2
    assert faulty.restarts() == {faulty.node.place_of("store"): kills}, "only what was killed is started again"


def test_a_store_killed_again_and_again_while_the_disk_refuses_loses_nothing(faulty: FaultyNode) -> None:
    """Messages that were committed before are there after it; the others are still with their sender."""
    faulty.faults.fail(NO_SPACE, errno.ENOSPC)
    faulty.faults.wait_hits()
    for _ in range(5):
        faulty.node.wait_replaced("store", faulty.node.kill("store"), works=False)
        faulty.faults.wait_hits()
    wait_until(lambda: faulty.store_state() == "disk_full", 10.0, lambda: f"disk_full, not {faulty.store_state()}")
    faulty.faults.heal()
    faulty.progress()
    faulty.judge()
    assert faulty.restarts() == {faulty.node.place_of("store"): 5}


def test_slow_syncs_make_it_slower_and_nothing_else(faulty: FaultyNode) -> None:
    faulty.faults.slow_syncs(200)
    before = faulty.faults.syncs
    faulty.progress()
    assert faulty.faults.syncs > before
    assert faulty.store_state() == "running"
    faulty.judge()
    assert faulty.restarts() == {}
    assert [publisher.reconnects for publisher in faulty.publishers] == [0, 0]


def test_writes_that_fall_short_change_nothing(faulty: FaultyNode) -> None:
    """The kernel may take less than it was given; also while the store recovers."""
    faulty.faults.shorten_writes(7)
    faulty.progress(50)
    faulty.node.wait_replaced("store", faulty.node.kill("store"))
    faulty.progress(50)
    assert faulty.faults.shortened > 100
    faulty.judge()


def test_no_acknowledgement_while_a_sync_hangs_and_all_goes_on_after_it(watchful: FaultyNode) -> None:
    """The store is silent, so it is killed and started again, and hangs again; nothing is promised until the disk is back."""
    faulty = watchful
    faulty.faults.hang_syncs()
    wait_until(lambda: faulty.faults.hanging > 0, 10.0, "a sync that hangs")
    seen = faulty.acknowledged_in_the_end()
    wait_until(lambda: faulty.node.events("child.hung"), 10.0, "the silence is noticed")
    assert [event["child"] for event in faulty.node.events("child.hung")] == [faulty.node.place_of("store")]
    wait_until(lambda: faulty.restarts() == {faulty.node.place_of("store"): 1}, 10.0, "a new store")
    holds_for(lambda: faulty.acknowledged() == seen, 0.5, "nothing is synced, so nothing may be acknowledged")
    faulty.faults.heal()
    faulty.progress()
    faulty.judge()
    assert faulty.restarts() == {faulty.node.place_of("store"): 1}


@pytest.mark.parametrize("refusal", ["eio_on_write", "enospc"])
def test_a_node_that_starts_on_a_disk_that_refuses_waits_for_it(shim: Path, tmp_path: Path, refusal: str) -> None:
    """No crash loop; ``status`` answers and says why; it becomes ready by itself."""
    calls, error, state = REFUSALS[refusal]
    with FaultyNode(shim, tmp_path) as faulty:
        if refusal != "eio_on_write":  # on the first start there is nothing yet
            faulty.node.start()
            faulty.publish()
            faulty.node.kill_supervisor()
        faulty.faults.fail(calls, error)
        faulty.node.spawn()
        wait_until(
            lambda: faulty.node.events("store.unavailable"), 20.0, lambda: f"store.unavailable\n{faulty.node.output[-2000:]}"
        )
        faulty.faults.wait_hits(3)
        wait_until(lambda: faulty.store_state() == state, 10.0, lambda: f"{state}, not {faulty.store_state()}")
        assert faulty.restarts() == {}
        assert [event["state"] for event in faulty.node.events("store.unavailable")] == [state]
        assert not faulty.node.events("node.ready")
        faulty.faults.heal()
        wait_until(lambda: faulty.node.events("node.ready"), 20.0, lambda: f"node.ready\n{faulty.node.output[-2000:]}")
        if faulty.publishers:
            faulty.progress()
        else:
            faulty.publish()
        faulty.judge()
        assert faulty.restarts() == {}


def test_a_backlog_that_cannot_be_read_for_now_is_delivered_later(shim: Path, tmp_path: Path) -> None:
    """Its queue waits for the disk; intake goes on."""
    with FaultyNode(shim, tmp_path, tier2={"max_messages": 50}) as faulty:
        faulty.node.start()
        faulty.publish(rate_per_s=400.0, size_bytes=2000)  # so little that no memtable is full, whose flush would be read again
        faulty.remote.suspend()
        faulty.progress(600)
        faulty.node.wait_replaced("store", faulty.node.kill("store"))  # the successor has to read what it hands out
        faulty.progress(10)
        faulty.faults.fail(ON_READ, errno.EIO)
        faulty.remote.resume()
        wait_until(lambda: faulty.store_state() == "disk_error", 20.0, lambda: f"disk_error, not {faulty.store_state()}")
        faulty.progress()
        assert len(faulty.node.events("queue.unreadable")) == 1, "said once"
        assert not faulty.node.events("store.unavailable")
        faulty.faults.heal()
        faulty.progress()
        faulty.judge()
        assert faulty.restarts() == {faulty.node.place_of("store"): 1}


def test_disk_full_as_the_issue_says_it(tmp_path: Path, small_disk: Path, remote: Mosquitto) -> None:
    """No acknowledgement, no crash loop, a clear event and status, service resumes by itself when there is room."""
    config = node_config(bridge_config("cloud", remote.port))
    with (
        on_disk(small_disk, tmp_path, config) as node,
        Subscriber(remote.port, "#") as subscriber,
        Publisher(node.port, "t", qos=2, size_bytes=2000, rate_per_s=500) as publisher,
        MqttClient(node.port) as client,
    ):
        publisher.wait_acknowledged(100)
        filler = fill(small_disk)
        wait_until(lambda: node.status()["store"]["state"] == "disk_full", 60.0, "a status that says disk_full")
        assert "store disk_full" in node.cli("status", str(node.config_path)).stdout
        client.publish("t2", "while full", qos=1, packet_id=1)
        acknowledged = wait_still(lambda: publisher.acknowledged)
        assert client.is_silent_for(1.5), "no acknowledgement"
        assert publisher.acknowledged == acknowledged, "no acknowledgement"
        assert "No space left" in node.status()["store"]["error"], "a clear status"
        assert [event["state"] for event in node.events("store.unavailable")] == ["disk_full"], "a clear event, once"
        assert "disk.full" in node.cli("events", str(node.config_path)).stdout, "which is shown though it cannot be written"
        purged = node.cli("queue", "purge", str(node.config_path), "cloud", "--yes")
        assert (purged.returncode, "make room" in purged.stderr) == (1, True)
        filler.unlink()
        client.expect(PUBACK, packet_id=1, deadline_s=20.0)
        publisher.wait_acknowledged(100, deadline_s=40.0)
        assert subscriber.wait_for("t", publisher.finish()).are_exact()
        assert subscriber.wait_for("t2", ["while full"]).are_exact()
        assert publisher.sessions_lost == 0
        assert node.wait_lane("cloud", depth=0)["ledger_closes"] is True
        assert {row["restarts"] for row in node.status()["processes"]} == {0}, "no crash loop"
        assert node.status()["store"]["state"] == "running"


# --- the engine alone ---

OPENER = """
import os
import sys
from pathlib import Path
from storage.engine.engine import RocksEngine, Write
from wire.errors import Unavailable

def life(number):
    try:
        engine = RocksEngine(Path(sys.argv[2]))
    except Unavailable as error:
        return type(error).__name__
    try:
        rows = len(list(engine.scan("msg", b"", b"\\xff")))
        write = Write()
        write.put("msg", b"%06d" % number, b"x" * 5000)
        engine.commit(write, sync=True)
        answer = str(rows + 1)
    except Unavailable as error:
        answer = type(error).__name__
    if number % 2:
        engine.close()
    return answer

for number, _ in enumerate(sys.stdin):
    if os.fork() == 0:
        print(life(number), flush=True)
        os._exit(0)
    if os.wait()[1]:
        print("died", flush=True)
"""


class Opener:
    """Opens a store and adds a row, each time in a new process; every second one closes it, the others leave a log to replay."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        words = [sys.executable, "-c", OPENER, STORE, str(folder)]
        self._process = subprocess.Popen(
            words,
            cwd=ROOT,
            env={**os.environ, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def __enter__(self) -> Opener:
        return self

    def __exit__(self, *_: object) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)  # the one that opens it, too: it has the same pipes
        self._process.communicate(timeout=PATIENCE_S)

    def open(self) -> str:
        """How many rows there were then, or what kind of error there was; ``died`` when it was none of ours."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("again\n")
        self._process.stdin.flush()
        assert select.select([self._process.stdout], [], [], PATIENCE_S)[0], "the store neither opens nor refuses to"
        return self._process.stdout.readline().strip()


@pytest.mark.parametrize(
    ("calls", "error", "names"),
    [
        (ON_OPEN, errno.EMFILE, {"Unavailable"}),
        (ON_WRITE, errno.ENOSPC, {"DiskFull"}),
        (ON_SYNC, errno.EIO, {"Unavailable"}),
        (ON_CHANGE, errno.EROFS, {"Unavailable"}),
        (ON_READ, errno.EIO, {"Unavailable"}),
    ],
)
def test_whichever_call_fails_while_the_store_opens_and_closes_it_is_unavailable_and_whole(
    shim: Path, tmp_path: Path, calls: int, error: int, names: set[str], soak: bool
) -> None:
    """Our error and no other, nothing committed is missing, and the next attempt works. A soak tries every call."""
    faults = DiskFaults(shim, tmp_path / "faults", tmp_path / "store", word=STORE)
    with Opener(tmp_path / "store", faults.environment) as opener:
        rows = int(opener.open())
        failures = 0
        for at in range(80) if soak else sorted({2, 5, 8, chance().randrange(40)}):
            faults.fail(calls, error, after=at, times=-1 if calls == ON_READ else 1)  # RocksDB tries a read again
            answer = opener.open()
            assert answer in names or answer.isdigit(), f"call {at}: {answer!r}"
            failures += not answer.isdigit()
            faults.heal()
            healed = int(opener.open())
            assert healed >= rows + 1, f"call {at}: {healed} rows of {rows}"
            rows = healed
        assert failures


# --- the supervisor's own files ---


@pytest.mark.parametrize(("calls", "error"), [(NO_SPACE, errno.ENOSPC), (ON_SYNC, errno.EIO)])
def test_a_supervisor_that_cannot_write_its_files_says_so(shim: Path, tmp_path: Path, calls: int, error: int) -> None:
    """Status 75 and one plain line, not a traceback; with room again it starts, and epochs have not gone back."""
    data_dir = tmp_path / "edge" / "data"
    data_dir.mkdir(parents=True)
    faults = DiskFaults(shim, tmp_path / "faults", data_dir, word="supervisor.tree.run")
    node = Node(node_config(), tmp_path / "edge", data_dir=data_dir, environment=faults.environment)
    with faults.healed_at_last(), _Killed(node):
        for _ in range(2):  # an empty folder, and one in which a node has run
            faults.fail(calls, error)
            node.spawn()
            assert node.wait_ended() == 75, node.output
            assert faults.hits
            assert "Traceback" not in node.output
            assert os.strerror(error).lower() in node.output
            faults.heal()
            node.start()
            assert node.stop() == 0


def test_a_supervisor_that_cannot_reserve_epochs_waits_for_room(shim: Path, tmp_path: Path) -> None:
    """A restart needs an epoch, and a block of them a write: no room delays restarts, it does not end the node."""
    data_dir = tmp_path / "edge" / "data"
    faults = DiskFaults(shim, tmp_path / "faults", data_dir, word="supervisor.tree.run")
    config = node_config()
    config["supervision"]["restart_backoff"] = {"initial": "10ms", "max": "50ms"}
    node = Node(config, tmp_path / "edge", data_dir=data_dir, environment=faults.environment)
    with faults.healed_at_last(), _Killed(node):
        node.start()
        faults.fail(NO_SPACE, errno.ENOSPC)

        def processes() -> set[int]:
            return {pid for pid in [node.find_pid("clients")] if pid is not None}

        while not faults.hits:
            killed = node.kill("clients")
            wait_until(lambda: faults.hits or processes() - {killed}, 10.0, "a new one, or no room for it")  # noqa: B023
        faults.wait_hits(3)
        assert node.supervisor.poll() is None
        faults.heal()
        wait_until(lambda: accepts(node.port), 20.0, lambda: f"clients are let in\n{node.output[-2000:]}")
        with MqttClient(node.port) as client:
            client.publish("t", "m", qos=1, packet_id=1)
            client.expect(PUBACK, packet_id=1, deadline_s=10.0)
