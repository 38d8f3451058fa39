"""The output of ``bascule status --since`` on a terminal: the past of each lane as a line of blocks, and in figures."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from supervisor.terminal.view import briefly, print_table, say, size
from supervisor.units import counted, write_duration, write_time
from wire.status.answers import History, LaneHistory

PERIODS = 24  # about so many, which a terminal of 60 columns has room for
_BLOCKS, _ASCII = "▁▂▃▄▅▆▇█", "_.:-=+*#"
_MS = 1000
_LANES = ("lane", ">waiting", ">most", ">last", ">in/s", ">out/s", ">down", ">lost", ">p99", ">oldest", ">least")
_PERIODS = ("from", ">least", ">most", ">last", ">in/s", ">out/s", ">down", ">lost", ">p99", ">oldest")

_Values = Sequence[float | None]


def print_history(history: History, *, bridge: str | None = None) -> None:
    """Print the past of a node; of one ``bridge`` that was asked for each period."""
    kept_ms = history.kept_since_ms
    begins = "" if kept_ms is None or kept_ms <= history.since_ms else ", where the record begins"
    say(f"since {write_time(history.since_ms)}{begins}, a block is {write_duration(history.step_s)}")
    if not history.at_ms:
        say("nothing is on record of that time" + ("" if kept_ms is None else f"; the first is of {write_time(kept_ms)}"))
        return
    away_s = (history.until_ms - max(history.since_ms, history.at_ms[0])) / _MS - sum(history.seconds)
    if away_s > max(history.step_s, 120.0):
        say(f"nothing is on record of {briefly(away_s)} of it: the node was off")
    _node(history)
    rows = [_lane(history, lane) for lane in history.lanes]
    if bridge is None and rows:
        print_table("messages that waited:", _LANES, rows)
    for lane in history.lanes if bridge is not None else ():
        _alone(history, lane)


def _node(history: History) -> None:
    node = history.node
    cpu, memory, free = _most(node.cpu), _most(node.memory_bytes), _last(node.disk_free_bytes)
    if cpu is not None and memory is not None:
        say(f"CPU at most {cpu:.1%} of a core, memory at most {size(memory)}")
    at_end = counted(int(_last(node.clients) or 0), "client")
    say(f"at the end {at_end}" + ("" if free is None else f", {size(free)} free on the disk"))
    say(f"  {spark(history, node.published_rate)}  published/s, at most {_number(_most(node.published_rate))}")


def _lane(history: History, lane: LaneHistory) -> tuple[str, ...]:
    return (
        f"{lane.bridge}:{lane.lane}",
        spark(history, lane.depth_max),
        _number(_most(lane.depth_max)),
        _number(_last(lane.depth)),
        _number(_mean(history, lane.rate_in)),
        _number(_mean(history, lane.rate_out)),
        _time(_sum(lane.down_s)),
        _number(_sum(lane.lost)),
        _time(_most(lane.latency_p99_s)),
        _time(_most(lane.age_s)),
        _number(_least(lane.depth_min)),
    )


def _alone(history: History, lane: LaneHistory) -> None:
    say(f"\n{lane.bridge}:{lane.lane}")
    for name, values in (("waiting", lane.depth_max), ("in/s", lane.rate_in), ("out/s", lane.rate_out), ("down", lane.down_s)):
        say(f"  {name:<8} {spark(history, values)}  at most {_time(_most(values)) if name == 'down' else _number(_most(values))}")
    rows = [
        (
            write_time(at_ms)[5:16],
            _number(lane.depth_min[place]),
            _number(lane.depth_max[place]),
            _number(lane.depth[place]),
            _number(lane.rate_in[place]),
            _number(lane.rate_out[place]),
            _time(lane.down_s[place]),
            _number(lane.lost[place]),
            _time(lane.latency_p99_s[place]),
            _time(lane.age_s[place]),
        )
        for place, at_ms in enumerate(history.at_ms)
    ]
    print_table("by period, UTC:", _PERIODS, rows)


def spark(history: History, values: _Values) -> str:
    """A block for each period, the highest for the most; none where nothing is on record."""
    blocks = _BLOCKS if _can_say(_BLOCKS) else _ASCII
    step_ms, most = round(history.step_s * _MS), _most(values) or 0.0
    known = dict(zip(history.at_ms, values, strict=True))
    line = ""
    for start in range(history.since_ms // step_ms * step_ms, history.until_ms, step_ms):
        value = known.get(start)
        line += " " if value is None else blocks[round(value / most * (len(blocks) - 1)) if most else 0]
    return line


def _can_say(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def step_for(since_ms: int, now_ms: int | None = None) -> str:
    """How long a period is to be for a terminal, as the node takes it."""
    now_ms = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    return f"{max(1, (now_ms - since_ms) // _MS // PERIODS)}s"


def _known(values: _Values) -> list[float]:
    return [value for value in values if value is not None]


def _most(values: _Values) -> float | None:
    return max(_known(values), default=None)


def _least(values: _Values) -> float | None:
    return min(_known(values), default=None)


def _last(values: _Values) -> float | None:
    return next(reversed(_known(values)), None)


def _sum(values: _Values) -> float | None:
    return sum(_known(values)) if _known(values) else None


def _mean(history: History, rates: _Values) -> float | None:
    pairs = [(rate, seconds) for rate, seconds in zip(rates, history.seconds, strict=True) if rate is not None]
    return sum(rate * seconds for rate, seconds in pairs) / sum(seconds for _, seconds in pairs) if pairs else None


def _number(value: float | None) -> str:
    """Short enough for a column: ``7``, ``0.3``, ``950``, ``12k``, ``3.4M``."""
    if value is None:
        return "-"
    for unit in ("", "k", "M", "G"):
        if value < 9_999.5 if not unit else value < 999.5:
            return f"{value:.1f}{unit}" if value % 1 and value < 99.95 else f"{value:.0f}{unit}"
        value /= 1000
    return f"{value:.0f}T"


def _time(seconds: float | None) -> str:
    if seconds is None or not seconds:
        return "-" if seconds is None else "0 s"
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else briefly(seconds)
