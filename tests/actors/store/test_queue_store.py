"""The QueueStore as an actor: frames in by its mailbox, answers out, and a disk that refuses is waited for."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.process.host import ChildHost
from actors.process.mailbox import Mailbox, TimerDue
from actors.process.post import Post
from actors.store.queue_store import QueueStore
from storage.engine.engine import RocksEngine
from storage.engine.store_identity import begin_store
from tests.storage.building import QUEUE, append_frame, batch, messages, node
from tests.support.waiting import PATIENCE_S
from wire.config_settings import NodeSettings
from wire.figure import of_values
from wire.frames.frame import Frame, FrameType
from wire.frames.intake import Committed
from wire.frames.lanes import Credit, HandOut, LaneOpen, LaneOpened
from wire.frames.names import CLIENTS, QUEUE_STORE, STORE, SUPERVISOR
from wire.frames.supervision import Heartbeat, ReportNow, Stop
from wire.status.states import StoreState
from wire.status.store import StoreReport

DEADLINE_S = PATIENCE_S
LANE = "bridge:cloud:0"


class Peer:
    """One process's sockets, driven by the test."""

    def __init__(self, run_dir: Path, process: str) -> None:
        self.post = Post(run_dir, process)

    def tell(self, frame: Frame, to: str = QUEUE_STORE) -> None:
        self.post.send(to, frame)

    def expect(self, kind: type[FrameType], state: str | None = None) -> FrameType:
        """The next frame of ``kind`` (and ``state``); fails after the deadline."""
        self.post.set_timer(("test", "deadline"), time.monotonic() + DEADLINE_S)
        while True:
            _, message = self.post.next()
            assert not isinstance(message, TimerDue), f"no {kind.__name__} came"
            if isinstance(message, kind) and (state is None or getattr(message, "state", None) == state):
                return message

    def expect_report(self, request: int) -> Heartbeat:
        """The answer to ``ReportNow``."""
        while (report := self.expect(Heartbeat)).request != request:
            pass
        return report


@pytest.fixture(params=["file-native", "in-memory"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> NodeSettings:
    (tmp_path / "run").mkdir()
    (tmp_path / "data").mkdir()
    begin_store(tmp_path / "data" / "store", "edge", 1)
    return node(mode=request.param, data_dir=str(tmp_path / "data"), run_dir=str(tmp_path / "run"))


@pytest.fixture
def peers(settings: NodeSettings) -> Iterator[dict[str, Peer]]:
    peers = {name: Peer(Path(settings.run_dir), name) for name in (SUPERVISOR, CLIENTS, LANE)}
    yield peers
    for peer in peers.values():
        peer.post.close()


class Life:
    """One life of the store's process, in a thread."""

    def __init__(self, settings: NodeSettings, epoch: int) -> None:
        self.failure: Exception | None = None
        self._post = Post(Path(settings.run_dir), STORE)
        self._thread = threading.Thread(target=self._run, args=(settings, epoch), daemon=True)
        self._thread.start()

    def _run(self, settings: NodeSettings, epoch: int) -> None:
        host = ChildHost(self._post, settings, epoch)
        host.add_children([QueueStore(Mailbox(self._post, QUEUE_STORE), settings, epoch)])
        self.failure = host.run()

    def join(self) -> None:
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive()
        self._post.close()
        assert self.failure is None


def store_report(beat: Heartbeat) -> StoreReport:
    return of_values(StoreReport, beat.figures[QUEUE_STORE])


def test_a_message_goes_through_and_outlives_the_store_if_it_is_durable(settings: NodeSettings, peers: dict[str, Peer]) -> None:
    supervisor, clients, lane = peers[SUPERVISOR], peers[CLIENTS], peers[LANE]
    life = Life(settings, 1)
    supervisor.expect(Heartbeat, "ready")

    clients.tell(append_frame(1, {QUEUE: (batch([b"a", b"b"]), None)}))
    committed = clients.expect(Committed)
    supervisor.tell(ReportNow(request=5), STORE)
    report = supervisor.expect_report(5)
    supervisor.tell(Stop(), STORE)
    supervisor.expect(Heartbeat, "stopping")
    life.join()

    assert committed == Committed(sender="listener", epoch=1, store=1, number=1)
    assert report.states == {QUEUE_STORE: "ready"}
    figures = store_report(report).queues[QUEUE]
    assert (figures.depth, figures.accepted, figures.ledger_closes) == (2, 2, True)

    life = Life(settings, 2)
    supervisor.expect(Heartbeat, "ready")
    lane.tell(LaneOpen(queue=QUEUE, epoch=1 << 20))
    opened = lane.expect(LaneOpened)
    if settings.persistence.mode == "file-native":
        lane.tell(Credit(queue=QUEUE, epoch=1 << 20, messages=10, size_bytes=1000))
        out = lane.expect(HandOut)
        assert messages(out) == [(0, b"a"), (1, b"b")]
    else:
        assert opened.head == opened.tail == 2 << 32
    supervisor.tell(Stop(), STORE)
    life.join()


def test_a_store_that_cannot_be_opened_yet_waits_and_is_not_ready(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    settings = node(data_dir=str(tmp_path / "data"), run_dir=str(tmp_path / "run"))
    supervisor = Peer(tmp_path / "run", SUPERVISOR)
    holder = RocksEngine(tmp_path / "data" / "store")  # the folder is locked, as by a former life that is not gone yet
    life = Life(settings, 1)

    while True:
        supervisor.tell(ReportNow(request=1), STORE)
        beat = supervisor.expect_report(1)
        assert beat.state == "starting"
        if store_report(beat).state == StoreState.DISK_ERROR:
            break
    holder.close()
    supervisor.expect(Heartbeat, "ready")

    supervisor.tell(Stop(), STORE)
    life.join()
    supervisor.post.close()
