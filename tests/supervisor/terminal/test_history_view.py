"""The past on a terminal: a block a period, and figures that fit."""

from __future__ import annotations

import io
import re
import sys
from dataclasses import replace
from typing import Any

import pytest

from supervisor.terminal.history_view import print_history, spark, step_for
from wire.figure import of_map
from wire.status.answers import History

HOUR_MS = 3_600_000
BEGIN_MS = 472_222 * HOUR_MS
AT = [0, 1, 2, 3, 6, 7]  # the node did not run in between


def history(**of_lane: Any) -> History:
    rows = {
        "depth": [0, 10, 40, 0, None, 7],
        "depth_min": [0, 2, 10, 0, None, 7],
        "depth_max": [0, 10, 80, 40, None, 7],
        "rate_in": [1.0, 2.0, 12345.0, 0.25, None, 0.0],
        "rate_out": [1.0, 1.5, 0.0, 2.0, None, 0.0],
        "down_s": [0.0, 0.0, 3600.0, 120.0, None, 0.0],
        "lost": [0, 0, 5, 1, None, 0],
        "age_s": [None, 1.0, 3600.0, 2.0, None, None],
        "latency_p50_s": [0.05, 0.05, None, 0.5, None, None],
        "latency_p99_s": [0.1, 0.1, None, 2.5, None, None],
        "bytes": [0] * 6,
        **of_lane,
    }
    node = {name: [1, 2, 3, 2, 1, 3] for name in ("published_rate", "clients", "sessions_depth", "memory_bytes", "disk_free_bytes")}
    return of_map(
        History,
        {
            "since_ms": BEGIN_MS,
            "until_ms": BEGIN_MS + 8 * HOUR_MS,
            "kept_since_ms": BEGIN_MS,
            "step_s": 3600.0,
            "at_ms": [BEGIN_MS + hour * HOUR_MS for hour in AT],
            "seconds": [3600.0] * len(AT),
            "node": node | {"cpu": [0.1, 0.2, 0.35, 0.1, 0.1, 0.1]},
            "lanes": [{"bridge": "cloud", "lane": lane, **rows} for lane in (0, "urgent")],
        },
    )


def printed(found: History, columns: int, monkeypatch: pytest.MonkeyPatch, **keys: Any) -> str:
    """What a terminal of that width shows."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", str(columns))
    shown = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    monkeypatch.setattr(sys, "stdout", shown)
    print_history(found, **keys)
    monkeypatch.undo()
    shown.seek(0)
    return re.sub(r"\x1b\[[0-9;]*m", "", shown.read())


def test_a_period_that_is_not_on_record_has_no_block_and_the_most_has_the_highest() -> None:
    found = history()

    assert spark(found, found.lanes[0].depth_max) == "▁▂█▅   ▂"
    assert spark(found, [0.0, 0.0, 0.0, 0.0, None, 0.0]) == "▁▁▁▁   ▁"


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_the_past_of_all_lanes_fits_the_terminal_and_what_does_not_is_named(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = printed(history(), columns, monkeypatch)

    lines = shown.splitlines()
    assert max(map(len, lines)) <= columns
    (lane,) = [line for line in lines if line.startswith("cloud:urgent")]
    assert "▁▂█▅   ▂" in lane
    assert {"80", "7"} < set(lane.split())
    assert ("too narrow for:" in shown) == (columns < 80)
    assert "nothing is on record of 2 h of it" in shown
    assert "CPU at most 35.0% of a core" in shown


@pytest.mark.parametrize("columns", [60, 80])
def test_a_bridge_alone_is_shown_period_by_period(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = printed(history(), columns, monkeypatch, bridge="cloud")

    assert max(map(len, shown.splitlines())) <= columns
    row, other = [line.split() for line in shown.splitlines() if line.startswith("11-15 00:00")]
    assert row[2:7] == ["10", "80", "40", "12.3k", "0"]
    assert row == other


def test_a_time_of_which_nothing_is_kept_says_since_when_there_is_something(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = replace(history(), at_ms=(), lanes=(), seconds=())

    assert "nothing is on record of that time; the first is of 2023-11-14 22:00:00Z" in printed(nothing, 80, monkeypatch)


def test_a_terminal_without_blocks_gets_other_signs(monkeypatch: pytest.MonkeyPatch) -> None:
    found = history()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="latin-1"))

    assert spark(found, found.lanes[0].depth_max) == "_.#=   ."


def test_a_terminal_asks_for_as_many_periods_as_it_has_room_for() -> None:
    assert step_for(BEGIN_MS, BEGIN_MS + 24 * HOUR_MS) == "3600s"
    assert step_for(BEGIN_MS, BEGIN_MS + 1000) == "1s"


def test_a_record_that_begins_later_than_was_asked_for_says_where(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = history()
    later = replace(asked, kept_since_ms=BEGIN_MS + 1)

    assert "record begins" not in printed(asked, 80, monkeypatch)
    assert "Z, where the record begins, a block is 1h" in printed(later, 80, monkeypatch)
