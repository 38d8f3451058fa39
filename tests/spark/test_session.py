"""Without Java or PySpark one is told what to install; options are understood and the schema is built without Java."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from analysis.spark.options import Options
from analysis.spark.session import JavaMissing, java_version
from analysis.spark.source import spark_schema
from analysis.tables.schemas import TABLES, arrow_schema
from storage.installation import how_to_install
from tests.support import programs
from tests.support.node import ROOT
from wire.errors import ConfigError


def fake_java(folder: Path, said: str, status: int = 0) -> Path:
    path = folder / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\necho '{said}' >&2\nexit {status}\n")
    path.chmod(0o755)
    return path


def test_without_java_one_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)

    with pytest.raises(JavaMissing) as error:
        java_version()

    assert error.value.exit_status == 78
    assert "none on PATH or in JAVA_HOME" in str(error.value)
    assert "apt-get install openjdk-17-jre-headless" in str(error.value)
    assert "bascule report without --spark needs no Java" in str(error.value)


def test_a_java_that_is_too_old_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    java = fake_java(tmp_path, 'java version "1.8.0_402"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    with pytest.raises(JavaMissing, match="Java 17 or newer") as error:
        java_version()

    assert error.value.fields == {"java": str(java), "version": 8}


def test_a_java_home_without_a_java_that_runs_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    with pytest.raises(JavaMissing, match="JAVA_HOME names a folder without a Java that runs"):
        java_version()

    fake_java(tmp_path, "Error occurred during initialization of VM", 1)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaMissing, match="JAVA_HOME names a folder without a Java that runs"):
        java_version()


@pytest.mark.parametrize(
    ("said", "version"),
    [('openjdk version "17.0.15" 2025-04-15', 17), ('openjdk version "21" 2023-09-19', 21), ('java version "25-ea"', 25)],
)
def test_a_java_that_is_new_enough_is_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, said: str, version: int) -> None:
    fake_java(tmp_path, said)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    assert java_version() == version


def test_without_pyspark_one_is_told_what_to_install(tmp_path: Path) -> None:
    """In a process of its own, in which PySpark cannot be imported."""
    program = (
        "import sys; sys.modules['pyspark'] = None\n"
        "from analysis.spark.session import SparkMissing, spark_session\n"
        "try: spark_session()\n"
        "except SparkMissing as error: print(error)\n"
    )
    done = programs.run([sys.executable, "-c", program], cwd=ROOT, timeout_s=60.0)
    assert done.returncode == 0, done.stderr

    assert f"Spark needs pyspark.sql: {how_to_install('analysis')}" in done.stdout


@pytest.mark.parametrize("table", TABLES)
def test_the_schema_of_a_table_is_the_same_for_spark_and_arrow(table: str) -> None:
    from pyspark.sql.pandas.types import to_arrow_schema

    schema = spark_schema(table, payload=True)

    assert to_arrow_schema(schema, timezone="UTC") == arrow_schema(table)


def parse(**given: str) -> Options:
    return Options.parse({"path": "/snapshots", "table": "messages", **given})


def test_options_are_understood_whatever_their_case() -> None:
    options = parse(Damaged="skip", NODES="a,b", queues='["bridge:x,y:0"]', since="2026-01-01", until="2026-01-01T01:00:00+01:00")

    assert options.damaged == "skip"
    assert options.filters.nodes == ("a", "b")
    assert options.filters.queues == ("bridge:x,y:0",)
    assert options.filters.since_us == options.filters.until_us == 1_767_225_600_000_000
    assert parse(maxSnapshotsPerTrigger="7").snapshots_per_trigger == 7
    assert parse(path="file:///a%20b").paths == ("/a b",)
    assert parse(paths='["/a", "/b"]').paths == ("/a", "/b")


@pytest.mark.parametrize(
    "given",
    [{"seq_from": "-1"}, {"rows_per_partition": "0"}, {"payload": "yes"}, {"queues": "[1"}, {"path": "hdfs://x/y"}, {"newer": ""}],
)
def test_an_option_without_meaning_is_refused(given: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        parse(**given)
