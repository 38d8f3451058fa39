"""The systemd unit, as systemd reads it."""

from __future__ import annotations

import configparser
import shutil
from pathlib import Path

import pytest

from tests.support import programs
from wire.errors import ConfigError, StorageDamaged

pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parents[2]
UNIT = ROOT / "packaging" / "bascule.service"
EXPOSURE_MAX = 20  # of 100, by systemd's own reckoning; a service without any hardening has 96
USAGE = 2


@pytest.fixture(scope="module")
def analyze() -> str:
    found = shutil.which("systemd-analyze")
    if found is None:
        pytest.skip("systemd-analyze is not installed (Debian: systemd)")
    return found


def test_systemd_understands_every_line(analyze: str, tmp_path: Path) -> None:
    """With a program that is there, since the unit names the installed one."""
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace("/usr/bin/bascule", "/bin/true"))
    verified = programs.run([analyze, "verify", "--man=no", "--recursive-errors=no", str(unit)], timeout_s=60.0)
    assert (verified.returncode, verified.stdout + verified.stderr) == (0, "")


def test_the_service_has_little_that_it_does_not_need(analyze: str) -> None:
    judged = programs.run(
        [analyze, "security", "--offline=true", f"--threshold={EXPOSURE_MAX}", "--no-pager", str(UNIT)], timeout_s=60.0
    )
    assert judged.returncode == 0, judged.stdout + judged.stderr


def test_it_is_not_restarted_for_what_a_restart_does_not_mend() -> None:
    unit = configparser.RawConfigParser(strict=False)
    unit.read(UNIT)
    never = {int(word) for word in unit["Service"]["RestartPreventExitStatus"].split()}
    assert never == {USAGE, ConfigError.exit_status, StorageDamaged.exit_status}
