"""Files that other users of the machine must not read, whatever the umask is of who has them made."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.cli.queue import _write_whole

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=["000", "022", "077"])
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


@pytest.mark.usefixtures("umask")
def test_exported_messages_are_for_their_owner(tmp_path: Path) -> None:
    assert _write_whole(tmp_path / "export.jsonl", ["a\n", "b\n"]) == 2
    assert stat.S_IMODE((tmp_path / "export.jsonl").stat().st_mode) == 0o600


def test_the_variables_of_the_packages_service_are_not_for_all() -> None:
    """They are where a configuration takes its passwords from."""
    (line,) = [line for line in (ROOT / "packaging/debian/build.sh").read_text().splitlines() if "bascule.default" in line]
    assert line.split()[:4] == ["install", "-D", "-m", "640"]
