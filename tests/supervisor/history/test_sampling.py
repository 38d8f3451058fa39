"""A minute is what grew between two samples."""

from __future__ import annotations

from dataclasses import replace

from storage.node_history import LaneMinute
from supervisor.history.sampling import LaneSample, Sample, Sampler
from supervisor.machine_usage import Usage
from tests.support.present import present
from wire.frames.names import LaneName
from wire.status.bridges import QueueFigures
from wire.status.histogram import Histogram, HistogramFigures

CLOUD = LaneName("cloud", 0)


def latencies(*measured: float) -> HistogramFigures:
    histogram = Histogram((0.01, 0.1, 1.0))
    for value in measured:
        histogram.add(value)
    return histogram.figures()


def sample(now_s: float, queue: QueueFigures, *, down_s: float | None = 0.0, published: int | None = 0) -> Sample:
    lanes = {CLOUD: LaneSample(queue=queue, down_s=down_s)}
    return Sample(at_ms=int(now_s * 1000), now_s=now_s, lanes=lanes, published=published, clients=2)


def lane(before: Sample, after: Sample) -> LaneMinute:
    sampler = Sampler()
    assert sampler.take(before, {}) is None
    return present(sampler.take(after, {})).lanes[CLOUD]


def test_a_minute_has_what_counts_grew_by_and_levels_at_its_end() -> None:
    before = QueueFigures(depth=5, bytes=10, accepted=100, delivered=90, expired=1, dropped={"overflow": 2, "purged": 9})
    after = QueueFigures(
        depth=7,
        bytes=70,
        accepted=160,
        delivered=145,
        expired=2,
        dropped={"overflow": 5, "purged": 99},
        refused=4,
        oldest_age_s=3.0,
    )

    found = lane(sample(100.0, before, down_s=10.0), sample(160.0, after, down_s=25.0))

    assert found == LaneMinute(7, 70, 60, 55, 1 + 3 + 4, 3.0, None, None, 15.0)


def test_a_latency_is_no_longer_than_the_oldest_message_can_have_waited() -> None:
    """Whatever the bound of its bucket is: after a link that was down for a minute, p99 is a minute and not five."""
    histogram = Histogram((0.01, 60.0, 300.0))
    before = QueueFigures(depth=9, oldest_age_s=57.0, end_to_end_seconds=histogram.figures())
    for value in (0.005, 61.0):
        histogram.add(value)
    after = QueueFigures(depth=0, end_to_end_seconds=histogram.figures())

    found = lane(sample(100.0, before), sample(110.0, after))

    assert (found.p50_s, found.p99_s) == (0.01, 67.0)
    unknown = lane(sample(100.0, QueueFigures(end_to_end_seconds=Histogram((0.01, 60.0, 300.0)).figures())), sample(110.0, after))
    assert unknown.p99_s == 300.0


def test_what_an_operator_or_a_rule_takes_out_is_no_loss() -> None:
    before = QueueFigures(accepted=1)
    after = replace(before, dropped={"purged": 5, "unchanged": 6, "one_per": 7, "superseded": 8})

    assert lane(sample(0.0, before), sample(60.0, after)).lost == 0


def test_latencies_are_those_of_the_minute() -> None:
    before = QueueFigures(end_to_end_seconds=latencies(*[0.5] * 1000))
    after = QueueFigures(end_to_end_seconds=latencies(*[0.5] * 1000, *[0.005] * 95, *[0.05] * 5))
    anew = QueueFigures(end_to_end_seconds=latencies(0.05, 7.0))

    assert lane(sample(0.0, before), sample(60.0, after))[6:8] == (0.01, 0.1)
    assert lane(sample(0.0, before), sample(60.0, before))[6:8] == (None, None)
    assert lane(sample(0.0, before), sample(60.0, anew))[6:8] == (0.1, 1.0)  # the store began anew


def test_a_count_that_begins_anew_counts_from_nothing_and_one_seen_first_is_unknown() -> None:
    sampler = Sampler()
    sampler.take(Sample(at_ms=0, now_s=0.0, lanes={}, published=1_000), {})
    second = sampler.take(sample(60.0, QueueFigures(depth=3, accepted=50), down_s=9.0, published=40), {})
    third = sampler.take(sample(120.0, QueueFigures(depth=3, accepted=51), down_s=None), {})

    assert present(second).node.published == 40
    assert present(second).lanes[CLOUD][:5] == (3, None, None, None, None)
    assert present(second).lanes[CLOUD].down_s is None
    assert present(third).lanes[CLOUD].accepted == 1
    assert present(third).seconds == 60.0


def test_processor_time_is_that_of_all_processes_also_of_one_that_began_meanwhile() -> None:
    sampler, nothing = Sampler(), QueueFigures()
    sampler.take(sample(0.0, nothing), {1: Usage(10 << 20, 5.0), 2: Usage(5 << 20, 7.0)})
    found = sampler.take(sample(60.0, nothing), {1: Usage(11 << 20, 6.5), 3: Usage(1 << 20, 0.25), 4: Usage()})

    assert present(found).node.cpu_s == 1.75
    assert present(found).node.memory_bytes == 12 << 20
