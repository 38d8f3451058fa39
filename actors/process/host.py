"""One process and its actors: whose turn it is, what it tells the supervisor, and how it stops.

A turn begins with the first thing that comes and ends when nothing more is waiting. Each actor that had something in it is told so
(``TurnEnded``), in the order of the process's table. A frame from one of them to another is handed over at once, as it is; it
belongs to the same turn, so whoever gets one after its turn had ended is told once more.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any

import pykka

from actors.process.actor import MailboxActor, PolledActor
from actors.process.hosted_child import HostedChild
from actors.process.logs import follow_settings
from actors.process.mailbox import Reconfigured, SocketsReady, TimerDue, TurnEnded
from actors.process.post import Post
from wire.config_settings import NodeSettings, load
from wire.errors import StoreGone, Unavailable
from wire.frames.frame import Frame
from wire.frames.names import ACTORS_OF, SUPERVISOR, bridge_of_child, child_of
from wire.frames.placement import Placement
from wire.frames.supervision import ChildBegins, Heartbeat, PeerUp, Reconfigure, ReportNow, Stop

log = logging.getLogger("bascule")

Make = Callable[[str, NodeSettings, int, tuple[str, ...]], list[MailboxActor]]  # a child, its settings, epoch and flags

_ORDER = tuple(ACTORS_OF)
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
        self._touched: dict[str, None] = {}  # who had something in this turn; a dictionary takes and gives without a call
        self._gone: set[str] = set()  # actors that have lived here: what still comes for them is nobody's
        self._unsettled: dict[str, HostedChild] = {}  # of whose state the supervisor is to be told
        self.names = {post.name}  # by which messages reach the process itself
        self.at_work = ""  # the actor that has a message now, or had the last one
        self.shared = False  # several children have begun here, so that a turn may be long
        self.ended = False  # there is nothing to be done here any more

    def add(self, actor: PolledActor) -> None:
        """Have ``actor`` live here; the order in which they are added is that of their turns."""
        self._actors[actor.name] = actor
        self._gone.discard(actor.name)
        self._post.settle(actor.name)

    def remove(self, actor: PolledActor) -> None:
        """``actor`` has ended, and others live on here."""
        pykka.ActorRegistry.unregister(actor.actor_ref)
        del self._actors[actor.name]
        self._touched.pop(actor.name, None)
        self._gone.add(actor.name)
        self._post.leave(actor.name)

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
            self._start(actor)
        self.give("", TurnEnded(self._post.now_s()))

    def _start(self, actor: PolledActor) -> None:
        self.at_work = actor.name
        pykka.ActorRegistry.register(actor.actor_ref)
        actor.on_start()
        self._touched[actor.name] = None
        self._take()

    def give(self, to: str, message: Any) -> None:
        """Let the actor ``to`` have ``message``, or this process itself, or everybody the end of the turn."""
        if to in self._actors:
            self._take((to, message))
        elif type(message) is TurnEnded:
            self._end_turn(message)
            if self._unsettled:
                self._settle_children(message)
        elif to in self.names:
            self.on_message(to, message)
            self._take()
        elif to not in self._gone and not self.may_live_here(to):
            log.error("frame.refused", extra={"error": "nobody of that name lives here", "to": to[:100]})

    def may_live_here(self, name: str) -> bool:  # another process may say so
        """Whether the actor ``name``, which does not live here, may be about to: what comes for its former life is nobody's."""
        return False

    def on_message(self, to: str, message: Any) -> None:
        """A message for the process, or for what of it is called ``to``."""

    def _settle_children(self, end: TurnEnded) -> None:
        """A turn has ended, and there are some that are unsettled."""

    def _take(self, *messages: tuple[str, Any]) -> None:
        """Let actors have ``messages``, and then all that they send each other for that."""
        actors, touched = self._actors, self._touched
        for name, message in chain(messages, self._handed_over):
            if name not in actors or (actor := actors[name]).ended:
                continue
            self.at_work = name
            kind = type(message)
            if kind is not TurnEnded and actor.ends_turns:
                touched[name] = None
            try:
                if kind is TurnEnded:
                    actor.on_turn_end(message.now_s)
                elif kind is SocketsReady:
                    actor.on_sockets(message.ready)
                elif kind is PeerUp or kind is Stop:
                    actor.take(message)
                else:
                    match message:
                        case Frame():
                            actor.on_frame(message)
                        case _:
                            actor.take(message)
            except Exception as error:
                if not actor.outlives(error):
                    raise
            if actor.ended:
                self.ended = all(other.ended for other in actors.values())
        del self._handed_over[:]

    def _end_turn(self, end: TurnEnded) -> None:
        touched = self._touched
        while touched and not self.ended:
            for name in self._actors:
                if name in touched:
                    del touched[name]
                    self._take((name, end))
            if touched and self.shared:  # by what those have sent just now: it did not come before the turn ended
                end = TurnEnded(self._post.now_s())


def _nobody(*_: Any) -> list[MailboxActor]:
    return []


class ChildHost(Host):
    """A process under the supervisor: it has the child that is called as it is, or several, which begin and end one by one.

    A child is ready when all its actors are; told to stop they stop one after the other, the last first.
    """

    def __init__(self, post: Post, settings: NodeSettings, epoch: int, make: Make = _nobody) -> None:
        """make: makes the actors of a child that begins in a process that several share."""
        super().__init__(post)
        self._settings = settings  # the newest that it was told
        self._epoch = epoch
        self._make = make
        self._children: dict[str, HostedChild] = {}
        self._ends = False  # all children are to end, the last one first
        self._post.place(Placement(settings).process_of)

    def add_children(self, actors: Iterable[MailboxActor]) -> None:
        """Have these actors live here, in this order: those of the child that this process is called as."""
        self._add(self._post.name, self._epoch, actors)

    def may_live_here(self, name: str) -> bool:
        return Placement(self._settings).process_of(name) == self._post.name != child_of(name)

    def begin(self) -> None:
        self._beat_all()
        super().begin()

    def on_message(self, to: str, message: Any) -> None:
        child = self._children.get(to)
        match message:
            case TimerDue(name="heartbeat"):
                self._beat_all()
            case ReportNow() if child is not None:
                self._beat(child, message.request)
            case PeerUp() if child is not None:
                self._take(*((actor.name, message) for actor in child.actors))
            case Reconfigure():
                self._on_reconfigure(message.children or (to,), message)
            case ChildBegins():
                self._on_begins(message)
            case Stop() if child is not None:
                self._stop(child)
            case Stop():
                self._ends = True
                self._stop_last()

    def _add(self, name: str, epoch: int, actors: Iterable[MailboxActor]) -> HostedChild:
        child = self._children[name] = self._unsettled[name] = HostedChild(name, epoch, self._settings, actors)
        self.names.add(name)
        for actor in child.actors:
            self.add(actor)
        return child

    def _on_begins(self, order: ChildBegins) -> None:
        if order.process != self._epoch or order.child in self._children:
            return
        try:
            actors = self._make(order.child, self._settings, order.epoch, order.flags)
        except Unavailable as error:  # its bridge is not configured any more
            log.error("child.not_begun", extra={"child": order.child, "error": str(error)})
            self._add(order.child, order.epoch, ()).stop()
            return
        child = self._add(order.child, order.epoch, actors)
        self.shared = True
        self._sort()
        self._beat(child)
        for actor in child.actors:
            self._start(actor)
        for other in [other for other in self._children.values() if child.speaks_to(other)]:
            for name in sorted(other.heralded):
                for actor in child.actors:
                    self._take((actor.name, PeerUp(name=name, epoch=other.epoch)))

    def _sort(self) -> None:
        """Turns end in the order in which messages pass: the store, lanes, the clients."""
        self._children = dict(sorted(self._children.items(), key=lambda item: _ORDER.index(item[0].partition(":")[0])))
        self._actors = {actor.name: actor for child in self._children.values() for actor in child.actors}

    def _on_reconfigure(self, names: Iterable[str], told: Reconfigure) -> None:
        """Have other settings hold from here on: all actors have them before anything else is handed over."""
        children = [child for name in names if (child := self._children.get(name)) and told.number > child.settings.number]
        if not children:
            return
        if told.number > self._settings.number:
            settings = load(told.settings, bridge=bridge_of_child(self._post.name))
            if settings.log != self._settings.log:
                follow_settings(settings.log)
            self._settings = settings
            self._post.place(Placement(settings).process_of)
        for child in children:
            child.reconfigure(self._settings)
        self._take(*((actor.name, Reconfigured(self._settings)) for child in children for actor in child.actors))
        self._post.set_timer((self._post.name, _HEARTBEAT), self._post.now_s())

    def _stop(self, child: HostedChild) -> None:
        child.stop()
        self._unsettled[child.name] = child
        self._beat(child)  # the last word of whoever stops at once, or waits for a disk to do it
        self._stop_next(child)

    def _stop_last(self) -> bool:
        """Tell the last child to stop, unless one is about to; whether it was told now."""
        children = list(self._children.values())
        if not children or any(child.stopping for child in children):
            return False
        self._stop(children[-1])
        return True

    def _settle_children(self, end: TurnEnded) -> None:
        while self._unsettled and not self.ended:
            went_on = [self._herald(child) or self._stop_next(child) for child in list(self._unsettled.values())]
            if any(went_on):
                self._end_turn(end)
                continue
            for child in list(self._unsettled.values()):
                self._settle(child)
            if not (self._ends and self._stop_last()):
                return

    def _settle(self, child: HostedChild) -> None:
        """Tell the supervisor how ``child`` is now; nothing more comes of this turn."""
        if child.stopping and child.has_ended and child.name != self._post.name:
            self._leave(child)
            return
        if child.is_untold():
            self._beat(child)
        if child.state == "ready":
            del self._unsettled[child.name]

    def _leave(self, child: HostedChild) -> None:
        """``child`` has ended, and others live on."""
        self._beat(child)
        for actor in child.actors:
            self.remove(actor)
        self.names.discard(child.name)
        del self._children[child.name], self._unsettled[child.name]

    def _herald(self, child: HostedChild) -> bool:
        """Tell who speaks to ``child`` which of its actors have become ready, as the supervisor tells others; whether any have."""
        newly = [actor for actor in child.actors if actor.state == "ready" and actor.name not in child.heralded]
        if not newly:
            return False
        told = [each for other in self._children.values() if other is child or child.speaks_to(other) for each in other.actors]
        for actor in newly:
            child.heralded.add(actor.name)
            for each in told:
                if each is not actor:
                    self._take((each.name, PeerUp(name=actor.name, epoch=child.epoch)))
        return True

    def _stop_next(self, child: HostedChild) -> bool:
        """Tell the last of its actors that live to stop, if it is time and it was not told yet; whether it was told now."""
        actor = child.next_to_stop
        if actor is None:
            return False
        self._take((actor.name, Stop()))
        return True

    def _beat_all(self) -> None:
        """The period is over: word of the first child, for all of the process, and of those who have figures to tell."""
        self._post.wall_ms()  # sees a step of the clock in time
        now_s = self._post.now_s()
        for place, child in enumerate(list(self._children.values())):
            if not place or child.is_due(now_s):
                self._beat(child)
        self._post.set_timer((self._post.name, _HEARTBEAT), now_s + self._settings.supervision.heartbeat_period_s)

    def _beat(self, child: HostedChild, request: int = 0) -> None:
        states, figures = child.tell(self._post.now_s(), FIGURES_S, asked=request != 0)
        self._post.send(
            SUPERVISOR,
            Heartbeat(
                name=child.name,
                epoch=child.epoch,
                pid=os.getpid(),
                state=child.state,
                request=request,
                states=states,
                settings=child.settings.number,
                traffic=self._post.traffic(),
                figures=figures,
            ),
        )
