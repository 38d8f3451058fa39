"""Ends what a test process has started, when that has ended, whatever ended it: a kill -9, a time limit, Ctrl-C.

Each test process marks its environment, which whatever it starts inherits, in any session and under any parent. Beside it runs this
file as a program: it waits for the end of the process, and then kills everybody with that mark. A program that is started with an
environment of its own needs ``environment`` in it.
"""

from __future__ import annotations

import os
import secrets
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

VARIABLE = "BASCULE_TEST_PROCESSES"  # the marks of this process and of those above it
_END_S = 60.0
_LOOK_S = 0.02

_keepers: list[subprocess.Popen[bytes]] = []


def begin() -> None:
    """Have everything end with this process that it starts from now on. Once a process, before it starts anything."""
    mark = secrets.token_hex(16)
    words = [sys.executable, "-I", "-S", __file__, str(os.getpid()), mark]
    null = subprocess.DEVNULL
    _keepers.append(subprocess.Popen(words, stdin=null, stdout=null, stderr=null, env={}, start_new_session=True))
    os.environ[VARIABLE] = " ".join((*os.environ.get(VARIABLE, "").split(), mark))


def environment() -> dict[str, str]:
    """The environment of a program that is to end with the test process."""
    return {VARIABLE: os.environ[VARIABLE]} if VARIABLE in os.environ else {}


def _wait_for_the_end_of(pid: int) -> None:
    try:
        end = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    if os.getppid() == pid:  # else it is another process by now
        poll = select.poll()
        poll.register(end, select.POLLIN)
        poll.poll()


def _kill_all_with(mark: bytes) -> bool:
    """SIGKILL to everybody with ``mark``; whether anybody had it."""
    found = False
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            process = os.pidfd_open(int(entry.name))  # first: what is read is of it, and so is what is killed
        except OSError:
            continue  # it has ended
        try:
            if mark in (entry / "environ").read_bytes():
                signal.pidfd_send_signal(process, signal.SIGKILL)
                found = True
        except OSError:
            pass  # it has ended, or is somebody else's
        finally:
            os.close(process)
    return found


def main(pid: int, mark: str) -> None:
    """Wait for the end of ``pid``, this process's parent, and kill everybody with ``mark``, and whom they start meanwhile."""
    _wait_for_the_end_of(pid)
    end_s = time.monotonic() + _END_S
    while _kill_all_with(mark.encode()) and time.monotonic() < end_s:
        time.sleep(_LOOK_S)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
