"""The lease: who hears nothing waits for longer than it lasts, and each process of a node sees until when it does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.replication.lease import FILE_NAME, LeaseFile, Watch, clock_s, patience_s
from tests.storage.replication.building import Clock

TIMES = st.floats(0, 1e6)


@given(sent_s=TIMES, on_its_way_s=st.floats(0, 1e3), lease_s=st.floats(2, 100), waits_s=st.floats(0, 1e3))
def test_a_lease_is_over_before_anybody_takes_over(sent_s: float, on_its_way_s: float, lease_s: float, waits_s: float) -> None:
    """replication.lease-before-take-over: however long the record was on its way."""
    watch = Watch(0.0)
    watch.on_heard(sent_s + on_its_way_s)
    now_s = sent_s + on_its_way_s + waits_s

    if watch.is_over(lease_s, now_s):
        assert now_s > sent_s + lease_s


def test_a_watch_counts_from_when_it_last_heard() -> None:
    watch = Watch(100.0)
    assert watch.silent_s(103.0) == 3.0
    assert not watch.is_over(10.0, 100.0 + 10.0)
    assert watch.is_over(10.0, 100.0 + patience_s(10.0))

    watch.on_heard(112.0)
    assert not watch.is_over(10.0, 112.5)


def test_a_lease_lasts_until_it_is_over(tmp_path: Path) -> None:
    clock = Clock()
    lease = LeaseFile(tmp_path, clock)
    assert not lease.is_held()

    lease.hold(clock.now_s + 2.0)
    assert (lease.is_held(), lease.left_s()) == (True, 2.0)
    clock.now_s += 2.0
    assert not lease.is_held()
    lease.hold(clock.now_s + 2.0)
    lease.hold(0.0)
    assert not lease.is_held()
    lease.close()


@pytest.mark.process
def test_each_process_sees_the_lease_at_once(tmp_path: Path) -> None:
    """replication.no-word-without-lease"""
    lease = LeaseFile(tmp_path)
    program = (
        "import sys; from pathlib import Path; from storage.replication.lease import LeaseFile\n"
        "lease = LeaseFile(Path(sys.argv[1]))\n"
        "for _ in sys.stdin: print(lease.is_held(), flush=True)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
        cwd=Path(__file__).parents[3],
    ) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        seen = []
        for until_s in (0.0, clock_s() + 1000.0, 0.0, clock_s() + 1000.0):
            lease.hold(until_s)
            other.stdin.write("?\n")
            seen.append(other.stdout.readline().strip())
        other.stdin.close()
    assert seen == ["False", "True", "False", "True"]
    assert (tmp_path / FILE_NAME).stat().st_size == 8
    lease.close()


def test_the_clock_goes_on() -> None:
    first = clock_s()

    assert first > 0.0
    assert clock_s() >= first
