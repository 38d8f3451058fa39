"""A tokens file in use: read, and read again when it changes. The lines are read by ``wire/access/token_table.py``.

A file that cannot be used leaves the old table in place, or nobody where there is none yet, and is logged once.
"""

from __future__ import annotations

import logging
import os

from actors.system.plain_file import read_secret, why_unread
from actors.system.watched_file import WatchedFile
from wire.access.token_table import TokenTable, parse_tokens
from wire.errors import ConfigError

log = logging.getLogger("bascule")

FILE_BYTES_MAX = 1024 * 1024


def read_tokens(path: str | os.PathLike[str]) -> TokenTable:
    """The tokens in the file ``path``.

    Raises:
        ConfigError: it cannot be read, or a line of it is wrong; ``problems`` name file, line and remedy.
    """
    try:
        data = read_secret(path, FILE_BYTES_MAX)
    except OSError as error:
        raise ConfigError("the tokens file cannot be read", problems=[f"{path}:1: {why_unread(error)}"]) from error
    if len(data) > FILE_BYTES_MAX:
        raise ConfigError("the tokens file is refused", problems=[f"{path}:1: larger than {FILE_BYTES_MAX} bytes"])
    table, faults = parse_tokens(data.decode("utf-8-sig", errors="replace"))
    if faults:
        raise ConfigError("the tokens file is refused", problems=[f"{path}:{line}: {fault}" for line, fault in faults])
    return table


class TokenFile:
    """The table of one file."""

    def __init__(self, path: str) -> None:
        self._file = WatchedFile(path)
        self.table = TokenTable({})
        self.reload(first=True)

    def reload(self, *, first: bool = False) -> None:
        """Read the file if it has changed."""
        if not self._file.poll_change():
            return
        try:
            self.table = read_tokens(self._file.path)
        except ConfigError as error:
            kept = "nobody is let in until it is right" if first else f"the {len(self.table)} tokens read before stay"
            log.error("tokens.refused", extra={"path": str(self._file.path), "problems": error.problems[:5], "remedy": kept})
            return
        if not first:
            log.info("tokens.reloaded", extra={"path": str(self._file.path), "tokens": len(self.table)})
