"""Axes: where a value is on one, and which values are worth a tick. Pure; drawing is ``plots``.

A position is a fraction of the axis, 0 at its beginning. Ticks fall on values that people count in: 1, 2, 5 for counts, powers
of two for sizes, seconds to weeks for times and durations.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from analysis.page.text import short

_STEPS_S = (
    *(digit * 10.0**power for power in range(-6, 0) for digit in (1, 2, 5)),
    *(1.0, 2.0, 5.0, 10.0, 15.0, 30.0),
    *(minutes * 60.0 for minutes in (1, 2, 5, 10, 15, 30)),
    *(hours * 3600.0 for hours in (1, 2, 3, 6, 12)),
    *(days * 86_400.0 for days in (1, 2, 4, 7, 14, 28, 56, 112, 224, 448, 896, 1792, 3584)),
)
_LOG_DURATIONS_S = (
    *(10.0**power for power in range(-6, 2)),
    *(60.0, 600.0, 3600.0, 36_000.0, 86_400.0, 864_000.0, 8_640_000.0, 86_400_000.0),
)
_POWERS = tuple(10.0**power for power in range(-9, 19))
_DIGITS = tuple(digit * power for power in _POWERS for digit in (1, 2, 5))
_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class Tick:
    """One tick at ``at`` (a fraction of the axis). ``strong``: a new day, or the zero line."""

    at: float
    text: str
    strong: bool = False


@dataclass(frozen=True, slots=True)
class Scale:
    """Values from ``low`` to ``high`` along one axis, evenly or by their logarithm."""

    low: float
    high: float
    log: bool = False

    def at(self, value: float) -> float:
        """The position of ``value``, held to the axis."""
        if self.log:
            value = max(value, self.low)
            return _held((math.log(value) - math.log(self.low)) / (math.log(self.high) - math.log(self.low)))
        return _held((value - self.low) / (self.high - self.low))


def values_axis(unit: str, values: Sequence[float], log: bool, ticks: int = 5) -> tuple[Scale, list[Tick]]:
    """An axis for ``values`` with about ``ticks`` ticks. It begins at zero unless it is logarithmic or some are negative."""
    if log and values and min(values) > 0:
        return _log_axis(unit, min(values), max(values))
    low, high = min(values, default=0.0), max(values, default=0.0)
    low = min(low, 0.0)
    high = max(high, 0.0)
    if unit == "percent" and 50 < high <= 100:
        high = 100.0
    if high == low:
        high = low + 1
    step = _step(unit, (high - low) / ticks)
    scale = Scale(math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step)
    return scale, [Tick(scale.at(value), short(unit, value, step), abs(value) < step / 2) for value in _multiples(scale, step)]


def times_axis(low_ms: float, high_ms: float, ticks: int = 8) -> tuple[Scale, list[Tick]]:
    """An axis from ``low_ms`` to ``high_ms`` (UTC). A tick at midnight, and the first one, say the day."""
    if high_ms <= low_ms:
        low_ms, high_ms = low_ms - 30_000, low_ms + 30_000
    scale = Scale(low_ms, high_ms)
    step_ms = max(_step("duration_s", (high_ms - low_ms) / 1000 / ticks) * 1000, 1)
    found = list(_multiples(scale, step_ms))
    return scale, [Tick(scale.at(value), _clock(value, step_ms), value % _DAY_MS == 0) for value in found]


def day(at_ms: float) -> str:
    """``21 Nov 2026``."""
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    return f"{at.day} {at:%b %Y}"


def _held(fraction: float) -> float:
    return min(max(fraction, 0.0), 1.0)


def _clock(at_ms: float, step_ms: float) -> str:
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    if at_ms % _DAY_MS == 0:
        return f"{at.day} {at:%b}"
    if step_ms >= 60_000:
        return f"{at:%H:%M}"
    return f"{at:%H:%M:%S}" if step_ms >= 1000 else f"{at:%H:%M:%S}.{at.microsecond // 1000:03d}"


def _step(unit: str, least: float) -> float:
    """The smallest step people count in that is no less than ``least``."""
    if unit == "duration_s" and least <= _STEPS_S[-1]:
        return next(step for step in _STEPS_S if step >= least * (1 - 1e-9))
    if unit == "bytes":
        return 2.0 ** max(math.ceil(math.log2(least) - 1e-9), 0)
    power = 10.0 ** math.floor(math.log10(least))
    step = next(digit * power for digit in (1, 2, 5, 10) if digit * power >= least * (1 - 1e-9))
    return max(step, 1.0) if unit == "count" else step


def _multiples(scale: Scale, step: float) -> Iterator[float]:
    first = math.ceil(scale.low / step - 1e-9)
    last = math.floor(scale.high / step + 1e-9)
    return (number * step for number in range(first, last + 1))


def _log_axis(unit: str, low: float, high: float) -> tuple[Scale, list[Tick]]:
    scale = Scale(low / 2, high * 2, log=True)
    inside: list[float] = []
    for candidates in (_LOG_DURATIONS_S, _STEPS_S, _DIGITS) if unit == "duration_s" else (_POWERS, _DIGITS):
        found = [value for value in candidates if scale.low <= value <= scale.high]
        inside = max(inside, found, key=len)
        if len(inside) >= 3:
            break
    while len(inside) > 7:
        inside = inside[::2]
    return scale, [Tick(scale.at(value), short(unit, value, value)) for value in inside]
