"""The address of a socket file in a folder with a long name."""

from __future__ import annotations

import os
from pathlib import Path

from actors.process.request_sockets import ipc_endpoint


def test_a_folder_with_a_long_name_takes_one_descriptor_however_often_it_is_asked_for(tmp_path: Path) -> None:
    folder = tmp_path / ("d" * 120)
    folder.mkdir()
    first = ipc_endpoint(folder / "control.ipc")
    before = len(os.listdir("/proc/self/fd"))

    assert {ipc_endpoint(folder / "control.ipc") for _ in range(20)} == {first}
    assert len(os.listdir("/proc/self/fd")) == before

    folder.rmdir()
    (tmp_path / "other").mkdir()  # so that the number of the old folder is taken
    folder.mkdir()
    again = Path(ipc_endpoint(folder / "control.ipc").removeprefix("ipc://"))
    assert os.path.samefile(again.parent, folder), "a folder that was made anew is not taken for the old one"
