"""The raw bytes of what cannot be read in a queue, kept for the operator. Bounded; never in the way."""

from __future__ import annotations

import logging
from pathlib import Path

from storage import files
from storage.queue.waiting_messages import LostStretch

log = logging.getLogger("bascule")

QUARANTINE_MAX_BYTES = 64 << 20
QUARANTINE_MAX_FILES = 1000


class QueueDamage:
    """Files with raw bytes in ``folder``, up to a limit; what does not fit is not kept."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, queue: str, loss: LostStretch) -> str:
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
