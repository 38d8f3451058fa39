"""The store and the supervisor around a real bridge process, a Forwarder and its Connection, driven frame by frame by a test."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

from actors.process.mailbox import TimerDue
from actors.process.post import Post
from tests.supervisor.settings import node_settings
from tests.support.settings import bridge
from tests.support.waiting import PATIENCE_S
from tests.wire.outbound_model import hand_out, lane_opened
from wire.config_settings import NodeSettings, RemoteSettings, Tier2Settings, dump
from wire.figure import to_map
from wire.frames.batch import from_rows
from wire.frames.frame import Frame
from wire.frames.lanes import Credit, LaneOpen, LaneReopen, Settle, Settled
from wire.frames.names import QUEUE_STORE, STORE, SUPERVISOR
from wire.frames.supervision import Command, Heartbeat, NodeEvents, PeerUp, ReportNow, Stop
from wire.status.actors import report_of

ROOT = Path(__file__).resolve().parents[2]
QUEUE = "bridge:cloud:0"
PROCESS = "bridge:cloud:0"
FORWARDER = "forwarder:cloud:0"
CONNECTION = "connection:cloud:0"


def settings_for(folder: Path, port: int, *, on_session_loss: str = "assume-delivered", **remote: Any) -> NodeSettings:
    """A node with the bridge ``cloud`` towards ``port``."""
    plain = bridge("cloud", tier2=Tier2Settings(max_messages=1_000, max_bytes=1 << 20))
    changed: dict[str, Any] = {
        "addresses": (("127.0.0.1", port),),
        "session_expiry_s": 3600,
        "client_id": "edge",
        "connect_timeout_s": 5.0,
    } | remote
    remote_settings: RemoteSettings = replace(plain.remote, **changed)
    return node_settings(folder, replace(plain, remote=remote_settings, on_session_loss=on_session_loss))


class LaneDouble:
    """One lane whose store and supervisor are the test. Every ``Settle`` that asks for it is answered unless ``answers`` is off.

    links: ``connected``, or why the connection ended, as the store is told. settles: those of the Connection; delivered: of both.
    credit: how much of the queue the Forwarder wants.
    """

    def __init__(self, folder: Path, settings: NodeSettings) -> None:
        run_dir = Path(settings.run_dir)
        run_dir.mkdir(parents=True, exist_ok=True)
        self._settings_path = folder / "settings.msgpack"
        self._settings_path.write_bytes(dump(settings))
        self._log_path = folder / "bridge.log"
        self._run_dir = run_dir
        self._lives = 0
        self._is_open = False
        self.answers = True
        self.epoch = 0
        self._asked_epoch = 0
        self.next_seq = 0
        self.credit = 0
        self.links: list[str] = []
        self.settles: list[Settle] = []
        self.delivered: list[tuple[int, int]] = []
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.kill()

    # --- the process ---

    def start(self) -> None:
        """A new life of the process, and new sockets: what is sent before ZeroMQ has noticed a death goes to the dead."""
        self._lives += 1
        self._is_open = False
        self._supervisor = Post(self._run_dir, SUPERVISOR)
        self._store = Post(self._run_dir, STORE)
        words = ["--process", PROCESS, "--epoch", str(self._lives), "--parent", str(os.getpid())]
        with self._log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "actors.process.main", *words, "--settings", str(self._settings_path)],
                cwd=ROOT,
                stdout=log,
                stderr=log,
            )

    def kill(self) -> None:
        """kill -9."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(PATIENCE_S)
        self._store.close()
        self._supervisor.close()

    def stop(self) -> int:
        """Tell it to stop; its exit status."""
        assert self._process is not None
        self._supervisor.send(PROCESS, Stop())
        return self._process.wait(PATIENCE_S)

    @property
    def log(self) -> str:
        """The lines that it has logged."""
        return self._log_path.read_text()

    def tell(self, frame: Frame) -> None:
        """Send ``frame`` to the Forwarder, as the store."""
        self._store.send(FORWARDER, frame)

    def command(self, verb: str) -> None:
        """The supervisor's command."""
        self._supervisor.send(CONNECTION, Command(verb=verb))

    # --- the lane ---

    def open(self, **lane: Any) -> None:
        """Have the Forwarder open the lane, under a new epoch: because the store is there, or asks for it."""
        if self._is_open:
            self.tell(LaneReopen(queue=QUEUE))
        else:
            self._supervisor.send(PROCESS, PeerUp(name=QUEUE_STORE, epoch=self._lives))
        self._is_open = True
        self.until(lambda: self._asked_epoch > self.epoch, "the lane is opened")
        self.epoch = self._asked_epoch
        self.credit = 0
        self.next_seq = lane.get("head", 0)
        self.settles, self.delivered = [], []
        self.tell(lane_opened(epoch=self.epoch, **lane))

    def publish(self, topic: str, payloads: list[str], *, qos: int) -> None:
        """Hand out messages in one batch, credit or not."""
        batch = from_rows((topic.encode(), qos, payload.encode()) for payload in payloads)
        self.tell(hand_out(self.next_seq, batch, epoch=self.epoch))
        self.next_seq += len(payloads)

    def answer(self) -> None:
        """Commit everything that came."""
        self.tell(Settled(queue=QUEUE, epoch=self.epoch, number=self.settles[-1].number))

    def until(self, condition: Callable[[], bool], what: str, deadline_s: float = PATIENCE_S) -> None:
        """Be the store until ``condition`` holds."""
        self._turn(self._store, condition, what, deadline_s, self._take)

    def until_connected(self) -> None:
        """Wait for the link."""
        self.until(lambda: bool(self.links) and self.links[-1] == "connected", "the link is connected")

    def until_settled(self, count: int) -> None:
        """Wait until ``count`` messages are delivered."""
        self.until(lambda: sum(stop - start for start, stop in self.delivered) >= count, f"{count} messages are settled")

    def status(self) -> dict[str, Any]:
        """Fresh figures of the Connection."""
        found: list[dict[str, Any]] = []
        self._supervisor.send(PROCESS, ReportNow(request=7))

        def take(frame: object) -> None:
            if isinstance(frame, Heartbeat) and frame.request == 7:
                found.append(to_map(report_of(CONNECTION, frame.figures[CONNECTION])))

        self._turn(self._supervisor, lambda: bool(found), "a heartbeat", PATIENCE_S, take)
        return found[0]

    def until_status(
        self, condition: Callable[[dict[str, Any]], bool], what: str, deadline_s: float = PATIENCE_S
    ) -> dict[str, Any]:
        """Ask for the status until it fits."""
        end_s = time.monotonic() + deadline_s
        while True:
            status = self.status()
            if condition(status):
                return status
            if time.monotonic() > end_s:
                pytest.fail(f"not in time: {what}; {status}\n{self.log[-2000:]}")

    def _take(self, frame: object) -> None:
        match frame:
            case LaneOpen():
                self._asked_epoch = frame.epoch
            case NodeEvents():
                for _, kind, *_, reason, _, _ in frame.events:
                    if kind in ("link.up", "link.down"):
                        self.links.append("connected" if kind == "link.up" else reason)
            case Credit(epoch=self.epoch):
                self.credit = frame.messages
            case Settle(epoch=self.epoch):
                for outcome, ranges in frame.settled:
                    if outcome == "delivered":
                        self.delivered.extend(ranges)
                if frame.number:  # the Forwarder's own, of QoS 0, wait for no answer
                    self.settles.append(frame)
                    if self.answers:
                        self.answer()

    def _turn(
        self, post: Post, condition: Callable[[], bool], what: str, deadline_s: float, take: Callable[[object], None]
    ) -> None:
        deadline = ("test", "deadline")
        post.set_timer(deadline, time.monotonic() + deadline_s)
        while not condition():
            _, message = post.next()
            if isinstance(message, TimerDue):
                pytest.fail(f"not in time: {what}\n{self.log[-3000:]}")
            take(message)
        post.cancel_timer(deadline)
