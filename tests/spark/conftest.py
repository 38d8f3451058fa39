"""One Spark session for all tests of a run, in a Java of its own; without one they are skipped."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from analysis.spark.session import JavaMissing, java_version, spark_session

STOP_S = 120.0  # a second or two; nothing in py4j has a limit


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Spark with two threads and the data source ``bascule``."""
    try:
        java_version()
    except JavaMissing as error:
        pytest.skip(f"{error.message}: the tests of the data source are skipped")
    session = spark_session("tests", cores=2, memory_mb=768, quick=True)
    java = session.sparkContext._gateway.proc  # type: ignore[union-attr]  # there is one without spark-submit
    session.conf.set("spark.sql.streaming.stopTimeout", f"{STOP_S:.0f}s")  # none, unless it is set
    yield session
    stopping = threading.Thread(target=session.stop, name="spark-stop", daemon=True)
    stopping.start()
    stopping.join(STOP_S)
    if stopping.is_alive():
        java.send_signal(signal.SIGQUIT)  # it shows its threads on standard error
        stopping.join(1.0)
        java.kill()
        pytest.fail(f"Spark did not stop within {STOP_S:g} s")
