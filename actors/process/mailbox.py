"""The mailbox of one actor: what it has of its process, as a pykka inbox.

An actor sends, watches sockets and sets timers here, and asks here for time, chance and threads. Its process
(``actors/process/host.py``) gives it the messages below one by one. "The mailbox has been drained" is itself a message
(``TurnEnded``), and it is where actors batch: everything that came in during the last turn goes out as one write, one frame, one
burst.
"""

from __future__ import annotations

import select
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from actors.system.send_queue import unsent_bytes
from wire.config_settings import NodeSettings
from wire.errors import UnknownFrame
from wire.frames.frame import Frame
from wire.frozen_records import record

if TYPE_CHECKING:
    from pykka._envelope import Envelope

    from actors.process.curve_router import CurveRouter
    from actors.process.post import Post
    from actors.process.request_sockets import RequestRouter

READ = select.EPOLLIN
WRITE = select.EPOLLOUT
HANGUP = select.EPOLLHUP | select.EPOLLERR
LEFT = select.EPOLLRDHUP | HANGUP


@record
class TurnEnded:
    """Process -> actor: nothing more is waiting, or enough was read for one turn; send and commit what has gathered."""

    now_s: float


@record
class TimerDue:
    """Process -> actor: the timer ``name`` has run out."""

    name: str
    now_s: float


@record
class SocketsReady:
    """Process -> actor: (token, poll events) of each watched socket that can go on."""

    ready: list[tuple[Any, int]]


@record
class BadFrame:
    """Process -> actor: a frame was refused; nothing of it was taken."""

    error: UnknownFrame


@record
class Reconfigured:
    """Process -> actor: these settings hold now."""

    settings: NodeSettings


class PollGroup:
    """A set of sockets that can be silenced and heard again as one, at the cost of one system call."""

    def __init__(self, outer: select.epoll) -> None:
        self._outer = outer
        self._inner = select.epoll()
        self._tokens: dict[int, Any] = {}
        self.heard = True
        outer.register(self._inner.fileno(), READ)

    def fileno(self) -> int:
        return self._inner.fileno()

    def watch(self, fd: int, events: int, token: Any) -> None:
        """Report ``events`` (READ, WRITE) of ``fd`` under ``token``; watching again replaces both."""
        if events & READ:
            events |= LEFT
        if fd in self._tokens:
            self._inner.modify(fd, events)
        else:
            self._inner.register(fd, events)
        self._tokens[fd] = token

    def forget(self, fd: int) -> None:
        """Stop watching ``fd``; unknown ones are ignored."""
        if self._tokens.pop(fd, None) is not None:
            self._inner.unregister(fd)

    def left(self) -> list[Any]:
        """The tokens of sockets that are watched for READ and whose far end has closed, also while the group is not heard."""
        tokens = self._tokens
        return [tokens[fd] for fd, events in self._inner.poll(0) if events & LEFT and fd in tokens]

    def has_left(self, fd: int) -> bool:
        """Whether the far end of socket ``fd`` has closed its side, also while what it sent before has not been read."""
        poll = select.poll()
        poll.register(fd, select.POLLRDHUP)
        return any(events & LEFT for _, events in poll.poll(0))

    def unsent_bytes(self, fd: int) -> int:
        """As ``actors.system.send_queue``: what socket ``fd`` took and has not got rid of."""
        return unsent_bytes(fd)

    def hear(self, heard: bool) -> None:
        """Go on or stop reporting the whole group."""
        if heard != self.heard:
            self.heard = heard
            self._outer.modify(self._inner.fileno(), READ if heard else 0)  # adding it anew would look at every socket in it

    def ready(self) -> list[tuple[Any, int]]:
        """The sockets that can go on right now."""
        tokens = self._tokens
        return [(tokens[fd], events) for fd, events in self._inner.poll(0) if fd in tokens]


class Mailbox:
    """A pykka inbox. ``put`` may be called from any thread; everything else belongs to the actors' thread."""

    def __init__(self, post: Post, name: str) -> None:
        self.name = name
        self._post = post
        # The same as the methods below, without their call: each message passes them several times.
        self.now_s = post.now_s  # type: ignore[method-assign]
        self.wall_ms = post.wall_ms  # type: ignore[method-assign]
        self.send = post.send  # type: ignore[method-assign]

    # --- the world outside: an actor asks for time, chance and threads here and nowhere else ---

    def now_s(self) -> float:
        """The monotonic clock, in seconds."""
        return self._post.now_s()

    def wall_ms(self) -> int:
        """UTC in milliseconds; it may jump."""
        return self._post.wall_ms()

    def random(self) -> float:
        """A uniform value in [0, 1)."""
        return self._post.random()

    def in_thread(self, name: str, job: Callable[[], None]) -> None:
        """Run ``job``, which may block, in a thread of its own that does not keep the process alive."""
        self._post.in_thread(name, job)

    def traffic(self) -> tuple[int, int, int]:
        """Frames that the actor's process has sent and received, and its turns, since it began."""
        return self._post.traffic()

    # --- sending ---

    def send(self, peer: str, frame: Frame) -> None:
        """Queue ``frame`` for the actor named ``peer``; never blocks. Outstanding frames are limited by the links' credit."""
        self._post.send(peer, frame)

    def moves(self, name: str) -> None:
        """The actor or child ``name`` begins a life in another process than before."""
        self._post.moves(name)

    def poll_again(self) -> None:
        """Look at the sockets once more in this turn, because some that were silenced are heard again."""
        self._post.poll_again()

    # --- sockets and timers ---

    def watch(self, fd: int, events: int, token: Hashable) -> None:
        """Report ``events`` (READ, WRITE) of ``fd`` as ``SocketsReady`` under ``token``; watching again replaces both."""
        self._post.watch(self.name, fd, events, token)

    def forget(self, fd: int) -> None:
        """Stop watching ``fd``; unknown ones are ignored. Call it before closing the socket."""
        self._post.forget(fd)

    def group(self) -> PollGroup:
        """A new group of sockets that can be silenced together."""
        return self._post.group(self.name)

    def router(self, path: Path) -> RequestRouter:
        """A ROUTER socket bound at ``path``, readable by its owner only; its requests are reported under token ``router``."""
        return self._post.router(self.name, path)

    def attend(self, router: CurveRouter, token: str) -> None:
        """Report under ``token`` what comes to ``router``."""
        self._post.attend(self.name, router.sockets, token)

    def neglect(self, router: CurveRouter) -> None:
        """Report no more of it. Call it before closing it."""
        self._post.neglect(router.sockets)

    def set_timer(self, name: str, at_s: float) -> None:
        """Tell ``TimerDue(name)`` at ``at_s`` on the monotonic clock; setting it again moves it."""
        self._post.set_timer((self.name, name), at_s)

    def cancel_timer(self, name: str) -> None:
        """Forget the timer ``name``; unknown ones are ignored."""
        self._post.cancel_timer((self.name, name))

    # --- the pykka inbox; what is in it is given to the actor by its process, with all else ---

    def put(self, envelope: Envelope[Any]) -> None:
        """Add a message from within this process; wakes it when another thread calls."""
        self._post.tell(self.name, envelope.message)

    def get(self) -> Envelope[Any]:
        """Not used: the process gives what comes."""
        raise NotImplementedError

    def empty(self) -> bool:
        """Whether nothing was told from within this process; frames are not counted."""
        return True
