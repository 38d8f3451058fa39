"""Reads a file that an operator has named, of which nobody knows what it is: a pipe that nobody writes, a device without end."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from storage import trusted_files


def read_plain(path: str | os.PathLike[str], max_bytes: int) -> bytes:
    """The content of the file ``path``; one byte more than ``max_bytes`` where there is more. It never waits for a writer.

    Raises:
        OSError: it cannot be read, or is no plain file.
    """
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "not a plain file, but a pipe or a device", str(Path(path)))
        return file.read(max_bytes + 1)


def read_secret(path: str | os.PathLike[str], max_bytes: int) -> bytes:
    """As ``read_plain``, for a file that nobody else can have changed.

    Raises:
        OSError: somebody can, or it cannot be read.
    """
    trusted_files.check(path)
    return read_plain(path, max_bytes)


def why_unread(error: OSError) -> str:
    """Why a file was not read, for the middle of a sentence."""
    reason = error.strerror or "not readable"
    return reason[:1].lower() + reason[1:]
