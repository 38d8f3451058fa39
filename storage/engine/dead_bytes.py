"""Dead bytes: tables are merged when much in them is deleted and not yet given back to the disk.

RocksDB says what its tables and blob files take, the rows say what is kept. Nothing else is remembered, so a store that died goes
on where it was. A merge writes about as much as is alive: so a quarter of that may be dead, and some more, unless the disk has
little room left.
"""

from __future__ import annotations

DEAD_BYTES = 32 << 20  # may be dead in any store
STEP_BYTES = 4 << 20  # less is not worth a merge, however little room is left
LOOKS = 30  # after so many what could not be given back may be: a merge may have met a disk without room
TABLES = 64  # may there be in any family, however small,
TABLE_BYTES = 1 << 20  # and one more for so much in them


class DeadBytes:
    """Judges one store. Bytes that a merge could not give back are not tried again for a while, or before there are more."""

    def __init__(self) -> None:
        self._before: tuple[int, int] | None = None  # what was taken, and kept, when the last merge was begun
        self._stay = self._looks = 0

    def begin_merge(self, taken_bytes: int, kept_bytes: int, *, pressed: bool) -> bool:
        """Whether a merge is due, which is then taken for begun; not to be asked while one runs.

        pressed: there is little room on the disk.
        """
        dead = max(0, taken_bytes - kept_bytes)
        if self._before is not None:
            taken_before, kept_before = self._before
            in_vain = taken_before - taken_bytes < STEP_BYTES
            self._stay = max(0, taken_bytes - max(kept_before, kept_bytes)) if in_vain else 0  # some may have died while it ran
            self._looks = 0
        self._looks += 1
        self._stay = min(self._stay, dead) if self._looks <= LOOKS else 0
        due = dead - self._stay >= (STEP_BYTES if pressed else DEAD_BYTES + kept_bytes // 4)
        self._before = (taken_bytes, kept_bytes) if due else None
        return due


def are_small(tables: int, taken_bytes: int) -> bool:
    """Whether so many tables, which take so much, are to be made fewer: each is a file, and may be held open."""
    return tables > TABLES + taken_bytes // TABLE_BYTES
