"""Nodes and bridges at a glance: one small square a node, one card a bridge, and where the messages of all of them are."""

from __future__ import annotations

from collections.abc import Sequence

from storage.analysis.page_tables import NUMBERS, badge, icon
from storage.analysis.page_text import markup, shown
from storage.analysis.report_model import Card, Report, Verdict, worst

CARDS_FIRST = 6
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
    return f'<div class="cards" data-first="{CARDS_FIRST}">{"".join(_card(card) for card in found)}</div>'


def _card(card: Card) -> str:
    name = card.bridge or "local sessions"
    facts = "".join(
        f"<div><dt>{markup(fact.title)}</dt><dd>{markup(shown(fact.kind, fact.value))}</dd></div>" for fact in card.facts
    )
    return (
        f'<article class="card s-{card.verdict}" data-node="{markup(card.node)}"><header><h3><bdi>{markup(name)}</bdi>'
        f'<span class="node"><bdi>{markup(card.node)}</bdi></span></h3>{badge(card.verdict)}</header>'
        f'<p>{markup(card.summary)}</p><dl>{facts}</dl><p class="as-of">as of {shown("time", card.at_ms)} UTC</p></article>'
    )


def balance(report: Report) -> str:
    """Accepted = delivered + queued + ..., summed over all cards that know it; empty where none does."""
    sums: dict[str, float] = {}
    titles: dict[str, str] = {}
    for fact in (fact for card in report.cards for fact in card.facts):
        if fact.name in ("accepted", *_PARTS) and fact.kind in NUMBERS and isinstance(fact.value, int | float):
            sums[fact.name] = sums.get(fact.name, 0) + fact.value
            titles.setdefault(fact.name, fact.title)
    if "accepted" not in sums or not any(name in sums for name in _PARTS):
        return ""
    return _balance(sums, titles)


def _balance(sums: dict[str, float], titles: dict[str, str]) -> str:
    """The sum in figures, and a bar of what was not delivered: beside what was, nobody would see it."""
    parts = [name for name in _PARTS if name in sums]
    terms = "".join(
        f'<div class="term {name}"><dt>{markup(titles[name])}</dt><dd>{shown("count", sums[name])}</dd></div>'
        for name in ("accepted", *parts)
    )
    rest = sum(sums[name] for name in parts if name != "delivered")
    bar = ""
    if rest and "delivered" in sums:
        pieces, left = [], 0.0
        for name in parts[1:]:
            width = sums[name] / rest * 100
            pieces.append(f'<rect class="part {name}" x="{left:.3f}%" width="{width:.3f}%" height="100%"/>')
            left += width
        bar = (
            f'<p class="rest">The {shown("count", rest)} not delivered</p>'
            f'<svg class="proportion" aria-hidden="true">{"".join(pieces)}</svg>'
        )
    return f'<div class="balance"><dl>{terms}</dl>{bar}</div>'
