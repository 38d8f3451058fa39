"""A real Bascule node, run as an operator runs it: a configuration file, ``bascule run``, ``bascule status``, /proc.

``node_config`` and ``bridge_config`` make configurations with short periods, so that what happens is told at once, and with long
timeouts, so that a process that a loaded machine keeps waiting is not taken for dead. ``HANGS_SOON`` is for tests of that.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from supervisor import launch
from supervisor.control.client import call
from supervisor.tree.status_requests import COLLECT_TIMEOUT_S
from tests.support import placements, preloaded, programs
from tests.support.ports import free_port
from tests.support.waiting import PATIENCE_S, wait_until
from wire.frames.names import BRIDGE, CLIENTS, QUEUE_STORE, STORE, LaneLabel, connection_name, forwarder_name
from wire.frames.placement import SITE

ROOT = preloaded.ROOT
READY_DEADLINE_S = 60.0
STOP_DEADLINE_S = 90.0  # longer than ``stop_timeout``, after which the node kills who does not end
TEMPLATE = "actors.process.template"  # in the command line of the process that the actors' are forked from
_FRESH_DEADLINE_S = 10.0

Config = dict[str, Any]
Process = subprocess.Popen[bytes] | preloaded.Preloaded

HANGS_SOON = {"heartbeat_timeout": "2s"}  # for ``supervision``: silence is noticed within a test's patience


def bridge_config(
    name: str, remote_port: int, *, protocol: str = "mqtt311", remote: Mapping[str, Any] | None = None, **keys: Any
) -> Config:
    """A bridge of everything to a remote at ``remote_port``; ``remote`` and ``keys`` replace or add keys."""
    config: Config = {
        "name": name,
        "remote": {
            "addresses": [f"127.0.0.1:{remote_port}"],
            "protocol": protocol,
            "client_id": f"bridge-{name}",
            "clean_start": False,
            "qos2_maximum": 20,  # no connection that a scripted remote does not expect
            "connect_timeout": "20s",
            **(remote or {}),
        },
        "backoff": {"initial": "100ms", "max": "400ms", "stable": "1s"},
        "local_subscriptions": [{"filters": ["#"]}],
    }
    return {**config, **keys}


def node_config(*bridges: Config, mode: str = "file-native", placement: str | None = None, **keys: Any) -> Config:
    """A node with ``bridges``; listener and data folder are filled in by ``Node``.

    placement: of ``supervision``, unless ``keys`` have that. None: as the run has it (``placements.py``).
    """
    config: Config = {
        "access": {"allow_anonymous": True},
        "persistence": {"mode": mode},
        "limits": {"min_free_disk": "0B"},
        "bridges": list(bridges),
        "supervision": {
            **({} if placement is None else {"placement": placement}),
            "heartbeat_period": "200ms",
            "heartbeat_timeout": "20s",
            "restarts_max": 1000,
            "restart_backoff": {"initial": "20ms", "max": "200ms"},
            "stop_timeout": "60s",
        },
    }
    return {**config, **keys}


class Node:
    """One node in ``folder``, its listener on a free port. Leaving the context kills it and checks that nothing outlives it."""

    def __init__(
        self,
        config: Config,
        folder: Path,
        *,
        data_dir: Path | None = None,
        environment: Mapping[str, str] | None = None,
        preloaded: bool = True,
        descriptors_max: int | None = None,
    ) -> None:
        """environment: is added to this process's for the node and all its children.

        descriptors_max: how many files each of its processes may have open; by itself as many as this one.

        preloaded: it may be forked with its modules imported, and share their memory with others (``preloaded.py``).
        """
        self.folder = folder
        self.environment = {**launch.environment(), **(environment or {})}
        self.port = free_port()
        self.data_dir = data_dir or folder / "data"
        self.config_path = folder / "bascule.yaml"
        self.output_path = folder / "output.log"
        self._placement = placements.now()
        self._preloaded = preloaded and descriptors_max is None
        self._prefix = [] if descriptors_max is None else ["prlimit", f"--nofile={descriptors_max}:{descriptors_max}"]
        self._process: Process | None = None
        folder.mkdir(parents=True, exist_ok=True)
        self.configure(config)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._process is not None:
            self.kill_supervisor()

    def configure(self, config: Config) -> None:
        """Write the configuration for the next start; what says no placement gets the one of the run."""
        listeners = [{"bind": f"127.0.0.1:{self.port}"}]
        whole = {"node": {"name": "edge", "data_dir": str(self.data_dir)}, "listeners": listeners, **config}
        whole["supervision"] = {"placement": self._placement, **config.get("supervision", {})}
        self.placement = whole["supervision"]["placement"]
        self.config_path.write_text(json.dumps(whole, indent=2))  # JSON is YAML

    # --- life ---

    def start(self, *options: str) -> None:
        """Run the node, and wait for ``node.ready``."""
        self.spawn(*options)
        self.wait_ready()

    def wait_ready(self) -> None:
        """Wait for ``node.ready``."""
        wait_until(self._is_ready_or_ended, READY_DEADLINE_S, lambda: f"node.ready\n{self.output[-4000:]}")
        assert self.supervisor.poll() is None, f"the node ended with {self.supervisor.returncode}:\n{self.output[-4000:]}"

    def spawn(self, *options: str) -> None:
        """The node that ``bascule run`` with ``options`` becomes at once, without waiting."""
        assert self._process is None, "the node runs already"
        self.output_path.write_bytes(b"")
        with self.output_path.open("ab") as log:
            if self._preloaded:
                words, said = [str(self.config_path), *options], log.fileno()
                self._process = preloaded.start(preloaded.NODE, words, cwd=ROOT, environment=self.environment, out=said, err=said)
                return
            self._process = subprocess.Popen(
                [*self._prefix, *launch.command(preloaded.NODE, str(self.config_path), *options)],
                cwd=ROOT,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def stop(self) -> int:
        """SIGTERM; the exit status. Nothing may be left of the node."""
        process = self.supervisor
        process.send_signal(signal.SIGTERM)
        wait_until(lambda: process.poll() is not None, STOP_DEADLINE_S, lambda: f"end after SIGTERM\n{self.output[-4000:]}")
        return self._gone()

    def kill_supervisor(self) -> None:
        """SIGKILL to the supervisor alone: its children must not outlive it."""
        process = self.supervisor
        process.kill()
        process.wait(PATIENCE_S)
        self._gone()

    def restart(self) -> None:
        """Stop in good order and start again."""
        assert self.stop() == 0, f"a stop in good order exits 0:\n{self.output[-4000:]}"
        self.start()

    def wait_ended(self, deadline_s: float = READY_DEADLINE_S) -> int:
        """Wait for the node to end by itself; its exit status."""
        process = self.supervisor
        wait_until(lambda: process.poll() is not None, deadline_s, lambda: f"end of the node\n{self.output[-4000:]}")
        return self._gone()

    @property
    def runs(self) -> bool:
        """Whether it was started and not ended."""
        return self._process is not None

    @property
    def supervisor(self) -> Process:
        """The supervisor's process."""
        assert self._process is not None, "the node does not run"
        return self._process

    @property
    def output(self) -> str:
        """Standard output and standard error of this run so far."""
        return self.output_path.read_text(errors="replace")

    def events(self, name: str) -> list[dict[str, Any]]:
        """The log events called ``name`` of this run so far."""
        found = []
        for line in self.output.splitlines():
            if line.startswith("{") and name in line:  # a long log is not parsed whole each time that one is waited for
                try:
                    found.append(json.loads(line))
                except json.JSONDecodeError:
                    continue  # the last line may be half written
        return [event for event in found if event.get("event") == name]

    # --- processes ---

    def pid(self, process: str, bridge: str | None = None, lane: LaneLabel | None = None) -> int:
        """The process that has ``store``, ``bridge`` or ``clients``; waits for it when it is just being started again."""
        pid = wait_until(lambda: self.find_pid(process, bridge, lane), 10.0, f"a process of {process} {bridge or ''} {lane or 0}")
        assert pid is not None
        return pid

    def find_pid(self, process: str, bridge: str | None = None, lane: LaneLabel | None = None) -> int | None:
        """The process of that kind (the first lane's, unless told), or the one that has it and others; or None."""
        shared = None
        for pid, words in sorted(self.processes().items()):
            kind, _, place = dict(pairwise(words)).get("--process", "").partition(":")
            if kind == process and (bridge is None or place == f"{bridge}:{lane or 0}"):
                return pid
            if kind == SITE and process in (STORE, BRIDGE, CLIENTS):
                shared = pid
        return shared

    def kill(
        self, process: str, number: signal.Signals = signal.SIGKILL, bridge: str | None = None, lane: LaneLabel | None = None
    ) -> int:
        """Send a signal to the process; its pid."""
        pid = self.pid(process, bridge, lane)
        os.kill(pid, number)
        return pid

    def wait_replaced(self, process: str, old_pid: int, deadline_s: float = 10.0, *, works: bool = True) -> int:
        """Wait until another process than ``old_pid`` has taken its place, and all works again; its pid.

        Until then nobody may listen, and ``status`` tells what its former life said last. works: False where it cannot, for now.
        """
        replaced = wait_until(
            lambda: {self.find_pid(process)} - {None, old_pid}, deadline_s, lambda: f"a new {process}\n{self.output[-4000:]}"
        )
        if works:
            self.wait_actors_ready()
        return next(pid for pid in replaced if pid is not None)

    def processes(self) -> dict[int, list[str]]:
        """The processes of the supervisor's session and their command lines."""
        assert self._process is not None
        found = {}
        for name in os.listdir("/proc"):
            try:
                # Asked of each process of the machine, again and again while a test waits: the call costs a thirtieth of the file.
                if name.isdigit() and os.getsid(int(name)) == self._process.pid:
                    entry = Path("/proc", name)
                    if (entry / "stat").read_text().rpartition(")")[2].split()[0] != "Z":
                        found[int(name)] = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
            except OSError:
                continue  # it ended meanwhile
        return found

    def pids(self) -> list[int]:
        """Every process of the node."""
        return sorted(self.processes())

    def rss_bytes(self) -> dict[str, int]:
        """Resident memory of each process."""
        found = {}
        for pid, words in self.processes().items():
            named = dict(pairwise(words))
            name = named.get("--process", "template" if TEMPLATE in words else "supervisor")
            pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
            found[name] = pages * os.sysconf("SC_PAGE_SIZE")
        return found

    # --- control ---

    def cli(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command of the command line, such as ``status``, on this node."""
        return programs.run_bascule(*words, timeout_s=PATIENCE_S)

    def status(self) -> dict[str, Any]:
        """The control socket's answer to ``status``; ``bascule status`` prints the same.

        It is asked again while it tells of an actor what that said before: the supervisor waits half a second for each, and a
        loaded machine may keep one for longer. Those that are stopped, and those that hang for ``_FRESH_DEADLINE_S``, have no say.
        """
        end_s = time.monotonic() + _FRESH_DEADLINE_S
        while True:
            asked_s = time.monotonic()
            status: dict[str, Any] = call(self.data_dir / "run", "status", timeout_s=PATIENCE_S)
            now_s = time.monotonic()
            if now_s > end_s or not _is_stale(status["actors"], now_s - asked_s):
                return status

    def place_of(self, child: str) -> str:
        """The name of the process in which ``child``, such as ``store``, is to live; no lane has failed so that it is apart."""
        return SITE if self.placement == placements.TOGETHER else child

    def hosts(self) -> dict[str, str]:
        """The process of each actor, as ``status`` says."""
        return {actor: row["name"] for row in self.status()["processes"] for actor in row["actors"]}

    def wait_actors_ready(self, *, deadline_s: float = 20.0) -> None:
        """Wait until no actor starts anew: until then ``status`` tells what their former lives said last."""
        wait_until(
            lambda: all(actor["state"] == "ready" for actor in self.status()["actors"]),
            deadline_s,
            lambda: f"every actor ready\n{self.output[-4000:]}",
            period_s=0.05,
        )

    def lane(self, bridge: str, lane: LaneLabel = 0) -> dict[str, Any]:
        """The status of one lane of a bridge, once all who tell of it are ready: until then it is what their former lives said."""
        tellers = {QUEUE_STORE, forwarder_name(bridge, lane), connection_name(bridge, lane)}

        def told() -> list[dict[str, Any]]:
            status = self.status()
            if any(actor["state"] != "ready" for actor in status["actors"] if actor["name"] in tellers):
                return []
            return [row for row in status["bridges"] if row["name"] == bridge and row["lane"] == lane]

        lanes = wait_until(told, PATIENCE_S, lambda: f"the status of {bridge}:{lane}\n{self.output[-4000:]}", period_s=0.05)
        assert len(lanes) == 1, f"one row for {bridge}:{lane}, not {lanes}"
        return lanes[0]

    def wait_lane_until(
        self,
        reached: Callable[[dict[str, Any]], bool],
        what: str,
        bridge: str = "cloud",
        lane: LaneLabel = 0,
        *,
        deadline_s: float = 20.0,
    ) -> dict[str, Any]:
        """Wait until the lane's status is such that ``reached``, which is ``what`` in words; its status.

        Several actors tell of a lane, each at its own moment: who told before the others may have told of what was before. So the
        status is asked for once more, and that is the answer, unless it is not such that ``reached`` any more.
        """
        seen: dict[str, Any] = {}

        def look() -> bool:
            seen.update(self.lane(bridge, lane))
            return reached(seen)

        wait_until(look, deadline_s, lambda: f"{what} in the status of {bridge}:{lane}, which is {seen}", period_s=0.05)
        later = self.lane(bridge, lane)
        return later if reached(later) else seen

    def wait_lane(self, bridge: str, lane: LaneLabel = 0, *, deadline_s: float = 20.0, **wanted: Any) -> dict[str, Any]:
        """Wait until the lane's status has the ``wanted`` values; its status, as that of ``wait_lane_until``."""

        def reached(row: dict[str, Any]) -> bool:
            return all(row[key] == value for key, value in wanted.items())

        return self.wait_lane_until(reached, f"{wanted}", bridge, lane, deadline_s=deadline_s)

    # --- inside ---

    def _is_ready_or_ended(self) -> bool:
        return bool(self.events("node.ready")) or self.supervisor.poll() is not None

    def _gone(self) -> int:
        process = self.supervisor
        wait_until(lambda: not self.processes(), 5.0, lambda: f"end of every process of the node; left are {self.processes()}")
        self._process = None
        assert process.returncode is not None
        return process.returncode


def _is_stale(actors: Sequence[Mapping[str, Any]], took_s: float) -> bool:
    """Whether a status that took so long may tell what one of ``actors`` had said before it was asked for."""
    ready = [actor for actor in actors if actor["state"] == "ready"]
    silent = [actor for actor in ready if actor["heartbeat_age_s"] is None or actor["heartbeat_age_s"] > took_s + 0.001]  # rounded
    if silent:
        return not all(map(_is_stopped, silent))
    return took_s >= COLLECT_TIMEOUT_S and len(ready) == len(actors)  # a heartbeat alone has no figures


def _is_stopped(actor: Mapping[str, Any]) -> bool:
    """Whether its process is; one that has ended is not, and the supervisor will notice."""
    try:
        return Path(f"/proc/{actor['pid']}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    except OSError:
        return False


def bascule(*words: str) -> list[str]:
    """The command line ``bascule ...`` of this checkout."""
    return [sys.executable, "-m", "supervisor.cli", *words]
