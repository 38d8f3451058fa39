"""``bascule report`` as it is called, without Java: exit statuses, periods, damage that is left out, a node's own snapshots."""

from __future__ import annotations

import os
import shutil
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from analysis.job import main
from analysis.reports.report_model import Report, Section
from analysis.tables.reader import read_table
from storage.installation import how_to_install
from storage.snapshots.manifest import MANIFEST_NAME, find_snapshots, read_manifest
from supervisor.cli.main import main as bascule_main
from tests.analysis.report_plain import facts, latencies, percentile
from tests.support import programs
from tests.support.made_snapshots.generate import Made, Wanted, generate
from tests.support.node import bascule

Row = dict[str, Any]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A node of which everything adds up."""
    return generate(Wanted(messages=1500, snapshots=3, seed=9), tmp_path_factory.mktemp("sound"))


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, Report]:
    status = main([*map(str, words), "--format", "json"])
    return status, Report.from_json(capsys.readouterr().out)


def rows_of(section: Section) -> list[Row]:
    return [dict(zip((column.name for column in section.columns), row, strict=True)) for row in section.rows]


def test_a_period_is_kept_to_and_the_check_passes(sound: Made, capsys: pytest.CaptureFixture[str]) -> None:
    """``--until`` takes the newest snapshot up to then; ``--since`` cuts the history."""
    found = [one for path in sound.snapshots for one in find_snapshots(path)]
    middle = read_manifest(sound.snapshots[1])
    tables = {
        name: [row for batch in read_table(found[:2], name) for row in batch.to_pylist()]
        for name in ("snapshots", "queues", "messages", "settlements", "events")
    }
    until: datetime = tables["snapshots"][-1]["snapshot_at"] + timedelta(hours=1)
    since = until - timedelta(hours=9)
    known = facts(tables)

    words = ("--since", since.isoformat(), "--until", until.isoformat(), "--check")
    reports = ("--report", "reconciliation", "--report", "latency", "--report", "topics")
    status, report = run(capsys, *sound.snapshots, *words, *reports)

    assert status == 0
    assert report.headline == "Everything adds up."
    assert [one.snapshot_id for one in report.snapshots if one.newest] == [middle.id]
    topics = Counter(row["topic"] for row in known.messages if since <= row["accepted_at"] < until)
    assert {row["topic"]: row["messages"] for row in rows_of(report.section("topics"))} == topics
    assert topics.total() < len(known.messages)
    window = range(int(since.timestamp()), int(until.timestamp()))
    delivered = [one for one in latencies(known) if one[2] in window]
    assert 0 < len(delivered) < len(latencies(known))
    for row in rows_of(report.section("latency")):
        took = sorted(ms for _, bridge, _, ms, jumped in delivered if bridge == row["bridge"] and not jumped and ms >= 0)
        assert row["messages"] == len(took)
        assert row["p99_s"] == pytest.approx(percentile(took, 0.99) / 1000, abs=1e-6)


def flip(path: Path, at: float) -> None:
    content = bytearray(path.read_bytes())
    middle = int(len(content) * at)
    content[middle : middle + 16] = bytes(value ^ 0xFF for value in content[middle : middle + 16])
    path.write_bytes(content)


def test_a_period_is_typed_as_for_every_command(sound: Made, capsys: pytest.CaptureFixture[str]) -> None:
    """A number of milliseconds is the same time as its text; so long ago and a time of the day are taken as well."""

    def of_bascule(*period: str) -> Report:
        assert bascule_main(["report", *map(str, sound.snapshots), "--format", "json", "--report", "latency", *period]) == 0
        return Report.from_json(capsys.readouterr().out)

    (newest,) = find_snapshots(sound.snapshots[-1])
    assert newest.manifest is not None
    at_ms = newest.manifest.at_ms - 1
    at = datetime.fromtimestamp(at_ms / 1000, UTC).isoformat()
    _, known = run(capsys, *sound.snapshots, "--report", "latency", "--until", at)

    assert of_bascule("--until", str(at_ms)).snapshots == of_bascule("--until", at).snapshots == known.snapshots
    assert of_bascule().snapshots != known.snapshots
    assert of_bascule("--since", "10m", "--until", "0s").section("latency").rows == ()
    assert of_bascule("--since", "yesterday 14:00").section("latency").rows == ()

    assert bascule_main(["report", str(sound.snapshots[0]), "--since", "soon"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert '"soon" is not a time; write it such as 24h for so long ago, 14:00' in said


def test_damage_is_refused_or_left_out_by_name(sound: Made, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole, hurt, no_manifest = (tmp_path / path.name for path in sound.snapshots)
    for path in sound.snapshots:
        shutil.copytree(path, tmp_path / path.name)
    for pattern, at in (("*.sst", 0.3), ("OPTIONS-*", 0.5)):  # what a store says of its options is not needed
        flip(max((hurt / "store").glob(pattern), key=lambda each: each.stat().st_size), at)
    assert main([str(whole), str(hurt), "--report", "topics", "--format", "json"]) == 65
    said = capsys.readouterr()
    assert "the report is made without what cannot be read" in said.err
    assert {problem.path for problem in Report.from_json(said.out).problems} == {str(hurt)}
    (no_manifest / MANIFEST_NAME).write_text("{")
    assert main([str(no_manifest), str(whole), "--report", "topics"]) == 65
    assert str(no_manifest) in capsys.readouterr().err

    status, report = run(capsys, tmp_path, "--report", "topics", "--damaged", "skip", "--check")

    assert status == 1
    assert {problem.path for problem in report.problems} == {str(hurt), str(no_manifest)}
    assert any("sequences" in problem.why and problem.queue for problem in report.problems if problem.path == str(hurt))
    assert "could not be read and are missing here" in report.headline


def test_no_snapshot_and_wrong_usage_have_statuses_of_their_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 75
    assert main([str(tmp_path), "--format", "html"]) == 2
    assert "want --to DIR" in capsys.readouterr().err


def test_a_folder_that_cannot_be_written_is_named(sound: Made, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_bytes(b"")

    assert main([str(sound.snapshots[0]), "--to", str(tmp_path / "file" / "below")]) == 75
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.endswith(
        f"{tmp_path}/file/below cannot be written: not a directory; a file has the name of a folder: give another place"
    )


def test_without_duckdb_one_is_told_how_to_install_it(
    sound: Made, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "analysis.engines.duckdb_engine", raising=False)
    monkeypatch.setitem(sys.modules, "duckdb", None)

    status = main([str(sound.snapshots[0])])

    said = capsys.readouterr().err.splitlines()
    assert status == 78
    assert said[-1].endswith(f"a report needs duckdb: {how_to_install('report')}")


@pytest.mark.process
def test_no_java_is_started_and_the_first_line_says_what_is_read(sound: Made, tmp_path: Path) -> None:
    """As on a box that has none; what Spark would need is not imported."""
    java = tmp_path / "java"
    java.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n")
    java.chmod(0o755)
    environment = {**os.environ, "PATH": str(tmp_path), "JAVA_HOME": "", "PYTHONPROFILEIMPORTTIME": "1"}

    done = programs.run([*bascule("report"), str(sound.snapshots[-1])], env=environment, timeout_s=60.0)

    lines = [line for line in done.stderr.splitlines() if not line.startswith("import time:")]
    assert done.returncode == 0, lines
    assert lines[0].startswith("1 snapshot of 1 node (")
    assert done.stdout.startswith("ok ") or "Everything adds up." in done.stdout
    assert not (tmp_path / "started").exists()
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    assert "duckdb" in imported
    assert not imported & {"pyspark", "py4j"}


def test_a_written_report_is_for_its_owner(sound: Made, tmp_path: Path) -> None:
    """Also of the folders that are made on the way."""
    before = os.umask(0)
    try:
        assert main([str(sound.snapshots[0]), "--report", "topics", "--to", str(tmp_path / "report")]) == 0
    finally:
        os.umask(before)
    made = [tmp_path / "report", *(tmp_path / "report").rglob("*")]
    assert len(made) > 5
    assert {path.stat().st_mode & 0o777 for path in made if path.is_dir()} == {0o700}
    assert {path.stat().st_mode & 0o777 for path in made if path.is_file()} == {0o600}
