"""``scripts/bench`` works: every figure is there and no message is lost. How fast anything is, is no matter of a test."""

from __future__ import annotations

import json
import os
import shutil
import sys

import pytest

from tests.support import programs
from tests.support.mosquitto import program
from tests.support.node import ROOT


def test_the_bench_measures_both_systems_and_a_backlog() -> None:
    program("mosquitto")
    if shutil.which("cc") is None:
        pytest.skip("the bench compiles its load generator, and there is no C compiler")
    words = [str(ROOT / "scripts" / "bench"), "--quick", "--messages", "2000", "--backlog", "5000", "--json"]
    environment = {**os.environ, "BASCULE_PYTHON": sys.executable}
    done = programs.run(words, env=environment, timeout_s=300.0)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["lost"] == 0
    # Of so few messages the CPU time may be less than a tick of the kernel's clock.
    assert [row for row in report["medians"] if not row["ratio"] and not row["figure"].startswith("CPU")] == []
    assert len(report["medians"]) == 10
    assert report["backlog"]["missing"] == 0
    assert report["backlog"]["out_of_order"] == 0
    assert {"listener", "queue_store", "main"} <= report["backlog"]["rss_after_bytes"].keys()


def test_the_bench_measures_intake_beside_snapshots() -> None:
    program("mosquitto")
    if shutil.which("cc") is None:
        pytest.skip("the bench compiles its load generator, and there is no C compiler")
    words = [str(ROOT / "scripts" / "bench"), "--snapshot", "--quick", "--messages", "2000", "--json"]
    environment = {**os.environ, "BASCULE_PYTHON": sys.executable}
    done = programs.run(words, env=environment, timeout_s=120.0)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["lost"] == 0
    made = next(row for row in report["medians"] if row["figure"] == "snapshots made")
    assert made["none"] == 0
    assert made["back to back"] > 0
