"""Commands that sentences name can be typed as they stand: with the node's file, by a name that a shell finds."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.terminal import typed_commands
from supervisor.terminal.typed_commands import about, called, typed

HINT = "it is full; bascule queue list CONFIG shows what waits"


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    yield
    about("CONFIG")
    typed_commands._program[:] = [typed_commands.PROGRAM]


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """The program in a checkout's environment, with a space in its path."""
    folder = tmp_path / "a checkout"
    folder.mkdir()
    path = folder / "bascule"
    root = Path(__file__).resolve().parents[3]
    path.write_text(
        f"#!{sys.executable} -P\nimport sys\nsys.path.insert(0, {str(root)!r})\n"
        "from supervisor.cli.__main__ import begin\nsys.exit(begin())\n"
    )
    path.chmod(0o755)
    return path


def test_a_program_that_a_shell_finds_goes_by_its_name(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    about("edge.yaml")
    monkeypatch.setenv("PATH", str(program.parent))
    called(str(program))
    assert typed(HINT) == "it is full; bascule queue list edge.yaml shows what waits"


def test_one_that_is_not_found_or_is_another_goes_by_its_path(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    about("")
    other = tmp_path / "bascule"
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    for path in ("/nowhere", str(tmp_path)):
        monkeypatch.setenv("PATH", path)
        called(str(program))
        assert typed(HINT) == f"it is full; {shlex.quote(str(program))} queue list shows what waits"
    assert typed("bascule: a bascule-bridge of /x/bascule there") == "bascule: a bascule-bridge of /x/bascule there"


@pytest.mark.process
def test_what_init_and_a_command_without_its_node_say_works_as_pasted(program: Path, tmp_path: Path) -> None:
    """In a checkout whose environment is not activated, with a file whose name has a space, and by BASCULE_CONFIG."""

    def run(line: str, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PATH": "/usr/bin:/bin", **variables}
        return subprocess.run(line, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)

    name = shlex.quote(str(program))
    said = run(f"{name} init 'my node.yaml' --yes --name edge").stdout
    (hint,) = re.findall(r"next: (.*), then (.*)\n", said)
    assert hint == (f"{name} doctor 'my node.yaml'", f"{name} run 'my node.yaml'")
    assert run(f"{hint[0]} --offline").stdout.count("looked at") == 1

    away = run(f"{name} status 'my node.yaml'")
    assert f"{name} run 'my node.yaml' starts it" in away.stderr
    named = run(f"{name} status", BASCULE_CONFIG="my node.yaml")
    assert f"{name} run starts it" in named.stderr, "the environment says of which file"
