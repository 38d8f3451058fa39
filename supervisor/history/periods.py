"""Periods of the history, each made of the minutes in it. Pure.

An answer has at most ``ROWS_MAX`` rows, of lanes and periods together, so its periods are the longer the more it is asked for, and
is made of at most ``READ_MAX`` rows of minutes: where there are more, it begins later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import ceil

from storage.node_history import LaneMinute, Minute, NodeMinute
from supervisor.history.sampling import Count
from wire.frames.names import LaneName, lane_order
from wire.status.answers import History, LaneHistory, NodeHistory

ROWS_MAX = 3_000
PERIODS_MAX = 1_440  # a day of minutes
READ_MAX = 200_000
_MS = 1000
_STEPS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Times are Unix time, the beginning left out. step_s: how long a period is at least. bridge: of this one only."""

    since_ms: int
    until_ms: int
    step_s: float = 0.0
    bridge: str | None = None

    def wants(self, lane: LaneName) -> bool:
        """Whether it is about that lane."""
        return self.bridge in (None, lane.bridge)


class _Lane:
    """A lane in a period, as its minutes are added. A value is None as long as none of them knows."""

    __slots__ = ("age_s", "bytes", "depth", "depth_max", "depth_min", "down_s", "in_", "lost", "out", "p50_s", "p99_s")

    def __init__(self) -> None:
        self.depth: int | None = None
        self.depth_min: int | None = None
        self.depth_max: int | None = None
        self.bytes: int | None = None
        self.in_: int | None = None
        self.out: int | None = None
        self.lost: int | None = None
        self.age_s: float | None = None
        self.p50_s: float | None = None
        self.p99_s: float | None = None
        self.down_s: float | None = None

    def add(self, row: LaneMinute) -> None:
        """Another minute of it."""
        depth, size, accepted, delivered, lost, age_s, p50_s, p99_s, down_s = row
        if depth is not None:
            self.depth, self.bytes = depth, size
            self.depth_min = depth if self.depth_min is None or depth < self.depth_min else self.depth_min
            self.depth_max = _more(self.depth_max, depth)
        self.in_ = _sum(self.in_, accepted)
        self.out = _sum(self.out, delivered)
        self.lost = _sum(self.lost, lost)
        self.age_s = _more(self.age_s, age_s)
        self.p50_s = _more(self.p50_s, p50_s)
        self.p99_s = _more(self.p99_s, p99_s)
        self.down_s = _sum(self.down_s, down_s)


class Period:
    """The minutes of a period. seconds: how much of it is on record; last: the newest of the node."""

    __slots__ = ("cpu_s", "lanes", "last", "memory_bytes", "published", "seconds")

    def __init__(self) -> None:
        self.seconds = 0.0
        self.published: int | None = None
        self.cpu_s: float | None = None
        self.memory_bytes: int | None = None
        self.last: NodeMinute | None = None
        self.lanes: dict[LaneName, _Lane] = {}

    def add(self, seconds: float, node: NodeMinute) -> None:
        """Another minute of the node."""
        self.seconds += seconds
        self.published = _sum(self.published, node.published)
        self.cpu_s = _sum(self.cpu_s, node.cpu_s)
        self.memory_bytes = _more(self.memory_bytes, node.memory_bytes)
        self.last = node

    def rate(self, count: float | None, digits: int = 3) -> float | None:
        """So many a second."""
        return None if count is None or not self.seconds else round(count / self.seconds, digits)


_NOTHING = _Lane()


def history_of(question: Question, minutes: Callable[[], Iterable[Minute]], every_s: float, kept_since_ms: int | None) -> History:
    """The answer to ``question``. minutes: what is on record in its time, read twice. every_s: how often there is a record."""
    wanted: set[LaneName] = set()
    read: Counter[int] = Counter()  # rows by the time of their minute
    for minute in minutes():
        here = [lane for lane in minute.lanes if question.wants(lane)]
        wanted.update(here)
        read[minute.at_ms] += len(here) + 1
    since_ms = _beginning(question.since_ms, read)
    span_s = max(1.0, (question.until_ms - since_ms) / _MS)
    step_s = _step_s(span_s, max(question.step_s, every_s), len(wanted))
    periods = _periods(minutes(), question, since_ms, round(step_s * _MS))
    lanes = sorted(wanted, key=lambda lane: (lane.bridge, lane_order(lane.label)))
    starts = sorted(periods)
    rows = [periods[start] for start in starts]
    return History(
        since_ms=since_ms,
        until_ms=question.until_ms,
        kept_since_ms=kept_since_ms,
        step_s=step_s,
        at_ms=tuple(starts),
        seconds=tuple(round(row.seconds, 3) for row in rows),
        node=_node(rows),
        lanes=tuple(_lane(lane, rows) for lane in lanes),
    )


def _beginning(since_ms: int, read: Counter[int]) -> int:
    """Since when the newest minutes have no more than ``READ_MAX`` rows."""
    rows = 0
    for at_ms in sorted(read, reverse=True):
        rows += read[at_ms]
        if rows > READ_MAX:
            return at_ms
    return since_ms


def _step_s(span_s: float, least_s: float, lanes: int) -> float:
    periods = max(1, min(PERIODS_MAX, ROWS_MAX // max(1, lanes)))
    least_s = max(least_s, span_s / periods)
    return float(next((step_s for step_s in _STEPS_S if step_s >= least_s), ceil(least_s / _STEPS_S[-1]) * _STEPS_S[-1]))


def _periods(minutes: Iterable[Minute], question: Question, since_ms: int, step_ms: int) -> dict[int, Period]:
    """By their beginnings, which are multiples of their length in UTC."""
    periods: dict[int, Period] = {}
    known: tuple[LaneName, ...] = ()
    places: list[int] = []
    for minute in minutes:
        if minute.at_ms <= since_ms:
            continue
        if minute.lanes is not known:
            known = minute.lanes
            places = [place for place, lane in enumerate(known) if question.wants(lane)]
        period = periods.setdefault((minute.at_ms - 1) // step_ms * step_ms, Period())
        node, rows = minute.rows(places)
        period.add(minute.seconds, node)
        for place, row in zip(places, rows, strict=True):
            lane = period.lanes.get(known[place])
            if lane is None:
                lane = period.lanes[known[place]] = _Lane()
            lane.add(row)
    return periods


def _node(rows: list[Period]) -> NodeHistory:
    last = [row.last for row in rows if row.last is not None]
    return NodeHistory(
        published_rate=tuple(row.rate(row.published) for row in rows),
        clients=tuple(node.clients for node in last),
        sessions_depth=tuple(node.sessions_depth for node in last),
        cpu=tuple(row.rate(row.cpu_s, 4) for row in rows),
        memory_bytes=tuple(row.memory_bytes for row in rows),
        disk_free_bytes=tuple(node.disk_free_bytes for node in last),
    )


def _lane(name: LaneName, periods: list[Period]) -> LaneHistory:
    rows = [period.lanes.get(name, _NOTHING) for period in periods]
    both = list(zip(rows, periods, strict=True))
    return LaneHistory(
        bridge=name.bridge,
        lane=name.label,
        depth=tuple(row.depth for row in rows),
        depth_min=tuple(row.depth_min for row in rows),
        depth_max=tuple(row.depth_max for row in rows),
        bytes=tuple(row.bytes for row in rows),
        rate_in=tuple(period.rate(row.in_) for row, period in both),
        rate_out=tuple(period.rate(row.out) for row, period in both),
        lost=tuple(row.lost for row in rows),
        age_s=tuple(_rounded(row.age_s) for row in rows),
        latency_p50_s=tuple(_rounded(row.p50_s) for row in rows),
        latency_p99_s=tuple(_rounded(row.p99_s) for row in rows),
        down_s=tuple(_rounded(row.down_s) for row in rows),
    )


def _sum(so_far: Count | None, more: Count | None) -> Count | None:
    if more is None:
        return so_far
    return more if so_far is None else so_far + more


def _more(so_far: Count | None, other: Count | None) -> Count | None:
    if so_far is None or (other is not None and other > so_far):
        return other
    return so_far


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
