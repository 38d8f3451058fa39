"""Child processes: spawn, watch, kill, reap. Which child, when and why is decided elsewhere.

A child is forked from the template (``supervisor/tree/template.py``) and becomes this process's child. Children stay in the
supervisor's session and process group, and share its standard error. A file descriptor tells of their end (pidfd), so no SIGCHLD is
handled, and a pid is never signalled after it may have been given to another process.
"""

from __future__ import annotations

import logging
import os
import signal
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from actors.process.failed_actor import ASK
from actors.system.clock_file import ClockFile
from actors.system.clocks import both_ms
from actors.system.free_memory import give_memory_back
from supervisor.tree.child_table import ChildSpec
from supervisor.tree.template import Template
from wire.errors import BasculeError, ConfigError, StorageDamaged, Unavailable

log = logging.getLogger("bascule")

_CAUSES = {
    BasculeError.exit_status: ": a bug, see the log",
    Unavailable.exit_status: ": something that it needs is not there, see the log",
    StorageDamaged.exit_status: ": its files are damaged, see the log",
    ConfigError.exit_status: ": its configuration is wrong, see the log",
}


@dataclass(frozen=True, slots=True)
class Ending:
    """How a life ended: ``status`` as the shell counts it, or negative for a signal, whose name is ``signal``.

    actor: that which had failed, where that is known.
    """

    status: int
    signal: str | None
    actor: str = ""

    @property
    def cause(self) -> str:
        """In words; the log has the details."""
        if self.actor:
            return f"{self.actor} failed{_CAUSES.get(self.status, '')}"
        if self.signal is not None:
            return f"it was killed by {self.signal}"
        return f"it ended with status {self.status}{_CAUSES.get(self.status, '')}"


class Life:
    """One life of a child: a process that runs, or has ended and waits to be reaped."""

    def __init__(self, epoch: int, pid: int) -> None:
        self.pid = pid
        self.epoch = epoch
        self.pidfd = os.pidfd_open(pid)  # readable once the process has ended

    def kill(self) -> None:
        """SIGKILL: works on a stopped process too. One that has ended already is left alone."""
        self._send(signal.SIGKILL)

    def ask(self) -> None:
        """Have it say which actor it hangs in, and end."""
        self._send(ASK)

    def _send(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):  # it has ended, and waits to be reaped
            signal.pidfd_send_signal(self.pidfd, number)

    def reap(self) -> Ending | None:
        """Take the exit status and close the descriptor; None while the process still runs."""
        found = os.waitid(os.P_PIDFD, self.pidfd, os.WEXITED | os.WNOHANG)
        if found is None:
            return None
        os.close(self.pidfd)
        if found.si_code == os.CLD_EXITED:
            return Ending(found.si_status, None)
        return Ending(-found.si_status, signal.Signals(found.si_status).name)


class ChildProcesses:
    """Starts children of one node, and keeps what they read as they start.

    clock: what is on record of the wall clock. inherit: descriptors that each child keeps open (the node's lock).
    """

    def __init__(self, template: Template, settings_file: Path, clock: ClockFile, inherit: tuple[int, ...] = ()) -> None:
        self._template = template
        self._settings_file = settings_file
        self._clock = clock
        self._inherit = inherit

    def spawn(self, spec: ChildSpec, epoch: int, *, paused: bool = False) -> Life:
        """Start a process of ``spec``'s own under ``epoch``, of a bridge perhaps a ``paused`` one; it does not work yet on return.

        Raises:
            OSError: it could not be started.
        """
        return self._spawn((*(spec.command or process_command(spec.name)), *spec.flags, *(["--paused"] if paused else [])), epoch)

    def spawn_shared(self, process: str, epoch: int) -> Life:
        """Start a ``process`` that several share; none of them lives in it yet.

        Raises:
            OSError: it could not be started.
        """
        return self._spawn(process_command(process), epoch)

    def _spawn(self, words: tuple[str, ...], epoch: int) -> Life:
        self._template.tend()
        self._keep_clock()
        return self._template.fork((*words, *self._arguments(epoch)), self._inherit, partial(Life, epoch))

    @property
    def template_pid(self) -> int | None:
        """The process that forks the children; None while there is none."""
        return self._template.pid or None

    def tend(self, *, needed: bool) -> None:
        """See to the template and to the record of the clock. Call it each heartbeat period.

        needed: a child may begin soon; if not, the template goes, until one does.
        """
        self._keep_clock()
        if not needed:
            if self._template.pid:
                self._template.rest()
                give_memory_back()  # what the start has taken
            return
        try:
            self._template.tend()
        except OSError as error:
            log.error("template.not_started", extra={"error": str(error)})

    def _keep_clock(self) -> None:
        try:
            self._clock.write(*both_ms())
        except OSError as error:
            log.warning("clock.not_written", extra={"error": str(error)})

    def _arguments(self, epoch: int) -> list[str]:
        return ["--epoch", str(epoch), "--settings", str(self._settings_file), "--parent", str(os.getpid())]


def process_command(process: str) -> tuple[str, ...]:
    """The start of the command line; it names the process, so that ``ps`` and ``pgrep -f`` find it."""
    return ("actors.process.main", "--process", process)
