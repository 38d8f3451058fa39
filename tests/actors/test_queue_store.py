"""The QueueStore as an actor: frames in by its mailbox, answers out, and a disk that refuses is waited for."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.mailbox import Mailbox, TimerDue
from actors.queue_store import QueueStore
from storage.engine import RocksEngine
from tests.storage.building import FORWARDER, QUEUE, append_frame, batch, messages, node
from tests.support.waiting import PATIENCE_S
from wire.frames import Committed, Credit, Frame, HandOut, Heartbeat, LaneOpen, LaneOpened, ReportNow, Stop
from wire.settings import NodeSettings

DEADLINE_S = PATIENCE_S


class Peer:
    """One actor's mailbox, driven by the test."""

    def __init__(self, run_dir: Path, name: str) -> None:
        self.mailbox = Mailbox(run_dir, name)

    def tell(self, frame: Frame) -> None:
        self.mailbox.send("queue_store", frame)

    def expect(self, kind: type[Frame], state: str | None = None) -> Frame:
        """The next frame of ``kind`` (and ``state``); fails after the deadline."""
        self.mailbox.set_timer("deadline", time.monotonic() + DEADLINE_S)
        while True:
            message = self.mailbox.get().message
            assert not isinstance(message, TimerDue), f"no {kind.__name__} came"
            if isinstance(message, kind) and (state is None or getattr(message, "state", None) == state):
                return message


@pytest.fixture(params=["file-native", "in-memory"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> NodeSettings:
    (tmp_path / "run").mkdir()
    return node(mode=request.param, data_dir=str(tmp_path / "data"), run_dir=str(tmp_path / "run"))


@pytest.fixture
def peers(settings: NodeSettings) -> Iterator[dict[str, Peer]]:
    peers = {name: Peer(Path(settings.run_dir), name) for name in ("supervisor", "listener", FORWARDER)}
    yield peers
    for peer in peers.values():
        peer.mailbox.close()


class Life:
    """One life of the store, in a thread."""

    def __init__(self, settings: NodeSettings, epoch: int) -> None:
        self.failure: BaseException | None = None
        self._mailbox = Mailbox(Path(settings.run_dir), "queue_store")
        self._thread = threading.Thread(target=self._run, args=(settings, epoch), daemon=True)
        self._thread.start()

    def _run(self, settings: NodeSettings, epoch: int) -> None:
        self.failure = QueueStore.run(self._mailbox, settings, epoch)

    def join(self) -> None:
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive()
        self._mailbox.close()
        assert self.failure is None


def test_a_message_goes_through_and_outlives_the_store_if_it_is_durable(settings: NodeSettings, peers: dict[str, Peer]) -> None:
    supervisor, listener, forwarder = peers["supervisor"], peers["listener"], peers[FORWARDER]
    life = Life(settings, 1)
    supervisor.expect(Heartbeat, "ready")

    listener.tell(append_frame(1, {QUEUE: (batch([b"a", b"b"]), None)}))
    committed = listener.expect(Committed)
    supervisor.tell(ReportNow(request=5))
    report = supervisor.expect(Heartbeat)
    while isinstance(report, Heartbeat) and report.request != 5:
        report = supervisor.expect(Heartbeat)
    supervisor.tell(Stop())
    supervisor.expect(Heartbeat, "stopping")
    life.join()

    assert committed == Committed(sender="listener", epoch=1, store=1, number=1, refused={})
    assert isinstance(report, Heartbeat)
    figures = report.status["queues"][QUEUE]
    assert (figures["depth"], figures["accepted"], figures["ledger_closes"]) == (2, 2, True)

    life = Life(settings, 2)
    supervisor.expect(Heartbeat, "ready")
    forwarder.tell(LaneOpen(queue=QUEUE, epoch=1 << 20))
    opened = forwarder.expect(LaneOpened)
    assert isinstance(opened, LaneOpened)
    if settings.persistence.mode == "file-native":
        forwarder.tell(Credit(queue=QUEUE, epoch=1 << 20, messages=10, size_bytes=1000))
        out = forwarder.expect(HandOut)
        assert isinstance(out, HandOut)
        assert messages(out) == [(0, b"a"), (1, b"b")]
    else:
        assert opened.head == opened.tail == 2 << 32
    supervisor.tell(Stop())
    life.join()


def test_a_store_that_cannot_be_opened_yet_waits_and_is_not_ready(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    settings = node(data_dir=str(tmp_path / "data"), run_dir=str(tmp_path / "run"))
    supervisor = Peer(tmp_path / "run", "supervisor")
    holder = RocksEngine(tmp_path / "data" / "store")  # the folder is locked, as by a former life that is not gone yet
    life = Life(settings, 1)

    while True:
        supervisor.tell(ReportNow(request=1))
        beat = supervisor.expect(Heartbeat)
        assert isinstance(beat, Heartbeat)
        assert beat.state == "starting"
        if beat.status["state"] == "disk_error":
            break
    holder.close()
    supervisor.expect(Heartbeat, "ready")

    supervisor.tell(Stop())
    life.join()
    supervisor.mailbox.close()
