"""Parts of a report: the result of its module, helpers that all of them share, and the thresholds by which they judge.

Figures stay in the engine until they are few: a section shows at most ``ROWS_SHOWN`` rows, all of them go to Parquet as frames.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from analysis.engines.engine import Frame, Row
from analysis.reports.report_model import Cell, Column, Fact, Section, Verdict

ROWS_SHOWN = 2000
SERIES_SHOWN = 8
BARS_SHOWN = 15
LOCAL = ""  # in place of a bridge: the sessions of local clients

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

BridgeKey = tuple[str, str]  # (node, bridge)


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """From where on something deserves attention."""

    backlog_age_s: float = 3600.0
    in_flight_age_s: float = 300.0
    full_within_s: float = 7 * 86_400.0
    flapping_downs: int = 5
    flapping_period_s: float = 600.0
    latency_p99_s: float = 3600.0
    loss_recent_s: float = 3600.0  # a loss is recent that long before the snapshot
    loss_share: float = 0.001  # of what was accepted
    trend_min_s: float = 600.0  # what the snapshots span at least
    forecast_max_s: float = 10 * 31_557_600.0  # what is further away is no forecast


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """The words of a report for the card of one bridge: figures, and why it needs looking at (``note``), if it does."""

    facts: tuple[Fact, ...] = ()
    verdict: Verdict = "none"
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A finished report. ``frames``: name -> all its rows, with a ``node`` and a ``date``, for Parquet."""

    sections: tuple[Section, ...]
    frames: Mapping[str, Frame] = field(default_factory=dict)
    marks: Mapping[BridgeKey, Mark] = field(default_factory=dict)
    headline: str = ""  # its answer in few words, for the top of the report


# A key that puts rows with a ``verdict`` in order, the worst first; the words in their alphabet would not.
WORST_FIRST = "CASE verdict WHEN 'problem' THEN 1 WHEN 'attention' THEN 2 WHEN 'ok' THEN 3 ELSE 4 END"


def table(columns: Sequence[Column], rows: Sequence[Row]) -> tuple[tuple[Cell, ...], ...]:
    """The cells of ``rows``, in the order of ``columns``; an empty text is a cell without a value."""
    return tuple(tuple(None if row[column.name] == "" else row[column.name] for column in columns) for row in rows)


def bridge_title(bridge: str | None) -> str:
    """The name of a bridge in a table; sessions of local clients have none."""
    return bridge or "local sessions"


def lane_title(node: str, bridge: str | None, lane: str | None = None) -> str:
    """The name of a line of a plot."""
    return f"{node} {bridge_title(bridge)}" + (f":{lane}" if lane is not None else "")


def moment(at_ms: int | None) -> str:
    """A time as a card has it, in UTC, to the minute and without the year: the card's own time has both."""
    if at_ms is None:
        return "-"
    found = datetime.fromtimestamp(at_ms / 1000, UTC)
    return f"{found.day} {_MONTHS[found.month - 1]} {found:%H:%M}"


def number(count: int) -> str:
    """A count as a person reads it."""
    return f"{count:,}"


def plural(count: int, one: str, many: str = "") -> str:
    """``1 message``, ``2,000 messages``."""
    return f"{number(count)} {one if count == 1 else many or one + 's'}"


def size(size_bytes: float) -> str:
    """Bytes as a person reads them, in powers of 1024."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size_bytes) < 1024:
            return f"{size_bytes:.0f} {unit}" if unit == "B" else f"{size_bytes:.1f} {unit}"
        size_bytes /= 1024
    return f"{size_bytes:.1f} TiB"


def duration(seconds: float) -> str:
    """A duration as a person reads it: the two largest units."""
    if seconds < 0:
        return "-" + duration(-seconds)
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    left, parts = round(seconds), []
    for unit, of in (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        if left >= of:
            parts.append(f"{left // of} {unit}")
            left %= of
    return " ".join(parts[:2])
