"""One Spark session for all tests of a run, in a Java of its own; without one they are skipped.

Spark starts a Python for each query, and imports in it for a second. Here they are forked (``preloaded.py``).
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from analysis.spark.session import JavaMissing, java_version, spark_session
from tests.support import forked_command, preloaded

STOP_S = 120.0  # a second or two; nothing in py4j has a limit


@pytest.fixture(scope="session")
def forked_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that is called as Python is; a module that it is to run is forked with Spark imported."""
    path = tmp_path_factory.mktemp("python") / "python"
    forked = f'"{sys.executable}" -I -S "{forked_command.__file__}" {preloaded.address("pyspark.worker")}'
    path.write_text(f'#!/bin/sh\n[ "$1" = -m ] || exec "{sys.executable}" "$@"\nshift\nexec {forked} "$@"\n')
    path.chmod(0o755)
    return path


@pytest.fixture(scope="session")
def spark(forked_python: Path) -> Iterator[SparkSession]:
    """Spark with two threads and the data source ``bascule``."""
    try:
        java_version()
    except JavaMissing as error:
        pytest.skip(f"{error.message}: the tests of the data source are skipped")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
            patch.setenv(name, str(forked_python))
        session = spark_session("tests", cores=2, memory_mb=768, quick=True)
    java = session.sparkContext._gateway.proc  # type: ignore[union-attr]  # there is one without spark-submit
    session.conf.set("spark.sql.streaming.stopTimeout", f"{STOP_S:.0f}s")  # none, unless it is set
    session.conf.set("spark.sql.shuffle.partitions", "1")  # of so few rows each task is a cost
    yield session
    stopping = threading.Thread(target=session.stop, name="spark-stop", daemon=True)
    stopping.start()
    stopping.join(STOP_S)
    if stopping.is_alive():
        java.send_signal(signal.SIGQUIT)  # it shows its threads on standard error
        stopping.join(1.0)
        java.kill()
        pytest.fail(f"Spark did not stop within {STOP_S:g} s")
