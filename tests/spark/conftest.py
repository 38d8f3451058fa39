"""One Spark session for all tests of a run, in a Java of its own; without one they are skipped."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from storage.analysis.session import JavaMissing, java_version, spark_session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Spark with two threads and the data source ``bascule``."""
    try:
        java_version()
    except JavaMissing as error:
        pytest.skip(f"{error.message}: the tests of the data source are skipped")
    session = spark_session("tests", cores=2, memory_mb=768, quick=True)
    yield session
    session.stop()
