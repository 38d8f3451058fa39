"""What was learnt of the dialects of one lane's remote, for the lane's next life: ``<run_dir>/<lane>.dialects``.

``wire/exchange/remote_dialects.py`` knows what it means. Without the file, or with one that cannot be read, nothing is known: the
best dialect is tried, and what that costs is one attempt to connect.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from threading import Lock

from storage import files
from wire.exchange.remote_dialects import RememberedRefusal

log = logging.getLogger("bascule")


class DialectFile:
    """That of the Connection ``actor``."""

    def __init__(self, run_dir: Path, actor: str) -> None:
        self._path = run_dir / f"{actor.replace(':', '.')}.dialects"
        self._turn = Lock()

    def read(self) -> list[RememberedRefusal]:
        """The record."""
        try:
            rows = json.loads(self._path.read_bytes())
            return [RememberedRefusal(str(place), int(level), bool(private), int(ms)) for place, level, private, ms in rows]
        except FileNotFoundError:
            pass
        except (OSError, ValueError, TypeError, OverflowError) as error:
            log.warning("dialects.unreadable", extra={"path": str(self._path), "error": str(error)})
        return []

    def write(self, known: Callable[[], list[RememberedRefusal]]) -> None:
        """Put on record what is ``known`` when it is this thread's turn; a disk that refuses costs the next life an attempt."""
        try:
            with self._turn:
                files.write(self._path, json.dumps(known()).encode())
        except OSError as error:
            log.warning("dialects.unwritten", extra={"path": str(self._path), "error": str(error)})

    def remove(self) -> None:
        """Have the next life try the best dialect first."""
        try:
            files.remove(self._path)
        except OSError as error:
            log.warning("dialects.unwritten", extra={"path": str(self._path), "error": str(error)})
