"""The systems that are measured and the far end they share: configuration, start, stop, and what /proc says of their processes.

Every system runs in a session of its own, so that its CPU and memory are the sum over that session, and so that nothing of it is
left behind: ``stop`` ends the whole process group, whatever state it is in. What is done with a system is left to ``measure.py``.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 60.0
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_CONNECT = bytes([0x10, 17, 0, 4]) + b"MQTT" + bytes([4, 2, 0, 0, 0, 5]) + b"probe"
_DISCONNECT = b"\xe0\x00"


class BenchError(Exception):
    """The measurement cannot go on; the message says why in one sentence."""


def free_port() -> int:
    """A TCP port on 127.0.0.1 that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def accepts_clients(port: int) -> bool:
    """Whether an MQTT client gets its CONNACK at ``port``."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5.0) as client:
            client.sendall(_CONNECT)
            accepted = client.recv(4)[:1] == b"\x20"
            client.sendall(_DISCONNECT)
            return accepted
    except OSError:
        return False


class System:
    """One program with its folder, its port for clients and its process session."""

    name = ""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None
        self.started_s = 0.0
        folder.mkdir(parents=True, exist_ok=True)

    def command(self) -> list[str]:
        """What is started; writes the configuration files it needs."""
        raise NotImplementedError

    def start(self) -> float:
        """Start it; the seconds from exec until a client got its CONNACK."""
        command = self.command()
        with (self.folder / "output.log").open("ab") as log:
            self.started_s = time.monotonic()
            self.process = subprocess.Popen(
                command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        while not accepts_clients(self.port):
            if self.process.poll() is not None or time.monotonic() - self.started_s > START_TIMEOUT_S:
                tail = (self.folder / "output.log").read_text(errors="replace")[-2000:]
                raise BenchError(f"{self.name} does not accept clients (exit status {self.process.returncode}):\n{tail}")
            time.sleep(0.002)
        return time.monotonic() - self.started_s

    def stop(self, *, gracefully: bool = False) -> float:
        """End it and everything in its process group; the seconds it took."""
        begun_s = time.monotonic()
        process, self.process = self.process, None
        if process is None:
            return 0.0
        if gracefully:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                print(f"{self.name} did not stop within {STOP_TIMEOUT_S:.0f} s and is killed", file=sys.stderr)
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
        return time.monotonic() - begun_s

    def cpu_s(self) -> float:
        """CPU seconds, user and system, of every process of the session so far, reaped children included."""
        assert self.process is not None
        return sum(ticks for _, ticks, _, _ in _session(self.process.pid)) / _TICKS_PER_S

    def rss_bytes(self) -> dict[str, int]:
        """Resident memory of each process of the session, by what its command line says it is."""
        assert self.process is not None
        return {name: pages * _PAGE_BYTES for _, _, pages, name in sorted(_session(self.process.pid))}


def _session(leader: int) -> list[tuple[int, int, int, str]]:
    """(pid, CPU ticks, resident pages, name) of each process of the session that ``leader`` leads."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            stat = (entry / "stat").read_text().rpartition(")")[2].split()
            arguments = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue  # it ended meanwhile
        if int(stat[3]) == leader:
            pid = int(entry.name)
            found.append((pid, sum(int(ticks) for ticks in stat[11:15]), int(stat[21]), _process_name(pid, leader, arguments)))
    return found


def _process_name(pid: int, leader: int, arguments: list[str]) -> str:
    named = [arguments[at + 1] for at, word in enumerate(arguments[:-1]) if word in ("--actor", "--bridge", "--lane")]
    if named:
        return ":".join(named)
    return "main" if pid == leader else f"child {pid}"


class Mosquitto(System):
    """Mosquitto as a broker, and the base of the others: no small windows.

    All is in memory; ``persistent`` has it save that to a file every 30 minutes and at its end, as its ``persistence true`` does.
    ``no_delay`` is its ``set_tcp_nodelay``: without it, its own default, it fans out twice as fast.
    """

    name = "mosquitto"
    in_flight_max = 1000

    def __init__(self, folder: Path, *, persistent: bool = False, no_delay: bool = True) -> None:
        super().__init__(folder)
        self.persistent = persistent
        self.no_delay = no_delay

    def settings(self) -> list[str]:
        """Further lines of its configuration."""
        return []

    def command(self) -> list[str]:
        program = shutil.which("mosquitto", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/usr/local/sbin")
        if program is None:
            raise BenchError("the bench needs Mosquitto 2.0 (Debian: apt-get install mosquitto)")
        lines = [
            *(["user root"] if os.geteuid() == 0 else []),
            f"listener {self.port} 127.0.0.1",
            "allow_anonymous true",
            f"set_tcp_nodelay {'true' if self.no_delay else 'false'}",
            f"max_inflight_messages {self.in_flight_max}",
            "max_queued_messages 0",
            *(["persistence true", f"persistence_location {self.folder}/"] if self.persistent else ["persistence false"]),
            "log_type error",
            "log_type warning",
            *self.settings(),
        ]
        path = self.folder / "mosquitto.conf"
        path.write_text("\n".join(lines) + "\n")
        return [program, "-c", str(path)]


class Remote(Mosquitto):
    """The far end of both bridges, also the broker of the subscriber."""

    name = "remote"

    def __init__(self, folder: Path, qos: int) -> None:
        super().__init__(folder)
        if qos == 2:
            self.in_flight_max = 0  # it throws out a peer with more unreleased QoS 2 messages than it allows itself


class MosquittoBridge(Mosquitto):
    """Theirs: Mosquitto's own bridge, everything in memory."""

    def __init__(self, folder: Path, remote_port: int, *, persistent: bool = False) -> None:
        super().__init__(folder, persistent=persistent)
        self.remote_port = remote_port

    def settings(self) -> list[str]:
        return [
            "connection bench",
            f"address 127.0.0.1:{self.remote_port}",
            "remote_clientid bench-bridge",
            "local_clientid bench-bridge-local",
            "cleansession false",
            "notifications false",
            "restart_timeout 1",
            "topic # out 2",
        ]


class Bascule(System):
    """Ours: acknowledges after a commit that is on the disk (``after-commit``, ``sync: full``). No remote: no bridge.

    snapshots: how often it makes one, as its configuration has it; None is never.
    """

    name = "bascule"

    def __init__(self, folder: Path, remote_port: int | None, *, snapshots: str | None = None) -> None:
        super().__init__(folder)
        self.snapshots = snapshots
        self.remote_port = remote_port

    def command(self) -> list[str]:
        config = {
            "node": {"name": "bench", "data_dir": str(self.folder / "data")},
            "listeners": [{"bind": f"127.0.0.1:{self.port}"}],
            "access": {"allow_anonymous": True},
            "persistence": {"mode": "file-native", "acknowledge": "after-commit", "flush_period": "0s", "sync": "full"},
            "snapshots": {} if self.snapshots is None else {"every": self.snapshots, "keep": 3},
            "bridges": [] if self.remote_port is None else [self._bridge()],
        }
        path = self.folder / "bascule.yaml"
        path.write_text(json.dumps(config, indent=2))  # JSON is YAML
        return [sys.executable, "-m", "supervisor.cli", "run", str(path)]

    def _bridge(self) -> dict[str, object]:
        """Its one bridge, to the remote."""
        return {
            "name": "bench",
            "remote": {
                "addresses": [f"127.0.0.1:{self.remote_port}"],
                "protocol": "mqtt311",
                "transport": "tcp",
                "client_id": "bench-bridge",
                "clean_start": False,
                "receive_maximum": 1000,
                "qos2_maximum": 1000,
            },
            "persist": True,
            "backoff": {"initial": "1s", "max": "1s"},
            "local_subscriptions": [{"filters": ["bench/#"], "destination": "{#}", "max_qos": 2}],
        }
