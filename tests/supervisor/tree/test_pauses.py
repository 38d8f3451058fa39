"""Pauses outlive what keeps them, and a disk that refuses changes none."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage import files
from supervisor.tree.pauses import Pauses


def test_a_pause_is_kept_with_its_time_until_it_is_ended(tmp_path: Path) -> None:
    first = Pauses(tmp_path)
    assert first.since_ms("cloud") is None
    first.pause("cloud")
    since_ms = first.since_ms("cloud")
    assert since_ms is not None
    first.pause("cloud")
    again = Pauses(tmp_path)
    assert (first.since_ms("cloud"), again.since_ms("cloud"), again.since_ms("other")) == (since_ms, since_ms, None)
    again.resume("cloud")
    again.resume("cloud")
    assert again.since_ms("cloud") is None
    assert Pauses(tmp_path).since_ms("cloud") is None


def test_a_disk_that_refuses_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_folder: Path) -> None:
        raise OSError(5, "Input/output error")

    kept = Pauses(tmp_path)
    with monkeypatch.context() as broken:
        broken.setattr(files, "sync", refuse)
        with pytest.raises(OSError, match="Input/output"):
            kept.pause("cloud")
    assert kept.since_ms("cloud") is None
    assert Pauses(tmp_path).since_ms("cloud") is None
    kept.pause("cloud")
    assert kept.since_ms("cloud") is not None
