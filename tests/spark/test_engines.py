"""DuckDB and Spark give one answer: every report, and every row behind it, of the same snapshots."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from analysis.engines.duckdb_engine import DuckDbEngine
from analysis.engines.engine import Engine
from analysis.engines.spark_engine import SparkEngine
from analysis.reports.build import Finished, build
from analysis.reports.context import Context, Source
from analysis.reports.sources import open_source
from tests.analysis.report_rows import QUEUE, at, exported, rounded, trouble
from tests.spark.nodes import Edge, copy_of
from tests.storage.commanding import command
from tests.support.made_snapshots.generate import Wanted, generate

Rows = Mapping[str, list[str]]


@pytest.fixture(scope="module")
def awkward(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Callable[[], Source]]:
    """Sources that have between them: overlapping snapshots, a loss and a duplicate, a jump of the clock, dead letters that are
    held, replayed and purged, two stores of one name, links that flap, numbers that are missing, latencies that cannot be.
    """
    folder = tmp_path_factory.mktemp("awkward")
    wanted = Wanted(messages=600, nodes=2, snapshots=3, seed=5, plant_loss=True, plant_duplicate=True)
    made = generate(wanted, folder / "planted")
    edge = Edge(folder / "store")
    with edge.model:
        edge.publish(10, plant=3)
        edge.deliver(6)
        command(edge.model.store, "replay", bridge="cloud", now_s=edge.model.now_s)
        command(edge.model.store, "purge", bridge="plant", now_s=edge.model.now_s)
        first = edge.snapshot(folder / "there")
        edge.publish(5)
        edge.deliver(2)
        edge.snapshot(folder / "there")
    copy_of(first, folder / "there", "edge", edge.model.wall_ms + 9_000, store_id="a" * 32)
    rows = trouble(seed=11)
    for seq, (accepted, settled) in enumerate([(0, 2), (90, 205), (300, 299), (400, 404), (401, 404)]):
        rows.message(QUEUE, seq, accepted, state="settled", outcome="delivered", settled_at=at(settled))
    rows.event(5000, 200, "clock.jumped", details='{"by_ms": 100000}')
    exported(rows, folder / "trouble")
    return {
        "snapshots": lambda: open_source([*map(str, made.snapshots), str(folder / "there")]),
        "exports": lambda: open_source([str(folder / "trouble")]),
    }


@pytest.fixture
def engines(spark: SparkSession) -> Iterator[tuple[Engine, Engine]]:
    both = DuckDbEngine(), SparkEngine(spark)
    yield both
    for each in both:
        each.release()


@pytest.mark.parametrize("name", ["snapshots", "exports"])
def test_both_engines_give_the_same_report_and_the_same_rows(
    name: str, awkward: dict[str, Callable[[], Source]], engines: tuple[Engine, Engine], tmp_path: Path
) -> None:
    finished = [build(Context(engine, awkward[name]()), made_at_ms=0) for engine in engines]

    duck, spark = (rounded(each.report) for each in finished)
    assert duck["headline"] == spark["headline"]
    for mine, other in zip(duck["sections"], spark["sections"], strict=True):
        assert mine == other
    assert duck == spark
    mine, other = (rows_of(engine, each) for engine, each in zip(engines, finished, strict=True))
    assert mine.keys() == other.keys()
    for frame, rows in mine.items():
        assert rows == other[frame], frame
    assert sum(map(len, mine.values())) > 50
    first, second = (_written(engine, each, tmp_path / engine.name) for engine, each in zip(engines, finished, strict=True))
    assert first.num_rows == second.num_rows > 1
    assert {each.name: each.type for each in first.schema} == {each.name: each.type for each in second.schema}


def _written(engine: Engine, finished: Finished, folder: Path) -> pa.Table:
    """A frame with columns of all kinds, as it is in files by day and node."""
    engine.write_parquet(finished.frames["growth"], str(folder))
    return pq.read_table(folder)


def rows_of(engine: Engine, finished: Finished) -> Rows:
    """All rows of each frame, in an order of their own: no engine promises one."""
    return {
        name: sorted(repr(sorted((column, _plain(value)) for column, value in row.items())) for row in found)
        for name, frame in finished.frames.items()
        for found in [engine.collect(f"SELECT * FROM {frame.name}")]
    }


def _plain(value: Any) -> Any:
    if isinstance(value, date):
        return value.isoformat()
    return f"{float(value) + 0.0:.9g}" if isinstance(value, int | float) and not isinstance(value, bool) else value
