"""The base of Bascule's actors: a pykka actor whose inbox is the process's mailbox and whose thread is the process's own.

It answers the supervisor (heartbeats, peers coming up, stop) so that the actors below it are left with their own frames.
Subclasses implement the hooks named ``on_frame`` ... ``on_stopping``; a hook that raises ends the process, and the supervisor
starts a new one.
"""

from __future__ import annotations

import logging
import os
from types import TracebackType
from typing import Any

import pykka
from pykka import ThreadingFuture

from actors.mailbox import BadFrame, Mailbox, SocketsReady, TimerDue, TurnEnded
from wire.errors import Unavailable
from wire.frames import Frame, Heartbeat, PeerUp, ReportNow, Stop
from wire.names import SUPERVISOR
from wire.settings import NodeSettings

log = logging.getLogger("bascule")

_HEARTBEAT = "heartbeat"


class PolledActor(pykka.Actor):
    """An actor that runs in its process's own thread and polls its mailbox. The supervisor is one; so is all it supervises."""

    actor_inbox: Mailbox

    def __init__(self, mailbox: Mailbox) -> None:
        super().__init__()
        self.actor_inbox = mailbox
        self._actor_ref = pykka.ActorRef(self)
        self.mailbox = mailbox
        self.name = mailbox.name
        self.failure: BaseException | None = None

    # --- hooks ---

    def on_frame(self, frame: Frame) -> None:
        """A frame from a peer."""
        raise NotImplementedError

    def on_sockets(self, ready: list[tuple[Any, int]]) -> None:
        """Watched sockets can go on."""

    def on_timer(self, name: str, now_s: float) -> None:
        """A timer of ours has run out."""

    def on_turn_end(self, now_s: float) -> None:
        """The mailbox is drained for now: send and commit what has gathered."""

    def on_told(self, message: Any) -> None:
        """A message from another thread of this process."""
        raise NotImplementedError

    # --- for subclasses ---

    def send(self, peer: str, frame: Frame) -> None:
        """Queue ``frame`` for ``peer``."""
        self.mailbox.send(peer, frame)

    def tell_from_thread(self, message: Any) -> bool:
        """Have ``on_told`` called with ``message``; may be called in any thread. False if this actor has ended."""
        try:
            self.actor_ref.tell(message)
        except pykka.ActorDeadError:
            return False
        return True

    def run_here(self) -> BaseException | None:
        """Be this actor until it stops, in the calling thread; what made it fail, if anything did."""
        pykka.ActorRegistry.register(self.actor_ref)
        self._actor_loop()
        return self.failure

    # --- pykka ---

    @staticmethod
    def _create_actor_inbox() -> Any:
        return None  # the mailbox needs this process's name and folder: __init__ puts it in

    @staticmethod
    def _create_future() -> ThreadingFuture[Any]:
        return ThreadingFuture()

    def _start_actor_loop(self) -> None:
        self._actor_loop()

    def on_receive(self, message: Any) -> None:
        match message:
            case TurnEnded():
                self.on_turn_end(message.now_s)
            case SocketsReady():
                self.on_sockets(message.ready)
            case TimerDue():
                self.on_timer(message.name, message.now_s)
            case Frame():
                self.on_frame(message)
            case BadFrame():
                log.error("frame.refused", extra={"actor": self.name, "error": str(message.error)})
            case _:
                self.on_told(message)

    def on_failure(
        self,
        exception_type: type[BaseException] | None,
        exception_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.failure = exception_value

    def _handle_failure(
        self,
        exception_type: type[BaseException] | None,
        exception_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.failure = exception_value  # pykka skips on_failure when on_start fails
        if isinstance(exception_value, Unavailable):  # the world's fault, not ours: a line says it, and a trace only hides that
            log.error("actor.failed", extra={"error": str(exception_value)})
            pykka.ActorRegistry.unregister(self.actor_ref)
            self.actor_stopped.set()
        else:
            super()._handle_failure(exception_type, exception_value, traceback)


class MailboxActor(PolledActor):
    """A supervised actor: one actor, one process, one thread. ``epoch`` is this life's number, given by the supervisor."""

    def __init__(self, mailbox: Mailbox, settings: NodeSettings, epoch: int) -> None:
        super().__init__(mailbox)
        self.settings = settings
        self.epoch = epoch
        self.state = "starting"
        self.peers: dict[str, int] = {}  # name -> epoch

    # --- hooks ---

    def on_peer_up(self, name: str, epoch: int) -> None:
        """``name`` is ready in a new life; ``self.peers`` knows it already."""

    def on_stopping(self) -> None:
        """End intake and finish; call ``finished()`` when nothing is left in hand."""
        self.finished()

    def status(self) -> dict[str, Any]:
        """Figures for ``bascule status``; small, and only msgpack types."""
        return {}

    # --- for subclasses ---

    def ready(self) -> None:
        """Tell the supervisor that this actor does its work now."""
        self.state = "ready"
        self._beat()

    def is_former(self, peer: str, epoch: int) -> bool:
        """Whether ``peer`` is known to have begun a newer life than ``epoch``: what comes late from that one does not count."""
        return epoch < self.peers.get(peer, 0)

    def finished(self) -> None:
        """End this process in good order."""
        self.stop()

    @classmethod
    def run(cls, mailbox: Mailbox, settings: NodeSettings, epoch: int) -> BaseException | None:
        """Be this actor until it stops, in the calling thread; what made it fail, if anything did."""
        return cls(mailbox, settings, epoch).run_here()

    # --- supervision ---

    def on_start(self) -> None:
        self._beat()

    def on_receive(self, message: Any) -> None:
        match message:
            case TimerDue(name="heartbeat"):
                self._beat()
            case ReportNow():
                self._beat(message.request)
            case PeerUp():
                if message.epoch > self.peers.get(message.name, 0):
                    self.peers[message.name] = message.epoch
                    self.on_peer_up(message.name, message.epoch)
            case Stop():
                if self.state != "stopping":
                    self.state = "stopping"
                    self._beat()
                    self.on_stopping()
            case _:
                super().on_receive(message)

    def _beat(self, request: int = 0) -> None:
        self.mailbox.send(
            SUPERVISOR,
            Heartbeat(
                name=self.name,
                epoch=self.epoch,
                pid=os.getpid(),
                state=self.state,
                request=request,
                status=self.status(),
            ),
        )
        if not request:
            self.mailbox.set_timer(_HEARTBEAT, self.mailbox.now_s() + self.settings.supervision.heartbeat_period_s)
