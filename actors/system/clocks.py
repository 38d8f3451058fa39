"""The machine's clocks: the wall clock, which may step, and the one that goes on whatever happens to it."""

from __future__ import annotations

import time
from pathlib import Path

from wire.clock_steps import CLOCK, STEP_MIN_MS

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def wall_ms() -> int:
    """UTC in milliseconds. It may step; ``CLOCK`` knows of that before anybody goes by it."""
    now_ms = time.time_ns() // 1_000_000
    if not CLOCK.agree(now_ms, time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000):
        CLOCK.read(*both_ms())
    return now_ms


def steady_ms() -> int:
    """The clock that nobody sets, in milliseconds; it goes on while the machine sleeps."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


def both_ms() -> tuple[int, int]:
    """The wall clock and the steady one, read at the same time: this process may be stopped between two readings."""
    while True:
        before_ms = steady_ms()
        now_ms = time.time_ns() // 1_000_000
        if (after_ms := steady_ms()) - before_ms <= STEP_MIN_MS // 10:
            return now_ms, after_ms


def machine_run() -> str:
    """A name that each start of the machine has for itself; empty where the kernel tells none."""
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""
