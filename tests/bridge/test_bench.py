"""``scripts/bench`` works: every figure is there and no message is lost. How fast anything is, is no matter of a test."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.support import programs
from tests.support.mosquitto import program
from tests.support.node import ROOT


def test_the_bench_measures_both_systems_and_a_backlog() -> None:
    program("mosquitto")
    if shutil.which("cc") is None:
        pytest.skip("the bench compiles its load generator, and there is no C compiler")
    words = [str(ROOT / "scripts" / "bench"), "--quick", "--messages", "1000", "--backlog", "2000", "--json"]
    environment = {**os.environ, "BASCULE_PYTHON": sys.executable}
    done = programs.run(words, env=environment, timeout_s=300.0)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["lost"] == 0
    # Of so few messages the CPU time may be less than a tick of the kernel's clock.
    assert [row for row in report["medians"] if not all(row["ratios"].values()) and not row["figure"].startswith("CPU")] == []
    assert len(report["medians"]) == 13
    assert report["backlog"]["missing"] == 0
    assert report["backlog"]["out_of_order"] == 0
    assert {"clients", "store", "main"} <= report["backlog"]["rss_after_bytes"].keys()


@pytest.mark.soak
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


@pytest.mark.soak
def test_the_bench_measures_what_a_message_costs_beside_another_checkout(tmp_path: Path) -> None:
    program("mosquitto")
    if shutil.which("cc") is None:
        pytest.skip("the bench compiles its load generator, and there is no C compiler")
    for package in ("wire", "storage", "analysis", "actors", "supervisor"):
        (tmp_path / package).symlink_to(ROOT / package)
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    words = [str(ROOT / "scripts" / "bench"), "--rates", "200", "1000", "--seconds", "0.3", "--repeat", "1"]
    words += ["--beside", str(tmp_path), "--json", str(tmp_path / "figures.json")]
    hidden = ("BASCULE_BENCH_MOSQUITTO21", "BASCULE_BENCH_MOSQUITTO21_PLUGIN")
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    done = programs.run(words, env={**environment, "BASCULE_PYTHON": sys.executable}, timeout_s=300.0)
    assert done.returncode == 0, done.stderr
    assert "ratio: bascule / before" in done.stdout
    assert "ratio: bascule / mosquitto" in done.stdout
    report = json.loads((tmp_path / "figures.json").read_text())
    assert report["lost"] == 0
    exchanges = [f"QoS 2, MQTT {which} in flight" for which in ("3.1.1, 20", "3.1.1, 100", "5, 1000")]
    rows = ["idle", "200/s", "1000/s", "one in flight", *exchanges]
    assert list(report["medians"]) == rows
    for row, systems in report["medians"].items():
        assert list(systems) == ["bascule", "before", "mosquitto"] + (["far broker alone"] if row in exchanges else [])
        for system, figures in systems.items():
            assert figures["cpu_us"] == pytest.approx(
                sum(one["user_us"] + one["system_us"] for one in figures["processes"].values())
            )
            if row != "idle":
                assert 0 < figures["ack_p50_us"] <= figures["ack_p99_us"] <= figures["ack_p999_us"] <= figures["ack_max_us"]
                assert 0 < figures["latency_p50_us"] <= figures["latency_p99_us"] <= figures["latency_p999_us"]
            if row != "idle" and system in ("bascule", "before"):
                assert "supervisor" in figures["processes"]
                assert len(figures["processes"]) > 2
                assert min(figures[figure] for figure in ("switches", "frames_sent", "turns", "commits", "cpu_us")) > 0
    lone = report["medians"]["one in flight"]["bascule"]
    assert lone["ack_fdatasyncs"] == pytest.approx(lone["ack_p50_us"] / lone["fdatasync_p50_us"])


@pytest.mark.soak
def test_the_bench_measures_bridges_to_a_far_end_that_acknowledges_at_once() -> None:
    program("mosquitto")
    if shutil.which("cc") is None:
        pytest.skip("the bench compiles its load generator, and there is no C compiler")
    words = [str(ROOT / "scripts" / "bench"), "--far-end", "--quick", "--messages", "2000", "--json"]
    done = programs.run(words, env={**os.environ, "BASCULE_PYTHON": sys.executable}, timeout_s=200.0)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["lost"] == 0
    assert {"bascule", "mosquitto"} <= set(report["systems"])
    assert all(row["bascule"] for row in report["medians"] if not row["figure"].startswith("CPU"))
