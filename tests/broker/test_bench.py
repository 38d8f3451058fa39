"""``scripts/bench --clients`` and ``--fan-out`` work: all is acknowledged and delivered, once and in order, however fast."""

from __future__ import annotations

import json
import os
import shutil
import sys

import pytest

from tests.support import programs
from tests.support.mosquitto import program
from tests.support.node import ROOT


def test_the_bench_measures_many_clients_and_a_fan_out() -> None:
    program("mosquitto")
    if shutil.which("cc") is None:
        pytest.skip("the bench compiles its load generator, and there is no C compiler")
    words = [str(ROOT / "scripts" / "bench"), "--quick", "--clients", "40", "--fan-out", "4", "--messages", "2000", "--json"]
    environment = {**os.environ, "BASCULE_PYTHON": sys.executable}
    done = programs.run(words, env=environment, timeout_s=300.0)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["lost"] == 0
    assert [run["system"] for run in report["clients"]] == ["bascule", "mosquitto", "mosquitto, persistence true"]
    assert {run["acknowledged"] for run in report["clients"]} == {120}
    for case in ("qos_0", "qos_1", "qos_1_kept", "qos_0_steady", "qos_1_steady"):
        deliveries = 20 if case.endswith("steady") else 800
        assert {run["system"] for run in report[case]} > {"bascule"}
        for run in report[case]:
            assert run["deliveries"] == deliveries, run
            assert run["duplicates"] == run["out_of_order"] == run["foreign"] == 0, run
