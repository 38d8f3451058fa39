"""A signal at any moment of a start ends the node in order: exit status 0, no child left, also as PID 1."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.launch import environment
from tests.support import programs
from tests.support.node import Node, bridge_config, node_config
from tests.support.ports import free_port
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.process

MARK = "BASCULE_TEST_START"
DELAYS = 6  # in one run; a soak has as many as its time allows
LATEST_S = 1.5
AS_PID_1 = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")


class Start:
    """``bascule run`` from its first instruction on, as PID 1 of a namespace if wanted."""

    def __init__(self, folder: Path, *, as_pid_1: bool) -> None:
        self.mark = secrets.token_hex(8)
        self.folder = folder
        self.config = Node(node_config(bridge_config("cloud", free_port())), folder).config_path
        self.output = folder / "said"
        words = [sys.executable, "-P", "-m", "supervisor.cli", "run", str(self.config)]
        with self.output.open("wb") as out:
            self.process = subprocess.Popen(
                [*AS_PID_1, *words] if as_pid_1 else words,
                env={**environment(), MARK: self.mark},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        self.pid = self.process.pid
        if as_pid_1:
            self.pid = wait_until(self._first_child, PATIENCE_S, self.said) or 0
        # Before that, in the first hundredths of a second, nobody can: the interpreter has not begun with us.
        wait_until(lambda: self.process.poll() is not None or keeps(self.pid, signal.SIGTERM), PATIENCE_S, self.said)

    def _first_child(self) -> int | None:
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return int(children[0]) if children else None

    def said(self) -> str:
        return self.output.read_text(errors="replace")

    def left(self) -> list[str]:
        """The processes of this start that there are."""
        found = []
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and f"{MARK}={self.mark}".encode() in (entry / "environ").read_bytes():
                    state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
                    found += [] if state in "ZX" else [(entry / "cmdline").read_text().replace("\0", " ")[:100]]
            except OSError:  # it has ended, or is nobody's of ours
                continue
        return found

    def ends_in_order(self, what: str) -> None:
        status = self.process.wait(PATIENCE_S)
        left = self.left()
        assert (status, left) == (0, []), f"{what}:\n{self.said()}"
        assert "Traceback" not in self.said(), what


def keeps(pid: int, number: int) -> bool:
    """Whether the process is an interpreter, not what starts it, and has the signal blocked or caught."""
    try:
        if not words(pid).startswith(sys.executable.encode()):
            return False
        fields = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line)
    except (FileNotFoundError, ProcessLookupError):
        return False
    return bool((int(fields["SigBlk"], 16) | int(fields["SigCgt"], 16)) >> (number - 1) & 1)


def delays(soak_s: float | None) -> Iterator[float]:
    if soak_s is None:
        yield from (LATEST_S * number / DELAYS for number in range(DELAYS))
        return
    end_s, number = time.monotonic() + soak_s, 0
    while time.monotonic() < end_s:
        yield number * 0.618034 % 1 * LATEST_S
        number += 1


@pytest.fixture
def as_pid_1(request: pytest.FixtureRequest) -> bool:
    if request.param and subprocess.run([*AS_PID_1, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no PID namespace may be made here")
    return bool(request.param)


@pytest.mark.parametrize("as_pid_1", [False, True], indirect=True, ids=["ordinary", "pid 1"])
def test_a_signal_ends_a_start_in_order(tmp_path: Path, as_pid_1: bool, pytestconfig: pytest.Config) -> None:
    """SIGTERM and SIGINT, which have one handler, in turn."""
    for place, delay_s in enumerate(delays(pytestconfig.getoption("--soak"))):
        number = (signal.SIGTERM, signal.SIGINT)[place % 2]
        start = Start(tmp_path / str(place), as_pid_1=as_pid_1)
        time.sleep(delay_s)  # this is the place in the start that is tried, and nothing is waited for
        os.kill(start.pid, number)
        start.ends_in_order(f"{number.name} after {delay_s:.3f} s")


def test_further_signals_and_a_reload_change_nothing(tmp_path: Path) -> None:
    """A second and a third, and SIGHUP before them, at each of some moments."""
    for place in range(4):
        start = Start(tmp_path / str(place), as_pid_1=False)
        time.sleep(place * 0.3)
        for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGTERM, signal.SIGINT):
            os.kill(start.pid, number)
        start.ends_in_order(f"four signals after {place * 0.3:.1f} s")


def test_a_reload_while_it_starts_is_done_when_it_can(tmp_path: Path) -> None:
    start = Start(tmp_path, as_pid_1=False)
    os.kill(start.pid, signal.SIGHUP)
    wait_until(lambda: '"node.ready"' in start.said(), PATIENCE_S, start.said)
    os.kill(start.pid, signal.SIGTERM)
    start.ends_in_order("SIGTERM after SIGHUP")


def test_a_signal_ends_the_wait_for_a_data_folder(tmp_path: Path) -> None:
    """The rest of an earlier life still holds the lock."""
    import fcntl

    (tmp_path / "data").mkdir()
    with (tmp_path / "data" / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        start = Start(tmp_path, as_pid_1=False)
        wait_until(lambda: (tmp_path / "data" / "lock").exists() and opens(start.pid, "lock"), PATIENCE_S, start.said)
        os.kill(start.pid, signal.SIGTERM)
        start.ends_in_order("SIGTERM while the folder is locked")


def opens(pid: int, name: str) -> bool:
    try:
        return any(os.readlink(one).endswith(f"/{name}") for one in Path(f"/proc/{pid}/fd").iterdir())
    except FileNotFoundError:
        return False


def test_stop_ends_a_node_that_is_starting(tmp_path: Path) -> None:
    """From when its process shows the file until it answers, and then too."""
    for place in range(4):
        start = Start(tmp_path / str(place), as_pid_1=False)
        wait_until(lambda start=start: b"supervisor.tree.run" in words(start.pid), PATIENCE_S, start.said)  # type: ignore[misc]
        time.sleep(place * 0.3)
        done = programs.run_bascule("stop", str(start.config), timeout_s=PATIENCE_S)
        assert done.returncode == 0, done.stderr
        start.ends_in_order(f"stop after {place * 0.3:.1f} s")


def words(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def test_commands_refuse_another_nodes_file(tmp_path: Path) -> None:
    """``stop`` stops only the node that its file describes, and so does whatever else goes by the data folder."""
    with Node(node_config(), tmp_path / "own") as node:
        other = Node({"node": {"name": "other", "data_dir": str(node.data_dir)}, **node_config()}, tmp_path / "other")
        for command in (["stop"], ["status"], ["reload"], ["queue", "list"], ["events"]):
            done = node.cli(*command, str(other.config_path))
            assert done.returncode == 69, done
            assert "node other" in done.stderr, done
            assert "node edge" in done.stderr, done
        assert "node edge" in " ".join(node.cli("doctor", str(other.config_path)).stdout.split())
        copy = tmp_path / "copy.yaml"
        copy.write_text(node.config_path.read_text())
        assert node.cli("stop", str(copy)).returncode == 0
        assert node.wait_ended() == 0
