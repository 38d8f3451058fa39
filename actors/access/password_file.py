"""A password file in use: read, and read again when it changes.

A file that cannot be used leaves the old table in place, or nobody where there is none yet, and is logged once. The lines are read
by ``wire/access/password_table.py``; passwords are verified by ``actors/access/access_control.py``.
"""

from __future__ import annotations

import logging
import os

from actors.system.plain_file import read_secret, why_unread
from actors.system.watched_file import WatchedFile
from wire.access.password_table import PasswordTable, parse_passwords
from wire.errors import ConfigError

log = logging.getLogger("bascule")

FILE_BYTES_MAX = 16 * 1024 * 1024


def read_passwords(path: str | os.PathLike[str]) -> PasswordTable:
    """The users in the password file ``path``.

    Raises:
        ConfigError: it cannot be read, or a line of it is wrong; ``problems`` name file, line and remedy.
    """
    try:
        data = read_secret(path, FILE_BYTES_MAX)
        if len(data) > FILE_BYTES_MAX:
            raise ConfigError("the password file is refused", problems=[f"{path}:1: larger than {FILE_BYTES_MAX} bytes"])
        table, faults = parse_passwords(data.decode("utf-8-sig"))
    except OSError as error:
        raise ConfigError("the password file cannot be read", problems=[f"{path}:1: {why_unread(error)}"]) from error
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError("the password file is refused", problems=[f"{path}:{line}: not UTF-8; save it as UTF-8"]) from error
    if faults:
        raise ConfigError("the password file is refused", problems=[f"{path}:{line}: {fault}" for line, fault in faults])
    return table


class PasswordFile:
    """The table of one file."""

    def __init__(self, path: str) -> None:
        self._file = WatchedFile(path)
        self.table = PasswordTable({})
        self.reload(first=True)

    def reload(self, *, first: bool = False) -> None:
        """Read the file if it has changed."""
        if not self._file.poll_change():
            return
        try:
            self.table = read_passwords(self._file.path)
        except ConfigError as error:
            kept = "nobody can log in until it is right" if first else f"the {len(self.table)} users read before stay"
            log.error("passwords.refused", extra={"path": str(self._file.path), "problems": error.problems[:5], "remedy": kept})
            return
        if not first:
            log.info("passwords.reloaded", extra={"path": str(self._file.path), "users": len(self.table)})
