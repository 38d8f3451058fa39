"""Resources of the processes of a system: one look at /proc, and the difference of two of them.

The processes of a system are those of the session that its first one leads, and all that descend from it, however many there are
and whatever they are called.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_CPUCLOCK_SCHED = 2  # include/linux/posix-timers.h: with the complement of a pid, the clock of all that process's threads
_SWITCHES = re.compile(r"^(non)?voluntary_ctxt_switches:\s*(\d+)$", re.MULTILINE)
_PSS = re.compile(r"^Pss:\s+(\d+) kB$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stat:
    """Of /proc/PID/stat: ticks are of the process itself, reaped_ticks of its children that have ended and were waited for."""

    parent: int
    session: int
    user_ticks: int
    system_ticks: int
    reaped_ticks: int
    resident_pages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Resources of one process since it began. switches: of each thread, voluntary and involuntary."""

    words: tuple[str, ...]
    cpu_s: float
    user_ticks: int
    system_ticks: int
    reaped_s: float
    switches: Mapping[int, tuple[int, int]]
    rss_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """Resources of one process between two looks; CPU in seconds."""

    user_s: float
    system_s: float
    voluntary: int
    involuntary: int


def parse_stat(text: str) -> Stat:
    """One /proc/PID/stat; the name of the program, in brackets, may hold anything."""
    fields = text.rpartition(")")[2].split()
    user, system, reaped_user, reaped_system = (int(field) for field in fields[11:15])
    return Stat(
        parent=int(fields[1]),
        session=int(fields[3]),
        user_ticks=user,
        system_ticks=system,
        reaped_ticks=reaped_user + reaped_system,
        resident_pages=int(fields[21]),
    )


def parse_switches(text: str) -> tuple[int, int]:
    """The voluntary and involuntary context switches of one /proc/PID/task/TID/status."""
    found = {forced: int(count) for forced, count in _SWITCHES.findall(text)}
    return found[""], found["non"]


def family(stats: Mapping[int, Stat], leader: int) -> set[int]:
    """The processes of the session that ``leader`` leads, and all that descend from it."""
    members = {pid for pid, stat in stats.items() if leader in (pid, stat.session)}
    while more := {pid for pid, stat in stats.items() if stat.parent in members} - members:
        members |= more
    return members


def usage_of_family(leader: int) -> dict[int, Usage]:
    """Resources of each process of the system that ``leader`` began so far, by pid."""
    stats = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stats[int(entry.name)] = parse_stat((entry / "stat").read_text(errors="replace"))
            except OSError:
                continue  # it ended meanwhile
    used = {}
    for pid in sorted(family(stats, leader)):
        try:
            used[pid] = _usage(pid, stats[pid])
        except OSError:
            continue
    return used


def pss_bytes(pid: int) -> int:
    """Memory of a process, each page divided by the processes that share it; 0 of one that has ended."""
    try:
        found = _PSS.search((Path("/proc") / str(pid) / "smaps_rollup").read_text())
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return int(found[1]) * 1024 if found else 0


def _usage(pid: int, stat: Stat) -> Usage:
    folder = Path("/proc") / str(pid)
    switches = {}
    for thread in (folder / "task").iterdir():
        try:
            switches[int(thread.name)] = parse_switches((thread / "status").read_text(errors="replace"))
        except (FileNotFoundError, ProcessLookupError):
            continue
    words = (folder / "cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
    return Usage(
        words=tuple(words),
        cpu_s=time.clock_gettime(~pid << 3 | _CPUCLOCK_SCHED),
        user_ticks=stat.user_ticks,
        system_ticks=stat.system_ticks,
        reaped_s=stat.reaped_ticks / _TICKS_PER_S,
        switches=switches,
        rss_bytes=stat.resident_pages * _PAGE_BYTES,
    )


def cpu_s(used: Mapping[int, Usage]) -> float:
    """CPU seconds of all, user and system, children that were waited for included."""
    return sum(usage.cpu_s + usage.reaped_s for usage in used.values())


def spent(before: Usage | None, after: Usage) -> Spent:
    """Resources of a process between two looks; ``before`` is None for one that began meanwhile.

    The sum of user and system is exact; how it is parted is known in ticks only, and of less than one by what the whole life was
    like. A thread that ended meanwhile takes the switches of that time with it.
    """
    ticks = [after.user_ticks, after.system_ticks]
    if before is not None and (after.user_ticks, after.system_ticks) != (before.user_ticks, before.system_ticks):
        ticks = [after.user_ticks - before.user_ticks, after.system_ticks - before.system_ticks]
    both_s = after.cpu_s - (before.cpu_s if before is not None else 0.0)
    user_s = both_s * ticks[0] / sum(ticks) if sum(ticks) else both_s
    known = before.switches if before is not None else {}
    pairs = [(count, known.get(thread, (0, 0))) for thread, count in after.switches.items()]
    return Spent(
        user_s=user_s,
        system_s=both_s - user_s,
        voluntary=sum(now[0] - then[0] for now, then in pairs),
        involuntary=sum(now[1] - then[1] for now, then in pairs),
    )


def names(used: Mapping[int, Usage], leader: int, told: Mapping[int, str] | None = None) -> dict[int, str]:
    """A name for each process, never the same for two: what the program told, or what its command line says."""
    found: dict[int, str] = {}
    for pid, usage in used.items():
        name = (told or {}).get(pid) or command_name(usage.words, first=pid == leader)
        taken = set(found.values())
        found[pid] = name if name not in taken else next(each for each in _numbered(name) if each not in taken)
    return found


def _numbered(name: str) -> Iterable[str]:
    return (f"{name} {number}" for number in range(2, 1 << 20))


def command_name(words: tuple[str, ...], *, first: bool) -> str:
    """The name of a process by its command line: its name in the node, else the module that runs, else the program."""
    named = [words[at + 1] for at, word in enumerate(words[:-1]) if word == "--process"]
    if named:
        return ":".join(named)
    if first:
        return "main"
    if "-m" in words[:-1]:
        return words[words.index("-m") + 1]
    return Path(words[0]).name or "child"
