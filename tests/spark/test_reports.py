"""Reports against computations done another way: plain Python over the same rows."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import quantiles
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from storage.analysis.generate import Made, Wanted, generate
from storage.analysis.job import adds_up
from storage.analysis.reader import read_table
from storage.analysis.report_model import Report, Section
from storage.analysis.reports import reconciliation
from storage.analysis.reports.build import Finished, build
from storage.analysis.reports.context import Context
from storage.analysis.reports.sources import open_source
from storage.manifest import find_snapshots
from tests.spark.report_rows import Rows, RowsSource, at

Row = dict[str, Any]
QUEUE = "bridge:cloud:0"


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Half a day of two nodes, each in three overlapping snapshots; in the last of the first, a loss and a duplicate."""
    wanted = Wanted(messages=4000, nodes=2, snapshots=3, seed=5, plant_loss=True, plant_duplicate=True)
    return generate(wanted, tmp_path_factory.mktemp("planted"))


@pytest.fixture(scope="module")
def finished(spark: SparkSession, planted: Made) -> Iterator[Finished]:
    """All reports over it."""
    context = Context(spark, open_source(spark, [str(path) for path in planted.snapshots]))
    yield build(context, made_at_ms=0)
    context.close()


@pytest.fixture(scope="module")
def plain(planted: Made) -> dict[str, list[Row]]:
    """The tables of the newest snapshot of each node, as rows of plain Python."""
    newest = [planted.snapshots[2], planted.snapshots[5]]
    found = [one for path in newest for one in find_snapshots(path)]
    names = ("messages", "queues", "inflight", "settlements", "events", "dead_letters")
    return {name: [row for batch in read_table(found, name) for row in batch.to_pylist()] for name in names}


def rows_of(section: Section) -> list[Row]:
    return [dict(zip((column.name for column in section.columns), row, strict=True)) for row in section.rows]


def test_the_planted_loss_and_the_planted_duplicate_are_named(planted: Made, finished: Finished) -> None:
    named = {(row["node"], row["queue"], row["first_seq"], row["what"]) for row in rows_of(finished.report.section("sequences"))}

    words = {"loss": reconciliation.OFFENCES["lost"], "duplicate": reconciliation.OFFENCES["settled twice"]}
    assert named == {(one.node, one.queue, one.seq, words[one.kind]) for one in planted.planted}
    assert finished.report.section("reconciliation").verdict == "problem"
    assert not adds_up(finished.report)


def test_the_ledgers_and_counts_are_those_of_the_rows(finished: Finished, plain: dict[str, list[Row]]) -> None:
    stored = Counter((row["node"], row["queue"]) for row in plain["messages"] if row["state"] != "settled")
    shown = {(row["node"], row["queue"]): row for row in rows_of(finished.report.section("reconciliation"))}

    for queue in plain["queues"]:
        if queue["bridge"] is None:
            continue
        row = shown[queue["node"], queue["queue"]]
        assert row["accepted"] == queue["accepted"]
        assert row["queued"] == queue["depth"] + queue["depth_volatile"]
        assert row["dropped"] == sum(dict(queue["dropped"]).values())
        assert row["difference"] == 0
        assert row["miscounted"] == stored[queue["node"], queue["queue"]] - queue["depth"] == 0


def test_the_backlog_is_what_is_stored_and_not_settled(finished: Finished, plain: dict[str, list[Row]]) -> None:
    expected: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for row in plain["messages"]:
        if row["state"] != "settled":
            expected[row["node"], row["bridge"] or "(local sessions)", row["rule_name"] or "-"].append(row)

    shown = rows_of(finished.report.section("backlog"))

    assert {(row["node"], row["bridge"], row["rule"]) for row in shown} == set(expected)
    for row in shown:
        mine = expected[row["node"], row["bridge"], row["rule"]]
        assert row["messages"] == len(mine)
        assert row["bytes"] == sum(one["payload_bytes"] for one in mine)
        assert row["oldest_at"] == min(int(one["accepted_at"].timestamp() * 1000) for one in mine)
        ages = [(one["snapshot_at"] - one["accepted_at"]).total_seconds() for one in mine]
        assert row["age_1h"] == sum(600 <= age < 3600 for age in ages)
        assert row["age_older"] == sum(age >= 86_400 for age in ages)


def test_in_flight_dead_letters_and_losses_are_those_of_the_rows(finished: Finished, plain: dict[str, list[Row]]) -> None:
    flights = Counter((row["node"], row["queue"]) for row in plain["inflight"])
    letters = Counter((row["node"], row["bridge"], row["reason"]) for row in plain["dead_letters"])
    lost: Counter[tuple[str, str, str, str]] = Counter()
    for queue in plain["queues"]:
        where = (queue["node"], queue["bridge"] or "(local sessions)")
        lost[(*where, "expired", "")] += queue["expired"]
        for cause in ("dropped", "dead"):
            for reason, count in dict(queue[cause]).items():
                lost[(*where, cause, reason)] += count
    report = finished.report

    assert {(row["node"], row["queue"]): row["in_flight"] for row in rows_of(report.section("inflight"))} == flights
    assert {(row["node"], row["bridge"], row["reason"]): row["held"] for row in rows_of(report.section("dead-letters"))} == letters
    shown = {
        (row["node"], row["bridge"], row["cause"], row["reason"]): row["messages"] for row in rows_of(report.section("losses"))
    }
    assert shown == +lost


def test_history_is_counted_once_over_overlapping_snapshots(finished: Finished, planted: Made) -> None:
    """The deliveries of the throughput are the settlements of all snapshots, each number once; latencies are of as many"
    " messages as are kept."""
    found = [one for path in planted.snapshots for one in find_snapshots(path)]
    delivered: dict[tuple[str, str], set[tuple[int, int, int]]] = defaultdict(set)
    for batch in read_table(found, "settlements"):
        for row in batch.to_pylist():
            if row["outcome"] == "delivered":
                delivered[row["node"], row["queue"]].add((row["number"], row["first_seq"], row["last_seq"]))
    expected: Counter[tuple[str, str]] = Counter()
    for (node, queue), ranges in delivered.items():
        expected[node, queue.split(":")[1]] += sum(last - first + 1 for _, first, last in ranges)
    took: dict[tuple[str, str, int], float] = {}
    for batch in read_table(found, "messages"):
        for row in batch.to_pylist():
            if row["state"] == "settled" and row["outcome"] == "delivered":
                took[row["node"], row["queue"], row["seq"]] = (row["settled_at"] - row["accepted_at"]).total_seconds()

    throughput = {
        (row["node"], row["bridge"]): row["kept"] for row in rows_of(finished.report.section("throughput")) if row["kept"]
    }
    latency = rows_of(finished.report.section("latency"))

    doubled = {(one.node, one.queue.split(":")[1]) for one in planted.planted}
    assert {key: count for key, count in throughput.items() if key not in doubled} == {
        key: count for key, count in expected.items() if key not in doubled
    }
    for row in latency:
        mine = sorted(
            seconds for (node, queue, _), seconds in took.items() if (node, queue.split(":")[1]) == (row["node"], row["bridge"])
        )
        good = [seconds for seconds in mine if seconds >= 0]
        assert (
            abs(row["messages"] + row["clock_jumps"] + row["negative"] - len(mine)) <= 1
        )  # the duplicate's row names two settlements
        if not row["clock_jumps"]:
            assert row["p50_s"] == pytest.approx(quantiles(good, n=100, method="inclusive")[49], abs=0.01)
            assert row["max_s"] == pytest.approx(good[-1], abs=0.001)


def test_the_report_survives_its_json(finished: Finished) -> None:
    assert Report.from_json(finished.report.to_json()) == finished.report


Ranges = list[tuple[int, int, int]]
few_ranges: st.SearchStrategy[Ranges] = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 30), st.integers(0, 8)).map(lambda one: (one[0], one[1], one[1] + one[2])),
    max_size=8,
)


@given(
    queues=st.lists(
        st.tuples(few_ranges, st.sets(st.integers(0, 40)), st.integers(0, 12), st.integers(12, 40)), min_size=40, max_size=40
    )
)
@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))
def test_stretches_are_what_counting_each_sequence_gives(
    spark: SparkSession, queues: list[tuple[Ranges, set[int], int, int]]
) -> None:
    """Many small queues in one query: ranges that overlap, touch and miss, against a count for each sequence."""
    rows = Rows()
    rows.snapshot("n", 100)
    for lane, (settled, stored, low, tail) in enumerate(queues):
        queue = f"bridge:cloud:{lane}"
        rows.queue(queue, head=tail, tail=tail, history_from=low, accepted=tail, delivered=tail)
        for number, (_, first, last) in enumerate(settled):
            rows.settled(queue, number, 1.0, first, last)
        for seq in stored:
            rows.message(queue, seq, 0)
    context = Context(spark, RowsSource(spark, rows.tables))
    found = reconciliation.stretches(context, reconciliation._judged(context), reconciliation._stored(context)).collect()
    context.close()

    shown: dict[tuple[str, int], str] = {}
    for row in found:
        for seq in range(row.first_seq, row.last_seq + 1):
            assert (row.queue, seq) not in shown
            shown[row.queue, seq] = row.what
    for lane, (settled, stored, low, tail) in enumerate(queues):
        for seq in range(45):
            times = sum(first <= seq <= last for _, first, last in settled)
            assert shown.get((f"bridge:cloud:{lane}", seq), "beyond") == judge(times, seq in stored, low <= seq < tail), (lane, seq)


def judge(times: int, stored: bool, within: bool) -> str:
    if not within:
        return "outside" if stored else "beyond"
    if times and stored:
        return "settled and queued"
    if times > 1:
        return "settled twice"
    return "settled" if times else "queued" if stored else "lost"


def test_clock_jumps_and_negative_latencies_are_counted_apart(spark: SparkSession) -> None:
    rows = Rows()
    rows.snapshot("n", 1000)
    rows.queue(QUEUE, head=4, tail=4, history_from=0, accepted=4, delivered=4, retention_s=60.0)
    for seq, (accepted, settled) in enumerate([(0, 2), (90, 205), (300, 299), (400, 404)]):
        rows.message(QUEUE, seq, accepted, state="settled", outcome="delivered", settled_at=at(settled), settlement=seq)
        rows.settled(QUEUE, seq, settled, seq, seq)
    rows.event(0, 200, "clock.jumped", details='{"by_ms": 100000}')
    context = Context(spark, RowsSource(spark, rows.tables))
    report = build(context, names=["latency"], made_at_ms=0).report
    context.close()

    (row,) = rows_of(report.section("latency"))
    assert (row["messages"], row["clock_jumps"], row["negative"], row["max_s"]) == (2, 1, 1, 4.0)


@pytest.mark.parametrize("form", ["json", "html", "parquet"])
def test_what_is_written_is_whole(spark: SparkSession, finished: Finished, tmp_path: Path, form: str) -> None:
    from storage.analysis.reports.output import write

    few = Finished(report=finished.report, frames={"sequences": finished.frames["sequences"]})
    write(spark, few, str(tmp_path), [form])  # type: ignore[list-item]

    assert (tmp_path / "_SUCCESS").exists()
    if form == "json":
        assert Report.from_json((tmp_path / "report.json").read_text()) == finished.report
    elif form == "html":
        assert (tmp_path / "report.html").read_text().lower().startswith("<!doctype html>")
    else:
        assert spark.read.parquet(str(tmp_path / "sequences")).where("node = 'box-1'").count() == 2
