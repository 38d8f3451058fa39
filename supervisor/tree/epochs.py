"""Process epochs: numbers that never repeat and never go back, not even after a restart of the node.

``<data_dir>/epoch`` holds the first number that has not been reserved. A block is reserved before its first number is given, so
a crash skips numbers and repeats none. The file is replaced as a whole, so a power cut leaves the old one or the new one.

A block never starts below the wall clock in seconds. The clock is not needed while the file is there (the higher of the two
counts), but it makes the loss of the file harmless: over any longer time fewer numbers are used up than seconds pass, so the clock
is ahead of them. A *damaged* file is not guessed at: the store would refuse every sender whose epoch went back.
"""

from __future__ import annotations

import zlib
from pathlib import Path

from storage import files
from wire.errors import StorageDamaged

BLOCK = 32  # what a crash skips at most; small, so that even a node that crashes each minute stays behind the clock
FILE_NAME = "epoch"
_CLOCK_MIN_S = 1_735_689_600  # 2025-01-01: a clock before this has not been set
_NOT_DATA = {FILE_NAME, f"{FILE_NAME}.new", "clock", "lock", "run"}


class Epochs:
    """Gives epochs.

    tree.epochs-only-rise [P2, P3]: each epoch is higher than every one given before, over all runs of the node.
    """

    def __init__(self, data_dir: Path, wall_s: float, floor: int = 0) -> None:
        """Reserve the first block; ``wall_s`` is UTC in seconds. ``floor``: another node has given all up to there.

        Raises:
            StorageDamaged: the file cannot be trusted, or it is gone and neither can the clock.
            OSError: it cannot be read or written.
        """
        self._path = data_dir / FILE_NAME
        reserved = self._read()
        if reserved is None:
            reserved = 1
            if wall_s < _CLOCK_MIN_S and any(entry.name not in _NOT_DATA for entry in data_dir.iterdir()):
                raise StorageDamaged("the epoch file is gone and the clock is not set: set the clock", path=str(self._path))
        self._next = max(reserved, int(wall_s), floor + 1)
        self._reserve()

    def next(self) -> int:
        """A new epoch.

        Raises:
            OSError: the next block cannot be written; no number is given.
        """
        if self._next >= self._reserved:
            self._reserve()
        epoch = self._next
        self._next += 1
        return epoch

    def _reserve(self) -> None:
        reserved = self._next + BLOCK
        _write(self._path, reserved)
        self._reserved = reserved  # only now: a number that is not reserved on disk would be given again after a crash

    def _read(self) -> int | None:
        return _read(self._path)


def reserved_epoch(data_dir: Path) -> int:
    """The first number that no life of the node in ``data_dir`` was given yet; 0 where nothing says.

    Raises:
        StorageDamaged: the file cannot be trusted.
        OSError: it cannot be read.
    """
    return _read(data_dir / FILE_NAME) or 0


def carry_on(data_dir: Path, epoch: int) -> None:
    """Have a new node in ``data_dir`` give no number below ``epoch``.

    Raises:
        OSError: it cannot be written.
    """
    _write(data_dir / FILE_NAME, epoch)


def _read(path: Path) -> int | None:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    body, _, checksum = content.rstrip(b"\n").partition(b" ")
    if not body.isdigit() or checksum != f"{zlib.crc32(body):08x}".encode():
        raise StorageDamaged(
            "the epoch file is damaged: if the clock is right, delete it, and the next start goes on from the clock",
            path=str(path),
        )
    return int(body)


def _write(path: Path, reserved: int) -> None:
    body = f"{reserved}"
    files.write(path, f"{body} {zlib.crc32(body.encode()):08x}\n".encode())
