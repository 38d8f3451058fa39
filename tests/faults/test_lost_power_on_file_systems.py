"""P3 on real file systems: everything is killed while it starts or works, and what the device holds then is mounted again.

The device is a file. Blocks that were handed to the device are in that file, and those that the kernel still keeps for it are not,
so a copy of it is what a loss of power leaves. Somebody else may sync the file system at any moment: so names come before what
belongs to them.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from random import Random

import pytest

from tests.faults.lost_power import outlived, use_small_files
from tests.support.chance import chance
from tests.support.devices import MAKE, make_device, mounted, run
from tests.support.waiting import PATIENCE_S, wait_until

ROOT = Path(__file__).resolve().parents[2]
CUTS, CUTS_SOAK = 3, 40
DEVICE_BYTES = 512 << 20
OPENING_MAX_S = 0.3


@pytest.fixture(autouse=True)
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storage.engine.engine.MEMTABLE_BYTES", 0)  # so that they are put back
    monkeypatch.setattr("storage.engine.engine.WAL_MAX_BYTES", 0)
    use_small_files()


def acknowledged(said: Path) -> int:
    """How many acknowledgements left the machine."""
    return said.read_bytes().count(b'"pubrec"')


def live_until_cut(folder: Path, said: Path, life: int, chance: Random) -> None:
    """A life that is killed; a sync of the file system falls into its start, or a little later."""
    before = acknowledged(said)
    words = [sys.executable, "-m", "tests.faults.lost_power", str(folder), str(said), str(life), "100000", str(life), "full"]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as living:
        guard = threading.Timer(PATIENCE_S, living.kill)
        guard.start()
        assert living.stdout is not None
        assert living.stdout.readline() == b"opening\n"
        threading.Event().wait(chance.uniform(0.0, OPENING_MAX_S))
        run("sync", "-f", str(folder))
        wanted = chance.choice((0, 1, 20, 100)) + before
        wait_until(lambda: acknowledged(said) >= wanted or living.poll() is not None, PATIENCE_S, f"{wanted} acknowledgements")
        living.kill()
        living.wait(PATIENCE_S)
        guard.cancel()
        assert living.stderr is not None
        errors = living.stderr.read().decode()
        assert "Traceback" not in errors, errors


@pytest.mark.parametrize("kind", MAKE)
def test_what_was_promised_outlives_the_power_on_a_real_file_system(tmp_path: Path, kind: str, soak: bool) -> None:
    moments, device, left, said = chance(), tmp_path / "device", tmp_path / "left", tmp_path / "said"
    said.write_bytes(b"")
    make_device(device, kind, DEVICE_BYTES)
    cuts = CUTS_SOAK if soak else CUTS
    for life in range(1, 2 * cuts, 2):
        with mounted(device, tmp_path / "place") as place:
            folder = place / "box"
            folder.mkdir(exist_ok=True)
            run("sync", "-f", str(place))
            live_until_cut(folder, said, life, moments)
            lines = said.read_bytes()
            said.write_bytes(lines[: lines.rfind(b"\n") + 1])  # the last one may be torn
            run("cp", "--sparse=always", str(device), str(left))
        left.rename(device)
        run("cp", "--sparse=always", str(device), str(left))
        with mounted(left, tmp_path / "judged") as place:  # the machine itself goes on with what the power has left
            outlived(place / "box", said.read_bytes(), life + 1)
    promised = acknowledged(said)
    assert promised > 0
    sys.stdout.write(f"{kind}: {cuts} cuts, {promised} acknowledgements\n")
