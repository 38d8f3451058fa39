"""One node a data folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from supervisor.lock import FILE_NAME, lock_data_dir, running_pid
from tests.support.waiting import wait_until
from wire.errors import Unavailable


def test_the_lock_names_its_holder_and_is_exclusive(tmp_path: Path) -> None:
    assert running_pid(tmp_path) is None
    lock = lock_data_dir(tmp_path)
    assert running_pid(tmp_path) == os.getpid()
    with pytest.raises(Unavailable, match="another node") as refused:
        lock_data_dir(tmp_path)
    assert refused.value.fields["pid"] == os.getpid()
    os.close(lock)
    os.close(lock_data_dir(tmp_path))


@pytest.mark.process
def test_a_new_run_waits_for_the_children_of_a_dead_one(tmp_path: Path) -> None:
    lock = lock_data_dir(tmp_path)
    orphan = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=(lock,))
    dead = subprocess.Popen(["true"])
    dead.wait(60.0)
    (tmp_path / FILE_NAME).write_text(f"{dead.pid}\n")
    os.close(lock)
    wait_until(lambda: running_pid(tmp_path) is None, 1.0, "the holder is dead")
    orphan_ends = subprocess.Popen(["sh", "-c", f"sleep 0.2; kill -9 {orphan.pid}"])
    os.close(lock_data_dir(tmp_path))
    assert orphan.wait(60.0) == -9, "the lock was free only after its end"
    orphan_ends.wait(60.0)


@pytest.mark.parametrize("content", ["", "no number", "0"])
def test_a_lock_file_without_a_holder_names_nobody(tmp_path: Path, content: str) -> None:
    (tmp_path / FILE_NAME).write_text(content)
    assert running_pid(tmp_path) is None
