"""What a process has taken of the machine, as /proc tells it. The only reader of /proc for that."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
MEMORY_AGE_S = 10.0


@dataclass(frozen=True, slots=True)
class Usage:
    """pss_bytes: its share of the memory that it and others have in common, and all of its own. cpu_s: user and system, so far.

    None: the system does not tell, as of a process that is gone.
    """

    pss_bytes: int | None = None
    cpu_s: float | None = None


def usage_of(pid: int | None) -> Usage:
    """The usage of process ``pid``; the kernel walks its memory for it, so ask only for who wants to know."""
    if pid is None:
        return Usage()
    folder = Path("/proc") / str(pid)
    return Usage(pss_bytes=_pss_bytes(folder), cpu_s=_cpu_s(folder))


class RecentUsage:
    """The usage of some processes, of which somebody asks again and again: their memory is looked at once in ``MEMORY_AGE_S``.

    The kernel takes up to a millisecond for that, and keeps the process from its memory meanwhile.
    """

    def __init__(self) -> None:
        self._pss_bytes: dict[int, tuple[float, int | None]] = {}

    def of(self, pid: int | None, now_s: float) -> Usage:
        """The usage of process ``pid``."""
        if pid is None:
            return Usage()
        folder = Path("/proc") / str(pid)
        known = self._pss_bytes.get(pid)
        if known is None or not 0 <= now_s - known[0] < MEMORY_AGE_S:
            self._pss_bytes = {pid: each for pid, each in self._pss_bytes.items() if now_s - each[0] < MEMORY_AGE_S}
            known = self._pss_bytes[pid] = now_s, _pss_bytes(folder)
        cpu_s = _cpu_s(folder)
        return Usage() if cpu_s is None else Usage(pss_bytes=known[1], cpu_s=cpu_s)


def _pss_bytes(folder: Path) -> int | None:
    try:
        lines = (folder / "smaps_rollup").read_text().splitlines()
    except OSError:  # it is gone, or the kernel has no such file
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), None)


def _cpu_s(folder: Path) -> float | None:
    try:
        fields = (folder / "stat").read_text().rpartition(")")[2].split()  # a command's name may have blanks in it
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S  # utime and stime, the 14th and 15th of proc(5)
