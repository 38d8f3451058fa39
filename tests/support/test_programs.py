"""``programs.run``: what a program says comes back, and one that does not end is ended with all it started."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from tests.support import programs
from tests.support.waiting import wait_until

pytestmark = pytest.mark.process

FAMILY = """
import subprocess, sys
words = [sys.executable, "-c", "import time; time.sleep(600)"]
children = [subprocess.Popen(words, start_new_session=own) for own in (False, True)]
open(sys.argv[1], "w").write(" ".join(str(child.pid) for child in children))
print("it said this", flush=True)
print("and complained", file=sys.stderr, flush=True)
for child in children:
    sys.argv[2] == "stay" and child.wait()
"""


def is_there(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_what_a_program_says_comes_back_with_its_exit_status(tmp_path: Path) -> None:
    program = "import sys; print('out'); print('err', file=sys.stderr); print(input.__name__, sys.stdin.read() == ''); sys.exit(7)"
    done = programs.run([sys.executable, "-c", program], timeout_s=60.0, cwd=tmp_path, env={**os.environ, "A": "1"})
    assert (done.returncode, done.stdout, done.stderr) == (7, "out\ninput True\n", "err\n")


def test_a_program_that_does_not_end_is_ended_with_its_children_and_what_it_said_is_shown(tmp_path: Path) -> None:
    """The children hold the outputs open: whoever waited for their end would wait for ten minutes."""
    pids = tmp_path / "pids"
    with pytest.raises(pytest.fail.Exception, match=r"(?s)did not end within 5 s.*it said this.*and complained"):
        programs.run([sys.executable, "-c", FAMILY, pids, "stay"], timeout_s=5.0)
    children = list(map(int, pids.read_text().split()))
    assert len(children) == 2
    wait_until(lambda: not any(map(is_there, children)), 10.0, f"the end of {children}")


def test_the_end_of_a_program_is_not_that_of_its_children(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    done = programs.run([sys.executable, "-c", FAMILY, pids, "leave"], timeout_s=60.0)
    children = list(map(int, pids.read_text().split()))
    left = list(map(is_there, children))
    for child in children:
        os.kill(child, signal.SIGKILL)
    assert done.stdout == "it said this\n"
    assert left == [True, True]
