"""The template: children that are the supervisor's, whatever becomes of the process that forked them."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import actors.process.template
import supervisor.tree.template
from supervisor.tree.child_processes import Ending, Life
from supervisor.tree.template import PR_SET_CHILD_SUBREAPER, Template
from tests.supervisor.conftest import ROOT, StartSupervisor, TestNode, alive
from tests.supervisor.settings import node_settings
from tests.support.settings import bridge
from tests.support.waiting import PATIENCE_S, wait_until
from wire import config_settings, typed_values

pytestmark = pytest.mark.process

PROGRAM = "tests.supervisor.program"


@pytest.fixture
def template() -> Iterator[Template]:
    with Template() as template:
        yield template
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 0)


def run(template: Template, note: Path, status: int = 0, inherit: tuple[int, ...] = ()) -> Life:
    return template.fork((PROGRAM, str(note), str(status)), inherit, partial(Life, 7))


def end_of(life: Life) -> Ending:
    assert select.select([life.pidfd], [], [], PATIENCE_S)[0], "the descriptor tells of the end"
    ending = life.reap()
    assert ending is not None
    return ending


def note_of(template: Template, note: Path, inherit: tuple[int, ...] = ()) -> dict[str, Any]:
    assert end_of(run(template, note, 0, inherit)) == Ending(0, None)
    seen: dict[str, Any] = json.loads(note.read_text())
    return seen


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def template_pid(node: TestNode) -> int:
    """The child of the supervisor that is no actor."""
    found = wait_until(
        lambda: [
            pid
            for pid in children_of(node.process.pid)
            if b"actors.process.template" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        ],
        PATIENCE_S,
        "a template",
    )
    assert len(found) == 1
    return found[0]


# --- one child ---


@pytest.mark.parametrize(
    ("status", "ending"), [(0, Ending(0, None)), (69, Ending(69, None)), (-9, Ending(-9, "SIGKILL")), (-11, Ending(-11, "SIGSEGV"))]
)
def test_the_end_of_a_child_is_known_by_status_or_signal(template: Template, tmp_path: Path, status: int, ending: Ending) -> None:
    assert end_of(run(template, tmp_path / "note", status)) == ending


def test_a_child_is_the_supervisors_and_is_shown_by_its_own_command_line(template: Template, tmp_path: Path) -> None:
    note = tmp_path / "note"
    life = run(template, note)
    end_of(life)
    seen = json.loads(note.read_text())
    assert (seen["pid"], seen["parent"]) == (life.pid, os.getpid())
    assert seen["command_line"] == [f"bascule: {PROGRAM}", "-m", PROGRAM, str(note), "0"]
    assert seen["blocked"] == []
    assert seen["arenas"]


def test_a_command_line_that_is_too_long_is_cut_off_where_it_is_shown(template: Template, tmp_path: Path) -> None:
    folder = tmp_path.joinpath(*["x" * 200] * 8)
    folder.mkdir(parents=True)
    shown = note_of(template, folder / "note")["command_line"]
    assert shown[2] == PROGRAM
    assert str(folder).startswith(shown[3])


def test_a_child_keeps_what_it_is_to_inherit_and_nothing_else(template: Template, tmp_path: Path) -> None:
    lock = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    without = note_of(template, tmp_path / "a")["descriptors"]
    with_lock = note_of(template, tmp_path / "b", (lock,))["descriptors"]
    assert sorted([*without, str(tmp_path / "lock")]) == with_lock
    assert not [name for name in without if name.startswith("socket:")], "neither the template's nor its own way to the supervisor"
    assert "/dev/null" in without
    os.close(lock)


def test_children_draw_different_random_numbers(template: Template, tmp_path: Path) -> None:
    assert note_of(template, tmp_path / "a")["random"] != note_of(template, tmp_path / "b")["random"]


# --- what goes wrong ---


def test_a_child_that_nobody_has_on_record_does_nothing_and_is_gone(template: Template, tmp_path: Path) -> None:
    def refuse(pid: int) -> None:
        refused.append(pid)
        raise OSError(errno.EMFILE, "no descriptor is left")

    refused: list[int] = []
    with pytest.raises(OSError, match="no descriptor"):
        template.fork((PROGRAM, str(tmp_path / "note"), "0"), (), refuse)
    assert not Path(f"/proc/{refused[0]}").exists()
    assert not (tmp_path / "note").exists()
    assert note_of(template, tmp_path / "note")


@pytest.mark.parametrize("forks", [0, 1], ids=["the process in between", "the child"])
def test_what_keeps_a_child_from_being_forked_is_told(monkeypatch: pytest.MonkeyPatch, forks: int) -> None:
    def fork() -> int:
        done.append(None)
        if len(done) > forks:
            raise OSError(errno.EAGAIN, "no process is left")
        return real()

    done: list[None] = []
    real = os.fork
    monkeypatch.setattr("os.fork", fork)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert actors.process.template._fork(theirs.fileno(), os.getpid()) is False
        assert actors.process.template.ANSWER.unpack(ours.recv(4)) == (-errno.EAGAIN,)


def test_a_template_that_has_ended_is_told_of_and_replaced(template: Template, tmp_path: Path) -> None:
    ended = template.pid
    os.kill(ended, signal.SIGKILL)
    wait_until(lambda: not alive(ended), PATIENCE_S, "its end")
    with pytest.raises(OSError):
        run(template, tmp_path / "note")
    template.tend()
    assert template.pid != ended
    assert note_of(template, tmp_path / "note")


def test_a_template_that_does_not_answer_is_replaced_and_what_it_was_asked_is_not_done(
    template: Template, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert note_of(template, tmp_path / "first")
    stopped = template.pid
    os.kill(stopped, signal.SIGSTOP)
    monkeypatch.setattr(supervisor.tree.template, "ANSWER_TIMEOUT_S", 0.05)
    with pytest.raises(OSError, match="does not answer"):
        run(template, tmp_path / "note")
    monkeypatch.undo()
    wait_until(lambda: not alive(stopped), PATIENCE_S, "its end")
    template.tend()
    assert note_of(template, tmp_path / "second")
    assert not (tmp_path / "note").exists()


# --- in a node ---


def test_the_template_has_no_thread_and_no_socket_but_that_of_the_requests(start: StartSupervisor) -> None:
    node = start().wait_ready()
    pid = template_pid(node)
    assert "Threads:\t1\n" in Path(f"/proc/{pid}/status").read_text()
    descriptors = [os.readlink(path) for path in Path(f"/proc/{pid}/fd").iterdir()]
    assert len([name for name in descriptors if name.startswith("socket:")]) == 1
    assert len(descriptors) == 4, descriptors


def test_the_supervisor_and_its_children_share_the_pages_of_what_is_imported(start: StartSupervisor) -> None:
    node = start().wait_ready()
    for pid in [node.process.pid, *(row["pid"] for row in node.status()["processes"])]:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
        sizes = {line.split(":")[0]: int(line.split()[1]) for line in rollup.splitlines()[1:]}
        assert sizes["Shared_Dirty"] > 8000, sizes  # kB; nothing of it is in a file
        assert sizes["Private_Dirty"] < 16_000, sizes


def test_children_import_nothing_that_only_a_command_or_the_supervisor_needs() -> None:
    program = "import sys, actors.process.template; actors.process.template.import_all(); print(*sorted(sys.modules))"
    found = subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    assert "actors.broker.listener" in found
    unwanted = {
        "pydantic",
        "click",
        "rich",
        "yaml",
        "argon2",
        "wsproto",
        "numpy",
        "argparse",
        "asyncio",
        "subprocess",
        "supervisor",
    }
    assert {name.partition(".")[0] for name in found} & unwanted == set()


def test_the_process_of_a_node_holds_nothing_of_the_command_line() -> None:
    """Modules that it has imported when it forks the template, children have as well; those that it imports then, it keeps."""
    program = "import sys, supervisor.tree.run, supervisor.tree.node; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    unwanted = {"pydantic", "click", "rich", "yaml", "argparse"}
    assert {name.partition(".")[0] for name in found} & unwanted == set()


def test_settings_are_loaded_without_another_look_at_their_types(tmp_path: Path) -> None:
    data = config_settings.dump(node_settings(tmp_path, bridge("cloud")))
    config_settings.prepare()
    known = typed_values.field_types.cache_info().misses
    config_settings.load(data)
    assert typed_values.field_types.cache_info().misses == known > 0


def test_the_death_of_the_template_is_nothing_to_the_children_and_a_new_one_goes_on(start: StartSupervisor) -> None:
    node = start(heartbeat_period_s=0.1).wait_ready()
    before = {row["name"]: row["pid"] for row in node.status()["processes"] if row["name"] != "template"}
    ended = template_pid(node)
    os.kill(ended, signal.SIGKILL)
    assert node.wait_for("template.ended")["pid"] == ended
    assert template_pid(node) != ended
    assert {row["name"]: row["pid"] for row in node.status()["processes"] if row["name"] != "template"} == before
    os.kill(before["clients"], signal.SIGKILL)
    row = node.wait_process("clients", state="ready", restarts=1)
    assert node.wait_for("child.exited", "clients")["signal"] == "SIGKILL"
    living = {template_pid(node), row["pid"], *(pid for name, pid in before.items() if name not in ("clients", "supervisor"))}
    assert set(children_of(node.process.pid)) == living, "nobody is left to be reaped"


def test_a_template_that_dies_at_any_time_of_the_start_keeps_the_node_from_nothing(start: StartSupervisor) -> None:
    node = start(heartbeat_period_s=0.1)
    for _ in range(5):
        os.kill(template_pid(node), signal.SIGKILL)
    node.wait_ready()


def test_the_template_ends_with_the_node(start: StartSupervisor) -> None:
    node = start().wait_ready()
    pid = template_pid(node)
    node.process.send_signal(signal.SIGTERM)
    assert node.wait_end() == 0
    assert not alive(pid)


def test_the_template_does_not_outlive_a_killed_supervisor(start: StartSupervisor) -> None:
    node = start().wait_ready()
    pid = template_pid(node)
    os.kill(pid, signal.SIGSTOP)
    node.process.kill()
    wait_until(lambda: not alive(pid), PATIENCE_S, "the end of the template")
