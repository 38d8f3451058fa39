"""Programs that are forked with their modules imported end as they do when they are started, and say the same."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from supervisor import launch
from tests.support import preloaded, programs
from tests.support.preloaded import ROOT
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.process


def test_a_command_says_and_ends_as_one_that_is_started(tmp_path: Path) -> None:
    (tmp_path / "wrong.yaml").write_text("node: {}\n")
    for words in (["--version"], ["check", str(tmp_path / "wrong.yaml")], ["check", "--colour"], ["status", str(tmp_path)]):
        started = programs.run([sys.executable, "-m", "supervisor.cli", *words], cwd=ROOT, timeout_s=PATIENCE_S)
        forked = programs.run_bascule(*words, timeout_s=PATIENCE_S)
        assert (forked.returncode, forked.stdout, forked.stderr) == (started.returncode, started.stdout, started.stderr)


def test_a_signal_ends_a_program_and_its_status_says_so(tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as out:
        streams = out.fileno()
        program = preloaded.start("http.server", ["0"], cwd=tmp_path, environment=launch.environment(), out=streams, err=streams)
    assert program.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        program.wait(0.01)
    program.terminate()
    assert program.wait(PATIENCE_S) == -signal.SIGTERM
    assert program.poll() == -signal.SIGTERM
    program.kill()  # it has ended, and nobody else has its number
