"""Room on the disk that is held ready, so that a store can be opened, and make room, on a disk that is full.

RocksDB writes what it finds in its log to tables when it is opened, so a store cannot be opened on a disk without any room, and
what is not open can delete nothing. A file beside the store takes that room from whoever fills the disk, and is deleted when it is
full.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

log = logging.getLogger("bascule")


class Reserve:
    """The file ``path``, of blocks of its own and no content. Best effort: where it cannot be made there is none."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def hold(self, size_bytes: int) -> None:
        """Have the file, of ``size_bytes``."""
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                if os.fstat(descriptor).st_size != size_bytes:
                    os.ftruncate(descriptor, 0)
                    os.posix_fallocate(descriptor, 0, size_bytes)
            finally:
                os.close(descriptor)
        except OSError as error:
            log.debug("store.no_reserve", extra={"error": str(error)})
            self._path.unlink(missing_ok=True)

    def give_up(self) -> bool:
        """Delete the file; whether there was one."""
        try:
            self._path.unlink()
        except OSError:
            return False
        log.info("store.reserve_given_up", extra={"path": str(self._path)})
        return True
