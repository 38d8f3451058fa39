"""The export to Parquet: the same rows, in the folders that are promised, whole or not there, and not made twice."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from analysis.export import EXPORTED, SUCCESS_NAME, export, path_of
from analysis.tables.reader import Problem
from storage.installation import how_to_install
from storage.snapshots.manifest import find_snapshots, read_manifest
from supervisor.cli import export as cli_export
from supervisor.cli.main import cli
from tests.analysis.rows import rows_of, table
from tests.analysis.test_damage import copied, flip
from tests.support.made_snapshots.generate import Made
from wire.errors import StorageDamaged


def written(path: Path) -> list[dict[str, Any]]:
    """The rows of one file alone."""
    return rows_of(pq.ParquetFile(path).iter_batches())


def test_the_files_have_the_rows_of_the_tables(day: Made, tmp_path: Path) -> None:
    done = export(find_snapshots(day.snapshots[0].parent), tmp_path)

    assert done.files == 3 * len(EXPORTED)
    assert done.problems == 0
    for snapshot in day.snapshots:
        manifest = read_manifest(snapshot)
        for name in EXPORTED:
            path = path_of(tmp_path, name, manifest)
            date = datetime.fromtimestamp(manifest.at_ms / 1000, UTC).strftime("%Y-%m-%d")
            assert path == tmp_path / name / f"date={date}" / "node=box-1" / f"{snapshot.name}.{manifest.store_id[:8]}.parquet"
            expected = table(snapshot, name)
            for row in expected:
                assert row.pop("node") == "box-1"
            assert written(path) == expected
    assert json.loads((tmp_path / SUCCESS_NAME).read_text())["snapshots"] == 3
    assert list(tmp_path.rglob("*.part")) == []


def test_a_folder_of_files_is_read_as_one_table_with_date_and_node(day: Made, tmp_path: Path) -> None:
    done = export(find_snapshots(day.snapshots[0].parent), tmp_path, tables=["queues"])

    found = pq.read_table(tmp_path / "queues")

    assert found.num_rows == done.rows
    assert set(found["node"].cast(pa.string()).to_pylist()) == {"box-1"}
    assert set(found["date"].cast(pa.string()).to_pylist()) == {"2026-01-01", "2026-01-02"}


def test_what_is_there_is_not_made_again_unless_it_is_to_be_different(middle: Path, tmp_path: Path) -> None:
    found = find_snapshots(middle)
    first = export(found, tmp_path, tables=["messages", "queues"], payload=False)
    (path,) = (tmp_path / "messages").rglob("*.parquet")
    before = path.stat().st_mtime_ns

    second = export(found, tmp_path, tables=["messages", "queues"], payload=False)

    assert (first.files, second.files, second.there_already) == (2, 0, 2)
    assert path.stat().st_mtime_ns == before
    assert "payload" not in pq.read_schema(path).names

    path.write_bytes(path.read_bytes()[:-100])  # a copy that was cut
    assert export(found, tmp_path, tables=["messages"], payload=False).files == 1
    assert export(found, tmp_path, tables=["messages"]).files == 1
    assert "payload" in pq.read_schema(path).names


def test_damage_leaves_no_file_or_is_told_and_the_file_is_made_again_next_time(middle: Path, tmp_path: Path) -> None:
    snapshot = copied(middle, tmp_path / "in")
    flip(snapshot)
    found = find_snapshots(snapshot)
    problems: list[Problem] = []

    with pytest.raises(StorageDamaged, match="not all snapshots could be read; the others are exported"):
        export([*found, *find_snapshots(middle)], tmp_path / "out", tables=["messages"], on_problem=problems.append)
    assert {problem.path for problem in problems} == {str(snapshot)}
    (sound,) = (tmp_path / "out").rglob("*.parquet*")
    assert not (tmp_path / "out" / SUCCESS_NAME).exists()
    sound.unlink()

    problems.clear()
    done = export(found, tmp_path / "out", tables=["messages"], damaged="skip", on_problem=problems.append)
    assert problems
    assert done.problems == len(problems)
    assert done.rows > 0
    assert export(found, tmp_path / "out", tables=["messages"], damaged="skip").files == 1


def test_the_command_exports_and_says_what(day: Made, tmp_path: Path) -> None:
    words = ["export", str(day.snapshots[0].parent), "--to", str(tmp_path), "--tables", "queues,events", "--no-payload", "--json"]

    ran = CliRunner().invoke(cli, words, standalone_mode=False)

    assert ran.exception is None
    facts = json.loads(ran.stdout)
    assert (facts["files"], facts["problems"]) == (6, [])
    assert facts["rows"] == sum(len(table(path, name)) for path in day.snapshots for name in ("queues", "events"))


def test_a_table_that_is_not_there_is_named(middle: Path, tmp_path: Path) -> None:
    ran = CliRunner().invoke(cli, ["export", str(middle), "--to", str(tmp_path), "--tables", "queues,nothing"])

    assert "there is no table 'nothing'; there are messages," in ran.output
    assert ran.exit_code == 2


def test_without_the_extra_the_command_says_what_to_install(middle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli_export, "find_spec", lambda name: None)

    ran = CliRunner().invoke(cli, ["export", str(middle), "--to", str(tmp_path)], standalone_mode=False)

    assert how_to_install("report") in str(ran.exception)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("where", ["s3://bucket/tables", "hdfs://box:8020/x", "S3A://bucket"])
def test_a_place_that_is_no_file_system_is_refused_by_name(
    middle: Path, tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And makes no folder of that name."""
    monkeypatch.chdir(tmp_path)
    for words in (
        ["export", str(middle), "--to", where],
        ["export", where, "--to", "out"],
        ["snapshot", "make", "node.yaml", "--to", where],
        ["snapshot", "verify", where],
        ["backup", "node.yaml", "--to", where],
        ["restore", "node.yaml", where],
        ["queue", "export", "node.yaml", "cloud", "--to", where],
        ["demo", "--keep", where],
        ["export", str(middle), where, "--to", "out"],
    ):
        ran = CliRunner().invoke(cli, words)

        assert f"{where!r} is not in a file system" in ran.output + str(ran.exception), words
        assert ran.exit_code != 0
        assert [path.name for path in tmp_path.iterdir() if ":" in path.name] == []


def test_a_file_url_is_a_path(middle: Path, tmp_path: Path) -> None:
    to = tmp_path / "two words"

    ran = CliRunner().invoke(cli, ["export", middle.as_uri(), "--to", to.as_uri(), "--tables", "queues"], standalone_mode=False)

    assert ran.exception is None
    assert (to / SUCCESS_NAME).exists()
