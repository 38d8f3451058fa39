"""Commands whose output nobody takes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.supervisor.conftest import ROOT
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.process

CONFIG = 'node: {name: edge, data_dir: data}\nlisteners: [{bind: "127.0.0.1:1883"}]\naccess: {allow_anonymous: true}\n'


def bascule(*words: str, **streams: Any) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "supervisor.cli", *words]
    return subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, timeout=PATIENCE_S, check=False, **streams)


@pytest.fixture
def config(tmp_path: Path) -> str:
    (tmp_path / "edge.yaml").write_text(CONFIG)
    return str(tmp_path / "edge.yaml")


@pytest.mark.parametrize("words", [("check",), ("snapshot", "list"), ("session", "list", "--help")])
def test_a_full_disk_under_standard_output_is_one_line_and_a_status(words: tuple[str, ...], config: str) -> None:
    with open("/dev/full", "wb") as full:
        done = bascule(*words, config, stdout=full, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (74, b"bascule: what was printed was not taken: no space left on device\n")


@pytest.mark.parametrize("words", [("check",), ("--help",)])
def test_a_reader_that_has_gone_ends_a_command_quietly(words: tuple[str, ...], config: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = bascule(*words, config, stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


def test_the_status_is_the_same_when_nobody_takes_the_complaint(config: str) -> None:
    Path(config).write_text("colour: red\n")
    with open("/dev/full", "wb") as full:
        assert bascule("check", config, stdout=subprocess.PIPE, stderr=full).returncode == 78
        assert bascule("check", stdout=subprocess.PIPE, stderr=full).returncode == 2
