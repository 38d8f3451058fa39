"""What a node has on record of each minute: what waited, came and went, how slow it was, and how long its links did not stand.

Read from the node's own data folder, not from snapshots, so it is there for the node of a report by CONFIG alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from analysis.engines.engine import Row
from analysis.reports.context import Period, utc
from analysis.reports.report_model import Chart, Column, Section, Series
from analysis.reports.report_parts import SERIES_SHOWN, duration, plural, table
from analysis.reports.snapshot_choice import bucket_s
from storage.node_history import LaneMinute, read_minutes

NAME = "history"
_EVER_MS = 1 << 62
_COLUMNS = (
    Column(name="bridge", title="Bridge", kind="text"),
    Column(name="watched_s", title="On record", kind="duration_s"),
    Column(name="waiting", title="Most waiting", kind="count"),
    Column(name="waiting_at", title="Most waiting from", kind="time"),
    Column(name="accepted", title="Accepted", kind="count"),
    Column(name="delivered", title="Delivered", kind="count"),
    Column(name="lost", title="Ended otherwise", kind="count"),
    Column(name="p99_s", title="Worst p99 of a minute", kind="duration_s"),
    Column(name="down_s", title="Link down", kind="duration_s"),
)


@dataclass(slots=True)
class MinutesOfBridge:
    """A bridge in some time. Of several lanes: what waits and ends is their sum, what is slow or down the worst of them."""

    seconds: float = 0.0
    waiting: int = 0
    accepted: int = 0
    delivered: int = 0
    lost: int = 0
    p99_s: float | None = None
    down_s: float = 0.0

    def add(self, seconds: float, lanes: list[LaneMinute]) -> None:
        """Another minute of its lanes."""
        self.seconds += seconds
        self.waiting = max(self.waiting, sum(lane.depth or 0 for lane in lanes))
        self.accepted += sum(lane.accepted or 0 for lane in lanes)
        self.delivered += sum(lane.delivered or 0 for lane in lanes)
        self.lost += sum(lane.lost or 0 for lane in lanes)
        self.p99_s = max((p99_s for p99_s in (self.p99_s, *(lane.p99_s for lane in lanes)) if p99_s is not None), default=None)
        self.down_s += max(lane.down_s or 0.0 for lane in lanes)


def section(data_dir: Path, period: Period) -> Section:
    """The record of the node in ``data_dir``, in the ``period``.

    Raises:
        OSError: the disk refuses.
    """
    since_ms = 0 if period.since_us is None else period.since_us // 1000
    until_ms = _EVER_MS if period.until_us is None else period.until_us // 1000
    times = [minute.at_ms for minute in read_minutes(data_dir, since_ms, until_ms)]
    width_ms = 1000 * max(60, bucket_s((max(times) - min(times)) / 1000)) if times else 60_000
    by_time: dict[str, dict[int, MinutesOfBridge]] = defaultdict(lambda: defaultdict(MinutesOfBridge))
    for minute in read_minutes(data_dir, since_ms, until_ms):
        lanes = defaultdict(list)
        for lane, row in zip(minute.lanes, minute.rows()[1], strict=True):
            lanes[lane.bridge].append(row)
        start = (minute.at_ms - 1) // width_ms * width_ms
        for bridge, rows in lanes.items():
            by_time[bridge][start].add(minute.seconds, rows)
    starts = sorted({start for stretches in by_time.values() for start in stretches})
    found = [_row(bridge, stretches) for bridge, stretches in by_time.items()]
    found.sort(key=lambda row: (-row["waiting"], row["bridge"]))
    return Section(
        name=NAME,
        title="History by the minute",
        question="How was it all the time, and not only at the snapshots?",
        verdict="none",
        summary=_summary(found, starts),
        columns=_COLUMNS,
        rows=table(_COLUMNS, found),
        rows_total=len(found),
        charts=_charts(by_time, [row["bridge"] for row in found[:SERIES_SHOWN]], starts, width_ms),
        notes=(
            "As the node has it on record, of bridges without retention, too. Latencies are the worst of a minute each.",
            f"Each point is {duration(width_ms / 1000)}.",
        ),
    )


def _row(bridge: str, stretches: dict[int, MinutesOfBridge]) -> Row:
    every = stretches.values()
    most = max(stretches, key=lambda start: (stretches[start].waiting, -start))
    return {
        "bridge": bridge,
        "watched_s": sum(each.seconds for each in every),
        "waiting": stretches[most].waiting,
        "waiting_at": most if stretches[most].waiting else None,
        "accepted": sum(each.accepted for each in every),
        "delivered": sum(each.delivered for each in every),
        "lost": sum(each.lost for each in every),
        "p99_s": max((each.p99_s for each in every if each.p99_s is not None), default=None),
        "down_s": sum(each.down_s for each in every),
    }


def _summary(rows: list[Row], starts: list[int]) -> str:
    if not rows:
        return "Nothing is on record."
    counts = {name: sum(row[name] for row in rows) for name in ("accepted", "delivered", "lost")}
    told = f"Since {utc(starts[0])} {plural(counts['accepted'], 'message')} accepted, {counts['delivered']:,} delivered"
    if counts["lost"]:
        told += f", {counts['lost']:,} ended otherwise"
    if rows[0]["waiting"]:
        told += f"; most waited for {rows[0]['bridge']} about {utc(rows[0]['waiting_at'])}: {rows[0]['waiting']:,}"
    longest = max(rows, key=lambda row: row["down_s"])
    if longest["down_s"]:
        told += f"; the link of {longest['bridge']} was down for {duration(longest['down_s'])}"
    return f"{told}."


def _charts(
    by_time: dict[str, dict[int, MinutesOfBridge]], bridges: list[str], starts: list[int], width_ms: int
) -> tuple[Chart, ...]:
    if len(starts) < 2:
        return ()
    times = tuple(range(starts[0], starts[-1] + 1, width_ms))  # where nothing is on record, the node did not run

    def line(bridge: str, value: Callable[[MinutesOfBridge], float | None]) -> Series:
        return Series(name=bridge, values=tuple(value(by_time[bridge][at]) if at in by_time[bridge] else None for at in times))

    def of_all(name: str, value: Callable[[MinutesOfBridge], float]) -> Series:
        here = [[by_time[bridge][at] for bridge in by_time if at in by_time[bridge]] for at in times]
        return Series(name=name, values=tuple(sum(map(value, some)) / some[0].seconds if some else None for some in here))

    rates = (of_all("Accepted", lambda each: each.accepted), of_all("Delivered", lambda each: each.delivered))
    charts = [
        Chart(
            kind="lines", title="Waiting messages", x=times, series=tuple(line(one, lambda each: each.waiting) for one in bridges)
        ),
        Chart(kind="lines", title="Messages a second, all bridges", x=times, series=rates, unit_y="per_s"),
    ]
    slow = tuple(line(one, lambda each: each.p99_s) for one in bridges)
    if any(value is not None for series in slow for value in series.values):
        log_y = all(value is None or value > 0 for series in slow for value in series.values)
        charts.append(Chart(kind="lines", title="p99 latency", x=times, series=slow, unit_y="duration_s", log_y=log_y))
    if any(stretch.down_s for stretches in by_time.values() for stretch in stretches.values()):
        down = tuple(line(one, lambda each: 100 * each.down_s / each.seconds) for one in bridges)
        charts.append(Chart(kind="lines", title="Link down, of the time", x=times, series=down, unit_y="percent"))
    return tuple(charts)
