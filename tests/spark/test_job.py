"""How the report's program starts Spark: fast where there is little to read, as it is for much, or for what is not known."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis import job
from tests.spark.nodes import Edge


def test_little_is_known_as_little_and_all_else_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    edge = Edge(tmp_path / "store")
    with edge.model:
        edge.publish(100)
        edge.snapshot(tmp_path / "there")

    assert job.is_small([str(tmp_path / "there")])
    assert not job.is_small([str(tmp_path / "nowhere")])
    assert not job.is_small(["s3a://bucket/snapshots", str(tmp_path / "there")])

    monkeypatch.setattr(job, "SMALL_BYTES", 100)
    assert not job.is_small([str(tmp_path / "there")])
