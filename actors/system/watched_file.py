"""A file that is read again when it changes, by whoever asks once a second; no change of it is missed for longer than that.

A change of its owner or mode is one as well: a file that could not be read may be readable now.
"""

from __future__ import annotations

import os
from pathlib import Path

_GONE = (0, 0, 0, 0)

State = tuple[int, int, int, int]


def state_of(path: str | Path) -> State:
    """A mark that differs once the file, its mode or its owner was changed, or the file replaced; the same for any that is not
    there."""
    try:
        found = os.stat(path)
    except OSError:
        return _GONE
    return found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_size


class WatchedFile:
    """Tells whether the file was changed or replaced."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._seen: State | None = None

    def poll_change(self) -> bool:
        """Whether the file is another one than at the last call; the first call says yes. Read it after the call, not before."""
        seen = state_of(self.path)
        changed = seen != self._seen
        self._seen = seen
        return changed
