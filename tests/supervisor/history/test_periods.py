"""Periods of the history: each is what its minutes were, and an answer is bounded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from storage.node_history import HistoryFolder, LaneMinute, NodeMinute
from supervisor.history import periods
from supervisor.history.periods import Question, history_of
from wire.frames.names import LaneName
from wire.status.answers import History

CLOUD, FAST, MIRROR = LaneName("cloud", 0), LaneName("cloud", "urgent"), LaneName("mirror", 0)
HOUR_MS = 3_600_000
BEGIN_MS = 472_222 * HOUR_MS
NODE = NodeMinute(600, 3, 0, 6.0, 40 << 20, 1 << 30)


def lane(depth: int | None, **other: Any) -> LaneMinute:
    return LaneMinute(depth, None if depth is None else depth * 10, 60, 30, 1, None, None, None, 0.0)._replace(**other)


def ask(folder: HistoryFolder, until_ms: int, *, step_s: float = 0.0, bridge: str | None = None) -> History:
    question = Question(since_ms=BEGIN_MS, until_ms=until_ms, step_s=step_s, bridge=bridge)
    return history_of(question, lambda: folder.minutes(BEGIN_MS, until_ms), 60.0, folder.since_ms)


def fill(folder: HistoryFolder, minutes: int, *names: LaneName) -> None:
    for minute in range(1, minutes + 1):
        lanes = {name: lane(minute) for name in names}
        folder.add(BEGIN_MS + minute * 60_000, 60.0, NODE, lanes, keep_s=1e9, max_bytes=1 << 30)


def test_a_period_has_least_most_and_last_of_levels_and_the_mean_of_rates(tmp_path: Path) -> None:
    folder = HistoryFolder(tmp_path)
    rows = [lane(5, age_s=3.5, p99_s=0.25), lane(None), lane(2, age_s=1.0, p99_s=2.5, down_s=30.0, lost=4), lane(9)]
    for minute, row in enumerate(rows, 1):
        folder.add(BEGIN_MS + minute * 60_000, 60.0, NODE, {CLOUD: row}, keep_s=1e9, max_bytes=1 << 30)

    found = ask(folder, BEGIN_MS + HOUR_MS, step_s=180.0)

    assert (found.step_s, found.at_ms, found.seconds) == (300.0, (BEGIN_MS,), (240.0,))
    (one,) = found.lanes
    assert (one.bridge, one.lane) == CLOUD
    assert (one.depth, one.depth_min, one.depth_max, one.bytes) == ((9,), (2,), (9,), (90,))
    assert (one.rate_in, one.rate_out, one.lost, one.down_s) == ((1.0,), (0.5,), (7,), (30.0,))
    assert (one.age_s, one.latency_p50_s, one.latency_p99_s) == ((3.5,), (None,), (2.5,))
    assert (found.node.published_rate, found.node.cpu, found.node.clients) == ((10.0,), (0.1,), (3,))


def test_minutes_are_told_one_by_one_where_they_fit_and_those_not_on_record_are_left_out(tmp_path: Path) -> None:
    folder = HistoryFolder(tmp_path)
    fill(folder, 3, CLOUD)
    folder.add(BEGIN_MS + 10 * 60_000, 60.0, NODE, {CLOUD: lane(77), FAST: lane(1)}, keep_s=1e9, max_bytes=1 << 30)

    found = ask(folder, BEGIN_MS + 12 * 60_000)

    assert [(at_ms - BEGIN_MS) // 60_000 for at_ms in found.at_ms] == [0, 1, 2, 9]
    assert [(each.lane, each.depth) for each in found.lanes] == [(0, (1, 2, 3, 77)), ("urgent", (None, None, None, 1))]
    assert found.kept_since_ms == BEGIN_MS + 60_000


def test_one_bridge_is_told_alone(tmp_path: Path) -> None:
    folder = HistoryFolder(tmp_path)
    fill(folder, 2, CLOUD, MIRROR, FAST)

    assert [each.lane for each in ask(folder, BEGIN_MS + HOUR_MS, bridge="cloud").lanes] == [0, "urgent"]
    assert ask(folder, BEGIN_MS + HOUR_MS, bridge="gone").lanes == ()


def test_the_more_is_asked_for_the_longer_are_its_periods(tmp_path: Path) -> None:
    folder = HistoryFolder(tmp_path)
    lanes = [LaneName(f"b{number}", 0) for number in range(100)]
    fill(folder, 120, *lanes)

    whole, one = ask(folder, BEGIN_MS + 2 * HOUR_MS), ask(folder, BEGIN_MS + 2 * HOUR_MS, bridge="b7")

    assert len(whole.lanes) * len(whole.at_ms) <= periods.ROWS_MAX
    assert (whole.step_s, one.step_s, len(one.at_ms)) == (300.0, 60.0, 120)
    assert {each.depth for each in whole.lanes} == {tuple(range(5, 121, 5))}


def test_an_answer_that_would_read_too_much_begins_later(tmp_path: Path) -> None:
    folder = HistoryFolder(tmp_path)
    lanes = [LaneName(f"b{number}", 0) for number in range(1000)]
    fill(folder, 250, *lanes)

    found = ask(folder, BEGIN_MS + 250 * 60_000)

    read = periods.READ_MAX // 1001
    assert found.since_ms == BEGIN_MS + (250 - read) * 60_000
    assert sum(found.seconds) == read * 60.0
    assert found.kept_since_ms == BEGIN_MS + 60_000
