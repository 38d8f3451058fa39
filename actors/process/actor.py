"""The base of Bascule's actors: a pykka actor that is given its messages by its process, in the process's own thread.

Subclasses implement the hooks named ``on_frame`` ... ``on_stopping``; a hook that raises ends the process, and the supervisor
starts a new one. Frames to the supervisor are ``actors/process/host.py``'s.
"""

from __future__ import annotations

import logging
from typing import Any

import pykka
from pykka import ThreadingFuture

from actors.process.mailbox import BadFrame, Mailbox, Reconfigured, TimerDue
from wire.config_settings import NodeSettings, SettingsNow
from wire.frames.frame import Frame
from wire.frames.supervision import PeerUp, Stop
from wire.status.actors import ActorFigures

log = logging.getLogger("bascule")


class PolledActor(pykka.Actor):
    """An actor that runs in its process's own thread. The supervisor is one; so is all it supervises."""

    actor_inbox: Mailbox

    def __init__(self, mailbox: Mailbox) -> None:
        super().__init__()
        self.ended = False  # it takes no more messages
        self.ends_turns = type(self).on_turn_end is not PolledActor.on_turn_end
        self.actor_inbox = mailbox
        self._actor_ref = pykka.ActorRef(self)
        self.mailbox = mailbox
        self.name = mailbox.name
        self.send = mailbox.send  # type: ignore[method-assign]  # the same as the method, without its call

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

    def on_thread_message(self, message: Any) -> None:
        """A message from another thread of this process."""
        raise NotImplementedError

    # --- for subclasses ---

    def send(self, peer: str, frame: Frame) -> None:
        """Queue ``frame`` for ``peer``."""
        self.mailbox.send(peer, frame)

    def send_from_thread(self, message: Any) -> bool:
        """Have ``on_thread_message`` called with ``message``; may be called in any thread. False if this actor has ended."""
        try:
            self.actor_ref.tell(message)
        except pykka.ActorDeadError:
            return False
        return True

    # --- for the process ---

    def take(self, message: Any) -> None:
        """Handle a ``message`` that has no hook of its own, such as one from a thread or from the supervisor."""
        self._handle_receive(message)

    def outlives(self, error: Exception) -> bool:
        """Take note of what a hook has raised; whether this actor goes on. If not, its process ends."""
        return False

    # --- pykka ---

    def on_stop(self) -> None:
        self.ended = True

    @staticmethod
    def _create_actor_inbox() -> Any:
        return None  # the mailbox needs this process's name and folder: __init__ puts it in

    @staticmethod
    def _create_future() -> ThreadingFuture[Any]:
        return ThreadingFuture()

    def _start_actor_loop(self) -> None:
        raise NotImplementedError  # its process gives it its messages

    def on_receive(self, message: Any) -> None:
        match message:
            case Frame():
                self.on_frame(message)
            case TimerDue():
                self.on_timer(message.name, message.now_s)
            case BadFrame():
                log.error("frame.refused", extra={"actor": self.name, "error": str(message.error)})
            case _:
                self.on_thread_message(message)


class MailboxActor(PolledActor):
    """A supervised actor. ``epoch`` is the number of its process's life, given by the supervisor."""

    def __init__(self, mailbox: Mailbox, settings: NodeSettings, epoch: int) -> None:
        super().__init__(mailbox)
        self.settings_now = SettingsNow(settings)
        self.epoch = epoch
        self.state = "starting"
        self.peers: dict[str, int] = {}  # name -> epoch

    # --- hooks ---

    def on_peer_up(self, name: str, epoch: int) -> None:
        """``name``, of another process, is ready in a new life; ``self.peers`` knows it already."""

    def on_reconfigured(self, before: NodeSettings) -> None:
        """Others hold from here on than ``before``: whatever is made of settings is made anew."""

    def on_stopping(self) -> None:
        """End intake and finish; call ``finished()`` when nothing is left in hand."""
        self.on_finished()

    def status(self) -> ActorFigures | None:
        """Its figures for ``bascule status``, if it has any."""
        return None

    # --- for subclasses ---

    @property
    def settings(self) -> NodeSettings:
        """Those that hold now."""
        return self.settings_now.now

    def ready(self) -> None:
        """This actor does its work now."""
        self.state = "ready"

    def is_former(self, peer: str, epoch: int) -> bool:
        """Whether ``peer`` is known to have begun a newer life than ``epoch``: what comes late from that one does not count."""
        return epoch < self.peers.get(peer, 0)

    def on_finished(self) -> None:
        """End in good order; the process ends with the last of its actors."""
        self.stop()

    # --- for the process ---

    def on_receive(self, message: Any) -> None:
        match message:
            case PeerUp():
                if message.epoch > self.peers.get(message.name, 0):
                    self.peers[message.name] = message.epoch
                    self.on_peer_up(message.name, message.epoch)
            case Reconfigured():
                before = self.settings
                self.settings_now.change(message.settings)
                self.on_reconfigured(before)
            case Stop():
                if self.state != "stopping":
                    self.state = "stopping"
                    self.on_stopping()
            case _:
                super().on_receive(message)
