"""The mailbox of one process: its ZeroMQ sockets, its other sockets and its timers, as one pykka inbox.

The only user of zmq. An actor's process has one thread for all it does: pykka's loop asks this inbox for the next message, and
the inbox polls. So a frame reaches the actor without a thread hand-over, and "the mailbox has been drained" is itself a message
(``TurnEnded``), which is where actors batch: everything that came in during the last turn goes out as one write, one frame, one
burst.

Every process binds one PULL socket, ``<run>/<name>.ipc``, and connects a PUSH socket to each peer it talks to. ZeroMQ keeps
frames for a peer that is away and loses those a dead peer had read: the links above (numbers, epochs, resend) make up for both.
"""

from __future__ import annotations

import os
import random
import select
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from heapq import heappop, heappush
from pathlib import Path
from typing import Any

import zmq
from pykka._envelope import Envelope

from actors.send_queue import unsent_bytes
from wire.errors import Unavailable, UnknownFrame
from wire.frames import Frame, decode, encode

READ = select.EPOLLIN
WRITE = select.EPOLLOUT
HANGUP = select.EPOLLHUP | select.EPOLLERR
LEFT = select.EPOLLRDHUP | HANGUP

FRAMES_PER_TURN_MAX = 64
REQUEST_MAX_BYTES = 1 << 20
_EVENTS = int(zmq.EVENTS)
_POLLIN = int(zmq.POLLIN)  # plain numbers: an enum's "and" makes an enum
_NOBLOCK = int(zmq.NOBLOCK)
_NOBLOCK_MORE = int(zmq.NOBLOCK) | int(zmq.SNDMORE)
_SUN_PATH_MAX = 100  # sun_path holds 108 bytes; zmq and a temporary suffix want a few


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """Mailbox -> actor: nothing more is waiting, or enough was read for one turn; send and commit what has gathered."""

    now_s: float


@dataclass(frozen=True, slots=True)
class TimerDue:
    """Mailbox -> actor: the timer ``name`` has run out."""

    name: str
    now_s: float


@dataclass(frozen=True, slots=True)
class SocketsReady:
    """Mailbox -> actor: (token, poll events) of each watched socket that can go on."""

    ready: list[tuple[Any, int]]


@dataclass(frozen=True, slots=True)
class BadFrame:
    """Mailbox -> actor: a frame was refused; nothing of it was taken."""

    error: UnknownFrame


def ipc_endpoint(path: Path) -> str:
    """The ZeroMQ address of the socket file ``path``, however long its folder's name is."""
    if len(os.fsencode(path)) <= _SUN_PATH_MAX:
        return f"ipc://{path}"
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)  # stays open: the address needs it
    return f"ipc:///proc/self/fd/{folder}/{path.name}"


def socket_path(run_dir: Path, name: str) -> Path:
    """The socket file on which actor ``name`` (such as ``forwarder:cloud:0``) receives."""
    return run_dir / f"{name.replace(':', '.')}.ipc"


def _readable(socket: zmq.Socket[bytes]) -> bool:
    """Whether a message waits. ``getsockopt`` is a third of the price of the attribute, and this is asked once a message."""
    events = socket.getsockopt(_EVENTS)
    assert isinstance(events, int)  # zmq types every option as a number or text
    return bool(events & _POLLIN)


class Router:
    """The answering end of a request socket. A request's first parts say whom to answer, its last is what was asked."""

    def __init__(self, socket: zmq.Socket[bytes]) -> None:
        self._socket = socket

    def requests(self) -> list[tuple[list[bytes], bytes]]:
        """What was asked since the last call: (whom to answer, payload)."""
        requests = []
        while _readable(self._socket):
            *whom, payload = self._socket.recv_multipart(zmq.NOBLOCK)
            requests.append((whom, payload))
        return requests

    def answer(self, whom: list[bytes], payload: bytes) -> None:
        """Answer a request; an asker that has gone gets nothing."""
        self._socket.send_multipart([*whom, payload], flags=zmq.NOBLOCK)


def ask(path: Path, payload: bytes, timeout_s: float) -> bytes | None:
    """Send one request to the ``Router`` at ``path`` and wait for its answer; None if there is none in time."""
    with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
        socket.setsockopt(zmq.LINGER, 0)
        socket.connect(ipc_endpoint(path))
        socket.send(payload)
        return socket.recv() if socket.poll(round(timeout_s * 1000)) else None


class PollGroup:
    """A set of sockets that can be silenced and heard again as one, at the cost of one system call."""

    def __init__(self, outer: select.epoll) -> None:
        self._outer = outer
        self._inner = select.epoll()
        self._tokens: dict[int, Any] = {}
        self._heard = True
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
        """As ``actors.send_queue``: what socket ``fd`` took and has not got rid of."""
        return unsent_bytes(fd)

    def hear(self, heard: bool) -> None:
        """Go on or stop reporting the whole group."""
        if heard != self._heard:
            self._heard = heard
            self._outer.modify(self._inner.fileno(), READ if heard else 0)  # adding it anew would look at every socket in it

    def ready(self) -> list[tuple[Any, int]]:
        """What can go on right now."""
        tokens = self._tokens
        return [(tokens[fd], events) for fd, events in self._inner.poll(0) if fd in tokens]


class Mailbox:
    """A pykka inbox that polls. ``put`` may be called from any thread; everything else belongs to the actor's thread."""

    def __init__(self, run_dir: Path, name: str) -> None:
        self.name = name
        self._run_dir = run_dir
        self._context = zmq.Context()
        self._pull = self._context.socket(zmq.PULL)
        self._pull.setsockopt(zmq.RCVHWM, 0)
        self._bind(self._pull, socket_path(run_dir, name))
        self._peers: dict[str, zmq.Socket[bytes]] = {}
        self._extra: dict[int, zmq.Socket[bytes]] = {}
        self._epoll = select.epoll()
        self._pull_fd = self._pull.FD
        self._epoll.register(self._pull_fd, READ)
        self._frames_may_wait = True  # False: ZeroMQ said that there are none, and its descriptor has not been ready since
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._epoll.register(self._wake, READ)
        self._tokens: dict[int, Any] = {}
        self._groups: dict[int, PollGroup] = {}
        self._told: deque[Envelope[Any]] = deque()
        self._timers: list[tuple[float, int, str]] = []
        self._timer_ids: dict[str, int] = {}
        self._timer_count = 0
        self._frames_left = FRAMES_PER_TURN_MAX
        self._turn_open = False
        self._polled = False
        self._owner = threading.get_ident()

    # --- the world outside: an actor asks for time, chance and threads here and nowhere else ---

    def now_s(self) -> float:
        """The monotonic clock, in seconds."""
        return time.monotonic()

    def wall_ms(self) -> int:
        """UTC in milliseconds; it may jump."""
        return time.time_ns() // 1_000_000

    def random(self) -> float:
        """A uniform value in [0, 1)."""
        return random.random()

    def in_thread(self, name: str, job: Callable[[], None]) -> None:
        """Run ``job``, which may block, in a thread of its own that does not keep the process alive."""
        threading.Thread(target=job, name=name, daemon=True).start()

    # --- sending ---

    def send(self, peer: str, frame: Frame) -> None:
        """Queue ``frame`` for the actor named ``peer``; never blocks. What may be outstanding is limited by the links' credit."""
        self.send_parts(peer, encode(frame))

    def send_parts(self, peer: str, parts: list[bytes]) -> None:
        """``send`` for a frame that is encoded already, such as one that is kept for resending."""
        socket = self._peers.get(peer)
        if socket is None:
            socket = self._context.socket(zmq.PUSH)
            socket.setsockopt(zmq.SNDHWM, 0)
            socket.setsockopt(zmq.LINGER, 1000)
            socket.setsockopt(zmq.RECONNECT_IVL, 10)
            socket.connect(ipc_endpoint(socket_path(self._run_dir, peer)))
            self._peers[peer] = socket
        send = socket.send
        for part in parts[:-1]:  # send_multipart costs twice as much
            send(part, _NOBLOCK_MORE)
        send(parts[-1], _NOBLOCK)

    def look_again(self) -> None:
        """Look at the sockets once more in this turn, because some that were silenced are heard again."""
        self._polled = False

    # --- sockets and timers ---

    def watch(self, fd: int, events: int, token: Hashable) -> None:
        """Report ``events`` (READ, WRITE) of ``fd`` as ``SocketsReady`` under ``token``; watching again replaces both."""
        if fd in self._tokens:
            self._epoll.modify(fd, events)
        else:
            self._epoll.register(fd, events)
        self._tokens[fd] = token

    def forget(self, fd: int) -> None:
        """Stop watching ``fd``; unknown ones are ignored. Call it before closing the socket."""
        if self._tokens.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    def group(self) -> PollGroup:
        """A new group of sockets that can be silenced together."""
        group = PollGroup(self._epoll)
        self._groups[group.fileno()] = group
        return group

    def router(self, path: Path) -> Router:
        """A ROUTER socket bound at ``path``, readable by its owner only; its requests are reported under token ``router``."""
        socket: zmq.Socket[bytes] = self._context.socket(zmq.ROUTER)
        socket.setsockopt(zmq.MAXMSGSIZE, REQUEST_MAX_BYTES)
        socket.setsockopt(zmq.LINGER, 200)
        mask = os.umask(0o177)
        try:
            self._bind(socket, path)
        finally:
            os.umask(mask)
        self._epoll.register(socket.FD, READ)
        self._extra[socket.FD] = socket
        return Router(socket)

    def set_timer(self, name: str, at_s: float) -> None:
        """Tell ``TimerDue(name)`` at ``at_s`` on the monotonic clock; setting it again moves it."""
        self._timer_count += 1
        self._timer_ids[name] = self._timer_count
        heappush(self._timers, (at_s, self._timer_count, name))

    def cancel_timer(self, name: str) -> None:
        """Forget the timer ``name``; unknown ones are ignored."""
        self._timer_ids.pop(name, None)

    # --- the pykka inbox ---

    def put(self, envelope: Envelope[Any]) -> None:
        """Add a message from within this process; wakes the actor when another thread calls."""
        self._told.append(envelope)
        if threading.get_ident() != self._owner:
            os.eventfd_write(self._wake, 1)

    def begin_with(self, frame: Frame) -> None:
        """Have the actor, which has not begun, hear ``frame`` before anything that others send it."""
        self._told.append(Envelope(frame))

    def empty(self) -> bool:
        """Whether nothing was told from within this process; frames are not counted."""
        return not self._told

    def get(self) -> Envelope[Any]:
        """The next message: told ones, frames, ready sockets, due timers; and when all is quiet ``TurnEnded``, then wait."""
        self._owner = threading.get_ident()
        while True:
            if self._told:
                self._turn_open = True
                return self._told.popleft()
            if self._frames_left > 0 and self._frames_may_wait and self._frame_waits():
                self._frames_left -= 1
                self._turn_open = True
                return Envelope(self._receive())
            if not self._polled:
                self._polled = True
                ready = self._poll(0.0 if self._turn_open or self._frames_left <= 0 else self._timeout_s())
                if ready:
                    self._turn_open = True
                    return Envelope(SocketsReady(ready))
                if self._told or (self._frames_left > 0 and self._frames_may_wait):
                    continue
            now_s = time.monotonic()
            timer = self._due_timer(now_s)
            if timer is not None:
                self._turn_open = True
                return Envelope(TimerDue(timer, now_s))
            self._polled = False
            self._frames_left = FRAMES_PER_TURN_MAX
            if self._turn_open:
                self._turn_open = False
                return Envelope(TurnEnded(now_s))

    def close(self) -> None:
        """Send what is queued (for at most a second) and close every socket."""
        for socket in self._peers.values():
            socket.close()
        for socket in self._extra.values():
            socket.close()
        self._pull.close(0)
        self._context.term()

    # --- inside ---

    @staticmethod
    def _bind(socket: zmq.Socket[bytes], path: Path) -> None:
        try:
            socket.bind(ipc_endpoint(path))
        except (zmq.ZMQError, OSError) as error:  # no room on the disk, or no descriptors
            raise Unavailable("the mailbox cannot be made", path=str(path), error=str(error)) from error

    def _frame_waits(self) -> bool:
        """Whether a frame waits. ZeroMQ's descriptor tells of changes only, so one "no" holds until it is ready again."""
        self._frames_may_wait = _readable(self._pull)
        return self._frames_may_wait

    def _receive(self) -> Frame | BadFrame:
        receive = self._pull.recv
        part = receive(_NOBLOCK, copy=False)  # says by itself whether more follows
        parts = [part.bytes]
        while part.more:
            part = receive(_NOBLOCK, copy=False)
            parts.append(part.bytes)
        try:
            return decode(parts)
        except UnknownFrame as error:
            return BadFrame(error)

    def _poll(self, timeout_s: float) -> list[tuple[Any, int]]:
        ready: list[tuple[Any, int]] = []
        # An extra ZeroMQ socket's descriptor is edge-triggered, so its state is asked for, not waited for.
        for socket in self._extra.values():
            if _readable(socket):
                ready.append(("router", READ))
                timeout_s = 0.0
        for fd, events in self._epoll.poll(timeout_s):
            if fd in self._tokens:
                ready.append((self._tokens[fd], events))
            elif fd in self._groups:
                ready.extend(self._groups[fd].ready())
            elif fd == self._pull_fd:
                self._frames_may_wait = True
            elif fd == self._wake:
                os.eventfd_read(self._wake)
        return ready

    def _timeout_s(self) -> float:
        while self._timers and self._timer_ids.get(self._timers[0][2]) != self._timers[0][1]:
            heappop(self._timers)
        if not self._timers:
            return -1.0
        return max(0.0, self._timers[0][0] - time.monotonic())

    def _due_timer(self, now_s: float) -> str | None:
        while self._timers and self._timers[0][0] <= now_s:
            _, number, name = heappop(self._timers)
            if self._timer_ids.get(name) == number:
                del self._timer_ids[name]
                return name
        return None
