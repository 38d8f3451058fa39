"""A test without the marker starts no process; where all of a folder have it, they have it."""

from __future__ import annotations

import os
import subprocess

import pytest

from tests.support.process_marker import FOLDERS, StartedUnmarked, is_marked_by_folder


def test_a_test_without_the_marker_cannot_start_a_process() -> None:
    with pytest.raises(StartedUnmarked, match=r"test_a_test_without_the_marker_.* starts a process .*pytest\.mark\.process"):
        subprocess.run(["true"], check=True)
    with pytest.raises(StartedUnmarked):
        os.posix_spawn("/bin/true", ["true"], {})


@pytest.mark.process
def test_a_test_with_the_marker_can() -> None:
    subprocess.run(["true"], check=True)


def test_a_folder_marks_all_that_is_in_it(request: pytest.FixtureRequest) -> None:
    assert all(is_marked_by_folder(f"{folder}test_it.py") for folder in FOLDERS)
    assert not is_marked_by_folder("tests/wire/frames/test_frames.py")
    assert request.node.get_closest_marker("process") is None
