"""Tests that start processes have the marker ``process``; whoever has not cannot start one.

``scripts/test`` leaves them out, so that it is quick, and ``scripts/test --all`` runs them. All in the folders below have the
marker; elsewhere a test, or its module, says so itself.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

FOLDERS = (
    "tests/bridge/",
    "tests/broker/",
    "tests/conformance/",
    "tests/docs/",
    "tests/faults/",
    "tests/fuzz/",
    "tests/simulation/",
    "tests/spark/",
)
MARKER = "process"
_STARTS = {"os.fork", "os.forkpty", "os.posix_spawn", "os.system", "subprocess.Popen"}  # Python's audit events
_running: list[str] = []  # the test without the marker that runs now


class StartedUnmarked(Exception):
    """A test that has not the marker has started a process."""


def is_marked_by_folder(path: str) -> bool:
    """Whether all tests of the file ``path``, such as tests/bridge/test_cli.py, start processes."""
    return path.startswith(FOLDERS)


def guard() -> None:
    """From now on refuse processes to tests without the marker. Once a process: it cannot be undone."""
    sys.addaudithook(_refuse)


@contextmanager
def without_processes(test: str) -> Iterator[None]:
    """``test`` runs, and has not the marker."""
    _running.append(test)
    try:
        yield
    finally:
        _running.remove(test)


def _refuse(event: str, arguments: tuple[object, ...]) -> None:
    if _running and event in _STARTS:
        raise StartedUnmarked(
            f"{_running[-1]} starts a process ({arguments[0] if arguments else event}): give it pytest.mark.{MARKER}"
        )
