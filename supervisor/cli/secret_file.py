"""Files of secrets that commands change: one command at a time, in one step, with mode 0600 and the owner that the file had."""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from storage import files


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other runs of this command out of ``folder``, so that none of two changes is lost."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def replace(file: Path, data: bytes) -> None:
    """Put ``data`` in the place of ``file`` in one step: whoever reads finds the old file or the new one."""
    with files.replacing(file, suffix=f".{secrets.token_hex(8)}", for_group_of_folder=True) as opened:
        if file.exists():
            owner = file.stat()
            if (owner.st_uid, owner.st_gid) != (os.geteuid(), os.getegid()) and os.geteuid() == 0:
                os.fchown(opened.fileno(), owner.st_uid, owner.st_gid)  # the node must be able to read it on
        opened.write(data)
