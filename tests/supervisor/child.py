"""A process for tests of the supervisor: its actors have the real base, mailboxes and host, and no work.

It runs in place of the real actors. Each actor notes what reaches it in ``<run_dir>/<name>.heard``, one JSON list a line.
``--exit N`` ends at once with that status, each time it is started; ``--ignore-stop`` never ends by itself; ``--needs NAME`` is
ready only once its actors were told that the actor NAME is; ``--slow NAME`` has the actor NAME among them wait for a file,
``<run_dir>/go``.
"""

from __future__ import annotations

import argparse
import json
import signal
from pathlib import Path
from typing import Any

from actors.process.actor import MailboxActor
from actors.process.host import ChildHost
from actors.process.mailbox import Mailbox
from actors.process.main import die_with_parent
from actors.process.post import Post
from wire.config_settings import NodeSettings, load
from wire.figure import of_map
from wire.frames.frame import Frame
from wire.frames.names import CONNECTION, FORWARDER, QUEUE_STORE, actors_of
from wire.frames.supervision import Command, ResetMarkers
from wire.status.actors import ActorFigures
from wire.status.bridges import ConnectionFigures, Tier2Figures
from wire.status.store import StoreReport

_LOOK_S = 0.02


class Quiet(MailboxActor):
    """Is ready at once, and notes what it hears."""

    ignore_stop = False
    needs: str | None = None
    slow: str | None = None

    def __init__(self, mailbox: Mailbox, settings: NodeSettings, epoch: int) -> None:
        super().__init__(mailbox, settings, epoch)
        self._run_dir = Path(settings.run_dir)
        self._heard = (self._run_dir / f"{self.name}.heard").open("a", buffering=1)

    def on_start(self) -> None:
        super().on_start()
        self._note("started", self.epoch)
        if self.slow == self.name:
            self.mailbox.set_timer("look", self.mailbox.now_s())
        elif self.needs is None:
            self.ready()

    def on_timer(self, name: str, now_s: float) -> None:
        if (self._run_dir / "go").exists():
            self.ready()
        else:
            self.mailbox.set_timer("look", now_s + _LOOK_S)

    def on_frame(self, frame: Frame) -> None:
        match frame:
            case Command():
                self._note("command", frame.verb)
            case ResetMarkers():
                self._note("reset", frame.queue, frame.epoch)

    def on_peer_up(self, name: str, epoch: int) -> None:
        self._note("peer", name, epoch)
        if name == self.needs and self.state == "starting":
            self.ready()

    def on_stopping(self) -> None:
        self._note("stop")
        if not self.ignore_stop:
            self.on_finished()

    def on_stop(self) -> None:
        super().on_stop()
        self._heard.close()

    def status(self) -> ActorFigures | None:
        match self.name.partition(":")[0]:
            case kind if kind == QUEUE_STORE:
                row: dict[str, Any] = {"depth": 3, "bytes": 30, "oldest_age_s": 1.5, "in_flight": 1, "accepted": 10, "delivered": 5}
                row |= {"expired": 1, "dropped": {"full": 1}, "dead_lettered": 0, "redelivered": 2, "ledger_closes": True}
                return of_map(StoreReport, {"queues": {"bridge:cloud:0": row}, "mode": "in-memory"})
            case kind if kind == CONNECTION:
                return of_map(ConnectionFigures, {"link": {"state": "connected", "since_s": 2.0}})
            case kind if kind == FORWARDER:
                return Tier2Figures(messages=4, bytes=40)
        return None

    def _note(self, *what: object) -> None:
        self._heard.write(json.dumps(what) + "\n")


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--process", required=True)
    parser.add_argument("--exit", type=int)
    parser.add_argument("--ignore-stop", action="store_true")
    parser.add_argument("--needs")
    parser.add_argument("--slow")
    parser.add_argument("--epoch", type=int, required=True)
    parser.add_argument("--settings", type=Path, required=True)
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("--paused", action="store_true")
    arguments = parser.parse_args(argv)
    die_with_parent(arguments.parent)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if arguments.exit is not None:
        return int(arguments.exit)
    settings = load(arguments.settings.read_bytes())
    Quiet.ignore_stop, Quiet.needs, Quiet.slow = arguments.ignore_stop, arguments.needs, arguments.slow
    post = Post(Path(settings.run_dir), arguments.process)
    host = ChildHost(post, settings, arguments.epoch)
    names = actors_of(arguments.process)
    host.add_children([Quiet(Mailbox(post, name), settings, arguments.epoch) for name in names])
    if arguments.paused:
        post.tell(names[-1], Command(verb="pause"))
    failure = host.run()
    post.close()
    return 0 if failure is None else 70
