"""A file that is read again when it changes, by whoever asks once a second; no change of it is missed for longer than that."""

from __future__ import annotations

import os
from pathlib import Path

_GONE = (0, 0, 0)


class WatchedFile:
    """Tells by modification time, inode and size whether the file was changed or replaced."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._seen: tuple[int, int, int] | None = None

    def changed(self) -> bool:
        """Whether the file is another one than at the last call; the first call says yes. Read it after the call, not before."""
        try:
            found = os.stat(self.path)
            seen = (found.st_mtime_ns, found.st_ino, found.st_size)
        except OSError:
            seen = _GONE
        changed = seen != self._seen
        self._seen = seen
        return changed
