"""The set-up of a checkout (``scripts/env.sh``): a line a step where all is well, and everything where it is not.

A Python of ours stands for one whose pip has much to say, as pip has of an index, of root, or of a folder that is not there.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

from tests.support import programs

pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parents[2]
LOCKS = ("requirements.lock", "requirements-build.lock", "setup.cfg", "pyproject.toml")
PYTHON = """\
#!/bin/sh
case "$*" in
    "-m venv "*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python"; echo "venv says something" ;;
    "-m pip "*) echo "told on one way"; echo "WARNING: told on the other" >&2; [ ! -e "${0%/*}/../../broken" ] || exit 3 ;;
esac
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder that has what the set-up reads, and a program ``python3.13``."""
    folder = tmp_path / "checkout"
    (folder / "scripts").mkdir(parents=True)
    shutil.copy(ROOT / "scripts/env.sh", folder / "scripts")
    for name in LOCKS:
        shutil.copy(ROOT / name, folder)
    python = tmp_path / "programs" / "python3.13"
    python.parent.mkdir()
    python.write_text(PYTHON)
    python.chmod(0o755)
    return folder


def set_up(checkout: Path) -> tuple[int, str]:
    """The exit status, and all that is said."""
    path = f"{checkout.parent / 'programs'}:{os.environ['PATH']}"
    words = ["sh", "-euc", 'root=$1; . "$root/scripts/env.sh"; setup_env', "launch", str(checkout)]
    done = programs.run(words, env={**os.environ, "PATH": path}, timeout_s=60.0)
    return done.returncode, done.stdout + done.stderr


def test_where_all_is_well_a_line_says_what_is_done_and_the_second_time_none(checkout: Path) -> None:
    assert set_up(checkout) == (0, "launch: making .venv from requirements.lock (the first time, a minute or two)\n")
    assert set_up(checkout) == (0, "")
    (checkout / "setup.cfg").write_text("changed\n")
    assert set_up(checkout) == (0, "launch: updating .venv from requirements.lock\n")


def test_where_it_fails_everything_is_said_and_the_next_time_it_begins_again(checkout: Path) -> None:
    (checkout / "broken").touch()
    status, said = set_up(checkout)
    assert status != 0
    _, failed, *rest = said.splitlines()
    assert failed.startswith("launch: failed: ")
    assert "-m pip install" in failed
    assert rest == ["told on one way", "WARNING: told on the other"]
    (checkout / "broken").unlink()
    assert set_up(checkout)[0] == 0
    assert set_up(checkout) == (0, "")


SCRIPTS = [path for path in sorted((ROOT / "scripts").iterdir()) if path.is_file()]


@pytest.mark.parametrize("script", [*SCRIPTS, ROOT / "packaging/debian/build.sh"], ids=lambda path: path.name)
def test_no_script_shows_what_an_installation_says(script: Path) -> None:
    lines = [line.strip() for line in script.read_text().splitlines()]
    lines = [line for line in lines if not line.startswith("#") and "say " not in line]
    calls = [line for line in lines if re.search(r"-m (pip|venv) |apt-get (update|install) ", line)]
    assert [line for line in calls if "quietly " not in line] == []
