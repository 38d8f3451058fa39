"""How far commits went: a small file beside the log, against which each opening is judged.

RocksDB ends its replay of the log silently at the first record that is damaged, and everything committed after it is gone without a
word. So ``<store>/COMMITTED`` remembers the engine's number after the newest promised commit, and the tail of each queue then.

It is written in place after the commit and not synced by itself, so it may lag behind the log. It never leads: the kernel may write
it back before the log, so a commit that is not synced leaves no mark where others are. Its two slots are written in turn, since a
loss of power may tear the one that is being written.
"""

from __future__ import annotations

import os
import struct
from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

from storage import files

MARK_NAME = "COMMITTED"
MARK_SLOT_BYTES = 32 << 10
TAILS_MAX = 4000  # queues whose tails fit into a slot
_MARK = struct.Struct("<QQBI")
_CHECK = struct.Struct("<I")
_SYNCED, _OWED = 1, 2


@dataclass(frozen=True, slots=True)
class Evidence:
    """The contents of the mark: the engine's ``number`` after the newest promised commit, and each queue's tail then.

    synced: whether that commit had been synced, so that not even a power cut takes it back.
    """

    number: int
    synced: bool
    tails: Mapping[int, int]


class CommitMark:
    """The mark of the store in ``folder``; made there if there is none.

    evidence: what it says, if anything. owed: whether commits were found missing, and that has not been put on record since.
    damaged: whether a slot of it cannot be trusted.

    Raises:
        OSError: the disk refuses.
    """

    def __init__(self, folder: Path) -> None:
        self._file = files.open_fixed(folder / MARK_NAME, 2 * MARK_SLOT_BYTES)
        self._generation = 0
        self._tails = array("Q")
        self.damaged = self.owed = False
        self.evidence: Evidence | None = None
        for slot in range(2):
            self._read(os.pread(self._file, MARK_SLOT_BYTES, MARK_SLOT_BYTES * slot))

    def write(self, number: int, tails: Mapping[int, int], *, synced: bool) -> None:
        """Remember that commits went to ``number`` and queues to ``tails``; nothing is owed then.

        Raises:
            OSError: the disk refuses; the mark is the one before.
        """
        known = self._tails
        for queue, tail in tails.items():
            if queue >= len(known):
                known.extend([0] * (min(queue + 1, TAILS_MAX) - len(known)))
            if queue < TAILS_MAX:
                known[queue] = tail
        self._write(number, synced * _SYNCED)

    def owe(self) -> None:
        """Remember, on disk when this returns, that commits are missing, until the next ``write``.

        An opening that leaves out what is damaged may go as far as the mark says, so that the next one would see nothing missing.

        Raises:
            OSError: the disk refuses.
        """
        evidence = self.evidence
        assert evidence is not None, "only a mark tells that commits are missing"
        self._write(evidence.number, evidence.synced * _SYNCED | _OWED)
        os.fsync(self._file)
        self.owed = True

    def copy_to(self, folder: Path, number: int) -> None:
        """Make the mark of the store in ``folder``, which holds what this one holds under its own ``number``; synced.

        Raises:
            OSError: the disk refuses.
        """
        copy = CommitMark(folder)
        try:
            copy._tails = array("Q", self._tails)
            copy._write(number, _SYNCED | self.owed * _OWED)
            os.fsync(copy._file)
        finally:
            copy.close()

    def close(self) -> None:
        """Release the file."""
        os.close(self._file)

    def _write(self, number: int, flags: int) -> None:
        body = _MARK.pack(self._generation + 1, number, flags, len(self._tails)) + self._tails.tobytes()
        files.write_at(self._file, _CHECK.pack(crc32(body)) + body, MARK_SLOT_BYTES * (self._generation + 1 & 1))
        self._generation += 1

    def _read(self, slot: bytes) -> None:
        """Go by ``slot`` if it is whole and the newest so far."""
        head = slot[: _CHECK.size + _MARK.size]
        if not any(head):
            return
        generation, number, flags, count = _MARK.unpack_from(head, _CHECK.size)
        tails = slot[len(head) : len(head) + 8 * min(count, TAILS_MAX)]
        if crc32(tails, crc32(head[_CHECK.size :])) != _CHECK.unpack_from(head)[0]:
            self.damaged = True
        elif generation > self._generation:
            self._generation, self._tails, self.owed = generation, array("Q", tails), bool(flags & _OWED)
            found = {queue: tail for queue, tail in enumerate(self._tails) if tail}
            self.evidence = Evidence(number, bool(flags & _SYNCED), found)
