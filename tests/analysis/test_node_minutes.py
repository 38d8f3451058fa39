"""The minutes that a node has on record, in a report: what they add up to, and where they are drawn."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.job import main
from analysis.node_minutes import section
from analysis.reports.context import EVER, Period
from analysis.reports.report_model import Report
from storage.node_history import HistoryFolder, LaneMinute, NodeMinute
from tests.support.made_snapshots.generate import Wanted, generate
from wire.frames.names import LaneName

NODE = NodeMinute(published=120, clients=3, sessions_depth=0, cpu_s=1.5, memory_bytes=40 << 20, disk_free_bytes=1 << 40)
NOON_MS = 1_780_315_200_000


def lane(
    depth: int, accepted: int, delivered: int, *, lost: int = 0, p99_s: float | None = None, down_s: float = 0.0
) -> LaneMinute:
    return LaneMinute(
        depth=depth,
        bytes=depth,
        accepted=accepted,
        delivered=delivered,
        lost=lost,
        age_s=None,
        p50_s=p99_s,
        p99_s=p99_s,
        down_s=down_s,
    )


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """Ten minutes, then an hour in which the node did not run, then ten more: a bridge of two lanes, and one that stood still."""
    folder = HistoryFolder(tmp_path)
    for minute in (*range(10), *range(70, 80)):
        down_s = 60.0 if minute == 5 else 0.0
        lanes = {
            LaneName("cloud", 0): lane(minute, 60, 30, p99_s=0.25 if minute else None, down_s=down_s),
            LaneName("cloud", "urgent"): lane(100 if minute == 5 else 0, 6, 6, lost=int(minute == 5), p99_s=0.5, down_s=down_s / 2),
            LaneName("still", 0): LaneMinute(None, None, None, None, None, None, None, None, None),
        }
        folder.add(NOON_MS + (minute + 1) * 60_000, 60.0, NODE, lanes, keep_s=1e9, max_bytes=1 << 30)
    return tmp_path


def test_the_minutes_add_up_by_bridge_and_are_drawn_where_they_are(data_dir: Path) -> None:
    made = section(data_dir, EVER)

    cloud, still = (dict(zip((column.name for column in made.columns), row, strict=True)) for row in made.rows)
    assert cloud == {
        "bridge": "cloud", "watched_s": 1200.0, "waiting": 105, "waiting_at": NOON_MS + 5 * 60_000, "accepted": 1320,
        "delivered": 720, "lost": 1, "p99_s": 0.5, "down_s": 60.0,
    }  # fmt: skip
    assert (still["waiting"], still["accepted"], still["p99_s"], still["down_s"]) == (0, 0, None, 0.0)
    assert made.summary == (
        "Since 2026-06-01 12:00:00 UTC 1,320 messages accepted, 720 delivered, 1 ended otherwise; most waited for cloud about"
        " 2026-06-01 12:05:00 UTC: 105; the link of cloud was down for 1 min."
    )
    waiting, rates, slow, down = made.charts
    assert waiting.x == tuple(range(NOON_MS, NOON_MS + 80 * 60_000, 60_000))
    assert waiting.series[0].values == (*range(5), 105, *range(6, 10), *(60 * (None,)), *range(70, 80))
    assert [series.values[0] for series in rates.series] == [1.1, 0.6]
    assert rates.series[0].values[10] is None, "the node did not run"
    assert slow.series[0].values[0] == 0.5
    assert slow.series[1].values[:10] == (None,) * 10
    assert down.series[0].values[4:7] == (0.0, 100.0, 0.0)


def test_a_period_and_an_empty_record_are_kept_to(data_dir: Path, tmp_path: Path) -> None:
    some = section(data_dir, Period(since_us=(NOON_MS + 70 * 60_000) * 1000))
    assert some.rows[0][4] == 660

    nothing = section(tmp_path / "none", EVER)
    assert (nothing.summary, nothing.rows, nothing.charts) == ("Nothing is on record.", (), ())


def test_a_report_ends_with_the_minutes_of_the_node(data_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (snapshot,) = generate(Wanted(messages=200, snapshots=1, seed=3), tmp_path / "made").snapshots

    assert main([str(snapshot), "--data-dir", str(data_dir), "--format", "json"]) == 0

    report = Report.from_json(capsys.readouterr().out)
    assert report.sections[-1] == section(data_dir, EVER)
