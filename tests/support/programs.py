"""Programs with children of their own, run to their end or to a limit.

``subprocess.run`` with a timeout kills the program alone and then waits without one for its pipes, which its children hold open.
Here the output goes into files, and at the limit all goes that the program has started: what is in its session, and children of
children in sessions of their own.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from supervisor import launch
from tests.support import keeper, preloaded

SAID_MAX = 20_000  # characters of each output that a failure shows
_END_S = 10.0


def run(
    words: Sequence[str | Path], *, timeout_s: float, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program without input; its exit status and what it said.

    Fails the test, with what it said so far, when it has not ended within ``timeout_s``; nothing of it is left then.
    """
    if env is not None:
        env = {**env, **keeper.environment()}

    def start(out: int, err: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen(words, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True)

    return _finished(start, list(map(str, words)), timeout_s)


def run_bascule(*words: str, timeout_s: float) -> subprocess.CompletedProcess[str]:
    """Run ``bascule WORDS`` of this checkout, as ``run`` does, in a process that has its modules already (``preloaded.py``)."""

    def start(out: int, err: int) -> preloaded.Preloaded:
        module, environment = preloaded.COMMAND, launch.environment()
        return preloaded.start(module, words, cwd=preloaded.ROOT, environment=environment, out=out, err=err)

    return _finished(start, ["bascule", *words], timeout_s)


def _finished(
    start: Callable[[int, int], subprocess.Popen[bytes] | preloaded.Preloaded], words: list[str], timeout_s: float
) -> subprocess.CompletedProcess[str]:
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = start(out.fileno(), err.fileno())
        ended = False
        try:
            process.wait(timeout_s)
            ended = True
        except subprocess.TimeoutExpired:
            pass
        finally:
            if not ended:
                _kill_with_all_it_started(process)
        said, complained = (_text(file.fileno()) for file in (out, err))
    if not ended:
        pytest.fail(
            f"{' '.join(words)} did not end within {timeout_s:g} s\n"
            f"standard output:\n{said[-SAID_MAX:]}\nstandard error:\n{complained[-SAID_MAX:]}"
        )
    assert process.returncode is not None
    return subprocess.CompletedProcess(words, process.returncode, said, complained)


def _text(file: int) -> str:
    return os.pread(file, os.fstat(file).st_size, 0).decode(errors="replace")


def _kill_with_all_it_started(process: subprocess.Popen[bytes] | preloaded.Preloaded) -> None:
    """SIGKILL; those that it stops come first, so that nobody starts another meanwhile."""
    found: set[int] = set()
    while more := _descendants(process.pid) - found:
        found |= more
        _send(more, signal.SIGSTOP)
    _send({process.pid, *found}, signal.SIGKILL)
    process.wait(_END_S)


def _descendants(root: int) -> set[int]:
    """``root``, its children and theirs, and whoever is in its session without a parent there any more."""
    parents: dict[int, int] = {}
    members = {root}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it ended meanwhile
            pid = int(entry.name)
            parents[pid] = int(stat[1])
            if int(stat[3]) == root:
                members.add(pid)
    while more := {pid for pid, parent in parents.items() if parent in members} - members:
        members |= more
    return members


def _send(pids: set[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass
