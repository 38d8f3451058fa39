"""Connections of one process to the world outside: its ZeroMQ sockets, its other sockets, its timers, messages of its threads.

A process has one thread for all it does; its ``Host`` asks here for the next message, and this polls. So a frame reaches its actor
without a thread hand-over, and "nothing more is waiting" is itself a message (``TurnEnded``), which is where actors batch: all that
came in during the last turn goes out as one write, one frame, one burst.

Every process binds one PULL socket, ``<run>/<name>.ipc``, and connects a PUSH socket to each process it talks to. ZeroMQ keeps
frames for a process that is away and loses those a dead one had read: the links above (numbers, epochs, resend) make up for both.
In front of a frame's first part stand the name of the actor it is for and a NUL. A small frame of two parts is sent as one: a plus
sign, name, NUL, the length of its first part (32 bits), and both. Frames between the actors of one process are handed over as they
are (``local``).
"""

from __future__ import annotations

import logging
import os
import random
import select
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable
from heapq import heappop, heappush
from pathlib import Path
from typing import Any

import zmq

from actors.process.mailbox import READ, BadFrame, PollGroup, SocketsReady, TimerDue, TurnEnded
from actors.process.request_sockets import RequestRouter, ipc_endpoint, readable
from actors.system.clocks import wall_ms
from wire.errors import Unavailable, UnknownFrame
from wire.frames.codec import decode, encode
from wire.frames.frame import Frame
from wire.frames.names import child_of

TimerName = tuple[str, str]  # the actor, and what it calls the timer

log = logging.getLogger("bascule")

FRAMES_PER_TURN_MAX = 64
JOBS_AGAIN_S = 0.5
REQUEST_MAX_BYTES = 1 << 20
JOINED_BYTES_MAX = 16_384  # up to there copying a part costs less than sending one
_JOINED = b"+"  # no actor's name begins so
_NOBLOCK = int(zmq.NOBLOCK)
_NOBLOCK_MORE = int(zmq.NOBLOCK) | int(zmq.SNDMORE)


def socket_path(run_dir: Path, name: str) -> Path:
    """The socket file on which process ``name`` (such as ``bridge:cloud:0``) receives."""
    return run_dir / f"{name.replace(':', '.')}.ipc"


def _refused(name: str, job: Callable[[], None]) -> RuntimeError | None:
    """Begin a thread that does ``job``; why the machine does not allow one, if so."""
    try:
        threading.Thread(target=job, name=name, daemon=True).start()
    except RuntimeError as error:
        return error
    return None


def _joined(address: bytes, head: bytes, body: bytes) -> bytes:
    return b"".join((_JOINED, address, len(head).to_bytes(4, "big"), head, body))


def _parted(joined: bytes) -> list[bytes]:
    stop = int.from_bytes(joined[:4], "big") + 4
    return [joined[4:stop], joined[stop:]]


class Post:
    """The sockets, timers and told messages of one process. ``tell`` may be called from any thread; the rest is its own thread's.

    local: the names of the actors that this process has; frames for them go to ``handed_over``.
    """

    frames_sent = frames_received = turns = 0  # so far; what goes between processes costs turns and frames, not messages
    _process_of: Callable[[str], str] = staticmethod(child_of)

    def __init__(self, run_dir: Path, name: str) -> None:
        self.name = name
        self.local: set[str] = set()
        self.handed_over: list[tuple[str, Frame]] = []
        self._run_dir = run_dir
        self._context = zmq.Context()
        self._pull = self._context.socket(zmq.PULL)
        self._pull.setsockopt(zmq.RCVHWM, 0)
        self._bind(self._pull, socket_path(run_dir, name))
        self._processes: dict[str, zmq.Socket[bytes]] = {}
        self._ways: dict[str, tuple[Callable[..., Any], bytes]] = {}  # actor -> "send" of its process's socket, and its address
        self._extra: list[tuple[str, str, zmq.Socket[bytes]]] = []  # for whom, under which token
        self._epoll = select.epoll()
        self._pull_fd = self._pull.FD
        self._epoll.register(self._pull_fd, READ)
        self._frames_may_wait = True  # False: ZeroMQ said that there are none, and its descriptor has not been ready since
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._epoll.register(self._wake, READ)
        self._told: deque[tuple[str, Any]] = deque()
        self._tokens: dict[int, tuple[str, Any]] = {}
        self._groups: dict[int, tuple[str, PollGroup]] = {}
        self._ready: deque[tuple[str, SocketsReady]] = deque()
        self._due_s: dict[TimerName, float] = {}
        self._timers: list[tuple[float, TimerName]] = []  # a heap of looks at timers: one that has moved on is put back then
        self._looks_s: dict[TimerName, float] = {}  # the first look at each
        self._frames_left = FRAMES_PER_TURN_MAX
        self._turn_open = False
        self._polled = False
        self._waiting_jobs: deque[tuple[str, Callable[[], None]]] = deque()  # for which there was no thread
        self._owner = threading.get_ident()
        self._wall_ms = 0  # read since the sockets were looked at last; 0: it was not
        self.now_s = time.monotonic  # type: ignore[method-assign]  # the same as the method, without its call

    # --- the world outside ---

    def now_s(self) -> float:
        """The monotonic clock, in seconds."""
        return time.monotonic()

    def wall_ms(self) -> int:
        """UTC in milliseconds, as it was when it was asked for first since the last look at the sockets; it may step."""
        if not self._wall_ms:
            self._wall_ms = wall_ms()
        return self._wall_ms

    def random(self) -> float:
        """A uniform value in [0, 1)."""
        return random.random()

    def in_thread(self, name: str, job: Callable[[], None]) -> None:
        """Run ``job``, which may block, in a thread of its own that does not keep the process alive.

        On a machine that allows no more threads it waits for one, instead of ending all who share the process.
        """
        if not self._waiting_jobs:
            error = _refused(name, job)
            if error is None:
                return
            remedy = "raise TasksMax= of the service, or the limit of the user's processes"
            log.error("thread.refused", extra={"work": name, "error": str(error), "remedy": remedy})
        self._waiting_jobs.append((name, job))

    def traffic(self) -> tuple[int, int, int]:
        """Frames sent to and received from other processes, and turns, since this one began."""
        return self.frames_sent, self.frames_received, self.turns

    # --- sending ---

    def send(self, peer: str, frame: Frame) -> None:
        """Queue ``frame`` for the actor, or the process itself, named ``peer``; never blocks."""
        if peer in self.local:
            self.handed_over.append((peer, frame))
        else:
            self.send_parts(peer, encode(frame))

    def send_parts(self, peer: str, parts: list[bytes]) -> None:
        """``send`` to another process for a frame that is encoded already."""
        way = self._ways.get(peer)
        if way is None:
            process = self._process_of(peer)
            if process == self.name:
                return  # a lane between two of its lives; what is sent to a former one may be lost
            socket = self._socket_to(process)
            way = self._ways[peer] = super(zmq.Socket, socket).send, f"{peer}\0".encode()  # what ``send`` calls, at half the price
        self.frames_sent += 1
        send, address = way
        head, *bodies = parts
        if not bodies:
            send(address + head, _NOBLOCK)
            return
        if len(bodies) == 1 and len(bodies[0]) <= JOINED_BYTES_MAX:
            send(_joined(address, head, bodies[0]), _NOBLOCK)
            return
        send(address + head, _NOBLOCK_MORE)
        for part in bodies[:-1]:  # send_multipart costs twice as much
            send(part, _NOBLOCK_MORE)
        send(bodies[-1], _NOBLOCK)

    def place(self, process_of: Callable[[str], str]) -> None:
        """From now on actors and children live where ``process_of`` says. Who is spoken to is so where it was, until it moves."""
        self._process_of = process_of

    def moves(self, name: str) -> None:
        """The actor or child ``name`` begins a life elsewhere than before."""
        self._ways.pop(name, None)

    def settle(self, actor: str) -> None:
        """``actor`` lives here from now on."""
        self.local.add(actor)
        self.moves(actor)

    def leave(self, actor: str) -> None:
        """``actor`` has ended; nothing of it is watched any more, and no timer of it runs."""
        self.local.discard(actor)
        for name in [name for name in self._due_s if name[0] == actor]:
            del self._due_s[name]
        for fd in [fd for fd, (whose, _) in self._tokens.items() if whose == actor]:
            self.forget(fd)
        self._ready = deque(each for each in self._ready if each[0] != actor)

    def _socket_to(self, process: str) -> zmq.Socket[bytes]:
        socket = self._processes.get(process)
        if socket is None:
            socket = self._processes[process] = self._context.socket(zmq.PUSH)
            socket.setsockopt(zmq.SNDHWM, 0)
            socket.setsockopt(zmq.LINGER, 1000)
            socket.setsockopt(zmq.RECONNECT_IVL, 10)
            socket.connect(ipc_endpoint(socket_path(self._run_dir, process)))
        return socket

    # --- sockets and timers ---

    def poll_again(self) -> None:
        """Look at the sockets once more in this turn."""
        self._polled = False

    def watch(self, actor: str, fd: int, events: int, token: Hashable) -> None:
        """Report ``events`` (READ, WRITE) of ``fd`` to ``actor`` under ``token``; watching again replaces all of that."""
        if fd in self._tokens:
            self._epoll.modify(fd, events)
        else:
            self._epoll.register(fd, events)
        self._tokens[fd] = actor, token

    def forget(self, fd: int) -> None:
        """Stop watching ``fd``; unknown ones are ignored."""
        if self._tokens.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    def group(self, actor: str) -> PollGroup:
        """A new group of sockets that can be silenced together."""
        group = PollGroup(self._epoll)
        self._groups[group.fileno()] = actor, group
        return group

    def router(self, actor: str, path: Path) -> RequestRouter:
        """A ROUTER socket bound at ``path``; its requests are reported under token ``router``."""
        socket: zmq.Socket[bytes] = self._context.socket(zmq.ROUTER)
        socket.setsockopt(zmq.MAXMSGSIZE, REQUEST_MAX_BYTES)
        socket.setsockopt(zmq.LINGER, 200)
        self._bind(socket, path)
        self.attend(actor, [socket], "router")
        return RequestRouter(socket)

    def attend(self, actor: str, sockets: Iterable[zmq.Socket[bytes]], token: str) -> None:
        """Report to ``actor`` under ``token`` when a message waits at any of these ZeroMQ sockets."""
        for socket in sockets:
            self._epoll.register(socket.FD, READ)
            self._extra.append((actor, token, socket))

    def neglect(self, sockets: Iterable[zmq.Socket[bytes]]) -> None:
        """Report no more of what is attended to; call it before closing them."""
        gone = list(sockets)
        for socket in gone:
            self._epoll.unregister(socket.FD)
        self._extra = [extra for extra in self._extra if extra[2] not in gone]

    def set_timer(self, name: TimerName, at_s: float) -> None:
        """Tell the actor that ``name`` begins with of it at ``at_s`` on the monotonic clock; setting it again moves it."""
        self._due_s[name] = at_s
        if name not in self._looks_s or at_s < self._looks_s[name]:
            self._looks_s[name] = at_s
            heappush(self._timers, (at_s, name))

    def cancel_timer(self, name: TimerName) -> None:
        """Forget the timer ``name``; unknown ones are ignored."""
        self._due_s.pop(name, None)

    # --- what comes ---

    def tell(self, actor: str, message: Any) -> None:
        """A message for ``actor`` from within this process; wakes it when another thread calls."""
        self._told.append((actor, message))
        if threading.get_ident() != self._owner:
            os.eventfd_write(self._wake, 1)

    def own(self) -> None:
        """From now on the thread that calls this is the post's own."""
        self._owner = threading.get_ident()

    def next(self) -> tuple[str, Any]:
        """For whom the next message is, and what it is: told ones, frames, ready sockets, due timers.

        A quiet moment brings ``TurnEnded``, for nobody in particular; the next call waits.
        """
        while True:
            if self._told:
                self._turn_open = True
                return self._told.popleft()
            if self._ready:
                return self._ready.popleft()
            if self._frames_may_wait and self._frames_left > 0:
                # ZeroMQ's descriptor tells of changes only, so one "no" holds until it is ready again.
                self._frames_may_wait = readable(self._pull)
                if self._frames_may_wait:
                    self._frames_left -= 1
                    self.frames_received += 1
                    self._turn_open = True
                    return self._receive()
            if not self._polled:
                self._polled = True
                if self._poll(0.0 if self._turn_open or self._frames_left <= 0 else self._timeout_s()):
                    self._turn_open = True
                    return self._ready.popleft()
                if self._told or (self._frames_may_wait and self._frames_left > 0):
                    continue
            now_s = time.monotonic()
            if self._timers and self._timers[0][0] <= now_s:
                timer = self._due_timer(now_s)
                if timer is not None:
                    self._turn_open = True
                    return timer[0], TimerDue(timer[1], now_s)
            self._polled = False
            self._frames_left = FRAMES_PER_TURN_MAX
            if self._turn_open:
                self._turn_open = False
                self.turns += 1
                return "", TurnEnded(now_s)

    def close(self) -> None:
        """Send what is queued (for at most a second) and close every socket."""
        for socket in self._processes.values():
            socket.close()
        for _, _, socket in self._extra:
            socket.close()
        self._pull.close(0)
        self._context.term()

    # --- inside ---

    @staticmethod
    def _bind(socket: zmq.Socket[bytes], path: Path) -> None:
        """Bind at ``path``, where nobody but the owner can connect from the first moment on."""
        mask = os.umask(0o177)
        try:
            socket.bind(ipc_endpoint(path))
        except (zmq.ZMQError, OSError) as error:  # no room on the disk, or no descriptors
            raise Unavailable("the mailbox cannot be made", path=str(path), error=str(error)) from error
        finally:
            os.umask(mask)

    def _receive(self) -> tuple[str, Frame | BadFrame]:
        receive = self._pull.recv
        part = receive(_NOBLOCK, copy=False)  # says by itself whether more follows
        address, _, head = part.bytes.partition(b"\0")
        parts = [head]
        if address[:1] == _JOINED:
            address, parts = address[1:], _parted(head)
        while part.more:
            part = receive(_NOBLOCK, copy=False)
            parts.append(part.bytes)
        name = address.decode(errors="replace")
        try:
            return name, decode(parts)
        except UnknownFrame as error:
            return name, BadFrame(error)

    def _poll(self, timeout_s: float) -> bool:
        """Look at the sockets; whether any can go on."""
        ready = self._ready
        # An extra ZeroMQ socket's descriptor is edge-triggered, so its state is asked for, not waited for.
        for actor, token, socket in self._extra:
            if readable(socket):
                ready.append((actor, SocketsReady([(token, READ)])))
                timeout_s = 0.0
        for fd, events in self._epoll.poll(timeout_s):
            if fd == self._pull_fd:
                self._frames_may_wait = True
            elif fd in self._groups:
                actor, group = self._groups[fd]
                if sockets := group.ready():
                    ready.append((actor, SocketsReady(sockets)))
            elif fd in self._tokens:
                actor, token = self._tokens[fd]
                ready.append((actor, SocketsReady([(token, events)])))
            elif fd == self._wake:
                os.eventfd_read(self._wake)
        self._wall_ms = 0
        return bool(ready)

    def _timeout_s(self) -> float:
        due_s = self._next_due_s()
        while self._waiting_jobs and _refused(*self._waiting_jobs[0]) is None:
            self._waiting_jobs.popleft()
        if self._waiting_jobs:
            again_s = time.monotonic() + JOBS_AGAIN_S
            due_s = again_s if due_s is None else min(due_s, again_s)
        if due_s is None:
            return -1.0
        left_s = due_s - time.monotonic()
        return left_s if left_s > 0 else 0.0

    def _next_due_s(self) -> float | None:
        while self._timers:
            at_s, name = self._timers[0]
            if self._due_s.get(name) == at_s:
                return at_s
            self._look_later()
        return None

    def _due_timer(self, now_s: float) -> TimerName | None:
        while self._timers and self._timers[0][0] <= now_s:
            at_s, name = self._timers[0]
            if self._due_s.get(name) == at_s:
                heappop(self._timers)
                del self._due_s[name]
                self._looks_s.pop(name, None)
                return name
            self._look_later()
        return None

    def _look_later(self) -> None:
        """The timer looked at first is due at another time, or not at all."""
        at_s, name = heappop(self._timers)
        if self._looks_s.get(name) != at_s:
            return  # it was to be earlier once, and is looked at there
        due_s = self._due_s.get(name)
        if due_s is None:
            del self._looks_s[name]
        else:
            self._looks_s[name] = due_s
            heappush(self._timers, (due_s, name))
