"""One process and its actors: whose turn it is, what it tells the supervisor, and how it stops.

A turn begins with the first thing that comes and ends when nothing more is waiting. Each actor that had something in it is told so
(``TurnEnded``), in the order of the process's table. A frame from one of them to another is handed over at once, as it is; it
belongs to the same turn, so whoever gets one after its turn had ended is told once more.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from typing import Any

import pykka

from actors.process.actor import MailboxActor, PolledActor
from actors.process.logs import set_level
from actors.process.mailbox import Reconfigured, TimerDue, TurnEnded
from actors.process.post import Post
from wire.errors import StoreGone, Unavailable
from wire.frames.names import SUPERVISOR, bridge_of_process
from wire.frames.supervision import Heartbeat, PeerUp, Reconfigure, ReportNow, Stop
from wire.settings import NodeSettings, load
from wire.status.actors import ActorFigures

log = logging.getLogger("bascule")

_HEARTBEAT = "heartbeat"
FIGURES_S = 5.0  # heartbeats that nobody asked for have figures this often; they cost more than the heartbeat


class Host:
    """Gives each of a process's actors its messages. The supervisor's process has one; its children have a ``ChildHost``.

    The one place with a broad ``except``: an actor that fails ends its process.
    """

    def __init__(self, post: Post) -> None:
        self._post = post
        self._handed_over = post.handed_over
        self._actors: dict[str, PolledActor] = {}
        self._touched: set[str] = set()
        self.ended = False  # there is nothing to be done here any more

    def add(self, actor: PolledActor) -> None:
        """Have ``actor`` live here; the order in which they are added is that of their turns."""
        self._actors[actor.name] = actor
        self._post.local.add(actor.name)

    def run(self) -> Exception | None:
        """Give messages until every actor has stopped; what made one fail, if anything did."""
        self._post.own()
        try:
            self.begin()
            while not self.ended:
                self.give(*self._post.next())
        except (Unavailable, StoreGone) as error:  # the world's fault, not ours: a line says it, and a trace only hides that
            log.error("actor.failed", extra={"error": str(error)})
            return error
        except Exception as error:  # the edge of the actors: nothing above can judge it
            log.critical("actor.failed", exc_info=True)
            return error
        finally:
            for actor in self._actors.values():
                pykka.ActorRegistry.unregister(actor.actor_ref)
        return None

    def begin(self) -> None:
        """The first turn: every actor starts."""
        for actor in self._actors.values():
            pykka.ActorRegistry.register(actor.actor_ref)
            actor.on_start()
            self._touched.add(actor.name)
            self._hand_over()
        self.give("", TurnEnded(self._post.now_s()))

    def give(self, to: str, message: Any) -> None:
        """Let the actor ``to`` have ``message``, or this process itself, or everybody the end of the turn."""
        if to in self._actors:
            self._take(to, message)
            if self._handed_over:
                self._hand_over()
        elif type(message) is TurnEnded:
            self._end_turn(message)
        elif to == self._post.name:
            self.on_message(message)
            self._hand_over()
        else:
            log.error("frame.refused", extra={"error": "nobody of that name lives here", "to": to[:100]})

    def on_message(self, message: Any) -> None:
        """A message for the process."""

    def _take(self, name: str, message: Any) -> None:
        actor = self._actors[name]
        if not actor.ended:
            self._touched.add(name)
            actor.take(message)
            if actor.ended:
                self.ended = all(other.ended for other in self._actors.values())

    def _hand_over(self) -> None:
        """The messages that the actors have sent each other."""
        frames = self._handed_over
        while frames:
            self._take(*frames.popleft())

    def _end_turn(self, end: TurnEnded) -> None:
        touched = self._touched
        while touched and not self.ended:
            for name in self._actors:
                if name in touched:
                    self._take(name, end)
                    touched.remove(name)
                    if self._handed_over:
                        self._hand_over()


class ChildHost(Host):
    """A process under the supervisor: ready when all its actors are, told to stop they stop one after the other, the last first."""

    def __init__(self, post: Post, settings: NodeSettings, epoch: int) -> None:
        super().__init__(post)
        self._settings = settings
        self._epoch = epoch
        self._children: list[MailboxActor] = []
        self._told: dict[str, str] = {}  # the states that the supervisor was told last
        self._ready: set[str] = set()
        self._stopping = False
        self._steady = False  # every actor is ready, and everybody knows it
        self._figures_due_s = float("-inf")

    def add_children(self, actors: Iterable[MailboxActor]) -> None:
        """Have these actors live here, in this order."""
        for actor in actors:
            self.add(actor)
            self._children.append(actor)

    def begin(self) -> None:
        self._beat()
        super().begin()

    def on_message(self, message: Any) -> None:
        match message:
            case TimerDue(name="heartbeat"):
                self._beat()
            case ReportNow():
                self._beat(message.request)
            case PeerUp():
                for actor in self._children:
                    self._take(actor.name, message)
            case Reconfigure():
                if message.number > self._settings.number:
                    self._reconfigure(load(message.settings, bridge=bridge_of_process(self._post.name)))
            case Stop():
                self._stopping, self._steady = True, False
                self._beat()  # the last word of whoever stops at once, or waits for a disk to do it
                self._stop_next()

    def _reconfigure(self, settings: NodeSettings) -> None:
        """Have ``settings`` hold from here on: all actors have them before anything else is handed over."""
        if settings.log.level != self._settings.log.level:
            set_level(settings.log.level)
        self._settings = settings
        self._figures_due_s = float("-inf")
        for actor in self._children:
            self._take(actor.name, Reconfigured(settings))
        self._hand_over()
        self._post.set_timer((self._post.name, _HEARTBEAT), self._post.now_s())

    def _end_turn(self, end: TurnEnded) -> None:
        super()._end_turn(end)
        if self._steady:
            return
        while self._herald() or self._stop_next():
            super()._end_turn(end)
        if not self.ended and self._told != self._states():
            self._beat()
        self._steady = self.state == "ready"

    def _herald(self) -> bool:
        """Tell the actors which of them have become ready, as the supervisor tells them of others; whether any have."""
        newly = [actor for actor in self._children if actor.state == "ready" and actor.name not in self._ready]
        for actor in newly:
            self._ready.add(actor.name)
            for other in self._children:
                if other is not actor:
                    self._take(other.name, PeerUp(name=actor.name, epoch=self._epoch))
                    self._hand_over()
        return bool(newly)

    @property
    def state(self) -> str:
        """starting, ready, stopping."""
        if self._stopping:
            return "stopping"
        return "ready" if all(actor.state == "ready" for actor in self._children) else "starting"

    def _states(self) -> dict[str, str]:
        return {actor.name: actor.state for actor in self._children}

    def _stop_next(self) -> bool:
        """Tell the last of those that live to stop, if it is time and it was not told yet; whether it was told now."""
        if not self._stopping:
            return False
        living = [actor for actor in self._children if not actor.ended]
        if not living or living[-1].state == "stopping":
            return False
        self._take(living[-1].name, Stop())
        self._hand_over()
        return True

    def _beat(self, request: int = 0) -> None:
        self._post.wall_ms()  # sees a step of the clock in time
        now_s, states = self._post.now_s(), self._states()
        figures: dict[str, ActorFigures] = {}
        if request or states != self._told or self.state == "starting" or now_s >= self._figures_due_s:
            self._figures_due_s = now_s + FIGURES_S
            figures = {actor.name: told for actor in self._children if (told := actor.status()) is not None}
        self._told = states
        self._post.send(
            SUPERVISOR,
            Heartbeat(
                name=self._post.name,
                epoch=self._epoch,
                pid=os.getpid(),
                state=self.state,
                request=request,
                states=states,
                settings=self._settings.number,
                traffic=self._post.traffic(),
                figures=figures,
            ),
        )
        if not request:
            self._post.set_timer((self._post.name, _HEARTBEAT), now_s + self._settings.supervision.heartbeat_period_s)
