"""Files that are read again when they change."""

from __future__ import annotations

import os
from pathlib import Path

from actors.system.watched_file import WatchedFile


def test_a_change_of_content_name_mode_or_presence_is_a_change(tmp_path: Path) -> None:
    path, other = tmp_path / "passwords", tmp_path / "passwords.new"
    path.write_text("a")
    file = WatchedFile(path)
    assert file.poll_change(), "the first look"
    assert not file.poll_change()

    path.write_text("bb")
    assert file.poll_change()
    other.write_text("cc")
    other.replace(path)
    assert file.poll_change()
    path.unlink()
    assert file.poll_change()
    assert not file.poll_change()
    path.write_text("dd")
    assert file.poll_change()


def test_a_file_that_becomes_readable_has_changed(tmp_path: Path) -> None:
    """A reader that could not read it looks again, though its content is as old as before."""
    path = tmp_path / "passwords"
    path.write_text("a")
    path.chmod(0o000)
    file = WatchedFile(path)
    assert file.poll_change()
    before = path.stat()

    path.chmod(0o600)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    assert file.poll_change()
    assert not file.poll_change()
