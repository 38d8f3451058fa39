"""Reports of any size with plausible figures, from one seed: what the page is looked at with, and tested with."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from itertools import pairwise

from analysis.reports.report_model import (
    Card,
    Cell,
    Chart,
    Column,
    Fact,
    Kind,
    Problem,
    Report,
    Section,
    Series,
    SnapshotUsed,
    Span,
    Verdict,
    worst,
)

HOUR_MS = 3_600_000
END_MS = 1_795_255_200_000  # 2026-11-21 10:00 UTC
CAUSES = ("queue_full", "expired", "too_large", "not_authorized", "topic_name_invalid", "quota_exceeded")


@dataclass
class Fleet:
    """A made-up fleet. ``hostile`` is put where foreign text may stand: topics, reasons, names."""

    nodes: int = 3
    hours: int = 24
    seed: int = 5
    bad: int = 1
    hostile: str | None = None
    chance: random.Random = field(init=False, default_factory=random.Random)

    def report(self) -> Report:
        """The whole report; the same every time."""
        self.chance = random.Random(self.seed)
        names = tuple(f"site-{number:03d}" for number in range(1, self.nodes + 1))
        bridges = [(node, bridge) for node in names for bridge in ("cloud", "historian")]
        cards = sorted(
            (self._card(node, bridge, at) for at, (node, bridge) in enumerate(bridges)),
            key=lambda card: ("problem", "attention", "ok", "none").index(card.verdict),
        )
        sections = (
            self._reconciliation(bridges),
            self._backlog(bridges),
            self._latency(),
            self._throughput(bridges),
            self._drops(),
            self._flapping(bridges),
            self._topics(),
        )
        lost = sum(section.verdict == "problem" for section in sections)
        headline = f"{sections[0].summary if lost else 'Everything adds up.'} Worth a look: latency, losses, links."
        return Report(
            title="Bascule report",
            verdict=worst(*(section.verdict for section in sections)),
            headline=headline,
            made_at_ms=END_MS + 95_000,
            since_ms=END_MS - self.hours * HOUR_MS,
            until_ms=END_MS,
            nodes=names,
            snapshots=tuple(self._snapshot(node, back) for node in names for back in (0, 1)),
            cards=tuple(cards),
            sections=sections,
            problems=(
                Problem(path="snapshots/site-002-20261120T100000000Z-9", queue="", why="the manifest's check does not agree"),
            )
            if self.bad
            else (),
        )

    def _text(self, text: str) -> str:
        return text if self.hostile is None else self.hostile

    def _is_bad(self, at: int) -> bool:
        return self.bad > 0 and at == 2

    def _snapshot(self, node: str, back: int) -> SnapshotUsed:
        at_ms = END_MS - back * 6 * HOUR_MS - self.chance.randrange(60_000)
        name = f"{node}-2026112{1 - back}T0{9 - back * 6}59{self.chance.randrange(10, 60)}123Z-4"
        return SnapshotUsed(node=node, snapshot_id=name, at_ms=at_ms, newest=back == 0, path=f"/srv/snapshots/{name}")

    def _card(self, node: str, bridge: str, at: int) -> Card:
        accepted = self.chance.randrange(200_000, 4_000_000)
        queued = self.chance.randrange(0, 400)
        dead, expired = self.chance.randrange(0, 4), self.chance.randrange(0, 90)
        dropped = 1_204 if self.bad and at == 1 else 0
        verdict: Verdict = "problem" if self._is_bad(at) else "attention" if dropped else "ok"
        said = {
            "problem": "1 message was lost and 1 was settled twice.",
            "attention": "1,204 messages were dropped because the queue was full.",
        }
        facts: tuple[tuple[str, str, Kind, Cell], ...] = (
            ("accepted", "Accepted", "count", accepted),
            ("delivered", "Delivered", "count", accepted - queued - dead - dropped - expired),
            ("queued", "Waiting", "count", queued),
            ("expired", "Expired", "count", expired),
            ("dropped", "Dropped", "count", dropped),
            ("dead", "Dead letters", "count", dead),
            ("oldest", "Oldest waiting", "duration_s", queued * 0.37),
            ("p99", "Latency p99", "duration_s", 0.02 + self.chance.random()),
            ("full", "Full in", "duration_s", None if queued < 300 else 86_400.0 * 9.3),
        )
        return Card(
            node=self._text(node),
            bridge=self._text(bridge),
            verdict=verdict,
            summary=said.get(verdict, "Everything accepted is accounted for."),
            at_ms=END_MS - self.chance.randrange(60_000),
            facts=tuple(Fact(name=name, title=title, kind=kind, value=value) for name, title, kind, value in facts),
        )

    def _times(self, step_ms: int = 900_000) -> tuple[int, ...]:
        return tuple(range(END_MS - self.hours * HOUR_MS, END_MS, step_ms))

    def _outage(self, at_ms: int) -> bool:
        return 7.5 < (at_ms - (END_MS - self.hours * HOUR_MS)) / HOUR_MS < 9.25

    def _reconciliation(self, bridges: list[tuple[str, str]]) -> Section:
        rows: list[tuple[Cell, ...]] = []
        for at, (node, bridge) in enumerate(bridges):
            accepted, queued = self.chance.randrange(200_000, 4_000_000), self.chance.randrange(0, 400)
            expired, dropped, dead = self.chance.randrange(90), 1_204 if self.bad and at == 1 else 0, self.chance.randrange(4)
            bad = self._is_bad(at)
            rows.append(
                (
                    "problem" if bad else "ok",
                    self._text(node),
                    self._text(f"{bridge}:0"),
                    accepted,
                    accepted - queued - expired - dropped - dead,
                    queued,
                    expired,
                    dropped,
                    dead,
                    0,
                    120,
                    accepted + 120,
                    int(bad),
                    int(bad),
                )
            )
        rows.sort(key=lambda row: row[0] != "problem")
        return Section(
            name="reconciliation",
            title="Reconciliation",
            question="Is every accepted message delivered, queued, expired, dropped or dead-lettered, and each exactly once?",
            verdict="problem" if self.bad and len(bridges) > 2 else "ok",
            summary="It does not add up in 1 queue of 1 node (site-002): lost 1; settled twice 1."
            if self.bad
            else "Every accepted message is delivered, waiting, expired, dropped or a dead letter, once.",
            columns=_columns(
                "verdict:Verdict:state node:Node:text queue:Queue:text accepted:Accepted:count delivered:Delivered:count "
                "queued:Queued:count expired:Expired:count dropped:Dropped:count dead:Dead-lettered:count "
                "difference:Difference:count seq_from:Sequences_from:count seq_to:up_to:count lost:Lost:count "
                "settled_twice:Twice:count"
            ),
            rows=tuple(rows),
            rows_total=len(rows),
            notes=("History covers the last 24 h; what was settled before is judged by the ledgers alone.",),
        )

    def _backlog(self, bridges: list[tuple[str, str]]) -> Section:
        times = self._times()
        series = []
        for node, bridge in bridges:
            depth, line = 40.0, []
            for at in times:
                depth = depth + 2_600 * self.chance.random() if self._outage(at) else max(20.0, depth * 0.72)
                line.append(round(depth * (0.8 + 0.4 * self.chance.random())))
            series.append(Series(name=f"{node} {bridge}", values=tuple(line)))
        rows = [
            (
                self._text(node),
                self._text(bridge),
                self._text(f"plant/{at % 7}/press/{at}/temperature"),
                self.chance.randrange(1, 40_000),
                self.chance.randrange(1_000, 90_000_000),
                END_MS - self.chance.randrange(8 * HOUR_MS),
                self.chance.random() * 8 * 3600,
            )
            for at, (node, bridge) in enumerate(bridges * 4)
        ]
        rows.sort(key=lambda row: -row[3])
        names = tuple(self._text(f"plant/{at}/press/+/temperature") for at in range(9))
        return Section(
            name="backlog",
            title="Backlog",
            question="What is waiting where, and since when?",
            verdict="ok",
            summary="2,214 messages (1.4 MiB) are waiting; the oldest has waited 2 h 25 min, on site-001, bridge historian.",
            columns=_columns(
                "node:Node:text bridge:Bridge:text topic:Topic:text messages:Messages:count bytes:Bytes:bytes "
                "oldest_at:Oldest_accepted:time age:Oldest_waiting:duration_s"
            ),
            rows=tuple(rows),
            rows_total=len(rows) + (4_000 if len(rows) > 1_000 else 0),
            charts=(
                Chart(kind="lines", title="Waiting messages", x=times, series=tuple(series), unit_y="count"),
                Chart(
                    kind="stacked-bars",
                    title="Waiting now, by rule and age",
                    x=names,
                    unit_x="text",
                    series=tuple(
                        Series(name=age, values=tuple(float(self.chance.randrange(0, 900 // (at + 1))) for at in range(9)))
                        for age in ("under 1 min", "under 1 h", "over 1 h")
                    ),
                ),
            ),
        )

    def _latency(self) -> Section:
        times = self._times()
        lines: dict[str, list[float | None]] = {"p50": [], "p90": [], "p99": [], "max": []}
        for at in times:
            base = 0.012 * (1.5 + math.sin(at / HOUR_MS / 3)) * (400_000 if self._outage(at) else 1)
            for name, factor in (("p50", 1.0), ("p90", 2.5), ("p99", 11.0), ("max", 60.0)):
                unknown = 4 < (at - times[0]) / HOUR_MS < 5
                lines[name].append(None if unknown else base * factor * (0.8 + 0.5 * self.chance.random()))
        return Section(
            name="latency",
            title="Latency",
            question="How long did messages take from acceptance to delivery?",
            verdict="attention",
            summary="Half were delivered within 18 ms, 99 of 100 within 210 ms; during the outage from 17:30 on up to 2 h.",
            charts=(
                Chart(
                    kind="lines",
                    title="Accepted to delivered",
                    x=times,
                    series=tuple(Series(name=name, values=tuple(values)) for name, values in lines.items()),
                    unit_y="duration_s",
                    log_y=True,
                ),
            ),
            notes=("12 messages settled across a jump of the clock have no latency.",),
        )

    def _throughput(self, bridges: list[tuple[str, str]]) -> Section:
        times = self._times()
        rate = [round((420 + 180 * math.sin(at / HOUR_MS / 4)) * (0.9 + 0.2 * self.chance.random()), 1) for at in times]
        delivered = [0.0 if self._outage(at) else value for at, value in zip(times, rate, strict=True)]
        growth = tuple(round(value * 310.0) for value in rate)
        return Section(
            name="throughput",
            title="Throughput",
            question="How much came in and went out?",
            verdict="none",
            summary=f"On average 421 messages a second came in on {len(bridges)} bridges and 420 went out.",
            charts=(
                Chart(
                    kind="lines",
                    title="Messages a second",
                    x=times,
                    series=(Series(name="accepted", values=tuple(rate)), Series(name="delivered", values=tuple(delivered))),
                    unit_y="per_s",
                ),
                Chart(kind="lines", title="Bytes on disk", x=times, series=(Series(name="bytes", values=growth),), unit_y="bytes"),
            ),
        )

    def _drops(self) -> Section:
        times = self._times(HOUR_MS)
        return Section(
            name="drops",
            title="Drops and dead letters",
            question="What was not delivered, and why?",
            verdict="attention" if self.bad else "ok",
            summary="1,204 messages were dropped because a queue was full; 3 became dead letters.",
            columns=_columns("cause:Cause:text kind:Kind:text messages:Messages:count share:Share:percent last:Last:time"),
            rows=tuple(
                (self._text(cause), "dropped", 1_204 // (at + 1), 60.0 / (at + 1), END_MS - at * 777_123)
                for at, cause in enumerate(CAUSES)
            ),
            rows_total=len(CAUSES),
            charts=(
                Chart(
                    kind="stacked-bars",
                    title="Not delivered, by cause",
                    x=times,
                    series=tuple(
                        Series(
                            name=cause,
                            values=tuple(float(self.chance.randrange(0, 60)) if self._outage(at) else 0.0 for at in times),
                        )
                        for cause in CAUSES[:4]
                    ),
                ),
            ),
        )

    def _flapping(self, bridges: list[tuple[str, str]]) -> Section:
        series = []
        for at, (node, bridge) in enumerate(bridges):
            cuts = sorted(END_MS - self.chance.randrange(self.hours * HOUR_MS) for _ in range(self.chance.randrange(1, 5) * 2))
            edges = [END_MS - self.hours * HOUR_MS, *cuts, END_MS]
            spans = []
            for number, (start, stop) in enumerate(pairwise(edges)):
                verdict: Verdict = "ok" if number % 2 == 0 else "problem" if at == 0 else "attention"
                spans.append(
                    Span(
                        start_ms=start, stop_ms=stop, label="up" if verdict == "ok" else "down: Keep alive timeout", verdict=verdict
                    )
                )
            spans.append(Span(start_ms=cuts[0], stop_ms=cuts[0], label="node restarted", verdict="none"))
            series.append(Series(name=f"{self._text(node)} {bridge}", spans=tuple(spans)))
        return Section(
            name="flapping",
            title="Links",
            question="Which connections came and went?",
            verdict="attention",
            summary="site-001, bridge cloud, lost its connection 14 times between 17:30 and 18:10.",
            charts=(Chart(kind="timeline", title="Connections", series=tuple(series)),),
        )

    def _topics(self) -> Section:
        names = tuple(self._text(f"plant/{at}/line/{at * 3}/press/telemetry") for at in range(20))
        counts = tuple(round(900_000 / (at + 1) ** 1.1) for at in range(20))
        return Section(
            name="topics",
            title="Hottest topics",
            question="Which topics carry most?",
            verdict="none",
            summary="Three topics carry half of all messages.",
            columns=_columns("topic:Topic:text messages:Messages:count bytes:Bytes:bytes share:Share:percent"),
            rows=tuple((name, count, count * 212, count / 40_000) for name, count in zip(names, counts, strict=True)),
            rows_total=20,
            charts=(
                Chart(kind="bars", title="Messages", x=names, unit_x="text", series=(Series(name="messages", values=counts),)),
            ),
        )


def _columns(text: str) -> tuple[Column, ...]:
    kinds: dict[str, Kind] = {
        "text": "text",
        "count": "count",
        "bytes": "bytes",
        "duration_s": "duration_s",
        "percent": "percent",
        "time": "time",
        "state": "state",
    }
    parts = (one.split(":") for one in text.split())
    return tuple(Column(name=name, title=title.replace("_", " "), kind=kinds[kind]) for name, title, kind in parts)
