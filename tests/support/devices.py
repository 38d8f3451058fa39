"""File systems on devices that are files: what the kernel still keeps for a device is not in its file, so a copy of that is what a
loss of power leaves.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.waiting import PATIENCE_S, wait_until

MAKE = {"btrfs": ["mkfs.btrfs", "-q"], "ext4": ["mkfs.ext4", "-q"], "xfs": ["mkfs.xfs", "-q"]}


def run(*words: str) -> None:
    """Run a program of the system; the test is skipped where it may not do what it is to do."""
    environment = {**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"}
    if shutil.which(words[0], path=environment["PATH"]) is None:
        pytest.skip(f"needs {words[0]}")
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    if done.returncode != 0:
        pytest.skip(f"this machine does not let the test {' '.join(words[:2])}: {done.stderr.strip()}")


def make_device(device: Path, kind: str, size_bytes: int) -> None:
    """A new file system of that ``kind`` in the file ``device``."""
    with device.open("wb") as file:
        file.truncate(size_bytes)
    run(*MAKE[kind], str(device))


@contextmanager
def mounted(device: Path, place: Path) -> Iterator[Path]:
    """The file system in the file ``device``, at ``place``."""
    place.mkdir(exist_ok=True)
    run("mount", "-o", "loop", str(device), str(place))
    try:
        yield place
    finally:
        wait_until(lambda: subprocess.run(["umount", str(place)], capture_output=True, check=False).returncode == 0, 30.0, "umount")
