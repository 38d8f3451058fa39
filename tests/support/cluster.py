"""A cluster as a site has it: three NATS servers, two nodes, one remote, and one address at which clients find who leads.

Each node reaches the servers by cables of its own, which can be cut.
"""

from __future__ import annotations

import os
import signal
import threading
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from supervisor.control.client import call
from tests.support.nats import NatsServers
from tests.support.node import Config, Node
from tests.support.proxy import Proxy
from tests.support.waiting import PATIENCE_S, wait_until
from wire.errors import BasculeError

LEASE_S = 2.0
STREAM = "site"


class Member:
    """One node of a cluster."""

    def __init__(self, name: str, config: Config, folder: Path, servers: NatsServers, stack: ExitStack) -> None:
        self.name = name
        self.cables = [stack.enter_context(Proxy(server.port)) for server in servers.servers]
        replication = {
            "servers": [f"nats://127.0.0.1:{cable.port}" for cable in self.cables],
            "stream": STREAM,
            "member": name,
            "lease": f"{LEASE_S:g}s",
            "replicas": len(servers.servers),
            **config.get("replication", {}),
        }
        persistence = {**config.get("persistence", {}), "mode": "replicated"}
        self.node = Node({**config, "replication": replication, "persistence": persistence}, folder / name)

    def replication(self) -> dict[str, Any]:
        """The cluster in its status; nothing while it does not answer."""
        try:
            status: dict[str, Any] = call(self.node.data_dir / "run", "status", timeout_s=1.0)
        except (BasculeError, OSError):
            return {}
        return {**status["replication"], "ready": status["ready"]}

    def leads(self) -> bool:
        """Whether it leads, and does its work."""
        said = self.replication()
        return bool(said.get("role") == "leader" and said.get("log") == "ready" and said["ready"])

    def stands_by(self) -> bool:
        """Whether it stands by, and reaches the log."""
        said = self.replication()
        return bool(said.get("role") == "standby" and said.get("log") == "ready" and said.get("leader"))

    def order(self, command: str, **arguments: str) -> dict[str, Any]:
        """Give it a command; the answer."""
        answer: dict[str, Any] = call(self.node.data_dir / "run", command, arguments, timeout_s=PATIENCE_S)
        return answer

    def kill(self) -> None:
        """SIGKILL to all its processes at once."""
        for pid in self.node.pids():
            os.kill(pid, signal.SIGKILL)
        self.node.kill_supervisor()

    def suspend(self) -> None:
        """SIGSTOP to all its processes."""
        for pid in self.node.pids():
            os.kill(pid, signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT to all its processes, the supervisor last."""
        for pid in reversed(self.node.pids()):
            os.kill(pid, signal.SIGCONT)

    def cut_off(self) -> None:
        """Cut it off from the servers."""
        for cable in self.cables:
            cable.cut()

    def reconnect(self) -> None:
        """Let it reach them again."""
        for cable in self.cables:
            cable.restore()


class Cluster:
    """Nodes ``a`` and ``b`` (and more) of one ``config``. port: where clients find who leads."""

    def __init__(
        self,
        config: Config,
        folder: Path,
        *,
        names: str = "ab",
        servers: int = 3,
        first_server: Path | None = None,
        first_leads: bool = False,
    ) -> None:
        """first_leads: the others begin once the first one leads."""
        self._stack = ExitStack()
        self.servers = NatsServers(folder / "nats", servers, first=first_server)
        self.members = [Member(name, config, folder, self.servers, self._stack) for name in names]
        self._first_leads = first_leads
        self._entrance = Proxy(self.members[0].node.port)
        self.port = self._entrance.port
        self._ending = threading.Event()
        self._usher = threading.Thread(target=self._lead_clients, name="usher", daemon=True)

    def __enter__(self) -> Self:
        self._stack.enter_context(self._entrance)
        self._stack.enter_context(self.servers)
        for member in self.members:
            member.node.spawn()
            self._stack.callback(self._end, member)
            if self._first_leads and member is self.members[0]:
                wait_until(member.leads, PATIENCE_S, lambda: f"the first one leads\n{self.outputs()}")
        self._usher.start()
        self._stack.callback(self._stop_ushering)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stack.close()

    def member(self, name: str) -> Member:
        """The node of that name."""
        return next(member for member in self.members if member.name == name)

    def follow(self, *, but: Member | None = None, deadline_s: float = PATIENCE_S) -> Member:
        """Wait until a node leads, another than ``but``; it."""
        candidates = [member for member in self.members if member is not but]
        leader = wait_until(
            lambda: next((member for member in candidates if member.leads()), None),
            deadline_s,
            lambda: f"a leader: { {member.name: member.replication() for member in self.members} }\n{self.outputs()}",
            period_s=0.05,
        )
        assert leader is not None
        return leader

    def wait_level(self, member: Member, deadline_s: float = PATIENCE_S) -> None:
        """Wait until ``member`` stands by."""
        wait_until(member.stands_by, deadline_s, lambda: f"{member.name} stands by: {member.replication()}\n{self.outputs()}")

    def outputs(self) -> str:
        """The last lines of each node."""
        return "\n".join(f"--- {member.name}\n{member.node.output[-3000:]}" for member in self.members)

    def _lead_clients(self) -> None:
        """Bring clients to whoever leads, as a load balancer does."""
        aimed = ""
        while not self._ending.wait(0.1):
            leader = next((member for member in self.members if member.node.runs and member.leads()), None)
            if leader is not None and leader.name != aimed:
                aimed = leader.name
                self._entrance.aim(leader.node.port)
                self._entrance.cut()
                self._ending.wait(0.1)
                self._entrance.restore()

    def _stop_ushering(self) -> None:
        self._ending.set()
        self._usher.join(PATIENCE_S)

    @staticmethod
    def _end(member: Member) -> None:
        if member.node.runs:
            member.resume()
            member.node.kill_supervisor()
