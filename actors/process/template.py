"""The process that a node's children are forked from: it has imported all that they run, and has no thread, mailbox or database.

So children share its pages, and start in milliseconds. It is forked from the supervisor before that has a thread, or, after the end
of another one, begins as ``python -m actors.process.template --requests FD --parent PID ROOM``. A request is a message on the
socket ``FD``: the words of the child's command; and with it descriptors: the first is the child's way to the supervisor, the others
stay open in it. The child becomes one of the supervisor's, not of this process, whose end no child notices. This process ends when
the supervisor closes the socket, or ends.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import os
import signal
import socket
import struct
import sys
import traceback
from itertools import pairwise
from pathlib import Path
from typing import NoReturn

from actors.process.main import ACTORS, EXIT_BUG, STANDBY_STORE, die_with_parent, pairs
from wire import config_settings
from wire.frames.names import SUPERVISOR

REQUEST_MAX_BYTES = 65_536
DESCRIPTORS_MAX = 8
ANSWER = struct.Struct("=i")  # the child's pid, or below 0 the errno that kept it from being forked
GO = b"!"

PR_SET_NAME = 15
_BRIDGE_PARTS = 3  # of bridge:NAME:LANE
_ARGUMENTS_START, _ARGUMENTS_STOP = 45, 46  # fields 48 and 49 of /proc/PID/stat, counted from the one behind the name


class TemplateCommandLine:
    """The memory that ``ps`` and ``pgrep -f`` show of this process: that in which it got its arguments, and no longer than
    these; and the name that ``top``, ``ss`` and ``pgrep`` show."""

    def __init__(self) -> None:
        fields = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()
        self._start = int(fields[_ARGUMENTS_START])
        self._bytes = int(fields[_ARGUMENTS_STOP]) - self._start - 1  # the last one stays 0

    def show(self, name: str, module: str, arguments: list[str]) -> None:
        """Show ``name``, and behind it ``module`` and ``arguments``; where there is room for one word only, the name alone."""
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_NAME, _in_short(name).encode())
        if self._start:  # 0: this kernel does not tell
            text = "\0".join((f"bascule: {name}", "-m", module, *arguments)).encode()[: self._bytes]
            ctypes.memmove(self._start, text.ljust(self._bytes, b"\0"), self._bytes)


def _shown(words: list[str]) -> str:
    """The name of the process that runs ``words``: that of the child, such as ``store``; of a bridge's, ``bridge cloud/0``."""
    name = dict(pairwise(words)).get("--process", words[0])
    return "bridge {}/{}".format(*parts[1:]) if len(parts := name.split(":")) == _BRIDGE_PARTS else name


def _in_short(name: str) -> str:
    """``name`` as far as the kernel has room: of a bridge's the lane."""
    return f"bascule:{name.removeprefix('bridge ')}" if name != SUPERVISOR else "bascule"


def main(argv: list[str] | None = None) -> NoReturn:
    """Begin anew as the template."""
    options = pairs((sys.argv[1:] if argv is None else argv)[:-1])
    command_line = TemplateCommandLine()
    import_all()
    be_template(socket.socket(fileno=int(options["--requests"])), int(options["--parent"]), command_line)


def import_all() -> None:
    """Import what children run, for good, and leave it as they best share it."""
    for name, (module, _) in ACTORS.items():
        if name != STANDBY_STORE:  # it has the client of NATS, and most nodes are of no cluster
            importlib.import_module(module)
    config_settings.prepare()
    if sys.version_info < (3, 12):  # from then on names are not counted
        sys._clear_type_cache()  # it counts each name that imports have looked up, and a child would count it out again
    gc.collect()
    gc.freeze()  # a collection in a child would write to every page that has an object


def be_template(requests: socket.socket, parent: int, command_line: TemplateCommandLine) -> NoReturn:
    """Fork children until ``requests`` is closed, and be each of them: run its module's ``main``, and exit with what that returns.

    The call does not return, and the interpreter is not taken apart: that would write to every page that is shared.
    """
    status = None
    try:
        die_with_parent(parent)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # it ends with its supervisor
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())  # a node begins with signals blocked
        command_line.show("template", "actors.process.template", [])
        words = serve(requests, parent)
        if words is None:
            status = 0
        else:
            command_line.show(_shown(words), words[0], words[1:])
            status = importlib.import_module(words[0]).main(words[1:])
    finally:
        if status is None:
            traceback.print_exc()
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        os._exit(EXIT_BUG if status is None else status)


def serve(requests: socket.socket, parent: int) -> list[str] | None:
    """Fork a child for each request; returns in each child, with its words, and here once there are no more requests."""
    with requests:
        while True:
            request, descriptors, _, _ = socket.recv_fds(requests, REQUEST_MAX_BYTES, DESCRIPTORS_MAX)
            if not request:
                return None
            way, *_ = descriptors
            words = request.decode().split("\0")
            if _fork(way, parent):
                break
            for descriptor in descriptors:
                os.close(descriptor)
    _announce(way)
    return words


def _fork(way: int, parent: int) -> bool:
    """Fork a child and give it to ``parent``; whether this is that child. Faults are told on ``way``.

    A process in between forks it and ends, so that it goes to the next above that adopts orphans.
    """
    try:
        between = os.fork()
    except OSError as error:
        os.write(way, ANSWER.pack(-(error.errno or 1)))
        return False
    if between:
        os.waitpid(between, 0)
        return False
    between = os.getpid()
    try:
        if os.fork():
            os._exit(0)
    except OSError as error:
        os.write(way, ANSWER.pack(-(error.errno or 1)))
        os._exit(0)
    while os.getppid() == between:  # it has only its end to do
        os.sched_yield()
    die_with_parent(parent)
    return True


def _announce(way: int) -> None:
    """Tell the supervisor of this child, and wait until it has it on record: nobody may run that it does not know of."""
    with socket.socket(fileno=way) as supervisor:
        supervisor.send(ANSWER.pack(os.getpid()))
        if supervisor.recv(len(GO)) != GO:
            os._exit(EXIT_BUG)


if __name__ == "__main__":
    main()
