"""Child processes: spawn, watch, kill, reap. Which child, when and why is decided elsewhere.

Children are spawned, never forked without exec: RocksDB threads and ZeroMQ contexts do not survive a fork. They stay in the
supervisor's session and process group, and share its standard error. A file descriptor tells of their end (pidfd), so no SIGCHLD
is handled, and a pid is never signalled after it may have been given to another process.
"""

from __future__ import annotations

import os
import signal
import site
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import actors
from supervisor.tree import ChildSpec
from wire.errors import BasculeError, ConfigError, StorageDamaged, Unavailable

_CAUSES = {
    BasculeError.exit_status: ": a bug, see the log",
    Unavailable.exit_status: ": something that it needs is not there, see the log",
    StorageDamaged.exit_status: ": its files are damaged, see the log",
    ConfigError.exit_status: ": its configuration is wrong, see the log",
}


@dataclass(frozen=True, slots=True)
class Ending:
    """How a life ended: ``status`` as the shell counts it, or negative for a signal, whose name is ``signal``."""

    status: int
    signal: str | None

    @property
    def cause(self) -> str:
        """In words; the log has the details."""
        if self.signal is not None:
            return f"it was killed by {self.signal}"
        return f"it ended with status {self.status}{_CAUSES.get(self.status, '')}"


class Life:
    """One life of a child: a process that runs, or has ended and waits to be reaped."""

    def __init__(self, process: subprocess.Popen[bytes], epoch: int) -> None:
        self._process = process
        self.pid = process.pid
        self.epoch = epoch
        self.pidfd = os.pidfd_open(process.pid)  # readable once the process has ended

    def kill(self) -> None:
        """SIGKILL: works on a stopped process too. One that has ended already is left alone."""
        try:
            signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def reap(self) -> Ending | None:
        """Take the exit status and close the descriptor; None while the process still runs."""
        status = self._process.poll()
        if status is None:
            return None
        os.close(self.pidfd)
        return Ending(status, signal.Signals(-status).name if status < 0 else None)


class Spawner:
    """Starts children of one node. ``inherit`` are descriptors that each child keeps open (the node's lock)."""

    def __init__(self, settings_file: Path, inherit: tuple[int, ...] = ()) -> None:
        self._settings_file = settings_file
        self._inherit = inherit
        self._environment = child_environment()

    def spawn(self, spec: ChildSpec, epoch: int, *, paused: bool = False) -> Life:
        """Start a life of ``spec`` under ``epoch``, of a bridge perhaps a ``paused`` one; it does not work yet on return."""
        process = subprocess.Popen(
            [*(spec.command or process_command(spec)), *self._arguments(epoch), *(["--paused"] if paused else [])],
            stdin=subprocess.DEVNULL,
            env=self._environment,
            pass_fds=self._inherit,
        )
        return Life(process, epoch)

    def _arguments(self, epoch: int) -> list[str]:
        return ["--epoch", str(epoch), "--settings", str(self._settings_file), "--parent", str(os.getpid())]


def process_command(spec: ChildSpec) -> tuple[str, ...]:
    """The start of the command line; it names the process, so that ``ps`` and ``pgrep -f`` find it."""
    return (sys.executable, "-P", "-m", "actors.process", "--process", spec.name)


def child_environment() -> dict[str, str]:
    """This process's environment, in which a child finds the packages from any working folder, installed or not."""
    root = str(Path(actors.__file__).resolve().parent.parent)
    environment = dict(os.environ)
    if root not in (*site.getsitepackages(), site.getusersitepackages()):
        known = environment.get("PYTHONPATH")
        environment["PYTHONPATH"] = f"{root}{os.pathsep}{known}" if known else root
    return environment
