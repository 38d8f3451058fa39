"""A test run that is ended ends its programs: whatever ends it, and whatever they are."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.node import ROOT
from tests.support.test_programs import is_there
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.process

A_TEST = """
import os, subprocess, sys, time
from pathlib import Path
from tests.support.mosquitto import Mosquitto
from tests.support.node import Node, bridge_config, node_config

FORKS = "import os, time; os.fork() or os.setsid(); time.sleep(600)"

def test_that_does_not_end(tmp_path):
    with Mosquitto(tmp_path / "r") as remote, Node(node_config(bridge_config("cloud", remote.port)), tmp_path / "n") as node:
        forks = subprocess.Popen([sys.executable, "-c", FORKS], start_new_session=True)
        while not (children := Path(f"/proc/{forks.pid}/task/{forks.pid}/children").read_text().split()):
            time.sleep(0.01)
        pids = [*node.pids(), remote._process.pid, forks.pid, *children]
        there = Path(os.environ["PIDS"])
        there.with_suffix(".new").write_text(" ".join(map(str, [os.getpid(), *pids])))
        there.with_suffix(".new").rename(there)
        time.sleep(600)
"""


class Run:
    """A test run of its own. main: who was started; process: who runs the test; programs: what that has started."""

    def __init__(self, folder: Path, *words: str) -> None:
        test, pids = folder / "test_forever.py", folder / "pids"
        test.write_text(A_TEST)
        config = ("-c", str(ROOT / "pyproject.toml"), "-p", "tests.conftest", "-p", "no:cacheprovider")
        command = [sys.executable, "-m", "pytest", *config, *words, str(test)]
        self.main = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, "PIDS": str(pids)},
            stdin=subprocess.DEVNULL,
            stdout=(folder / "output").open("wb"),
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            wait_until(lambda: pids.exists() or self.main.poll() is not None, PATIENCE_S, (folder / "output").read_text)
            assert pids.exists(), (folder / "output").read_text()
        except BaseException:
            self.main.kill()
            raise
        self.process, *self.programs = map(int, pids.read_text().split())

    def end(self) -> None:
        """Kill whatever is left."""
        for pid in (self.main.pid, self.process, *self.programs):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.main.wait(PATIENCE_S)


@pytest.fixture
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Run]:
    run = Run(tmp_path, *request.param)
    yield run
    run.end()


@pytest.mark.parametrize(
    ("run", "whom", "number"),
    [
        ((), "main", signal.SIGKILL),
        ((), "main", signal.SIGTERM),
        ((), "main", signal.SIGINT),
        (("-n", "1"), "main", signal.SIGKILL),
        (("-n", "1"), "process", signal.SIGKILL),
    ],
    indirect=["run"],
    ids=["kill -9", "SIGTERM", "Ctrl-C", "kill -9 of several", "kill -9 of one of several"],
)
def test_nothing_is_left_of_a_test_run_that_was_ended(run: Run, whom: str, number: signal.Signals) -> None:
    """Its node, broker and what they have started, in sessions of their own or without a parent."""
    assert len(run.programs) >= 8
    assert all(map(is_there, run.programs))

    os.kill(run.main.pid if whom == "main" else run.process, number)

    wait_until(lambda: not any(map(is_there, run.programs)), PATIENCE_S, lambda: f"end of {[*filter(is_there, run.programs)]}")
