"""Reports against computations done another way: plain Python over the same rows."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from analysis.engines.duckdb_engine import DuckDbEngine
from analysis.export import export
from analysis.job import adds_up
from analysis.report_output import Format, write
from analysis.reports import flapping as flapping_report
from analysis.reports import reconciliation
from analysis.reports.build import Finished, build
from analysis.reports.context import Context
from analysis.reports.report_model import Report, Section
from analysis.reports.report_parts import Thresholds
from analysis.reports.snapshot_choice import bucket_s
from analysis.reports.sources import open_source
from analysis.tables.reader import read_table
from storage.snapshots.manifest import find_snapshots, read_manifest
from tests.analysis.report_plain import (
    Facts,
    downs,
    facts,
    flapping,
    forecasts,
    gaps,
    latencies,
    links,
    moves,
    ms,
    percentile,
    traffic,
)
from tests.analysis.report_rows import QUEUE, Rows, at, exported, rounded, trouble
from tests.spark.nodes import PLANT, Edge
from tests.storage.commanding import command
from tests.support.made_snapshots.generate import Made, Wanted, generate

Row = dict[str, Any]
WORST = ("problem", "attention", "ok", "none")


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Half a day of two nodes, each in three overlapping snapshots; in the last of the first, a loss and a duplicate."""
    wanted = Wanted(messages=4000, nodes=2, snapshots=3, seed=5, plant_loss=True, plant_duplicate=True)
    return generate(wanted, tmp_path_factory.mktemp("planted"))


@dataclass(frozen=True)
class Judged:
    """All reports over some snapshots, and what a plain reading of the same snapshots gives."""

    engine: DuckDbEngine
    finished: Finished
    known: Facts
    width_s: int
    thresholds: Thresholds

    @property
    def report(self) -> Report:
        return self.finished.report

    def rows(self, frame: str) -> list[Row]:
        """All rows of a frame."""
        return self.engine.collect(f"SELECT * FROM {self.finished.frames[frame].name}")


@pytest.fixture(scope="module")
def tables(planted: Made) -> dict[str, list[Row]]:
    """The tables of all snapshots, as rows of plain Python."""
    found = [one for path in planted.snapshots for one in find_snapshots(path)]
    names = ("snapshots", "messages", "queues", "inflight", "settlements", "events", "dead_letters")
    return {name: [row for batch in read_table(found, name) for row in batch.to_pylist()] for name in names}


@pytest.fixture(scope="module")
def judged(planted: Made, tables: dict[str, list[Row]]) -> Iterator[Judged]:
    """All reports over the planted snapshots."""
    engine = DuckDbEngine()
    context = Context(engine, open_source([str(path) for path in planted.snapshots]))
    yield Judged(engine, build(context, made_at_ms=0), facts(tables), context.width_s, context.thresholds)
    engine.release()


@pytest.fixture(scope="module")
def troubled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judged]:
    """The same of a node of which all that can go wrong went wrong."""
    engine, rows = DuckDbEngine(), trouble(seed=11)
    context = Context(engine, exported(rows, tmp_path_factory.mktemp("troubled")))
    names = ["throughput", "duplicates", "flapping", "growth"]
    yield Judged(engine, build(context, names=names, made_at_ms=0), facts(rows.tables), context.width_s, context.thresholds)
    engine.release()


@pytest.fixture
def engine() -> Iterator[DuckDbEngine]:
    made = DuckDbEngine()
    yield made
    made.release()


@pytest.fixture(params=["judged", "troubled"])
def either(request: pytest.FixtureRequest) -> Judged:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Judged)
    return found


@pytest.fixture(scope="module")
def finished(judged: Judged) -> Finished:
    return judged.finished


@pytest.fixture(scope="module")
def plain(judged: Judged, tables: dict[str, list[Row]]) -> dict[str, list[Row]]:
    """The tables of the newest snapshot of each node."""
    return {name: [row for row in rows if row["snapshot_id"] in judged.known.newest_ids] for name, rows in tables.items()}


def rows_of(section: Section) -> list[Row]:
    return [dict(zip((column.name for column in section.columns), row, strict=True)) for row in section.rows]


def test_the_planted_loss_and_the_planted_duplicate_are_named(planted: Made, finished: Finished) -> None:
    """reports.sequence-has-one-fate"""
    named = {(row["node"], row["queue"], row["first_seq"], row["what"]) for row in rows_of(finished.report.section("sequences"))}

    words = {"loss": reconciliation.OFFENCES["lost"], "duplicate": reconciliation.OFFENCES["settled twice"]}
    assert named == {(one.node, one.queue, one.seq, words[one.kind]) for one in planted.planted}
    assert finished.report.section("reconciliation").verdict == "problem"
    assert not adds_up(finished.report)


def test_the_ledgers_and_counts_are_those_of_the_rows(finished: Finished, plain: dict[str, list[Row]]) -> None:
    """queue.ledger-adds-up"""
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
    expected: dict[tuple[str, str, str | None], list[Row]] = defaultdict(list)
    for row in plain["messages"]:
        if row["state"] != "settled":
            expected[row["node"], row["bridge"] or "local sessions", row["rule"]].append(row)

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
        where = (queue["node"], queue["bridge"] or "local sessions")
        lost[(*where, "expired", "")] += queue["expired"]
        for cause in ("dropped", "dead"):
            for reason, count in dict(queue[cause]).items():
                lost[(*where, *(("purged", "") if reason == "purged" else (cause, reason)))] += count
        lost[(*where, "replayed", "")] += dict(queue["dead_letters"]).get("replayed", 0)
    report = finished.report

    assert {(row["node"], row["queue"]): row["in_flight"] for row in rows_of(report.section("inflight"))} == flights
    assert {(row["node"], row["bridge"], row["reason"]): row["held"] for row in rows_of(report.section("dead-letters"))} == letters
    shown = {
        (row["node"], row["bridge"], row["cause"], row["reason"] or ""): row["messages"]
        for row in rows_of(report.section("losses"))
    }
    assert shown == +lost


def test_the_width_of_a_point_is_that_of_the_time_known(either: Judged) -> None:
    known = either.known
    links_at = [row["at"] for row in known.events if row["kind"].startswith("link.")]
    every = [row["settled_at"] for row in known.settlements] + links_at + [row["snapshot_at"] for row in known.queues_all]

    assert either.width_s == bucket_s((max(row["snapshot_at"] for row in known.queues) - min(every)).total_seconds())


def test_latencies_are_those_of_each_delivered_message(judged: Judged) -> None:
    """Over overlapping snapshots each message counts once; by bridge, and by bridge and time."""
    took: dict[tuple[str, str, int | None], list[int]] = defaultdict(list)
    odd: Counter[tuple[str, str, str]] = Counter()
    for node, bridge, settled_s, took_ms, jumped in latencies(judged.known):
        if jumped or took_ms < 0:
            odd[node, bridge, "jumped" if jumped else "negative"] += 1
            continue
        for start in (None, settled_s // judged.width_s * judged.width_s):
            took[node, bridge, start].append(took_ms)
    by_bridge = rows_of(judged.report.section("latency"))
    by_time = [row for row in judged.rows("latency") if row["messages"]]

    assert {(row["node"], row["bridge"], None) for row in by_bridge} == {key for key in took if key[2] is None}
    assert {(row["node"], row["bridge"], row["start"] // 1000) for row in by_time} == {key for key in took if key[2] is not None}
    assert len(by_time) > 10
    for row in by_bridge + by_time:
        mine = sorted(took[row["node"], row["bridge"], row["start"] // 1000 if "start" in row else None])
        assert row["messages"] == len(mine)
        assert row["max_s"] == mine[-1] / 1000
        for name, share in (("p50_s", 0.5), ("p90_s", 0.9), ("p99_s", 0.99), ("p999_s", 0.999)):
            assert row[name] == pytest.approx(percentile(mine, share) / 1000, abs=1e-6), name
        if "start" not in row:
            assert row["clock_jumps"] == odd[row["node"], row["bridge"], "jumped"]
            assert row["negative"] == odd[row["node"], row["bridge"], "negative"]


def test_throughput_is_what_each_message_and_settlement_says(either: Judged) -> None:
    """Over time and by bridge; the planted loss and duplicate are in it as they are in the settlements."""
    expected = traffic(either.known, either.width_s)
    shown = either.rows("throughput")
    moved = moves(either.known)

    names = ("accepted", "accepted_bytes", "delivered", "expired", "dropped", "dead", "delivered_bytes")
    assert {(row["node"], row["bridge"], row["start"] // 1000): {name: row[name] for name in names} for row in shown} == {
        key: {name: count[name] for name in names} for key, count in expected.items()
    }
    for row in rows_of(either.report.section("throughput")):
        key = (row["node"], "" if row["bridge"] == "local sessions" else row["bridge"])
        mine = {at[2]: count for at, count in expected.items() if at[:2] == key}
        if mine:
            assert row["kept"] == sum(count["delivered"] for count in mine.values())
            assert row["kept_bytes"] == sum(count["delivered_bytes"] for count in mine.values())
            assert row["peak_out_per_s"] == max(count["delivered"] for count in mine.values()) / either.width_s
            assert mine[row["peak_in_at"] // 1000]["accepted"] == row["peak_in_per_s"] * either.width_s
        if key in moved:
            between_s, accepted, delivered = moved.pop(key)
            assert (row["between_s"], row["accepted"], row["delivered"]) == (pytest.approx(between_s), accepted, delivered)
            assert row["in_per_s"] == pytest.approx(accepted / between_s)
    assert not moved


def test_the_hottest_topics_are_those_of_the_messages(judged: Judged) -> None:
    messages = judged.known.messages
    count = Counter(row["topic"] for row in messages)
    bytes_of: Counter[str] = Counter()
    for row in messages:
        bytes_of[row["topic"]] += row["payload_bytes"]
    shown = rows_of(judged.report.section("topics"))

    assert {row["topic"]: row["messages"] for row in shown} == count
    assert [row["messages"] for row in shown] == sorted(count.values(), reverse=True)
    for row in shown:
        mine = [one for one in messages if one["topic"] == row["topic"]]
        assert row["bytes"] == bytes_of[row["topic"]]
        assert row["share"] == pytest.approx(100 * len(mine) / len(messages))
        assert row["waiting"] == sum(one["state"] != "settled" for one in mine)
        assert row["nodes"] == len({one["node"] for one in mine})
        assert row["last_at"] == max(ms(one["accepted_at"]) for one in mine)


def test_what_was_sent_again_and_what_is_missing_is_named(either: Judged) -> None:
    known = either.known
    expected: set[tuple[str, str | None, str, int | None, int | None, int]] = {
        (row["node"], row["queue"], "sent again", None, None, row["redelivered"]) for row in known.queues if row["redelivered"]
    }
    numbers: dict[tuple[str, str | None, str], list[int]] = defaultdict(list)
    for row in known.settlements:
        numbers[row["node"], row["queue"], "settlements missing"].append(row["number"])
    for row in known.events:
        numbers[row["node"], None, "events missing"].append(row["number"])
    for (node, queue, what), mine in numbers.items():
        expected |= {(node, queue, what, first, last, last - first + 1) for first, last in gaps(mine)}
    section = either.report.section("duplicates")
    shown = rows_of(section)

    names = ("node", "queue", "what", "first", "last", "count")
    assert {tuple(row[name] for name in names) for row in shown} == expected
    assert section.verdict == ("problem" if any(one[2] == "settlements missing" for one in expected) else "ok")
    assert [row["verdict"] for row in shown] == sorted((row["verdict"] for row in shown), key=WORST.index)


def test_links_and_flapping_windows_are_those_of_the_events(either: Judged) -> None:
    spans, fell = links(either.known), downs(either.known)
    windows = flapping(either.known, either.thresholds.flapping_downs, either.thresholds.flapping_period_s)
    shown = rows_of(either.report.section("flapping"))
    frame = either.engine.collect(
        "SELECT node, bridge, lane, unix_micros(start) AS start, unix_micros(stop) AS stop, downs FROM "
        + either.finished.frames["flapping_windows"].name
    )

    assert {tuple(row.values()) for row in frame} == windows
    assert {(row["node"], row["bridge"], row["lane"]) for row in shown} == set(spans)
    for row in shown:
        lane = (row["node"], row["bridge"], row["lane"])
        length = Counter({"up": 0, "down": 0})
        for start, stop, state in spans[lane]:
            length[state] += stop - start
        mine = [one for one in windows if one[:3] == lane]
        longest = max((stop - start for start, stop, state in spans[lane] if state == "down"), default=None)
        assert (row["state"], row["since"]) == (spans[lane][-1][2], spans[lane][-1][0] // 1000)
        assert row["watched_s"] == pytest.approx(sum(length.values()) / 1e6)
        assert row["up_percent"] == pytest.approx(100 * length["up"] / sum(length.values()))
        assert row["longest_down_s"] == (None if longest is None else pytest.approx(longest / 1e6))
        assert row["downs"] == len(fell[lane])
        reasons = Counter(one["reason"] for one in fell[lane])
        assert not reasons or row["reason"] == min(reasons, key=lambda reason: (-reasons[reason], reason))
        assert row["windows"] == len(mine)
        assert not mine or row["worst_downs"] == max(one[5] for one in mine)
        assert row["verdict"] == ("attention" if row["state"] == "down" or mine else "ok")
    assert [row["verdict"] for row in shown] == sorted((row["verdict"] for row in shown), key=WORST.index)
    drawn = [span for series in either.report.section("flapping").charts[0].series for span in series.spans]
    assert drawn
    assert all(span.stop_ms > span.start_ms for span in drawn)


def test_restarts_are_those_of_the_events(either: Judged) -> None:
    count: Counter[tuple[str, str, str]] = Counter()
    for row in either.known.events:
        name = next((one for one in (row["actor"], row["bridge"]) if one is not None), "")
        if row["kind"] in flapping_report.TOLD:
            count[row["node"], row["kind"], name] += 1
    assert {(row["node"], row["what"], row["actor"]): row["count"] for row in either.rows("restarts")} == count
    words = {row["what"] for row in rows_of(either.report.section("restarts"))}
    assert words == {flapping_report.TOLD[kind][1] for _, kind, _ in count}


def test_growth_is_the_line_through_the_snapshots(either: Judged) -> None:
    expected = forecasts(either.known)
    shown = rows_of(either.report.section("growth"))

    assert {(row["node"], row["what"]) for row in shown} == set(expected)
    for row in shown:
        used, per_h, full_in_s = expected[row["node"], row["what"]]
        if full_in_s is not None and full_in_s > either.thresholds.forecast_max_s:
            full_in_s = None
        assert row["snapshots"] == used
        assert row["messages_per_h"] == (None if per_h is None else pytest.approx(per_h))
        assert row["full_in_s"] == (None if full_in_s is None else pytest.approx(full_in_s))


def test_a_card_says_little_and_the_headline_says_it_first(judged: Judged) -> None:
    report = judged.report

    assert report.headline.startswith("It does not add up in")
    assert "accepted =" not in report.headline
    assert {len(card.facts) for card in report.cards} <= set(range(1, 10))
    assert all("as of" not in card.summary for card in report.cards)


def test_exports_give_the_same_report(judged: Judged, planted: Made, tmp_path: Path, engine: DuckDbEngine) -> None:
    export([one for path in planted.snapshots for one in find_snapshots(path)], tmp_path)

    report = build(Context(engine, open_source([str(tmp_path)])), made_at_ms=0).report

    assert rounded(report) == rounded(judged.report)


def test_the_trouble_is_there(troubled: Judged) -> None:
    """The compared results of the other tests are not empty on both sides."""
    windows = flapping(troubled.known, troubled.thresholds.flapping_downs, troubled.thresholds.flapping_period_s)
    assert len(windows) > 1
    assert gaps(row["number"] for row in troubled.known.settlements) == {(5, 6), (40, 40)}
    assert gaps(row["number"] for row in troubled.known.events) == {(30, 31), (77, 77)}
    assert {what: full_in is not None for (_, what), (_, _, full_in) in forecasts(troubled.known).items()} == {
        "cloud": True,
        "the whole node": True,
        "free disk above its minimum": True,
    }


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
@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
def test_stretches_are_what_counting_each_sequence_gives(
    tmp_path_factory: pytest.TempPathFactory, queues: list[tuple[Ranges, set[int], int, int]]
) -> None:
    """reports.sequence-has-one-fate: many small queues in one query: ranges that overlap, touch and miss, against a count for each
    sequence.
    """
    rows = Rows()
    rows.snapshot("n", 100)
    for lane, (settled, stored, low, tail) in enumerate(queues):
        queue = f"bridge:cloud:{lane}"
        rows.queue(queue, head=tail, tail=tail, history_from=low, accepted=tail, delivered=tail)
        for number, (_, first, last) in enumerate(settled):
            rows.settled(queue, number, 1.0, first, last)
        for seq in stored:
            rows.message(queue, seq, 0)
    engine = DuckDbEngine()
    context = Context(engine, exported(rows, tmp_path_factory.mktemp("queues")))
    stretches = reconciliation.stretches(context, reconciliation._judged(context), reconciliation._stored(context))
    found = context.collect("SELECT * FROM {stretches}", stretches=stretches)
    engine.release()

    shown: dict[tuple[str, int], str] = {}
    for row in found:
        for seq in range(row["first_seq"], row["last_seq"] + 1):
            assert (row["queue"], seq) not in shown
            shown[row["queue"], seq] = row["what"]
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


def test_clock_jumps_and_negative_latencies_are_counted_apart(engine: DuckDbEngine, tmp_path: Path) -> None:
    rows = Rows()
    rows.snapshot("n", 1000)
    rows.queue(QUEUE, head=4, tail=4, history_from=0, accepted=4, delivered=4, retention_s=60.0)
    for seq, (accepted, settled) in enumerate([(0, 2), (90, 205), (300, 299), (400, 404)]):
        rows.message(QUEUE, seq, accepted, state="settled", outcome="delivered", settled_at=at(settled), settlement=seq)
        rows.settled(QUEUE, seq, settled, seq, seq)
    rows.event(0, 200, "clock.jumped", details='{"by_ms": 100000}')
    report = build(Context(engine, exported(rows, tmp_path)), names=["latency"], made_at_ms=0).report

    (row,) = rows_of(report.section("latency"))
    assert (row["messages"], row["clock_jumps"], row["negative"], row["max_s"]) == (2, 1, 1, 4.0)


def test_a_clock_that_was_set_back_makes_no_older_snapshot_the_newest(engine: DuckDbEngine, tmp_path: Path) -> None:
    """s1 and s2, then the clock goes back by a day, then s3, which has a loss: in one life of the store."""
    rows = Rows()
    names = []
    for seconds, tail in ((0, 10), (3600, 20), (7200 - 86_400, 30)):
        names.append(rows.snapshot("n", seconds))
        rows.queue(QUEUE, head=tail, tail=tail, history_from=0, accepted=tail, delivered=tail, retention_s=9e6)
        for number in range(0, tail, 10):
            rows.settled(QUEUE, number // 10, number, number, number + 9 - (number == 20))
        for number in range(5 if tail == 30 else 0, tail):
            rows.event(number, number, "link.up", bridge="cloud", lane="0")
    context = Context(engine, exported(rows, tmp_path))
    report = build(context, names=["reconciliation", "growth"], made_at_ms=0).report
    events = sorted((row["number"], row["snapshot_id"]) for row in context.collect("SELECT * FROM {events}"))

    assert [(one.snapshot_id, one.newest) for one in report.snapshots] == list(zip(names, (False, False, True), strict=True))
    (row,) = rows_of(report.section("reconciliation"))
    assert (row["verdict"], row["accepted"], row["lost"]) == ("problem", 30, 1)
    assert "29" in report.section("sequences").summary
    for name in ("reconciliation", "growth"):
        assert any("set back by 23 h" in note and names[1] in note and names[2] in note for note in report.section(name).notes)
    assert events == [(number, names[2] if number >= 5 else names[1]) for number in range(30)]


Marker = tuple[int, int | None, str | None]  # sequence, packet identifier, topic of what is in flight
MARKERS: dict[str, tuple[list[Marker], str | None]] = {
    "sound": ([(0, 1, "a"), (1, 2, "a")], None),
    "one identifier twice": ([(0, 1, "a"), (1, 1, "a")], "same_id"),
    "marked and not stored": ([(0, 1, "a"), (1, 2, None)], "not_stored"),
    "QoS 0 is not stored": ([(0, None, None), (1, 2, "a")], None),
    "too far apart": ([(0, 1, "a"), (65_000, 2, "a")], "span"),
}


def test_markers_that_contradict_the_store_are_a_problem(engine: DuckDbEngine, tmp_path: Path) -> None:
    """exchange.identifier-never-twice: a node for each case."""
    rows = Rows()
    for node, (markers, _) in MARKERS.items():
        rows.snapshot(node, 100)
        rows.queue(QUEUE, head=0, tail=70_000, accepted=70_000, depth=70_000)
        for seq, packet_id, topic in markers:
            rows.mark(QUEUE, seq, packet_id=packet_id, topic=topic, accepted_at=at(99) if topic else None)
    section = build(Context(engine, exported(rows, tmp_path)), names=["inflight"], made_at_ms=0).report.section("inflight")

    found = {row["node"]: row for row in rows_of(section)}
    assert found.keys() == MARKERS.keys()
    assert section.verdict == "problem"
    for node, (markers, wrong) in MARKERS.items():
        assert found[node]["verdict"] == ("problem" if wrong else "ok"), node
        expected = {"same_id": 0, "not_stored": 0, "span": markers[-1][0] + 1}
        expected |= {wrong: 1} if wrong in ("same_id", "not_stored") else {}
        assert {name: found[node][name] for name in expected} == expected, node


@pytest.mark.parametrize("form", ["json", "html", "parquet"])
def test_what_is_written_is_whole(judged: Judged, finished: Finished, tmp_path: Path, form: Format) -> None:
    few = Finished(report=finished.report, frames={"sequences": finished.frames["sequences"]})
    write(judged.engine, few, str(tmp_path), [form])

    assert (tmp_path / "_SUCCESS").exists()
    if form == "json":
        assert Report.from_json((tmp_path / "report.json").read_text()) == finished.report
    elif form == "html":
        assert (tmp_path / "report.html").read_text().lower().startswith("<!doctype html>")
    else:
        rows = pq.read_table(tmp_path / "sequences").to_pylist()
        assert [row["node"] for row in rows] == ["box-1", "box-1"]
        assert {row["snapshot_at"].tzinfo is not None for row in rows} == {True}


def test_two_stores_of_one_node_are_told_apart_and_said(engine: DuckDbEngine, tmp_path: Path) -> None:
    """The data folder was replaced. The new store has come further than the old one, whose clock was ahead."""
    ledgers = []
    for turn, count in ((1, 40), (0, 100)):
        edge = Edge(tmp_path / f"store-{turn}")
        with edge.model:
            edge.model.advance(turn * 3_600_000)
            edge.publish(count, plant=count)
            edge.deliver(count)
            manifest = read_manifest(edge.snapshot(tmp_path / "there"))
        ledgers.append(sum(queue.ledger.accepted for queue in manifest.queues))
    finished = build(Context(engine, open_source([str(tmp_path / "there")])), names=["reconciliation", "growth"], made_at_ms=0)
    rows = engine.collect(f"SELECT * FROM {finished.frames['reconciliation'].name}")

    assert sum(row["accepted"] for row in rows) == sum(ledgers)
    assert len(finished.report.nodes) == 2
    assert {row["node"] for row in rows} == set(finished.report.nodes)
    assert all(name.startswith("edge [") for name in finished.report.nodes)
    assert finished.report.headline.endswith("Node edge had 2 stores.")
    assert finished.report.verdict == "attention"
    assert any("its data folder was replaced" in note.lower() for section in finished.report.sections for note in section.notes)


def test_what_operators_purged_or_replayed_is_no_loss(engine: DuckDbEngine, tmp_path: Path) -> None:
    """Of ten messages one was refused, replayed and delivered, three were purged; then one more is refused, and is the loss."""
    edge = Edge(tmp_path / "store")
    with edge.model:
        edge.publish(10, plant=3)
        edge.deliver(6)
        store, now_s = edge.model.store, edge.model.now_s
        assert command(store, "replay", bridge="cloud", now_s=now_s)["replayed"] == 1
        command(store, "purge", bridge="plant", now_s=now_s)
        edge.snapshot(tmp_path / "cured")
        edge.model.turn()
        edge.deliver(1)
        edge.snapshot(tmp_path / "lost")
        purged = store.status(0).queues[PLANT].dropped["purged"]
    found = {}
    for folder in ("cured", "lost"):
        found[folder] = build(Context(engine, open_source([str(tmp_path / folder)])), names=["losses"], made_at_ms=0).report

    done = f"By operators: {purged} purged from queues, 1 replayed from dead letters."
    cured, lost = (found[folder].section("losses") for folder in ("cured", "lost"))
    assert (cured.verdict, lost.verdict) == ("ok", "attention")
    assert cured.summary == f"Nothing was dropped, nothing expired, nothing was refused for good. {done}"
    assert lost.summary.startswith("1 message ended without delivery: 2 dead: not-authorized, less 1 that were replayed; the last")
    assert lost.summary.endswith(done)
    shown = {(row["bridge"], row["cause"], row["reason"]): row["messages"] for row in rows_of(lost)}
    assert shown == {("cloud", "dead", "not-authorized"): 2, ("cloud", "replayed", None): 1, ("plant", "purged", None): purged}
