"""The template's process as the supervisor sees it: begin it, have it fork, notice its end. Its inside is
``actors/process/template.py``.

Children are forked there because this process has ZeroMQ's threads, which do not survive a fork. They are this process's children
all the same: it adopts orphans (PR_SET_CHILD_SUBREAPER), so it learns of their end, and the end of the template is nothing to them.
A half forked child then ends by itself, and stays a zombie of this process.
"""

from __future__ import annotations

import ctypes
import errno
import logging
import os
import resource
import select
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self, TypeVar

from actors.process.template import ANSWER, GO, TemplateCommandLine, be_template, import_all
from supervisor.launch import command, environment

log = logging.getLogger("bascule")

PR_SET_CHILD_SUBREAPER = 36
ANSWER_TIMEOUT_S = 30.0  # a cold start on a slow disk; a template that is stopped is replaced after it
_END_TIMEOUT_S = 5.0

_T = TypeVar("_T")


class Template:
    """One process at a time, begun at once; whoever asks first waits until it has imported everything.

    ``forked``: the first one is this process's own child and shares its pages; so this process must have no
    thread yet. Those that follow an ended one start again. ``private``: descriptors of this process that children shall not have.
    """

    pid: int
    _requests: socket.socket

    def __init__(self, *, forked: bool = False, private: tuple[int, ...] = ()) -> None:
        _prepare()
        self._private = private
        self.command_line = TemplateCommandLine()
        self._begin(self._fork_here if forked else _start)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.rest()

    def rest(self) -> None:
        """End the process; the next ``tend`` begins another one."""
        self._requests.close()
        if self.pid:
            pid, self.pid = self.pid, 0
            _end(pid)

    def tend(self) -> None:
        """Begin a new process if the last one has ended.

        Raises:
            OSError: it could not be begun; there is none until the next call.
        """
        if self.pid:
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            if not ended:
                return
            log.error("template.ended", extra={"pid": ended, "exit_status": os.waitstatus_to_exitcode(status)})
            self._requests.close()
        self._begin(_start)

    def fork(self, words: tuple[str, ...], inherit: tuple[int, ...], take: Callable[[int], _T]) -> _T:
        """Run ``words``, a module and the arguments of its ``main``, in a new child, which keeps ``inherit`` open.

        ``take`` gets its pid and returns what this does; the child begins its work after that, and ends if it fails.

        Raises:
            OSError: it could not be forked; no child runs.
        """
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                socket.send_fds(self._requests, ["\0".join(words).encode()], [theirs.fileno(), *inherit])
            pid = self._answer(ours)
            try:
                taken = take(pid)
            except OSError:
                ours.close()
                os.waitpid(pid, 0)
                raise
            with suppress(OSError):  # it has ended; whoever took it will see
                ours.send(GO)
        return taken

    def _answer(self, ours: socket.socket) -> int:
        ours.settimeout(ANSWER_TIMEOUT_S)
        try:
            answer = ours.recv(ANSWER.size)
        except TimeoutError as error:
            os.kill(self.pid, signal.SIGKILL)
            raise OSError(errno.ETIMEDOUT, "the template of the processes does not answer") from error
        if len(answer) < ANSWER.size:
            raise OSError(errno.ECHILD, "the template of the processes has ended")
        number: int = ANSWER.unpack(answer)[0]
        if number < 0:
            raise OSError(-number, os.strerror(-number))
        return number

    def _begin(self, begin: Callable[[socket.socket], int]) -> None:
        self.pid = 0
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self.pid = begin(theirs)

    def _fork_here(self, theirs: socket.socket) -> int:
        parent = os.getpid()
        import_all()
        pid = os.fork()
        if not pid:
            nowhere = os.open(os.devnull, os.O_RDONLY)
            os.dup2(nowhere, 0)  # nothing is to be read from where this process reads
            for descriptor in (nowhere, self._requests.fileno(), *self._private):
                os.close(descriptor)
            be_template(theirs, parent, self.command_line)
        return pid


def _start(theirs: socket.socket) -> int:
    theirs.set_inheritable(True)
    words = command("actors.process.template", "--requests", str(theirs.fileno()), "--parent", str(os.getpid()))
    nothing = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
    return os.posix_spawn(sys.executable, words, environment(), file_actions=[nothing])


def _end(pid: int) -> None:
    """Wait for the end of the template, whose socket is closed; kill it if it takes its time."""
    end = os.pidfd_open(pid)
    if not select.select([end], [], [], _END_TIMEOUT_S)[0]:
        os.kill(pid, signal.SIGKILL)
    os.close(end)
    os.waitpid(pid, 0)


def _prepare() -> None:
    """Adopt orphans, see how children end, and allow them as many open files as the system lets them have."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # an inherited SIG_IGN would take the children's exit statuses away
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
