"""The wheel as a tool: ``pipx install`` and ``uv tool install`` give a ``bascule`` that works from an empty folder.

A part of ``scripts/package --try``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from supervisor.version import VERSION
from tests.packaging.conftest import Built
from tests.packaging.typed_pages import NEWER, commands
from tests.support import programs
from tests.support.mosquitto import mosquitto_pub
from tests.support.ports import accepts, free_port
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = [pytest.mark.process, pytest.mark.timeout(1200)]


@pytest.mark.parametrize("words", ["pipx install", "uv tool install"])
def test_it_is_installed_and_a_node_begins_in_an_empty_folder(words: str, built: Built, tools: Path, tmp_path: Path) -> None:
    home, folder = tmp_path / "home", tmp_path / "folder"
    home.mkdir()
    folder.mkdir()
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "BASCULE", "XDG_", "PIPX", "VIRTUAL"))
    }
    environment |= {"HOME": str(home), "PATH": f"{home}/.local/bin:{tools}/bin:/usr/bin:/bin", "UV_PYTHON": sys.executable}
    shutil.copy(built.wheel, folder)
    for page, option in (("install", ""), ("upgrade", "--force ")):
        typed = commands(page, f"{words} {option}./").replace(NEWER, VERSION)
        done = programs.run(["sh", "-ec", typed], cwd=folder, env=environment, timeout_s=600.0)
        assert done.returncode == 0, done.stdout + done.stderr
    bascule = home / ".local/bin/bascule"
    port = free_port()
    made = programs.run([bascule, "init", "--yes", "--bind", f"127.0.0.1:{port}"], cwd=folder, env=environment, timeout_s=60.0)
    assert made.returncode == 0, made.stderr
    with subprocess.Popen([bascule, "run"], cwd=folder, env=environment, stdout=subprocess.DEVNULL) as node:
        try:
            wait_until(lambda: accepts(port), PATIENCE_S, "a node that listens")
            mosquitto_pub(port, "plant/1", ["21.5"], qos=1)
            asked = programs.run([bascule, "status"], cwd=folder, env=environment, timeout_s=60.0)
            assert asked.returncode == 0, asked.stderr
            _reports(bascule, folder, environment)
            assert programs.run([bascule, "stop"], cwd=folder, env=environment, timeout_s=60.0).returncode == 0
            assert node.wait(PATIENCE_S) == 0
        finally:
            node.kill()
    listed = programs.run([bascule, "init", "--example", "?"], cwd=folder, env=environment, timeout_s=60.0)
    assert "minimal " in listed.stdout


def _reports(bascule: Path, folder: Path, environment: dict[str, str]) -> None:
    """The command that a report asks for where its libraries are missing gets them."""
    without = programs.run([bascule, "report", "--to", "report"], cwd=folder, env=environment, timeout_s=60.0)
    told = without.stderr.partition("a report needs duckdb: ")[2]
    added = programs.run(["sh", "-ec", told], cwd=folder, env=environment, timeout_s=600.0)
    assert added.returncode == 0, without.stderr + added.stdout + added.stderr
    done = programs.run([bascule, "report", "--to", "report", "--check"], cwd=folder, env=environment, timeout_s=120.0)
    assert done.returncode == 0, done.stdout + done.stderr
