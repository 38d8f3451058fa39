"""``bascule report --spark``, and when Spark makes a report without being asked."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from analysis.job import main
from tests.support import programs
from tests.support.made_snapshots.generate import Made, Wanted, generate
from tests.support.node import ROOT, bascule

pytestmark = pytest.mark.usefixtures("spark")


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A node of which everything adds up."""
    return generate(Wanted(messages=300, snapshots=1, seed=9), tmp_path_factory.mktemp("sound"))


def test_without_java_the_command_says_what_to_install(sound: Made, tmp_path: Path) -> None:
    environment = {**os.environ, "PATH": str(tmp_path)}
    environment.pop("JAVA_HOME", None)

    done = programs.run([*bascule("report"), "--spark", str(sound.snapshots[0])], cwd=ROOT, env=environment, timeout_s=60.0)

    assert done.returncode == 78
    assert "Spark runs in Java, and there is none on PATH or in JAVA_HOME" in done.stderr
    assert "apt-get install openjdk-17-jre-headless" in done.stderr
    assert "bascule report without --spark needs no Java" in done.stderr
    assert "Traceback" not in done.stderr


def test_another_spark_of_the_environment_is_not_used(sound: Made, forked_python: Path, tmp_path: Path) -> None:
    """The command as the guide has it, with one report; a soak makes them all, as its page says."""
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text("spark.sql.shuffle.partitions nonsense\n")
    foreign = {"SPARK_HOME": str(tmp_path / "nowhere"), "SPARK_CONF_DIR": str(tmp_path / "conf"), "SPARK_REMOTE": "sc://nowhere"}
    words = [*bascule("report"), str(sound.snapshots[0]), "--to", "made", "--spark", "--check", "--report", "topics"]
    words += ["--cores", "1", "--memory-mb", "768"]

    done = programs.run(words, cwd=tmp_path, env={**os.environ, **foreign, "PYSPARK_PYTHON": str(forked_python)}, timeout_s=240.0)

    assert done.returncode == 0, done.stderr
    assert (tmp_path / "made" / "report.html").stat().st_size


def test_an_executor_that_lacks_something_is_one_line(
    spark: SparkSession, sound: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    lacking = tmp_path / "lacking"
    (tmp_path / "less").mkdir()
    (tmp_path / "less" / "rocksdict.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'rocksdict'\", name='rocksdict')\n"
    )
    lacking.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path}/less:$PYTHONPATH exec {sys.executable} "$@"\n')
    lacking.chmod(0o755)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(lacking))  # the next report tells Spark so when it begins

    status = main([str(sound.snapshots[0]), "--spark", "--report", "topics"])

    said = capfd.readouterr().err
    assert status == 78
    assert 'the data source "bascule" needs rocksdict' in said
    assert said.splitlines()[1:] == [line for line in said.splitlines() if "rocksdict" in line], said


def test_a_written_report_is_for_its_owner(sound: Made, tmp_path: Path) -> None:
    """Hadoop gives what Spark writes modes of its own."""
    before = os.umask(0)
    try:
        assert main([str(sound.snapshots[0]), "--spark", "--report", "topics", "--to", str(tmp_path / "report")]) == 0
    finally:
        os.umask(before)
    made = [tmp_path / "report", *(tmp_path / "report").rglob("*")]
    assert len(made) > 5
    assert {path.stat().st_mode & 0o777 for path in made if path.is_dir()} == {0o700}
    assert {path.stat().st_mode & 0o777 for path in made if path.is_file()} == {0o600}
