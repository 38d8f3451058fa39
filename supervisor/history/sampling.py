"""A minute of the history, made of two samples of what the processes have reported. Pure.

Counts in a sample are sums since a process began or the store is in use: a minute has what they grew by. One that has become
smaller has begun anew. Of what is seen for the first time nobody knows what it was before.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TypeVar

from storage.node_history import LaneMinute, NodeMinute
from supervisor.machine_usage import Usage
from wire.frames.names import LaneName
from wire.status.bridges import QueueFigures
from wire.status.histogram import HistogramFigures
from wire.status.loss_reasons import INTENDED

Count = TypeVar("Count", int, float)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneSample:
    """One lane. down_s: for how long its link was down, of all that was seen so far; None before it was seen."""

    queue: QueueFigures
    down_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The node at a time: ``at_ms`` by the wall clock, ``now_s`` by one that is never set. pids: of its processes."""

    at_ms: int
    now_s: float
    lanes: Mapping[LaneName, LaneSample]
    published: int | None = None
    clients: int | None = None
    sessions_depth: int | None = None
    disk_free_bytes: int | None = None
    pids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Sampled:
    """A minute that is to be kept."""

    at_ms: int
    seconds: float
    node: NodeMinute
    lanes: dict[LaneName, LaneMinute]


@dataclass(slots=True)
class Sampler:
    """Remembers the sample before."""

    _before: Sample | None = None
    _usage: Mapping[int, Usage] = field(default_factory=dict)

    def take(self, sample: Sample, usage: Mapping[int, Usage]) -> Sampled | None:
        """The time since the last sample; None of the first one. usage: of its processes."""
        before, used = self._before, self._usage
        self._before, self._usage = sample, usage
        if before is None or sample.now_s <= before.now_s:
            return None
        seconds = sample.now_s - before.now_s
        spent = [_grown(used[pid].cpu_s if pid in used else 0.0, each.cpu_s) for pid, each in usage.items()]
        memory = [each.pss_bytes for each in usage.values() if each.pss_bytes is not None]
        node = NodeMinute(
            published=_grown(before.published, sample.published),
            clients=sample.clients,
            sessions_depth=sample.sessions_depth,
            cpu_s=sum(each for each in spent if each is not None) if used and spent else None,
            memory_bytes=sum(memory) if memory else None,
            disk_free_bytes=sample.disk_free_bytes,
        )
        lanes = {name: _lane(before.lanes.get(name), lane, seconds) for name, lane in sample.lanes.items()}
        return Sampled(sample.at_ms, seconds, node, lanes)


def _lane(before: LaneSample | None, now: LaneSample, seconds: float) -> LaneMinute:
    queue = now.queue
    was = QueueFigures() if before is None else before.queue
    p50_s, p99_s = _latencies(was.end_to_end_seconds, queue.end_to_end_seconds)
    if before is not None and was.depth is not None:  # whatever was delivered since waited then, or has come since
        longest_s = (was.oldest_age_s or 0.0) + seconds
        p50_s, p99_s = (None if bound_s is None else min(bound_s, longest_s) for bound_s in (p50_s, p99_s))
    down_s = None if before is None else _grown(before.down_s, now.down_s)
    return LaneMinute(
        depth=queue.depth,
        bytes=queue.bytes,
        accepted=_grown(was.accepted, queue.accepted),
        delivered=_grown(was.delivered, queue.delivered),
        lost=_grown(_lost(was), _lost(queue)),
        age_s=queue.oldest_age_s,
        p50_s=p50_s,
        p99_s=p99_s,
        down_s=None if down_s is None else min(down_s, seconds),
    )


def _grown(before: Count | None, now: Count | None) -> Count | None:
    if before is None or now is None:
        return None
    return now - before if now >= before else now


def _lost(queue: QueueFigures) -> int | None:
    if queue.accepted is None:
        return None
    dropped = sum(count for reason, count in queue.dropped.items() if reason not in INTENDED)
    return dropped + (queue.expired or 0) + (queue.dead_lettered or 0) + (queue.refused or 0)


def _latencies(before: HistogramFigures | None, now: HistogramFigures | None) -> tuple[float | None, float | None]:
    """Bounds below which half and 99 % of what was measured in between lie; None where nothing was, or above the last bound."""
    if before is None or now is None:
        return None, None
    counts = now.counts
    if len(before.counts) == len(counts) and all(is_ >= was for was, is_ in zip(before.counts, counts, strict=True)):
        counts = tuple(is_ - was for was, is_ in zip(before.counts, counts, strict=True))
    sums = list(accumulate(counts))
    if not sums or not sums[-1]:
        return None, None
    bounds = (*now.bounds, now.bounds[-1])  # what is above all is at least so much
    return bounds[bisect_left(sums, sums[-1] * 0.5)], bounds[bisect_left(sums, sums[-1] * 0.99)]
