"""Duplicates: messages that may have reached a remote twice, and gaps in the records themselves.

A message that was sent again after a broken connection is a *possible* duplicate at QoS 1 (none at QoS 2: the remote knows its
identifier). Numbers of settlements and of events have no gaps; one that is missing within a snapshot is damage, one missing
between two
snapshots was cut before the newer one was made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from analysis.reports.context import Context
from analysis.reports.report_model import Column, Section
from analysis.reports.report_parts import Made, Mark, collect, plural, table, top, worst_first

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NAME = "duplicates"
_COLUMNS = (
    Column(name="verdict", title="Verdict", kind="state"),
    Column(name="node", title="Node", kind="text"),
    Column(name="queue", title="Queue", kind="text"),
    Column(name="what", title="What", kind="text"),
    Column(name="first", title="First number", kind="count"),
    Column(name="last", title="Last number", kind="count"),
    Column(name="count", title="How many", kind="count"),
    Column(name="last_at", title="Last known", kind="time"),
)


def make(context: Context) -> Made:
    """Sendings beyond the first by queue, and gaps in the numbers of settlements and events."""
    findings = context.found(_findings(context))
    rows, rows_total = top(findings.orderBy(worst_first(), findings["count"].desc(), "node", "queue", "what", "first"))
    kinds = collect(context.sql("SELECT what, sum(count) count FROM {f} GROUP BY 1", f=findings))
    counts = {row["what"]: row["count"] for row in kinds}
    bridges = collect(
        context.sql(
            "SELECT node, bridge, sum(if(what = 'settlements missing', count,"
            " 0)) missing"
            " FROM {f} WHERE what <> 'events missing' GROUP BY 1, 2",
            f=findings,
        )
    )
    missing = counts.get("settlements missing", 0)
    section = Section(
        name=NAME,
        title="Duplicates and gaps",
        question="What may have arrived twice, and is a part of the records missing?",
        verdict="problem" if missing else "attention" if counts.get("events missing") else "ok",
        summary=_summary(counts),
        columns=_COLUMNS,
        rows=table(_COLUMNS, rows),
        rows_total=rows_total,
        notes=(
            "Sendings beyond the first, by the ledgers: duplicates for remotes that had the first. At QoS 2 the remote tells"
            " them apart.",
            "A part of a gap between two snapshots may have been cut by retention before the newer one was made.",
        ),
    )
    marks = {}
    for row in bridges:
        note = f"{plural(row['missing'], 'settlement')} missing" if row["missing"] else ""
        marks[row["node"], row["bridge"]] = Mark(verdict="problem" if row["missing"] else "ok", note=note)
    return Made(sections=(section,), frames={NAME: findings}, marks=marks)


def _findings(context: Context) -> DataFrame:
    """Sendings beyond the first of each queue, and each gap in the numbers."""
    return context.sql(
        f"""
        WITH sent_again AS (
          SELECT node, queue, sum(messages) recent, max(settled_at) last_at FROM {{settlements}}
          WHERE outcome = 'redelivered' AND {context.period.sql("settled_at")} GROUP BY 1, 2),
        numbers AS (
          SELECT DISTINCT node, coalesce(bridge, '') bridge, queue, number, settled_at at FROM {{settlements}}),
        settlement_gaps AS (
          SELECT node, bridge, queue, number, at, lag(number) OVER (PARTITION BY node, queue ORDER BY number) before FROM
            numbers),
        event_gaps AS (
          SELECT node, number, at, lag(number) OVER (PARTITION BY node ORDER BY number) before FROM {{events}}),
        nodes AS (SELECT node, max(snapshot_at) snapshot_at FROM {{queues}} GROUP BY 1),
        found AS (
          SELECT 'ok' verdict, q.node, coalesce(q.bridge, '') bridge, q.queue, 'sent again' what, CAST(NULL AS bigint) first,
                 CAST(NULL AS bigint) last, q.redelivered count, s.last_at
          FROM {{queues}} q LEFT JOIN sent_again s ON q.node = s.node AND q.queue = s.queue WHERE q.redelivered > 0
          UNION ALL
          SELECT 'problem', node, bridge, queue, 'settlements missing', before + 1, number - 1, number - before - 1, at
          FROM settlement_gaps WHERE number > before + 1
          UNION ALL
          SELECT 'attention', node, '', '', 'events missing', before + 1, number - 1, number - before - 1, at
          FROM event_gaps WHERE number > before + 1)
        SELECT to_date(n.snapshot_at) date, f.* FROM found f JOIN nodes n ON f.node = n.node
        """
    )


def _summary(counts: dict[str, int]) -> str:
    again = counts.get("sent again", 0)
    parts = [f"{plural(again, 'sending')} beyond the first" if again else "Nothing was sent twice"]
    for what, one in (("settlements missing", "settlement"), ("events missing", "event")):
        parts.append(f"{plural(counts[what], one)} missing" if counts.get(what) else f"no {one} missing")
    return "; ".join(parts) + "."
