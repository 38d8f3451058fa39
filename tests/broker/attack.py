"""Clients that mean harm, and what they cost: peaks of resident memory and descriptors, from /proc."""

from __future__ import annotations

import os
import select
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from threading import Thread

from tests.broker.bad_packets import connect
from tests.broker.raw import dial, read_exactly
from tests.broker.witness import Witness
from tests.support.node import TEMPLATE, Node

MIB = 1 << 20
RESET = struct.pack("ii", 1, 0)


@dataclass
class Cost:
    """Of one process: resident memory when the node had started, at its highest since, and after the last attack. Bytes."""

    before: int
    descriptors: int
    peak: int = 0
    after: int = 0


class Target:
    """A node that is attacked; what it costs is counted from its start."""

    def __init__(self, node: Node) -> None:
        self.node = node
        with Witness(node.port) as witness:
            for _ in range(20):
                witness.is_served()
            self.costs = {name: Cost(_memory(pid, "VmRSS"), _descriptors(pid)) for pid, name in self._processes()}

    @contextmanager
    def under_attack(self, attack: Callable[[ExitStack], None]) -> Iterator[None]:
        """Run ``attack`` in a thread, see to it that a witness is served all the while, and measure.

        The stack that ``attack`` is given closes its sockets when it is over. The caller's work then comes before the last look.
        """
        with Witness(self.node.port) as witness:
            witness.is_served()
            for pid, _ in self._processes():
                Path(f"/proc/{pid}/clear_refs").write_text("5")  # the highest is now
            failures: list[BaseException] = []
            with ExitStack() as stack:

                def run() -> None:
                    try:
                        attack(stack)
                    except BaseException as error:  # noqa: BLE001 - told by the test's own thread
                        failures.append(error)

                thread = Thread(target=run, daemon=True)
                thread.start()
                while thread.is_alive():
                    witness.is_served()
                    thread.join(0.02)
                assert not failures, failures
                witness.is_served()
            witness.is_served()
            yield
            for pid, name in self._processes():
                cost = self.costs[name]
                cost.peak, cost.after = _memory(pid, "VmHWM"), _memory(pid, "VmRSS")

    def descriptors_are_back(self) -> bool:
        """Whether no process holds more descriptors than at the start; a ZeroMQ reconnection may hold some for a moment."""
        return all(_descriptors(pid) <= self.costs[name].descriptors + 2 for pid, name in self._processes())

    def growth_mib(self) -> dict[str, tuple[int, int]]:
        """By process: how much more it was at its highest, and at the end."""
        return {name: ((cost.peak - cost.before) // MIB, (cost.after - cost.before) // MIB) for name, cost in self.costs.items()}

    def _processes(self) -> list[tuple[int, str]]:
        """Those that hear of clients; a template ends when it is not needed any more."""
        found = []
        for pid, words in self.node.processes().items():
            if TEMPLATE not in words:
                found.append((pid, dict(pairwise(words)).get("--process", "supervisor")))
        return found


def _memory(pid: int, key: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) * 1024
    raise AssertionError(key)


def _descriptors(pid: int) -> int:
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except FileNotFoundError:  # such as the template, which ends when nobody needs it
        return 0


def greeted(port: int, client_id: str, level: int = 4, *, clean: bool = True) -> socket.socket:
    """A connection whose CONNECT was accepted."""
    sock = dial(port)
    raw = client_id.encode()
    sock.sendall(connect(level, 2 if clean else 0, payload=(len(raw).to_bytes(2, "big") + raw).hex()))
    head = read_exactly(sock, 2)
    answer = read_exactly(sock, head[1])
    assert head[0] == 0x20
    assert answer[1] == 0, answer
    return sock


def pour(sock: socket.socket, data: bytes, total: int) -> int:
    """Send ``data`` over and over as far as the other end takes it, ``total`` bytes at most; how much it took within a while."""
    sock.setblocking(False)
    sent, view, end_s = 0, memoryview(data), time.monotonic() + 30.0
    while sent < total and time.monotonic() < end_s:
        try:
            sent += sock.send(view[sent % len(data) :])
        except BlockingIOError:
            if not select.select([], [sock], [], 0.5)[1]:
                break  # it is not read any more
        except OSError:
            break  # it was closed
    return sent
