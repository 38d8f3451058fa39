"""The systems that are measured and the far end they share: configuration, start, stop, and what they say of themselves.

Every system runs in a session of its own, so that its CPU and memory are the sum over that session, and so that nothing of it is
left behind: ``stop`` ends the whole process group, whatever state it is in. Resources of its processes are read by
``processes.py``; the runs are ``measure.py``'s.
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
from typing import Any

import processes
from processes import Usage

from supervisor.demo.held_port import held_port, port_of

ROOT = Path(__file__).resolve().parents[2]
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 60.0
STATUS_TIMEOUT_S = 30.0
SQLITE_PROGRAM, SQLITE_PLUGIN = "BASCULE_BENCH_MOSQUITTO21", "BASCULE_BENCH_MOSQUITTO21_PLUGIN"
_CONNECT = bytes([0x10, 17, 0, 4]) + b"MQTT" + bytes([4, 2, 0, 0, 0, 5]) + b"probe"
_DISCONNECT = b"\xe0\x00"
_held: list[socket.socket] = []


class BenchError(Exception):
    """The measurement cannot go on; the message says why in one sentence."""


def free_port() -> int:
    """A TCP port on 127.0.0.1 for a server to come: until this program ends nobody else is given it (``held_port``)."""
    _held.append(held_port())
    return port_of(_held[-1])


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
    root = ROOT  # the folder it is started in

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None
        self.started_s = 0.0
        folder.mkdir(parents=True, exist_ok=True)

    def command(self) -> list[str]:
        """The system to start; writes the configuration files it needs."""
        raise NotImplementedError

    def start(self) -> float:
        """Start it; the seconds from exec until a client got its CONNACK."""
        self.begin()
        while not accepts_clients(self.port):
            assert self.process is not None
            if self.process.poll() is not None or time.monotonic() - self.started_s > START_TIMEOUT_S:
                tail = (self.folder / "output.log").read_text(errors="replace")[-2000:]
                raise BenchError(f"{self.name} does not accept clients (exit status {self.process.returncode}):\n{tail}")
            time.sleep(0.002)
        return time.monotonic() - self.started_s

    def begin(self) -> None:
        """Start it, without waiting."""
        command = self.command()
        with (self.folder / "output.log").open("ab") as log:
            self.started_s = time.monotonic()
            self.process = subprocess.Popen(
                command, cwd=self.root, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

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

    def usage(self) -> dict[int, Usage]:
        """Resources of each of its processes so far, by pid."""
        assert self.process is not None
        return processes.usage_of_family(self.process.pid)

    def names(self, told: dict[int, str] | None = None) -> dict[int, str]:
        """A name for each of its processes: what it ``told``, or what the command line says."""
        assert self.process is not None
        return processes.names(self.usage(), self.process.pid, told)

    def status(self) -> dict[str, Any] | None:
        """Its own figures; None of one that cannot be asked."""
        return None

    def cpu_s(self) -> float:
        """CPU seconds, user and system, of every process so far, reaped children included."""
        return processes.cpu_s(self.usage())

    def pss_bytes(self) -> int:
        """Memory of all its processes; what they share counts once."""
        return sum(processes.pss_bytes(pid) for pid in self.usage())

    def rss_bytes(self) -> dict[str, int]:
        """Resident memory of each process, by what its command line says it is."""
        named = self.names()
        return {named.get(pid, str(pid)): usage.rss_bytes for pid, usage in self.usage().items()}


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

    def program(self) -> str:
        """The program file."""
        program = shutil.which("mosquitto", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/usr/local/sbin")
        if program is None:
            raise BenchError("the bench needs Mosquitto 2.0 (Debian: apt-get install mosquitto)")
        return program

    def persistence(self) -> list[str]:
        """The lines that say what it keeps."""
        return ["persistence true", f"persistence_location {self.folder}/"] if self.persistent else ["persistence false"]

    def command(self) -> list[str]:
        lines = [
            *(["user root"] if os.geteuid() == 0 else []),
            f"listener {self.port} 127.0.0.1",
            "allow_anonymous true",
            f"set_tcp_nodelay {'true' if self.no_delay else 'false'}",
            f"max_inflight_messages {self.in_flight_max}",
            "max_queued_messages 0",
            *self.persistence(),
            "log_type error",
            "log_type warning",
            *self.settings(),
        ]
        path = self.folder / "mosquitto.conf"
        path.write_text("\n".join(lines) + "\n")
        return [self.program(), "-c", str(path)]


class Remote(Mosquitto):
    """The far end of all bridges, also the broker of the subscriber."""

    name = "remote"

    def __init__(self, folder: Path, qos: int) -> None:
        super().__init__(folder)
        if qos == 2:
            self.in_flight_max = 0  # it throws away what a peer has in flight beyond what it allows itself


class FarEnd:
    """A far end that acknowledges at once and counts what comes: the program ``load`` in its mode ``far``. MQTT 3.1.1 only."""

    def __init__(self, load: Path) -> None:
        self.port = free_port()
        self._load = load
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Listen, until ``stop``."""
        words = [str(self._load), "far", "--port", str(self.port)]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def stop(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()

    def expect(self, messages: int, publishers: int) -> None:
        """Count from nothing: so many messages of so many publishers are to come."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(f"{messages} {publishers}\n")
        self._process.stdin.flush()
        self._read()

    def received(self) -> dict[str, Any]:
        """The figures of what came; waits until all has, or no more comes."""
        return self._read()

    def _read(self) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise BenchError("the far end has ended")
        told: dict[str, Any] = json.loads(line)
        return told


class MosquittoBridge(Mosquitto):
    """Theirs: Mosquitto's own bridge, everything in memory. protocol, in_flight_max: towards the remote, as ours."""

    def __init__(
        self, folder: Path, remote_port: int, *, persistent: bool = False, protocol: str = "mqtt311", in_flight_max: int = 1000
    ) -> None:
        super().__init__(folder, persistent=persistent)
        self.remote_port = remote_port
        self.protocol = protocol
        self.in_flight_max = in_flight_max

    def settings(self) -> list[str]:
        return [
            "connection bench",
            f"address 127.0.0.1:{self.remote_port}",
            f"bridge_protocol_version {'mqttv50' if self.protocol == 'mqtt5' else 'mqttv311'}",
            "remote_clientid bench-bridge",
            "local_clientid bench-bridge-local",
            "cleansession false",
            "notifications false",
            "restart_timeout 1",
            "topic # out 2",
        ]


class MosquittoSqlite(MosquittoBridge):
    """Theirs, 2.1, with each turn of its loop synced to SQLite. The environment names its program and its plug-in."""

    name = "mosquitto 2.1 sqlite"

    @staticmethod
    def is_there() -> bool:
        """Whether the environment names it.

        Raises:
            BenchError: it names one of the two, or a file that is not there.
        """
        named = {name: os.environ.get(name, "") for name in (SQLITE_PROGRAM, SQLITE_PLUGIN)}
        if not any(named.values()):
            return False
        for name, path in named.items():
            if not Path(path).is_file():
                raise BenchError(f"{name} is to name a file of Mosquitto 2.1, and says {path!r}")
        return True

    def program(self) -> str:
        return os.environ[SQLITE_PROGRAM]

    def persistence(self) -> list[str]:
        return [
            f"persistence_location {self.folder}/",
            f"plugin {os.environ[SQLITE_PLUGIN]}",
            "plugin_opt_flush_period 0",
            "plugin_opt_sync extra",
        ]


class Bascule(System):
    """Ours: acknowledges after a commit that is on the disk (``after-commit``, ``sync: full``). No remote: no bridge.

    snapshots: how often it makes one, as its configuration has it; None is never. protocol, in_flight_max, lanes: towards
    the remote.
    """

    name = "bascule"
    placement = "isolated"
    python = sys.executable

    def __init__(
        self,
        folder: Path,
        remote_port: int | None,
        *,
        snapshots: str | None = None,
        protocol: str = "mqtt311",
        in_flight_max: int = 1000,
        lanes: int = 1,
    ) -> None:
        super().__init__(folder)
        self.lanes = lanes
        self.snapshots = snapshots
        self.remote_port = remote_port
        self.protocol = protocol
        self.in_flight_max = in_flight_max

    def command(self) -> list[str]:
        config = {
            "node": {"name": "bench", "data_dir": str(self.folder / "data")},
            "listeners": [{"bind": f"127.0.0.1:{self.port}"}],
            "access": {"allow_anonymous": True},
            "persistence": {"mode": "file-native", "acknowledge": "after-commit", "flush_period": "0s", "sync": "full"},
            "snapshots": {} if self.snapshots is None else {"every": self.snapshots, "keep": 3},
            **({} if self.placement == "isolated" else {"supervision": {"placement": self.placement}}),
            "bridges": [] if self.remote_port is None else [self._bridge()],
        }
        self._config_path.write_text(json.dumps(config, indent=2))  # JSON is YAML
        return [self.python, "-m", "supervisor.cli", "run", str(self._config_path)]

    @property
    def _config_path(self) -> Path:
        return self.folder / "bascule.yaml"

    def status(self) -> dict[str, Any]:
        words = [self.python, "-m", "supervisor.cli", "status", str(self._config_path), "--json"]
        done = subprocess.run(words, cwd=self.root, capture_output=True, text=True, timeout=STATUS_TIMEOUT_S, check=False)
        if done.returncode != 0:
            raise BenchError(f"{self.name} does not say that it is ready: {done.stderr or done.stdout}")
        told: dict[str, Any] = json.loads(done.stdout)
        return told

    def _bridge(self) -> dict[str, object]:
        """Its one bridge, to the remote."""
        return {
            "name": "bench",
            "lanes": self.lanes,
            "remote": {
                "addresses": [f"127.0.0.1:{self.remote_port}"],
                "protocol": self.protocol,
                "transport": "tcp",
                "client_id": "bench-bridge",
                "clean_start": False,
                "receive_maximum": self.in_flight_max,
                "qos2_maximum": self.in_flight_max,
            },
            "persist": True,
            "backoff": {"initial": "1s", "max": "1s"},
            "local_subscriptions": [{"filters": ["bench/#"], "destination": "{#}", "max_qos": 2}],
        }


class BasculeTogether(Bascule):
    """Ours, with all its actors in one process."""

    name = "together"
    placement = "together"


class BasculeBeside(Bascule):
    """Another checkout of Bascule, with its own environment."""

    name = "before"

    def __init__(
        self, folder: Path, remote_port: int, *, checkout: Path, protocol: str = "mqtt311", in_flight_max: int = 1000
    ) -> None:
        super().__init__(folder, remote_port, protocol=protocol, in_flight_max=in_flight_max)
        self.root = checkout.resolve()
        self.python = str(self.root / ".venv" / "bin" / "python")
        for needed in (Path(self.python), self.root / "supervisor" / "__init__.py"):
            if not needed.exists():
                raise BenchError(f"{checkout} is no checkout that can be run: there is no {needed}")
