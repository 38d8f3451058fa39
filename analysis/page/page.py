"""A report as one HTML file that needs nothing else: no network, no fonts, no libraries.

Owns the order of the page: what the verdict is, where it comes from, then each report with its plots and tables. Charts are drawn
by ``plots``, tables by ``tables``. Style and script are those of the folder ``page`` with those of ``assets/`` after them. The
page's policy (CSP) allows that style and that script by their hashes, and nothing else; every text of the report is escaped, since
topics and reasons come from anyone.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from functools import cache
from importlib import resources

from analysis.page.fleet import balance, cards, fleet
from analysis.page.plots import plot
from analysis.page.tables import badge, icon, table
from analysis.page.text import markup, script_json, shown
from analysis.reports.report_model import Column, Report, Section, Verdict

_ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 32 32'%3E%3Crect width='32' height='32' rx='7' "
    "fill='%23175a86'/%3E%3Cpath d='M4 23h24M8 23v-5l7-9M24 23v-5l-7-9' fill='none' stroke='white' stroke-width='2.6' "
    "stroke-linecap='round' stroke-linejoin='round'/%3E%3C/svg%3E"
)
_SNAPSHOTS = (
    Column(name="node", title="Node", kind="text"),
    Column(name="at", title="Taken at (UTC)", kind="time"),
    Column(name="newest", title="Used for", kind="text"),
    Column(name="snapshot_id", title="Snapshot", kind="text"),
    Column(name="path", title="Path", kind="text"),
)
_PROBLEMS = (
    Column(name="path", title="Path", kind="text"),
    Column(name="queue", title="Queue", kind="text"),
    Column(name="why", title="Why", kind="text"),
)

LONG_HEADLINE = 70
_BETWEEN_MODULES = re.compile(r"^import .*\n|^export ", re.MULTILINE)
_FIRST_SENTENCE = re.compile(r"([.!?]) (?=[A-Z0-9])")


def render(report: Report) -> str:
    """``report`` as a whole HTML document, to be written as UTF-8."""
    style, script = _style(), _script()
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">'
        f'<meta name="referrer" content="no-referrer"><title>{markup(report.title)}</title><link rel="icon" href="{_ICON}">'
        f"<style>{style}</style></head>\n<body>{_shared('icons.svg')}{_top(report)}"
        f'<div class="layout">{_contents(report)}<main id="main">{_answer(report)}{_nodes(report)}'
        f"{''.join(_section(section) for section in report.sections)}{_left_out(report)}{_snapshots(report)}</main></div>"
        f'{_foot(report)}<script type="module">{script}</script></body></html>\n'
    )


@cache
def _style() -> str:
    return f"{_shared('theme.css')}\n{_own('page.css')}"


@cache
def _script() -> str:
    """All modules as one: what each has of others stands before it, so nothing is left to import."""
    modules = [*(_shared(f"{name}.js") for name in ("dom", "format", "theme", "contents")), _own("page.js")]
    return _BETWEEN_MODULES.sub("", "\n".join(modules))


@cache
def _shared(name: str) -> str:
    return resources.files("page").joinpath(name).read_text(encoding="utf-8").strip()


def _own(name: str) -> str:
    return resources.files("analysis.page").joinpath("assets", name).read_text(encoding="utf-8").strip()


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _top(report: Report) -> str:
    names = "".join(f'<option value="{markup(node)}">' for node in report.nodes)
    choose = (
        f'<label class="choose"><span class="vh">Show one node only</span><input type="search" id="node" list="node-names" '
        f'placeholder="All {len(report.nodes):,} nodes" autocomplete="off" spellcheck="false"></label><datalist '
        f'id="node-names">{names}</datalist>'
        if len(report.nodes) > 1
        else ""
    )
    return (
        '<a class="skip" href="#main">Skip to the answer</a><header class="top"><div class="brand"><svg class="mark" '
        'aria-hidden="true" '
        f'viewBox="0 0 32 32"><use href="#i-mark"/></svg><span>Bascule</span></div><div class="tools">{choose}'
        f"{_shared('themes.html')}</div></header>"
    )


def _contents(report: Report) -> str:
    parts: list[tuple[str, str, Verdict | None]] = [("answer", "The answer", report.verdict)]
    if report.cards:
        parts.append(("nodes-all", "Bridges" if len(report.nodes) < 2 else "Nodes and bridges", None))
    parts += [(f"r-{section.name}", section.title, section.verdict) for section in report.sections]
    if report.problems:
        parts.append(("left-out", "Left out", "attention"))
    parts.append(("snapshots", "Snapshots", None))
    items = "".join(_item(anchor, title, verdict) for anchor, title, verdict in parts)
    return f'<nav class="contents" aria-label="Contents"><ol>{items}</ol></nav>'


def _item(anchor: str, title: str, verdict: Verdict | None) -> str:
    sign, spoken = (icon(verdict), f'<span class="vh"> ({shown("state", verdict)})</span>') if verdict else ("<i></i>", "")
    return f'<li><a href="#{markup(anchor)}">{sign}<span>{markup(title)}</span>{spoken}</a></li>'


def _answer(report: Report) -> str:
    """The headline's first sentence large, the others below; then why, with links to the sections that say so."""
    first, _, more = _FIRST_SENTENCE.sub(r"\1\n", report.headline, count=1).partition("\n")
    size = ' class="long"' if len(first) > LONG_HEADLINE else ""
    lead = f'<p class="lead">{markup(more)}</p>' if more else ""
    told = [section for section in report.sections if section.verdict in ("problem", "attention")]
    told.sort(key=lambda section: section.verdict != "problem")
    reasons = "".join(
        f'<li>{icon(section.verdict)}<div><a href="#r-{markup(section.name)}">{markup(section.title)}</a>: '
        f"<span>{markup(section.summary)}</span></div></li>"
        for section in told
    )
    fine = ", ".join(
        f'<a href="#r-{markup(one.name)}">{markup(one.title.lower())}</a>' for one in report.sections if one.verdict == "ok"
    )
    good = f'<li class="fine">{icon("ok")}<div>{"In order" if told else "Looked at"}: {fine}.</div></li>' if fine else ""
    return (
        f'<section class="answer s-{report.verdict}" id="answer" aria-labelledby="headline"><p '
        f'class="eyebrow">{markup(report.title)}'
        f'<span class="period">{_period(report)}</span></p>'
        f'<div class="headline">{icon(report.verdict)}<h1 id="headline"{size}>{markup(first)}</h1></div>{lead}'
        f'{balance(report)}<ul class="reasons">{reasons}{good}</ul></section>'
    )


def _period(report: Report) -> str:
    """Of how many, from when to when."""
    nodes, snapshots = len(report.nodes), len(report.snapshots)
    words = f"{nodes:,} node{'' if nodes == 1 else 's'}, {snapshots:,} snapshot{'' if snapshots == 1 else 's'}"
    since = report.since_ms if report.since_ms is not None else min((one.at_ms for one in report.snapshots), default=None)
    until = report.until_ms if report.until_ms is not None else max((one.at_ms for one in report.snapshots), default=None)
    if since is None or until is None:
        return words
    first, last = shown("time", since)[:16], shown("time", until)[:16]
    return f"{words}, {f'{first} to {last}' if first != last else first} UTC"


def _nodes(report: Report) -> str:
    if not report.cards:
        return ""
    return (
        f'<section class="nodes" id="nodes-all" aria-labelledby="nodes"><h2 '
        f'id="nodes">{"Nodes and bridges" if len(report.nodes) > 1 else "Bridges"}</h2>'
        f"{fleet(report)}{cards(report.cards)}</section>"
    )


def _section(section: Section) -> str:
    name = markup(section.name)
    plots = [plot(chart, f"p-{name}-{at}") for at, chart in enumerate(section.charts)]
    figures = {f"p-{section.name}-{at}": one.figures for at, one in enumerate(plots) if one.figures is not None}
    data = f'<script type="application/json" class="figures">{script_json(figures)}</script>' if figures else ""
    charts = f'<div class="plots n{min(len(plots), 3)}">{"".join(one.html for one in plots)}</div>{data}' if plots else ""
    rows = table(f"t-{name}", section.title, section.columns, section.rows, section.rows_total) if section.rows else ""
    notes = f'<ul class="notes">{"".join(f"<li>{markup(note)}</li>" for note in section.notes)}</ul>' if section.notes else ""
    return (
        f'<section class="report" id="r-{name}" aria-labelledby="h-{name}"><header><h2 id="h-{name}">{markup(section.title)}</h2>'
        f'{badge(section.verdict) if section.verdict != "none" else ""}<p class="question">{markup(section.question)}</p></header>'
        f'<p class="summary">{markup(section.summary)}</p>{charts}{rows}{notes}</section>'
    )


def _left_out(report: Report) -> str:
    if not report.problems:
        return ""
    rows = [(problem.path, problem.queue or "whole snapshot", problem.why) for problem in report.problems]
    return (
        f'<section class="report" id="left-out" aria-labelledby="h-left-out"><header><h2 id="h-left-out">Left out'
        f"</h2>{badge('attention')}"
        '<p class="question">What could not be read?</p></header><p class="summary">These were skipped, as you chose. The '
        "figures above "
        f"are without them.</p>{table('t-left-out', 'Left out', _PROBLEMS, rows, len(rows))}</section>"
    )


def _snapshots(report: Report) -> str:
    rows = [
        (one.node, one.at_ms, "state and history" if one.newest else "history", one.snapshot_id, one.path)
        for one in report.snapshots
    ]
    return (
        '<section class="report" id="snapshots" aria-labelledby="h-snapshots"><header><h2 id="h-snapshots">Snapshots</h2>'
        '<p class="question">What was this report made of?</p></header>'
        f"{table('t-snapshots', 'Snapshots', _SNAPSHOTS, rows, len(rows)) if rows else '<p class=summary>None.</p>'}</section>"
    )


def _foot(report: Report) -> str:
    made: Sequence[str] = (f"Made {shown('time', report.made_at_ms)} UTC.", "Times are UTC unless a title says otherwise.")
    return f'<footer class="foot"><p>{" ".join(made)} This file is complete: it asks no server for anything.</p></footer>'
