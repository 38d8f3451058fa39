"""Programs of this tree without the half second in which they import: forked from a process that has imported them.

``start`` runs a module as ``python -P -m MODULE WORDS`` does, in a process with a session, a working folder, an environment and
standard streams of its own. The module's work is done for real. Only its imports are there, a configuration is loaded by a
process that was forked in the same way, and an interpreter that is done is not taken down object by object: each page of its memory
would be copied for that, which takes longer than most commands. So who wants to see what a start takes starts a program in the
ordinary way.

There are three kinds of such processes: for nodes, which must be without what only commands import, for the Pythons that Spark
starts, and for everything else. A test process begins each when it is needed, and another one for each environment of the
interpreter itself (LD_PRELOAD, MALLOC_ARENA_MAX, PYTHON...). A library of LD_PRELOAD is loaded before a program's variables are
there, so it reads them when it is called. All end with the test process (``keeper.py``).
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import secrets
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from supervisor import launch
from supervisor.config import loading_aside
from tests.support import keeper
from tests.support.forked_command import NUMBER, ask

COMMAND = "supervisor.cli"
NODE = "supervisor.tree.run"
NODES = (NODE, "tests.supervisor.run")
OF_NODES, OF_SPARK, OF_COMMANDS = "nodes", "spark", "commands"
ROOT = Path(__file__).resolve().parents[2]
IMPORTS = {
    OF_NODES: (NODE, "supervisor.tree.node", "supervisor.reload.source"),
    OF_COMMANDS: (
        "supervisor.cli.main",
        "supervisor.config.loading",
        "supervisor.config.named_files",
        "supervisor.control.client",
        "supervisor.doctor.examination",
        "supervisor.terminal.view",
        "supervisor.terminal.session_view",
        "storage.snapshots.snapshot_folder",
    ),
    OF_SPARK: (
        "pyspark.worker",
        "pyspark.sql.worker.create_data_source",
        "pyspark.sql.worker.data_source_pushdown_filters",
        "pyspark.sql.worker.lookup_data_sources",
        "pyspark.sql.worker.plan_data_source_read",
        "analysis.spark.source",
    ),
}
_REQUEST_MAX_BYTES = 200_000
_ANSWER_S = 60.0
# Variables that are read before any module is. libfaketime reads its others at each call.
_INTERPRETER = ("LD_", "MALLOC_", "PYTHON", "LC_", "LANG", "FAKETIME_CACHE", "FAKETIME_DONT")
_GROUPS = "pyspark.daemon"  # which makes a process group of its own, and so may not lead a session
_addresses: dict[tuple[str, frozenset[tuple[str, str]]], str] = {}  # what it forks, with which of them -> its abstract address


class Preloaded:
    """A program that was started, as ``subprocess.Popen`` has it."""

    def __init__(self, way: socket.socket) -> None:
        self._way = way
        way.settimeout(_ANSWER_S)
        self.pid: int = self._number()
        self.returncode: int | None = None
        self.args = "a forked program"

    def poll(self) -> int | None:
        """Its exit status, below 0 for a signal; None while it runs."""
        with suppress(subprocess.TimeoutExpired):
            self.wait(0.0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; the exit status. Raises TimeoutExpired."""
        if self.returncode is None:
            if timeout is not None and not select.select([self._way], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout)
            self._way.settimeout(None)
            self.returncode = self._number()
            self._way.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send it a signal, if it has not ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it ended just now, and that is not known here yet
                os.kill(self.pid, number)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        """SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def _number(self) -> int:
        answer = self._way.recv(NUMBER.size)
        if not answer:
            raise RuntimeError("the process that programs are forked from has ended")
        number: int = NUMBER.unpack(answer)[0]
        return number


def start(module: str, words: Sequence[str], *, cwd: Path, environment: Mapping[str, str], out: int, err: int) -> Preloaded:
    """Run ``module`` with ``words``; its standard output and error go to the descriptors ``out`` and ``err``."""
    sys.audit("subprocess.Popen", module, list(words), str(cwd), None)  # for ``process_marker.py``
    with open(os.devnull, "rb") as nothing:
        streams = nothing.fileno(), out, err
        return Preloaded(ask(address(module, environment), module, list(words), str(cwd), dict(environment), streams))


def address(module: str, environment: Mapping[str, str] | None = None) -> str:
    """The point at which ``forked_command.py`` has ``module`` forked. environment: this process's, unless told."""
    kind = OF_NODES if module in NODES else OF_SPARK if module.startswith("pyspark.") else OF_COMMANDS
    return _address(kind, launch.environment() if environment is None else environment)


def _address(kind: str, environment: Mapping[str, str]) -> str:
    ours = launch.environment()
    interpreter = {name: value for name, value in environment.items() if name.startswith(_INTERPRETER)}
    begun = kind, frozenset(interpreter.items())
    if begun not in _addresses:
        loads = _address(OF_COMMANDS, ours) if kind == OF_NODES else ""
        others = {name: value for name, value in ours.items() if not name.startswith(_INTERPRETER)}
        name = f"bascule-tests-{secrets.token_hex(8)}"
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
            listening.bind(f"\0{name}")
            listening.listen(64)
            subprocess.Popen(
                launch.command(__name__, str(listening.fileno()), kind, loads),
                cwd=ROOT,
                env={**others, **interpreter, **keeper.environment()},
                stdin=subprocess.DEVNULL,
                pass_fds=[listening.fileno()],
                start_new_session=True,
            )
        _addresses[begun] = name
    return _addresses[begun]


# --- the process that forks ---


class _Loading(loading_aside.Loading):
    """The loading of a configuration, by a process that was forked with all that it takes imported."""

    address = ""

    def __init__(self, *words: str | Path, given: bytes | None = None, module: str = "supervisor.config.loading_aside") -> None:
        told, tells = os.pipe()
        reads, writes = os.pipe()
        os.write(writes, given or b"")
        os.close(writes)
        try:
            texts, cwd = [str(word) for word in words], str(Path.cwd())
            program = Preloaded(ask(self.address, module, texts, cwd, dict(os.environ), (reads, tells, 2)))
        finally:
            os.close(tells)
            os.close(reads)
        self._program, self._told = program, told

    def fileno(self) -> int:
        return self._told

    def wait(self) -> bytes:
        with open(self._told, "rb") as file:
            told = file.read()
        return self.judged(told, self._program.wait())


def main(argv: list[str]) -> None:
    """``python -m tests.support.preloaded FD nodes|spark|commands ADDRESS ROOM``: fork programs, and be each of them."""
    for module in IMPORTS[argv[1]]:
        importlib.import_module(module)
    if argv[1] == OF_NODES:
        from actors.process.template import import_all

        import_all()
        _Loading.address = argv[2]
        loading_aside.Loading = _Loading  # type: ignore[misc]
    gc.freeze()  # for the same reason
    _Server(socket.socket(fileno=int(argv[0]))).serve()


class _Server:
    """Forks a program for each connection. The program ends by SIGKILL if who started it ends first."""

    def __init__(self, listening: socket.socket) -> None:
        self._listening = listening
        self._running: dict[int, tuple[int, socket.socket]] = {}  # the pidfd -> its process, and the way to who started it
        self._poll = select.poll()
        self._poll.register(listening, select.POLLIN)

    def serve(self) -> None:
        """Goes on in each program, and returns there when it has ended."""
        while True:
            for descriptor, _ in self._poll.poll():
                if descriptor == self._listening.fileno():
                    if self._fork():
                        return
                elif descriptor in self._running:
                    self._ended(descriptor)
                else:
                    self._left(descriptor)

    def _fork(self) -> bool:
        """Fork the next program; whether this is it, at its end."""
        way, _ = self._listening.accept()
        request, streams, _, _ = socket.recv_fds(way, _REQUEST_MAX_BYTES, 3)
        pid = os.fork()
        if not pid:
            for one in (self._listening, way, *(other for _, other in self._running.values())):
                one.close()
            for pidfd in self._running:
                os.close(pidfd)
            module, words, cwd, environment = json.loads(request)
            _be(module, words, cwd, environment, streams)
            return True
        for stream in streams:
            os.close(stream)
        pidfd = os.pidfd_open(pid)
        self._running[pidfd] = pid, way
        self._poll.register(pidfd, select.POLLIN)
        self._poll.register(way, 0)  # its end alone
        way.send(NUMBER.pack(pid))
        return False

    def _ended(self, pidfd: int) -> None:
        pid, way = self._running.pop(pidfd)
        _, status = os.waitpid(pid, 0)
        with suppress(KeyError):
            self._poll.unregister(way)
        with suppress(OSError):  # nobody waits for it
            way.send(NUMBER.pack(os.waitstatus_to_exitcode(status)))
        self._poll.unregister(pidfd)
        os.close(pidfd)
        way.close()

    def _left(self, descriptor: int) -> None:
        for pid, way in self._running.values():
            if way.fileno() == descriptor:
                self._poll.unregister(way)
                os.kill(pid, signal.SIGKILL)


def _be(module: str, words: list[str], cwd: str, environment: dict[str, str], streams: list[int]) -> None:
    """Be the program. An error goes on from here as from its own start."""
    import runpy

    if module != _GROUPS:
        os.setsid()
    os.chdir(cwd)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    # The streams of before go by what they were opened to.
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", 1, errors="backslashreplace", closefd=False)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [module, *words]
    sys.modules.pop(module, None)  # its code runs as ``__main__``; what it imports stays
    status: object = None
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        status = end.code
    if threading.active_count() == 1 and (status is None or isinstance(status, int)):
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit((status or 0) & 0xFF)
    sys.exit(status)  # type: ignore[arg-type]


if __name__ == "__main__":
    main(sys.argv[1:])
