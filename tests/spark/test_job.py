"""Which engine makes a report, and how Spark starts: fast where there is little to read, else for much."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from analysis import job
from analysis.reports.sources import ExportSource, open_source
from analysis.spark.session import JavaMissing
from tests.spark.nodes import Edge, copy_of


def given(**values: object) -> argparse.Namespace:
    return argparse.Namespace(**({"spark": False, "to": None} | values))


def no_java() -> int:
    raise JavaMissing("there is none")


def test_spark_is_for_fleets_for_what_is_far_away_and_for_who_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    edge = Edge(tmp_path / "store")
    with edge.model:
        edge.publish(100)
        snapshot = edge.snapshot(tmp_path / "there")
    copy_of(snapshot, tmp_path / "fleet", "edge", 1_790_000_000_000)
    copy_of(snapshot, tmp_path / "fleet", "other", 1_790_000_000_000)
    one, fleet = (open_source([str(tmp_path / name)]) for name in ("there", "fleet"))
    monkeypatch.setattr(job, "java_version", lambda: 17)

    assert not job.wants_spark(one, given())
    assert job.wants_spark(one, given(spark=True))
    assert job.wants_spark(one, given(to="s3a://bucket/reports"))
    assert job.wants_spark(ExportSource(["s3a://bucket/tables"]), given())
    assert job.wants_spark(fleet, given())
    monkeypatch.setattr(job, "java_version", no_java)
    assert not job.wants_spark(fleet, given()), "DuckDB gives the same answer"
    assert job.wants_spark(fleet, given(spark=True)), "and says then what is missing"
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert job.wants_spark(one, given())


def test_little_is_known_as_little_and_all_else_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    edge = Edge(tmp_path / "store")
    with edge.model:
        edge.publish(100)
        edge.snapshot(tmp_path / "there")
    source = open_source([str(tmp_path / "there")])

    assert job.is_small(source)
    assert not job.is_small(ExportSource(["s3a://bucket/tables"]))

    monkeypatch.setattr(job, "SMALL_BYTES", 100)
    assert not job.is_small(source)
