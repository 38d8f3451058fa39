"""Puts the reports together: their sections in reading order, a card for each bridge, and the verdict over all."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from analysis.engines.engine import Frame
from analysis.reports import (
    backlog,
    duplicates,
    flapping,
    growth,
    inflight,
    latency,
    losses,
    reconciliation,
    throughput,
    topics,
)
from analysis.reports.context import Context
from analysis.reports.report_model import Card, Fact, Problem, Report, Section, Verdict, worst
from analysis.reports.report_parts import BridgeKey, Made, Mark, plural

REPORTS: dict[str, Callable[[Context], Made]] = {
    reconciliation.NAME: reconciliation.make,
    backlog.NAME: backlog.make,
    inflight.NAME: inflight.make,
    latency.NAME: latency.make,
    throughput.NAME: throughput.make,
    losses.NAME: losses.make,
    duplicates.NAME: duplicates.make,
    flapping.NAME: flapping.make,
    topics.NAME: topics.make,
    growth.NAME: growth.make,
}
_WORST_FIRST: tuple[Verdict, ...] = ("problem", "attention", "ok", "none")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A report, and the frames with all its rows, for Parquet."""

    report: Report
    frames: Mapping[str, Frame]


def build(
    context: Context,
    *,
    names: Sequence[str] = (),
    title: str = "Bascule report",
    made_at_ms: int,
    problems: Sequence[Problem] = (),
    on_report: Callable[[str], None] = lambda _: None,
) -> Finished:
    """Make the reports ``names``, all of them if none is named; ``on_report`` is told before each.

    Raises:
        ValueError: there is no such report.
    """
    unknown = [name for name in names if name not in REPORTS]
    if unknown:
        raise ValueError(f"there is no report {unknown[0]!r}; there are {', '.join(REPORTS)}")
    made: list[Made] = []
    for name, make in REPORTS.items():
        if not names or name in names:
            on_report(name)
            made.append(make(context))
    sections = tuple(section for one in made for section in one.sections)
    verdict = worst(*(section.verdict for section in sections), "attention" if problems or context.store_notes else "none")
    report = Report(
        title=title,
        verdict=verdict,
        headline=" ".join(
            (
                _headline(sections, problems, next((one.headline for one in made if one.headline), "")),
                *(f"{note.partition(':')[0]}." for note in context.store_notes),
            )
        ),
        made_at_ms=made_at_ms,
        since_ms=_ms(context.period.since_us),
        until_ms=_ms(context.period.until_us),
        nodes=tuple(sorted(row["node"] for row in context.newest_rows)),
        snapshots=context.used,
        cards=tuple(_cards(context, [one.marks for one in made])),
        sections=sections,
        problems=tuple(problems),
    )
    return Finished(report=report, frames={name: frame for one in made for name, frame in one.frames.items()})


def _ms(time_us: int | None) -> int | None:
    return None if time_us is None else time_us // 1000


def _headline(sections: Sequence[Section], problems: Sequence[Problem], answer: str) -> str:
    titles: dict[Verdict, list[str]] = defaultdict(list)
    for section in sections:
        titles[section.verdict].append(section.title.lower())
    judged = next((section for section in sections if section.name == reconciliation.NAME), None)
    if judged is not None and answer:
        text = answer
    elif titles["problem"]:
        text = "There is a problem."
    else:
        text = "No problem was found."
    others = [title for title in titles["problem"] if judged is None or title not in (judged.title.lower(), "offending sequences")]
    if others:
        text += f" Wrong as well: {', '.join(others)}."
    if problems:
        text += (
            f" {plural(len(problems), 'snapshot or part', 'snapshots or parts')} could not be read and"
            f" {'is' if len(problems) == 1 else 'are'} missing here."
        )
    return text


def _cards(context: Context, marks: Sequence[Mapping[BridgeKey, Mark]]) -> list[Card]:
    """A card for each bridge of each node, and for its local sessions if it has any; the worst first, then by name."""
    found = context.collect(
        "SELECT node, coalesce(bridge, '') AS bridge, max(snapshot_at) AS at FROM {queues} GROUP BY 1, 2 ORDER BY 1, 2"
    )
    cards = []
    for row in found:
        mine = [mark[row["node"], row["bridge"]] for mark in marks if (row["node"], row["bridge"]) in mark]
        facts: dict[str, Fact] = {}
        for fact in (fact for mark in mine for fact in mark.facts):
            facts.setdefault(fact.name, fact)
        notes = [mark.note for verdict in _WORST_FIRST for mark in mine if mark.note and mark.verdict == verdict]
        summary = "; ".join(notes) if notes else "in order"
        cards.append(
            Card(
                node=row["node"],
                bridge=row["bridge"],
                verdict=worst(*(mark.verdict for mark in mine)),
                summary=f"{summary[:1].upper()}{summary[1:]}.",
                at_ms=row["at"],
                facts=tuple(facts.values()),
            )
        )
    return sorted(cards, key=lambda card: _WORST_FIRST.index(card.verdict))
