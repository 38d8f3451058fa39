"""Damage in a queue: what was lost, and the raw bytes of what cannot be read, kept for the operator. Bounded; never in the way."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

from storage import files

log = logging.getLogger("bascule")

QUARANTINE_MAX_BYTES = 64 << 20
QUARANTINE_MAX_FILES = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """Messages of a queue that cannot be read any more: the sequences ``[start, stop)``, and how many messages that were.

    session_forgotten: the remote session went off the record, because the remote may hold identifiers of these messages.
    unreadable: the engine's files are damaged in this place; else they are whole, and what is missing is not in them.
    raw: the bytes found in their place; empty if the engine could not read them either. error: what was found, in words.
    """

    start: int
    stop: int
    messages: int
    error: str
    session_forgotten: bool = False
    unreadable: bool = False
    raw: bytes = b""


class Quarantine:
    """Files with raw bytes in ``folder``, up to a limit; what does not fit is not kept."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, queue: str, loss: Loss) -> str:
        """Keep the raw bytes of ``loss``; the file, or nothing if there are none or there is no room."""
        if not loss.raw:
            return ""
        path = self._folder / f"{queue.replace('/', '_')}-{loss.start}.chunk"
        try:
            files.make_folder(self._folder)
            kept = [entry.stat().st_size for entry in self._folder.iterdir()]
            if len(kept) >= QUARANTINE_MAX_FILES or sum(kept) + len(loss.raw) > QUARANTINE_MAX_BYTES:
                return ""
            files.write(path, loss.raw)
        except OSError as error:
            log.warning("quarantine.failed", extra={"error": str(error)})
            return ""
        return str(path)
