"""A Spark session for the analysis of snapshots: quiet, on this machine, with the data source ``bascule``.

Under ``spark-submit`` the cluster's session is taken as it is, and only what the data source needs is set. Otherwise Spark runs in
this process and a Java of its own, and everything that would speak to a network or write beside the caller's files is off. The use
of a session is others' business: ``source`` reads, ``reports`` reckon.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from storage.installation import how_to_install
from wire.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA_MIN = 17  # Spark 4 wants it
JAVA_WAIT_S = 30.0
MEMORY_MIN_MB, MEMORY_MAX_MB = 1024, 4096
SAID_MAX, SAID_LINES_MAX = 2000, 200  # characters of what Java said that an error repeats; lines kept for it

# For small data: what is compiled for a query, or planned again on the way, takes longer than the query itself.
QUICK_SETTINGS = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}

_ROOT = Path(__file__).resolve().parents[3]
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_LOG4J = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{yy/MM/dd HH:mm:ss} %p %c{1}: %m%n
"""
_SHUFFLE = "spark.sql.shuffle.partitions"
_LOG4J_NAME = "log4j2.properties"
_ALWAYS_SAID = ("Using incubator modules", "Setting default log level", "Setting Spark log level", "To adjust logging level")

_JAVA_HELP = (
    "install a Java runtime of version 17 or newer; on Debian and Ubuntu: apt-get install openjdk-17-jre-headless (or -21-)",
    "or set JAVA_HOME to one that is installed already",
    "bascule report without --spark needs no Java",
)


class JavaMissing(ConfigError):
    """There is no Java that Spark could run in."""


class SparkMissing(ConfigError):
    """PySpark, or what it needs, is not installed."""


class SparkNotStarted(ConfigError):
    """Java is there and Spark would not start in it; what it said is in the message."""


def java_version() -> int:
    """The major version of the Java that Spark would start: the one in ``JAVA_HOME``, or else the first on ``PATH``.

    Raises:
        JavaMissing: there is none, or it is too old; the message says what to install.
    """
    home = os.environ.get("JAVA_HOME")
    java = f"{home}/bin/java" if home else shutil.which("java")
    if java is None:
        raise JavaMissing("Spark runs in Java, and there is none on PATH or in JAVA_HOME", problems=_JAVA_HELP)
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=JAVA_WAIT_S, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        where = "JAVA_HOME names a folder without a Java that runs" if home else "the Java on PATH does not run"
        raise JavaMissing(f"Spark runs in Java, and {where}", problems=_JAVA_HELP, java=java, error=str(error)) from error
    match = _VERSION.search(done.stderr + done.stdout)
    version = int(match[1]) if match else 0
    if version < JAVA_MIN:
        raise JavaMissing(f"Spark needs Java {JAVA_MIN} or newer", problems=_JAVA_HELP, java=java, version=version)
    return version


def under_spark_submit() -> bool:
    """Whether ``spark-submit`` started this program: its Java is there already, and its choices stand."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def find_spark() -> None:
    """Look for what a session needs; nothing of it is started.

    Raises:
        SparkMissing: PySpark is not installed.
        JavaMissing: there is no Java that is new enough.
    """
    try:
        from pyspark.sql import SparkSession

        from analysis.spark import source  # noqa: F401
    except ImportError as error:
        raise SparkMissing(f"Spark needs {error.name}: {how_to_install('analysis')}", error=str(error)) from error
    if SparkSession.getActiveSession() is None and not under_spark_submit():
        java_version()


def spark_session(
    name: str = "bascule", *, cores: int | None = None, memory_mb: int | None = None, quick: bool = False
) -> SparkSession:
    """The Spark session of this program, in UTC, with the data source ``bascule`` registered; one that runs already is used again.

    cores, memory_mb: how many threads work and how much memory their Java may take; None: all cores, a quarter of the memory
    within ``MEMORY_MIN_MB`` and ``MEMORY_MAX_MB``. quick: start two seconds faster and run large jobs slower. All three are ignored
    under ``spark-submit``, whose own options say so.

    Raises:
        SparkMissing: PySpark is not installed.
        JavaMissing: there is no Java that is new enough.
        SparkNotStarted: Java ended.
    """
    find_spark()
    from pyspark.sql import SparkSession

    from analysis.spark.source import register

    running = SparkSession.getActiveSession()
    if running is None:
        if under_spark_submit():
            running = SparkSession.builder.appName(name).getOrCreate()
            _suit_the_cluster(running)
        else:
            running = _start(name, cores or os.cpu_count() or 1, memory_mb or _memory_mb(), quick)
    running.conf.set("spark.sql.session.timeZone", "UTC")
    running.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")  # says that it is UTC; Spark's INT96 does not
    register(running)
    return running


def _suit_the_cluster(running: SparkSession) -> None:
    """If nobody has said how many parts a shuffle has, as many as suit its cores: Spark's 200 take minutes on a small one."""
    if not running.sparkContext.getConf().contains(_SHUFFLE):
        running.conf.set(_SHUFFLE, str(max(2, 2 * running.sparkContext.defaultParallelism)))


def _start(name: str, cores: int, memory_mb: int, quick: bool) -> SparkSession:
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    scratch = Path(tempfile.mkdtemp(prefix="bascule-spark-"))
    atexit.register(_end, scratch)
    (scratch / _LOG4J_NAME).write_text(_LOG4J, encoding="utf-8")
    with _environment(_for_java()), _what_java_says() as said:
        builder = SparkSession.builder.appName(name).master(f"local[{cores}]")
        for key, value in _settings(scratch, cores, memory_mb, quick).items():
            builder = builder.config(key, value)
        try:
            return builder.getOrCreate()
        except PySparkRuntimeError as error:
            text = "".join(said)[-SAID_MAX:].strip()
            raise SparkNotStarted(f"Spark did not start; Java said: {text or 'nothing'}") from error


def _end(scratch: Path) -> None:
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    if running is not None:
        running.stop()
    shutil.rmtree(scratch, ignore_errors=True)


def _settings(scratch: Path, cores: int, memory_mb: int, quick: bool) -> dict[str, str]:
    java = [f"-Dlog4j2.configurationFile=file:{scratch / _LOG4J_NAME}", f"-Djava.io.tmpdir={scratch}"]
    java += ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"] if quick else ["-XX:+UseParallelGC"]
    return {
        **(QUICK_SETTINGS if quick else {}),
        "spark.driver.memory": f"{memory_mb}m",
        "spark.driver.extraJavaOptions": " ".join(java),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        "spark.hadoop.fs.permissions.umask-mode": "077",  # Hadoop sets modes of its own
        _SHUFFLE: str(max(2, cores)),
        "spark.default.parallelism": str(max(2, cores)),
    }


def _for_java() -> dict[str, str | None]:
    """Environment for Java, and so for Spark's Python workers: this interpreter, this very Bascule, and its own Spark.

    Variables of the environment that are about another Spark; None: not set.
    """
    import pyspark

    path = os.environ.get("PYTHONPATH")
    return {
        "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable),
        "PYSPARK_DRIVER_PYTHON": os.environ.get("PYSPARK_DRIVER_PYTHON", sys.executable),
        "PYTHONPATH": str(_ROOT) + (os.pathsep + path if path else ""),
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        **dict.fromkeys(("SPARK_CONF_DIR", "SPARK_REMOTE", "SPARK_API_MODE", "SPARK_CONNECT_MODE_ENABLED", "PYSPARK_SUBMIT_ARGS")),
        "SPARK_LOCAL_IP": os.environ.get("SPARK_LOCAL_IP", "127.0.0.1"),
    }


@contextmanager
def _environment(variables: dict[str, str | None]) -> Iterator[None]:
    """Within it these variables are set, or are not, for whatever is started."""
    former = {name: os.environ.get(name) for name in variables}
    _set_variables(variables)
    try:
        yield
    finally:
        _set_variables(former)


def _set_variables(variables: dict[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


@contextmanager
def _what_java_says() -> Iterator[list[str]]:
    """A process that is started within it has its standard error passed on, then and later, but for the lines that Java always
    says.

    Yields the lines that have come so far.
    """
    said: list[str] = []
    sys.stderr.flush()
    ours = os.dup(2)
    reading, writing = os.pipe()
    passing = threading.Thread(target=_pass_on, args=(reading, os.dup(ours), said), name="java-stderr", daemon=True)
    passing.start()
    os.dup2(writing, 2)
    os.close(writing)
    try:
        yield said
    finally:
        os.dup2(ours, 2)
        os.close(ours)


def _pass_on(reading: int, ours: int, said: list[str]) -> None:
    with open(reading, encoding="utf-8", errors="replace") as lines, open(ours, "w", encoding="utf-8") as out:
        for line in lines:
            if not any(words in line for words in _ALWAYS_SAID):
                if len(said) < SAID_LINES_MAX:
                    said.append(line)
                out.write(line)
                out.flush()


def _memory_mb() -> int:
    total_mb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    return min(MEMORY_MAX_MB, max(MEMORY_MIN_MB, total_mb // 4))
