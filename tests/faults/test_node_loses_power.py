"""P1-P4, P6 for a whole node that loses its power again and again, while it starts and while messages pass in both directions.

All its processes' calls to the disk are recorded. Then they are stopped and killed, and the data folder becomes what a disk of the
seed's discipline has kept of it (``tests/support/model_disk.py``). The publishers at the node, the remote Mosquitto with its own
publishers, and the subscribers keep their sessions, and live on. The exchange with the remote is judged as under random faults, by
``tests/support/recorder.py``: lost, doubled, out of order. Messages from the remote are judged at a local subscriber.
"""

from __future__ import annotations

import os
import shutil
import signal
import threading
from contextlib import ExitStack
from pathlib import Path
from random import Random

import pytest

from tests.conftest import Chances
from tests.support.arrivals import Arrivals
from tests.support.model_disk import DISCIPLINES, ModelDisk, compile_recorder, environment, read_events
from tests.support.mosquitto import Mosquitto
from tests.support.node import Config, Node, bridge_config, node_config
from tests.support.proxy import Proxy
from tests.support.publisher import Publisher
from tests.support.recorder import Recorder
from tests.support.subscriber import Subscriber
from tests.support.waiting import wait_until

SEEDS = (0, 1, 2)  # one of each discipline
CUTS = 2
START_MAX_S = 1.5
PROGRESS = 20
RATE_PER_S = 100.0
DRAIN_DEADLINE_S = 120.0


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_recorder(tmp_path_factory.mktemp("recorder"))


def test_a_node_keeps_its_promises_over_losses_of_power(tmp_path: Path, library: Path, chances: Chances) -> None:
    cuts = messages = 0
    try:
        for seed in chances.seeds(SEEDS):
            discipline = DISCIPLINES[seed % len(DISCIPLINES)]
            try:
                with ExitStack() as stack:
                    scene = Scene(tmp_path / str(seed), library, stack, Random(seed))
                    for _ in range(CUTS):
                        scene.lose_power(seed % len(DISCIPLINES))
                        cuts += 1
                    messages += scene.judge()
            except BaseException as error:
                error.add_note(f"\n{discipline}; play it again with: {chances.replay(seed)}")
                raise
    finally:
        chances.say(
            f"lost power: {cuts} cuts of a whole node, {messages} messages, 0 lost, doubled or out of order but what is told"
        )


class Scene:
    """A node on a disk that is recorded, and who lives on without it."""

    def __init__(self, folder: Path, library: Path, stack: ExitStack, chance: Random) -> None:
        self._folder, self._chance, self._recorder = folder, chance, Recorder()
        self._log = folder / "recorded"
        remote = stack.enter_context(Mosquitto(folder / "remote", persistence=True, max_inflight_messages=0, max_queued_messages=0))
        far = stack.enter_context(Proxy(remote.port, tap=self._recorder))
        data = folder / "node" / "data"
        data.mkdir(parents=True)
        self._disk = ModelDisk(data)
        self._node = Node(_config(far.port), folder / "node", data_dir=data, environment=environment(library, self._log, data))
        stack.enter_context(self._node)
        near = stack.enter_context(Proxy(self._node.port))
        self._local = stack.enter_context(Subscriber(near.port, "down/#", client_id="local"))
        self._up = [stack.enter_context(self._publisher(near.port, f"up/q{qos}", qos)) for qos in (0, 1, 2)]
        with self._publisher(remote.port, "down/probe", 1):
            wait_until(lambda: self._local.payloads("down/probe"), DRAIN_DEADLINE_S, "the bridge has subscribed at the remote")
        self._down = [stack.enter_context(self._publisher(remote.port, f"down/q{qos}", qos)) for qos in (1, 2)]

    @staticmethod
    def _publisher(port: int, topic: str, qos: int) -> Publisher:
        return Publisher(port, topic, qos=qos, version=4, window=20, rate_per_s=RATE_PER_S)

    def lose_power(self, number: int) -> None:
        """Let it go on for a while, or only begin to start; then it is dark, and the machine starts with what the disk has."""
        if self._chance.random() < 0.5:
            threading.Event().wait(self._chance.uniform(0.0, START_MAX_S))
        else:
            self._node.wait_ready()
            came = self._local.count()
            for publisher in self._up:
                publisher.wait_acknowledged(self._chance.randint(1, PROGRESS))
            if self._chance.random() < 0.5:
                self._wait_for_more(came)
        pids = self._node.pids()  # the supervisor first: it starts nobody any more
        for pid in pids:
            _signal(pid, signal.SIGSTOP)
        recorded = self._log.stat().st_size if self._log.exists() else 0
        for pid in pids[1:]:  # who has not yet asked to die with the supervisor would stay, stopped
            _signal(pid, signal.SIGKILL)
        self._node.kill_supervisor()
        if self._log.exists():
            os.truncate(self._log, recorded)
        for event in read_events(self._log):
            self._disk.play(event)
        image = self._folder / "image"
        self._disk.image(image, DISCIPLINES[number], self._chance)
        self._log.unlink(missing_ok=True)
        shutil.rmtree(self._node.data_dir)
        image.rename(self._node.data_dir)
        self._disk = ModelDisk(self._node.data_dir)
        self._node.spawn()

    def _wait_for_more(self, came: int) -> None:
        wait_until(lambda: self._local.count() > came, DRAIN_DEADLINE_S, "a message from the remote")

    def judge(self) -> int:
        """Let everything arrive, and check all that is promised; how many messages that were."""
        self._node.wait_ready()
        for publisher in (*self._up, *self._down):
            publisher.finish(DRAIN_DEADLINE_S)
        self._node.wait_actors_ready(deadline_s=DRAIN_DEADLINE_S)
        row = self._node.wait_lane("cloud", depth=0, in_flight=0, deadline_s=DRAIN_DEADLINE_S)
        recorder = self._recorder
        for publisher in self._up[1:]:
            arrivals = Arrivals.of(recorder.taken(publisher.topic), publisher.sent)
            assert arrivals.are_exact(), f"{publisher.topic}: {arrivals}"
            assert publisher.sessions_lost == 0, "the node forgot a session that it had acknowledged"
        assert not recorder.duplicates(), f"QoS 2 duplicates: {recorder.duplicates()[:10]}"
        assert not recorder.faults, f"faults of the exchange: {recorder.faults[:10]}"
        assert not recorder.unfinished(), f"QoS 2 exchanges never completed: {recorder.unfinished()[:10]}"
        for publisher in self._down:
            arrivals = self._local.wait_for(publisher.topic, publisher.sent, deadline_s=DRAIN_DEADLINE_S)
            assert arrivals.are_complete(), f"{publisher.topic}: {arrivals}"
            assert publisher.qos < 2 or arrivals.are_exact(), f"{publisher.topic}: {arrivals}"
        assert row["ledger_closes"] is True, row
        assert not set(row["dropped"]) - {"qos0_memory", "restart"}, row
        return sum(len(publisher.sent) for publisher in (*self._up, *self._down))


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def _config(remote_port: int) -> Config:
    bridge = bridge_config(
        "cloud",
        remote_port,
        remote={"stall_timeout": "10s", "keep_alive": "20s"},
        local_subscriptions=[{"filters": ["up/#"]}],
        remote_subscriptions=[{"filters": ["down/#"]}],
    )
    return node_config(bridge)
