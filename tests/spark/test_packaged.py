"""The code runs under spark-submit as scripts/package-analysis packs it."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pyspark
import pytest

from analysis.spark.session import QUICK_SETTINGS, JavaMissing, java_version
from tests.spark.nodes import Edge
from tests.support import programs
from tests.support.node import ROOT

JOB = """
import json, sys
from analysis.spark.session import spark_session
import analysis.spark.source

spark = spark_session("job")
messages = spark.read.format("bascule").option("table", "messages").load(sys.argv[1])
counts = {row["queue"]: row["count"] for row in messages.where("node = 'edge'").groupBy("queue").count().collect()}
here = __import__("os").path.dirname(analysis.spark.source.__file__)
executors = messages.rdd.mapPartitions(lambda _: [__import__("analysis.spark.source").__file__]).distinct().collect()
print("RESULT " + json.dumps({"counts": counts, "from": [here, *executors], "master": spark.sparkContext.master}))
spark.stop()
"""


def test_a_job_runs_under_spark_submit_with_the_packed_code_alone(tmp_path: Path) -> None:
    try:
        java_version()
    except JavaMissing as error:
        pytest.skip(f"{error.message}: spark-submit is not tested")
    packed = tmp_path / "analysis.zip"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment.update(BASCULE_PYTHON=sys.executable, PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1")
    done = programs.run([ROOT / "scripts" / "package-analysis", packed], env=environment, timeout_s=60.0)
    assert done.returncode == 0, done.stderr
    job = tmp_path / "job.py"
    job.write_text(JOB)
    edge = Edge(tmp_path / "store")
    with edge.model:
        edge.publish(100, plant=20)
        snapshot = edge.snapshot(tmp_path / "there")

    settings = ["spark.ui.enabled=false", "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"]
    settings += [f"{name}={value}" for name, value in QUICK_SETTINGS.items()]
    words: list[str | Path] = [Path(pyspark.__file__).parent / "bin" / "spark-submit", "--master", "local[1]"]
    words += ["--driver-memory", "768m"]
    words += [word for setting in settings for word in ("--conf", setting)]
    words += ["--py-files", packed, job, snapshot]
    done = programs.run(words, cwd=tmp_path, env=environment, timeout_s=240.0)

    assert done.returncode == 0, done.stderr[-4000:]
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("RESULT "))
    result = json.loads(line.removeprefix("RESULT "))
    assert result["counts"] == {"bridge:cloud:0": 75, "bridge:plant:0": 15}
    assert result["master"] == "local[1]"
    assert all("analysis.zip" in place for place in result["from"])
