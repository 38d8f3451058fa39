"""Since when a counter counts, which OTLP tells with each value. Pure.

A node's counters begin at different times: those of queues outlive it, others begin with the life of a process. None says when. So
OTLP's rule for an unknown start holds: the first value of a series begins at its own time, and what is counted from there on is
what a later one has more. One that has become less has started again since the values before it.
"""

from __future__ import annotations

from collections.abc import Hashable


class StartTimes:
    """Of all series, from one export to the next. Times are Unix time in nanoseconds."""

    def __init__(self) -> None:
        self._last_ns = self._now_ns = 0
        self._last: dict[Hashable, tuple[int, float]] = {}
        self._now: dict[Hashable, tuple[int, float]] = {}

    def begin(self, now_ns: int) -> None:
        """The values of another export follow, which are those of ``now_ns``. If the clock was set back, all start again."""
        self._last, self._now = (self._now, {}) if now_ns > self._now_ns else ({}, {})
        self._last_ns, self._now_ns = self._now_ns, now_ns

    def of(self, series: Hashable, value: float) -> int:
        """Since when ``series`` counts, whose value is ``value`` now."""
        start_ns, before = self._last.get(series, (self._now_ns, value))
        if value < before:
            start_ns = self._last_ns
        self._now[series] = start_ns, value
        return start_ns
