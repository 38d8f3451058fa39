"""Nodes and bridges at a glance: one small square a node, one card a bridge, and where the messages of all of them are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from analysis.page.figure import percent
from analysis.page.tables import badge, icon
from analysis.page.text import markup, shown
from analysis.reports.report_model import Card, Cell, Report, Verdict, worst

CARDS_FIRST, CARDS_FIRST_MAX = 3, 6  # shown at once: all that are not well, within these
SQUARES_LEAST = 9  # nodes; fewer are seen at once in their cards
_PARTS = ("delivered", "queued", "expired", "dropped", "dead")  # of what was accepted, as the ledger has it


def fleet(report: Report) -> str:
    """The nodes as squares, in the order of their names; each is as bad as its worst bridge. Empty for a single node."""
    if len(report.nodes) < 2:
        return ""
    verdicts: dict[str, list[Verdict]] = {node: [] for node in report.nodes}
    for card in report.cards:
        verdicts.setdefault(card.node, []).append(card.verdict)
    states = {node: worst(*found) for node, found in verdicts.items()}
    words = []
    for verdict, word in (
        ("problem", "with a problem"),
        ("attention", "to look at"),
        ("ok", "well"),
        ("none", "without a verdict"),
    ):
        count = sum(state == verdict for state in states.values())
        if count:
            words.append(f"<li>{icon(verdict)}<b>{count:,}</b> {word}</li>")
    if len(states) < SQUARES_LEAST:
        return f'<ul class="tally">{"".join(words)}</ul>'
    squares = "".join(
        f'<li><button type="button" class="square s-{states[node]}" data-node="{markup(node)}" '
        f'title="{markup(node)}: {shown("state", states[node])}"><span class="vh">{markup(node)}: '
        f"{shown('state', states[node])}</span>"
        "</button></li>"
        for node in sorted(states)
    )
    return f'<ul class="tally">{"".join(words)}</ul><ul class="squares" aria-label="Nodes">{squares}</ul>'


def cards(found: Sequence[Card]) -> str:
    """The bridges, worst first; the page's script shows the first few until it is asked for more."""
    first = min(max(sum(card.verdict in ("problem", "attention") for card in found), CARDS_FIRST), CARDS_FIRST_MAX)
    return f'<div class="cards" data-first="{first}">{"".join(_card(card) for card in found)}</div>'


def _card(card: Card) -> str:
    name = card.bridge or "local sessions"
    facts = "".join(
        f"<div><dt>{markup(fact.title)}</dt><dd>{markup(shown(fact.kind, fact.value))}</dd></div>" for fact in card.facts
    )
    when = "" if "as of" in card.summary else f'<p class="as-of">as of {shown("time", card.at_ms)} UTC</p>'
    return (
        f'<article class="card s-{card.verdict}" data-node="{markup(card.node)}"><header><h3><bdi>{markup(name)}</bdi>'
        f'<span class="node"><bdi>{markup(card.node)}</bdi></span></h3>{badge(card.verdict)}</header>'
        f"<p>{markup(card.summary)}</p><dl>{facts}</dl>{when}</article>"
    )


def balance(report: Report) -> str:
    """Accepted = delivered + queued + ..., over all queues; empty where the reconciliation is not in the report, or not whole."""
    section = next((one for one in report.sections if one.name == "reconciliation"), None)
    if section is None or not section.rows or section.rows_total > len(section.rows):
        return ""
    places = {column.name: (at, column.title) for at, column in enumerate(section.columns)}
    if not {"accepted", *_PARTS} <= places.keys():
        return ""
    sums = {name: sum(_count(row[places[name][0]]) for row in section.rows) for name in ("accepted", *_PARTS)}
    return _balance(sums, {name: places[name][1] for name in sums})


def _count(value: Cell) -> int:
    return value if isinstance(value, int) else 0


def _balance(sums: Mapping[str, int], titles: Mapping[str, str]) -> str:
    """The sum in figures, and a bar of what was not delivered: beside what was, nobody would see it."""
    terms = "".join(
        f'<div class="term {name}"><dt>{markup(titles[name])}</dt><dd>{shown("count", value)}</dd></div>'
        for name, value in sums.items()
    )
    rest = sum(sums[name] for name in _PARTS if name != "delivered")
    bar = ""
    if rest > 0:
        pieces, left = [], 0.0
        for name in _PARTS[1:]:
            width = max(sums[name], 0) / rest
            pieces.append(f'<rect class="part {name}" x="{percent(left)}" width="{percent(width)}" height="100%"/>')
            left += width
        bar = (
            f'<p class="rest">The {shown("count", rest)} not delivered</p>'
            f'<svg class="proportion" aria-hidden="true">{"".join(pieces)}</svg>'
        )
    missing = sums["accepted"] - sum(sums[name] for name in _PARTS)
    wrong = f'<p class="wrong">{icon("problem")}The two sides differ by {shown("count", abs(missing))}.</p>' if missing else ""
    return f'<div class="balance{" differs" if missing else ""}"><dl>{terms}</dl>{wrong}{bar}</div>'
