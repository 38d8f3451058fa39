"""Spark 4.0 and 4.1 read snapshots, each in an environment of its own; a stream, which they cannot have, is refused in one line."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from analysis.spark.session import JavaMissing, java_version
from tests.spark.nodes import CLOUD, Edge
from tests.spark.reading import directly
from tests.support import programs
from tests.support.node import ROOT

SPARKS = "BASCULE_SPARKS"
PROGRAM = """
import sys
from analysis.spark.session import spark_session
spark = spark_session(cores=1, memory_mb=768, quick=True)
where, checkpoint = sys.argv[1:]
frame = spark.read.format("bascule").option("table", "messages").load(where)
one = frame.where("queue = 'bridge:cloud:0'")
print("rows", spark.version, frame.count(), one.count(), one.union(frame.where("queue <> 'bridge:cloud:0'")).count())
spark.sql(f"CREATE TABLE messages USING bascule OPTIONS (table 'messages', path '{where}')")
print("table", spark.table("messages").count())
stream = spark.readStream.format("bascule").option("table", "messages").load(where)
try:
    stream.writeStream.format("noop").option("checkpointLocation", checkpoint).start().awaitTermination(60)
except Exception as error:
    print(*(line for line in str(error).splitlines() if "a stream of snapshots needs" in line), sep="\\n")
"""


@pytest.mark.process
@pytest.mark.parametrize("version", ["4.0.1", "4.1.1"])
def test_an_older_spark_reads_too(tmp_path: Path, version: str, request: pytest.FixtureRequest) -> None:
    """``BASCULE_SPARKS`` names a folder with ``VERSION/bin/python``, each of an environment that has that PySpark."""
    if SPARKS not in os.environ and request.config.getoption("--soak") is None:
        pytest.skip(f"installing PySpark {version} takes minutes: give --soak, or {SPARKS}")
    try:
        java_version()
    except JavaMissing as error:
        pytest.skip(error.message)
    python = Path(os.environ.get(SPARKS, str(tmp_path))) / version / "bin" / "python"
    if not python.exists():
        programs.run([sys.executable, "-m", "venv", str(tmp_path / version)], timeout_s=120.0)
        python = tmp_path / version / "bin" / "python"
        wanted = [f"pyspark=={version}", "pyarrow>=18", "numpy>=2", "rocksdict==0.3.29", "msgpack>=1.1"]
        if programs.run([str(python), "-m", "pip", "install", "-q", *wanted], timeout_s=900.0).returncode:
            pytest.skip(f"PySpark {version} cannot be had")
    edge = Edge(tmp_path / "store")
    with edge.model:
        edge.publish(60, plant=20)
        edge.deliver(30)
        snapshot = edge.snapshot(tmp_path / "there")
    rows = directly(snapshot, "messages")
    cloud = sum(row["queue"] == CLOUD for row in rows)

    words = [str(python), "-c", PROGRAM, str(tmp_path / "there"), str(tmp_path / "checkpoint")]
    done = programs.run(words, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout_s=300.0)

    assert f"rows {version} {len(rows)} {cloud} {len(rows)}" in done.stdout, done.stderr
    assert f"table {len(rows)}" in done.stdout, done.stderr
    assert f"a stream of snapshots needs Spark 4.2 or newer; this is {version}" in done.stdout, done.stderr
