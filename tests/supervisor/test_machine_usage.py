"""Resources of a process, from the real /proc."""

from __future__ import annotations

import mmap
import os
import signal
import subprocess
import sys

import pytest

from supervisor.machine_usage import MEMORY_AGE_S, RecentUsage, Usage, usage_of
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.process

MIB = 1 << 20


def test_memory_that_is_touched_counts_until_it_is_given_back() -> None:
    def pss_bytes() -> int:
        taken = usage_of(os.getpid()).pss_bytes
        assert taken is not None
        return taken

    before = pss_bytes()
    with mmap.mmap(-1, 64 * MIB, flags=mmap.MAP_PRIVATE) as memory:
        for page in range(0, len(memory), mmap.PAGESIZE):
            memory[page] = 1
        assert pss_bytes() - before > 60 * MIB
    assert pss_bytes() - before < 8 * MIB


def test_who_asks_often_gets_the_memory_of_a_moment_ago_and_the_processor_time_of_now() -> None:
    recent, pid = RecentUsage(), os.getpid()
    first = recent.of(pid, 100.0)
    with mmap.mmap(-1, 64 * MIB, flags=mmap.MAP_PRIVATE) as memory:
        for page in range(0, len(memory), mmap.PAGESIZE):
            memory[page] = 1
        again, later = recent.of(pid, 100.0 + MEMORY_AGE_S / 2), recent.of(pid, 100.0 + MEMORY_AGE_S)
    assert first.pss_bytes is not None
    assert again.pss_bytes == first.pss_bytes
    assert (later.pss_bytes or 0) - first.pss_bytes > 60 * MIB
    assert (again.cpu_s or 0.0) > 0
    assert recent.of(None, 100.0) == Usage()


def test_memory_that_is_shared_counts_by_its_share() -> None:
    """Of the same 64 MiB in two processes, half is each one's."""
    shared = os.memfd_create("shared")
    os.ftruncate(shared, 64 * MIB)
    script = f"import mmap; memory = mmap.mmap({shared}, {64 * MIB}); sum(memory[::4096]); print(flush=True); input()"
    with mmap.mmap(shared, 64 * MIB) as memory:
        memory[:] = bytes(len(memory))
        alone = usage_of(os.getpid()).pss_bytes
        with subprocess.Popen(
            [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=[shared]
        ) as other:
            assert other.stdout is not None
            other.stdout.readline()
            together = usage_of(os.getpid()).pss_bytes
            other.kill()
    os.close(shared)
    assert alone is not None
    assert together is not None
    assert alone - together > 24 * MIB


def test_processor_time_counts_in_seconds_user_and_system() -> None:
    """As the system itself counts it when the process has ended."""
    with subprocess.Popen([sys.executable, "-c", "while True: open('/dev/null').close()"]) as busy:
        wait_until(lambda: (usage_of(busy.pid).cpu_s or 0.0) >= 0.3, PATIENCE_S, "0.3 s of processor time")
        told_s = usage_of(busy.pid).cpu_s
        busy.kill()
        _, _, counted = os.wait4(busy.pid, 0)
        busy.returncode = -signal.SIGKILL
    assert told_s is not None
    assert told_s <= counted.ru_utime + counted.ru_stime + 0.02
    assert counted.ru_stime > 0.02


def test_a_name_with_brackets_and_blanks_is_none_of_its_figures() -> None:
    name = "a) R 1 2 3 4 5 ("
    script = f"open('/proc/self/comm', 'w').write({name[:15]!r}); print(flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        cpu_s = usage_of(process.pid).cpu_s
        process.kill()
    assert cpu_s is not None
    assert cpu_s < 5.0


def test_of_a_process_that_is_gone_nothing_is_known() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    wait_until(lambda: usage_of(process.pid).pss_bytes is None, PATIENCE_S, "its end: a zombie has no memory")
    process.wait(PATIENCE_S)
    assert usage_of(process.pid) == usage_of(None) == Usage()
