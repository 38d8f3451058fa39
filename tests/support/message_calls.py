"""The calls that a lone message costs, counted: a node's actors in this thread, on a clock moved here, and both far ends.

The actors, their posts, sockets and store are the product's, and each process has its turns by its own loop; it is only not let
wait. So the count hardly depends on the machine, and a test can hold it. ``python -m tests.support.message_calls`` prints the
table; ``--functions N`` also the N that are called most, ``--trace`` instead one message call by call.
"""

from __future__ import annotations

import argparse
import importlib
import json
import select
import socket
import sys
import tempfile
from collections import Counter
from contextvars import ContextVar
from pathlib import Path
from types import FrameType, SimpleNamespace, TracebackType
from typing import Any, Self

import actors.process.post as process_post
from actors.process.host import ChildHost
from actors.process.mailbox import Mailbox
from actors.process.main import ACTORS
from actors.process.post import Post
from actors.process.request_sockets import readable
from supervisor.config.loading import load
from supervisor.tree.store_ownership import claim
from tests.support.mqtt_packets import (
    PUBACK,
    PUBLISH,
    Packet,
    PacketReader,
    Sender,
    acknowledge_bytes,
    connack_bytes,
    connect_bytes,
    publish_bytes,
)
from tests.support.node import bridge_config, node_config
from tests.support.ports import free_port
from tests.support.waiting import PATIENCE_S
from wire.config_settings import NodeSettings
from wire.frames.names import actors_of
from wire.frames.supervision import PeerUp

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ("wire", "storage", "actors", "supervisor")
TOGETHER, ISOLATED = "together", "isolated"
PERIOD_S = 0.005  # 200 messages a second
WARM_UP = 50
CYCLE_S, BETWEEN_TIMERS_S = 20.0, 0.05  # the start takes what the machine takes; messages begin where no timer is due soon
PAYLOAD = bytes(256)
_PROCESSES = ("store", "bridge:cloud:0", "clients")
_EPOCH = 1


class Calls:
    """By room, such as ``storage/queue``: the calls of its functions, and those that it makes of built-ins."""

    def __init__(self, trace: bool = False) -> None:
        self.functions: Counter[str] = Counter()
        self.built_ins: Counter[str] = Counter()
        self.by_name: Counter[str] = Counter()
        self.trace: list[str] | None = [] if trace else None
        self._rooms: dict[str, str] = {}
        self._depth = 0

    def count(self, frame: FrameType, event: str, called: Any) -> None:
        """Take an event, as ``sys.setprofile`` wants it."""
        file = frame.f_code.co_filename
        room = self._rooms.get(file)
        if room is None:
            room = self._rooms[file] = _room(file)
        if event == "call":
            self._depth += 1
            if room:
                self.functions[room] += 1
                self._note(f"{room}/{Path(file).name}:{frame.f_code.co_qualname}")
        elif event == "return":
            self._depth -= 1
        elif event == "c_call" and room:
            self.built_ins[room] += 1
            self._note(f"    {room}/{Path(file).name}:{frame.f_lineno} calls {called.__qualname__}")

    def rooms(self) -> list[str]:
        """The rooms that have any, those with most first."""
        return [room for room, _ in (self.functions + self.built_ins).most_common()]

    def in_room(self, room: str) -> int:
        """All calls of the room."""
        return self.functions[room] + self.built_ins[room]

    def lines(self, messages: int) -> list[str]:
        """The table."""
        lines = [
            f"{room:<16} {self.functions[room] / messages:10.1f} {self.built_ins[room] / messages:10.1f}" for room in self.rooms()
        ]
        functions, built_ins = self.functions.total() / messages, self.built_ins.total() / messages
        return [*lines, f"{'all':<16} {functions:10.1f} {built_ins:10.1f}   {functions + built_ins:.1f}"]

    def _note(self, name: str) -> None:
        self.by_name[name] += 1
        if self.trace is not None:
            self.trace.append("  " * self._depth + name)


def _room(file: str) -> str:
    room = str(Path(file).relative_to(ROOT).parent) if file.startswith(f"{ROOT}/") else ""
    return room if room.partition("/")[0] in PRODUCT else ""


class _Quiet(Exception):
    """The process would wait now."""


class _NoWaiting(Post):
    """A process's post that looks at its sockets once each time it is told to, and raises where it would wait."""

    looks = 0

    def _timeout_s(self) -> float:
        if not self.looks:
            self._polled = False
            raise _Quiet
        self.looks -= 1
        super()._timeout_s()
        return 0.0

    def due_s(self) -> float:
        """The time of its next timer."""
        due_s = self._next_due_s()
        return float("inf") if due_s is None else due_s

    def would_wait(self) -> bool:
        """Whether nothing has come and no timer is due."""
        return not self._told and self.due_s() > self.now_s() and not select.select([self._epoll], [], [], 0)[0]


class LoneMessages:
    """A node with one bridge, a publisher and a remote."""

    def __init__(self, folder: Path, placement: str) -> None:
        """placement: whether all actors are in one process, or each child has its own."""
        self._server = socket.create_server(("127.0.0.1", 0))
        self._port = free_port()
        self._settings = _settings(folder, self._port, self._server.getsockname()[1])
        self._hosts: dict[_NoWaiting, ChildHost] = {}
        self._now_s = 1000.0
        self._shown_s = ContextVar("now_s", default=self._now_s)
        self._clock = vars(process_post)["time"]
        vars(process_post)["time"] = SimpleNamespace(monotonic=self._shown_s.get)  # a built-in too
        processes = {name: actors_of(name) for name in _PROCESSES}
        if placement == TOGETHER:
            processes = {"store": sum(processes.values(), ())}
        for name, actors in processes.items():
            post = _NoWaiting(Path(self._settings.run_dir), name)
            self._hosts[post] = host = ChildHost(post, self._settings, _EPOCH)
            host.add_children(_actor(name, post, self._settings) for name in actors)
        self._supervisor = Post(Path(self._settings.run_dir), "supervisor")
        self._publisher = self._remote = socket.socket()
        self._to_publisher, self._to_remote = PacketReader(Sender.SERVER), PacketReader(Sender.CLIENT)
        self._number = 0
        self._calls: Calls | None = None

    def __enter__(self) -> Self:
        for host in self._hosts.values():
            host.begin()
        starting = list(self._hosts)
        while starting:
            self._pass_time(0.001)
            for post in [
                post for post in starting if all(child.state == "ready" for child in self._hosts[post]._children.values())
            ]:
                starting.remove(post)
                self._herald(post)
        self._server.setblocking(False)
        while not select.select([self._server], [], [], 0)[0]:
            self._pass_time(0.001)
        self._remote = self._server.accept()[0]
        self._remote.setblocking(False)
        while not _packets(self._remote, self._to_remote):
            self._pass_time(0.001)
        self._remote.send(connack_bytes(4))
        self._run()
        self._publisher = socket.create_connection(("127.0.0.1", self._port))
        self._publisher.setblocking(False)
        self._publisher.send(connect_bytes(4, "publisher"))
        while not _packets(self._publisher, self._to_publisher):
            self._pass_time(0.001)
        self._pass_until(self._now_s - self._now_s % CYCLE_S + CYCLE_S + BETWEEN_TIMERS_S)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        vars(process_post)["time"] = self._clock
        for post in (*self._hosts, self._supervisor):
            post._context.destroy(linger=0)
        for sock in (self._server, self._publisher, self._remote):
            sock.close()

    def counted(self, messages: int, calls: Calls) -> Calls:
        """Have ``calls`` count those of ``messages`` messages."""
        self.pass_through(WARM_UP)
        self._calls = calls
        self.pass_through(messages)
        self._calls = None
        return calls

    def pass_through(self, messages: int) -> None:
        """Messages ``PERIOD_S`` apart: each is acknowledged, has reached the remote and is acknowledged there before the next."""
        for _ in range(messages):
            end_s = self._now_s + PERIOD_S
            self._number = self._number % 65_535 + 1
            self._publisher.send(publish_bytes(4, "plant/line/1/temperature", PAYLOAD, qos=1, packet_id=self._number))
            self._run()
            (answer,) = self._awaited(self._publisher, self._to_publisher)
            assert (answer.kind, answer.packet_id) == (PUBACK, self._number)
            (publish,) = self._awaited(self._remote, self._to_remote)
            assert (publish.kind, publish.payload) == (PUBLISH, PAYLOAD)
            self._remote.send(acknowledge_bytes(PUBACK, publish.packet_id))
            self._run()
            self._pass_until(end_s)

    # --- inside ---

    def _pass_until(self, end_s: float) -> None:
        """Let time pass, and have whatever is due by then."""
        while (due_s := min(post.due_s() for post in self._hosts)) < end_s:
            self._pass_time(due_s - self._now_s)
        self._advance(end_s - self._now_s)

    def _awaited(self, sock: socket.socket, reader: PacketReader) -> list[Packet]:
        """What has come; under load the system takes a moment on loopback too, to the node or from it."""
        while not (packets := _packets(sock, reader)):
            sources: list[Any] = [sock, *(post._epoll for post in self._hosts)]
            assert select.select(sources, [], [], PATIENCE_S)[0], "something comes"
            self._run()
        return packets

    def _herald(self, ready: Post) -> None:
        """Tell the other processes, as the supervisor does."""
        for post, host in self._hosts.items():
            for name in ready.local - post.local:
                host.give(post.name, PeerUp(name=name, epoch=_EPOCH))

    def _advance(self, by_s: float) -> None:
        self._now_s += by_s
        self._shown_s.set(self._now_s)

    def _pass_time(self, by_s: float) -> None:
        self._advance(max(0.0, by_s))
        self._run()

    def _run(self) -> None:
        """Give all processes their turns until each of them would wait and no frame is on its way."""
        everybody: list[Post] = [*self._hosts, self._supervisor]
        while True:
            for post in [post for post in self._hosts if not post.would_wait()]:
                self._take_turns(post)
            while readable(self._supervisor._pull):
                self._supervisor._receive()
                self._supervisor.frames_received += 1
            if all(post.would_wait() for post in self._hosts):
                if sum(post.frames_sent - post.frames_received for post in everybody) == 0:
                    return
                assert select.select([post._epoll for post in everybody], [], [], PATIENCE_S)[0], "a frame that was sent comes"

    def _take_turns(self, post: _NoWaiting) -> None:
        post.looks, give = 1, self._hosts[post].give
        if self._calls is not None:
            sys.setprofile(self._calls.count)
        try:
            while True:
                give(*post.next())
        except _Quiet:
            pass
        finally:
            sys.setprofile(None)


def _settings(folder: Path, port: int, remote_port: int) -> NodeSettings:
    """As a user has them, but for heartbeats, which are not a message's."""
    config = {
        **node_config(bridge_config("cloud", remote_port)),
        "node": {"name": "edge", "data_dir": str(folder / "data")},
        "listeners": [{"bind": f"127.0.0.1:{port}"}],
        "supervision": {"heartbeat_period": "20m", "heartbeat_timeout": "1h"},
    }
    path = folder / "bascule.yaml"
    path.write_text(json.dumps(config))
    settings = load(path)
    Path(settings.node.data_dir).mkdir()
    Path(settings.run_dir).mkdir(parents=True, exist_ok=True)
    claim(settings, frozenset())
    return settings


def _actor(name: str, post: Post, settings: NodeSettings) -> Any:
    module, cls = ACTORS[name.partition(":")[0]]
    return getattr(importlib.import_module(module), cls)(Mailbox(post, name), settings, _EPOCH)


def _packets(sock: socket.socket, reader: PacketReader) -> list[Packet]:
    if select.select([sock], [], [], 0)[0]:
        reader.feed(sock.recv(65_536))
    return reader.all()


def main(argv: list[str] | None = None) -> int:
    """Print the calls of a lone message by room."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.message_calls")
    parser.add_argument("--placement", choices=(TOGETHER, ISOLATED))
    parser.add_argument("--messages", type=int, default=200)
    parser.add_argument("--functions", type=int, default=0, metavar="N")
    parser.add_argument("--trace", action="store_true")
    arguments = parser.parse_args(argv)
    messages = 1 if arguments.trace else arguments.messages
    for placement in [arguments.placement] if arguments.placement else [TOGETHER, ISOLATED]:
        with tempfile.TemporaryDirectory() as folder, LoneMessages(Path(folder), placement) as node:
            calls = node.counted(messages, Calls(arguments.trace))
        lines = [*(calls.trace or ()), f"\n{placement:<16}  functions  built-ins", *calls.lines(messages)]
        lines += [f"{number / messages:9.2f}  {name.strip()}" for name, number in calls.by_name.most_common(arguments.functions)]
        sys.stdout.write("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
