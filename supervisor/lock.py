"""The lock of a data folder: one node at a time, and none while a child of the last one still lives.

Children inherit the locked descriptor, so the kernel gives the lock up only when the supervisor and all of them are gone.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable
from pathlib import Path

from wire.errors import BasculeError, Unavailable

FILE_NAME = "lock"
ORPHANS_WAIT_S = 5.0
_RETRY_S = 0.02


class AnothersLock(BasculeError):
    """This user may not look into the data folder: it is another user's, and so is the node there."""

    exit_status = 77


def lock_data_dir(data_dir: Path, check: Callable[[], None] = lambda: None) -> int:
    """Lock ``data_dir`` and return the descriptor that holds the lock. Children of a dead supervisor are waited for.

    check: asked meanwhile; what it raises ends the wait.

    Raises:
        Unavailable: another node runs there.
    """
    path = data_dir / FILE_NAME
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline_s = time.monotonic() + ORPHANS_WAIT_S
    while not _try(lock):
        holder = running_pid(data_dir)
        if holder is not None or time.monotonic() > deadline_s:
            os.close(lock)
            raise Unavailable(
                "another node runs in this data folder; stop it, or give this one another node.data_dir",
                data_dir=str(data_dir),
                pid=holder,
            )
        time.sleep(_RETRY_S)
        check()
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
    return lock


def is_there(data_dir: Path, lock: int) -> bool:
    """Whether ``data_dir`` is still the folder whose ``lock`` this process has: it may be gone, or another be mounted over it."""
    try:
        return os.path.samestat(os.stat(data_dir / FILE_NAME), os.fstat(lock))
    except OSError:
        return False


def running_pid(data_dir: Path) -> int | None:
    """The supervisor's pid that the lock file names, if that process is alive and not a zombie.

    Raises:
        AnothersLock: this user may not know.
    """
    try:
        pid = int((data_dir / FILE_NAME).read_text())
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError, ValueError):
        return None
    except PermissionError as error:
        owner = _owner(data_dir)
        text = f"{data_dir} is {owner}'s: give the command as {owner}, such as by sudo{'' if owner == 'root' else f' -u {owner}'}"
        raise AnothersLock(text if owner else f"{data_dir} is another user's: give the command as that user") from error
    return None if state in "ZX" else pid


def _owner(data_dir: Path) -> str:
    """The name of the user whose folder it is; empty if that cannot be told."""
    from pwd import getpwuid

    try:
        return getpwuid(data_dir.stat().st_uid).pw_name
    except (OSError, KeyError):
        return ""


def _try(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
