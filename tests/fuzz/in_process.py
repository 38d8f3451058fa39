"""A node's clients and store, two processes, in this process and thread; the local clients are buffers.

The actors and their hosts are the real ones, and frames between processes are encoded and decoded; only what polls is replaced. So
bytes from a client pass through everything that they pass through in a node, thousands of times a second, and what any actor raises
is raised here.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from typing import Any, cast

from actors.access.client import Client
from actors.access.listening_sockets import ListeningSocket
from actors.broker.distributor import Distributor
from actors.broker.listener import Listener
from actors.process.actor import MailboxActor
from actors.process.host import ChildHost
from actors.process.local_messages import PublishedMessages
from actors.process.mailbox import READ, Mailbox, PollGroup, SocketsReady, TimerDue, TurnEnded
from actors.process.post import Post, TimerName
from actors.store.queue_store import QueueStore
from tests.support.settings import node
from wire.config_settings import ClientLimitSettings, ListenerSettings, NodeSettings
from wire.errors import PeerViolation
from wire.frames.batch import Batch
from wire.frames.codec import decode
from wire.frames.frame import Frame
from wire.frames.intake import SessionOpen
from wire.frames.names import CLIENTS, DISTRIBUTOR, LISTENER, QUEUE_STORE, STORE, actors_of, child_of
from wire.frames.supervision import PeerUp
from wire.mqtt.codec import encode, split
from wire.mqtt.packets import Connect

EPOCH = 7
LIMITS = ClientLimitSettings(
    connections_max=100,
    connect_timeout_s=5.0,
    packet_max_bytes=1 << 16,
    output_max_bytes=1 << 20,
    subscriptions_max=10,
    keep_alive_max_s=65_535,
    receive_maximum=1000,
    topic_levels_max=20,
    topic_max_bytes=1000,
)
_TURNS_MAX = 10_000
_REST = (LISTENER, "rest")


class Pipe:
    """A client's socket, seen from the Listener: ``sent`` is what the client has sent, ``taken`` what it was sent."""

    def __init__(self, number: int) -> None:
        self._number = number
        self.sent: deque[bytes] = deque()
        self.ended = False
        self.taken = bytearray()
        self.closed = False  # to the client: nothing more comes

    def fileno(self) -> int:
        return self._number

    def setblocking(self, blocking: bool) -> None:
        assert not blocking

    def setsockopt(self, *option: object) -> None:
        pass

    def readable(self) -> bool:
        return bool(self.sent) or self.ended

    def recv(self, count: int) -> bytes:
        if not self.sent:
            if self.ended:
                return b""
            raise BlockingIOError
        data = self.sent.popleft()
        if len(data) > count:
            self.sent.appendleft(data[count:])
        return data[:count]

    def recv_into(self, buffer: memoryview, count: int) -> int:
        data = self.recv(count)
        buffer[: len(data)] = data
        return len(data)

    def send(self, data: bytes) -> int:
        self.taken += data
        return len(data)

    def shutdown(self, how: int) -> None:
        self.closed = True

    def close(self) -> None:
        self.closed = True


class _Listening:
    """The Listener's listening socket."""

    def __init__(self) -> None:
        self.waiting: deque[Pipe] = deque()

    def fileno(self) -> int:
        return 3

    def readable(self) -> bool:
        return bool(self.waiting)

    def accept(self) -> tuple[Pipe, tuple[str, int]]:
        if not self.waiting:
            raise BlockingIOError
        return self.waiting.popleft(), ("127.0.0.1", 1)

    def close(self) -> None:
        pass


class _Group(PollGroup):
    """Sockets of one Listener; each can always be written to."""

    def __init__(self, sockets: dict[int, Any]) -> None:
        self._sockets = sockets
        self._watched: dict[int, tuple[int, Any]] = {}
        self.heard = True

    def fileno(self) -> int:
        return -1

    def watch(self, fd: int, events: int, token: Any) -> None:
        self._watched[fd] = (events, token)

    def forget(self, fd: int) -> None:
        self._watched.pop(fd, None)

    def unsent_bytes(self, fd: int) -> int:
        return 0

    def hear(self, heard: bool) -> None:
        self.heard = heard

    def left(self) -> list[Any]:
        return [token for fd, (events, token) in self._watched.items() if events & READ and self._sockets[fd].ended]

    def ready(self) -> list[tuple[Any, int]]:
        if not self.heard:
            return []
        return [
            (token, READ) for fd, (events, token) in list(self._watched.items()) if events & READ and self._sockets[fd].readable()
        ]


class _Post(Post):
    """One process's post: no thread, no socket but the pipes."""

    def __init__(self, name: str, host: InProcessNode) -> None:
        self.name = name
        self.local = set()
        self._ways = {}
        self.handed_over = []
        self.frames: deque[tuple[str, Frame]] = deque()
        self._node = host
        self._told = deque()
        self._due_s = {}
        self._timers = []
        self._looks_s = {}
        self._own: dict[str, _Group] = {}
        self._made: list[tuple[str, _Group]] = []

    def now_s(self) -> float:
        return self._node.now_s

    def wall_ms(self) -> int:
        return int(self._node.now_s * 1000)

    def random(self) -> float:
        return 0.5

    def in_thread(self, name: str, job: Callable[[], None]) -> None:
        job()

    def send(self, peer: str, frame: Frame) -> None:
        self._node.seen(frame)
        super().send(peer, frame)

    def send_parts(self, peer: str, parts: list[bytes]) -> None:
        self._node.carry(peer, parts)

    def poll_again(self) -> None:
        pass

    def watch(self, actor: str, fd: int, events: int, token: Hashable) -> None:
        if actor not in self._own:
            self._own[actor] = self.group(actor)
        self._own[actor].watch(fd, events, token)

    def forget(self, fd: int) -> None:
        for group in self._own.values():
            group.forget(fd)

    def group(self, actor: str) -> _Group:
        group = _Group(self._node.sockets)
        self._made.append((actor, group))
        return group

    def tell(self, actor: str, message: Any) -> None:
        self._told.append((actor, message))

    def close(self) -> None:
        pass

    def timer_s(self, name: TimerName) -> float | None:
        """The time at which that timer runs out; None where it is not set."""
        return self._due_s.get(name)

    def watches(self, fd: int) -> bool:
        """Whether any of its actors still looks at that socket."""
        return any(fd in group._watched for _, group in self._made)

    def messages(self) -> Iterator[tuple[str, object]]:
        """The messages of the process in one turn, and their receivers."""
        while self._told:
            yield self._told.popleft()
        while self.frames:
            yield self.frames.popleft()
        for actor, group in list(self._made):
            if ready := group.ready():
                yield actor, SocketsReady(ready)
        while (timer := self._due_timer(self._node.now_s)) is not None:
            yield timer[0], TimerDue(timer[1], self._node.now_s)


class _OpenListener(Listener):
    """Listens where the test connects."""

    door: ListeningSocket

    def listen(self) -> None:
        self.reception.add(self.door)


class InProcessNode:
    """The processes of a node without bridges, everything in memory. Time stands still but for ``pass_time``.

    A moment for which the Listener leaves its clients alone is over once all is done that there is to do.
    """

    def __init__(self, limits: ClientLimitSettings = LIMITS, **settings: Any) -> None:
        logging.getLogger("bascule").setLevel(logging.CRITICAL)
        here = ListenerSettings(bind="127.0.0.1:1")
        self.settings: NodeSettings = node(clients=limits, listeners=(here,), **settings)
        self.now_s = 1000.0
        self.sockets: dict[int, Any] = {}
        self.published: list[Batch] = []  # as the Listener hands them on
        self.violations: list[PeerViolation] = []
        self.stopped: set[str] = set()  # processes that do nothing for now
        self.sessions: set[str] = set()  # those that were opened since ``forget_sessions``
        self._free = deque(range(10, 500))
        self._listening = _Listening()
        self.sockets[3] = self._listening
        made = {QUEUE_STORE: QueueStore, DISTRIBUTOR: Distributor, LISTENER: _OpenListener}
        self._actors: dict[str, MailboxActor] = {}
        self._posts: dict[str, _Post] = {}
        self._hosts: dict[str, ChildHost] = {}
        for process in (STORE, CLIENTS):
            post = self._posts[process] = _Post(process, self)
            for name in actors_of(process):
                self._actors[name] = made[name](Mailbox(post, name), self.settings, EPOCH)
            self._hosts[process] = ChildHost(post, self.settings, EPOCH)
            self._hosts[process].add_children(self._actors[name] for name in actors_of(process))
        listener = self._actors[LISTENER]
        assert isinstance(listener, _OpenListener)
        self.listener: Listener = listener
        listener.door = ListeningSocket(self._listening, here)
        judge = listener.packets.violated

        def violated(client: Client, error: PeerViolation) -> None:
            self.violations.append(error)
            judge(client, error)

        listener.packets.violated = violated  # type: ignore[method-assign]  # only to see them
        for process, host in self._hosts.items():
            host.begin()
            for other, post in self._posts.items():
                if other != process:
                    post.frames.extend((other, PeerUp(name=name, epoch=EPOCH)) for name in actors_of(process))
        self.settle()
        assert self.listener.state == "ready"

    def seen(self, frame: Frame) -> None:
        """The messages that an actor sends, to whomever."""
        if isinstance(frame, PublishedMessages):
            self.published.append(frame.batch)
        elif isinstance(frame, SessionOpen):
            self.sessions.add(frame.session)

    def carry(self, peer: str, parts: list[bytes]) -> None:
        """Carry a frame to another process; the supervisor is not there."""
        if (post := self._posts.get(child_of(peer))) is not None:
            post.frames.append((peer, decode(parts)))

    def connect(self) -> Pipe:
        """A new connection."""
        pipe = Pipe(self._free.popleft())
        self.sockets[pipe.fileno()] = pipe
        self._listening.waiting.append(pipe)
        self.settle()
        return pipe

    def hang_up(self, pipe: Pipe) -> None:
        """The client closes."""
        pipe.ended = True
        self.settle()
        assert pipe.closed, "the Listener keeps a connection that has ended"
        assert not any(post.watches(pipe.fileno()) for post in self._posts.values())
        del self.sockets[pipe.fileno()]
        self._free.append(pipe.fileno())

    def forget_sessions(self) -> None:
        """End every session by a clean start, so that what comes next finds none."""
        for session in sorted(self.sessions):
            if not session.startswith("auto-"):
                pipe = self.connect()
                pipe.sent.append(encode(Connect(level=4, client_id=session, clean_start=True, keep_alive_s=0), 4))
                self.settle()
                assert pipe.taken == b"\x20\x02\x00\x00"
                self.hang_up(pipe)
        self.sessions.clear()

    def pass_time(self, seconds: float) -> None:
        """Let timers run out."""
        self.now_s += seconds
        self.settle()

    def settle(self) -> None:
        """Let the processes work until nobody has anything to do."""
        for _ in range(_TURNS_MAX):
            busy = False
            for process, host in self._hosts.items():
                if process in self.stopped:
                    continue
                some = False
                for to, message in self._posts[process].messages():
                    some = True
                    host.give(to, message)
                if some:
                    busy = True
                    host.give("", TurnEnded(self.now_s))
            if not busy:
                rest_s = self._posts[CLIENTS].timer_s(_REST)
                if rest_s is None or CLIENTS in self.stopped:
                    return
                self.now_s = max(self.now_s, rest_s)
        raise AssertionError("the actors never come to rest: no progress")

    def client(self, pipe: Pipe) -> Client | None:
        """The Listener's view of the connection."""
        return next((client for client in self.listener.clients.clients() if client._sock is cast(Any, pipe)), None)

    def check_waiting(self, pipe: Pipe) -> None:
        """Nothing whole may be left lying: what the Listener keeps of a client is the beginning of one packet."""
        client = self.client(pipe)
        if client is not None:
            kept = client.input.front + bytes(client.input._gathered)
            assert len(kept) <= LIMITS.packet_max_bytes
            assert not kept or split(kept, 0, LIMITS.packet_max_bytes) is None, f"{kept[:20]!r} is whole and was not taken"

    def check_idle(self) -> None:
        """Everyone has left, and nothing of them is kept."""
        status = self.listener.status()
        assert status.clients == 0, status
        assert status.outstanding_batches == 0, status
        assert status.half_open == 0, status
